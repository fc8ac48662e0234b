"""The code of a kernel for a machine whose programs work on whole tiles, as data, which a target prints.

Launches run one after the other. Buffers are named as in :class:`~hybridc.ir.tiles.tile_program.TileLaunch`: ``x`` and
a number for an argument, ``y`` for a result, ``w`` for local memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.library_matmul import LibraryMatmul
from hybridc.ir.scalars import Number
from hybridc.ir.tiles.tile_program import TileLaunch


@dataclass(frozen=True)
class BlockFill:
    """A launch that fills a contiguous array with a constant."""

    dtype: DType
    size: int
    value: Number
    target: str


@dataclass(frozen=True)
class BlockCopy:
    """A launch that copies a contiguous array."""

    dtype: DType
    shape: Shape
    source: str
    target: str


# The sizes of loops, outermost first, and the strides of an array along them.
CopyLoops = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PaddedCopy:
    """A launch that copies ``lines`` of ``size`` elements, and fills each up with zeros to ``filled``.

    One index counts the loops of the source along ``batch``, one those along ``kept``, one those along ``terms``. The
    elements of a line are along ``inner``, one of the last two; along the other are ``per_batch`` lines. Offsets are
    ``wide`` if they need 64 bits.
    """

    dtype: DType
    source: str
    target: str
    lines: int
    size: int
    filled: int
    per_batch: int
    batch: CopyLoops
    kept: CopyLoops
    terms: CopyLoops
    inner: str
    wide: bool


@dataclass(frozen=True, eq=False)
class JoinedLaunches:
    """Launches of one flat program, each on arrays of its own, as one launch: the update of many weights, say."""

    members: tuple[TileLaunch, ...]


BlockLaunch = TileLaunch | JoinedLaunches | BlockFill | BlockCopy | PaddedCopy


@dataclass(frozen=True, eq=False)
class LibraryCode:
    """A matmul by a library, and the code of what follows it."""

    matmul: LibraryMatmul
    after: BlockCode | None


@dataclass(frozen=True, eq=False)
class BlockCode:
    """The launches of a kernel, the names of its ``buffers`` in their order, and the bytes of its ``locals``.

    ``library`` is a library's matmul that could replace all launches.
    """

    kernel: Kernel
    launches: Sequence[BlockLaunch]
    buffers: tuple[str, ...]
    locals: list[int]
    library: LibraryCode | None = None
