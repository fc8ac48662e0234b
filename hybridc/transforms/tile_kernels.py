"""Decide, for the numpy target, how each fused kernel is tiled, what scratch it needs, what it may do in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass

from hybridc.lower.numpy.schedule import inplace_pairs, is_fused, schedule
from hybridc.lower.numpy.tiling import tiling
from hybridc.transforms.values import functions, hybrid_ops, is_constant, volume

ALIGNMENT = 64


def aligned(size: int) -> int:
    """The size, rounded up to a multiple of 64 bytes and at least that, so that no two buffers have one place."""
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT


@dataclass(frozen=True)
class TileKernels(ModulePass):
    """Sets ``hybrid.scratch`` (bytes), ``hybrid.threads`` and ``hybrid.inplace`` (pairs of argument and result)."""

    name = "tile-kernels"

    threads: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in functions(op):
            if kernel.sym_visibility is None:
                continue
            if not is_fused(kernel):
                if pairs := _single_pairs(kernel):
                    _declare(kernel, pairs)
                continue
            plan = schedule(kernel)
            loops = tiling(plan, self.threads)
            slots = [
                aligned(volume(plan.domain if loops.flat else loops.tile(row)) * d.itemsize) for d, row in plan.slots
            ]
            kernel.attributes["hybrid.scratch"] = IntegerAttr(sum(slots) * loops.threads, i64)
            kernel.attributes["hybrid.threads"] = IntegerAttr(loops.threads, i64)
            _declare(kernel, inplace_pairs(plan))


def _declare(kernel: func.FuncOp, pairs: list[tuple[int, int]]) -> None:
    """Note which arguments may share memory with which results."""
    kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, [n for pair in pairs for n in pair])


def _single_pairs(kernel: func.FuncOp) -> list[tuple[int, int]]:
    """The pairs that the one operator of a kernel declares: equal types, and an argument that is read once."""
    (op,) = [o for o in hybrid_ops(kernel) if not is_constant(o)]
    end = kernel.body.block.last_op
    assert end is not None
    arguments, results, operands = list(kernel.body.block.args), list(end.operands), list(op.operands)
    pairs: list[tuple[int, int]] = []
    for i, out in op.operator.INPLACE:
        if i >= len(operands) or operands[i] not in arguments or op.results[out] not in results:
            continue
        if operands.count(operands[i]) == 1 and operands[i].type == op.results[out].type:
            pairs.append((arguments.index(cast("BlockArgument", operands[i])), results.index(op.results[out])))
    return pairs
