"""Running sums, and the Khatri-Rao product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc.dialects.attribute import DType, Shape
from hybridc.dialects.operator import Bad, Composite, Opaque, Sample, attribute, register
from hybridc.dialects.shape import normalize_axis
from hybridc.errors import ShapeError


@register("hybrid.cumsum", "_np_cumsum")
class Cumsum(Opaque):
    """The sums of all elements up to each one, along an axis or over the flattened array"""

    INPUTS = ("a",)
    SAME_DTYPE = False

    axis: int | None = attribute(None, "the axis; without one the array is flattened")
    dtype: DType | None = attribute(None, "the dtype of the result, the input's by default")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if self.axis is None:
            return shapes, [(math.prod(shape),)]
        normalize_axis("cumsum", self.axis, len(shape))
        return shapes, [shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype or dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return np.add.accumulate(
            x.reshape(-1) if self.axis is None else x, self.axis or 0, dtype=self.dtype or x.dtype
        )

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        axis = self.axis or 0
        dx = F.flip(F.cumsum(F.flip(dy, axis=axis), axis), axis=axis)
        return F.reshape_to(dx, shape=x.shape) if self.axis is None else dx

    @classmethod
    def samples(cls) -> list[Sample]:
        def running(x: Any) -> Any:
            return np.tri(len(x)) @ x

        return [
            Sample([(2, 3)], lambda x: running(x.reshape(6))),
            Sample([(3, 4)], running, axis=0),
            Sample([(3, 4)], lambda x: running(x.T).T, axis=-1),
            Sample([(3, 4)], lambda x: running(x.T).T, grad=False, axis=1, dtype="float64"),
            Sample([(3, 0)], lambda x: x, axis=1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "cumsum: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"axis": 2}, text)]


@register("hybrid.khatri_rao")
class KhatriRao(Composite):
    """The Kronecker products of the columns of all matrices, which have equally many columns"""

    INPUTS = ("args",)
    VARIADIC = True

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        columns = {s[1] if len(s) == 2 else -1 for s in shapes}
        if len(columns) != 1 or -1 in columns:
            raise ShapeError(
                "khatri_rao: inputs must be matrices with equally many columns, got shapes "
                + ", ".join(map(str, shapes))
            )
        return shapes, [(math.prod(s[0] for s in shapes), columns.pop())]

    def spread(self, F: Any, inputs: tuple[Any, ...]) -> list[Any]:
        """Each matrix with its rows along an axis of their own."""
        n = len(inputs)
        shapes = [(1,) * i + (x.shape[0],) + (1,) * (n - 1 - i) + x.shape[1:] for i, x in enumerate(inputs)]
        return [F.reshape_to(x, shape=s) for x, s in zip(inputs, shapes, strict=True)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        shape = self.infer_shape([x.shape for x in inputs])[1][0]
        first, *others = self.spread(F, inputs)
        for x in others:
            first = first * x
        return F.reshape_to(first * 1 if not others else first, shape=shape)

    def eager(self, *arrays: Any) -> Any:
        shape = self.infer_shape([x.shape for x in arrays])[1][0]
        product = arrays[0].copy()
        for x in arrays[1:]:
            product = (product[:, None] * x).reshape(-1, shape[1])
        return product

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *inputs, _ = values
        parts = self.spread(F, tuple(inputs))
        dy = F.reshape_to(dy, shape=(*(x.shape[0] for x in inputs), inputs[0].shape[1]))
        grads: list[Any] = []
        for i, (part, x) in enumerate(zip(parts, inputs, strict=True)):
            each = dy
            for j, other in enumerate(parts):
                each = each if i == j else each * other
            grads.append(F.reshape_to(F.sum_to(each, shape=part.shape), shape=x.shape))
        return grads

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(2, 3), (4, 3)], lambda x, y: np.einsum("ik,jk->ijk", x, y).reshape(8, 3)),
            Sample(
                [(2, 3), (1, 3), (3, 3)],
                lambda x, y, z: np.einsum("ik,jk,lk->ijlk", x, y, z).reshape(6, 3),
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "khatri_rao: inputs must be matrices with equally many columns, got shapes (2, 3), (2, 4)"
        return [(((2, 3), (2, 4)), {}, text)]
