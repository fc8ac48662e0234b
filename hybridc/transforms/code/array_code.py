"""The code of a kernel for a machine whose statements are functions of whole arrays.

A kernel's loop nests run one after the other, each as steps on whole arrays, then on tiles. Of a kernel with a grid,
they do so at each tile of the grid; what nests make for each other at a tile lies in scratch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.grid_kernel import GridIndex, TileKernel, tile_kernels, tile_of
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelValue
from hybridc.ir.tiles.tile_program import TileProgram
from hybridc.transforms.schedules.arrays.array_steps import (
    KernelSteps,
    NestSteps,
    StepOperand,
    StepValue,
    UfuncStep,
)
from hybridc.transforms.schedules.arrays.assign_slots import assign_slots
from hybridc.transforms.schedules.arrays.schedule_arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.sum_products import sum_products

# Bytes that loop nests make for each other at a tile of a grid. With smaller tiles, threads wait for each other more
# often than they save: half the size takes a tenth longer with two threads. A tile that is cut has at least so many
# rows.
MOST, FEWEST = 2**24, 64


@dataclass(frozen=True)
class ScratchArray:
    """An array of a kernel's scratch."""

    offset: int
    dtype: DType
    shape: Shape


@dataclass
class ScratchMemory:
    """Memory of a kernel that is cut up; ``size`` bytes of it are taken."""

    size: int = 0

    def array(self, dtype: DType, shape: Shape) -> ScratchArray:
        """A further array."""
        array = ScratchArray(self.size, dtype, shape)
        self.size += aligned(math.prod(shape) * dtype.itemsize)
        return array


@dataclass(frozen=True)
class TileLoops:
    """The loops of a program over ``dims``, its axes.

    ``loop`` outer axes are iterated one by one, axis ``loop`` in blocks of ``block``, the rest is one tile; if
    ``flat``, everything is.
    """

    flat: bool
    dims: Shape
    loop: int = 0
    block: int = 1

    @classmethod
    def of(cls, program: TileProgram | None) -> TileLoops:
        """Those of a program."""
        if program is None:
            return cls(True, ())
        sizes = program.known_sizes
        grid = next((t for t in program.tiles if t.walk == "grid"), None)
        if grid is None:
            return cls(True, sizes)
        assert isinstance(grid.block, int)
        return cls(False, sizes, grid.axes[0], grid.block)

    def tile(self, axes: Axes) -> Shape:
        """The shape of a scratch tile of a value that follows these axes: 1 along all others."""
        sizes = [n if a in axes else 1 for a, n in enumerate(self.dims)]
        return tuple(sizes) if self.flat else (self.block if self.loop in axes else 1, *sizes[self.loop + 1 :])

    @property
    def pieces(self) -> int:
        """How many pieces axis 0 is cut into."""
        return -(-self.dims[0] // self.block) if self.loop == 0 else self.dims[0]

    @property
    def even(self) -> bool:
        """Whether the blocks divide their axis, so that no tile is partial."""
        return self.dims[self.loop] % self.block == 0


@dataclass(frozen=True, eq=False)
class NestCode:
    """The steps of one loop nest, its loops over tiles, and its scratch.

    ``whole`` are the kernel's arrays for whole values that it uses. In ``gathered`` arrays its reductions across tiles
    gather what each piece of axis 0 gives: one part a piece, whoever computes it, so that results do not depend on how
    threads share the work. Each thread has its own ``slots``.
    """

    part: NestSteps
    loops: TileLoops
    whole: dict[str, ScratchArray]
    gathered: dict[str, ScratchArray]
    slots: list[list[ScratchArray]]

    @classmethod
    def of(cls, part: NestSteps, steps: KernelSteps, whole: dict[str, ScratchArray], memory: ScratchMemory) -> NestCode:
        """That of the steps of a nest; its scratch is taken of memory."""
        loops = TileLoops.of(part.nest.rest)
        used = [o.value for s in (*part.before, *part.steps) for o in (*s.reads(), s.result)]
        names = sorted({v.name for v in used if v.kind == "w"}, key=lambda name: int(name[1:]))
        gathered: dict[str, ScratchArray] = {}
        for step in part.steps:
            if step.into in steps.memory.pieces:
                kept = [loops.dims[a] for a in sorted(step.result.axes)]
                gathered[step.into] = memory.array(step.result.dtype, (loops.pieces, *kept))
        slots = [[memory.array(d, loops.tile(axes)) for d, axes in part.slots] for _ in range(part.nest.threads)]
        return cls(part, loops, {name: whole[name] for name in names}, gathered, slots)

    def inplace_pairs(self) -> list[tuple[int, int]]:
        """The arguments that it reads, and the results that it may write over them, element by element."""
        writes: dict[StepValue, UfuncStep] = {}
        reads: dict[StepValue, list[tuple[UfuncStep, StepOperand]]] = {}
        for step in (*self.part.before, *self.part.steps):
            if step.result.value.kind == "y":
                writes.setdefault(step.result.value, step)
            for operand in step.reads():
                if operand.value.kind == "x":
                    reads.setdefault(operand.value, []).append((step, operand))
        return [
            (int(arg.name[1:]), int(out.name[1:]))
            for out, write in writes.items()
            for arg, uses in reads.items()
            if (arg.shape, arg.dtype) == (out.shape, out.dtype)
            and not write.reduces
            and arg.last_use <= write.index
            and all(self._leaves(write, *read) for read in uses)
        ]

    def _leaves(self, write: UfuncStep, step: UfuncStep, operand: StepOperand) -> bool:
        """Whether a step reads an argument before a result is written there, on this tile and on all others."""
        part = self.part
        if step is not write and (self.loops.flat or write not in part.steps or step not in part.steps):
            return True
        if operand.axes != write.result.axes or len(operand.axes) < len(part.sizes):
            return False
        return step is not write or step.may_overwrite(operand)


class KernelArrays(ABC):
    """The code of a kernel: functions of arrays."""

    kernel: Kernel
    bytes: int  # of scratch, from an offset that is a multiple of 64

    @property
    @abstractmethod
    def threads(self) -> int:
        """How many threads may share it."""

    @abstractmethod
    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Which arguments may share memory with which results."""


class ArrayCode(KernelArrays):
    """The code of a kernel whose loop nests run one after the other; so what each alone takes shares memory."""

    def __init__(
        self, kernel: Kernel, threads: int, strided: frozenset[int] = frozenset(), updates: Sequence[int] = ()
    ) -> None:
        self.kernel = kernel
        scheduled, memory = schedule_arrays(kernel, threads, strided, updates)
        self.steps = KernelSteps(scheduled, memory, ", ".join(map(str, kernel.locations)))
        sum_products(self.steps)
        assign_slots(self.steps)
        scratch = ScratchMemory()
        whole = {n: scratch.array(v.dtype, v.shape) for n, v in self.steps.arrays.items() if v.kind == "w"}
        begin = self.bytes = scratch.size
        self.nests: list[NestCode] = []
        for part in self.steps.nests:
            scratch.size = begin
            self.nests.append(NestCode.of(part, self.steps, whole, scratch))
            self.bytes = max(self.bytes, scratch.size)

    @property
    def threads(self) -> int:
        return max((nest.part.nest.threads for nest in self.nests), default=1)

    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Those of one loop nest, as nests may be many."""
        pairs = (pair for nest in self.nests for pair in nest.inplace_pairs())
        return sorted((p for p in pairs if f"x{p[0]}" not in self.steps.viewed), key=lambda pair: (pair[1], pair[0]))


class GridCode(KernelArrays):
    """The code of a kernel with a grid: at each tile one loop nest after the other.

    Threads share each nest of a tile, as they share the nests of other kernels. ``names`` are those of the kernel's
    arrays and of indices along the grid; values ``inner`` are what nests make for each other. Each part has the scratch
    from ``own`` on to itself.
    """

    def __init__(self, kernel: Kernel, threads: int, strided: frozenset[int] = frozenset()) -> None:
        self.kernel = kernel
        self.tile = tile_of(kernel, MOST, FEWEST, batch=MOST)
        self.sizes = [kernel.nests[0].domain[a] for a in kernel.grid[0]]
        self.counts = [size // n for size, n in zip(self.sizes, self.tile, strict=True)]
        values = [*kernel.arguments, *kernel.results]
        self.strided = {values[i] for i in strided}
        self.names: dict[KernelValue | GridIndex, str] = {v: f"y{i}" for i, v in enumerate(kernel.results)}
        self.names |= {v: f"x{i}" for i, v in enumerate(kernel.arguments)}
        self.inner: dict[KernelValue | GridIndex, ScratchArray] = {}
        self.readers = Counter(v for nest in kernel.nests for v in {r.value for s in nest.ops for r in s.reads})
        memory = ScratchMemory()
        self.parts = [self._part(part, threads, memory) for part in tile_kernels(kernel, kernel.nests, self.tile)]
        self.own = memory.size
        self.bytes = self.own + max(aligned(code.bytes) for _, code in self.parts)

    @property
    def threads(self) -> int:
        return max(code.threads for _, code in self.parts)

    def inplace_pairs(self) -> list[tuple[int, int]]:
        return []

    def _part(self, part: TileKernel, threads: int, memory: ScratchMemory) -> tuple[TileKernel, ArrayCode]:
        values = [*part.arguments, *part.results]
        strided = [i for i, (v, dims) in enumerate(zip(values, part.dims, strict=True)) if self._is_strided(v, dims)]
        code = ArrayCode(part.kernel, threads, frozenset(strided))
        for index in part.arguments:
            if isinstance(index, GridIndex):
                self.names[index] = f"n{index.axis}"
        over = self._over(part, code)
        for value, result in zip(part.results, part.kernel.results, strict=True):
            if value in over:
                self.inner[value] = self.inner[over[value]]
            elif value not in self.names:
                self.inner[value] = memory.array(result.dtype, result.shape)
        return part, code

    def _over(self, part: TileKernel, code: ArrayCode) -> dict[KernelValue, KernelValue | GridIndex]:
        """Results in scratch that lie over an argument which no later loop nest reads."""
        over: dict[KernelValue, KernelValue | GridIndex] = {}
        for i, j in code.inplace_pairs():
            argument, result = part.arguments[i], part.results[j]
            alone = argument in self.inner and isinstance(argument, KernelValue) and self.readers[argument] == 1
            if alone and result not in self.names and result not in over and argument not in over.values():
                over[result] = argument
        return over

    def _is_strided(self, value: KernelValue | GridIndex, dims: Sequence[int | None]) -> bool:
        """Whether a tile's part of an array of the kernel is not contiguous."""
        if isinstance(value, GridIndex) or value not in self.names:
            return False
        shape, last = [*value.shape], 0
        for d, n, count in zip(dims, self.tile, self.counts, strict=True):
            if d is not None:
                shape[d], last = n, last if count == 1 else max(last, d)
        return value in self.strided or math.prod(shape[:last]) != 1


@dataclass
class ArrayCodes:
    """The code of a module's kernels for so many ``threads``, chosen once for equal calls."""

    threads: int
    _codes: dict[object, KernelArrays] = field(default_factory=dict[object, KernelArrays])

    def of(self, kernel: Kernel, strided: Sequence[int], updates: Sequence[int]) -> KernelArrays:
        """The code of a kernel.

        ``strided`` arguments and results may be non-contiguous; of the results ``updates`` some call gives what they
        hold so far.
        """
        key = (kernel, tuple(strided), tuple(updates))
        if key not in self._codes:
            self._codes[key] = code_of_arrays(kernel, self.threads, frozenset(strided), updates)
        return self._codes[key]


def code_of_arrays(
    kernel: Kernel, threads: int, strided: frozenset[int] = frozenset(), updates: Sequence[int] = ()
) -> KernelArrays:
    """The code of a kernel; of the results ``updates`` some call gives what they hold so far."""
    return GridCode(kernel, threads, strided) if kernel.grid else ArrayCode(kernel, threads, strided, updates)
