"""``mx.onnx.mx2onnx``: MXNet's functions that write models of ONNX."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from hybridc.dialects import operator_registry
from hybridc.errors import ArgumentTypeError, AttributeValueError
from hybridc.ground.nesting import as_list
from hybridc.interchange.onnx.writing.model_file import OPSET, ModelOptions
from hybridc.interchange.onnx.writing.network_model import export_block as _export_block
from hybridc.interchange.onnx.writing.network_model import export_symbol
from hybridc.interchange.onnx.writing.translate import can_write
from hybridc.symbol.checkpoint import load_arrays
from hybridc.symbol.composed import ComposedSymbol, load

__all__ = ["export_model", "get_operator_support"]

Shapes = Sequence[tuple[int, ...]]


def export_model(
    sym: Any,
    params: Any,
    in_shapes: Shapes | None = None,
    in_types: Any = np.float32,
    onnx_file_path: str | os.PathLike[str] = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Sequence[Sequence[int | str | None]] | None = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Shapes | None = None,
    opset: int = OPSET,
    own_domain: bool = False,
    external_data: bool | None = None,
) -> str | os.PathLike[str]:
    """Write a symbol with its parameters as a model of ONNX; the name of the file.

    Raises: MissingPackageError without the package onnx, OnnxExportError where ONNX cannot say what an operator does.

    Parameters
    ----------
    sym:
        A symbol, or the name of its file; then ``params`` is one, too.
    params:
        A dict of arrays by name, a list of two (arguments, and auxiliary states), or the name of their file.
    in_shapes:
        The shapes of the inputs that are no parameters, in their order.
    in_types:
        Their dtypes in the same order, or one that is that of all.
    onnx_file_path:
        The file to write.
    verbose:
        Whether the log tells how many nodes were written.
    dynamic:
        Whether the sizes of inputs may vary: those of ``dynamic_input_shapes``, or all that the network lets vary.
    dynamic_input_shapes:
        A shape for each input, in which a size that may vary is None or a name.
    run_shape_inference:
        Whether ONNX's shape inference adds the shapes of all values to the file.
    input_type, input_shape:
        MXNet's old names of ``in_types`` and ``in_shapes``.
    opset:
        The version of ONNX's operators, from 13 on.
    own_domain:
        Whether opaque operators of yours are written as nodes of a domain of their own, which another engine must
        be taught; else they are an OnnxExportError.
    external_data:
        Whether parameters go into a file of their own beside it, whose name ends in ``.data``; None does so with
        more than 2 GB.
    """
    shapes = in_shapes if input_shape is None else input_shape
    types = in_types if input_type is None else input_type
    symbol, values = _loaded(sym, params)
    if shapes is None:
        raise AttributeValueError("export_model: give in_shapes, the shapes of the inputs that are no parameters")
    dtypes: list[Any] = as_list(types) if isinstance(types, list | tuple) else [types] * len(shapes)
    if len(dtypes) != len(shapes):
        raise AttributeValueError(
            f"export_model: in_types has {len(dtypes)} types for the {len(shapes)} shapes of in_shapes"
        )
    axes = _dynamic_axes(shapes, dynamic_input_shapes) if dynamic else []
    options = ModelOptions(opset, own_domain, {}, external_data, run_shape_inference)
    model = export_symbol(
        symbol, values, shapes, dtypes, onnx_file_path, options, axes, asked=dynamic_input_shapes is not None
    )
    if verbose:
        logging.getLogger().info("Exported ONNX file %s: %d nodes", onnx_file_path, len(model.graph.node))
    return onnx_file_path


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """MXNet's names of the operators that can be written, sorted.

    Parameters
    ----------
    opset_version:
        The version of ONNX's operators, from 13 on; None is the default.
    """
    ModelOptions(OPSET if opset_version is None else opset_version)
    return sorted(cls.nnvm_name() for cls in operator_registry.operators().values() if can_write(cls))


def export_block(
    block: Any,
    path: str | os.PathLike[str],
    args: Sequence[Any],
    opset: int | None,
    dynamic_axes: Mapping[str, Any],
    own_domain: bool,
    external_data: bool | None,
) -> None:
    """What ``export_onnx`` of a block does.

    Parameters
    ----------
    block:
        The block; it is traced with ``args``.
    path:
        The file to write.
    args:
        Arrays as in a call, or shapes.
    opset:
        The version of ONNX's operators, from 13 on; None is the default.
    dynamic_axes:
        The axes that may vary: for each input's name, axes, or a dict of their names.
    own_domain:
        Whether opaque operators of yours are written as nodes of a domain of their own, which another engine must
        be taught; else they are an OnnxExportError.
    external_data:
        Whether parameters go into a file of their own beside it, whose name ends in ``.data``; None does so with
        more than 2 GB.
    """
    options = ModelOptions(OPSET if opset is None else opset, own_domain, {}, external_data)
    _export_block(block, path, args, dynamic_axes, options)


def _loaded(sym: Any, params: Any) -> tuple[ComposedSymbol, dict[str, Any]]:
    """The symbol and its arrays by name."""
    kinds = f"{type(sym).__name__} and {type(params).__name__}"
    if isinstance(sym, str | os.PathLike) and isinstance(params, str | os.PathLike):
        arguments, states = load_arrays(os.fspath(cast("str", params)))
        return load(os.fspath(sym)), {**arguments, **states}
    if isinstance(sym, ComposedSymbol) and isinstance(params, dict | list | tuple):
        parts = cast("list[dict[str, Any]]", as_list(params) if isinstance(params, list | tuple) else [params])
        return sym, {name: array for part in parts for name, array in part.items()}
    raise ArgumentTypeError(
        f"export_model takes a symbol and a dict of its arrays, or the names of the files of both; got {kinds}"
    )


def _dynamic_axes(shapes: Shapes, given: Sequence[Sequence[int | str | None]] | None) -> list[dict[int, str]]:
    """The names of each input's dynamic axes: "" for those without; all axes, if none are given."""
    if given is None:
        return [dict.fromkeys(range(len(shape)), "") for shape in shapes]
    return [{axis: n or "" for axis, n in enumerate(sizes) if n is None or isinstance(n, str)} for sizes in given]
