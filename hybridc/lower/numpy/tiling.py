"""How a nest walks its domain: axes merged where all values agree, loops over the outer ones, blocks of one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hybridc.dialects.math.reduction import LONG_COLUMN
from hybridc.ir.kernel import Axes
from hybridc.ir.structured import Shape
from hybridc.lower.numpy.schedule import NestSteps, StepOperand, UfuncStep
from hybridc.lower.numpy.tile_threads import CHUNKS

# Elements in a tile: larger ones spill the caches, smaller ones drown in the cost of calling ufuncs (about 1 µs each).
TILE_ELEMENTS = 65536
# The same where threads share a kernel: they hand over Python's lock at each call, which takes as long as the
# arithmetic of a smaller tile. The third-level cache holds these.
SHARED_TILE_ELEMENTS = 262144
# Bytes that all arrays of such a tile may have: the more arrays, the smaller the tiles that stay in the caches. Kernels
# of backwards, with five to twelve arrays, are 5 to 25 % faster for it; one to three megabytes do equally well.
SHARED_TILE_BYTES = 3 << 20
# Below this a second thread costs as much as it saves: its tiles would be too small for Python's lock.
PARALLEL_ELEMENTS = 393216
# The parts of a reduction across tiles may be so much of what is reduced; else they are added where they belong,
# one tile after the other.
PARTS = 1 / 8


@dataclass(frozen=True)
class Tiling:
    """The loops of a nest over ``dims``, its merged domain.

    ``loop`` outer axes are walked one by one, axis ``loop`` in blocks of ``block``, the rest is one tile. ``axes`` are
    the original axes of each merged one. ``threads`` may share axis 0. A ``flat`` nest is one tile. Reductions across
    tiles gather parts, or go ``direct`` into their results.
    """

    flat: bool
    dims: Shape
    axes: tuple[tuple[int, int], ...]
    loop: int = 0
    block: int = 1
    threads: int = 1
    direct: bool = False

    def merged(self, axes: Iterable[int]) -> Axes:
        """The merged axes that some original ones belong to, in their order."""
        found = (next(i for i, (a, b) in enumerate(self.axes) if a <= axis < b) for axis in axes)
        return tuple(dict.fromkeys(found))

    def tile(self, axes: Axes) -> Shape:
        """The shape of a scratch tile of a value that follows these original axes: 1 along all others."""
        kept = self.merged(axes)
        sizes = [n if a in kept else 1 for a, n in enumerate(self.dims)]
        if self.flat:
            return tuple(sizes)
        return (self.block if self.loop in kept else 1, *sizes[self.loop + 1 :])

    @property
    def pieces(self) -> int:
        """How many pieces axis 0 is cut into."""
        return -(-self.dims[0] // self.block) if self.loop == 0 else self.dims[0]

    @property
    def even(self) -> bool:
        """Whether the blocks divide their axis, so that no tile is partial."""
        return self.dims[self.loop] % self.block == 0


def tiling(part: NestSteps, threads: int) -> Tiling:
    """The loops for a nest on at most ``threads`` threads."""
    total = math.prod(part.domain)
    shared = threads if total >= PARALLEL_ELEMENTS else 1
    elements = _tile_elements(part, shared)
    long = any(_is_long_column(s, part.domain) for s in part.steps)
    if part.grid == 0 or (not long and (total <= 2 * TILE_ELEMENTS or (shared == 1 and total <= elements))):
        return _flat(part)
    axes = _merged(part)
    dims = tuple(math.prod(part.domain[a:b]) for a, b in axes)
    loop, outer = 0, sum(1 for _, b in axes if b <= part.grid)
    if any(s.across and len(s.result.axes) + len(s.reduced) < len(part.domain) for s in part.steps):
        outer = 1  # inner loops would repeat what does not depend on them, and add it again
    while loop < outer - 1 and math.prod(dims[loop + 1 :]) > elements:
        loop += 1
    wanted = max(1, elements // math.prod(dims[loop + 1 :]))
    block = _block(dims[loop], min(wanted, LONG_COLUMN) if long else wanted)
    found = Tiling(False, dims, axes, loop, block, shared if dims[0] >= shared else 1)
    if _parts(part, found) <= PARTS * total:
        return found
    return _flat(part) if _touched_once(part) else Tiling(False, dims, axes, loop, block, direct=True)


def _is_long_column(step: UfuncStep, domain: Shape) -> bool:
    """Whether a step is a floating-point sum over outer axes with more elements than NumPy should add in sequence."""
    floating = step.across and step.combine == "np.add" and step.result.dtype.kind == "f"
    is_column = floating and len(domain) - 1 not in step.reduced
    return is_column and math.prod(domain[a] for a in step.reduced) > LONG_COLUMN


def _flat(part: NestSteps) -> Tiling:
    """One tile."""
    return Tiling(True, part.domain, tuple((a, a + 1) for a in range(len(part.domain))))


def _touched_once(part: NestSteps) -> bool:
    """Whether every array is gone through once, so that no cache would help."""
    rank = len(part.domain)
    touched = [o.value for s in part.steps for o in (*s.reads(), s.result) if len(o.axes) == rank]
    return not part.before and len(touched) == len(set(touched))


def _tile_elements(part: NestSteps, threads: int) -> int:
    """How large a tile may be: a thread's whole share where no cache would help."""
    if _touched_once(part):
        return -(-math.prod(part.domain) // (threads * CHUNKS if threads > 1 else 1))
    if threads == 1:
        return TILE_ELEMENTS
    share = math.prod(part.domain) // (2 * threads)  # two tiles for each thread at least
    return max(TILE_ELEMENTS, min(SHARED_TILE_ELEMENTS, share, SHARED_TILE_BYTES // _bytes(part)))


def _bytes(part: NestSteps) -> int:
    """The bytes of all arrays at one point of the domain."""
    whole = [o for s in part.steps for o in (*s.reads(), s.result) if len(o.axes) == len(part.domain)]
    places = {o.value if o.value.slot is None else o.value.slot: o.dtype.itemsize for o in whole}
    return max(1, sum(places.values()))


def _block(size: int, wanted: int) -> int:
    """A block near ``wanted`` that divides ``size`` if there is one at least half as large."""
    if wanted >= size:
        return size
    for block in range(wanted, max(1, wanted // 2), -1):
        if size % block == 0:
            return block
    return wanted


def _parts(part: NestSteps, t: Tiling) -> int:
    """How many elements the parts of reductions across tiles have."""
    kept = [math.prod(part.domain[a] for a in s.result.axes) for s in part.steps if s.across]
    return t.pieces * sum(kept)


def _merged(part: NestSteps) -> tuple[tuple[int, int], ...]:
    """Ranges of neighbouring axes that every value has next to each other, or does not have at all."""
    ranges: list[tuple[int, int]] = []
    for axis in range(len(part.domain)):
        if ranges and all(_together(s, axis - 1) for s in part.steps):
            ranges[-1] = (ranges[-1][0], axis + 1)
        else:
            ranges.append((axis, axis + 1))
    return tuple(ranges)


def _together(step: UfuncStep, axis: int) -> bool:
    """Whether a step sees an axis and the next one as one."""
    if (axis in step.reduced) != (axis + 1 in step.reduced):
        return False
    return all(_adjacent(o, axis) for o in (*step.reads(), step.result))


def _adjacent(operand: StepOperand, axis: int) -> bool:
    axes = operand.axes
    if axis not in axes or axis + 1 not in axes:
        return axis not in axes and axis + 1 not in axes
    return operand.value.plain and axes.index(axis + 1) == axes.index(axis) + 1
