"""Row-major strides."""

from __future__ import annotations

import functools
import math


@functools.lru_cache(4096)  # few shapes, asked for very often
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous array in C order, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """How far apart the first and the last element of an array are, in elements, whichever way its axes run."""
    return sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True))
