"""A native plan: a table of steps that the native executor interprets.

A plan has no code of its own: kernels are native functions (`NativeRegion.code`), shared among graphs, and the executor
is the same for all plans. So making a plan runs no code generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from hybridc.ground.serialize import NOT_KEPT


class NativeCode(Protocol):
    """A native function ``void region(void **buffers, int64 *scalars, int64 lo, int64 hi, void *scratch)``."""

    @property
    def address(self) -> int: ...


@dataclass(frozen=True)
class _NotLoaded:
    """Code that is not loaded yet."""

    @property
    def address(self) -> int:
        raise LookupError("the code of this parallel region is not loaded; call plan() of the program first")


NOT_LOADED = _NotLoaded()


class Position(NamedTuple):
    """An address as a slot and an offset in bytes.

    Slot 0 is the arena; then come the inputs, the results and the constants, in their order.
    """

    slot: int
    offset: int = 0


@dataclass(frozen=True)
class GridPart:
    """A parallel region that one thread runs at a point of a grid, all iterations of it.

    Slot 0 of its ``buffers`` is the thread's scratch memory; then come the buffers of the grid. Its own scratch
    memory begins ``scratch`` bytes into the thread's.
    """

    code: NativeCode = field(default=NOT_LOADED, metadata=NOT_KEPT)
    buffers: tuple[Position, ...] = ()
    numbers: bytes = b""
    extent: int = 1
    scratch: int = 0


@dataclass(frozen=True)
class Grid:
    """A parallel region over a grid of these ``sizes``: its ``parts`` run one after the other at each point.

    ``steps`` are, for each buffer of the region, the bytes from one point to the next along each axis.
    """

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    parts: tuple[GridPart, ...]


@dataclass(frozen=True)
class NativeRegion:
    """A parallel region: a native function over the iterations [0, extent), which threads may share.

    The executor cuts the range at multiples of ``grain``. A range of one grain, or of fewer than ``least`` iterations,
    runs on the calling thread: sharing must pay, and small chunks balance the load better. The thread of index t gets
    the scratch memory at ``scratch + t * scratch_stride``. The iterations of a region with a ``grid`` are its points;
    the executor has the code for these.
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
    grid: Grid | None = None

    def loaded(self, codes: Sequence[NativeCode]) -> NativeRegion:
        """The region with loaded code, its own or that of the parts of its grid."""
        if self.grid is None:
            return replace(self, code=codes[0])
        parts = tuple([replace(part, code=code) for part, code in zip(self.grid.parts, codes, strict=True)])
        return replace(self, grid=replace(self.grid, parts=parts))


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
    steps: Sequence[NativeRegion | Host]
    constants: Sequence[np.ndarray[Any, Any]] = field(default_factory=list[Any])
    arena: int = 0  # bytes
    work: float = 0.0  # nanoseconds that a call takes, estimated
    threads: int = 1  # the most that share a region: each has its own scratch
