"""Loops: a graph that runs several times, with states carried from step to step.

A host call runs the compiled graph of one step, which is the same for every number of steps. The gradient is a loop in
the other direction, over the saved states, which sums up the gradients of what all steps read.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.dialects.array.creation_ops import is_zeros
from hybridc.dialects.body import Body
from hybridc.dialects.control.inner_graph import InnerGraphs, gradient_body, split_key
from hybridc.dialects.control.steps import Steps
from hybridc.dialects.derived import outputs_of
from hybridc.dialects.operator import register
from hybridc.dialects.operator_attribute import DType, Shape, attribute
from hybridc.dtypes import is_float
from hybridc.errors import ShapeError

_COUNT = np.dtype(np.int64)


class _Steps(InnerGraphs):
    """Steps of the graph ``body``.

    Inputs are ``data``, with a row for each step, states, and what every step reads; of these, the arguments of the
    body are a row of the data, and the rest. Its results are a row of each output, and the next states. Results are the
    outputs, stacked, and the last states, then, if it ``saves``, the states before each step, stacked.
    """

    body: Body = attribute(doc="the graph of a step")
    states: int = attribute(doc="so many inputs, after the data, are states", low=0)
    saves: bool = attribute(False, "return the states before each step")
    counters: int = attribute(0, "internal: the numbers that a step takes from the random key, its last argument")
    draw: int = attribute(0, "internal: the first of these numbers")

    outputs: int  # results of the body that are stacked
    backwards = counted = False

    def check(self) -> None:
        super().check()
        self.outputs = len(self.body.results) - self.states

    # --- inference -----------------------------------------------------------------------------------------

    @abstractmethod
    def count(self, shapes: Sequence[Shape]) -> int:
        """The number of rows of data and outputs."""

    def num_visible_outputs(self) -> int:
        """Outputs and states."""
        return self.outputs + self.states * (1 + self.saves)

    def num_outputs(self) -> int:
        return self.num_visible_outputs()

    def row_shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes of the arguments of the body."""
        data = self.rows_inside()
        return [*[shape[1:] for shape in shapes[:data]], *shapes[data:]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """By inference of the body."""
        data, n = self.rows_inside(), self.count(shapes)
        ins, outs = self.body.infer_shape(self.row_shapes(shapes))
        before, after = ins[data:][: self.states], outs[self.outputs :]
        if before != after:
            raise ShapeError(f"loop: the states must keep their shapes, {before} before a step and {after} after it")
        stacked = [(n, *s) for s in outs[: self.outputs]]
        return [*[(n, *s) for s in ins[:data]], *ins[data:]], [
            *stacked,
            *after,
            *[(n, *s) for s in before if self.saves],
        ]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """By inference of the body."""
        ins, outs = self.body.infer_type(dtypes)
        return ins, [*outs, *[d for d in ins[self.rows_inside() :][: self.states] if self.saves]]

    # --- running -------------------------------------------------------------------------------------------

    def run(self, outs: Sequence[Any], arrays: Sequence[Any], count: int, condition: Any = None) -> int:
        """Run at most so many steps, while the condition holds, and write outputs and states; the number of steps."""
        data = self.rows_inside()
        states, rest = list(arrays[data:][: self.states]), arrays[data + self.states :]
        read, keys = split_key(self, rest)
        steps = Steps(
            count, self.backwards, arrays[:data], states, read, keys[0] if keys else None, self.counters,
            outs[: self.outputs], outs[self.outputs :][: self.states],
            outs[self.outputs + self.states :][: self.states * self.saves], condition,
        )  # fmt: skip
        if keys:
            steps = replace(steps, key=self.key_at(keys[0], 0))
        step = self.compiled(self.body, self.row_shapes([x.shape for x in arrays]), [x.dtype for x in arrays])
        ran = step.run_steps(steps)
        return _run(step, steps) if ran is None else ran

    def filled(self, outs: Sequence[Any], begin: int) -> None:
        """Write zeros into rows of steps that do not run."""
        for to in (*outs[: self.outputs], *outs[self.outputs + self.states :][: self.states * self.saves]):
            to[begin:] = 0

    # --- gradients -----------------------------------------------------------------------------------------

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """A loop in the other direction."""
        visible, count = self.num_visible_outputs(), len(needed)
        ograds, inputs, outputs = values[:visible], values[visible : visible + count], values[visible + count :]
        if not self.saves:
            outputs = outputs_of(self.bind(**{**self.attrs, "saves": True}), inputs)
        return _gradient(self, needed, F, ograds, inputs, outputs[self.outputs + self.states :])


@register("hybrid.loop")
class Loop(_Steps):
    """The graph ``body``, once for each index of the first axis of the data

    See :class:`_Steps`. If it is ``counted``, then the last of what every step reads is the number of steps, a scalar
    of int64; the other rows of outputs are zeros.
    """

    data: int = attribute(doc="so many inputs, the first, have a row for each step", low=0)
    steps: Shape = attribute((), "the number of steps, where no data says it")
    backwards: bool = attribute(False, "begin with the last row")
    counted: bool = attribute(False, "the number of steps is an input")

    def rows_inside(self) -> int:
        """The body has a row of each data."""
        return self.data

    def num_samples(self) -> int:
        return self.counters * math.prod(self.steps)

    def count(self, shapes: Sequence[Shape]) -> int:
        """As the data says."""
        if not self.data:
            return math.prod(self.steps)
        counts = [shape[0] for shape in shapes[: self.data] if shape]
        if len(counts) < self.data or any(n != counts[0] for n in counts):
            raise ShapeError(f"loop: the first axes of data must have one size, got shapes {shapes[: self.data]}")
        return counts[0]

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """Run the step once for each row."""
        count = self.count([x.shape for x in arrays])
        if self.counted:
            count = int(split_key(self, arrays)[0][-1])
            self.filled(outs, count)
        self.run(outs, arrays, count)


@register("hybrid.while_loop")
class WhileLoop(_Steps):
    """The graph ``body``, as long as the result of the graph ``condition`` is not zero, at most ``most`` times

    See :class:`_Steps`; there is no data. The condition has the same arguments as the body. Rows of outputs of steps
    that were not run are zeros. The last hidden result is the number of steps.
    """

    condition: Body = attribute(doc="the graph whose result decides")
    most: int = attribute(doc="the most steps", low=0)

    def count(self, shapes: Sequence[Shape]) -> int:
        """At most."""
        return self.most

    def num_samples(self) -> int:
        return self.counters * self.most

    def num_outputs(self) -> int:
        return super().num_outputs() + 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """And the number of steps."""
        ins, outs = super().infer_shape(shapes)
        return ins, [*outs, ()]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """And the number of steps."""
        ins, outs = super().infer_type(dtypes)
        return ins, [*outs, _COUNT]

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """Run the step while the condition holds."""
        ask = self.compiled(self.condition, [x.shape for x in arrays], [x.dtype for x in arrays])
        ran = self.run(outs, arrays, self.most, ask)
        self.filled(outs, ran)
        outs[-1][...] = ran


def _run(step: Any, steps: Steps) -> int:
    """Run a step for each row, called from Python."""
    states, ran = list(steps.states), 0
    for i in reversed(range(steps.count)) if steps.backwards else range(steps.count):
        keys: list[Any] = []
        if steps.key is not None:
            seed, counter = (int(n) for n in steps.key)
            keys = [np.array([seed, (counter + i * steps.key_step) % 2**64], np.uint64)]
        if steps.condition is not None and not steps.condition(*states, *steps.read, *keys)[0].any():
            break
        for to, state in zip(steps.saved, states, strict=False):
            to[i] = state
        results = step(*[x[i, ...] for x in steps.data], *states, *steps.read, *keys)
        for to, row in zip(steps.outputs, results, strict=False):
            to[i] = row
        states = results[len(steps.outputs) :]
        ran += 1
    for to, state in zip(steps.last, states, strict=True):
        np.copyto(to, state)
    return ran


def _gradient(
    loop: _Steps, needed: Sequence[bool], F: Any, ograds: Sequence[Any], inputs: Sequence[Any], saved: Sequence[Any]
) -> list[Any]:
    """The gradients of the inputs of a loop, None where none is needed, by another loop.

    Its step has a row of the data, of the states before it and of the gradients of the outputs; its states are the
    gradients of the states after it, and the sums of the gradients of what all steps read.
    """
    data, states = loop.rows_inside(), loop.states
    first = data + states  # of what all steps read
    given, keys = split_key(loop, inputs)
    saved, count = list(saved[:states]), list(saved[states:])
    rows = [i for i in range(data) if needed[i]]
    kept = [i for i in range(states) if is_float(np.dtype(saved[i].dtype))]  # states with gradients
    sums = [i for i in range(first, len(given)) if needed[i]]
    heads = [i for i in range(loop.outputs) if is_float(np.dtype(ograds[i].dtype)) and not is_zeros(ograds[i])]
    # A gradient of a saved state, of a gradient of this loop, is one more of that state.
    more = [i for i in kept if loop.saves and not is_zeros(ograds[loop.outputs + states + i])]
    each = [*given[:data], *saved, *[ograds[i] for i in heads], *[ograds[loop.outputs + states + i] for i in more]]
    carried = [*[ograds[loop.outputs + i] for i in kept], *[F.zeros_like(given[i]) for i in sums]]
    every = [*given[first:], *count]
    arguments = [(x.shape[1:], x.dtype) for x in each]
    arguments += [(x.shape, x.dtype) for x in (*carried, *every, *keys)]
    # The places of all these among the arguments of the step.
    places: list[int | None] = [None] * (loop.outputs + states)
    for number, i in enumerate(heads):
        places[i] = first + number
    for number, i in enumerate(kept):
        places[loop.outputs + i] = len(each) + number
    totals = {data + i: first + len(heads) + number for number, i in enumerate(more)}
    totals |= {i: len(each) + len(kept) + number for number, i in enumerate(sums)}
    begin = len(each) + len(carried)
    of_body = [
        *range(first),
        *range(begin, begin + len(given) - first),
        *range(len(arguments) - len(keys), len(arguments)),
    ]
    wanted = {*rows, *[data + i for i in kept], *sums}
    body = gradient_body(
        loop.body, arguments, places, of_body, [i in wanted for i in range(len(inputs))],
        [totals.get(i) for i in range(len(given))],
    )  # fmt: skip
    made = Loop.bind(
        body=body, data=len(each), states=len(carried), steps=() if each else (loop.count([x.shape for x in given]),),
        backwards=not loop.backwards, counted=loop.counted or bool(count), counters=loop.counters, draw=loop.draw,
    )  # fmt: skip
    found = iter(outputs_of(made, [*each, *carried, *every, *keys]))
    grads: list[Any] = [None] * len(given)
    for i in (*rows, *[data + i for i in kept], *sums):
        grad = next(found)
        grads[i] = grad if needed[i] else None
    return grads
