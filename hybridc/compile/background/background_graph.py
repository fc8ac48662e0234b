"""A graph that is compiled in the background; until it is there, calls run its trace operator by operator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from hybridc.array.ndarray import NDArray, at, recorded_copy
from hybridc.compile.background.compiler_process import BACKGROUND
from hybridc.compile.compiled_graph import CompiledGraph, put_back, replay
from hybridc.compile.stages import Traced
from hybridc.context import working_on
from hybridc.ground.compiler_output import compiling
from hybridc.ground.location import user_depth
from hybridc.ground.locks import UPDATES
from hybridc.ground.nesting import regroup
from hybridc.ground.serialize import NotWritable
from hybridc.ground.state import STATE


def background_graph(traced: Traced) -> CompiledGraph | BackgroundGraph:
    """The graph of a trace from the disk cache, or one that is compiled in the background from now on.

    What cannot be compiled there is compiled now, with a warning.
    """
    stored = traced.stored()
    if stored is not None:
        return stored
    try:
        return BackgroundGraph(traced)
    except NotWritable as missing:
        return _compiled_here(traced, f"another process cannot compile {missing}")


def _compiled_here(traced: Traced, reason: str) -> CompiledGraph:
    """The graph, compiled by this call."""
    name = traced.trace.name.rpartition("-")[0]
    compiling(name, f"it was not compiled in the background: {reason}")
    warnings.warn(f"{name} is compiled by this call, not in the background: {reason}", stacklevel=user_depth())
    return traced.graph()


class BackgroundGraph:
    """Runs the operators of a trace one by one, as long as its graph is being compiled."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._trace = traced.trace
        self._compilation = BACKGROUND.compile(traced)

    @property
    def is_lost(self) -> bool:
        """Whether this process was forked during the compilation, so that only its parent receives the graph."""
        return self._compilation.is_lost

    def latest(self) -> CompiledGraph | BackgroundGraph:
        """The compiled graph, if it is there, else this one; compiled now, with a warning, if that failed."""
        if not self._compilation.is_over:
            return self
        if failure := self._compilation.failure:
            return _compiled_here(self._traced, failure)
        graph = self._traced.stored()
        if graph is None:
            return _compiled_here(self._traced, "it is not in the cache folder any more")
        graph.origin = "compiled in the background"
        return graph

    def wait(self, seconds: float | None) -> bool:
        """Wait until the compilation is over, but not longer than so many seconds; whether it is."""
        return self._compilation.wait(seconds)

    def run(self, inputs: Sequence[NDArray]) -> Any:
        """As :meth:`CompiledGraph.run`: on NDArrays for all inputs; if autograd records, it records each operator."""
        arrays = [x._data for x in inputs]
        with working_on(self._trace.context), UPDATES.held([arrays[i] for i in self._trace.updates]):
            results = replay(self._trace, self._unchanged(inputs))
            visible = len(results) - len(self._trace.updates)
            put_back(arrays, self._trace.updates, [y._data for y in results[visible:]])
        return regroup(at(self._trace.context, _own(results[:visible], arrays)), self._trace.structure)

    def _unchanged(self, inputs: Sequence[NDArray]) -> Sequence[NDArray]:
        """The inputs; while autograd records, copies of those that are updated: a gradient sees what a forward saw."""
        if not (STATE.recording and self._trace.updates):
            return inputs
        updates = set(self._trace.updates)
        return [_copy_of_values(x) if i in updates else x for i, x in enumerate(inputs)]


def _copy_of_values(x: NDArray) -> NDArray:
    copy = x._like(x._data.copy())
    copy._entry = x._entry
    return copy


def _own(results: Sequence[NDArray], inputs: Sequence[Any]) -> list[NDArray]:
    """The results as arrays of their own, which users may change: copies of views, and of what is there already."""
    known = {id(array) for array in inputs}
    own: list[NDArray] = []
    for y in results:
        if y._data.base is not None or id(y._data) in known:
            y = recorded_copy(y, y._like(y._data.copy()))
        known.add(id(y._data))
        own.append(y)
    return own
