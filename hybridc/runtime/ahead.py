"""Gradients computed ahead of ``backward()``: with the call whose gradients were asked for so the last times.

A training loop calls a network, then a loss, then ``backward()``. Where that happened some times with the same head
gradient, mostly ones, the next call of the loss computes, in one native call, the loss, its gradient, and the gradients
of the network behind it. They wait on the tape and are used only if ``backward()`` asks for exactly them: the head
gradient is the same again, the network is given the very arrays that the loss gave, with nothing added, and nothing
that they depend on was written meanwhile. Else the backward programs run, as they do where nothing waits. The chain is
made of these programs, so gradients are the same to the bit.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.runtime.writes import unwatch, watch

if TYPE_CHECKING:
    from hybridc.nd.ndarray import NDArray
    from hybridc.runtime.chain import Chain, Wires
    from hybridc.runtime.compiled_graph import CompiledGraph
    from hybridc.runtime.recorded_call import RecordedCall

# How often in a row gradients must be asked for in the same way before they are computed ahead; each time that they
# then are not asked for doubles it.
_OFTEN = 2
_RARELY = 1 << 10
# Bytes of a head up to which it is worth to compare its gradients.
_HEAD = 1 << 14
# Bytes of variables' gradients up to which they may wait: until they are used they need memory beside the buffers.
_WAITING = 1 << 26


class Habit:
    """How the gradients of a graph's calls were asked for, call after call.

    ``route`` says which argument each result of the call behind is; it is empty where there is none.
    """

    def __init__(self, route: tuple[int, ...] = ()) -> None:
        self.route = route
        self.head: Any = None  # the latest head gradient
        self.same = 0  # in a row: it was this one
        self.through = 0  # in a row: the call behind was given these gradients and nothing else
        self.made = self.vain = 0  # calls with which gradients were computed, and those that did so in vain
        self._enough = _OFTEN
        self._chains: dict[bool, Chain | None] = {}

    def saw(self, head: Any) -> None:
        """The head gradient of a call."""
        if self.head is not None and head.tobytes() == self.head.tobytes():
            self.same += 1
        else:
            self.head, self.same = head.copy(order="C"), 1

    def missed(self) -> None:
        """Something was computed in vain."""
        self.vain += 1
        self.same = self.through = 0
        self._enough = min(2 * self._enough, _RARELY)

    def chain(self, graph: CompiledGraph, behind: CompiledGraph | None) -> Chain | None:
        """What to run in place of the graph's forward; None for the forward itself."""
        if self.same < self._enough:
            return None
        long = self._made(graph, behind) if self.through >= self._enough and behind is not None else None
        return self._made(graph, None) if long is None else long

    def _made(self, graph: CompiledGraph, behind: CompiledGraph | None) -> Chain | None:
        key = behind is not None
        if key not in self._chains:
            self._chains[key] = _chain(graph, behind, self.route)
        return self._chains[key]


class Foresight:
    """What is known about the calls of one graph: a habit for each graph from which its arguments come."""

    def __init__(self, graph: CompiledGraph) -> None:
        self._alone = Habit()
        self._behind: weakref.WeakKeyDictionary[CompiledGraph, Habit] = weakref.WeakKeyDictionary()
        self._arguments = [i for i in graph.grads if graph.trace.roles[i] == "data"]

    @staticmethod
    def of(graph: CompiledGraph) -> Foresight | None:
        """That of a graph of native code with one small result, as losses have; None for others."""
        if graph.backward is None or not graph.single or graph.trace.context.device_type == "gpu":
            return None
        head = graph.trace.outputs[0]
        return Foresight(graph) if math.prod(head.shape) * np.dtype(head.dtype).itemsize <= _HEAD else None

    def summary(self) -> list[str]:
        """What was computed ahead, in words."""
        habits = [self._alone, *self._behind.values()]
        made, vain = sum(h.made for h in habits), sum(h.vain for h in habits)
        return [f"gradients computed with the forward: {made} times, {vain} of them in vain"] if made else []

    def ahead(self, inputs: Sequence[NDArray]) -> Ahead:
        """What is expected of a call with these inputs."""
        behind, route = self._source(inputs)
        if behind is None:
            return Ahead(self._alone, None)
        habit = self._behind.get(behind.graph)
        if habit is None or habit.route != route:
            habit = self._behind[behind.graph] = Habit(route)
        return Ahead(habit, behind)

    def _source(self, inputs: Sequence[NDArray]) -> tuple[RecordedCall | None, tuple[int, ...]]:
        """The one recorded call of which each result is an argument, once, and which argument that is."""
        from hybridc.runtime.recorded_call import RecordedCall

        found: RecordedCall | None = None
        route: dict[int, int] = {}
        for i in self._arguments:
            node, number = inputs[i]._entry or (None, 0)
            call = getattr(node, "op", None)
            if not isinstance(call, RecordedCall):
                continue
            if number in route or (found is not None and call is not found):
                return None, ()
            found, route[number] = call, i
        if found is None or not found.values or len(route) < found.graph.visible:
            return None, ()
        return found, tuple([route[number] for number in range(len(route))])


class Ahead:
    """A recorded call, the one behind it, and the gradients of both that were computed with it and wait, if any."""

    def __init__(self, habit: Habit, behind: RecordedCall | None) -> None:
        self._habit = habit
        self._behind = behind
        self._head: Any = None  # the head gradient that was expected
        self._own: Sequence[Any] | None = None
        self._further: Sequence[Any] | None = None
        self._heads: Sequence[Any] = ()  # what the call behind was given
        self._values: Sequence[Sequence[Any]] = ()  # on which the gradients depend

    @property
    def waits(self) -> bool:
        """Whether gradients wait."""
        return self._own is not None or self._further is not None

    def run(self, graph: CompiledGraph, workspace: Any, arrays: Sequence[Any]) -> Sequence[Any] | None:
        """The results of the graph's forward, where gradients are computed with it; else None, and it did not run."""
        behind = self._behind
        chain = self._habit.chain(graph, None if behind is None else behind.graph)
        if chain is None:
            return None
        self._head = self._habit.head
        given = [arrays, [*[arrays[i] for i in graph.saved if i < len(arrays)], self._head]]
        if behind is not None and len(chain.parts) > len(given):
            given.append([behind.values[i] for i in behind.graph.saved])
        later = chain.parts[1:]
        workspaces = [part.acquire() for part in later]
        try:
            found = chain.run([workspace, *workspaces], given)
        finally:
            for part, used in zip(later, workspaces, strict=True):
                part.release(used)
        if found is None:
            return None
        results, self._own, self._further = (*found, None)[:3]
        self._habit.made += 1
        return results

    def rely_on(self, values: Sequence[Any]) -> None:
        """What waits depends on these raw arrays, and on those of the call behind."""
        if self._own is not None:
            self._values = [values, [] if self._behind is None else self._behind.values]
            watch(self)

    def notice(self, array: Any) -> None:
        """This raw array was written."""
        if any(np.may_share_memory(array, value) for values in self._values for value in values):
            self.forget()

    def take(self, ograds: Sequence[Any]) -> Sequence[Any] | None:
        """What waits for the call itself, if this is the head gradient that was expected."""
        (head,) = ograds
        if self.waits and head._data.tobytes() != self._head.tobytes():
            self.forget()
        self._habit.saw(head._data)
        own, self._own = self._own, None
        return own

    def tell(self, grads: Sequence[Any]) -> None:
        """The gradients of the call's inputs: let the call behind know those of its results."""
        behind, self._behind = self._behind, None
        if behind is not None:
            self._heads = [grads[i] for i in self._habit.route]
            behind.told = self

    def take_further(self, ograds: Sequence[Any]) -> Sequence[Any] | None:
        """What waits for the call behind, if these are exactly the head gradients that it was told of."""
        if not all(map(operator.is_, ograds, self._heads)):
            self._habit.through = 0
            self.forget()
            return None
        self._habit.through += 1
        further, self._further = self._further, None
        return further

    def forget(self) -> None:
        """Drop what waits."""
        if self.waits:
            self._habit.missed()
        self._own = self._further = None
        unwatch(self)

    def __del__(self) -> None:
        self.forget()


def _chain(graph: CompiledGraph, behind: CompiledGraph | None, route: Sequence[int]) -> Chain | None:
    """Forward and backward of a graph, and the backward of the one behind; None if that cannot be or does not pay."""
    from hybridc.runtime.chain import chained

    roles, inputs = graph.trace.roles, len(graph.trace.leaves)
    waiting = [graph.trace.leaves[i] for i in graph.grads if roles[i] != "data" or not route]
    waiting += [] if behind is None else [behind.trace.leaves[i] for i in behind.grads]
    if sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in waiting) > _WAITING:
        return None
    parts: list[Any] = [graph.forward, graph.backward]
    wires: list[Wires] = [{}, {n: (0, i - inputs) for n, i in enumerate(graph.saved) if i >= inputs}]
    if behind is not None:
        parts.append(behind.backward)
        wires.append({n: (1, graph.grads.index(i)) for n, i in enumerate(route, len(behind.saved))})
    found = chained(parts, wires)
    if found is None or found.gives_away(1, len(graph.saved)):  # the head gradient of all calls is nobody's
        return None
    return found
