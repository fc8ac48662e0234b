"""The native code of any kernel: a product's by :mod:`~hybridc.lower.llvm.products`, loops' from its nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridc.lower.kernel import Kernel
from hybridc.lower.llvm.copy_loops import Strides
from hybridc.lower.llvm.kernel_phases import KernelPhase, KernelPhases, phases_of
from hybridc.lower.llvm.products import is_product, phases_of_product
from hybridc.lower.strides import row_major
from hybridc.lower.structured import shape_of

# Nanoseconds for an operation of a product, on one thread.
_FLOP_NS = 0.012


def code_of(
    kernel: Kernel, threads: int, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
) -> KernelPhases:
    """The phases of a kernel; ``strides``, in elements, are of arguments, then results, that may be no plain arrays."""
    if not is_product(kernel):
        return phases_of(kernel, strides, inplace)
    plain = [row_major(shape_of(v)) for v in (*kernel.arguments, *kernel.results)]
    found = phases_of_product(kernel, threads, [strides.get(i, s) for i, s in enumerate(plain)] if strides else None)
    return KernelPhases(
        [KernelPhase(p.function, p.buffers, p.numbers, p.extent, p.grain, p.scratch, p.flops * _FLOP_NS) for p in found]
    )


def memory_of(kernel: Kernel, threads: int, strided: Sequence[int]) -> tuple[int, list[int]]:
    """Bytes that each thread needs while a kernel runs, and those of the buffers that threads share."""
    values = [*kernel.arguments, *kernel.results]
    made = code_of(kernel, threads, {i: row_major(shape_of(values[i])) for i in strided})
    return made.scratch, made.locals
