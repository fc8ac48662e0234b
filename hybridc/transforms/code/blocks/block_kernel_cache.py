"""The code of a module's kernels for a machine whose programs work on whole tiles, as a target prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel import Kernel, KernelOp
from hybridc.ir.loop_nest_plan import LoopNestPlan, inplace_pairs, loop_nests_of, pairs_in
from hybridc.ir.tiles.block_code import BlockCode
from hybridc.transforms.code.blocks.block_alternatives import choose_block_code
from hybridc.transforms.schedules.blocks.fused_matmul import fused_matmul
from hybridc.transforms.schedules.blocks.kernel_memory import Strides

# What a target makes of code: launches, which have the bytes of their local buffers as ``locals``.
Launches = Any
BlockPrinter = Callable[[BlockCode], Launches]


class BlockKernelCache:
    """The kernels of a module: each has its code chosen and printed once for equal calls."""

    threads = 1

    def __init__(self, printer: BlockPrinter) -> None:
        self.printer = printer
        self._made: dict[Any, Launches] = {}

    def resized(self, kernels: Collection[Kernel]) -> None:
        """Forget all code but that of these kernels: others have other sizes from now on."""
        now = set(kernels)
        self._made = {key: launches for key, launches in self._made.items() if key[0] in now}

    def of(
        self,
        kernel: Kernel,
        strides: Mapping[int, Strides],
        inplace: Sequence[tuple[int, int]] = (),
    ) -> Launches:
        """The launches of a kernel; ``strides``, in elements, are of arguments and results that are not contiguous."""
        key = (kernel, tuple(sorted(strides.items())))
        if key not in self._made:
            self._made[key] = self.printer(choose_block_code(kernel, strides))
        return self._made[key]

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
