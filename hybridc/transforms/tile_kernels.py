"""Decide, for the numpy target, how each fused kernel is tiled, what scratch it needs, what it may do in place."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from hybridc.lower.numpy.schedule import inplace_pairs, is_fused, schedule
from hybridc.lower.numpy.tiling import tiling
from hybridc.transforms.values import functions, volume

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
            if kernel.sym_visibility is None or not is_fused(kernel):
                continue
            plan = schedule(kernel)
            loops = tiling(plan, self.threads)
            slots = [
                aligned(volume(plan.domain if loops.flat else loops.tile(row)) * d.itemsize) for d, row in plan.slots
            ]
            kernel.attributes["hybrid.scratch"] = IntegerAttr(sum(slots) * loops.threads, i64)
            kernel.attributes["hybrid.threads"] = IntegerAttr(loops.threads, i64)
            pairs = [n for pair in inplace_pairs(plan) for n in pair]
            kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, pairs)
