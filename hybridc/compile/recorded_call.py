"""Recorded calls of compiled graphs: what the tape asks for gradients."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc import autograd
from hybridc.array.dispatch import execute
from hybridc.array.ndarray import NDArray, wrap
from hybridc.state import STATE
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.autograd import TapeNode
    from hybridc.compile.compiled_graph import CompiledGraph


class RecordedCall:
    """One recorded call of a graph: what the tape asks for gradients. It owns the call's workspace until freed."""

    def __init__(self, graph: CompiledGraph, workspace: Any, arrays: list[Any], results: Sequence[Any]) -> None:
        self.graph = graph
        self.workspace = workspace
        self.values = [*arrays, *results]

    def inputs_of(self, output: int) -> Collection[int]:
        """The numbers of the inputs on which a result depends."""
        return self.graph.inputs_of(output)

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """Gradients of the inputs, by the compiled backward; by replaying the trace if differentiated again."""
        # COMPAT(mxnet): there, hybridized, losses that nobody differentiates add their gradients: they get zeros.
        heads = tuple([i for i, g in enumerate(ograds) if g is not None])
        if STATE.recording:
            return self._replayed(ograds, node.inputs(), heads)
        graph = self.graph.of_heads(heads)
        assert graph.backward is not None
        workspace, values = None, self.values
        if graph.forward is not self.graph.forward:  # it keeps other values, which are computed from the same inputs
            workspace, arrays = graph.forward.acquire(), values[: len(node.entries)]
            values = [*arrays, *graph.forward.run_in(workspace, arrays)]
        given = [*[values[i] for i in graph.saved], *[ograds[i]._data for i in heads]]
        wanted = self.graph.inputs_of_heads(heads)
        places: Sequence[Any] = (None,) * len(graph.grads)
        if into:
            places = [_place(into.get(i), values[i], given) if i in wanted else None for i in graph.grads]
        results = graph.backward(places, *given)
        if workspace is not None:
            graph.forward.release(workspace)
        grads: list[Any] = [None] * len(node.entries)
        for i, result in zip(graph.grads, results, strict=True):
            if i in wanted:
                grads[i] = wrap(result)
        return grads

    def _replayed(self, ograds: Sequence[Any], inputs: Sequence[Any], chosen: tuple[int, ...]) -> Sequence[Any]:
        """Gradients of gradients: run the trace eagerly on the tape and differentiate that."""
        graph = self.graph
        fresh = [wrap(x._data) for x in inputs]
        for x, original in zip(fresh, inputs, strict=True):
            x._entry = original._entry
        start = autograd.tape_position()
        outputs = replay(graph.trace, fresh)[: graph.visible]
        wanted = graph.inputs_of_heads(chosen)
        numbers = [i for i in graph.grads if i in wanted]
        heads = [(outputs[i], ograds[i]) for i in chosen if outputs[i]._entry is not None]
        found = autograd.gradients_since(
            start, [y for y, _ in heads], [fresh[i] for i in numbers], [g for _, g in heads]
        )
        grads: list[Any] = [None] * len(inputs)
        for i, g in zip(numbers, found, strict=True):
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
    if buffer.shape != like.shape or buffer.dtype != like.dtype:
        return None
    foreign = buffer.base is not None  # two arrays that own their memory share none
    return None if any((foreign or a.base is not None) and np.may_share_memory(buffer, a) for a in given) else buffer


def replay(trace: Trace, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Run a trace eagerly, operator by operator, on NDArrays for all its inputs."""
    values: dict[int, Any] = {id(s): x for s, x in zip(trace.leaves, inputs, strict=True)}
    for node in trace.nodes:
        given = [values[id(s)] for s in node.inputs]
        results = execute(node.op, given)
        for symbol, result in zip(node.outputs, results, strict=True):
            values[id(symbol)] = result
    return [values[id(s)] for s in trace.outputs]
