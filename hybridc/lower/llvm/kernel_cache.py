"""The native code of a kernel: of a contraction (:mod:`~hybridc.lower.llvm.gemm.choose_gemm`) or of loop nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg

from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import linear_map_of
from hybridc.ir.grid_kernel import TileKernel, tile_kernels
from hybridc.ir.kernel import AnalysedKernels, Kernel, LoopNest, constants_of
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.llvm.codegen.native_function import compile_functions_ahead
from hybridc.lower.llvm.gemm.choose_gemm import is_contraction_kernel, regions_of_matmul
from hybridc.lower.llvm.gemm.gemm_region import registers
from hybridc.lower.llvm.gemm.lane_regions import lane_regions
from hybridc.lower.llvm.gemm.partial_sums import partial_sum_regions
from hybridc.lower.llvm.grid_regions import grid_regions
from hybridc.lower.llvm.loops.parallel_regions import (
    KernelLoops,
    ParallelRegions,
    Printer,
    Strides,
    move_region,
    print_loops,
)
from hybridc.transforms.schedules.schedule_linear_map import schedule_linear_map
from hybridc.transforms.schedules.schedule_moves import move_of, schedule_fill, schedule_move


def code_of(
    kernel: Kernel, threads: int, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
) -> ParallelRegions:
    """The parallel regions of a kernel; ``strides``, in elements, are those of non-contiguous arguments and results."""
    return KernelCache(threads).of(kernel, strides, inplace)


class KernelCache(AnalysedKernels):
    """The compiled kernels of a module: each is analysed once, and has its regions made once for equal calls.

    What does not depend on sizes is reused when these change. ``printer`` makes the native function of a tile
    program. ``ahead``: LLVM compiles kernels from when their code is known on.
    """

    def __init__(self, threads: int, printer: Printer = print_loops) -> None:
        super().__init__()
        self.threads = threads
        self.printer = printer
        self.ahead = False
        self._started: list[Any] = []
        self._loops: dict[Any, KernelLoops] = {}
        self._fitting: dict[Any, KernelLoops] = {}  # those that were checked for the current sizes
        self._made: dict[Any, ParallelRegions] = {}
        self._tiles: dict[FuncOp, tuple[list[Any], list[TileKernel], KernelCache]] = {}

    def resized(self) -> None:
        """Invalidate what depends on sizes: kernels have other ones from now on."""
        super().resized()
        self._fitting.clear()
        self._made.clear()
        self._started.clear()

    def of(
        self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
    ) -> ParallelRegions:
        """The parallel regions of a kernel.

        ``strides``, in elements, are those of non-contiguous arguments and results; ``inplace`` are pairs of
        an argument and the result that overwrites it.
        """
        key = (kernel, tuple(sorted(strides.items())), tuple(inplace))
        if key not in self._made:
            self._made[key] = self._make(kernel, strides, inplace)
        return self._made[key]

    def _make(
        self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]]
    ) -> ParallelRegions:
        constants = None if kernel.arguments else constants_of(kernel)
        if constants is not None:
            fills = [
                schedule_fill(dtype_of(v), shape_of(v), strides.get(i) or row_major(shape_of(v)), value)
                for i, (v, value) in enumerate(zip(kernel.results, constants, strict=True))
            ]
            return ParallelRegions([move_region(fill, (i,), self.printer) for i, fill in enumerate(fills)])
        if kernel.grid:
            return grid_regions(kernel, strides, self)
        if not is_contraction_kernel(kernel):
            move = None if inplace else move_of(kernel, strides)
            schedule = None if move is None else schedule_move(move, registers())
            if schedule is not None:
                return ParallelRegions([move_region(schedule, (0, 1), self.printer)])
            return self._loops_of(kernel, frozenset(strides), tuple(inplace)).at(kernel, strides)
        plain = [row_major(shape_of(v)) for v in (*kernel.arguments, *kernel.results)]
        given = [strides.get(i, s) for i, s in enumerate(plain)]
        mapped = linear_map_of(kernel)
        if mapped is not None:
            schedule = schedule_linear_map(mapped, given, registers())
            return ParallelRegions([move_region(schedule, (0, 1), self.printer)])
        lanes = lane_regions(kernel, given, registers())
        if lanes is not None:
            return lanes
        pieces = partial_sum_regions(kernel, self.threads, given) if len(kernel.ops) == 1 else None
        if pieces is not None:
            return pieces
        regions = regions_of_matmul(kernel, self.threads, given, printer=self.printer)
        if len(kernel.ops) > 1 and not regions:
            return grid_regions(kernel.as_one_tile(), strides, self)
        return ParallelRegions([*regions])

    def _loops_of(self, kernel: Kernel, strided: frozenset[int], inplace: tuple[tuple[int, int], ...]) -> KernelLoops:
        """The functions of a kernel without contractions."""
        key = (kernel.function, strided, inplace)
        if key not in self._fitting:
            known = self._loops.get(key)
            if known is None or not known.fits(kernel):
                known = self._loops[key] = KernelLoops(kernel, strided, inplace, self.printer)
            self._fitting[key] = known
        return self._fitting[key]

    def tiles(self, kernel: Kernel, nests: Sequence[LoopNest], tile: Shape) -> tuple[list[TileKernel], KernelCache]:
        """The nests at a tile with so many points along each axis, and their code; kept while they would be equal."""
        facts = _tile_facts(kernel, tile)
        known = self._tiles.get(kernel.function)
        if known is None or known[0] != facts:
            known = (facts, tile_kernels(kernel, nests, tile), KernelCache(1, self.printer))
            self._tiles[kernel.function] = known
        return known[1:]

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that may overwrite it."""
        return (
            []
            if not kernel.arguments or is_contraction_kernel(kernel) or kernel.grid
            else self._loops_of(kernel, frozenset(strided), ()).inplace_pairs
        )

    def memory(self, kernel: Kernel, strides: Mapping[int, Strides]) -> tuple[int, list[int]]:
        """Bytes of scratch of all threads, and of each buffer that they share."""
        made = self.of(kernel, strides)
        if self.ahead and not self.inplace(kernel, [*strides]):  # whatever the memory plan, this will be called
            self._started += compile_functions_ahead(made.functions)
        return made.scratch_of(self.threads), made.locals


def _tile_facts(kernel: Kernel, tile: Shape) -> list[Any]:
    """What the kernels at a tile follow from: sizes that the tile has, and attributes of all operations."""
    found: list[Any] = [tile]
    for nest, grid in zip(kernel.nests, kernel.grid, strict=True):
        rank = len(nest.domain)
        found.append([n for a, n in enumerate(nest.domain) if a not in grid])
        found.append([n for kernel_op in nest.ops for a, n in kernel_op.extents.items() if a >= rank])
    for op in kernel.function.body.walk():
        found += (*op.properties.values(), *op.attributes.values())
        if isinstance(op, linalg.IndexOp):
            found.append([nest.domain for nest in kernel.nests])
    return found
