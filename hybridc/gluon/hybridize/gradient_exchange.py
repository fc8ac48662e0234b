"""The gradients of a training step, summed over ranks: what is appended to the trace of its backward.

Gradients are concatenated in *buckets* in the order in which the backward computes them. Each is handed to the
communication thread as soon as it is whole, while the backward goes on, and waited for when all of them are. Kernels
write gradients into their bucket and read the sums from it, so nothing is copied.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.communication.gradient_buckets import grouped
from hybridc.dtypes import wide
from hybridc.ground.hooks import HOOKS
from hybridc.ground.records import dataclass
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace


@dataclass
class GradientBucket:
    """Gradients of one dtype, by their numbers, one after the other in one array."""

    members: list[int]
    size: int  # bytes
    ready: int  # the number of the node that computes the last one


def ready_nodes(trace: Trace, values: Sequence[TracedSymbol]) -> list[int]:
    """The number of the node that computes each value; -1 for inputs."""
    made = {id(s): number for number, node in enumerate(trace.nodes) for s in node.outputs}
    return [made.get(id(value), -1) for value in values]


def buckets_of(trace: Trace, gradients: Sequence[TracedSymbol]) -> list[GradientBucket]:
    """The buckets in the order in which they are whole; gradients without elements are in none."""
    ready = ready_nodes(trace, gradients)
    order = [i for i in sorted(range(len(gradients)), key=ready.__getitem__) if math.prod(gradients[i].shape)]
    dtypes = [np.dtype(gradients[i].dtype) for i in order]
    sizes = [(d, math.prod(gradients[i].shape) * d.itemsize) for i, d in zip(order, dtypes, strict=True)]
    return [
        GradientBucket([order[n] for n in group], sum(sizes[n][1] for n in group), ready[order[group[-1]]])
        for group in grouped(sizes)
    ]


class Exchange:
    """The collectives of a step. Libraries of GPUs would round partial sums to 16 bits, so there gradients are cast."""

    def __init__(self, on_gpu: bool) -> None:
        self._F, self._on_gpu = HOOKS.symbols(), on_gpu

    def sum(self, flat: Any, number: int = 0, counts: Sequence[int] | None = None) -> Any:
        """Begin to sum a bucket over ranks: by the sum of this process with that number, or 0 for the plain one.

        With ``counts`` each rank needs no more than its part of the result, of so many elements.
        """
        if self._on_gpu and not number:
            flat = self._cast(flat, wide(np.dtype(flat.dtype)))
        if counts is None or number:
            return self._F._start_allreduce(flat, sums=number)
        return self._F._start_reduce_scatter(flat, counts=counts)

    def summed(self, started: Any, dtype: Any) -> Any:
        """The result, of the bucket's dtype, of what :meth:`sum` began; waits for it."""
        return self._cast(self._F._await(started), np.dtype(dtype))

    def gather(self, part: Any, counts: Sequence[int], rank: int) -> Any:
        """Begin to put together the parts of all ranks."""
        return self._F._start_allgather(part, counts=counts, rank=rank)

    def gathered(self, started: Any) -> Any:
        """The result of what :meth:`gather` began; waits for it."""
        return self._F._await(started)

    def _cast(self, flat: Any, dtype: np.dtype[Any]) -> Any:
        return flat if np.dtype(flat.dtype) == dtype else self._F.cast(flat, dtype=dtype.name)


def append_allreduce(
    trace: Trace,
    gradients: Sequence[TracedSymbol],
    buckets: Sequence[GradientBucket],
    sums: Sequence[int],
    exchange: Exchange,
) -> list[TracedSymbol]:
    """The sums of the gradients over all ranks; ``sums`` are the numbers of those of the buckets."""
    with trace.active():
        started: list[TracedSymbol] = []
        for bucket, number in list(zip(buckets, sums, strict=True))[::-1]:  # what is inserted moves what comes after
            collective = functools.partial(exchange.sum, number=number)
            started.append(start(trace, [gradients[i] for i in bucket.members], bucket.ready, collective))
        summed = list(gradients)
        for bucket, flat in zip(buckets, started[::-1], strict=True):
            result = exchange.summed(flat, gradients[bucket.members[0]].dtype)
            parts = split(HOOKS.symbols(), result, [gradients[i].shape for i in bucket.members])
            for i, part in zip(bucket.members, parts, strict=True):
                summed[i] = part
    return summed


def start(
    trace: Trace, gradients: Sequence[TracedSymbol], ready: int, collective: Callable[[Any], TracedSymbol]
) -> TracedSymbol:
    """Start a collective on a bucket of gradients after the node ``ready`` of the trace."""
    count = len(trace.nodes)
    started = collective(joined(HOOKS.symbols(), gradients))
    made = trace.nodes[count:]
    del trace.nodes[count:]
    trace.nodes[ready + 1 : ready + 1] = made
    return started


def added(trace: Trace, before: Sequence[TracedSymbol], gradients: Sequence[TracedSymbol]) -> list[TracedSymbol]:
    """The sums of gradients and those of calls before; each right after the gradient, so that its bucket is whole."""
    ready = ready_nodes(trace, gradients)
    order = sorted(range(len(gradients)), key=ready.__getitem__, reverse=True)
    found = list(gradients)
    with trace.active():
        for i in order:
            found[i] = before[i] + gradients[i]
            node = trace.nodes.pop()
            trace.nodes.insert(ready[i] + 1, node)
    return found


def clipped(
    gradients: Sequence[TracedSymbol], limit: TracedSymbol, total: Callable[[Any], Any] | None = None
) -> list[TracedSymbol]:
    """The gradients, scaled so that the norm of all of them is ``limit`` at most.

    ``total`` completes the sum of squares, of which there may be only a part here.
    """
    F = HOOKS.symbols()
    squares: Any = None
    for grad in gradients:
        found = F.reshape_to(F.sum(F.square(F.cast(grad, dtype="float32"))), shape=(1,))
        squares = found if squares is None else squares + found
    if squares is None:
        squares = F.zeros(shape=(1,), dtype="float32")
    if total is not None:
        squares = total(squares)
    scale = F.minimum(F.reshape_to(limit, shape=(1,)) / F.sqrt(squares), 1)
    scaled: list[TracedSymbol] = []
    for grad in gradients:
        factor = F.cast(scale, dtype=np.dtype(grad.dtype).name)
        scaled.append(F.broadcast_mul(grad, F.reshape_to(factor, shape=(1,) * len(grad.shape))))
    return scaled


def joined(F: Any, arrays: Sequence[Any]) -> Any:
    """The elements of arrays, one array after the other, as one axis."""
    flat = [F.reshape_to(x, shape=(math.prod(x.shape),)) for x in arrays]
    return flat[0] if len(flat) == 1 else F.concat(*flat, dim=0)


def split(F: Any, flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The inverse of :func:`joined`."""
    if len(shapes) == 1:
        return [F.reshape_to(flat, shape=shapes[0])]
    ends = list(itertools.accumulate(map(math.prod, shapes), initial=0))
    return [
        F.reshape_to(F.slice_axis(flat, axis=0, begin=begin, end=end), shape=shape)
        for shape, (begin, end) in zip(shapes, itertools.pairwise(ends), strict=True)
    ]
