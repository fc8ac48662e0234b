"""``mx.nd.CachedOp``: a composed symbol as a function of arrays; and the compiled graphs of a symbol."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.compile.compiled_graph import CompiledGraph
from hybridc.compile.stages import Traced
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.operator_registry import Attached, Revision
from hybridc.errors import ArgumentTypeError, MXNetError, ShapeError
from hybridc.ground.debug import compiling
from hybridc.ground.locks import ForkLock
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE
from hybridc.options import OPTIONS
from hybridc.symbol import graph
from hybridc.symbol.bind import to_trace
from hybridc.symbol.graph import Entry

__all__ = ["CachedOp"]


class SymbolGraphs:
    """The compiled graphs of a symbol, by signature: all its executors share them, and they are freed with it.

    ``HYBRIDC_CACHE_ENTRIES`` of them are kept; the least recently used goes first.
    """

    def __init__(self) -> None:
        self._graphs: OrderedDict[Any, CompiledGraph] = OrderedDict()
        self._lock = ForkLock()

    def compiled(
        self,
        entries: Sequence[Entry],
        shapes: Mapping[str, Shape],
        dtypes: Mapping[str, DType],
        training: bool,
        differentiated: Collection[str],
        who: str,
        reason: str,
    ) -> CompiledGraph:
        """The graph of these results, with a backward for the ``differentiated`` inputs; ``who`` runs it."""
        signature = training, frozenset(differentiated), tuple(shapes.items()), tuple(dtypes.items())
        key = graph.structure(entries), signature, Revision.number, Attached.changes
        with self._lock.current:
            found = self._graphs.get(key)
            if found is None:
                compiling(who, reason, first=not self._graphs)
                trace = to_trace(entries, shapes, dtypes, training)
                grads = tuple(i for i, leaf in enumerate(trace.leaves) if leaf.name in differentiated)
                found = self._graphs[key] = Traced(trace, grads).graph()
                while len(self._graphs) > OPTIONS.cache_entries:
                    self._graphs.popitem(last=False)
            self._graphs.move_to_end(key)
        return found


class CachedOp:
    """Calls a symbol on NDArrays in the order of ``mx.sym.Symbol.list_inputs``; autograd records the call.

    Auxiliary states are updated in place. ``flags`` are MXNet's options of memory and order, which change nothing.
    """

    def __init__(self, sym: Any, flags: Sequence[tuple[str, Any]] = (), thread_safe: bool = False) -> None:
        self._symbol = type(sym)(graph.owned(sym.entries))
        self._names: list[str] = sym.list_inputs()
        self._first: str = sym.list_outputs()[0]
        self._graphs = SymbolGraphs()

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """The outputs: one, or a list; written into ``out``, an array or a list of them, if it is not None."""
        if len(args) != len(self._names):
            raise MXNetError(f"CachedOp: {len(args)} arrays for {len(self._names)} inputs: {', '.join(self._names)}")
        for name, x in zip(self._names, args, strict=True):
            if not isinstance(x, NDArray):
                raise ArgumentTypeError(f"CachedOp: {name} must be an NDArray, got {type(x).__name__}")
        inputs = dict(zip(self._names, args, strict=True))
        compiled = self._compiled(inputs)
        results = as_list(
            compiled.run(
                [
                    compiled.trace.random_key() if role == "key" else inputs[leaf.name]
                    for leaf, role in zip(compiled.trace.leaves, compiled.trace.roles, strict=True)
                ]
            )
        )
        if out is not None:
            _write(results, as_list(out))
            return out
        return results[0] if len(results) == 1 else list(results)

    def _compiled(self, inputs: dict[str, NDArray]) -> CompiledGraph:
        """The graph for these shapes and dtypes, with a backward for the inputs that are on the tape."""
        shapes = {name: x.shape for name, x in inputs.items()}
        dtypes = {name: x.asnative().dtype for name, x in inputs.items()}
        taped = [name for name, x in inputs.items() if STATE.recording and x._entry is not None]
        who, reason = f"the CachedOp of {self._first}", "it is called with this signature for the first time"
        return self._graphs.compiled(self._symbol.entries, shapes, dtypes, STATE.training, taped, who, reason)


def _write(results: Sequence[NDArray], targets: Sequence[NDArray]) -> None:
    if len(results) != len(targets) or any(r.shape != t.shape for r, t in zip(results, targets, strict=True)):
        want, got = [r.shape for r in results], [t.shape for t in targets]
        raise ShapeError(f"CachedOp: out must be arrays of shapes {want}, one an output, got {got}")
    for result, target in zip(results, targets, strict=True):
        target[:] = result
