"""``hybrid.loop``: a graph that runs once for each index of an axis, with states carried from step to step.

A host call: it runs the compiled graph of one step, which is the same for every number of steps. The gradient is a loop
in the other direction, over the saved states, which sums up the gradients of what all steps read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from hybridc.dialects.body import Body
from hybridc.dialects.derived import outputs_of
from hybridc.dialects.operator import Opaque, Operator, register
from hybridc.dialects.operator_attribute import DType, Shape, attribute
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError, ShapeError
from hybridc.ground.hooks import HOOKS

_KEY = np.dtype(np.uint64)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
    """Raises: only traced loops make this operator."""
    raise MXNetError("hybrid.loop cannot be made directly; use contrib.foreach in a hybridized block")


@register("hybrid.loop")
class Loop(Opaque):
    """The graph ``body``, once for each index of the first axis of some inputs

    Inputs are the ``data``, whose first axes are the steps, ``states``, and what every step reads. The arguments of the
    body are a row of each data, the states before the step, and the rest; its results are a row of each output, and the
    states after it. Results are the outputs, stacked, and the last states; if it ``saves``, then hidden ones are the
    states before each step, stacked.
    """

    INPUTS = ("data",)
    VARIADIC = True
    SAME_DTYPE = False

    body: Body = attribute(doc="the graph of a step")
    data: int = attribute(doc="so many inputs, the first, have a row for each step", low=0)
    states: int = attribute(doc="so many inputs, which follow, are states", low=0)
    steps: Shape = attribute((), "the number of steps, where no data says it")
    backwards: bool = attribute(False, "begin with the last row")
    saves: bool = attribute(False, "return the states before each step")
    counters: int = attribute(0, "internal: the counters that a step takes from the random key, its last argument")
    draw: int = attribute(0, "internal: the first of these counters")

    outputs: int  # results of the body that are stacked

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd.loop`` says what to use instead."""
        return _refuse

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """Not cached, which would keep the graph of every use alive."""
        return cls._parse(values)

    def __repr__(self) -> str:
        inside = ", ".join(step.op.title() for step in self.body.operators())
        return f"{self.NAME}({inside})"

    def check(self) -> None:
        """Only traced loops make this operator."""
        given: Any = self.body
        if not isinstance(given, Body):
            _refuse()
        self.outputs = len(self.body.results) - self.states
        self.graphs: dict[Any, Any] = {}  # the compiled step, by shapes and dtypes
        if self.counters:  # of these attributes, not of the class
            self.__dict__["DRAWS"] = True

    # --- inference -----------------------------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        """Data, states, what all steps read, the random key."""
        return tuple(f"input{i}" for i in range(self.body.arguments))

    def num_outputs(self) -> int:
        return self.outputs + self.states * (1 + self.saves)

    def num_visible_outputs(self) -> int:
        """Outputs and states."""
        return self.outputs + self.states

    def rows_inside(self) -> int:
        """The body has a row of each data."""
        return self.data

    def num_samples(self) -> int:
        return self.counters * math.prod(self.steps)

    def count(self, shapes: Sequence[Shape]) -> int:
        """The number of steps."""
        if not self.data:
            return math.prod(self.steps)
        counts = [shape[0] for shape in shapes[: self.data] if shape]
        if len(counts) < self.data or any(n != counts[0] for n in counts):
            raise ShapeError(f"loop: the first axes of data must have one size, got shapes {shapes[: self.data]}")
        return counts[0]

    def row_shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes of the arguments of the body."""
        return [*[shape[1:] for shape in shapes[: self.data]], *shapes[self.data :]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """By inference of the body."""
        n = self.count(shapes)
        ins, outs = self.body.infer_shape(self.row_shapes(shapes))
        before, after = ins[self.data :][: self.states], outs[self.outputs :]
        if before != after:
            raise ShapeError(f"loop: the states must keep their shapes, {before} before a step and {after} after it")
        given = [*[(n, *s) for s in ins[: self.data]], *ins[self.data :]]
        stacked = [(n, *s) for s in outs[: self.outputs]]
        return given, [*stacked, *after, *[(n, *s) for s in before if self.saves]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """By inference of the body."""
        ins, outs = self.body.infer_type(dtypes)
        return ins, [*outs, *[d for d in ins[self.data :][: self.states] if self.saves]]

    # --- running -------------------------------------------------------------------------------------------

    def eager(self, *arrays: Any) -> Any:
        """The results in new arrays."""
        shapes = self.infer_shape([x.shape for x in arrays])[1]
        dtypes = self.infer_type([x.dtype for x in arrays])[1]
        outs = [np.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.eager_out(outs, *arrays)
        return tuple(outs) if len(outs) > 1 else outs[0]

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """Run the step once for each row."""
        data, rest = list(arrays[: self.data]), list(arrays[self.data :])
        states, read = rest[: self.states], rest[self.states :]
        stacked, last = outs[: self.outputs], outs[self.outputs :][: self.states]
        saved = outs[self.outputs + self.states :]
        count = self.count([x.shape for x in arrays])
        key = read.pop() if self.counters else None
        run = self._step(arrays)
        for i in reversed(range(count)) if self.backwards else range(count):
            for to, state in zip(saved, states, strict=False):
                to[i] = state
            keys = [] if key is None else [self._key(key, i)]
            results = run(*[x[i, ...] for x in data], *states, *read, *keys)
            for to, row in zip(stacked, results, strict=False):
                to[i] = row
            states = results[self.outputs :]
        for to, state in zip(last, states, strict=True):
            np.copyto(to, state)

    def _key(self, key: Any, step: int) -> Any:
        """The random key of a step."""
        seed, counter = (int(n) for n in key)
        return np.array([seed, (counter + self.draw + step * self.counters) % 2**64], np.uint64)

    def _step(self, arrays: Sequence[Any]) -> Callable[..., Sequence[Any]]:
        """The compiled graph of a step, as a function of arrays."""
        kinds = tuple((s, x.dtype) for s, x in zip(self.row_shapes([x.shape for x in arrays]), arrays, strict=True))
        if kinds not in self.graphs:
            names = self.input_names()
            trace = self.body.trace(names, [s for s, _ in kinds], [d for _, d in kinds], False)
            self.graphs[kinds] = HOOKS.compile(trace)
        return self.graphs[kinds].forward

    # --- gradients -----------------------------------------------------------------------------------------

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """A loop in the other direction."""
        visible, count = self.num_visible_outputs(), len(needed)
        ograds, inputs = values[:visible], list(values[visible : visible + count])
        saved = list(values[visible + count + visible :])
        if not self.saves:
            saved = outputs_of(self.bind(**{**self.attrs, "saves": True}), inputs)[visible:]
        return _Gradient(self, needed, F).of(ograds, inputs, saved)


class _Gradient:
    """Makes the loop that computes the gradients of a loop.

    A step has a row of the data, of the states before it and of the gradients of the outputs; its states are the
    gradients of the states after it, and the sums of the gradients of what all steps read.
    """

    def __init__(self, loop: Loop, needed: Sequence[bool], F: Any) -> None:
        self.loop = loop
        self.needed = list(needed)
        self.F = F

    def of(self, ograds: Sequence[Any], inputs: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
        """The gradients of the inputs; None where none is needed."""
        loop, F = self.loop, self.F
        data, states = loop.data, loop.states
        first = data + states  # of what all steps read
        read = list(inputs[first : len(inputs) - bool(loop.counters)])
        kept = [i for i, s in enumerate(saved) if is_float(np.dtype(s.dtype))]  # states with gradients
        rows = [i for i in range(data) if self.needed[i]]
        sums = [i for i in range(len(read)) if self.needed[first + i]]
        heads = [i for i in range(loop.outputs) if is_float(np.dtype(ograds[i].dtype))]
        out_grads, state_grads = [ograds[i] for i in heads], [ograds[loop.outputs + i] for i in kept]
        zeros = [F.zeros_like(read[i]) for i in sums]
        each = [*inputs[:data], *saved, *out_grads]
        carried = [*state_grads, *zeros]
        body = self._body([*each, *carried, *read], len(each), len(out_grads), (heads, kept, rows, sums))
        made = loop.bind(
            body=body, data=len(each), states=len(carried), steps=loop.steps, backwards=not loop.backwards,
            counters=loop.counters, draw=loop.draw,
        )  # fmt: skip
        keys = inputs[len(inputs) - bool(loop.counters) :]
        found = outputs_of(made, [*each, *carried, *read, *keys])
        grads: list[Any] = [None] * (len(inputs) - bool(loop.counters))
        for i, grad in zip(rows, found, strict=False):
            grads[i] = grad
        for i, grad in zip(kept, found[len(rows) :], strict=False):
            grads[data + i] = grad if self.needed[data + i] else None
        for i, grad in zip(sums, found[len(rows) + len(kept) :], strict=False):
            grads[first + i] = grad
        return grads

    def _body(self, values: Sequence[Any], each: int, heads: int, chosen: tuple[list[int], ...]) -> Body:
        """The graph of a step of the gradient."""
        loop = self.loop
        of_outputs, kept, rows, sums = chosen
        trace = HOOKS.new_trace(False)
        trace.track_locations = False
        leaves = [
            trace.leaf(f"x{i}", x.shape[1:] if i < each else x.shape, x.dtype, "value") for i, x in enumerate(values)
        ]
        keys = [trace.leaf("key", (2,), _KEY, "value")] if loop.counters else []
        data, states = loop.data, loop.states
        row = leaves[: each - heads]
        out_grads = leaves[each - heads : each]
        state_grads = leaves[each : each + len(kept)]
        totals = leaves[each + len(kept) : each + len(kept) + len(sums)]
        read = leaves[each + len(kept) + len(sums) :]
        ograds: list[Any] = [None] * (loop.outputs + states)
        for i, grad in zip(of_outputs, out_grads, strict=True):
            ograds[i] = grad
        for i, grad in zip(kept, state_grads, strict=True):
            ograds[loop.outputs + i] = grad
        needed = [*[i in rows for i in range(data)], *[i in kept for i in range(states)]]
        needed += [*[i in sums for i in range(len(read))], *[False] * len(keys)]
        F = HOOKS.symbols()
        with trace.active():
            grads = loop.body.gradients(F, ograds, [*row, *read, *keys], needed)
            grads = [
                F.zeros(shape=x.shape, dtype=x.dtype) if n and g is None else g
                for n, g, x in zip(needed, grads, [*row, *read, *keys], strict=True)
            ]
            of_rows = [grads[i] for i in rows]
            of_states = [grads[data + i] for i in kept]
            of_sums = [total + grads[data + states + i] for i, total in zip(sums, totals, strict=True)]
        return trace.body([*leaves, *keys], [*of_rows, *of_states, *of_sums])
