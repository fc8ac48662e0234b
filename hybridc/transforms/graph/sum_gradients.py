"""The sum of the gradients of one value: those of disjoint slices, which are zeros elsewhere, are joined.

The gradients of ``x[0]``, ``x[1]``, … are boxes in zeros of the shape of ``x``. Adding them up costs time and memory
that are quadratic in their number; one concatenation has all of them, whose parts are written where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.trace.traced import TracedSymbol

# The elements of what products read, as a multiple of those of their results, up to which they are joined: adding up
# the results moves three times these, and joining moves what is not written in its place anyway.
JOINED = 3


@dataclass(frozen=True)
class _PlacedGradient:
    """A value that lies at ``begin`` in zeros."""

    begin: Shape
    value: TracedSymbol

    @property
    def sizes(self) -> Shape:
        """The number of elements along each axis."""
        return tuple(self.value.shape)

    def beside(self, axis: int) -> tuple[Shape, Shape]:
        """What boxes that differ along one axis alone have in common."""
        begin, sizes = self.begin, self.sizes
        return (*begin[:axis], *begin[axis + 1 :]), (*sizes[:axis], *sizes[axis + 1 :])


def sum_gradients(F: Any, grads: Sequence[TracedSymbol]) -> TracedSymbol:
    """The sum of gradients of one shape, in the order in which they are given but for boxes, which come last."""
    if len(grads) == 1:
        return grads[0]
    boxes: dict[tuple[Shape, Shape], _PlacedGradient] = {}
    rest: list[TracedSymbol] = []
    for grad in grads:
        begin = None if grad.node is None else grad.node.op.placed()
        if grad.node is None or begin is None:
            rest.append(grad)
            continue
        box = _PlacedGradient(begin, grad.node.inputs[0])
        same = boxes.get((box.begin, box.sizes))
        boxes[box.begin, box.sizes] = box if same is None else _PlacedGradient(begin, same.value + box.value)
    rest = _summed(F, rest)
    shape = grads[0].shape
    rest += [_in_zeros(F, box, shape) for box in _joined(F, list(boxes.values()))]
    return reduce(add, rest)


def _summed(F: Any, grads: Sequence[TracedSymbol]) -> list[TracedSymbol]:
    """Fewer gradients with the same sum: one product of joined matrices for several, as a weight's at all steps."""
    alike: dict[Any, list[TracedSymbol]] = {}
    for index, grad in enumerate(grads):
        node = grad.node
        key: Any = index  # one may be there twice
        if node is not None and node.op.sums_rows():
            read = sum(math.prod(x.shape) for x in node.inputs)
            if read <= JOINED * math.prod(grad.shape):
                key = (node.op.NAME, node.op.key, *((x.shape, x.dtype) for x in node.inputs))
        alike.setdefault(key, []).append(grad)
    sums: list[TracedSymbol] = []
    for several in alike.values():
        node = several[0].node
        if len(several) == 1 or node is None:
            sums += several
            continue
        rows = zip(*(term.node.inputs for term in several if term.node is not None), strict=True)
        sums.append(node.op.summed(F, *(F.stack(*reversed(row), axis=0) for row in rows)))
    return sums


def _joined(F: Any, boxes: list[_PlacedGradient]) -> list[_PlacedGradient]:
    """Fewer boxes with the same sum: neighbours first, along each axis, then those with zeros between them."""
    axes = range(len(boxes[0].begin)) if boxes else ()
    for may_join in (_adjacent, _disjoint):
        for axis in reversed(axes):
            groups: dict[Any, list[_PlacedGradient]] = {}
            for box in boxes:
                groups.setdefault(box.beside(axis), []).append(box)
            boxes = [_concatenated(F, run, axis) for group in groups.values() for run in _runs(group, axis, may_join)]
    return boxes


def _adjacent(end: int, begin: int) -> bool:
    return end == begin


def _disjoint(end: int, begin: int) -> bool:
    return end <= begin


def _runs(
    boxes: Iterable[_PlacedGradient], axis: int, may_join: Callable[[int, int], bool]
) -> list[list[_PlacedGradient]]:
    """Lists of boxes that follow each other along an axis, in the order in which they begin."""
    runs: list[list[_PlacedGradient]] = []
    for box in sorted(boxes, key=lambda b: b.begin[axis]):
        ends = [run[-1].begin[axis] + run[-1].sizes[axis] for run in runs]
        run = next((r for r, end in zip(runs, ends, strict=True) if may_join(end, box.begin[axis])), None)
        if run is None:
            runs.append([box])
        else:
            run.append(box)
    return runs


def _concatenated(F: Any, boxes: Sequence[_PlacedGradient], axis: int) -> _PlacedGradient:
    """Boxes one after the other along an axis, with zeros between them, as one."""
    if len(boxes) == 1:
        return boxes[0]
    parts: list[TracedSymbol] = []
    end = boxes[0].begin[axis]
    for box in boxes:
        if box.begin[axis] != end:
            sizes = list(box.sizes)
            sizes[axis] = box.begin[axis] - end
            parts.append(F.zeros(shape=tuple(sizes), dtype=box.value.dtype))
        parts.append(box.value)
        end = box.begin[axis] + box.sizes[axis]
    return _PlacedGradient(boxes[0].begin, F.concat(*parts, dim=axis))


def _in_zeros(F: Any, placed: _PlacedGradient, shape: Shape) -> TracedSymbol:
    """A box in zeros of a shape."""
    if placed.sizes == tuple(shape):
        return placed.value
    parts = zip(placed.begin, placed.sizes, shape, strict=True)
    ends = [(None, None) if n == size else (b, b + n) for b, n, size in parts]
    begin, end = zip(*ends, strict=True)
    return F.slice_scatter(placed.value, shape=tuple(shape), begin=begin, end=end)
