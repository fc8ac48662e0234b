"""Integers that stand for real numbers: the base of the operators on them.

An integer ``q`` stands for ``q * r / n``: ``r`` is the larger magnitude of the two ends of its range, and ``n`` the
largest integer of its dtype. So 0 stands for 0, and an unsigned integer for no negative number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Composite, no_gradient
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import FLOAT32
from hybridc.errors import DTypeError, ShapeError

# COMPAT(mxnet): n is 127, 255 and 2147483647, as its documentation says; where it uses oneDNN it takes 127.5 and 255.5
# in some places, and for convolutions of unsigned integers 127.
LEVELS = {"int8": 127.0, "uint8": 255.0, "int32": 2147483647.0}
_LEAST = {"int8": -128.0, "uint8": 0.0}
_TINY = 1e-30  # a range of nothing but 0 divides nothing by 0


# What the ends of ranges are, by the names that inputs have.
RANGE_DOCS = {
    "min_range": "the least number of the range, of shape (1,)",
    "max_range": "the greatest number of the range, of shape (1,)",
    "min_data": "the least number of the data's range, of shape (1,)",
    "max_data": "the greatest number of the data's range, of shape (1,)",
    "min_weight": "the least number of the weight's range, of shape (1,)",
    "max_weight": "the greatest number of the weight's range, of shape (1,)",
    "min_bias": "the least number of the bias' range, of shape (1,); unless no_bias",
    "max_bias": "the greatest number of the bias' range, of shape (1,); unless no_bias",
    "lhs_min": "the least number of the range of lhs, of shape (1,)",
    "lhs_max": "the greatest number of the range of lhs, of shape (1,)",
    "rhs_min": "the least number of the range of rhs, of shape (1,)",
    "rhs_max": "the greatest number of the range of rhs, of shape (1,)",
}


class Quantized(Composite):
    """Base: inputs have dtypes of their own, and no gradient flows."""

    INPUT_DOCS: ClassVar = RANGE_DOCS
    SAME_DTYPE = False
    gradient = no_gradient

    def num_outputs(self) -> int:
        return 3

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        self.infer_type([x.dtype for x in arrays])
        return super().eager(*arrays)

    def require_integers(self, name: str, dtype: DType, allowed: Sequence[str] = ("int8", "uint8")) -> None:
        """Raise unless it is one of these dtypes."""
        if dtype.name not in allowed:
            raise DTypeError(f"{self.title()}: {name} must be of {' or '.join(allowed)}, got {dtype}")

    def require_scalars(self, shapes: Sequence[Shape], names: Sequence[str]) -> None:
        """Raise unless these inputs, ends of ranges, have one element."""
        for name, shape in zip(names, shapes, strict=True):
            if shape not in ((), (1,)):
                raise ShapeError(f"{self.title()}: {name} must be a number, of shape (1,), got shape {shape}")

    def with_range(self, shapes: list[Shape], shape: Shape, scalars: int) -> tuple[list[Shape], list[Shape]]:
        """The result of ``infer_shape``, if the last so many inputs are ends of ranges."""
        if scalars:
            self.require_scalars(shapes[-scalars:], self.input_names()[-scalars:])
        return shapes, [shape, (1,), (1,)]


def magnitude(F: Any, low: Any, high: Any) -> Any:
    """The larger magnitude of the ends of a range, in shape (1,)."""
    ends = [F.reshape_to(F.abs(F.cast(x, "float32")), shape=(1,)) for x in (low, high)]
    return F.maximum(*ends)


def unit(F: Any, low: Any, high: Any, dtype: Any) -> Any:
    """The number for which the integer 1 stands."""
    return magnitude(F, low, high) * (1 / LEVELS[np.dtype(dtype).name])


def times(F: Any, x: Any, scale: Any) -> Any:
    """``x * scale`` for a scale of shape (1,)."""
    return F.broadcast_mul(x, F.reshape_to(scale, shape=(1,) * len(x.shape)))


def rounded(F: Any, x: Any, scale: Any, dtype: str) -> Any:
    """``x * scale`` as integers: the nearest ones, of two the one farther from 0, within the range of the dtype."""
    return F.cast(F.clip(F.round(times(F, x, scale)), _LEAST[dtype], LEVELS[dtype]), dtype)


def quantized(F: Any, x: Any, reach: Any, dtype: str) -> Any:
    """Real numbers as integers, if the largest integer stands for ``reach``."""
    return rounded(F, x, LEVELS[dtype] / F.maximum(reach, _TINY), dtype)


def real(F: Any, q: Any, low: Any, high: Any) -> Any:
    """The real numbers for which integers stand."""
    return times(F, F.cast(q, "float32"), unit(F, low, high, q.dtype))


def ends(F: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The ends of a range as results."""
    made = [F.reshape_to(F.cast(x, "float32"), shape=(1,)) for x in (low, high)]
    return F.identity(made[0]), F.identity(made[1])


def constant_ends(F: Any, low: float, high: float) -> tuple[Any, Any]:
    """The ends of a range that is known."""
    return F.full(shape=(1,), val=low, dtype="float32"), F.full(shape=(1,), val=high, dtype="float32")


def ranged(dtype: Any) -> list[DType]:
    """The dtypes of integers and of their range."""
    return [np.dtype(dtype), FLOAT32, FLOAT32]
