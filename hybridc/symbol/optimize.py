"""``Symbol.optimize_for``: let a backend partition and rewrite a composed graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hybridc.array.ndarray import NDArray
from hybridc.dialects.mlir.graph_notes import SYMBOL
from hybridc.errors import MXNetError
from hybridc.ir.values import functions
from hybridc.subgraph import backend_steps
from hybridc.subgraph.partition_graph import PartitionGraph
from hybridc.symbol.infer import Shapes, Types
from hybridc.symbol.symbol_to_graph import Origins, convert, graph_to_symbol

if TYPE_CHECKING:
    from hybridc.symbol.composed import ComposedSymbol

_FLOAT32 = np.dtype(np.float32)


def optimize_for(
    symbol: ComposedSymbol,
    backend: str,
    args: Any,
    aux: Any,
    shape_dict: Mapping[str, Any] | None,
    type_dict: Mapping[str, Any] | None,
    skip_infer: bool,
    options: Mapping[str, Any],
) -> ComposedSymbol:
    """A new symbol, in which the backend has its parts of the graph."""
    inputs = symbol.list_inputs()
    for kind, given in (("shape_dict", shape_dict), ("type_dict", type_dict)):
        unknown = sorted((given or {}).keys() - set(inputs))
        if unknown:
            raise MXNetError(
                f"optimize_for: {kind} names {unknown[0]!r}, which is no input; the inputs are {', '.join(inputs)}"
            )
    for name, step in backend_steps(backend):
        arrays = {
            **_arrays("args", args, symbol.list_arguments()),
            **_arrays("aux", aux, symbol.list_auxiliary_states()),
        }
        if hasattr(step, "symbol"):  # it rewrites symbols, and may make arrays, which are added to args and aux
            symbol = step.symbol(symbol, options, args, aux)
            continue
        shapes = {**(shape_dict or {}), **{n: a.shape for n, a in arrays.items()}}
        dtypes = {**(type_dict or {}), **{n: a.dtype for n, a in arrays.items()}}
        module, origins = _module(symbol, {} if skip_infer else shapes, {} if skip_infer else dtypes)
        PartitionGraph(backend, options, arrays).apply_step(Context(), module, name, step)
        symbol = type(symbol)(graph_to_symbol(module, origins))
    return symbol


def _module(symbol: ComposedSymbol, shapes: Mapping[str, Any], dtypes: Mapping[str, Any]) -> tuple[ModuleOp, Origins]:
    """The graph as a module, and where it comes from; given names that it lacks are left out."""
    names = set(symbol.list_inputs())
    module, origins = convert(
        symbol.entries,
        Shapes(symbol.entries, {k: v for k, v in shapes.items() if k in names}, "optimize_for"),
        Types(symbol.entries, {k: v for k, v in dtypes.items() if k in names}, _FLOAT32, "optimize_for"),
    )
    SYMBOL.put(functions(module)[0], True)
    return module, origins


def _arrays(what: str, given: Any, names: list[str]) -> dict[str, NDArray]:
    """Arrays by name, from a dict or from a list in the order of the names."""
    if given is None:
        return {}
    found: dict[str, Any] = dict(given if hasattr(given, "keys") else zip(names, given, strict=False))
    for name, array in found.items():
        if not isinstance(array, NDArray):
            raise MXNetError(f"optimize_for: {what}[{name!r}] must be an NDArray, got {type(array).__name__}")
    return found
