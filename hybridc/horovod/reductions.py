"""All-reduce and reduce-scatter of arrays: ``hvd.allreduce`` and its like."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.communication import Communicator
from hybridc.communication.communicator import labelled
from hybridc.communication.gradient_buckets import BYTES, grouped
from hybridc.dtypes import is_float, wide
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.ground.events import recorded
from hybridc.horovod.differentiable import differentiable
from hybridc.horovod.host_values import Array, checked, copied, new_like, own_values, put_back
from hybridc.horovod.rank_sets import ProcessSet, global_process_set

#: What is computed of the elements of all ranks. The numbers are Horovod's.
Average, Sum, Adasum, Min, Max, Product = range(6)
_NAMES = {Average: "Average", Sum: "Sum", Adasum: "Adasum", Min: "Min", Max: "Max", Product: "Product"}
_REDUCTIONS = {Average: "sum", Sum: "sum", Min: "min", Max: "max", Product: "prod"}


def allreduce(
    tensor: NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> NDArray:
    """``postscale_factor * op(prescale_factor * tensor)`` over all ranks, a new array.

    Half precision is computed in single precision and rounded once. Gradients, if autograd records, are those of the
    sum of the losses of all ranks.

    Parameters
    ----------
    tensor:
        The array, of one shape on all ranks.
    average:
        False is the older way to say ``op=Sum``; not with ``op``, which is a ValueError.
    name:
        Distinguishes this call in errors; None for nothing.
    priority:
        Accepted for Horovod's API: calls are carried out in their order.
    prescale_factor, postscale_factor:
        What the elements are multiplied by before, and the result after. Integers are rounded toward 0 after a
        factor.
    process_set:
        The ranks that take part; others must not call this.
    op:
        ``Average``, ``Sum``, ``Min``, ``Max`` or ``Product``; None is Average.
    """
    return grouped_allreduce(
        [tensor], average, name, priority, prescale_factor, postscale_factor, process_set, op, what="allreduce"
    )[0]


def allreduce_(
    tensor: NDArray,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> NDArray:
    """As :func:`allreduce`, into ``tensor`` itself, which is returned.

    Parameters
    ----------
    tensor:
        The array, of one shape on all ranks.
    average, name, priority, prescale_factor, postscale_factor, process_set, op:
        As for :func:`allreduce`.
    """
    reduction = _Reduction(average, op, prescale_factor, postscale_factor, process_set, name)
    reduction.into("allreduce", [checked("allreduce_", tensor)])
    return tensor


def grouped_allreduce(
    tensors: Sequence[NDArray],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
    *,
    what: str = "grouped_allreduce",
) -> list[NDArray]:
    """As :func:`allreduce`, of several arrays at once.

    Parameters
    ----------
    tensors:
        The arrays, as many on all ranks.
    average, name, priority, prescale_factor, postscale_factor, process_set, op:
        As for :func:`allreduce`.
    what:
        What errors call this.
    """
    given = [checked(what, tensor) for tensor in tensors]
    reduction = _Reduction(average, op, prescale_factor, postscale_factor, process_set, name)

    def forward(*inputs: NDArray) -> list[NDArray]:
        values = [copied(x) for x in inputs]
        reduction.reduce(what, values)
        return [new_like(x, each) for x, each in zip(inputs, values, strict=True)]

    def backward(*grads: NDArray) -> list[NDArray]:
        if reduction.op not in (Average, Sum):
            raise MXNetError(f"hvd.{what}: {_NAMES[reduction.op]} has no gradient; use hvd.Average or hvd.Sum")
        return forward(*grads)

    return differentiable(forward, backward, given)


def grouped_allreduce_(
    tensors: Sequence[NDArray],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Sequence[NDArray]:
    """As :func:`allreduce_`, of several arrays at once.

    Parameters
    ----------
    tensors:
        The arrays, as many on all ranks.
    average, name, priority, prescale_factor, postscale_factor, process_set, op:
        As for :func:`allreduce`.
    """
    given = [checked("grouped_allreduce_", tensor) for tensor in tensors]
    reduction = _Reduction(average, op, prescale_factor, postscale_factor, process_set, name)
    reduction.into("grouped_allreduce", given)
    return tensors


def reducescatter(
    tensor: NDArray,
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """This rank's rows of the sum or mean over all ranks; if they do not come out even, the first ranks have one more.

    Otherwise as :func:`allreduce`.

    Parameters
    ----------
    tensor:
        The array, of one shape on all ranks, and one axis at least.
    op:
        ``Average`` or ``Sum``; others are an UnsupportedError.
    name, priority, prescale_factor, postscale_factor, process_set:
        As for :func:`allreduce`.
    """
    return grouped_reducescatter(
        [tensor], op, name, priority, prescale_factor, postscale_factor, process_set, what="reducescatter"
    )[0]


def grouped_reducescatter(
    tensors: Sequence[NDArray],
    op: int = Average,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    what: str = "grouped_reducescatter",
) -> list[NDArray]:
    """As :func:`reducescatter`, of several arrays.

    Parameters
    ----------
    tensors:
        The arrays, as many on all ranks.
    op:
        ``Average`` or ``Sum``; others are an UnsupportedError.
    name, priority, prescale_factor, postscale_factor, process_set:
        As for :func:`allreduce`.
    what:
        What errors call this.
    """
    given = [checked(what, tensor) for tensor in tensors]
    if op not in (Average, Sum):
        raise UnsupportedError(f"hvd.{what}: op must be hvd.Average or hvd.Sum, got {_NAMES.get(op, op)}")
    for tensor in given:
        if not tensor.ndim:
            raise MXNetError(f"hvd.{what}: an array without dimensions has no rows that could be scattered")
    reduction = _Reduction(None, op, prescale_factor, postscale_factor, process_set, name)

    def forward(*inputs: NDArray) -> list[NDArray]:
        with reduction.labelled(what, inputs):
            return [new_like(x, reduction.scatter(copied(x))) for x in inputs]

    def backward(*grads: NDArray) -> list[NDArray]:
        return [new_like(g, reduction.gathered(copied(g), x.shape)) for g, x in zip(grads, given, strict=True)]

    return differentiable(forward, backward, given)


class _Reduction:
    """What is computed, by which ranks."""

    def __init__(
        self,
        average: bool | None,
        op: int | None,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        name: str | None,
    ) -> None:
        if op is not None and average is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        self.op = op if op is not None else Sum if average is False else Average
        if self.op not in _REDUCTIONS:
            raise UnsupportedError(
                f"Horovod: op must be Average, Sum, Min, Max or Product, got {_NAMES.get(self.op, repr(self.op))}"
            )
        self.ranks: Communicator = process_set.communicator()
        self.name = name
        self.factors = prescale, postscale
        self.before = float(prescale)
        self.after = float(postscale) / (self.ranks.size if self.op == Average else 1)

    def labelled(self, what: str, arrays: Sequence[Any]) -> AbstractContextManager[None]:
        """Within the ``with`` block collectives are of this call, which all ranks make alike."""
        shapes = ", ".join(f"{np.dtype(x.dtype)}{list(x.shape)}" for x in arrays)
        name = "" if self.name is None else f" {self.name!r}"
        return labelled(f"hvd.{what}{name} of {shapes} by {_NAMES[self.op]} with factors {self.factors}")

    def into(self, what: str, tensors: Sequence[NDArray]) -> None:
        """Reduce arrays in place."""
        values = [own_values(tensor) for tensor in tensors]
        self.reduce(what, values)
        for tensor, each in zip(tensors, values, strict=True):
            put_back(tensor, each)

    def reduce(self, what: str, values: Sequence[Array]) -> None:
        """Reduce arrays in place; small ones of a dtype together."""
        size = sum(x.nbytes for x in values)
        with self.labelled(what, values), recorded("communication", what, arrays=len(values), bytes=size):
            for group in grouped([(x.dtype, x.nbytes) for x in values], first=BYTES):
                self._reduce_together([values[i] for i in group])

    def _reduce_together(self, arrays: Sequence[Array]) -> None:
        first, *others = arrays
        summed = wide(first.dtype)
        if not others and summed == first.dtype:
            flat = first.reshape(-1)
            self._reduce_flat(flat)
            return
        flat = np.concatenate([x.reshape(-1) for x in arrays], dtype=summed, casting="unsafe")
        self._reduce_flat(flat)
        ends = list(itertools.accumulate((x.size for x in arrays), initial=0))
        for x, (begin, end) in zip(arrays, itertools.pairwise(ends), strict=True):
            x[...] = flat[begin:end].reshape(x.shape)

    def _reduce_flat(self, flat: Array) -> None:
        scale(flat, self.before)
        self.ranks.allreduce(flat, _REDUCTIONS[self.op])
        scale(flat, self.after)

    def scatter(self, values: Array) -> Array:
        """This rank's rows of the reduced array."""
        summed = values.astype(wide(values.dtype), copy=False)
        scale(summed, self.before)
        width = summed.size // len(summed) if len(summed) else 0
        rows = self.rows(len(values))
        mine = self.ranks.reduce_scatter(summed.reshape(-1), [n * width for n in rows])
        scale(mine, self.after)
        part = mine.reshape(rows[self.ranks.rank], *values.shape[1:])
        return part.astype(values.dtype)  # also a copy: what is scattered is a view of the whole

    def gathered(self, values: Array, shape: tuple[int, ...]) -> Array:
        """The gradient of the whole array from those of the parts."""
        whole = np.zeros(shape, values.dtype)
        rows = self.rows(shape[0])
        start = sum(rows[: self.ranks.rank])
        whole[start : start + len(values)] = values
        width = whole.size // len(whole) if len(whole) else 0
        self.ranks.allgather(whole.reshape(-1), [n * width for n in rows])
        scale(whole, self.before * self.after)
        return whole

    def rows(self, count: int) -> list[int]:
        """How many rows each rank gets."""
        each, rest = divmod(count, self.ranks.size)
        return [each + (rank < rest) for rank in range(self.ranks.size)]


def scale(values: Array, factor: float) -> None:
    """Multiply in place; integers are rounded toward 0."""
    if factor == 1:
        return
    if is_float(values.dtype):
        np.multiply(values, values.dtype.type(factor), out=values)
    else:
        np.copyto(values, np.trunc(values * factor), casting="unsafe")
