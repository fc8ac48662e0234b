"""The code of matmuls with their epilogues: tile sizes, and the number of parts of terms (split-K)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybridc.dtypes import STORED
from hybridc.ir.contraction_shape import Strides
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.block_code import BlockCode
from hybridc.ir.tiles.tile_program import TileConfig
from hybridc.options import OPTIONS
from hybridc.transforms.code.blocks.choose_library import library_code
from hybridc.transforms.code.blocks.matmul_configs import MatmulTile, choose, choose_sum, choose_vector
from hybridc.transforms.code.blocks.matmul_padding import is_narrow, padded
from hybridc.transforms.schedules.blocks.fused_matmul import FusedMatmul, fused_matmul
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory
from hybridc.transforms.schedules.blocks.schedule_matmul import schedule_matmul

# Elements for each thread that functions take in single precision without spilling.
WIDE = 64


def code_of_block_matmul(
    kernel: Kernel, strides: Mapping[int, Strides], tiles: Sequence[MatmulTile] = (), parts: int = 0
) -> BlockCode | None:
    """The launches of a kernel that is a floating-point matmul with its epilogue; None if it is not.

    ``strides``, in elements, are those of arguments, then results, that may not be contiguous. ``tiles`` and ``parts``
    are, if given, how programs share the work, instead of what is expected to be fastest.
    """
    contraction = fused_matmul(kernel, strides)
    if contraction is None or contraction.outputs == 0:
        return None
    library = library_code(contraction, strides, OPTIONS.tf32)
    memory = KernelMemory(kernel, strides)
    contraction, copies = padded(contraction, memory)
    chosen, cut = _choice(contraction)
    configs = [_config(contraction, tile) for tile in tiles or chosen]
    of_sum = _config(contraction, choose_sum(contraction.m, contraction.n), of_terms=False)
    launches = schedule_matmul(contraction, memory, configs, parts or cut, of_sum)
    return memory.code([*copies, *launches], library)


def _choice(contraction: FusedMatmul) -> tuple[list[MatmulTile], int]:
    """How programs share the work, and into how many parts the terms are cut."""
    if contraction.m == 1:
        along = not contraction.terms or abs(contraction.right.loops[-1]) == 1
        return choose_vector(contraction.n, contraction.k, contraction.batches, along)
    few = any(is_narrow(contraction, operand) for operand in (contraction.left, contraction.right))
    tiles, parts = choose(
        contraction.m, contraction.n, contraction.k, contraction.batches, contraction.dtype, OPTIONS.tf32, few
    )
    if _has_wide_functions(contraction):
        tiles.sort(key=lambda tile: tile.m * tile.n > WIDE * 32 * tile.warps)
    return tiles, parts


def _has_wide_functions(contraction: FusedMatmul) -> bool:
    """Whether functions follow a matmul of floats in which nothing is computed: each of its elements has a register."""
    kernel_ops = [s for nest in contraction.kernel.nests for s in nest.ops if s is not contraction.kernel_op]
    return contraction.dtype in STORED and any(step.op.startswith("math.") for s in kernel_ops for step in s.steps)


def _config(contraction: FusedMatmul, tile: MatmulTile, of_terms: bool = True) -> TileConfig:
    vector = contraction.m == 1
    values = {"bm": 0 if vector else tile.m, "bn": tile.n if contraction.columns else 0}
    values |= {"bk": tile.k, "group": 0 if vector else tile.group} if of_terms else {}
    shared = 0 if vector or not of_terms else tile.shared(contraction.dtype.itemsize)
    blocks = tuple((name, size) for name, size in values.items() if size)
    return TileConfig(blocks, tile.warps, tile.stages, shared)
