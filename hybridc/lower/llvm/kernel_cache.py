"""The native code of a kernel: of a contraction (:mod:`~hybridc.lower.llvm.gemm.choose_gemm`) or of loop nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.func import FuncOp

from hybridc.ground.location import Location
from hybridc.ir.kernel import Kernel, analyse, resized
from hybridc.ir.strides import row_major
from hybridc.ir.structured import shape_of
from hybridc.lower.llvm.gemm.choose_gemm import is_contraction, regions_of_matmul
from hybridc.lower.llvm.grid_regions import grid_regions
from hybridc.lower.llvm.loops.copy_loops import Strides
from hybridc.lower.llvm.loops.parallel_regions import KernelLoops, ParallelRegions, Printer, print_loops
from hybridc.lower.llvm.loops.transpose_loops import transpose_region


def code_of(
    kernel: Kernel, threads: int, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
) -> ParallelRegions:
    """The parallel regions of a kernel; ``strides``, in elements, are those of non-contiguous arguments and results."""
    return KernelCache(threads).of(kernel, strides, inplace)


class KernelCache:
    """The compiled kernels of a module: each is analysed once, and has its regions made once for equal calls.

    What does not depend on sizes is reused when these change. ``printer`` makes the native function of a tile
    program.
    """

    def __init__(self, threads: int, printer: Printer = print_loops) -> None:
        self.threads = threads
        self._printer = printer
        self._kernels: dict[FuncOp, Kernel] = {}
        self._lines: dict[FuncOp, list[Location]] = {}
        self._loops: dict[Any, KernelLoops] = {}
        self._fitting: dict[Any, KernelLoops] = {}  # those that were checked for the current sizes
        self._made: dict[Any, ParallelRegions] = {}

    def resized(self) -> None:
        """Invalidate what depends on sizes: kernels have other ones from now on."""
        self._kernels = {function: resized(kernel) for function, kernel in self._kernels.items()}
        self._fitting.clear()
        self._made.clear()

    def kernel(self, function: FuncOp) -> Kernel:
        """The analysis of a kernel."""
        if function not in self._kernels:
            self._kernels[function] = analyse(function)
        return self._kernels[function]

    def lines(self, kernel: Kernel) -> list[Location]:
        """The user's source lines of a kernel."""
        if kernel.function not in self._lines:
            self._lines[kernel.function] = kernel.locations
        return self._lines[kernel.function]

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
        if kernel.grid:
            return grid_regions(kernel, strides, KernelCache(1, self._printer))
        if not is_contraction(kernel):
            turned = None if strides else transpose_region(kernel)
            if turned is not None:
                return ParallelRegions([turned])
            return self._loops_of(kernel, frozenset(strides), tuple(inplace)).at(kernel, strides)
        plain = [row_major(shape_of(v)) for v in (*kernel.arguments, *kernel.results)]
        given = [strides.get(i, s) for i, s in enumerate(plain)] if strides else None
        return ParallelRegions([*regions_of_matmul(kernel, self.threads, given, printer=self._printer)])

    def _loops_of(self, kernel: Kernel, strided: frozenset[int], inplace: tuple[tuple[int, int], ...]) -> KernelLoops:
        """The functions of a kernel without contractions."""
        key = (kernel.function, strided, inplace)
        if key not in self._fitting:
            known = self._loops.get(key)
            if known is None or not known.fits(kernel):
                known = self._loops[key] = KernelLoops(kernel, strided, inplace, self._printer)
            self._fitting[key] = known
        return self._fitting[key]

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that may overwrite it."""
        return (
            []
            if is_contraction(kernel) or kernel.grid
            else self._loops_of(kernel, frozenset(strided), ()).inplace_pairs
        )

    def memory(self, kernel: Kernel, strided: Sequence[int]) -> tuple[int, list[int]]:
        """Bytes of scratch of all threads, and of each buffer that they share."""
        values = [*kernel.arguments, *kernel.results]
        made = self.of(kernel, {i: row_major(shape_of(values[i])) for i in strided})
        return made.scratch_of(self.threads), made.locals
