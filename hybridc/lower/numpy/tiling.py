"""How a fused kernel walks its domain: axes merged where operands agree, loops over the outer ones, blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass

from hybridc.lower.numpy.schedule import Schedule, Value
from hybridc.runtime.threads import CHUNKS
from hybridc.transforms.values import volume

Shape = tuple[int, ...]

# Elements in a tile: larger ones spill the caches, smaller ones drown in the cost of calling ufuncs (about 1 µs each).
TILE_ELEMENTS = 65536
# The same where threads share a kernel: they hand over Python's lock at each call, which takes as long as the
# arithmetic of a smaller tile. The third-level cache holds these.
SHARED_TILE_ELEMENTS = 262144
# Below this a second thread costs as much as it saves: its tiles would be too small for Python's lock.
PARALLEL_ELEMENTS = 393216


@dataclass(frozen=True)
class Tiling:
    """The loops of a kernel over ``dims``, its merged domain.

    ``loop`` outer axes are walked one by one, axis ``loop`` in blocks of ``block``, the rest is one tile. ``rows``
    merged axes are rows (all of them without reductions). ``axes`` are the original axes of each merged one.
    ``threads`` may share axis 0. A ``flat`` kernel is one tile in the natural shape.
    """

    flat: bool
    dims: Shape = ()
    axes: tuple[tuple[int, int], ...] = ()
    rows: int = 0
    loop: int = 0
    block: int = 1
    threads: int = 1

    def tile(self, row: bool) -> Shape:
        """The shape of a scratch tile."""
        inner = self.dims[self.loop + 1 :]
        if row:
            kept = self.rows - self.loop - 1
            inner = inner[:kept] + (1,) * (len(inner) - kept)
        return (self.block, *inner)

    @property
    def even(self) -> bool:
        """Whether the blocks divide their axis, so that no tile is partial."""
        return self.dims[self.loop] % self.block == 0


def tiling(plan: Schedule, threads: int) -> Tiling:
    """The loops for a kernel on at most ``threads`` threads."""
    total = volume(plan.domain)
    shared = threads if total >= PARALLEL_ELEMENTS else 1
    elements = _tile_elements(plan, shared)
    if total <= 2 * TILE_ELEMENTS or (shared == 1 and total <= elements):
        return Tiling(flat=True)
    axes = _merged(plan)
    dims = tuple(volume(plan.domain[a:b]) for a, b in axes)
    rows = len(axes) if plan.rows is None else sum(1 for _, b in axes if b <= plan.rows)
    loop, outer = 0, rows or len(axes)
    while loop < outer - 1 and volume(dims[loop + 1 :]) > elements:
        loop += 1
    block = _block(dims[loop], max(1, elements // volume(dims[loop + 1 :])))
    return Tiling(False, dims, axes, rows, loop, block, shared if dims[0] >= shared else 1)


def _tile_elements(plan: Schedule, threads: int) -> int:
    """How large a tile may be: a thread's whole share where every value is touched once and no cache would help."""
    touched = [v for s in plan.steps for v in (*s.operands, s.result) if isinstance(v, Value) and not v.row]
    if len(touched) == len({id(v) for v in touched}):
        return -(-volume(plan.domain) // (threads * CHUNKS if threads > 1 else 1))
    if threads == 1:
        return TILE_ELEMENTS
    share = volume(plan.domain) // (2 * threads)  # two tiles for each thread at least
    return max(TILE_ELEMENTS, min(SHARED_TILE_ELEMENTS, share))


def _block(size: int, wanted: int) -> int:
    """A block near ``wanted`` that divides ``size`` if there is one at least half as large."""
    if wanted >= size:
        return size
    for block in range(wanted, max(1, wanted // 2), -1):
        if size % block == 0:
            return block
    return wanted


def _merged(plan: Schedule) -> tuple[tuple[int, int], ...]:
    """Ranges of neighbouring axes along which every operand is either whole or broadcast."""
    rank = len(plan.domain)
    external = [*plan.args, *plan.outs]
    ranges: list[tuple[int, int]] = []
    current: tuple[bool, ...] | None = None
    for axis in range(rank):
        pattern = tuple(_size(v, axis, rank) == plan.domain[axis] for v in external)
        neutral = plan.domain[axis] == 1
        boundary = axis == plan.rows
        if ranges and not boundary and (neutral or current is None or pattern == current):
            ranges[-1] = (ranges[-1][0], axis + 1)
            current = current if neutral else pattern
        else:
            ranges.append((axis, axis + 1))
            current = None if neutral else pattern
    return tuple(ranges)


def _size(value: Value, axis: int, rank: int) -> int:
    position = axis - (rank - len(value.shape))
    return value.shape[position] if position >= 0 else 1


def merged_shape(value: Value, plan: Schedule, t: Tiling) -> Shape:
    """A value's shape over the merged axes: the axis' size, or 1 where it is broadcast."""
    rank = len(plan.domain)
    return tuple(volume(tuple(_size(value, a, rank) for a in range(start, stop))) for start, stop in t.axes)
