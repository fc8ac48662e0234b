"""Recorded calls of compiled graphs: what the tape asks for gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.nd.ndarray import NDArray, wrap
from hybridc.runtime.state import STATE
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.runtime.compiled_graph import CompiledGraph


class RecordedCall:
    """One recorded call of a graph: what the tape asks for gradients. It owns the call's workspace until freed."""

    def __init__(self, graph: CompiledGraph, workspace: Any, arrays: list[Any], results: Sequence[Any]) -> None:
        self.graph = graph
        self.workspace = workspace
        self.values = [*arrays, *results]

    def vjp(
        self,
        F: Any,
        ograds: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        into: Sequence[Any],
    ) -> Sequence[Any]:
        """Gradients of the inputs, by the compiled backward; by replaying the trace if differentiated again."""
        if STATE.recording:
            return self._replayed(ograds, inputs)
        graph = self.graph
        assert graph.backward is not None
        given = [*[self.values[i] for i in graph.saved], *[g._data for g in ograds]]
        places = [_place(into[i], inputs[i]._data, given) for i in graph.grads]
        results = graph.backward(places, *given)
        grads: list[Any] = [None] * len(inputs)
        for i, result in zip(graph.grads, results, strict=True):
            grads[i] = wrap(result)
        return grads

    def _replayed(self, ograds: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """Gradients of gradients: run the trace eagerly on the tape and differentiate that."""
        from hybridc import autograd

        graph = self.graph
        fresh = [wrap(x._data) for x in inputs]
        for x, original in zip(fresh, inputs, strict=True):
            x._entry = original._entry
        start = autograd.tape_position()
        outputs = replay(graph.trace, fresh)[: graph.visible]
        wanted = [fresh[i] for i in graph.grads]
        found = autograd.gradients_since(start, outputs, wanted, ograds)
        grads: list[Any] = [None] * len(inputs)
        for i, g in zip(graph.grads, found, strict=True):
            grads[i] = g
        return grads

    def release(self) -> None:
        """The tape needs this call no more."""
        if self.workspace is not None:
            self.graph.forward.release(self.workspace)
            self.workspace = None
            self.values = []


def _place(buffer: Any, like: Any, given: Sequence[Any]) -> Any:
    """A gradient buffer, if the backward can write its result straight into it."""
    if buffer is None or not buffer.flags.c_contiguous:
        return None
    fits = buffer.shape == like.shape and buffer.dtype == like.dtype
    return buffer if fits and not any(np.may_share_memory(buffer, a) for a in given) else None


def replay(trace: Trace, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Run a trace eagerly, operator by operator, on NDArrays for all its inputs."""
    from hybridc.dispatch import execute

    values: dict[int, Any] = {id(s): x for s, x in zip(trace.leaves, inputs, strict=True)}
    for node in trace.nodes:
        given = [values[id(s)] for s in node.inputs]
        results = execute(node.op, given, [x._data for x in given])
        for symbol, result in zip(node.outputs, results, strict=True):
            values[id(symbol)] = result
    return [values[id(s)] for s in trace.outputs]
