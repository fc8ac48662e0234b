"""Matmuls that a library could compute, too, in the terms of a BLAS; their epilogue is a function launched after it.

The library leaves its result where the kernel's will be, and the function writes over it there, element by element: no
memory is needed for it. So it must be as large as the kernel's result, and of its element type.

A BLAS numbers elements column by column: the rows of its result are what follows memory. So its first operand is our
right one, unless our result lies column by column itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hybridc.ir.contraction_shape import Strides
from hybridc.ir.kernels.kernel import KernelOp, Read
from hybridc.ir.library_matmul import LibraryMatmul, Matrix
from hybridc.ir.tiles.block_code import LibraryCode
from hybridc.transforms.code.blocks.code_loop_nests import code_of_loop_nests
from hybridc.transforms.schedules.blocks.fused_matmul import FusedMatmul, MatmulOperand, strides_along
from hybridc.transforms.schedules.blocks.tile_machine import NARROW

# Multiplications and additions of a matmul that keeps a GPU busy for longer than it takes to launch one.
LEAST_FLOPS = 1 << 31


def library_code(
    contraction: FusedMatmul, strides: Mapping[int, Strides], tf32: bool, least: int = LEAST_FLOPS
) -> LibraryCode | None:
    """The matmul by a library, and the function for what follows; None if a library cannot, or need not.

    ``strides`` are those of arguments, then results, that may not be contiguous.
    """
    kernel = contraction.kernel
    if len(kernel.results) != 1 or len(kernel.arguments) in strides:
        return None
    kernel_ops = [s for nest in kernel.nests for s in nest.ops]
    last = next(s for s in kernel_ops if s.result is kernel.results[0])
    written = _rounded(contraction.kernel_op, kernel_ops)
    if written.axes != last.axes or written.result.dtype != last.result.dtype:
        return None
    matmul = _library_matmul(contraction, last, tf32, least)
    if matmul is None or written is last:
        return None if matmul is None else LibraryCode(matmul, None)
    rest = tuple(s for s in kernel_ops if s is not contraction.kernel_op and s is not written)
    after = replace(kernel, nests=tuple(replace(nest, ops=rest) for nest in kernel.nests))
    code = code_of_loop_nests(after, strides, {written.result: 0})
    return LibraryCode(matmul, code) if len(code.launches) == 1 and not code.locals else None


def _rounded(matmul: KernelOp, kernel_ops: Sequence[KernelOp]) -> KernelOp:
    """The op that makes what a library writes: the matmul, or its rounding, if nothing else is done with it."""
    readers = [s for s in kernel_ops if any(r.value == matmul.result for r in s.reads)]
    rounds = len(readers) == 1 and [step.op for step in readers[0].steps] == ["arith.truncf"]
    return readers[0] if rounds else matmul


def _library_matmul(contraction: FusedMatmul, result: KernelOp, tf32: bool, least: int) -> LibraryMatmul | None:
    """The matmul as a library takes it, written where a result is; None if it lies otherwise or is small."""
    families = (contraction.batch, contraction.rows, contraction.columns, contraction.terms)
    if any(len(x) > 1 for x in families) or contraction.start != 0:
        return None
    if min(contraction.m, contraction.n, contraction.k) < 2 or 2 * contraction.outputs * contraction.k < least:
        return None
    operands = (contraction.left, contraction.right)
    if any(x.value.dtype != contraction.dtype or x.own is not None for x in operands):
        return None
    steps = strides_along(contraction.plan, Read(result.result, result.axes), contraction.strides)
    batch, row, column = [
        sum(steps[a] for a in axes) for axes in (contraction.batch, contraction.rows, contraction.columns)
    ]
    sides = [
        (contraction.n, contraction.right, contraction.columns),
        (contraction.m, contraction.left, contraction.rows),
    ]
    if row == 1:
        sides.reverse()
    (m, first, rows), (n, second, columns) = sides
    apart = max(row, column)
    # The first operand goes on by rows where it is not transposed, the second by terms.
    one = _matrix(contraction, first, (sum(first.axes[a] for a in rows), m), (first.loops[0], contraction.k))
    two = _matrix(contraction, second, (second.loops[0], contraction.k), (sum(second.axes[a] for a in columns), n))
    if one is None or two is None or min(row, column) != 1 or apart < m:
        return None
    if max(m, n, contraction.k, contraction.batches, apart, one.apart, two.apart) >= NARROW:
        return None  # a BLAS takes 32 bits
    values: list[Any] = [*contraction.kernel.arguments, *contraction.kernel.results]
    a, b, c = [values.index(v) for v in (first.value, second.value, result.result)]
    dtypes = (contraction.dtype, result.result.dtype)
    whole = Matrix(False, apart, batch)
    return LibraryMatmul(m, n, contraction.k, contraction.batches, (one, two, whole), (a, b, c), dtypes, tf32)


def _matrix(
    contraction: FusedMatmul, operand: MatmulOperand, down: tuple[int, int], across: tuple[int, int]
) -> Matrix | None:
    """An operand with its strides and sizes down its columns and across them; None if neither follows memory."""
    batch = sum(operand.axes[a] for a in contraction.batch)
    if min(down[0], across[0], batch) < 0:
        return None
    if down[0] == 1 and across[0] >= down[1]:
        return Matrix(False, across[0], batch)
    return Matrix(True, down[0], batch) if across[0] == 1 and down[0] >= across[1] else None
