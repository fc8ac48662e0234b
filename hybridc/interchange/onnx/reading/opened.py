"""``hybridc.onnx.load``: an ONNX model as a block."""

from __future__ import annotations

import os
from typing import Any

from hybridc.interchange.onnx.reading.onnx_block import OnnxBlock
from hybridc.interchange.onnx.reading.read_model import read_model


def load(model: str | os.PathLike[str] | bytes | Any, ctx: Any = None) -> OnnxBlock:
    """The network in an ONNX file as a block.

    It is called with its inputs in their order, or by their names; ``input_names`` and ``output_names`` list them.
    ``hybridize()`` compiles it at the first call of each size. Loading runs no code of the file. Raises OnnxFileError
    for a file that is damaged or contradicts itself, OnnxUnsupportedError for what hybridc does not have.

    Parameters
    ----------
    model:
        The path of the file, its bytes, or a ``ModelProto``.
    ctx:
        The device of the parameters, or a list of devices; None is the current one.
    """
    return OnnxBlock(read_model(model), ctx)
