"""Choose the code of kernels, and set what the memory plan needs to know of it: scratch, pairs in place, strides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.concatenated import MovedArrays, strided_arrays
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.kernels.kernel_module import kernel_functions
from hybridc.ir.kernels.kernel_notes import INPLACE, SCRATCH, STRIDED
from hybridc.ir.planned import Strides


class KernelCacheInterface(Protocol):
    """A target's compiler of kernels; ``strided`` arguments and results may be non-contiguous."""

    @property
    def threads(self) -> int:
        """The threads that share parallel regions."""
        ...

    def resized(self, kernels: Collection[Kernel]) -> None:
        """Drop the code of other kernels than these: they have other sizes from now on."""
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

    def memory(self, kernel: Kernel, strides: Mapping[int, Strides]) -> tuple[int, list[int]]:
        """Bytes of scratch of all threads, and of each buffer that they share; ``strides`` as above."""
        ...


@dataclass(frozen=True)
class ChooseCode(ModulePass):
    """Lets a target choose the code of its kernels, and sets what the memory planner needs to know about it.

    ``hybrid.scratch`` (bytes: per thread, and shared), ``hybrid.inplace`` (pairs of argument and
    result) and ``hybrid.strided`` (arguments that are views in some call, and results that are parts of concatenations:
    indices of the arguments, then of the results).
    """

    name = "choose-code"

    kernel_cache: KernelCacheInterface = field(compare=False)  # shared with the emitter
    moved: dict[func.FuncOp, MovedArrays] = field(
        default_factory=dict[func.FuncOp, MovedArrays], compare=False
    )  # by caller

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel_cache = self.kernel_cache
        kernels = kernel_functions(op)
        kernel_cache.resized([function.kernel for function in kernels.values()])
        strided = strided_arrays(op, self.moved)
        for name, function in kernels.items():
            kernel = function.kernel
            calls = strided.get(name, [])
            views = sorted({i for call in calls for i in call})
            SCRATCH.put(function, _scratch(kernel, kernel_cache, views, calls))
            INPLACE.put(function, kernel_cache.inplace(kernel, views))
            if views:
                STRIDED.put(function, views)


def _scratch(
    kernel: Kernel, kernel_cache: KernelCacheInterface, views: Sequence[int], calls: Sequence[Mapping[int, Strides]]
) -> int:
    """The bytes of scratch that serve all calls: the algorithm of a contraction may depend on the strides."""
    values = [*kernel.arguments, *kernel.results] if views else []
    strides_of_calls = [{i: call.get(i) or row_major(values[i].shape) for i in views} for call in calls] or [{}]
    needed = [kernel_cache.memory(kernel, strides) for strides in strides_of_calls]
    return max(scratch + sum(aligned(n) for n in shared) for scratch, shared in needed)
