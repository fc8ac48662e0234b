"""Decide, for the numpy target, how each kernel is tiled, what scratch it needs, what it may do in place."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from hybridc.lower.structured import is_host, kernels
from hybridc.switch.numpy.emit_kernel import KernelEmitter


@dataclass(frozen=True)
class TileKernels(ModulePass):
    """Sets ``hybrid.scratch`` (bytes), ``hybrid.threads`` and ``hybrid.inplace`` (pairs of argument and result)."""

    name = "tile-kernels"

    threads: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels(op).values():
            if is_host(kernel):
                continue
            emitter = KernelEmitter(kernel, self.threads)
            pairs = [n for pair in emitter.inplace_pairs() for n in pair]
            kernel.attributes["hybrid.scratch"] = IntegerAttr(emitter.bytes, i64)
            kernel.attributes["hybrid.threads"] = IntegerAttr(emitter.threads, i64)
            kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, pairs)
