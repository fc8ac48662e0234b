"""The Triton functions of any kernel: of a matmul, of attention, or of its loop nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, TritonKernel
from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel import Kernel, KernelOp, LoopNest
from hybridc.ir.kernels.kernel_text import AnalysedKernels
from hybridc.ir.loop_nest_plan import LoopNestPlan, inplace_pairs, loop_nests_of, pairs_in
from hybridc.ir.planned import SlotView
from hybridc.lower.triton.attention_launches import launches_of_attention
from hybridc.lower.triton.handwritten_launch import launch
from hybridc.lower.triton.matmul.matmul_launches import launches_of_matmul
from hybridc.lower.triton.texts import copy_launch, fill_launch
from hybridc.lower.triton.tiles_to_triton import launches_of
from hybridc.lower.triton.triton_function import TritonLaunches
from hybridc.transforms.schedules.blocks.fused_matmul import fused_matmul

Strides = tuple[int, ...]


class TritonKernelCache(AnalysedKernels):
    """The kernels of a module: each is analysed once, and has its launches made once for equal calls."""

    threads = 1

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[Any, TritonLaunches] = {}

    def resized(self) -> None:
        """Kernels have other sizes from now on."""
        super().resized()
        self._made.clear()

    def of(
        self,
        kernel: Kernel,
        strides: Mapping[int, Strides],
        inplace: Sequence[tuple[int, int]] = (),
    ) -> TritonLaunches:
        """The launches of a kernel; ``strides``, in elements, are of arguments and results that are not contiguous."""
        key = (kernel, tuple(sorted(strides.items())))
        if key not in self._made:
            launches = None
            if any(nest.contraction is not None for nest in kernel.nests):
                launches = launches_of_matmul(kernel, strides) or launches_of_attention(kernel, strides)
            self._made[key] = launches if launches is not None else launches_of(_without_contractions(kernel), strides)
        return self._made[key]

    def by_hand(self, kernel: TritonKernel, arrays: Sequence[ArraySpec]) -> TritonLaunches:
        """The launch of a handwritten kernel, given its inputs and results."""
        return TritonLaunches([launch(kernel, [a.dtype for a in arrays])])

    def copy(self, source: SlotView) -> TritonLaunches:
        """The launch that copies a view into a contiguous array."""
        return TritonLaunches([copy_launch(source.dtype, source.shape, source.strides, 0, 1)])

    def fill(self, size: int) -> TritonLaunches:
        """The launch that sets all bits of so many bytes."""
        return TritonLaunches([fill_launch(np.dtype(np.int8), size, "-1", 0)])

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs in loop nests without reductions, and in the epilogue of a matmul.

        Programs run in any order, those of several nests perhaps in one launch. So no element of the argument is read
        but by the program that writes over it; and there it is read once, before anything is written. Of threads that
        hold the same element, Triton lets one store it.
        """
        values = [*kernel.arguments, *kernel.results]
        views = frozenset(values[i] for i in strided)
        if any(nest.contraction is not None for nest in kernel.nests):
            contraction = fused_matmul(kernel, {i: row_major(values[i].shape) for i in strided})
            if contraction is None:
                return []
            order = {kernel_op: i for i, kernel_op in enumerate(contraction.plan.nest.ops)}
            return pairs_in(kernel, contraction.plan.nest, order, order.__getitem__, views)
        pairs = inplace_pairs(kernel, views, _order)
        readers = Counter(v for nest in loop_nests_of(kernel) for v in {r.value for s in nest.ops for r in s.reads})
        return [(i, j) for i, j in pairs if readers[kernel.arguments[i]] == 1]

    def memory(self, kernel: Kernel, strides: Mapping[int, Strides]) -> tuple[int, list[int]]:
        """No scratch, and the bytes of the buffers that functions share."""
        return 0, self.of(kernel, strides).locals


def _order(plan: LoopNestPlan) -> list[KernelOp]:
    """The ops of a loop nest in the order of its function; none if values are reduced."""
    kernel_ops = list(plan.op_of.values())
    return kernel_ops if len(plan.sweeps) == 1 and all(kernel_op.combine is None for kernel_op in kernel_ops) else []


def _without_contractions(kernel: Kernel) -> Kernel:
    """The same kernel where a contraction is a sum like others, over the last axes of the iteration space."""
    nests = tuple(_as_sum(nest) for nest in kernel.nests)
    return replace(kernel, nests=nests)


def _as_sum(nest: LoopNest) -> LoopNest:
    contraction = nest.contraction
    if contraction is None:
        return nest
    domain = (*nest.domain, *(contraction.extents[a] for a in contraction.reduced))
    kernel_ops = tuple(replace(s, kind="row") if s is contraction else s for s in nest.ops)
    return replace(nest, domain=domain, ops=kernel_ops)
