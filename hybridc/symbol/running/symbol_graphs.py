"""The compiled graphs of a composed symbol, which its executors and all that calls it share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.compile.compiled_graph import CompiledGraph
from hybridc.compile.stages import Traced
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.operator_registry import Attached, Revision
from hybridc.ground.compiler_output import compiling
from hybridc.ground.locks import ForkLock
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE
from hybridc.options import OPTIONS
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry
from hybridc.symbol.running.bind import to_trace
from hybridc.trace.tracer import Trace


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
            compiled = self._graphs.get(key)
            if compiled is None:
                compiling(who, reason, first=not self._graphs)
                trace = to_trace(entries, shapes, dtypes, training)
                grads = tuple(i for i, leaf in enumerate(trace.leaves) if leaf.name in differentiated)
                compiled = self._graphs[key] = Traced(trace, grads).graph()
                while len(self._graphs) > OPTIONS.cache_entries:
                    self._graphs.popitem(last=False)
            self._graphs.move_to_end(key)
        return compiled

    def run(self, entries: Sequence[Entry], inputs: Mapping[str, NDArray], who: str) -> list[NDArray]:
        """These results for arrays by the names of the variables, in the present mode; autograd records the run."""
        shapes = {name: x.shape for name, x in inputs.items()}
        dtypes = {name: x._data.dtype for name, x in inputs.items()}
        taped = [name for name, x in inputs.items() if STATE.recording and x._entry is not None]
        reason = "it is called with this signature for the first time"
        compiled = self.compiled(entries, shapes, dtypes, STATE.training, taped, who, reason)
        return as_list(compiled.run(of_trace(compiled.trace, inputs)))


def of_trace(trace: Trace, inputs: Mapping[str, NDArray]) -> list[NDArray]:
    """The arrays for the inputs of a trace of a symbol, of those for its variables by name."""
    return [
        trace.random_key() if role == "key" else source if role == "capture" else inputs[leaf.name]
        for leaf, role, source in zip(trace.leaves, trace.roles, trace.sources, strict=True)
    ]
