"""A kernel that is a matmul and its epilogue, as rows, columns, terms and batches.

All axes of a kind are merged into one, whatever their strides: programs share the rows and columns of each batch, a
loop runs over the terms. So the heads of attention, split or merged, are a matter of offsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import BATCH, COLUMN, ROW, SUM, Loop, Strides, contraction_loops, multiplied
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, KernelValue, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan, indexed_axes
from hybridc.ir.scalars import Number


@dataclass(frozen=True, eq=False)
class MatmulOperand:
    """An array that is multiplied: its strides along the merged axes of the result and along the loops of terms.

    What has been laid out anew is in the buffer ``own`` of the kernel's memory. There it may be padded, with zeros
    after the last row or column or term: to ``kept`` rows or columns, to ``terms`` terms.
    """

    read: Read
    axes: Mapping[int, int]
    loops: tuple[int, ...]
    kept: int
    terms: int
    own: str | None = None

    @property
    def value(self) -> KernelValue:
        """The argument of the kernel."""
        return self.read.value


@dataclass(frozen=True, eq=False)
class FusedMatmul:
    """A kernel that is one matmul and its epilogue.

    ``left`` has the rows, ``right`` the columns; of a vector and a matrix the vector is the left one. ``dtype`` is what
    is multiplied, ``wide`` what is added up, beginning with ``start``. The axes of the result are merged as ``plan``
    says; those of ``batch`` both operands follow. ``terms`` are the sizes of the loops that are added up, outermost
    first.
    """

    kernel: Kernel
    kernel_op: KernelOp
    left: MatmulOperand
    right: MatmulOperand
    start: Number
    dtype: DType
    wide: DType
    plan: LoopNestPlan
    batch: Axes
    rows: Axes
    columns: Axes
    terms: Shape
    strides: Mapping[KernelValue, Strides]

    @property
    def m(self) -> int:
        """How many rows there are."""
        return self.plan.extent(self.rows)

    @property
    def n(self) -> int:
        """How many columns there are."""
        return self.plan.extent(self.columns)

    @property
    def k(self) -> int:
        """The number of terms of each element."""
        return math.prod(self.terms)

    @property
    def batches(self) -> int:
        """The number of matmuls of the batch."""
        return self.plan.extent(self.batch)

    @property
    def outputs(self) -> int:
        """Elements of the result."""
        return self.m * self.n * self.batches


def fused_matmul(kernel: Kernel, strides: Mapping[int, Strides]) -> FusedMatmul | None:
    """A kernel as a matmul with its epilogue, if it is one; ``strides`` are those of arrays that are not plain."""
    if len(kernel.nests) != 1:
        return None
    (nest,) = kernel.nests
    kernel_op = nest.contraction
    if kernel_op is None or kernel.fills or not _follows(kernel, nest, kernel_op):
        return None
    start = kernel_op.start
    dtypes = multiplied(kernel_op)
    if start is None or dtypes is None:
        return None
    steps = {v: strides.get(i, row_major(v.shape)) for i, v in enumerate([*kernel.arguments, *kernel.results])}
    kind_of = _kinds(nest, kernel_op)
    if kind_of is None:
        return None
    plan = _merged(kernel, nest, kind_of, steps)
    left, right = kernel_op.reads
    batch, rows, columns = [
        plan.axes(tuple(a for a, n in enumerate(nest.domain) if kind_of[a] == kind and n != 1))
        for kind in (BATCH, ROW, COLUMN)
    ]
    if not columns:
        left, right, rows, columns = right, left, columns, rows
    loops = _terms(kernel_op, (left, right), steps)
    terms = tuple(loop.size for loop in loops)
    operands = [
        MatmulOperand(
            r, strides_along(plan, r, steps), tuple(x.steps[i] for x in loops), plan.extent(axes), math.prod(terms)
        )
        for i, (r, axes) in enumerate(((left, rows), (right, columns)))
    ]
    kinds = (batch, rows, columns)
    return FusedMatmul(kernel, kernel_op, operands[0], operands[1], start, *dtypes, plan, *kinds, terms, steps)


def _terms(kernel_op: KernelOp, reads: tuple[Read, Read], strides: Mapping[KernelValue, Strides]) -> tuple[Loop, ...]:
    """The loops that are added up, with the strides of both operands."""
    places = [r.along(strides[r.value]) for r in reads]
    return contraction_loops(kernel_op.extents, [*places, dict.fromkeys(kernel_op.axes, 0)])[1]


def strides_along(plan: LoopNestPlan, read: Read, strides: Mapping[KernelValue, Strides]) -> dict[int, int]:
    """The strides of an array along merged axes: those of the last axis of each."""
    along = read.along(strides[read.value])
    return {plan.merged[a]: s for a, s in sorted(along.items()) if a in plan.merged and plan.sizes[plan.merged[a]] != 1}


def _follows(kernel: Kernel, nest: LoopNest, contraction: KernelOp) -> bool:
    """Whether the other ops compute each element of their results from those at the same index."""
    op_of = {s.result: s for s in nest.ops}
    whole = {a for a, n in enumerate(nest.domain) if n != 1}
    if any(r.value not in kernel.arguments or len({*r.axes}) < len(r.axes) for r in contraction.reads):
        return False
    if any(s.kind != "elementwise" or s.indirect for s in nest.ops if s is not contraction):
        return False
    if any(r.axes != op_of[r.value].axes for s in nest.ops for r in s.reads if r.value in op_of):
        return False
    if len(set(kernel.results)) < len(kernel.results):
        return False
    return all(v in op_of and whole <= {*op_of[v].axes} for v in kernel.results) and whole <= {*contraction.axes}


def _kinds(nest: LoopNest, kernel_op: KernelOp) -> dict[int, tuple[bool, bool, bool]] | None:
    """Which of the operands and the result follow each axis; None if that is not how matrices are multiplied."""
    left, right = [{*r.axes} for r in kernel_op.reads]
    kept = {*kernel_op.axes}
    kinds = {a: (a in left, a in right, a in kept) for a in left | right | kept}
    if any(kind not in (BATCH, ROW, COLUMN, SUM) for kind in kinds.values()):
        return None
    return dict.fromkeys(range(len(nest.domain)), BATCH) | kinds  # what nobody follows has one element


def _merged(
    kernel: Kernel, nest: LoopNest, kinds: Mapping[int, tuple[bool, bool, bool]], strides: Mapping[KernelValue, Strides]
) -> LoopNestPlan:
    """Axes of a kind are one where every array goes on with the outer one when the inner one ends."""
    arrays = list(_in_memory(kernel, nest, strides))
    alone = indexed_axes(nest.ops)
    groups: list[list[int]] = []
    for a, size in enumerate(nest.domain):
        fuse_horizontally = groups and kinds[a - 1] == kinds[a] and not {a - 1, a} & alone
        if fuse_horizontally and all(x.get(a - 1, 0) == x.get(a, 0) * size for x in arrays):
            groups[-1].append(a)
        else:
            groups.append([a])
    sizes = tuple(math.prod(nest.domain[a] for a in group) for group in groups)
    merged = {a: i for i, group in enumerate(groups) for a in group}
    everywhere = tuple(range(len(groups)))
    return LoopNestPlan(nest, sizes, merged, everywhere, (), False, frozenset())


def _in_memory(kernel: Kernel, nest: LoopNest, strides: Mapping[KernelValue, Strides]) -> Iterator[Mapping[int, int]]:
    """The strides along axes of each value that is read or written."""
    for kernel_op in nest.ops:
        yield from (r.along(strides[r.value]) for r in kernel_op.reads if r.value in kernel.arguments)
        if kernel_op.result in kernel.results:
            yield dict(zip(kernel_op.axes, strides[kernel_op.result], strict=True))
