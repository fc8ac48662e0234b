"""A native plan: a table of steps that the native executor interprets.

A plan has no code of its own: kernels are native functions (`Phase.code`), shared among graphs, and the executor is the
same for all plans. So making a plan runs no code generator.
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
    """Code that is not loaded yet."""

    @property
    def address(self) -> int:
        raise LookupError("the code of this phase is not loaded yet: plan() loads that of a program")


NOT_LOADED = _NotLoaded()


class Position(NamedTuple):
    """An address as a slot and an offset in bytes.

    Slot 0 is the arena; then come the inputs, the results and the constants, in their order.
    """

    slot: int
    offset: int = 0


@dataclass(frozen=True)
class Phase:
    """A parallel region: a native function over the iterations [0, extent), which threads may share.

    The executor cuts the range at multiples of ``grain``. A range of one grain, or of fewer than ``least`` iterations,
    runs on the calling thread: sharing must pay, and small chunks balance the load better. The thread of index t gets
    the scratch memory at ``scratch + t * scratch_stride``.
    """

    code: NativeCode = field(default=NOT_LOADED, metadata=NOT_KEPT)
    buffers: tuple[Position, ...] = ()
    numbers: bytes = b""  # scalar arguments of 8 bytes each
    extent: int = 1
    grain: int = 1
    scratch: Position | None = None
    scratch_stride: int = 0
    name: str = ""
    least: int = 0


@dataclass(frozen=True)
class Host:
    """A host call between native steps: ``call(workspace, inputs, results)``, both tuples of arrays."""

    call: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], None]
    name: str = ""


class PlainArray(NamedTuple):
    """Shape and dtype of an array in C order: an input as it must be, or a result."""

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
    """The arrays and the steps of a program; the steps run in order."""

    inputs: Sequence[PlainArray]
    results: Sequence[PlainArray]
    steps: Sequence[Phase | Host]
    constants: Sequence[np.ndarray[Any, Any]] = field(default_factory=list[Any])
    arena: int = 0  # bytes
    work: float = 0.0  # nanoseconds that a call takes, estimated
    threads: int = 1  # the most that share a region: each has its own scratch
