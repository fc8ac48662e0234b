"""The code of loop nests: launches of their tile programs, and what fills and copies results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from hybridc.ir.kernels.kernel import Kernel, KernelValue, LoopNest
from hybridc.ir.tiles.block_code import BlockCode, BlockCopy, BlockFill
from hybridc.transforms.code.blocks.fuse_horizontally import fuse_horizontally
from hybridc.transforms.schedules.blocks.kernel_memory import Strides
from hybridc.transforms.schedules.blocks.schedule_blocks import schedule_blocks


def code_of_loop_nests(
    kernel: Kernel, strides: Mapping[int, Strides], initial: Mapping[KernelValue, int] = MappingProxyType({})
) -> BlockCode:
    """The launches of a kernel; ``strides``, in elements, are of arguments, then results, that may not be contiguous.

    Values that are ``initial`` lie in the memory of the results with these indices when the kernel begins.
    """
    kernel = _without_contractions(kernel)
    scheduled, memory = schedule_blocks(kernel, strides, initial)
    launches = fuse_horizontally(scheduled, _read_only(kernel))
    for i, value in enumerate(kernel.results):
        source, target = memory.names[value], f"y{i}"
        if value.constant is not None:
            launches.append(BlockFill(value.dtype, value.size, value.constant, target))
        elif source != target:
            launches.append(BlockCopy(value.dtype, value.shape, source, target))
    return memory.code(launches)


def _read_only(kernel: Kernel) -> set[str]:
    """The arguments that are no memory for any result, as none is like them."""
    results = {(v.shape, v.dtype) for v in kernel.results}
    return {f"x{i}" for i, v in enumerate(kernel.arguments) if (v.shape, v.dtype) not in results}


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
