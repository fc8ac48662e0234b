"""The memory of one call of a planned program, and what its arrays must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.ground.buffers import empty
from hybridc.ir.native_plan import PlainArray

ALIGNMENT = 64


class Workspace(np.ndarray[Any, Any]):
    """The memory that one call of a program at a time may use: its arena, and what its host steps keep."""

    cells: dict[Any, Any]


def workspace(arena: int) -> Workspace:
    """Memory of so many bytes."""
    memory = np.empty(arena + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    made = memory[start : start + arena].view(Workspace)
    made.cells = {}
    return made


def fits(array: Any, spec: PlainArray) -> bool:
    """Whether a program can take an array as it is."""
    if type(array) is not np.ndarray or array.shape != tuple(spec.shape) or array.dtype != spec.dtype:
        return False
    return bool(array.flags.c_contiguous and array.flags.aligned)


def fresh(spec: PlainArray) -> Any:
    """An array that a program may fill."""
    return empty(tuple(spec.shape), np.dtype(spec.dtype).name)
