"""The strides of plain arrays."""

from __future__ import annotations

import functools
import math


@functools.lru_cache(4096)  # a network has few shapes, and asks for their strides very often
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array whose elements follow each other in C order, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
