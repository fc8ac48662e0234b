"""Products without an epilogue, which a library could compute, too, in the words of a BLAS.

A BLAS numbers elements column by column: the rows of its result are what follows memory. So its first operand is our
right one, unless our result lies column by column itself.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith

from hybridc.lower.kernel import Read, Stage
from hybridc.lower.structured import dtype_of
from hybridc.lower.triton.product_loops import FusedProduct, Operand, strides_along
from hybridc.lower.triton.program import LibraryProduct, Matrix

# Multiplications and additions of a product that keeps a card busy for longer than it takes to launch one.
LEAST_FLOPS = 1 << 31
# The largest size and distance that a BLAS takes.
_LARGEST = 2**31 - 1


def library_product(product: FusedProduct, tf32: bool, least: int = LEAST_FLOPS) -> LibraryProduct | None:
    """The product as a library takes it; None if it has an epilogue, lies otherwise, or has fewer operations."""
    result = _result(product)
    families = (product.batch, product.rows, product.columns, product.terms)
    if result is None or any(len(x) > 1 for x in families) or product.start != 0:
        return None
    if min(product.m, product.n, product.k) < 2 or 2 * product.outputs * product.k < least:
        return None
    operands = (product.left, product.right)
    if any(dtype_of(x.value) != product.dtype or x.own is not None for x in operands):
        return None
    steps = strides_along(product.plan, Read(result.result, result.axes), product.strides)
    batch, row, column = [sum(steps[a] for a in axes) for axes in (product.batch, product.rows, product.columns)]
    sides = [(product.n, product.right, product.columns), (product.m, product.left, product.rows)]
    if row == 1:
        sides.reverse()
    (m, first, rows), (n, second, columns) = sides
    apart = max(row, column)
    # The first operand goes on by rows where it is not transposed, the second by terms.
    one = _matrix(product, first, (sum(first.axes[a] for a in rows), m), (first.loops[0], product.k))
    two = _matrix(product, second, (second.loops[0], product.k), (sum(second.axes[a] for a in columns), n))
    if one is None or two is None or min(row, column) != 1 or apart < m:
        return None
    if max(m, n, product.k, product.batches, apart, one.apart, two.apart) > _LARGEST:
        return None
    values: list[Any] = [*product.kernel.arguments, *product.kernel.results]
    a, b, c = [values.index(v) for v in (first.value, second.value, result.result)]
    dtypes = (product.dtype, dtype_of(result.result))
    whole = Matrix(False, apart, batch)
    return LibraryProduct(m, n, product.k, product.batches, (one, two, whole), (a, b, c), dtypes, tf32)


def _matrix(product: FusedProduct, operand: Operand, down: tuple[int, int], across: tuple[int, int]) -> Matrix | None:
    """An operand with its strides and sizes down its columns and across them; None if neither follows memory."""
    batch = sum(operand.axes[a] for a in product.batch)
    if min(down[0], across[0], batch) < 0:
        return None
    if down[0] == 1 and across[0] >= down[1]:
        return Matrix(False, across[0], batch)
    return Matrix(True, down[0], batch) if across[0] == 1 and down[0] >= across[1] else None


def _result(product: FusedProduct) -> Stage | None:
    """The stage that makes the only result, if nothing but rounding follows the product."""
    kernel = product.kernel
    if len(kernel.results) != 1:
        return None
    stages = [s for nest in kernel.nests for s in nest.stages]
    last = next(s for s in stages if s.result is kernel.results[0])
    if last is product.stage:
        return last if len(stages) == 1 else None
    rounds = [type(op) for op in last.steps] == [arith.TruncFOp]
    return last if len(stages) == 2 and rounds and last.reads[0].value is product.stage.result else None
