"""ONNX files in the forms of MXNet's importer: a symbol with its arrays, a Gluon block, what a file declares."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import os
import warnings
from typing import Any

from onnx import defs, helper

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.compile.stages import trace_block
from hybridc.errors import OnnxUnsupportedError
from hybridc.gluon.export import of_trace
from hybridc.interchange.onnx.reading.model_graph import TensorInfo
from hybridc.interchange.onnx.reading.onnx_block import OnnxBlock
from hybridc.interchange.onnx.reading.read_model import read_model

Path = str | os.PathLike[str] | Any  # or a ModelProto


def model_of_graph(graph: Any, version: int | None = None) -> Any:
    """A ``ModelProto`` of a ``GraphProto``.

    Parameters
    ----------
    graph:
        The ``GraphProto``.
    version:
        That of the operator set; None is the newest that the package onnx knows.
    """
    opsets = [helper.make_opsetid("", version or defs.onnx_opset_version())]
    return helper.make_model(graph, opset_imports=opsets)


def import_to_gluon(model_file: Path, ctx: Any = None) -> OnnxBlock:
    """The network in an ONNX file; its float initializers are parameters with gradients.

    Parameters
    ----------
    model_file:
        The path of the file, its bytes, or a ``ModelProto``.
    ctx:
        The device of the parameters, or a list of devices; None is the current one.
    """
    return OnnxBlock(read_model(model_file), ctx)


def import_model(model_file: Path) -> tuple[Any, dict[str, NDArray], dict[str, NDArray]]:
    """The network in an ONNX file as a symbol, with its arguments and its auxiliary states by their names.

    The symbol is for the sizes that the file declares; an open first size is 1, with a warning. A file with other open
    sizes raises OnnxUnsupportedError: :func:`import_to_gluon` takes it.

    Parameters
    ----------
    model_file:
        The path of the file, its bytes, or a ``ModelProto``.
    """
    # COMPAT(mxnet): there the symbol is for all sizes, and so are few operators.
    block = OnnxBlock(read_model(model_file))
    arrays = [_sample(x) for x in block.declared_inputs]
    symbol, captured = of_trace(block, trace_block(block, arrays, False).trace, block.input_names)
    values = {name: p.data() for name, p in block.collect_params().items()} | captured
    arguments = {name: values[name] for name in symbol.list_arguments() if name in values}
    states = {name: values[name] for name in symbol.list_auxiliary_states() if name in values}
    return symbol, arguments, states


def _sample(x: TensorInfo) -> NDArray:
    """An array of the sizes that the file declares."""
    sizes = [1 if i == 0 and not isinstance(n, int) else n for i, n in enumerate(x.sizes or (None, None))]
    if x.kind != "tensor" or x.dtype is None or any(not isinstance(n, int) for n in sizes):
        raise OnnxUnsupportedError(
            f"import_model makes a symbol for the sizes that a file declares, and its input {x.name!r} has {x.sizes}; "
            "use import_to_gluon or hybridc.onnx.load, whose block takes all sizes"
        )
    if x.sizes and not isinstance(x.sizes[0], int):
        warnings.warn(
            f"the symbol is for inputs {x.name!r} of the first size 1, as the file leaves it open", stacklevel=4
        )
    return nd.zeros(tuple(n for n in sizes if isinstance(n, int)), dtype=x.dtype)


def get_model_metadata(model_file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What an ONNX file declares: names, shapes and dtypes of its inputs, and names and shapes of its outputs.

    Under ``input_tensor_data`` and ``output_tensor_data``; an open size is 0, and a dtype is ONNX's number of it.

    Parameters
    ----------
    model_file:
        The path of the file, its bytes, or a ``ModelProto``.
    """
    model = read_model(model_file)
    inputs = [(x.name, _shape(x), x.element) for x in model.free_inputs()]
    return {"input_tensor_data": inputs, "output_tensor_data": [(x.name, _shape(x)) for x in model.graph.outputs]}


def _shape(x: TensorInfo) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else 0 for n in x.sizes or ())
