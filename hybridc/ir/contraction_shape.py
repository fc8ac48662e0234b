"""A contraction as strided loops, and as a (batched) matmul where it is one; code is chosen by these.

Each loop of a contraction indexes the result and one operand (*rows* with the left, *columns* with the right), all
three (*batches*), or the operands alone (*summed*). Loops that are contiguous in every array are coalesced. Of those
that are left, the largest rows, columns and sums are the matmul; loops around it walk the others. With constant
matrices it is a linear map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hybridc.dialects.operator_attribute import DType
from hybridc.dtypes import TYPES
from hybridc.ground.machine import Machine
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import matmul_time
from hybridc.ir.kernels.kernel import BodyOp, BodyValue, Kernel, KernelOp, Matrix, Read
from hybridc.ir.structured_builder import kind_dtype

Strides = tuple[int, ...]


class Loop(NamedTuple):
    """A loop: its trip count, and its strides, in elements, in the left and right operand and in the result.

    A stride is None where the array is not indexed by the loop. In the ``more`` arrays of an epilogue it is 0 then.
    """

    size: int
    a: int | None
    b: int | None
    c: int | None
    more: Strides = ()

    @property
    def kind(self) -> tuple[bool, bool, bool]:
        """The arrays that it indexes."""
        return (self.a is not None, self.b is not None, self.c is not None)

    @property
    def steps(self) -> tuple[int, int, int]:
        """The strides, 0 where an array is not indexed."""
        return (self.a or 0, self.b or 0, self.c or 0)

    def step(self, array: int) -> int:
        """The stride in one of all arrays."""
        strides = (*self.steps, *self.more)
        return strides[array] if array < len(strides) else 0

    @property
    def swapped(self) -> Loop:
        """The loop with the operands exchanged."""
        return self._replace(a=self.b, b=self.a)

    def before(self, inner: Loop) -> bool:
        """Whether this loop can be coalesced with an inner one: in each array it continues where that one ends."""
        same = self.kind == inner.kind and self.steps == tuple([s * inner.size for s in inner.steps])
        return same and self.more == tuple([s * inner.size for s in inner.more])


# Iterations of a reduction loop that hide what it takes to begin it.
_LONG = 8
# Rows that fill a high tile of registers.
_HIGH = 12
# Bits of the narrowest floats that all tensor cores and vector instructions multiply.
LEAST_BITS = 16
# Dtypes of factors that are multiplied as they are, and of their accumulators.
_SUMMED_IN = {t.dtype: t.wide for t in TYPES.values() if t.kind == "f" and t.bits >= LEAST_BITS}
BATCH, ROW, COLUMN, SUM = (True, True, True), (True, False, True), (False, True, True), (True, True, False)


@dataclass(frozen=True)
class ContractionLoops:
    """A contraction's loops; those of the result come first, in the order of its memory.

    The body of the op says how to multiply and add.
    """

    kept: tuple[Loop, ...]
    summed: tuple[Loop, ...]
    kernel_op: KernelOp

    @property
    def outputs(self) -> int:
        """Elements of the result."""
        return math.prod(loop.size for loop in self.kept)

    @property
    def terms(self) -> int:
        """Number of products that are summed for each element: the depth K."""
        return math.prod(loop.size for loop in self.summed)

    @property
    def flops(self) -> int:
        """Multiplications and additions of the contraction."""
        return 2 * self.outputs * self.terms


def contraction_of(kernel: Kernel, strides: Sequence[Strides] | None = None) -> ContractionLoops:
    """The loops of a kernel that is one contraction, perhaps with an epilogue, whose first result is the result here.

    ``strides`` are those of its arguments, then of its results.
    """
    kernel_op = kernel.nests[0].contraction
    assert kernel_op is not None, "a kernel of a contraction"
    values = [*kernel.arguments, *kernel.results]
    steps = [row_major(v.shape) for v in values] if strides is None else strides
    of = dict(zip(values, steps, strict=True))
    places = [r.along(of[r.value]) for r in (*kernel_op.reads, *accesses_after(kernel))]
    return ContractionLoops(*contraction_loops(kernel_op.extents, places), kernel_op)


def accesses_after(kernel: Kernel) -> list[Read]:
    """The writes and reads of a contraction's epilogue: the kernel's results, then the epilogue's operands."""
    (nest,) = kernel.nests
    op_of = {op.result: op for op in nest.ops}
    rest = [op for op in nest.ops if op is not nest.contraction]
    reads = {(r.value, r.axes): r for op in rest for r in op.reads if r.value not in op_of}
    return [*(Read(v, op_of[v].axes) for v in kernel.results), *reads.values()]


def contraction_loops(
    sizes: Mapping[int, int], places: Sequence[Mapping[int, int]]
) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
    """The loops of the result and the summed ones, given sizes and strides of the axes in each of the arrays."""
    (a, b, c), more = places[:3], places[3:]
    loops = [
        Loop(n, a.get(axis), b.get(axis), c.get(axis), tuple([p.get(axis, 0) for p in more]))
        for axis, n in sizes.items()
        if n != 1
    ]
    kept = sorted((loop for loop in loops if loop.c is not None), key=lambda x: -abs(x.c or 0))
    summed = sorted((loop for loop in loops if loop.c is None), key=lambda x: -abs(x.a or 0))
    return tuple(coalesced_loops(kept)), tuple(coalesced_loops(summed))


def coalesced_loops(loops: Sequence[Loop]) -> list[Loop]:
    """Loops with neighbours coalesced, where they can be."""
    coalesced: list[Loop] = []
    for loop in reversed(loops):
        outer = next((i for i, other in enumerate(coalesced) if loop.before(other)), None)
        if outer is None:
            coalesced.insert(0, loop)
        else:
            coalesced[outer] = coalesced[outer]._replace(size=coalesced[outer].size * loop.size)
    return coalesced


@dataclass(frozen=True)
class Matrices:
    """A batched strided matmul: ``C[i, j] (+)= sum over l of A[i, l] * B[l, j]``, in loops ``around`` and ``over``.

    ``around`` are batch loops, ``over`` outer reduction loops. Strides are those of (row, sum) in A, of (sum, column)
    in B and of (row, column) in C, of which one is 1: the last, unless the operands were exchanged. ``swapped`` says
    that A is the contraction's right operand, in the loops too. A stride along an axis of size 1 is 0. ``more`` are the
    strides of (row, column) in each array of an epilogue.
    """

    m: int
    n: int
    k: int
    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    around: tuple[Loop, ...]
    over: tuple[Loop, ...]
    swapped: bool
    more: tuple[tuple[int, int], ...] = ()

    @property
    def batches(self) -> int:
        """The batch size."""
        return math.prod(loop.size for loop in self.around)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.batches * math.prod(loop.size for loop in self.over)

    def is_short(self, lanes: int) -> bool:
        """Whether it has outer reduction loops, and few terms in the innermost or fewer columns than ``lanes``."""
        return bool(self.over) and (self.k < _LONG or self.n < lanes)

    def exchanged(self) -> Matrices:
        """The transposed problem: C^T = B^T A^T."""
        return Matrices(
            m=self.n,
            n=self.m,
            k=self.k,
            a=(self.b[1], self.b[0]),
            b=(self.a[1], self.a[0]),
            c=(self.c[1], self.c[0]),
            around=tuple(loop.swapped for loop in self.around),
            over=tuple(loop.swapped for loop in self.over),
            swapped=not self.swapped,
            more=tuple([(column, row) for row, column in self.more]),
        )

    def in_blocks(self, count: int, least: int) -> Matrices:
        """The same matmul with blocks of rows as a batch loop: ``count`` blocks at least, if that divides the rows.

        Blocks have at least ``least`` rows. So threads can share a matmul with few columns.
        """
        possible = [n for n in range(1, self.m // least + 1) if self.m % n == 0]
        blocks = next((n for n in possible if n >= count), max(possible, default=1))
        if blocks == 1:
            return self
        rows = self.m // blocks
        loop = Loop(blocks, rows * self.a[0], 0, rows * self.c[0], tuple([rows * row for row, _ in self.more]))
        return replace(self, m=rows, around=(*self.around, loop))


def matrices_of(contraction: ContractionLoops) -> Matrices | None:
    """The contraction as a batched matmul, if its result has contiguous rows or columns."""
    return matrices_of_loops(contraction.kept, contraction.summed)


def any_matrices_of(contraction: ContractionLoops) -> Matrices | None:
    """The same with any loop of rows as the rows and the others around it, so that no sizes of rows are compared."""
    return matrices_of_loops(contraction.kept, contraction.summed, lambda _: (0, 0))


def matrices_of_loops(
    kept: Sequence[Loop], summed: Sequence[Loop], key: Callable[[Loop], tuple[int, int]] | None = None
) -> Matrices | None:
    """The batched matmul of these loops; its rows are the loop with the largest ``key``, by default the best one."""
    rows = [loop for loop in kept if loop.kind == ROW]
    columns = [loop for loop in kept if loop.kind == COLUMN]
    if any(loop.kind != SUM for loop in summed):
        return None
    along = next((loop for loop in kept if loop.c == 1), None)
    if along is None:
        along = Loop(1, None, 0, 1)
    if along.kind == BATCH:
        return None
    swapped = along.kind == ROW
    across = _best(columns if swapped else rows, key or _across, Loop(1, 0, 0, 0))
    inner = _best(summed, _inner, Loop(1, 0, 0, None))
    left, right = (1, 0) if swapped else (0, 1)
    around = tuple(loop for loop in kept if loop is not across and loop is not along)
    over = tuple(loop for loop in summed if loop is not inner)
    return Matrices(
        m=across.size,
        n=along.size,
        k=inner.size,
        a=(across.steps[left], inner.steps[left]),
        b=(inner.steps[right], along.steps[right]),
        c=(across.steps[2], 1),
        around=tuple(loop.swapped for loop in around) if swapped else around,
        over=tuple(loop.swapped for loop in over) if swapped else over,
        swapped=swapped,
        more=tuple([(across.step(i), along.step(i)) for i in range(3, 3 + max(len(x.more) for x in (*kept, along)))]),
    )


def _best(loops: Sequence[Loop], key: Callable[[Loop], Any], default: Loop) -> Loop:
    """The loop with the largest key; of a single one the size, which may be symbolic, is not asked for."""
    return loops[0] if len(loops) == 1 else max(loops, key=key, default=default)


def _across(loop: Loop) -> tuple[int, int]:
    """Sort key of loops of rows: one that fills register tiles, of these the one that is nearest to contiguous."""
    return min(loop.size, _HIGH), -abs(loop.steps[2])


def _inner(loop: Loop) -> tuple[int, int]:
    """Sort key of summed loops, the innermost last: a long one, of these the one that is nearest to contiguous."""
    return min(loop.size, _LONG), -abs(loop.a or 0)


def few_forms(around: Sequence[Loop]) -> tuple[Loop, ...]:
    """Batch loops brought into one of a few forms, so that one function serves many matmuls.

    There are none or at least two, and all three arrays have a stride for each: 0, if need be.
    """
    if not around:
        return ()
    once = [Loop(1, 0, 0, 0)] * (2 - len(around))
    return (*once, *(Loop(x.size, *x.steps, x.more) for x in around))


def time_of(matrices: Matrices, dtype: DType, computer: Machine | None = None) -> float:
    """Nanoseconds of a matmul on one thread, on this computer or another."""
    elements = matrices.m * matrices.k + matrices.k * matrices.n + matrices.m * matrices.n
    return matmul_time(matrices.flops, elements * matrices.batches * dtype.itemsize, computer)


def multiplied(kernel_op: KernelOp) -> tuple[DType, DType] | None:
    """Dtypes of factors and accumulator, if an op's body is a multiply-add of floating-point numbers."""
    factors = _factors(kernel_op)
    if factors is None:
        return None
    left, right, wide = factors
    return (wide if left != right or _SUMMED_IN.get(left) != wide else left), wide


def _factors(kernel_op: KernelOp) -> tuple[DType, DType, DType] | None:
    """Dtypes of the two factors and of the accumulator, if the body is a multiply-add."""
    left, right, sofar = kernel_op.body.arguments
    total = kernel_op.combine
    if total is None or total.op != "arith.addf" or sofar not in total.operands:
        return None
    term = next((v for v in total.operands if v is not sofar), None)
    if not isinstance(term, BodyOp) or term.op != "arith.mulf" or {*map(_narrow, term.operands)} != {left, right}:
        return None
    wide = kind_dtype(sofar.kind)
    return None if wide.itemsize < 4 else (kind_dtype(left.kind), kind_dtype(right.kind), wide)


def _narrow(value: BodyValue) -> BodyValue:
    return value.operands[0] if isinstance(value, BodyOp) and value.op == "arith.extf" else value


# --- linear maps ------------------------------------------------------------------------------------------------------
#
#     out[a, b, …] = sum over i, j of A[a, i] * B[b, j] * x[…, i, j, …]
#
# with constant matrices, which are known when code is made: so are the transforms of Winograd's convolution. The code
# is straight-line, and factors of 0 and 1 cost nothing.


@dataclass(frozen=True, eq=False)
class MatrixRead:
    """A constant matrix: its rows follow an axis of the result, its columns an axis that is summed."""

    numbers: Matrix
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A kernel's only operation as a linear map of the elements that ``read`` reads."""

    kernel_op: KernelOp
    read: Read
    matrices: tuple[MatrixRead, ...]


def linear_map_of(kernel: Kernel) -> LinearMap | None:
    """The linear map that a kernel is; None if it is anything else."""
    kernel_op = kernel.ops[0] if len(kernel.ops) == 1 else None
    if kernel_op is None or kernel_op.kind != "contraction" or len(kernel.arguments) != 1:
        return None
    constant = {r: r.value.matrix for r in kernel_op.reads if r.value.matrix is not None}
    inputs = [r for r in kernel_op.reads if r not in constant]
    matrices = tuple(MatrixRead(numbers, *r.axes) for r, numbers in constant.items())
    if len(inputs) != 1 or {m.column for m in matrices} != {*kernel_op.reduced}:
        return None
    return LinearMap(kernel_op, inputs[0], matrices)
