"""Set the scratch, in-place pairs and strided operands of kernels, for targets with parallel regions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ground.location import Location
from hybridc.ir.joined import strides_in_whole
from hybridc.ir.kernel import Kernel
from hybridc.ir.planned import Strides
from hybridc.ir.strides import row_major
from hybridc.ir.structured import is_host, kernels, shape_of
from hybridc.ir.values import functions
from hybridc.lower.llvm.kernel_code import Codes
from hybridc.lower.numpy.tile_kernels import is_strided, parts_made, views_given


class KernelCodes(Protocol):
    """A target's compiler of kernels; ``strided`` arguments and results may be non-contiguous."""

    threads: int

    def resized(self) -> None:
        """Invalidate what depends on sizes: kernels have other ones from now on."""
        ...

    def kernel(self, function: func.FuncOp) -> Kernel:
        """The analysis of a kernel."""
        ...

    def lines(self, kernel: Kernel) -> list[Location]:
        """The user's source lines of a kernel."""
        ...

    def of(self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]]) -> Any:
        """The parallel regions of a kernel, the bytes of its ``locals``, and of the ``scratch`` per thread.

        ``strides``, in elements, are those of non-contiguous arguments and results; ``inplace`` are pairs of
        an argument and the result that overwrites it.
        """
        ...

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that may overwrite it."""
        ...

    def memory(self, kernel: Kernel, strided: Sequence[int]) -> tuple[int, list[int]]:
        """Bytes of scratch of all threads, and of each buffer that they share."""
        ...


@dataclass(frozen=True)
class _Calls:
    """The strided arguments (views) and results (parts of concatenations) of the calls in a function."""

    views: list[tuple[str, int, SSAValue]]
    parts: list[tuple[str, int, SSAValue]]


@dataclass(frozen=True)
class SchedulePhases(ModulePass):
    """Sets what the memory planner needs to know about kernels of targets with parallel regions.

    ``hybrid.scratch`` (bytes: per thread, and shared), ``hybrid.inplace`` (pairs of argument and
    result) and ``hybrid.strided`` (arguments that are views in some call, and results that are parts of concatenations:
    indices of the arguments, then of the results).
    """

    name = "schedule-phases"

    threads: int = 2
    codes: KernelCodes | None = field(default=None, compare=False)  # shared with the emitter
    calls: dict[func.FuncOp, _Calls] = field(default_factory=dict[func.FuncOp, _Calls], compare=False)  # by caller

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        codes: KernelCodes = Codes(self.threads) if self.codes is None else self.codes
        codes.resized()
        strided, parts = self._strided(op)
        for name, function in kernels(op).items():
            if is_host(function):
                continue
            kernel = codes.kernel(function)
            first = len(kernel.arguments)
            views = [*sorted(strided.get(name, set())), *(first + i for i in sorted(parts.get(name, set())))]
            pairs = [n for pair in codes.inplace(kernel, views) for n in pair]
            scratch, shared = codes.memory(kernel, views)
            function.attributes["hybrid.scratch"] = _size(scratch + sum(aligned(n) for n in shared))
            function.attributes["hybrid.inplace"] = _numbers(*pairs)
            if views:
                function.attributes["hybrid.strided"] = _numbers(*views)

    def _strided(self, module: ModuleOp) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
        """For each kernel the arguments, and the results, that are non-contiguous in some call."""
        strided: dict[str, set[int]] = {}
        parts: dict[str, set[int]] = {}
        for function in functions(module):
            if function.sym_visibility is not None:
                continue
            if function not in self.calls:
                self.calls[function] = _Calls(views_given(function), parts_made(function))
            calls = self.calls[function]
            for name, number, value in calls.views:
                if is_strided(value):
                    strided.setdefault(name, set()).add(number)
            for name, number, value in calls.parts:
                if strides_in_whole(value) != row_major(shape_of(value)):
                    parts.setdefault(name, set()).add(number)
        return strided, parts


@functools.lru_cache(1024)
def _size(size: int) -> IntegerAttr:
    return IntegerAttr.new([IntAttr(size), i64])


@functools.lru_cache(1024)
def _numbers(*numbers: int) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(i64, numbers)
