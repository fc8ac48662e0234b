"""Operands whose rows are no multiples of 16 bytes are laid out anew, if the matmul is large enough to gain from it.

Only 16 bytes at a time come fast enough for tensor cores of half precision. The copy has the operand's order of axes;
what follows memory is filled up with zeros, whose products change no sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hybridc.ground.machine import GPU
from hybridc.ground.sizes import reach, row_major
from hybridc.ir.tiles.block_code import CopyLoops, PaddedCopy
from hybridc.transforms.schedules.blocks.fused_matmul import FusedMatmul, MatmulOperand
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory
from hybridc.transforms.schedules.blocks.tile_machine import NARROW

HALF, WIDE = 2, 16  # bytes: of the elements that are loaded too slowly otherwise, and those of one access
MULTIPLE = 16  # elements
COST = 4  # times as long as multiplying at full speed takes what narrow accesses add


def padded(contraction: FusedMatmul, memory: KernelMemory) -> tuple[FusedMatmul, list[PaddedCopy]]:
    """The matmul with operands laid out anew in ``memory`` where that pays, and the launches that do so.

    What is decided does not depend on strides: memory is planned before they are known.
    """
    copies: list[PaddedCopy] = []
    operands: list[MatmulOperand] = []
    for operand in (contraction.left, contraction.right):
        if not _pays(contraction, operand):
            operands.append(operand)
            continue
        laid_out = _laid_out(contraction, operand, memory)
        copies.append(_copy(contraction, operand, laid_out, memory))
        operands.append(laid_out)
    return replace(contraction, left=operands[0], right=operands[1]), copies


def is_narrow(contraction: FusedMatmul, operand: MatmulOperand) -> bool:
    """Whether half-precision elements cannot be loaded 16 bytes at a time."""
    shape = [n for n in operand.value.shape if n != 1]
    size = operand.value.dtype.itemsize
    if contraction.m == 1 or size > HALF or contraction.dtype.itemsize > HALF or operand.own is not None:
        return False
    return shape[-1] * size % WIDE != 0


def _pays(contraction: FusedMatmul, operand: MatmulOperand) -> bool:
    """Whether a copy takes less time than narrow accesses cost."""
    if not is_narrow(contraction, operand) or contraction.plan.merged.get(_last(operand)) in contraction.batch:
        return False
    lost = COST * 2 * contraction.outputs * contraction.k / (GPU.multiprocessors * GPU.flops[HALF])
    return lost > GPU.launch + 2 * operand.value.dtype.itemsize * math.prod(operand.value.shape) / GPU.memory


def _last(operand: MatmulOperand) -> int:
    """The axis that is innermost in memory."""
    read = operand.read
    return next(a for a, n in zip(reversed(read.axes), reversed(read.value.shape), strict=True) if n != 1)


def _laid_out(contraction: FusedMatmul, operand: MatmulOperand, memory: KernelMemory) -> MatmulOperand:
    """The operand as a dense array of batches with its rows or columns of terms, or the other way round."""
    plan = contraction.plan
    kept = contraction.rows if operand is contraction.left else contraction.columns
    inner_terms = _last(operand) not in plan.merged
    count, terms = operand.kept, operand.terms
    if inner_terms:
        terms = -(-terms // MULTIPLE) * MULTIPLE
    else:
        count = -(-count // MULTIPLE) * MULTIPLE
    units = (terms, 1) if inner_terms else (1, count)
    axes = _dense(contraction, kept, units[0]) | _dense(contraction, contraction.batch, count * terms)
    loops = tuple(s * units[1] for s in row_major(contraction.terms))
    own = memory.local(contraction.batches * count * terms, operand.value)
    return MatmulOperand(operand.read, axes, loops, count, terms, own)


def _dense(contraction: FusedMatmul, axes: tuple[int, ...], unit: int) -> dict[int, int]:
    """The strides of axes that follow each other, the last in steps of ``unit``."""
    steps = row_major(tuple(contraction.plan.sizes[a] for a in axes))
    return {a: s * unit for a, s in zip(axes, steps, strict=True)}


def _copy(
    contraction: FusedMatmul, operand: MatmulOperand, laid_out: MatmulOperand, memory: KernelMemory
) -> PaddedCopy:
    """The launch that lays an operand out anew: lines along its innermost family, with zeros at their end."""
    kept = contraction.rows if operand is contraction.left else contraction.columns
    inner_terms = _last(operand) not in contraction.plan.merged
    size, filled = (operand.terms, laid_out.terms) if inner_terms else (operand.kept, laid_out.kept)
    per_batch = operand.kept if inner_terms else operand.terms
    lines = contraction.batches * per_batch
    far = reach(operand.value.shape, contraction.strides[operand.value])
    assert laid_out.own is not None
    return PaddedCopy(
        operand.value.dtype,
        memory.names[operand.value],
        laid_out.own,
        lines,
        size,
        filled,
        per_batch,
        _walk(contraction, operand, contraction.batch),
        _walk(contraction, operand, kept),
        _merged(contraction.terms, operand.loops),
        "terms" if inner_terms else "kept",
        max(far, lines * filled) >= NARROW,
    )


def _walk(contraction: FusedMatmul, operand: MatmulOperand, axes: tuple[int, ...]) -> CopyLoops:
    """The loops of an operand along merged axes."""
    return _merged([contraction.plan.sizes[a] for a in axes], [operand.axes[a] for a in axes])


def _merged(sizes: Sequence[int], strides: Sequence[int]) -> CopyLoops:
    """Loops with these strides, as one where they follow each other in memory."""
    loops: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if loops and loops[-1][1] == stride * size:
            loops[-1] = (loops[-1][0] * size, stride)
        else:
            loops.append((size, stride))
    return tuple(loops)
