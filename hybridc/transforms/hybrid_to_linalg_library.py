"""Which movements a library does better than loops over tensors: asked by running them on shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.dialects.operator import Operator
from hybridc.ir.linalg_attributes import Shape
from hybridc.ir.scalar_builder import DType
from hybridc.ir.tensor_builder import Tensor


def is_placed(operator: Operator, inputs: Sequence[Tensor]) -> bool:
    """Whether the operator computes its elements place by place, or writes its result part by part."""
    asked = Asked()
    operator.move(asked, *[Shaped(x.shape, x.dtype) for x in inputs])
    return asked.placed


@dataclass(frozen=True, eq=False)
class Shaped:
    """An array of which only the shape and the dtype are known."""

    shape: Shape
    dtype: DType


class Asked:
    """The builder ``m`` of movements that writes nothing; ``placed`` if one of them was more than a view or loops."""

    def __init__(self) -> None:
        self.placed = False

    def _made(self, shape: Shape, dtype: Any, placed: bool = False) -> Shaped:
        self.placed |= placed
        return Shaped(shape, dtype)

    def reshape(self, x: Shaped, shape: Shape) -> Shaped:
        """A view."""
        return self._made(tuple(shape), x.dtype)

    def transpose(self, x: Shaped, order: Sequence[int]) -> Shaped:
        """A view."""
        return self._made(tuple(x.shape[a] for a in order), x.dtype)

    def slice(self, x: Shaped, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Shaped:
        """A view, unless it goes backwards."""
        backwards = any(s < 0 and n > 1 for s, n in zip(step, shape, strict=True))
        return self._made(shape, x.dtype, backwards and 0 not in shape)

    def broadcast(self, x: Shaped, shape: Shape) -> Shaped:
        """Loops."""
        return self._made(shape, x.dtype)

    def full(self, shape: Shape, dtype: Any, value: Any) -> Shaped:
        """A number."""
        return self._made(shape, np.dtype(dtype))

    def insert(self, x: Shaped, into: Shaped, begin: Sequence[int], step: Sequence[int]) -> Shaped:
        """Part by part."""
        return self._made(into.shape, into.dtype, True)

    def concat(self, xs: Sequence[Shaped], axis: int) -> Shaped:
        """Part by part."""
        before, after = xs[0].shape[:axis], xs[0].shape[axis + 1 :]
        size = sum(x.shape[axis] for x in xs)
        return self._made((*before, size, *after), xs[0].dtype, len(xs) > 1)

    def combine(self, name: str, x: Shaped, axis: int) -> Shaped:
        """With its place."""
        return self._made((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype, True)

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> Shaped:
        """Place by place."""
        return self._made(shape, np.dtype(dtype), True)
