"""``mx.onnx``: networks as ONNX files, and ONNX files as networks.

``pip install hybridc[onnx]`` brings the package that it needs.
"""

from hybridc.interchange.onnx.writing import mx2onnx as mx2onnx
from hybridc.interchange.onnx.writing.mx2onnx import export_block as export_block
from hybridc.interchange.onnx.writing.mx2onnx import export_model, get_operator_support

__all__ = ["export_model", "get_operator_support", "mx2onnx"]
