"""Attention in a kernel, and its backward: contractions, and what is between them, over one grid of rows and keys.

A kernel's nests are, in this order: contractions that give something for each row and key; the ``middle``, which makes
more of it, element by element; and contractions of what that makes, each along rows or along keys. So it can be
computed in blocks of rows and keys, and nothing of that size has to be in memory. Only ``fuse-attention`` makes such
kernels, so what it does always is not asked for here: contractions that are given are alone in their nests, those that
are made are followed by elementwise ops alone, and nothing else of the middle is returned than reductions.

* In an attention one contraction gives scores. The middle takes the maximum along the keys of something made of them,
  subtracts it, takes exponentials, their sum, and divides. The last contraction sums along the keys. What a row of
  weights is multiplied with can be added up while the maximum is still being found: all that was added so far is scaled
  when a greater one comes.
* In a backward the first nest is the sum of each row of two arrays (the result and its gradient), two contractions give
  scores and the gradients of weights, and the middle is elementwise. Three contractions follow: along rows, for the
  values, along keys, for the queries, and along rows, for the keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.cached import cached_property
from hybridc.ir.attention.causal import hidden_beyond
from hybridc.ir.contraction_shape import multiplied
from hybridc.ir.kernel import Axes, Kernel, KernelOp, LoopNest, Read, number_of
from hybridc.ir.online_reductions import OnlineSoftmax, online_softmax
from hybridc.ir.structured import Shape, dtype_of, shape_of


@dataclass(frozen=True, eq=False)
class GridContraction:
    """A contraction of ``left`` and ``right`` as ``dtype``, added up as ``wide``; elementwise stages may follow it.

    ``where`` says which axis of its nest an axis of the middle is, ``own`` are its others: summed if it is given to the
    middle (then its left operand follows rows, its right one keys), else columns of its right operand.
    """

    kernel_op: KernelOp
    nest: LoopNest
    left: Read
    right: Read
    dtype: DType
    wide: DType
    where: Mapping[int, int]
    own: Axes
    sizes: Shape  # of ``own``

    @property
    def width(self) -> int:
        """How many elements its own axes have."""
        return math.prod(self.sizes)

    @property
    def epilogue(self) -> list[KernelOp]:
        """What follows in the same nest."""
        return [s for s in self.nest.ops if s is not self.kernel_op]

    @property
    def summed(self) -> set[int]:
        """The axes of the middle that it sums."""
        return {a for a, own in self.where.items() if own in self.kernel_op.reduced}


@dataclass(frozen=True, eq=False)
class Attention:
    """A kernel that is an attention, with a ``softmax``, or the backward of one, with a ``delta``.

    Axes are those of the middle: ``rows``, ``keys``, and ``batch``. ``delta`` is the sum of each row of the
    gradient times another array, with the axes that it follows in the middle, and that other along the axes of the last
    contraction that is given.
    """

    kernel: Kernel
    middle: LoopNest
    given: Sequence[GridContraction]
    made: Sequence[GridContraction]
    rows: Axes
    keys: Axes
    softmax: OnlineSoftmax | None = None
    delta: tuple[KernelOp, Axes, Read] | None = None

    @property
    def batch(self) -> Axes:
        """The axes of the middle, of more than one element, that are neither rows nor keys."""
        return tuple(a for a in _whole(self.middle) if a not in (*self.rows, *self.keys))

    @property
    def wide(self) -> DType:
        """What everything is added up in."""
        return self.given[0].wide

    @property
    def itemsize(self) -> int:
        """Bytes of the largest element that is multiplied."""
        return max(c.dtype.itemsize for c in (*self.given, *self.made))

    @property
    def row(self) -> int:
        """Bytes of the longest row that is multiplied."""
        return max(c.width * c.dtype.itemsize for c in (*self.given, *self.made))

    @cached_property
    def hidden(self) -> int | None:
        """By how much a key is beyond a row where a mask surely hides it; None if nothing is known of masks."""
        if len(self.rows) != 1 or len(self.keys) != 1:
            return None
        if self.softmax is None:
            values, number = [c.left.value for c in self.made], 0.0
        else:
            values, number = [self.softmax.peak.reads[0].value], -math.inf
        return hidden_beyond(self.middle, self.rows[0], self.keys[0], values, number)

    def extent(self, axes: Axes) -> int:
        """How many elements some axes of the middle have."""
        return math.prod(self.middle.domain[a] for a in axes)


def attention_of(kernel: Kernel) -> Attention | None:
    """A kernel as an attention, if it is one."""
    if not _is_plain(kernel, 3):
        return None
    first, middle, last = kernel.nests
    softmax, made = online_softmax(middle), _made(kernel, middle, last)
    if softmax is None or made is None or made.summed != {*softmax.peak.reduced}:
        return None
    scores, whole = first.ops[0], _whole(middle)
    keys = tuple(a for a in whole if a in made.summed)
    # Rows are what neither keys nor values follow: these can be anything else that does not follow the rows.
    axes = dict(zip(_read(middle, scores.result) or (), scores.axes, strict=False))
    follows_values = {a for a in whole if made.where[a] in made.right.axes}
    both = [{a for a in whole if axes.get(a) in r.axes} for r in scores.reads]
    of_keys = next((b for b in both if {a for a in keys if a in axes} <= b), None)
    if of_keys is None:
        return None
    rows = tuple(a for a in whole if a not in made.summed | of_keys | follows_values)
    given = _given(kernel, middle, first, {*rows}, {*keys})
    dtypes = {made.wide, dtype_of(softmax.peak.result), dtype_of(softmax.total.result)}
    if given is None or dtypes != {given.wide}:
        return None
    order = [made.where[a] for a in rows]
    return Attention(kernel, middle, (given,), (made,), rows, keys, softmax) if order == sorted(order) else None


def attention_backward_of(kernel: Kernel) -> Attention | None:
    """A kernel as the backward of an attention, if it is one, and more than one row and key take part."""
    if not _is_plain(kernel, 7):
        return None
    delta, first, second, middle, *last = kernel.nests
    made = [c for nest in last if (c := _made(kernel, middle, nest)) is not None]
    if len(made) < len(last):
        return None
    values, queries, keys = made
    rows, along = values.summed, queries.summed
    if rows != keys.summed or rows & along or keys.left.value is not queries.left.value:
        return None
    given = [c for nest in (first, second) if (c := _given(kernel, middle, nest, rows, along)) is not None]
    sums = _delta(kernel, middle, delta.ops[0], given[-1]) if len(given) == 2 else None
    contractions = (*given, *made)
    if sums is None or len({(c.dtype, c.wide) for c in contractions}) > 1 or min(c.width for c in contractions) < 2:
        return None
    whole = _whole(middle)
    row_axes, key_axes = (tuple(a for a in whole if a in axes) for axes in (rows, along))
    if not row_axes or not key_axes or not {*whole} - along <= {*sums[1]}:
        return None
    return Attention(kernel, middle, given, made, row_axes, key_axes, delta=sums)


def _whole(nest: LoopNest) -> Axes:
    """The axes of a nest with more than one element."""
    return tuple(a for a, n in enumerate(nest.domain) if n != 1)


# --- contractions --------------------------------------------------------------------------------------------


def _is_plain(kernel: Kernel, nests: int) -> bool:
    """Whether a kernel has a grid and so many loop nests, none empty, that read their own values pointwise."""
    if len(kernel.nests) != nests or "hybrid.grid" not in kernel.function.attributes:
        return False
    for nest in kernel.nests:
        made = {s.result: s for s in nest.ops}
        reads = [r for s in nest.ops for r in s.reads if r.value in made]
        if 0 in nest.domain or any(r.axes != made[r.value].axes for r in reads):
            return False
    return all(0 not in shape_of(v) for v in kernel.arguments)


def _multiplied(kernel_op: KernelOp) -> tuple[DType, DType] | None:
    """The dtypes of a contraction, if it adds products of two floating-point numbers along axes of both operands."""
    left, right = kernel_op.reads
    return multiplied(kernel_op) if {*kernel_op.reduced} <= {*left.axes} & {*right.axes} else None


def _given(kernel: Kernel, middle: LoopNest, nest: LoopNest, rows: set[int], keys: set[int]) -> GridContraction | None:
    """The contraction of a nest that the middle reads: of something along rows, and along keys."""
    kernel_op = nest.ops[0]
    dtypes, read = _multiplied(kernel_op), _read(middle, kernel_op.result)
    if dtypes is None or read is None or len({*read}) < len(read):
        return None
    where = dict(zip(read, kernel_op.axes, strict=True))
    along, across = ({where[a] for a in axes if a in where and middle.domain[a] != 1} for axes in (keys, rows))
    for left, right in (kernel_op.reads, kernel_op.reads[::-1]):
        fits = along <= {*right.axes} and not along & {*left.axes} and not across & {*right.axes}
        if fits and all(r.value in kernel.arguments for r in (left, right)):
            sizes = dict(zip(left.axes, shape_of(left.value), strict=True))
            own = tuple(sizes[a] for a in kernel_op.reduced)
            return GridContraction(kernel_op, nest, left, right, *dtypes, where, kernel_op.reduced, own)
    return None


def _made(kernel: Kernel, middle: LoopNest, nest: LoopNest) -> GridContraction | None:
    """The contraction of a nest, of what the middle made and something else, and the maps of it that follow."""
    kernel_op = nest.contraction
    dtypes = None if kernel_op is None else _multiplied(kernel_op)
    there = {*kernel.arguments, *(s.result for s in nest.ops)}
    reads = [r for s in nest.ops for r in s.reads if r.value not in there and number_of(r.value) is None]
    if kernel_op is None or dtypes is None or len(reads) != 1:
        return None
    (left,) = reads
    right = next(r for r in kernel_op.reads if r is not left)
    axes = next((s.axes for s in middle.ops if s.result is left.value), ())
    if len({*axes}) != len(middle.domain) or len({*left.axes}) < len(axes) or right.value not in kernel.arguments:
        return None
    where = dict(zip(axes, left.axes, strict=True))
    own = tuple(a for a in _whole(nest) if a not in where.values())
    if not {*own} <= {*right.axes}:
        return None
    return GridContraction(kernel_op, nest, left, right, *dtypes, where, own, tuple(nest.domain[a] for a in own))


def _read(nest: LoopNest, value: SSAValue) -> Axes | None:
    """The axes with which a nest reads a value, if it is always the same and there are some."""
    found = {r.axes for s in nest.ops for r in s.reads if r.value is value}
    return found.pop() if len(found) == 1 else None


def _delta(
    kernel: Kernel, middle: LoopNest, kernel_op: KernelOp, grads: GridContraction
) -> tuple[KernelOp, Axes, Read] | None:
    """The sum of the rows of two arrays, one of them the gradient; see :class:`Attention`."""
    axes, given = _read(middle, kernel_op.result), [r.value for r in kernel_op.reads]
    if axes is None or multiplied(kernel_op) is None:
        return None
    if given.count(grads.left.value) != 1 or any(v not in kernel.arguments for v in given):
        return None
    own, other = sorted(kernel_op.reads, key=lambda r: r.value is not grads.left.value)
    # The gradient's dimensions are rows, or batches, and columns: the same in the sum as in the contraction.
    place = dict(zip(own.axes, grads.left.axes, strict=True))
    kept = dict(zip(kernel_op.axes, axes, strict=True))
    if {place.get(a) for a in kernel_op.reduced} != {*grads.own}:
        return None
    if any(grads.where.get(kept[a]) != place[a] for a in own.axes if a in kept):
        return None
    places = {a: grads.where.get(m, -1) for a, m in kept.items()} | place
    return kernel_op, axes, Read(other.value, tuple(places[a] for a in other.axes))
