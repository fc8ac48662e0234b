"""Attention in a kernel: rows of scores, weights that are their exponentials over the sum of these, sums by weights.

It is seen from loops and bodies: a product; a nest that takes the maximum of something made of it, subtracts that,
takes exponentials, their sum, and divides; a product that sums along the same axes. What a row of weights is multiplied
with can then be added up while the maximum is still being found: all that was added so far is scaled when a greater
one comes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from hybridc.cached import cached_property
from hybridc.dialects.attribute import DType
from hybridc.ir.hidden import hidden_beyond
from hybridc.ir.kernel import Axes, Kernel, Nest, Read, Stage, number_of
from hybridc.ir.product_shape import multiplied
from hybridc.ir.sources import Sources, combines, is_power, yielded
from hybridc.ir.structured import Shape, dtype_of, shape_of

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
