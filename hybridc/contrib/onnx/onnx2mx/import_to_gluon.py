"""An ONNX file as a Gluon block."""

from __future__ import annotations

from typing import Any

from hybridc import onnx


def import_to_gluon(model_file: Any, ctx: Any) -> Any:
    """The block of a file on a device, see :func:`hybridc.onnx.import_to_gluon`.

    Parameters
    ----------
    model_file:
        The path of the file, its bytes, or a ``ModelProto``.
    ctx:
        The device of the parameters, or a list of devices.
    """
    return onnx.import_to_gluon(model_file, ctx)
