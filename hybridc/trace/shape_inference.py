"""Inference of the shapes in a graph from those that are known, forwards and backwards along it, to a fixed point.

Graphs of composed symbols and traces of blocks use it. It asks the operators' rules, ``complete_shapes`` and
``infer_shape``, and solves what these say of results for unknown sizes of inputs. An unknown shape is None, an unknown
size -1.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from hybridc.dialects.array.shape_rules import is_known, merged_shape
from hybridc.dialects.error_context import pair
from hybridc.dialects.operator import Elementwise, Operator
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import MXNetError

_KEY_SHAPE: Shape = (2,)  # of a key of the random generator
# Sizes with many divisors, substituted for unknown ones: what is equal for all of them does not depend on them.
_PROBE, _OTHER_PROBE, _THIRD_PROBE = 5040, 10080, 20160
# What is cut to a size, as a slice, and what drops sizes of 1 depends on small ones only.
_SMALL_PROBES = (1, 2)


class ShapedValue(Protocol):
    """A value of a graph whose shape is inferred."""

    inferred_shape: Shape | None

    @property
    def name(self) -> str:
        """Its name in errors."""
        ...


class InferenceStep:
    """An operator of a graph with its values; ``origin`` is what the caller knows it by.

    ``numbers``: which inputs are numbers, that do not constrain the other inputs.
    """

    __slots__ = ("inputs", "numbers", "op", "origin", "outputs", "was_known")

    def __init__(
        self,
        op: Operator,
        inputs: Sequence[ShapedValue],
        outputs: Sequence[ShapedValue],
        numbers: Sequence[bool],
        origin: Any,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        self.numbers = numbers
        self.origin = origin
        self.was_known = False  # whether it was asked when all of its inputs were known

    def broadcasts(self) -> bool:
        """Whether unknown inputs may have other shapes than the known ones: it is elementwise, on several arrays."""
        return isinstance(self.op, Elementwise) and self.op.BROADCASTS and self.numbers.count(False) > 1

    def is_settled(self) -> bool:
        """Whether it has nothing more to say: it was asked with known inputs, and its results are known."""
        return self.was_known and all(is_known(v.inferred_shape) for v in self.outputs)

    def waits(self) -> bool:
        """Whether it broadcasts, and nothing is known of the shape of an input."""
        pairs = zip(self.inputs, self.numbers, strict=True)
        return self.broadcasts() and any(v.inferred_shape is None for v, is_number in pairs if not is_number)


class ShapeInference:
    """The steps of a graph; ``explain(step, error)`` raises an operator's error with its context."""

    def __init__(self, explain: Callable[[InferenceStep, Exception], NoReturn]) -> None:
        self._explain = explain
        self._steps: list[InferenceStep] = []
        self._uses: dict[int, list[int]] = {}  # by identity of a value: the steps that it is an input or result of
        self._queue: list[int] = []  # a heap of steps that are to be asked
        self._queued: set[int] = set()

    def add(self, step: InferenceStep) -> None:
        """Add a step; :meth:`settle` asks it."""
        position = len(self._steps)
        self._steps.append(step)
        for value in (*step.inputs, *step.outputs):
            self._uses.setdefault(id(value), []).append(position)
        self._enqueue(position)

    def put(self, value: ShapedValue, shape: Shape | None) -> bool:
        """Add what is said of a shape to what is known of it; whether that is more."""
        known = value.inferred_shape
        if shape is None or shape == known:
            return False
        merged = merged_shape(value.name, known, shape)
        if merged == known:
            return False
        value.inferred_shape = merged
        for position in self._uses.get(id(value), ()):
            self._enqueue(position)
        return True

    def settle(self) -> None:
        """Ask the operators until nothing more follows."""
        while self._queue:
            position = heapq.heappop(self._queue)
            self._queued.discard(position)
            self._ask(self._steps[position])

    def guess(self, step: InferenceStep, equal: bool = False) -> bool:
        """Take unknown inputs of an operator that broadcasts to have the full shape; whether more is known then.

        With ``equal`` they are taken to have the shape of the other inputs, even where that has a size 1.
        """
        if not step.broadcasts():
            return False
        before = [v.inferred_shape for v in step.inputs]
        if all(map(is_known, before)):
            return False
        self._ask(step, guess=True, equal=equal)
        return before != [v.inferred_shape for v in step.inputs]

    def finish(self, equal: bool = False) -> None:
        """Settle, and guess while something follows from it."""
        self.settle()
        more = True
        while more:
            more = False
            for step in self._steps:
                if self.guess(step, equal):
                    self.settle()
                    more = True

    def _enqueue(self, position: int) -> None:
        if position not in self._queued:
            self._queued.add(position)
            heapq.heappush(self._queue, position)

    def _ask(self, step: InferenceStep, guess: bool = False, equal: bool = False) -> None:
        if step.waits() and not guess:
            return
        try:
            if not step.is_settled():
                self._ask_rules(step, guess, equal)
        except Exception as error:
            self._explain(step, error)

    def _ask_rules(self, step: InferenceStep, guess: bool, equal: bool) -> None:
        op = step.op
        outs = [v.inferred_shape for v in step.outputs[: op.num_visible_outputs()]]
        ins = [None if n else v.inferred_shape for v, n in zip(step.inputs, step.numbers, strict=True)]
        ins = op.complete_shapes(ins, outs)
        if guess:
            ins = _broadcast_sizes(ins, outs, equal)
        ins = [() if n else s for s, n in zip(ins, step.numbers, strict=True)]
        self._put_all(step.inputs, ins)
        shapes = [s for s in ins if s is not None]
        if len(shapes) < len(ins):
            return
        if op.DRAWS and len(shapes) < len(op.input_names()):
            shapes.append(_KEY_SHAPE)  # no input of symbols
        found_ins, found_outs = forward_shapes(op, shapes)
        self._put_all(step.inputs, found_ins)
        self._put_all(step.outputs, found_outs)
        step.was_known = all(map(is_known, shapes))
        known = [None if s is None else tuple(s) for s in found_ins]
        if any(s is not None and -1 in s for s in known):
            outs = [v.inferred_shape for v in step.outputs]
            self._put_all(step.inputs, backward_shapes(op, known, found_outs, outs))

    def _put_all(self, values: Sequence[ShapedValue], shapes: Sequence[Shape | None]) -> None:
        for value, shape in zip(values, shapes, strict=False):
            self.put(value, shape)


def forward_shapes(op: Operator, shapes: Sequence[Shape]) -> tuple[list[Shape | None], list[Shape | None]]:
    """The result of ``infer_shape`` for inputs and outputs; sizes that depend on unknown ones are -1."""
    if op.infers_partly() or not any(-1 in s for s in shapes):
        ins, outs = _inferred(op, shapes)
        return [*ins], [*outs]
    filled = _filled(op, shapes)
    try:
        first, second = (_inferred(op, _probed(shapes, filled, p)) for p in (_PROBE, _OTHER_PROBE))
    except MXNetError:  # it needs to know more
        return [*shapes], []
    ins, outs = _alike(first[0], second[0]), _alike(first[1], second[1])
    for size in _SMALL_PROBES:
        try:
            small = _inferred(op, _probed(shapes, filled, size))[1]
        except MXNetError:  # it takes larger sizes only
            continue
        outs = [s if s is None else _alike([s], [t])[0] for s, t in zip(outs, small, strict=True)]
    if any(s is not None and 1 in s for s in outs):
        with contextlib.suppress(MXNetError):
            none = _inferred(op, _probed(shapes, filled, 0))[1]
            outs = [s if s is None else _cut_to_one(s, t) for s, t in zip(outs, none, strict=True)]
    return ins, outs


def _cut_to_one(shape: Shape, of_nothing: Shape) -> Shape:
    """A shape without the sizes of 1 that are 0 where the unknown ones are: what is cut to one element."""
    if len(shape) != len(of_nothing):
        return shape
    return tuple(-1 if n == 1 and not m else n for n, m in zip(shape, of_nothing, strict=True))


def backward_shapes(
    op: Operator, shapes: Sequence[Shape | None], inferred: Sequence[Shape | None], outs: Sequence[Shape | None]
) -> list[Shape | None]:
    """Shapes of the inputs, with sizes that follow from known sizes of results which depend on them.

    A size of a result that is a multiple of one unknown size of an input, plus a constant, is solved for it: that of a
    transpose, a concatenation, a repetition, a convolution of stride 1. ``inferred`` are the results as ``shapes`` give
    them, ``outs`` what is known of them.
    """
    known = [s for s in shapes if s is not None]
    missing = [
        -1 in (s or ()) and o is not None and any(n == -1 and m != -1 for n, m in zip(s or (), o, strict=False))
        for s, o in zip(inferred, outs, strict=False)
    ]
    if len(known) < len(shapes) or not any(missing):
        return [*shapes]
    solved = [list(s) for s in known]
    places = [(i, axis) for i, s in enumerate(known) for axis, n in enumerate(s) if n == -1]
    filled = _filled(op, known)
    for place in places:
        solved[place[0]][place[1]] = _solved(op, known, filled, place, len(places), outs)
    return [tuple(s) for s in solved]


def _solved(
    op: Operator,
    shapes: Sequence[Shape],
    filled: Sequence[Shape],
    place: tuple[int, int],
    unknown: int,
    outs: Sequence[Shape | None],
) -> int:
    """The size at a place that gives the known sizes of the results; -1 if none follows."""
    base = _probed(shapes, filled, _PROBE)
    others = _replaced(_probed(shapes, filled, _THIRD_PROBE), place, _PROBE)
    try:
        first, second = (_inferred(op, s)[1] for s in (base, _replaced(base, place, _OTHER_PROBE)))
        third = first if unknown == 1 else _inferred(op, others)[1]
    except MXNetError:  # other inputs must have the same size
        return -1
    for known, *probed in zip(outs, first, second, third, strict=False):
        if known is None or any(len(s) != len(known) for s in probed):
            continue
        for size, a, b, same in zip(known, *probed, strict=True):
            factor, rest = divmod(b - a, _OTHER_PROBE - _PROBE)
            if size == -1 or a == b or a != same or rest or factor < 1:
                continue
            solution, rest = divmod(size - (a - factor * _PROBE), factor)
            if not rest and solution >= 0:
                return solution
    return -1


def _broadcast_sizes(ins: Sequence[Shape | None], outs: Sequence[Shape | None], equal: bool) -> list[Shape | None]:
    """The shapes of inputs that broadcast, with unknown sizes taken to be those of the result, or of the others."""
    known = [s for s in (*outs[:1], *(ins if equal else ())) if s is not None]
    shapes = [*ins]
    for other in known:
        shapes = [s if s is None or len(s) != len(other) else _filled_from(s, other) for s in shapes]
    return shapes


def _filled_from(shape: Shape, other: Shape) -> Shape:
    return tuple(m if n == -1 else n for n, m in zip(shape, other, strict=True))


def _inferred(op: Operator, shapes: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
    return pair(op, "infer_shape", op.infer_shape(list(shapes)), len(shapes))


def _filled(op: Operator, shapes: Sequence[Shape]) -> Sequence[Shape]:
    """The shapes with the unknown sizes that the operator fills in."""
    try:
        return _inferred(op, shapes)[0]
    except MXNetError:  # it takes no unknown sizes: nothing to fill in
        return shapes


def _probed(shapes: Sequence[Shape], filled: Sequence[Shape], size: int) -> list[Shape]:
    """The shapes with a size substituted for unknown ones that the operator does not fill in."""
    return [
        tuple(size if n == -1 and f < 0 else n for n, f in zip(s, fs, strict=True))
        for s, fs in zip(shapes, filled, strict=True)
    ]


def _replaced(shapes: Sequence[Shape], place: tuple[int, int], size: int) -> list[Shape]:
    """The shapes with another size at one place."""
    index, axis = place
    return [(*s[:axis], size, *s[axis + 1 :]) if i == index else s for i, s in enumerate(shapes)]


def _alike(first: Sequence[Shape], second: Sequence[Shape]) -> list[Shape | None]:
    return [
        tuple(n if n == m else -1 for n, m in zip(s, t, strict=True)) if len(s) == len(t) else None
        for s, t in zip(first, second, strict=True)
    ]
