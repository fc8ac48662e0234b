"""Collectives in graphs: all-reduce, and what a compiled training step starts and waits for.

``_start_*`` hands an array to the communication thread, or to the library of a device, and ``_await`` waits for it; in
between the array is theirs. They work in place, so a bucket of gradients is never copied. All ranks run the same graph,
so they call the collectives in the same order.
"""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hybridc.communication import Communicator, communicator
from hybridc.communication.communicator import Begun, Collective, begin, in_memory, part_of
from hybridc.dialects.operator import Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import ShapeError

Array = npt.NDArray[Any]  # or an array of a device, in its programs

# The collectives that go on, by the addresses of their arrays.
_STARTED: dict[int, Begun] = {}


class _Times:
    """Seconds that started collectives took in this process, and that graphs waited for them."""

    def __init__(self) -> None:
        self.taken = self.waited = 0.0


TIMES = _Times()


# Sums with a state of their own, as compressed ones, by the numbers by which graphs of this process call them.
_SUMS: weakref.WeakValueDictionary[int, RankSum] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count(1)


class RankSum(Protocol):
    """Sums arrays of one size over ranks."""

    def allreduce(self, array: Array) -> None:
        """Replace the elements of an array of one dimension by their sums over all ranks."""
        ...


def callable_sum(sums: RankSum) -> int:
    """The number by which ``_start_allreduce`` calls a sum, as long as that lives."""
    number = next(_NUMBERS)
    _SUMS[number] = sums
    return number


def _sum(number: int) -> Callable[[Communicator, Any], Any]:
    return functools.partial(_sum_by, number) if number else Collective("allreduce")


def _sum_by(number: int, _ranks: Communicator, array: Array) -> None:
    _SUMS[number].allreduce(array)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0] if in_memory(array) else array.pointer


def _start(array: Array, collective: Callable[[Communicator, Any], Any]) -> None:
    """Begin a collective on an array, if it has any elements."""
    if array.size:
        _STARTED[_address(array)] = begin(communicator(), array, collective)


def _require(op: Opaque, shape: Shape, count: int) -> None:
    if shape != (count,):
        raise ShapeError(f"{op.title()}: got an array of shape {shape}, expected ({count},)")


class _InPlace(Opaque):
    """A host call whose result is its input's memory where the plan allows."""

    PURE = False
    INPLACE = ((0, 0),)
    ON_DEVICE = True
    gradient = no_gradient

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [shapes[0]]

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        out = np.empty_like(arrays[0])
        self.call_out([out], *arrays)
        return out

    def call_out(self, outs: Sequence[Array], *arrays: Any) -> None:
        (out,), (given,) = outs, arrays
        if out.size and _address(out) != _address(given):
            np.copyto(out, given)
        self.run(out)

    def run(self, array: Array) -> None:
        """Do it to the array."""
        raise NotImplementedError

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(5,)], lambda x: x, grad=False)]


@register("hybrid._allreduce")
class AllReduce(_InPlace):
    """The sum of the arrays of all ranks"""

    ranks: int = attribute(1, "number of ranks that take part: all of them", low=1)
    sums: int = attribute(0, "the number of a sum of this process; 0: the plain one", low=0)

    def run(self, array: Array) -> None:
        collective = _sum(self.sums)
        if in_memory(array):
            collective(communicator(), array)
        elif array.size:
            begin(communicator(), array, collective).wait()

    def gradient(self, F: Any, dy: Any, *_: Any) -> Any:
        """The loss is the sum of the losses of the ranks."""
        return F._allreduce(dy, ranks=self.ranks, sums=self.sums)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(2, 3)], lambda x: x)]


@register("hybrid._start_allreduce")
class StartAllReduce(_InPlace):
    """Begins to sum an array over all ranks"""

    sums: int = attribute(0, "the number of a sum of this process; 0: the plain one", low=0)

    def run(self, array: Array) -> None:
        _start(array, _sum(self.sums))


@register("hybrid._start_reduce_scatter")
class StartReduceScatter(_InPlace):
    """Begins to sum an array over all ranks, of which this one wants its part alone"""

    counts: tuple[int, ...] = attribute(doc="number of elements of each rank's part")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        _require(self, shapes[0], sum(self.counts))
        return shapes, [shapes[0]]

    def run(self, array: Array) -> None:
        _start(array, Collective("reduce_scatter", tuple(self.counts)))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(5,)], lambda x: x, grad=False, counts=(5,))]


@register("hybrid._start_allgather")
class StartAllGather(Opaque):
    """Begins to put together what the ranks have, each its part"""

    PURE = False
    ON_DEVICE = True
    gradient = no_gradient

    counts: tuple[int, ...] = attribute(doc="number of elements of each rank's part")
    rank: int = attribute(0, "the number of this rank", low=0)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        _require(self, shapes[0], self.counts[self.rank])
        return shapes, [(sum(self.counts),)]

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        out = np.empty(sum(self.counts), arrays[0].dtype)
        self.call_out([out], *arrays)
        return out

    def call_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        (out,), (part,) = outs, arrays
        start = sum(self.counts[: self.rank])
        np.copyto(part_of(out, start, part.shape), part)
        _start(out, Collective("allgather", tuple(self.counts)))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(5,)], lambda x: x, grad=False, counts=(5,))]


@register("hybrid._await")
class Await(_InPlace):
    """Waits for the collective that was started on an array"""

    def call_out(self, outs: Sequence[Array], *arrays: Any) -> None:
        (out,), (given,) = outs, arrays
        self.run(given)  # where the result has memory of its own, it is a copy of what came
        if out.size and _address(out) != _address(given):
            np.copyto(out, given)

    def run(self, array: Array) -> None:
        begun = _STARTED.pop(_address(array), None)
        if begun is not None:
            start = time.perf_counter()
            begun.wait()
            TIMES.waited += time.perf_counter() - start
            TIMES.taken += begun.seconds
