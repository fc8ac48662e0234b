"""Products that a library could compute, too, in the words of a BLAS; what follows them is a function behind it.

The library leaves the product where the kernel's result will be, and the function writes over it there, element by
element: no memory is needed for it. So the product must be as large as the result, and of its element type.

A BLAS numbers elements column by column: the rows of its result are what follows memory. So its first operand is our
right one, unless our result lies column by column itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import arith

from hybridc.ir.kernel import Read, Stage
from hybridc.ir.product_shape import Strides
from hybridc.ir.structured import dtype_of
from hybridc.lower.triton.launches import LibraryProduct, Matrix
from hybridc.lower.triton.products.product_loops import FusedProduct, ProductOperand, strides_along
from hybridc.lower.triton.tiles_to_triton import phases_of
from hybridc.lower.triton.triton_function import LibraryWay

# Multiplications and additions of a product that keeps a card busy for longer than it takes to launch one.
LEAST_FLOPS = 1 << 31
# The largest size and distance that a BLAS takes.
_LARGEST = 2**31 - 1


def library_way(
    product: FusedProduct, strides: Mapping[int, Strides], tf32: bool, least: int = LEAST_FLOPS
) -> LibraryWay | None:
    """The product by a library, and the function for what follows; None if a library cannot, or need not.

    ``strides`` are those of arguments, then results, that may be no plain arrays.
    """
    kernel = product.kernel
    if len(kernel.results) != 1 or len(kernel.arguments) in strides:
        return None
    stages = [s for nest in kernel.nests for s in nest.stages]
    last = next(s for s in stages if s.result is kernel.results[0])
    written = _rounded(product.stage, stages)
    if written.axes != last.axes or dtype_of(written.result) != dtype_of(last.result):
        return None
    made = _library_product(product, last, tf32, least)
    if made is None or written is last:
        return None if made is None else LibraryWay(made)
    rest = tuple(s for s in stages if s is not product.stage and s is not written)
    after = replace(kernel, nests=tuple(replace(nest, stages=rest) for nest in kernel.nests))
    phases = phases_of(after, strides, {written.result: 0})
    return LibraryWay(made, tuple(phases.phases)) if len(phases.phases) == 1 and not phases.locals else None


def _rounded(made: Stage, stages: Sequence[Stage]) -> Stage:
    """The stage that makes what a library writes: the product, or its rounding, if nothing else is done with it."""
    readers = [s for s in stages if any(r.value is made.result for r in s.reads)]
    rounds = len(readers) == 1 and [type(op) for op in readers[0].steps] == [arith.TruncFOp]
    return readers[0] if rounds else made


def _library_product(product: FusedProduct, result: Stage, tf32: bool, least: int) -> LibraryProduct | None:
    """The product as a library takes it, written where a result is; None if it lies otherwise or is small."""
    families = (product.batch, product.rows, product.columns, product.terms)
    if any(len(x) > 1 for x in families) or product.start != 0:
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


def _matrix(
    product: FusedProduct, operand: ProductOperand, down: tuple[int, int], across: tuple[int, int]
) -> Matrix | None:
    """An operand with its strides and sizes down its columns and across them; None if neither follows memory."""
    batch = sum(operand.axes[a] for a in product.batch)
    if min(down[0], across[0], batch) < 0:
        return None
    if down[0] == 1 and across[0] >= down[1]:
        return Matrix(False, across[0], batch)
    return Matrix(True, down[0], batch) if across[0] == 1 and down[0] >= across[1] else None
