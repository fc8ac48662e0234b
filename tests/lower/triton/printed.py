"""Kernels as Triton launches: by the alternative that a test is about, or as they are chosen."""

from __future__ import annotations

from hybridc.lower.triton.tiles_to_triton import print_block_code
from hybridc.transforms.code.blocks import block_alternatives
from hybridc.transforms.code.blocks.block_kernel_cache import BlockKernelCache
from hybridc.transforms.code.blocks.choose_attention import code_of_attention
from hybridc.transforms.code.blocks.choose_block_matmul import code_of_block_matmul
from hybridc.transforms.code.blocks.code_loop_nests import code_of_loop_nests


def by(choose):
    """The function that prints the code that another chooses; None where that is none."""

    def launches(*args, **options):
        code = choose(*args, **options)
        return None if code is None else print_block_code(code)

    return launches


launches_of = by(code_of_loop_nests)
launches_of_matmul = by(code_of_block_matmul)
launches_of_attention = by(code_of_attention)


def kernel_cache():
    """The chosen code of kernels, printed."""
    return BlockKernelCache(print_block_code)


def leave_out_attention(monkeypatch):
    """Let no kernel be an attention: it is loop nests, one after the other."""
    rest = [a for a in block_alternatives.BLOCK_ALTERNATIVES if a.code is not code_of_attention]
    monkeypatch.setattr(block_alternatives, "BLOCK_ALTERNATIVES", rest)
