"""A compiled graph as data: a table of steps that one native executor runs.

Nothing here is code of the graph: kernels are native functions of their own (`Phase.code`), shared among graphs, and
the executor is the same for all plans. So making a plan costs no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from hybridc.ground.serialize import NOT_KEPT


class NativeCode(Protocol):
    """A native function ``void phase(void **buffers, int64 *numbers, int64 lo, int64 hi, void *scratch)``."""

    @property
    def address(self) -> int: ...


@dataclass(frozen=True)
class _NotLoaded:
    """Code that has no address yet."""

    @property
    def address(self) -> int:
        raise LookupError("the code of this phase is not loaded yet: plan() loads that of a program")


NOT_LOADED = _NotLoaded()


class Position(NamedTuple):
    """A position in memory: bytes from the base of a slot.

    Slot 0 is the arena; then come the inputs, the results and the constants, in their order.
    """

    slot: int
    offset: int = 0


@dataclass(frozen=True)
class Phase:
    """A native function over the iterations [0, extent), which threads may share.

    The executor cuts the range at multiples of ``grain``. A range of one grain, or of fewer than ``least`` iterations,
    stays on the calling thread: sharing must be worth it, and small pieces divide a range more evenly. Thread t of
    those that take part gets the memory at ``scratch + t * scratch_stride``.
    """

    code: NativeCode = field(default=NOT_LOADED, metadata=NOT_KEPT)
    buffers: tuple[Position, ...] = ()
    numbers: bytes = b""  # cells of 8 bytes
    extent: int = 1
    grain: int = 1
    scratch: Position | None = None
    scratch_stride: int = 0
    name: str = ""
    least: int = 0


@dataclass(frozen=True)
class Host:
    """A call of Python amid the native steps: ``call(workspace, inputs, results)``, both tuples of arrays."""

    call: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], None]
    name: str = ""


class PlainArray(NamedTuple):
    """An array in C order: what an input must be, or what a result is."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        size = int(np.dtype(self.dtype).itemsize)
        for length in self.shape:
            size *= length
        return size


@dataclass
class NativePlan:
    """What a call of a compiled graph does: its arrays and its steps, run one after the other."""

    inputs: Sequence[PlainArray]
    results: Sequence[PlainArray]
    steps: Sequence[Phase | Host]
    constants: Sequence[np.ndarray[Any, Any]] = field(default_factory=list[Any])
    arena: int = 0  # bytes
    work: float = 0.0  # nanoseconds that a call takes, estimated
    threads: int = 1  # at most so many take part: the scratch of each phase has so many places
