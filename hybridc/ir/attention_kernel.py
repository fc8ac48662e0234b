"""Attention in a kernel: rows of scores, weights that are their exponentials over the sum of these, sums by weights.

It is seen from loops and bodies: a product; a nest that takes the maximum of something made of it, subtracts that,
takes exponentials, their sum, and divides; a product that sums along the same axes. What a row of weights is multiplied
with can then be added up while the maximum is still being found: all that was added so far is scaled when a greater
one comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.cached import cached_property
from hybridc.dialects.attribute import DType
from hybridc.dtypes import exact_integers
from hybridc.ir.kernel import Axes, Kernel, Nest, Read, Sources, Stage, combines, is_power, number_of, yielded
from hybridc.ir.nest_plan import loop_axes
from hybridc.ir.product_shape import multiplied
from hybridc.ir.structured import Shape, dtype_of, element_dtype, shape_of

CASTS = (arith.ExtFOp, arith.TruncFOp)


@dataclass(frozen=True, eq=False)
class Multiplied:
    """A product of floating-point numbers: of ``left`` and ``right`` as ``dtype``, added up as ``wide``."""

    stage: Stage
    left: Read
    right: Read
    dtype: DType
    wide: DType


@dataclass(frozen=True, eq=False)
class Attention:
    """A kernel of three nests that is an attention.

    Axes are those of the middle nest, that of the weights: ``batch``, which keys or values follow; ``rows``, which
    neither follows; ``keys``, which are summed. ``in_scores`` and ``in_sums`` say which axes they are in the first and
    the last nest, where ``terms`` are summed and ``columns`` are the values' own.

    The stages of the middle nest: ``before`` make, of the scores, what ``peak`` takes the maximum of; ``powers`` are
    the exponentials of its differences from that, ``total`` their sum; ``shares`` divide by it; ``after`` are maps that
    may as well be applied before the division, and ``beside`` what else these need, such as random numbers. Those of
    the last nest behind the product are ``epilogue``. The kernel's results are made there, but for peaks and totals,
    which a backward is given.
    """

    kernel: Kernel
    scores: Multiplied  # of queries and keys
    sums: Multiplied  # of weights and values
    before: tuple[Stage, ...]
    peak: Stage
    powers: tuple[Stage, ...]
    total: Stage
    shares: tuple[Stage, ...]
    beside: tuple[Stage, ...]
    after: tuple[Stage, ...]
    epilogue: tuple[Stage, ...]
    batch: Axes
    rows: Axes
    keys: Axes
    in_scores: Mapping[int, int]
    in_sums: Mapping[int, int]
    terms: Axes
    columns: Axes

    @property
    def shape(self) -> Shape:
        """The sizes of the middle nest."""
        return self.kernel.nests[1].domain

    @property
    def wide(self) -> DType:
        """What everything is added up in."""
        return self.sums.wide

    @property
    def term_sizes(self) -> Shape:
        """The sizes of the axes that are summed for a score."""
        sizes = dict(zip(self.scores.left.axes, shape_of(self.scores.left.value), strict=True))
        return tuple(sizes[a] for a in self.terms)

    def extent(self, axes: Axes) -> int:
        """How many elements some axes of the middle nest have."""
        return math.prod(self.shape[a] for a in axes)

    @cached_property
    def hidden(self) -> int | None:
        """By how much a key is beyond a row where a mask surely hides it; None if nothing is known of masks."""
        if len(self.rows) != 1 or len(self.keys) != 1:
            return None
        scores = [self.peak.reads[0].value]
        return hidden_beyond(self.kernel.nests[1], self.rows[0], self.keys[0], scores, -math.inf)

    @property
    def row(self) -> int:
        """Bytes of a query, or of a row of values, as it is multiplied."""
        return max(
            math.prod(self.term_sizes) * self.scores.dtype.itemsize,
            self.width * self.sums.dtype.itemsize,
        )

    @property
    def width(self) -> int:
        """How many columns of values are summed."""
        return math.prod(self.kernel.nests[2].domain[a] for a in self.columns)


def attention_of(kernel: Kernel) -> Attention | None:
    """A kernel as an attention, if it is one, and nothing in it is empty."""
    if len(kernel.nests) != 3 or kernel.fills:
        return None
    first, middle, last = kernel.nests
    if any(not in_place(nest) for nest in kernel.nests) or len(first.stages) > 1:
        return None
    scores, sums = multiplied_in(first), multiplied_in(last)
    softmax = _softmax(middle)
    if scores is None or sums is None or softmax is None or not only_maps_follow(kernel, last):
        return None
    before, peak, powers, total, shares, beside, after = softmax
    given = {s.result for s in (peak, total, *last.stages)}
    if any(v not in given for v in kernel.results):
        return None
    weights = after[-1] if after else shares[-1]
    if dtype_of(peak.result) != sums.wide or dtype_of(total.result) != sums.wide:
        return None
    kept = dict.fromkeys(peak.axes)
    followed = [r.axes for s in middle.stages for r in s.reads if r.value is scores.stage.result]
    if any(r.value in (scores.stage.result, weights.result) for s in last.stages[1:] for r in s.reads):
        return None
    sums = ordered(sums, weights.result)
    if len(set(followed)) != 1 or sums is None or sums.right.value not in kernel.arguments:
        return None
    in_scores = dict(zip(followed[0], scores.stage.axes, strict=True))
    in_sums = dict(zip(weights.axes, sums.left.axes, strict=True))
    keys = tuple(a for a in peak.reduced if middle.domain[a] != 1)
    if {in_sums[a] for a in peak.reduced} != {*sums.stage.reduced} or {*weights.axes} != {*kept, *peak.reduced}:
        return None
    scores = ordered_by(scores, {in_scores[a] for a in keys if a in in_scores})
    if scores is None or any(r.value not in kernel.arguments for r in (scores.left, scores.right)):
        return None
    follows_keys, follows_values = {*scores.right.axes}, {*sums.right.axes}
    shared = {a for a in kept if in_scores.get(a) in follows_keys or in_sums[a] in follows_values}
    rows = tuple(a for a in sorted(kept) if a not in shared and middle.domain[a] != 1)
    batch = tuple(a for a in sorted(kept) if a in shared and middle.domain[a] != 1)
    columns = tuple(a for a in range(len(last.domain)) if a not in in_sums.values() and last.domain[a] != 1)
    order = [in_sums[a] for a in rows]
    empty = any(0 in nest.domain for nest in kernel.nests) or 0 in shape_of(scores.left.value)
    if empty or order != sorted(order) or not {*columns} <= follows_values:
        return None
    if len(in_scores) < len(shape_of(scores.stage.result)) or scores.wide != sums.wide:
        return None
    terms = scores.stage.reduced
    epilogue = tuple(s for s in last.stages if s is not sums.stage)
    return Attention(
        kernel, scores, sums, before, peak, powers, total, shares, beside, after, epilogue,
        batch, rows, keys, in_scores, in_sums, terms, columns,
    )  # fmt: skip


def in_place(nest: Nest) -> bool:
    """Whether what the nest makes is read at the elements that were just made."""
    made = {s.result: s for s in nest.stages}
    return all(r.axes == made[r.value].axes for s in nest.stages for r in s.reads if r.value in made)


def only_maps_follow(kernel: Kernel, nest: Nest) -> bool:
    """Whether the nest is a product and maps of it that need no other element, and what it gives follows all axes."""
    whole = {a for a, n in enumerate(nest.domain) if n != 1}
    made = {s.result: s for s in nest.stages}
    if any(s.kind != "map" or s.anywhere for s in nest.stages if s is not nest.product):
        return False
    if len(set(kernel.results)) < len(kernel.results):
        return False
    return all(whole <= {*made[v].axes} for v in kernel.results if v in made)


# --- products ----------------------------------------------------------------------------------------------


def multiplied_in(nest: Nest) -> Multiplied | None:
    """The product of a nest, if its body adds the product of two floating-point numbers to nothing."""
    stage = nest.product
    if stage is None or number_of(stage.op.operands[2]) != 0:
        return None
    if not {*stage.reduced} <= {*stage.reads[0].axes} & {*stage.reads[1].axes}:
        return None
    dtypes = multiplied(stage)
    return None if dtypes is None else Multiplied(stage, stage.reads[0], stage.reads[1], *dtypes)


def ordered(product: Multiplied, left: SSAValue) -> Multiplied | None:
    """The product with this value, which only one operand may be, on the left."""
    if product.left.value is product.right.value or left not in (product.left.value, product.right.value):
        return None
    return product if product.left.value is left else _swapped(product)


def ordered_by(product: Multiplied, right: set[int]) -> Multiplied | None:
    """The product with the operand that follows all these axes on the right, while the other one follows none."""
    for each in (product, _swapped(product)):
        if right <= {*each.right.axes} and not right & {*each.left.axes}:
            return each
    return None


def _swapped(product: Multiplied) -> Multiplied:
    return Multiplied(product.stage, product.right, product.left, product.dtype, product.wide)


# --- softmax -----------------------------------------------------------------------------------------------

_Stages = tuple[Stage, ...]
_Softmax = tuple[_Stages, Stage, _Stages, Stage, _Stages, _Stages, _Stages]


def _softmax(nest: Nest) -> _Softmax | None:
    """The stages of a nest by what they do, as :class:`Attention` calls them; None if it is no softmax."""
    sums = [s for s in nest.stages if s.combine is not None]
    if len(sums) != 2 or nest.product is not None:
        return None
    peak, total = sums
    if not combines(peak, arith.MaximumfOp, -math.inf) or not combines(total, arith.AddfOp, 0.0):
        return None
    if peak.reduced != total.reduced:
        return None
    sources = Sources(nest)
    score, power = sources.source(peak.reads[0].value), sources.source(total.reads[0].value)
    if not is_power(sources, power, score, peak.result):
        return None
    behind_peak, behind_total = _behind(nest, [peak.result]), _behind(nest, [total.result])
    share = next((s for s in nest.stages if s in behind_total and _is_share(sources, s, power, total.result)), None)
    if share is None:
        return None
    behind_share = _behind(nest, [share.result])
    needed = _needed(nest, peak)
    before = tuple(s for s in nest.stages if s in needed)
    beside = tuple(s for s in nest.stages if s not in needed and s not in behind_peak and s is not peak)
    free = {s.result for s in beside}
    powers = tuple(s for s in nest.stages if s in behind_peak and s not in behind_total and s is not total)
    shares = tuple(s for s in nest.stages if s in behind_total and s not in behind_share)
    after = tuple(s for s in nest.stages if s in behind_share)
    if powers[-1].result is not total.reads[0].value or shares[-1] is not share or any(s.anywhere for s in after):
        return None
    if any(r.value in free for s in (*powers, *shares) for r in s.reads):
        return None
    scaled = {share.result}
    for stage in after:
        if not _keeps_scale(stage, scaled):
            return None
        scaled.add(stage.result)
    return before, peak, powers, total, shares, beside, after


def _needed(nest: Nest, last: Stage) -> set[Stage]:
    """The stages that are needed for one."""
    made = {s.result: s for s in nest.stages}
    found: set[Stage] = set()
    work = [last]
    while work:
        read = [made[r.value] for r in work.pop().reads if r.value in made]
        work += [s for s in read if s not in found]
        found |= {*read}
    return found


def _is_share(sources: Sources, stage: Stage, power: SSAValue, total: SSAValue) -> bool:
    """Whether a stage gives powers over their sum."""
    op = sources.source(stage.result).owner
    if not isinstance(op, arith.DivfOp | arith.MulfOp):
        return False
    one, other = [sources.source(v) for v in op.operands]
    if isinstance(op, arith.DivfOp):
        return one is power and other is total
    factor = other if one is power else one
    inverse = factor.owner
    if power not in (one, other) or not isinstance(inverse, arith.DivfOp):
        return False
    return number_of(inverse.operands[0]) == 1 and sources.source(inverse.operands[1]) is total


def _behind(nest: Nest, values: Sequence[SSAValue]) -> set[Stage]:
    """The stages that need one of these values."""
    known, found = set(values), set[Stage]()
    for stage in nest.stages:
        if any(r.value in known for r in stage.reads):
            known.add(stage.result)
            found.add(stage)
    return found


def _keeps_scale(stage: Stage, scaled: set[SSAValue]) -> bool:
    """Whether a map gives c times as much for c times as much of these values, but for rounding."""
    block = stage.op.regions[0].block
    known: set[SSAValue] = {a for a, r in zip(block.args, stage.reads, strict=False) if r.value in scaled}
    for op in block.ops:
        given = [v in known for v in op.operands]
        if not any(given) or isinstance(op, linalg.YieldOp):
            continue
        keeps = isinstance(op, CASTS) or (isinstance(op, arith.MulfOp) and not all(given))
        if not keeps:
            return False
        known.update(op.results)
    return yielded(stage) in known


# --- the backward -----------------------------------------------------------------------------------------------------
#
# The backward of an attention in a kernel: weights computed again from scores, and the products that they are in.
# Its nests are, in this order, the sum of each row of two arrays (of the result and its gradient: what each score's
# gradient is less of); a product of queries and keys; one of the result's gradient and values; maps of both, which give
# weights and the gradients of scores; and three products of these: weights by gradients, summed along rows, for the
# values; gradients of scores by keys, summed along keys, for the queries; the same by queries, summed along rows, for
# the keys. What maps do is not asked: whatever they compute of a row and a key can be computed in blocks of both.

# The numbers of the nests.
DELTA, SCORES, GRADS, MAPS, VALUES, QUERIES, KEYS = range(7)


@dataclass(frozen=True, eq=False)
class Given:
    """A product that maps are given. ``where`` says which axis of its nest an axis of theirs is.

    Its left operand follows rows, its right one keys.
    """

    product: Multiplied
    where: Mapping[int, int]

    @property
    def terms(self) -> Axes:
        """The axes that it sums."""
        return self.product.stage.reduced

    @property
    def sizes(self) -> Shape:
        """The sizes of the axes that it sums."""
        sizes = dict(zip(self.product.left.axes, shape_of(self.product.left.value), strict=True))
        return tuple(sizes[a] for a in self.terms)

    @property
    def width(self) -> int:
        """How many terms it has."""
        return math.prod(self.sizes)


@dataclass(frozen=True, eq=False)
class Made:
    """A product whose left operand maps made; ``columns`` are the right one's own axes. ``epilogue`` maps follow it."""

    product: Multiplied
    where: Mapping[int, int]
    nest: Nest
    columns: Axes
    epilogue: tuple[Stage, ...]

    @property
    def sizes(self) -> Shape:
        """The sizes of its own axes."""
        return tuple(self.nest.domain[a] for a in self.columns)

    @property
    def width(self) -> int:
        """How many columns it has."""
        return math.prod(self.sizes)

    @property
    def summed(self) -> set[int]:
        """The axes of maps that it sums."""
        return {a for a, own in self.where.items() if own in self.product.stage.reduced}


@dataclass(frozen=True, eq=False)
class AttentionBackward:
    """A kernel that is the backward of an attention; axes are those of its maps. See the module's docstring."""

    kernel: Kernel
    delta: Stage
    delta_axes: Axes  # what the dimensions of ``delta`` follow, in maps
    scores: Given
    grads: Given
    values: Made
    queries: Made
    keys: Made
    batch: Axes
    row_axes: Axes
    key_axes: Axes

    @property
    def maps(self) -> Nest:
        """The nest of maps."""
        return self.kernel.nests[MAPS]

    @property
    def wide(self) -> DType:
        """What everything is added up in."""
        return self.scores.product.wide

    @property
    def dtype(self) -> DType:
        """What is multiplied."""
        return self.scores.product.dtype

    @property
    def output(self) -> Read:
        """The array that is multiplied with the gradient for ``delta``."""
        return next(r for r in self.delta.reads if r.value is not self.grads.product.left.value)

    @cached_property
    def hidden(self) -> int | None:
        """By how much a key is beyond a row where weights, and gradients of scores, are surely zero; or None."""
        if len(self.row_axes) != 1 or len(self.key_axes) != 1:
            return None
        made = [p.product.left.value for p in (self.values, self.queries)]
        return hidden_beyond(self.maps, self.row_axes[0], self.key_axes[0], made, 0.0)

    def extent(self, axes: Axes) -> int:
        """How many elements some axes have."""
        return math.prod(self.maps.domain[a] for a in axes)

    @property
    def row(self) -> int:
        """Bytes of the longest row that is multiplied."""
        widths = (self.scores.width, self.grads.width, self.values.width, self.queries.width, self.keys.width)
        return max(widths) * self.dtype.itemsize


def attention_backward_of(kernel: Kernel) -> AttentionBackward | None:
    """A kernel as the backward of an attention, if it is one, and more than one row and key take part."""
    if len(kernel.nests) != 7 or kernel.fills or any(0 in nest.domain for nest in kernel.nests):
        return None
    maps = kernel.nests[MAPS]
    if any(not in_place(nest) for nest in kernel.nests) or any(s.kind != "map" for s in maps.stages):
        return None
    values, queries, keys = (_made(kernel, n) for n in (VALUES, QUERIES, KEYS))
    if values is None or queries is None or keys is None:
        return None
    rows, along = values.summed, queries.summed
    if rows != keys.summed or rows & along or keys.product.left.value is not queries.product.left.value:
        return None
    scores, grads = (_given(kernel, n, rows, along) for n in (SCORES, GRADS))
    delta = _delta(kernel, grads)
    if scores is None or grads is None or delta is None:
        return None
    products = [p.product for p in (scores, grads, values, queries, keys)]
    own = {s.result for s in kernel.stages}
    right = [p.right.value for p in products] + [scores.product.left.value]
    if len({(p.dtype, p.wide) for p in products}) != 1 or any(v in own for v in right):
        return None
    whole = [a for a, n in enumerate(maps.domain) if n != 1]
    row_axes, key_axes = (tuple(a for a in whole if a in axes) for axes in (rows, along))
    if not row_axes or not key_axes:
        return None
    batch = tuple(a for a in whole if a not in rows and a not in along)
    found = AttentionBackward(
        kernel, delta[0], delta[1], scores, grads, values, queries, keys, batch, row_axes, key_axes
    )
    return found if _whole(found) else None


def _whole(found: AttentionBackward) -> bool:
    """Whether all results of the kernel are those of its last products, and these have rows, or keys, and columns."""
    made = {s.result for p in (found.values, found.queries, found.keys) for s in (p.product.stage, *p.epilogue)}
    wide = [p.width for p in (found.scores, found.grads, found.values, found.queries, found.keys)]
    follows = {*found.batch, *found.row_axes}
    return {*found.kernel.results} <= made and min(wide) > 1 and follows <= {*found.delta_axes}


def _given(kernel: Kernel, number: int, rows: set[int], keys: set[int]) -> Given | None:
    """The product of a nest, which is one stage, that maps read: of something along rows, and something along keys."""
    nest = kernel.nests[number]
    product = multiplied_in(nest)
    if product is None or len(nest.stages) != 1:
        return None
    read = _read(kernel.nests[MAPS], product.stage.result)
    if read is None or len(read) < len(shape_of(product.stage.result)):
        return None
    where = dict(zip(read, product.stage.axes, strict=True))
    long = {a for a, n in enumerate(kernel.nests[MAPS].domain) if n != 1}
    along, across = ({where[a] for a in axes & long if a in where} for axes in (keys, rows))
    product = ordered_by(product, along)
    if product is None or across & {*product.right.axes}:
        return None
    return Given(product, where)


def _read(maps: Nest, value: SSAValue) -> Axes | None:
    """The axes with which maps read a value, if it is always the same and there are some."""
    found = {r.axes for s in maps.stages for r in s.reads if r.value is value}
    return found.pop() if len(found) == 1 else None


def _made(kernel: Kernel, number: int) -> Made | None:
    """The product of a nest, of what maps made and something else, and the maps of it that follow."""
    nest, maps = kernel.nests[number], kernel.nests[MAPS]
    product = multiplied_in(nest)
    if product is None or not only_maps_follow(kernel, nest):
        return None
    made = {s.result: s for s in maps.stages}
    left = next((v for v in (product.left.value, product.right.value) if v in made), None)
    product = None if left is None else ordered(product, left)
    if left is None or product is None or _is_read_behind(nest, left):
        return None
    axes = made[left].axes
    if len(axes) != len(maps.domain) or sorted(product.left.axes) != sorted({*product.left.axes}):
        return None
    where = dict(zip(axes, product.left.axes, strict=True))
    columns = tuple(a for a in range(len(nest.domain)) if a not in where.values() and nest.domain[a] != 1)
    if not {*columns} <= {*product.right.axes}:
        return None
    epilogue = tuple(s for s in nest.stages if s is not product.stage)
    return Made(product, where, nest, columns, epilogue)


def _is_read_behind(nest: Nest, value: SSAValue) -> bool:
    """Whether maps of a nest read a value that its product multiplies."""
    return any(r.value is value for s in nest.stages if s is not nest.product for r in s.reads)


def _delta(kernel: Kernel, grads: Given | None) -> tuple[Stage, Axes] | None:
    """The sum of the rows of two arrays, one of them the gradient, and what its dimensions follow in the maps."""
    stages = kernel.nests[DELTA].stages
    if grads is None or len(stages) != 1 or stages[0].kind != "product":
        return None
    (stage,) = stages
    dtypes, axes = multiplied(stage), _read(kernel.nests[MAPS], stage.result)
    if dtypes is None or axes is None or dtypes[1] != dtype_of(stage.result):
        return None
    given = [r.value for r in stage.reads]
    if given.count(grads.product.left.value) != 1 or any(v not in kernel.arguments for v in given):
        return None
    own = next(r for r in stage.reads if r.value is grads.product.left.value)
    # The gradient's dimensions are rows, or batches, and columns: the same in the sum as in the product.
    place = dict(zip(own.axes, grads.product.left.axes, strict=True))
    kept = dict(zip(stage.axes, axes, strict=True))
    if {place.get(a) for a in stage.reduced} != {*grads.terms}:
        return None
    if any(grads.where.get(kept[a]) != place[a] for a in own.axes if a in kept):
        return None
    return stage, axes


# --- values that a causal mask fixes ----------------------------------------------------------------------------------
#
# What a nest is known to give where keys are beyond rows: scores that a causal mask hides, and what is made of them.
# A mask is known by its formula: indices along two axes, perhaps plus whole numbers, are compared, and the result
# chooses minus infinity. What is hidden so is followed through the maps of the nest: less anything it stays minus
# infinity, its exponential is zero, and so is that times anything. All other numbers are taken for finite.

_CASTS = (arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.UIToFPOp, arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp)
_SWAPPED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


@dataclass(frozen=True)
class _Number:
    """A number everywhere."""

    value: float


@dataclass(frozen=True)
class _ShiftedIndex:
    """The index along an axis, plus a whole number."""

    axis: int
    plus: int


@dataclass(frozen=True)
class _Beyond:
    """Whether key - row > ``by``; the opposite, if ``negated``."""

    by: int
    negated: bool


@dataclass(frozen=True)
class _Hidden:
    """Zero, or minus infinity, wherever key - row > ``by``; unknown elsewhere."""

    by: int
    value: float


_Fact = _Number | _ShiftedIndex | _Beyond | _Hidden | None


def hidden_beyond(nest: Nest, rows: int, keys: int, values: Iterable[SSAValue], value: float) -> int | None:
    """By how much a key must be beyond a row for all these values to be this number, zero or minus infinity, there.

    None if that is not known, or the first row would see no key.
    """
    found = _Facts(nest, rows, keys).of(values)
    by = [f.by for f in found if isinstance(f, _Hidden) and f.value == value]
    return max(by) if by and len(by) == len(found) and max(by) >= 0 else None


class _Facts:
    def __init__(self, nest: Nest, rows: int, keys: int) -> None:
        self.nest, self.rows, self.keys = nest, rows, keys
        self.known: dict[SSAValue, _Fact] = {}

    def of(self, values: Iterable[SSAValue]) -> list[_Fact]:
        """What is known of values that stages of the nest make."""
        for stage in self.nest.stages:
            if stage.kind == "map":
                self.known[stage.result] = self._stage(stage)
        return [self.known.get(v) for v in values]

    def _stage(self, stage: Stage) -> _Fact:
        block = stage.op.regions[0].block
        for argument, read in zip(block.args, stage.reads, strict=False):
            number = number_of(read.value)
            self.known[argument] = self.known.get(read.value) if number is None else _Number(float(number))
        axes = loop_axes(stage)
        for op in block.ops:
            if isinstance(op, linalg.YieldOp):
                return self._fact(op.operands[0])
            if isinstance(op, linalg.IndexOp):
                self.known[op.results[0]] = _ShiftedIndex(axes[op.dim.value.data], 0)
            else:
                self.known[op.results[0]] = self._result(op)
        return None

    def _fact(self, value: SSAValue) -> _Fact:
        number = number_of(value)
        return self.known.get(value) if number is None else _Number(float(number))

    def _result(self, op: Operation) -> _Fact:
        """What is known of the result of an operation."""
        given = [self._fact(v) for v in op.operands]
        match op:
            case _ if isinstance(op, _CASTS):
                return self._cast(op, given[0])
            case arith.CmpfOp() | arith.CmpiOp():
                return self._compared(cast(Any, op), *given)
            case arith.SelectOp():
                return _chosen(*given)
            case arith.AddfOp() | arith.AddiOp():
                return _sum(given[0], given[1])
            case arith.SubfOp() | arith.SubiOp():
                other = given[1]
                return _sum(given[0], _Number(-other.value) if isinstance(other, _Number) else _negative(other))
            case arith.MulfOp() | arith.DivfOp():
                return _product(op, *given)
            case functions.ExpOp():
                one = given[0]
                return _Hidden(one.by, 0.0) if isinstance(one, _Hidden) and one.value < 0 else None
            case _:
                return None

    def _cast(self, op: Operation, given: _Fact) -> _Fact:
        """The same, unless an index is rounded."""
        kind = op.results[0].type
        if isinstance(given, _ShiftedIndex) and not isinstance(op, arith.IndexCastOp):
            size = self.nest.domain[given.axis] + abs(given.plus)
            return given if size <= exact_integers(element_dtype(kind)) else None
        return given

    def _compared(self, op: arith.CmpfOp | arith.CmpiOp, left: _Fact, right: _Fact) -> _Fact:
        """Places that are compared, or whether the truth is zero."""
        names: Any = (
            arith.CMPF_COMPARISON_OPERATIONS if isinstance(op, arith.CmpfOp) else arith.CMPI_COMPARISON_OPERATIONS
        )
        kind = names[op.predicate.value.data].lstrip("ous") or "ne"
        if isinstance(left, _Beyond) and isinstance(right, _Number) and right.value == 0 and kind in ("ne", "eq"):
            return _Beyond(left.by, left.negated != (kind == "eq"))
        if not isinstance(left, _ShiftedIndex) or not isinstance(right, _ShiftedIndex) or kind not in _SWAPPED:
            return None
        if (left.axis, right.axis) == (self.rows, self.keys):
            left, right, kind = right, left, _SWAPPED[kind]
        if (left.axis, right.axis) != (self.keys, self.rows):
            return None
        by = right.plus - left.plus  # key + left.plus > row + right.plus
        if kind in ("gt", "le"):
            return _Beyond(by, kind == "le")
        return _Beyond(by - 1, kind == "lt")


def _chosen(condition: _Fact, one: _Fact, other: _Fact) -> _Fact:
    """What a condition chooses where keys are beyond rows."""
    if not isinstance(condition, _Beyond):
        return None
    value = other if condition.negated else one
    if isinstance(value, _Number) and value.value in (0.0, -math.inf):
        return _Hidden(condition.by, value.value)
    return _Hidden(max(condition.by, value.by), value.value) if isinstance(value, _Hidden) else None


def _negative(given: _Fact) -> _Fact:
    """The negative of what is hidden: of zero only; nothing is known of a difference from minus infinity."""
    return given if isinstance(given, _Hidden) and given.value == 0 else None


def _sum(one: _Fact, other: _Fact) -> _Fact:
    """A sum; minus infinity plus what may be anything finite is minus infinity."""
    for place, number in ((one, other), (other, one)):
        if isinstance(place, _ShiftedIndex) and isinstance(number, _Number):
            return _ShiftedIndex(place.axis, place.plus + int(number.value)) if number.value.is_integer() else None
    if isinstance(one, _Hidden) and isinstance(other, _Hidden) and one.value == other.value:
        return _Hidden(max(one.by, other.by), one.value)
    return next((f for f in (one, other) if isinstance(f, _Hidden) and f.value < 0), None)


def _product(op: Operation, one: _Fact, other: _Fact) -> _Fact:
    """A product, or a quotient."""
    if isinstance(one, _Hidden) and one.value == 0:
        return one
    if isinstance(op, arith.MulfOp) and isinstance(other, _Hidden) and other.value == 0:
        return other
    positive = isinstance(other, _Number) and 0 < other.value < math.inf
    return one if isinstance(one, _Hidden) and positive else None
