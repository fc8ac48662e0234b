"""Contractions with long sums of segments, as of the gradient of a convolution's weight, in a number of pieces.

Register tiles walk all terms of both operands for each tile of the result, and add one after the other: the error grows
with the root of their number. Where the operands are larger than a cache, or the terms are many, these are cut: the
tiles of a piece meet what the second cache holds of both. The partial results are added up as those of column
reductions. How many there are follows from sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hybridc.ground.machine import NOMINAL
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import Loop, Matrices, contraction_of, matrices_of
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.planned import Strides
from hybridc.transforms.code.choose_matmul import IN_PLACE, MatmulRequest
from hybridc.transforms.code.loop_target import LoopTarget
from hybridc.transforms.code.parallel_regions import ParallelRegions, combine_region
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile, is_prepacked

# The most pieces; the least terms of one, as partial results are written and read.
MOST, LEAST = 64, 128
# Terms whose sum in one register has too large an error, and how many each piece has then: to write and read its result
# takes 3 % of the time of its products. Few layers have as many terms for an element of their result, but of the
# gradient of a weight all examples and all places are terms.
LONG, PIECE = 8192, 1024


def partial_sum_regions(kernel: Kernel, target: LoopTarget, strides: Sequence[Strides]) -> ParallelRegions | None:
    """The parallel regions of a contraction in pieces; None if it is computed in one.

    ``strides``, in elements, are those of the kernel's arguments and results.
    """
    (kernel_op,), vectors = kernel.ops, target.machine.vectors
    values, result = [*kernel.arguments, *kernel.results], kernel_op.result
    left, right = [values.index(r.value) for r in kernel_op.reads]
    dtypes = {values[i].dtype for i in (left, right, values.index(result))}
    contraction = contraction_of(kernel, strides)
    whole = matrices_of(contraction)
    if whole is None or not whole.over or len(dtypes) > 1 or kernel_op.start != 0:
        return None
    shape, place = result.shape, values.index(result)
    if vectors is None or strides[place] != row_major(shape):
        return None
    is_long = contraction.terms >= LONG
    if not is_long and is_prepacked(whole, RegisterTile(result.dtype, vectors).fitting(whole.n).width):
        return None
    read = result.dtype.itemsize * sum(v.size for v in {values[left], values[right]})
    outputs = math.prod(shape)
    wanted = max(read // NOMINAL.second, contraction.terms // PIECE if is_long else 0)
    most = min(MOST, wanted, contraction.terms // LEAST)
    cut = _in_pieces(whole, outputs, most)
    if cut is None:
        return None
    pieces, matrices = cut
    first, second = (right, left) if whole.swapped else (left, right)
    region = MatmulRequest(matrices, dtypes.pop(), (first, second, len(values)), target).region([IN_PLACE])
    if region is None:
        return None
    combined = combine_region(kernel_op, (len(values), place), pieces, target.printer)
    return ParallelRegions([region, combined], [outputs * pieces * result.dtype.itemsize])


def _in_pieces(matmul: Matrices, outputs: int, most: int) -> tuple[int, Matrices] | None:
    """The number of pieces, and the matmul with a batch loop over them; None if the terms cannot be cut."""
    around, left = list[Loop](), most
    over = sorted(matmul.over, key=lambda x: -abs(x.a or 0))
    pieces = 1
    for i, loop in enumerate(over):
        count = max(n for n in range(1, loop.size + 1) if loop.size % n == 0 and n <= max(1, left))
        if count > 1:
            pieces *= count
            piece = loop.size // count
            around.append(Loop(count, piece * (loop.a or 0), piece * (loop.b or 0), 0))
            over[i] = loop._replace(size=piece)
            left //= count
        if over[i].size > 1:
            break
    k = matmul.k
    if all(loop.size == 1 for loop in over) and k // PIECE > 1:
        count = max(n for n in range(1, k // PIECE + 1) if k % n == 0 and n <= max(1, left))
        pieces, k = pieces * count, k // count
        around.append(Loop(count, k * matmul.a[1], k * matmul.b[0], 0))
    if pieces == 1:
        return None
    steps = row_major(tuple([loop.size for loop in around]))
    around = [loop._replace(c=outputs * step) for loop, step in zip(around, steps, strict=True)]
    over = [x for x in over if x.size > 1]
    return pieces, replace(matmul, k=k, around=(*around, *matmul.around), over=tuple(over))
