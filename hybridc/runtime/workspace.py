"""Workspaces: the memory of a call of a planned program; and checks of arrays against their specs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.ground.buffers import ALIGNMENT, empty
from hybridc.ir.planned import PlainArray


class Workspace(np.ndarray[Any, Any]):
    """The memory of one call at a time: an arena, and the operator states of host steps."""

    states: dict[Any, Any]


def workspace(arena: int) -> Workspace:
    """A workspace with an arena of ``arena`` bytes."""
    memory = np.empty(arena + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    made = memory[start : start + arena].view(Workspace)
    made.states = {}
    return made


def fits(array: Any, spec: PlainArray) -> bool:
    """Whether an array fits the spec without conversion."""
    if type(array) is not np.ndarray or array.shape != tuple(spec.shape) or array.dtype != spec.dtype:
        return False
    return bool(array.flags.c_contiguous and array.flags.aligned)


def fresh(spec: PlainArray) -> Any:
    """An uninitialised array of the spec."""
    return empty(tuple(spec.shape), np.dtype(spec.dtype).name)
