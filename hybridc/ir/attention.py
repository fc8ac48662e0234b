"""Attention in a kernel, and its backward: contractions, and what is between them, over one grid of rows and keys.

``hybrid.attention`` of a kernel says that it is one of the two, and lists the axes of its ``middle`` that are its rows,
and its keys. Its loop nests are, in this order: contractions that give something for each row and key; the middle,
which makes more of it, element by element; and contractions of what that makes, each along rows or along keys. So it
can be computed in blocks of rows and keys, and nothing of that size has to be in memory.

* In an attention one contraction gives scores. The middle takes the maximum along the keys of something made of them,
  subtracts it, takes exponentials, their sum, and divides. The last contraction sums along the keys. What a row of
  weights is multiplied with can be added up while the maximum is still being found: all that was added so far is scaled
  when a greater one comes.
* In a backward the first nest is the sum of each row of two arrays (the gradient of the result, and the result), two
  contractions give scores and the gradients of weights, and the middle is elementwise. Three contractions follow: along
  rows, for the values, along keys, for the queries, and along rows, for the keys.

What causal masks hide is known from what the middle computes where keys are beyond rows. Indices along two axes are
followed through its bodies: as an affine function of both, until two such are compared; from there on as two ranges,
one of all values where ``key - row > by`` and one of all others. So it makes no difference how a mask is spelt: chosen,
added or multiplied; of floats, integers or booleans. Where another mask, of data, is added, scores may be any number,
and only minus infinity hides them.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import exact_integers, is_float
from hybridc.ground.cached import cached_property
from hybridc.ground.records import dataclass
from hybridc.ir.contraction_shape import multiplied
from hybridc.ir.kernels.kernel import (
    CONSTANT,
    INDEX,
    Axes,
    BodyOp,
    BodyValue,
    Kernel,
    KernelOp,
    KernelValue,
    LoopNest,
    Read,
    number_in,
)
from hybridc.ir.online_reductions import OnlineSoftmax, online_softmax
from hybridc.ir.scalars import CASTS
from hybridc.ir.structured_builder import kind_dtype


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

    def along(self, read: Read) -> set[int]:
        """The axes of the middle that an operand follows."""
        return {a for a, own in self.where.items() if own in read.axes}


@dataclass(frozen=True, eq=False)
class Attention:
    """A kernel that is an attention, with a ``softmax``, or the backward of one, with a ``delta``.

    The results of the ``producers`` are read by the middle nest, whose results the ``consumers`` read. Axes are those
    of the middle, of more than one element: ``rows``, ``keys``, and ``batch``. ``delta`` is the sum of each row of the
    gradient times the result, with the axes that it follows in the middle, and the result along the axes of the last
    producer.
    """

    kernel: Kernel
    middle: LoopNest
    producers: Sequence[GridContraction]
    consumers: Sequence[GridContraction]
    rows: Axes
    keys: Axes
    softmax: OnlineSoftmax | None
    delta: tuple[KernelOp, Axes, Read] | None

    @property
    def batch(self) -> Axes:
        """The axes of the middle that are neither rows nor keys."""
        return tuple(a for a in _whole(self.middle) if a not in (*self.rows, *self.keys))

    @property
    def wide(self) -> DType:
        """What everything is added up in."""
        return self.producers[0].wide

    @property
    def itemsize(self) -> int:
        """Bytes of the largest element that is multiplied."""
        return max(c.dtype.itemsize for c in (*self.producers, *self.consumers))

    @property
    def row(self) -> int:
        """Bytes of the longest row that is multiplied."""
        return max(c.width * c.dtype.itemsize for c in (*self.producers, *self.consumers))

    @cached_property
    def hidden(self) -> int | None:
        """By how much a key is beyond a row where a mask surely hides it; None if nothing is known of masks."""
        if len(self.rows) != 1 or len(self.keys) != 1:
            return None
        if self.softmax is None:
            values, value = [c.left.value for c in self.consumers], 0.0
        else:
            values, value = [self.softmax.peak.reads[0].value], -math.inf
        return _hidden_beyond(_Facts(self.kernel, self.middle, self.rows[0], self.keys[0]), values, value)

    def extent(self, axes: Axes) -> int:
        """How many elements some axes of the middle have."""
        return math.prod(self.middle.domain[a] for a in axes)


def attention_of(kernel: Kernel) -> Attention | None:
    """The attention, or its backward, that a kernel is noted to be; None without a note, or where it does not hold."""
    noted = kernel.attention
    if not noted or len(kernel.nests) not in (3, 7):
        return None
    half = len(kernel.nests) // 2
    before, middle, after = kernel.nests[:half], kernel.nests[half], kernel.nests[half + 1 :]
    sides = [{*axes} for axes in noted]
    rows, keys = (tuple(a for a in _whole(middle) if a in side) for side in sides)
    candidates = [_contraction(middle, nest, keys) for nest in (*before[-2:], *after)]
    contractions = [c for c in candidates if c is not None]
    if len(contractions) < len(candidates):
        return None
    producers, consumers = contractions[: -len(after)], contractions[-len(after) :]
    softmax, delta = (online_softmax(middle), None) if half == 1 else (None, _delta(middle, before[0], producers[-1]))
    attention = Attention(kernel, middle, producers, consumers, rows, keys, softmax, delta)
    return attention if _holds(attention, *sides) else None


def _holds(attention: Attention, rows: set[int], keys: set[int]) -> bool:
    """Whether tiles of these rows and keys can be computed one after the other, and all that is summed be added up."""
    kernel, middle, producers, consumers = attention.kernel, attention.middle, attention.producers, attention.consumers
    contractions = (*producers, *consumers)
    read = {v for c in contractions for v in (c.left.value, c.right.value)} - {c.left.value for c in consumers}
    if not read <= {*kernel.arguments} or any(0 in v.shape for v in kernel.arguments):
        return False
    if any(c.along(c.left) & {*attention.keys} or c.along(c.right) & {*attention.rows} for c in producers):
        return False
    if any(len(c.where) < len(middle.domain) for c in consumers):
        return False
    sums = [c.summed for c in consumers]
    if attention.softmax is not None:
        peak, total = attention.softmax.peak, attention.softmax.total
        order = [consumers[0].where[a] for a in attention.rows]
        wide = {c.wide for c in contractions} | {s.result.dtype for s in (peak, total)}
        return sums == [keys] == [{*peak.reduced}] and len(wide) == 1 and order == sorted(order)
    if attention.delta is None or sums != [rows, keys, rows] or consumers[1].left.value != consumers[2].left.value:
        return False
    alike = len({(c.dtype, c.wide) for c in contractions}) == 1 < min(c.width for c in contractions)
    return alike and bool(attention.rows and attention.keys) and {*_whole(middle)} - keys <= {*attention.delta[1]}


def _whole(nest: LoopNest) -> Axes:
    """The axes of a nest with more than one element."""
    return tuple(a for a, n in enumerate(nest.domain) if n != 1)


def _contraction(middle: LoopNest, nest: LoopNest, keys: Axes) -> GridContraction | None:
    """The contraction of a nest whose result the middle reads, or that reads one value that the middle makes.

    None if it does not add products of floating-point numbers along axes of both operands.
    """
    kernel_op, axes_of = nest.contraction, {s.result: s.axes for s in middle.ops}
    dtypes = None if kernel_op is None else multiplied(kernel_op)
    reads = [r for s in nest.ops for r in s.reads if r.value in axes_of]
    if kernel_op is None or dtypes is None or len(reads) > 1:
        return None
    if reads:
        where = dict(zip(axes_of[reads[0].value], reads[0].axes, strict=True))
        left, right = sorted(kernel_op.reads, key=lambda r: r is not reads[0])
    else:
        where = dict(zip(_read(middle, kernel_op.result), kernel_op.axes, strict=False))
        left, right = sorted(kernel_op.reads, key=lambda r: bool({*r.axes} & {where.get(a) for a in keys}))
    sizes = dict(zip(right.axes, right.value.shape, strict=True))
    own = tuple(sorted({*sizes} - {*where.values()}))
    summed = {*kernel_op.reduced} <= {*left.axes} & {*right.axes}
    sizes = tuple(sizes[a] for a in own)
    return GridContraction(kernel_op, nest, left, right, *dtypes, where, own, sizes) if summed else None


def _read(nest: LoopNest, value: KernelValue) -> Axes:
    """The axes with which a nest reads a value."""
    return next((r.axes for s in nest.ops for r in s.reads if r.value == value), ())


def _delta(middle: LoopNest, nest: LoopNest, grads: GridContraction) -> tuple[KernelOp, Axes, Read] | None:
    """The sum of each row of the gradient, as it is multiplied, times another array; see :class:`Attention`."""
    if len(nest.ops) != 1 or len(nest.ops[0].reads) != 2 or nest.ops[0].reads[0].value != grads.left.value:
        return None
    (kernel_op,), (own, other) = nest.ops, nest.ops[0].reads
    place = dict(zip(own.axes, grads.left.axes, strict=True))
    if {place[a] for a in kernel_op.reduced} != {*grads.own} or {*own.axes} != {*other.axes}:
        return None
    return kernel_op, _read(middle, kernel_op.result), Read(other.value, tuple(place[a] for a in other.axes))


# --- what causal masks hide -------------------------------------------------------------------------------------------

# The coefficients r, k and c of ``r * row + k * key + c``, a function of the indices of a row and a key.
_Affine = NDArray[np.float64]


class _Range(NamedTuple):
    """The least and the greatest number that a value may be: one and the same, or two finite ones."""

    low: float
    high: float


# What contractions give: numbers of -1e4 or less, which masks use in the place of infinity, shall be far below.
_SCORES = _Range(-2500.0, 2500.0)
_ANY = _Range(-1e300, 1e300)
# Of two scores at such a distance the lower has a power that is nothing beside the other's, in double precision, too.
_FAR = 200.0


@dataclass(frozen=True)
class _Sides:
    """One range where ``key - row > by``, and one elsewhere; both are the same if there is no ``by``."""

    by: int | None
    beyond: _Range
    within: _Range

    @property
    def everywhere(self) -> float:
        """The constant that it is everywhere; NaN if none is known."""
        return self.beyond.low if self.beyond == self.within and self.beyond.low == self.beyond.high else math.nan

    def hides(self, value: float) -> bool:
        """Whether all values beyond are ``value``, or, where it is negative, so far below the rest that exp gives 0."""
        return self.beyond == (value, value) or (value < 0 and self.beyond.high < self.within.low - _FAR)


_UNKNOWN = _Sides(None, _ANY, _ANY)


def _hidden_beyond(facts: _Facts, values: Iterable[KernelValue], value: float) -> int | None:
    """By how much a key must be beyond a row for all these values to be this number, zero or minus infinity, there.

    None if that is not known, or the first row would see no key.
    """
    by = [f.by if isinstance(f, _Sides) and f.hides(value) else None for f in map(facts.of, values)]
    distances = [b for b in by if b is not None]
    return max(distances) if distances and len(distances) == len(by) and max(distances) >= 0 else None


class _Facts:
    """Facts about the values of a loop nest, derived from op to op."""

    def __init__(self, kernel: Kernel, nest: LoopNest, rows: int, keys: int) -> None:
        self.nest, self.rows, self.keys = nest, rows, keys
        self.arguments = {*kernel.arguments}
        self.known: dict[KernelValue | BodyValue, _Affine | _Sides] = {}
        self.alike: set[BodyValue] = set()  # arguments of bodies that are the same for all keys of a row
        for kernel_op in nest.ops:
            self.known[kernel_op.result] = self._kernel_op(kernel_op) if kernel_op.kind == "elementwise" else _UNKNOWN

    def of(self, value: KernelValue | BodyValue) -> _Affine | _Sides:
        """What is known of a value of the nest."""
        constant = value.constant if isinstance(value, KernelValue) else number_in(value)
        return self.known.get(value, _UNKNOWN) if constant is None else _everywhere(_Range(constant, constant))

    def _kernel_op(self, kernel_op: KernelOp) -> _Affine | _Sides:
        body = kernel_op.body
        for argument, read in zip(body.arguments, kernel_op.reads, strict=False):
            contracted = read.value not in self.arguments and read.value.constant is None
            score = contracted and read.value not in self.known and self.keys in read.axes
            self.known[argument] = _everywhere(_SCORES) if score else self.of(read.value)
            if self.keys not in read.axes and read.value not in kernel_op.indirect:
                self.alike.add(argument)
        for step in body.steps:
            if step.op == INDEX:
                axis = kernel_op.loops[step.loop]
                known = axis in (self.rows, self.keys)
                self.known[step] = np.array([axis == self.rows, axis == self.keys, 0.0]) if known else _UNKNOWN
            elif step.op != CONSTANT:
                self.known[step] = self._result(step, [self.of(v) for v in step.operands])
        return self.of(body.result)

    def _result(self, step: BodyOp, operands: Sequence[_Affine | _Sides]) -> _Affine | _Sides:
        """What is known of the result of an operation."""
        sides = [f for f in operands if isinstance(f, _Sides)]
        if len(sides) < len(operands):
            return self._of_indices(step, operands)
        by = {f.by for f in sides if f.by is not None}
        beyond = _computed(step, [f.beyond for f in sides])
        # Less something that is the same for all keys of a row, what counts as minus infinity still does.
        if step.op == "arith.subf" and step.operands[1] in self.alike and sides[0].hides(-math.inf):
            beyond = _Range(-math.inf, -math.inf)
        within = _computed(step, [f.within for f in sides]) if len(by) < 2 else _ANY
        return _Sides(max(by, default=None), beyond, within)

    def _of_indices(self, step: BodyOp, operands: Sequence[_Affine | _Sides]) -> _Affine | _Sides:
        """A function of indices made of others, and of numbers, or their comparison."""
        affine = [np.array([0, 0, f.everywhere]) if isinstance(f, _Sides) else f for f in operands]
        a, b = affine[0], affine[-1]
        if not np.isfinite(a + b).all():
            return _UNKNOWN
        if predicate := _predicate(step):
            return _compared(predicate, a - b)
        if step.op in ("arith.mulf", "arith.muli") and not (a[:2].any() and b[:2].any()):
            coefficients = a * b[2] if a[:2].any() else a[2] * b
        elif step.op in _LINEAR:
            coefficients = _MONOTONE[step.op](*affine)
        elif step.op in CASTS or step.op == "arith.index_cast":
            coefficients = a
        else:
            return _UNKNOWN
        # Numbers of the result's type are to be as exact as the indices that they are made of.
        most = abs(coefficients) @ [self.nest.domain[self.rows], self.nest.domain[self.keys], 1]
        exact = step.kind == "index" or most <= exact_integers(kind_dtype(step.kind))
        return coefficients if exact else _UNKNOWN


def _everywhere(values: _Range) -> _Sides:
    return _Sides(None, values, values)


def _predicate(step: BodyOp) -> str:
    """The name of a comparison without its prefix for signed, unsigned, ordered or unordered operands; else ""."""
    return step.op.partition(" ")[2].lstrip("ous")


def _compared(kind: str, affine: _Affine) -> _Sides:
    """Whether a function of indices is more, or less, than zero: ``slope * (key - row - limit)``."""
    row, slope, plus = map(float, affine)
    if slope == 0 or row != -slope or kind not in ("gt", "ge", "lt", "le"):
        return _UNKNOWN
    limit = -plus / slope
    # It changes where key - row > limit, or >= limit; for whole numbers both are key - row > by.
    by = math.floor(limit) if kind in (("gt", "le") if slope > 0 else ("lt", "ge")) else math.ceil(limit) - 1
    beyond = (kind in ("gt", "ge")) == (slope > 0)
    return _Sides(by, _Range(beyond, beyond), _Range(not beyond, not beyond))


def _computed(step: BodyOp, ranges: Sequence[_Range]) -> _Range:
    """The range of an operation's result: each is monotone in each operand, or computed of known numbers only."""
    compute: Any = _MONOTONE.get(step.op)
    known = all(low == high for low, high in ranges)
    if step.op == "arith.select":
        test, one, other = ranges
        return _bounds([*one, *other] if test.low != test.high else one if test.low else other)
    if step.op == "arith.divf" and ranges[1].low < 0 < ranges[1].high:
        return ranges[0] if ranges[0] == (0, 0) else _ANY  # a sum of powers is not known to be positive, but it is
    if step.op in CASTS:
        dtype = kind_dtype(step.kind)
        compute = dtype.type if is_float(dtype) or (known and math.isfinite(ranges[0].low)) else None
    elif known and (predicate := _predicate(step)):
        compute = getattr(operator, predicate, None)
    elif known and step.op in _LOGIC and step.kind == "i1":
        compute = _LOGIC[step.op]
    if compute is None:
        return _ANY
    with np.errstate(all="ignore"):
        return _bounds([float(compute(*map(np.float64, ends))) for ends in itertools.product(*ranges)])


def _bounds(numbers: Sequence[float]) -> _Range:
    """The range from the least to the greatest of some numbers; any number, if one is NaN or some are infinite."""
    low, high = float(np.min(numbers)), float(np.max(numbers))
    return _Range(low, high) if low == high or math.isfinite(high - low) else _ANY


_LINEAR = ("arith.negf", "arith.addf", "arith.addi", "arith.subf", "arith.subi")
_MONOTONE: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.subf": np.subtract,
    "arith.subi": np.subtract,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.exp": np.exp,
    "math.log": np.log,
}
_LOGIC = {"arith.andi": np.logical_and, "arith.ori": np.logical_or, "arith.xori": np.logical_xor}
