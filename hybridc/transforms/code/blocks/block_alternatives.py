"""Which code a kernel gets for a machine whose programs work on whole tiles: the first alternative that fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.block_code import BlockCode
from hybridc.transforms.code.blocks.choose_attention import code_of_attention
from hybridc.transforms.code.blocks.choose_block_matmul import code_of_block_matmul
from hybridc.transforms.code.blocks.code_loop_nests import code_of_loop_nests
from hybridc.transforms.schedules.blocks.kernel_memory import Strides


class BlockAlternative(NamedTuple):
    """A kind of code: what it is for, and its launches, None for a kernel that it does not fit."""

    purpose: str
    code: Callable[[Kernel, Mapping[int, Strides]], BlockCode | None]


BLOCK_ALTERNATIVES = (
    BlockAlternative("a matmul with its epilogue, in tiles, or by a library", code_of_block_matmul),
    BlockAlternative("attention or its backward, scores in registers only", code_of_attention),
    BlockAlternative("elements, rows and sums, loop nest by loop nest", code_of_loop_nests),
)


def choose_block_code(kernel: Kernel, strides: Mapping[int, Strides]) -> BlockCode:
    """The code of a kernel; ``strides``, in elements, are of arguments and results that are not contiguous."""
    return next(code for a in BLOCK_ALTERNATIVES if (code := a.code(kernel, strides)) is not None)
