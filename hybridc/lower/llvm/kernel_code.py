"""The native code of any kernel: a product's by :mod:`~hybridc.lower.llvm.products`, loops' from its nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.func import FuncOp

from hybridc.lower.kernel import Kernel, analyse
from hybridc.lower.llvm.copy_loops import Strides
from hybridc.lower.llvm.kernel_phases import KernelPhases, phases_of
from hybridc.lower.llvm.products import is_product, phases_of_product
from hybridc.lower.llvm.transpose_loops import transpose_phase
from hybridc.lower.strides import row_major
from hybridc.lower.structured import shape_of


def code_of(
    kernel: Kernel, threads: int, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
) -> KernelPhases:
    """The phases of a kernel; ``strides``, in elements, are of arguments, then results, that may be no plain arrays."""
    if not is_product(kernel):
        turned = None if strides else transpose_phase(kernel)
        return KernelPhases([turned]) if turned is not None else phases_of(kernel, strides, inplace)
    plain = [row_major(shape_of(v)) for v in (*kernel.arguments, *kernel.results)]
    given = [strides.get(i, s) for i, s in enumerate(plain)] if strides else None
    return KernelPhases(phases_of_product(kernel, threads, given))


class Codes:
    """The kernels of a module as they are now: each is analysed once, and has its phases made once for equal calls."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._kernels: dict[FuncOp, Kernel] = {}
        self._made: dict[Any, KernelPhases] = {}

    def forget(self) -> None:
        """Kernels may be others, or have other sizes, from now on."""
        self._kernels.clear()
        self._made.clear()

    def kernel(self, function: FuncOp) -> Kernel:
        """The facts about a kernel."""
        if function not in self._kernels:
            self._kernels[function] = analyse(function)
        return self._kernels[function]

    def of(
        self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
    ) -> KernelPhases:
        """Its phases, as :func:`code_of` makes them."""
        key = (kernel, tuple(sorted(strides.items())), tuple(inplace))
        if key not in self._made:
            self._made[key] = code_of(kernel, self.threads, strides, inplace)
        return self._made[key]

    def memory(self, kernel: Kernel, strided: Sequence[int]) -> tuple[int, list[int]]:
        """Bytes that each thread needs while a kernel runs, and those of the buffers that threads share."""
        values = [*kernel.arguments, *kernel.results]
        made = self.of(kernel, {i: row_major(shape_of(values[i])) for i in strided})
        return made.scratch, made.locals
