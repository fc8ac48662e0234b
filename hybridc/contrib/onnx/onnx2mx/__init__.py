"""``mx.contrib.onnx.onnx2mx``: the modules of MXNet's importer."""

from hybridc.contrib.onnx.onnx2mx import import_model, import_onnx, import_to_gluon

__all__ = ["import_model", "import_onnx", "import_to_gluon"]
