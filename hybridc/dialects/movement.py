"""The vocabulary of movements (``m``), with its NumPy implementation.

An operator that moves elements, or computes them from their indices, is written with a builder ``m`` in its method
``move(m, *inputs)``, as an elementwise operator is with the builder ``b`` of its ``scalar``. There
are structural steps (reshape, transpose, slice, broadcast, concat, insert, full), ``combine`` for extremes, and one
general one: ``generate`` computes each element from its indices, reading other arrays with ``b.load``.

:class:`MovementBuilder` is the vocabulary. Run on :data:`NUMPY_MOVES` a ``move`` computes what ``eager`` does (the
tests compare them); run on the builder of :mod:`hybridc.ir.structured_builder` it becomes operations on tensors.
Arrays have ``shape`` and ``dtype`` in all builders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import Arithmetic, NumPyScalar
from hybridc.errors import TraceError

PLACE = np.dtype("int32")


Moved = TypeVar("Moved")  # an array of a builder


class MovementBuilder(Protocol[Moved]):
    """The builder ``m`` of movements; sizes, indices and axes are known."""

    def reshape(self, x: Moved, shape: Shape) -> Moved:
        """The same elements in another shape, in row-major order."""
        ...

    def transpose(self, x: Moved, order: Sequence[int]) -> Moved:
        """The axes permuted: axis ``i`` of the result is axis ``order[i]`` of ``x``."""
        ...

    def slice(self, x: Moved, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Moved:
        """A strided slice of ``shape`` from ``begin`` on; steps may be negative."""
        ...

    def broadcast(self, x: Moved, shape: Shape) -> Moved:
        """NumPy's broadcasting."""
        ...

    def full(self, shape: Shape, dtype: Any, value: Any) -> Moved:
        """An array filled with a constant."""
        ...

    def insert(self, x: Moved, into: Moved, begin: Sequence[int], step: Sequence[int]) -> Moved:
        """``into``, with ``x`` written to the slice from ``begin`` on."""
        ...

    def concat(self, xs: Sequence[Moved], axis: int) -> Moved:
        """Concatenation along an axis."""
        ...

    def combine(self, name: str, x: Moved, axis: int) -> Moved:
        """A ``max`` or ``min`` along an axis, which keeps size 1."""
        ...

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> Moved:
        """Each element is ``element(b, *its indices)``; the indices are int64."""
        ...


class Indexed:
    """A symbolic array: ``x[i, j]`` is ``b.load(x, i, j)``; one index at least is a value of ``b``."""

    __iter__ = None

    def __getitem__(self, index: Any) -> Any:
        indices = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        value = next((i for i in indices if isinstance(i, Arithmetic)), None)
        if value is None:
            raise TraceError(f"x[{index}] has constant indices alone; write b.load(x, {index})")
        return value.builder.load(self, *indices)


class NumPyElement(NumPyScalar):
    """The scalar vocabulary, with loads at computed indices."""

    @staticmethod
    def load(x: Any, *index: Any) -> Any:
        """The element of ``x`` at indices that are in range."""
        return x[tuple(index)]


class NumPyMovement:
    """The movements on NumPy arrays."""

    @staticmethod
    def reshape(x: Any, shape: Shape) -> Any:
        """A view where NumPy gives one."""
        return x.reshape(shape)

    @staticmethod
    def transpose(x: Any, order: Sequence[int]) -> Any:
        """The axes permuted."""
        return x.transpose(order)

    @staticmethod
    def slice(x: Any, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Any:
        """A strided slice of ``shape`` from ``begin`` on; steps may be negative."""
        return x[_box(begin, step, shape)]

    @staticmethod
    def broadcast(x: Any, shape: Shape) -> Any:
        """NumPy's broadcasting."""
        return np.broadcast_to(x, shape)

    @staticmethod
    def full(shape: Shape, dtype: Any, value: Any) -> Any:
        """An array filled with a constant."""
        return np.full(shape, np.asarray(value).astype(dtype), dtype)

    @staticmethod
    def insert(x: Any, into: Any, begin: Sequence[int], step: Sequence[int]) -> Any:
        """``into``, with ``x`` written to the slice from ``begin`` on."""
        out = into.copy()
        out[_box(begin, step, x.shape)] = x
        return out

    @staticmethod
    def concat(xs: Sequence[Any], axis: int) -> Any:
        """Concatenation along an axis."""
        return np.concatenate(xs, axis)

    @staticmethod
    def combine(name: str, x: Any, axis: int) -> Any:
        """A ``max`` or ``min`` along an axis, which keeps size 1."""
        return (np.maximum if name == "max" else np.minimum).reduce(x, axis, keepdims=True)

    @staticmethod
    def generate(shape: Shape, dtype: Any, element: Callable[..., Any]) -> Any:
        """Each element is ``element(b, *its indices)``; the indices are int64."""
        index = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij")
        out = np.empty(shape, dtype)
        out[...] = np.asarray(element(NumPyElement(), *index)).astype(dtype)
        return out


NUMPY_MOVES = NumPyMovement()


def _box(begin: Sequence[int], step: Sequence[int], shape: Shape) -> tuple[Any, ...]:
    """A slice as NumPy key; an end before index 0 is None."""
    ends = [b + s * n for b, s, n in zip(begin, step, shape, strict=True)]
    return tuple(
        slice(b, None if e < 0 else e, s) if n else slice(0, 0)
        for b, e, s, n in zip(begin, ends, step, shape, strict=True)
    )


def extreme_place(m: MovementBuilder[Any], x: Any, axis: int, combine: str, dtype: Any = None) -> Any:
    """The first index of the ``max`` or ``min`` along an axis, which keeps size 1; NaN is extreme.

    The indices are in x's dtype by default.
    """
    best, size = m.combine(combine, x, axis), x.shape[axis]

    def place(b: Any, *i: Any) -> Any:
        own = b.load(x, *i)
        found = (own == b.load(best, *i[:axis], i[axis] * 0, *i[axis + 1 :])) | b.isnan(own)
        return b.select(found, i[axis], size)

    first = m.combine("min", m.generate(x.shape, PLACE if size < 2**31 else np.dtype("int64"), place), axis)

    def converted(b: Any, *i: Any) -> Any:
        return b.cast(b.load(first, *i), dtype or x.dtype)

    return m.generate(first.shape, dtype or x.dtype, converted)


def bounded_index(b: Any, index: Any, size: int, mode: str) -> Any:
    """An index of any dtype brought into [0, size) by ``clip`` or ``wrap``."""
    index = b.cast(index, np.dtype("int64"))
    if mode == "wrap":
        return index % size
    return b.min(b.max(index, 0), max(size - 1, 0))
