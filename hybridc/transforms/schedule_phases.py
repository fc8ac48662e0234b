"""Decide, for a target whose kernels are phases, what memory each needs meanwhile and what it may do in place."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from hybridc.dialects.hybrid_rt import aligned
from hybridc.lower.joined import part_of, strides_in_whole
from hybridc.lower.kernel import Kernel
from hybridc.lower.llvm.kernel_code import Codes
from hybridc.lower.strides import row_major
from hybridc.lower.structured import is_host, kernels, shape_of
from hybridc.transforms.tile_kernels import strided_arguments
from hybridc.transforms.values import functions


class KernelCodes(Protocol):
    """What a target makes of kernels; ``strided`` arguments and results may be no plain arrays."""

    threads: int

    def resized(self) -> None:
        """Kernels may have other sizes from now on."""
        ...

    def kernel(self, function: func.FuncOp) -> Kernel:
        """The facts about a kernel."""
        ...

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that the kernel may write over it."""
        ...

    def memory(self, kernel: Kernel, strided: Sequence[int]) -> tuple[int, list[int]]:
        """Bytes that each thread needs while a kernel runs, and those of the buffers that all share."""
        ...


@dataclass(frozen=True)
class SchedulePhases(ModulePass):
    """Sets what such a target needs to know about kernels when memory is planned.

    ``hybrid.scratch`` (bytes: what each thread needs, and what they share), ``hybrid.inplace`` (pairs of argument and
    result) and ``hybrid.strided`` (arguments that are views in some call, and results that are parts of greater arrays:
    numbers of the arguments, then of the results).
    """

    name = "schedule-phases"

    threads: int = 2
    codes: KernelCodes | None = field(default=None, compare=False)  # where the emitter finds what is made here

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        codes: KernelCodes = Codes(self.threads) if self.codes is None else self.codes
        codes.resized()
        strided, parts = strided_arguments(op), strided_results(op)
        for name, function in kernels(op).items():
            if is_host(function):
                continue
            kernel = codes.kernel(function)
            first = len(kernel.arguments)
            views = [*sorted(strided.get(name, set())), *(first + i for i in sorted(parts.get(name, set())))]
            pairs = [n for pair in codes.inplace(kernel, views) for n in pair]
            each, shared = codes.memory(kernel, views)
            size = self.threads * aligned(each) * bool(each) + sum(aligned(n) for n in shared)
            function.attributes["hybrid.scratch"] = IntegerAttr(size, i64)
            function.attributes["hybrid.inplace"] = _numbers(*pairs)
            if views:
                function.attributes["hybrid.strided"] = _numbers(*views)


@functools.lru_cache(1024)
def _numbers(*numbers: int) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(i64, numbers)


def strided_results(module: ModuleOp) -> dict[str, set[int]]:
    """For each kernel the results that, in some call, are parts of an array and no plain arrays themselves."""
    found: dict[str, set[int]] = {}
    for function in functions(module):
        if function.sym_visibility is not None:
            continue
        for op in function.body.block.ops:
            if isinstance(op, func.CallOp):
                parts = {
                    i for i, v in enumerate(op.results) if part_of(v) and strides_in_whole(v) != row_major(shape_of(v))
                }
                found.setdefault(op.callee.string_value(), set()).update(parts)
    return found
