"""Slopes by central finite differences, against which gradients are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# The step of central differences in double precision: about the third root of the rounding error.
EPS = 1e-6


def differences(
    f: Callable[[Sequence[Array]], float],
    arrays: Sequence[Array],
    index: int,
    along: Iterable[Array],
    eps: float = EPS,
) -> list[float]:
    """The slopes of the scalar function ``f`` in directions of one input, by central differences."""
    result: list[float] = []
    for direction in along:
        sides: list[float] = []
        for step in (eps, -eps):
            moved = [x + step * direction if i == index else x for i, x in enumerate(arrays)]
            sides.append(f(moved))
        result.append((sides[0] - sides[1]) / (2 * eps))
    return result


def units(shape: Sequence[int], dtype: Any = np.float64, places: Iterable[int] | None = None) -> Iterator[Array]:
    """The directions of single elements of an array: of all, or of some by their places in row-major order."""
    for place in range(int(np.prod(shape))) if places is None else places:
        unit = np.zeros(shape, dtype)
        unit.reshape(-1)[place] = 1
        yield unit
