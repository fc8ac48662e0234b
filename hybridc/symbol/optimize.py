"""``Symbol.optimize_for``: let a backend partition and rewrite a composed graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import UnitAttr

from hybridc.errors import MXNetError
from hybridc.nd.ndarray import NDArray
from hybridc.symbol import graph
from hybridc.symbol.composed import ComposedSymbol
from hybridc.symbol.graph_to_symbol import graph_to_symbol
from hybridc.symbol.infer import Shapes, Types
from hybridc.symbol.symbol_to_graph import convert
from hybridc.transforms.partition_graph import PartitionGraph
from hybridc.transforms.values import functions

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
    arrays = {
        **_arrays("args", args, symbol.list_arguments()),
        **_arrays("aux", aux, symbol.list_auxiliary_states()),
    }
    names = [n.name for n in graph.variables(symbol.entries)]
    shapes = {**(shape_dict or {}), **{n: a.shape for n, a in arrays.items()}}
    dtypes = {**(type_dict or {}), **{n: a.dtype for n, a in arrays.items()}}
    for kind, given in (("shape_dict", shape_dict), ("type_dict", type_dict)):
        unknown = sorted((given or {}).keys() - set(names))
        if unknown:
            raise MXNetError(
                f"optimize_for: {kind} names {unknown[0]!r}, which is no input; the inputs are {', '.join(names)}"
            )
    if skip_infer:
        shapes, dtypes = {}, {}
    module, origins = convert(
        symbol.entries,
        Shapes(symbol.entries, {k: v for k, v in shapes.items() if k in names}, "optimize_for"),
        Types(symbol.entries, {k: v for k, v in dtypes.items() if k in names}, _FLOAT32, "optimize_for"),
    )
    functions(module)[0].attributes["hybrid.symbol"] = UnitAttr()  # its train mode is not known yet
    PartitionGraph(backend, options, arrays).apply(Context(), module)
    return ComposedSymbol(graph_to_symbol(module, origins))


def _arrays(what: str, given: Any, names: list[str]) -> dict[str, NDArray]:
    """Arrays by name, from a dict or from a list in the order of the names."""
    if given is None:
        return {}
    found: dict[str, Any] = dict(given if hasattr(given, "keys") else zip(names, given, strict=False))
    for name, array in found.items():
        if not isinstance(array, NDArray):
            raise MXNetError(f"optimize_for: {what}[{name!r}] must be an NDArray, got {type(array).__name__}")
    return found
