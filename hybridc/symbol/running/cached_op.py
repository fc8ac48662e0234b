"""``mx.nd.CachedOp``: a composed symbol as a function of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.errors import ArgumentTypeError, MXNetError, ShapeError
from hybridc.ground.nesting import as_list
from hybridc.symbol import graph
from hybridc.symbol.running.sparse_graphs import SparseGraphs
from hybridc.symbol.running.symbol_graphs import SymbolGraphs

__all__ = ["CachedOp"]


class CachedOp:
    """Calls a symbol on NDArrays in the order of ``mx.sym.Symbol.list_inputs``; autograd records the call.

    Auxiliary states are updated in place. ``flags`` are MXNet's options of memory and order, which change nothing.
    """

    def __init__(self, sym: Any, flags: Sequence[tuple[str, Any]] = (), thread_safe: bool = False) -> None:
        self._symbol = type(sym)(graph.owned(sym.entries))
        self._names: list[str] = sym.list_inputs()
        self._who = f"the CachedOp of {sym.list_outputs()[0]}"
        self._graphs = SymbolGraphs()
        self._sparse = SparseGraphs(self._symbol.entries, self._graphs, self._who)

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """The outputs: one, or a list; written into ``out``, an array or a list of them, if it is not None."""
        if len(args) != len(self._names):
            raise MXNetError(f"CachedOp: {len(args)} arrays for {len(self._names)} inputs: {', '.join(self._names)}")
        for name, x in zip(self._names, args, strict=True):
            if not isinstance(x, NDArray):
                raise ArgumentTypeError(f"CachedOp: {name} must be an NDArray, got {type(x).__name__}")
        inputs = dict(zip(self._names, args, strict=True))
        if any(x.stype != "default" for x in args):
            results = self._sparse(inputs)
        else:
            results = self._graphs.run(self._symbol.entries, inputs, self._who)
        if out is not None:
            _write(results, as_list(out))
            return out
        return results[0] if len(results) == 1 else list(results)


def _write(results: Sequence[NDArray], targets: Sequence[NDArray]) -> None:
    if len(results) != len(targets) or any(r.shape != t.shape for r, t in zip(results, targets, strict=True)):
        want, got = [r.shape for r in results], [t.shape for t in targets]
        raise ShapeError(f"CachedOp: out must be arrays of shapes {want}, one an output, got {got}")
    for result, target in zip(results, targets, strict=True):
        target[:] = result
