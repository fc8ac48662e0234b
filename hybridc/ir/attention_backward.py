"""The backward of an attention in a kernel: weights computed again from scores, and the products that they are in.

Its nests are, in this order, the sum of each row of two arrays (of the result and its gradient: what each score's
gradient is less of); a product of queries and keys; one of the result's gradient and values; maps of both, which give
weights and the gradients of scores; and three products of these: weights by gradients, summed along rows, for the
values; gradients of scores by keys, summed along keys, for the queries; the same by queries, summed along rows, for the
keys. What maps do is not asked: whatever they compute of a row and a key can be computed in blocks of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from hybridc.cached import cached_property
from hybridc.dialects.attribute import DType
from hybridc.ir.attention import Multiplied, in_place, multiplied_in, only_maps_follow, ordered, ordered_by
from hybridc.ir.hidden import hidden_beyond
from hybridc.ir.kernel import Axes, Kernel, Nest, Read, Stage
from hybridc.ir.product_shape import multiplied
from hybridc.ir.structured import Shape, dtype_of, shape_of

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
