"""Loops: a graph that runs several times, with states carried from step to step.

The graph of one step is compiled, and is the same for every number of steps. A target may run all steps at once, or a
host call runs one after the other. The gradient is a loop in the other direction, over the saved states, which sums up
the gradients of what all steps read.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.creation_ops import is_zeros
from hybridc.dialects.body import Body
from hybridc.dialects.control.inner_graph import InnerGraphs, new_trace, recorded_gradients, split_key
from hybridc.dialects.control.loop_steps import CompiledLoop, advanced
from hybridc.dialects.derived import outputs_of
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.interchange import NestedGraph
from hybridc.dialects.operator import Operator, invoke_bound, register
from hybridc.dialects.operator_attribute import DType, Shape, attribute
from hybridc.dtypes import is_float
from hybridc.errors import ShapeError

_COUNT = np.dtype(np.int64)


class _Iterated(InnerGraphs):
    """Steps of the graph ``body``.

    Inputs are ``data``, with a row for each step, states, and what every step reads; of these, the arguments of the
    body are a row of the data, and the rest. Its results are a row of each output, and the next states. Results are the
    outputs, stacked, and the last states, then, if it ``saves``, the states before each step, stacked.
    """

    body: Body = attribute(doc="the graph of a step")
    states: int = attribute(doc="so many inputs, after the data, are states", low=0)
    saves: bool = attribute(False, "return the states before each step")
    residuals: int = attribute(0, "internal: so many outputs, the last, are values that the gradient reads", low=0)
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
        ins, outs = self.inferring(self.body).infer_shape(self.row_shapes(shapes))
        before, after = [ins[i] for i in self.state_inputs()], outs[self.outputs :]
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
        ins, outs = self.inferring(self.body).infer_type(dtypes)
        return ins, [*outs, *[ins[i] for i in self.state_inputs() if self.saves]]

    def state_inputs(self) -> Sequence[int]:
        """Which inputs are the states."""
        return range(self.rows_inside(), self.rows_inside() + self.states)

    def complete_arguments(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """By inference of the graphs; states have one shape before and after a step."""
        data, places = self.rows_inside(), self.state_inputs()
        stacked = [*shapes[:data], *outputs[: self.outputs]]
        rows = [shape[1:] if shape else None for shape in stacked]
        count = next((shape[0] for shape in stacked if shape and shape[0] != -1), -1)
        last = outputs[self.outputs :][: self.states]
        known = [*rows[:data], *shapes[data:]]
        after = [*rows[data:], *[None] * (self.outputs - len(rows[data:])), *last, *[None] * (self.states - len(last))]
        for body in (self.body, *[body for body in self.bodies() if body is not self.body], self.body):
            for i, place in enumerate(places, self.outputs):
                known[place] = after[i] = _more_known(known[place], after[i])
            known, results = self.body_shapes(body, known, after if body is self.body else [None])
            after = results if body is self.body else after
        for i, place in enumerate(places, self.outputs):
            known[place] = _more_known(known[place], after[i])
        return [*[None if shape is None else (count, *shape) for shape in known[:data]], *known[data:]]

    # --- in composed symbols -------------------------------------------------------------------------------

    def undecided(self) -> Operator:
        return self.bind(**{**self.attrs, "saves": False})

    def to_nnvm(self) -> dict[str, Any]:
        return {"num_out_data": self.outputs, "num_outputs": self.outputs + self.states}

    def fixed(self) -> range:
        """The inputs that every step reads."""
        return range(self.rows_inside() + self.states, self.body.arguments - bool(self.counters))

    # --- running -------------------------------------------------------------------------------------------

    def run(self, outs: Sequence[Any], arrays: Sequence[Any], count: int, condition: Any = None) -> int:
        """Run at most so many steps, while the condition holds, and write outputs and states; the number of steps."""
        first = self.rows_inside() + self.states
        data, states = arrays[: self.rows_inside()], list(arrays[self.rows_inside() : first])
        read, keys = split_key(self, arrays[first:])
        begin = [self.first_key(key) for key in keys]
        stacked, last = outs[: self.outputs], outs[self.outputs :][: self.states]
        saved = outs[self.outputs + self.states :][: self.states * self.saves]
        shapes, dtypes = [x.shape for x in arrays], [x.dtype for x in arrays]
        step = self.compiled(self.body, self.row_shapes(shapes), dtypes, self.fixed())
        ran = 0
        for i in reversed(range(count)) if self.backwards else range(count):
            now = [advanced(key, i * self.counters) for key in begin]
            if condition is not None and not condition(*states, *read, *now)[0].any():
                break
            for to, state in zip(saved, states, strict=False):
                to[i] = state
            results = step(*[x[i, ...] for x in data], *states, *read, *now)
            for to, row in zip(stacked, results, strict=False):
                to[i] = row
            states = results[self.outputs :]
            ran += 1
        for to, state in zip(last, states, strict=True):
            np.copyto(to, state)
        return ran

    def compiled_loops(self, ins: Sequence[ArraySpec]) -> list[CompiledLoop]:
        shapes, dtypes = [x.shape for x in ins], [x.dtype for x in ins]
        step = self.compiled_graph(self.body, self.row_shapes(shapes), dtypes, self.fixed())
        made = CompiledLoop(
            step, self.compiled_condition(shapes, dtypes), self.count(shapes), self.counted, self.backwards,
            self.rows_inside(), self.states, self.outputs, self.states * self.saves,
            self.num_outputs() > self.num_visible_outputs(), bool(self.counters), self.draw, self.counters,
        )  # fmt: skip
        return [made]

    def compiled_condition(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> Any:
        """The compiled graph that is asked before each step; None if there is none."""
        return None

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
        return _gradient(self, needed, F, ograds, inputs, outputs)


@register("hybrid.loop")
class ForLoop(_Iterated):
    """The graph ``body``, once for each index of the first axis of the data

    See :class:`_Iterated`. If it is ``counted``, then the last of what every step reads is the number of steps, a
    scalar of int64; the other rows of outputs are zeros.
    """

    NNVM = "_foreach"
    NNVM_COUNT = "num_args"

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

    def call(self, F: Any, graphs: Sequence[Callable[..., list[Any]]], *inputs: Any) -> list[Any]:
        """``F.contrib.foreach``."""
        first = self.data + self.states

        def step(row: list[Any], states: list[Any]) -> tuple[list[Any], list[Any]]:
            found = graphs[0](*row, *states, *inputs[first:])
            return found[: self.outputs], found[self.outputs :]

        outputs, last = F.contrib.foreach(step, [*inputs[: self.data]], [*inputs[self.data : first]])
        return [*outputs, *last]

    def nnvm_graphs(self, inputs: Sequence[str]) -> list[NestedGraph]:
        """The graph of a step; its arguments are named as MXNet does."""
        first = self.data + self.states
        names = [*[f"{name}-0" for name in inputs[:first]], *inputs[first:]]
        return [NestedGraph(self.body, names, self.outputs + self.states, range(len(names)), apart=True)]

    def nnvm_places(self, orders: Sequence[Sequence[int]]) -> dict[str, Any]:
        places = [list(orders[0]).index(i) for i in range(len(orders[0]))]
        first = self.data + self.states
        return {
            "in_data_locs": places[: self.data],
            "in_state_locs": places[self.data : first],
            "remain_locs": places[first:],
        }

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """Run the step once for each row."""
        count = self.count([x.shape for x in arrays])
        if self.counted:
            count = int(split_key(self, arrays)[0][-1])
            self.filled(outs, count)
        self.run(outs, arrays, count)


@register("hybrid.while_loop")
class WhileLoop(_Iterated):
    """The graph ``body``, as long as the result of the graph ``condition`` is not zero, at most ``most`` times

    See :class:`_Iterated`; there is no data. The condition has the same arguments as the body. Rows of outputs of steps
    that were not run are zeros. The last hidden result is the number of steps.
    """

    NNVM = "_while_loop"
    NNVM_COUNT = "num_args"

    condition: Body = attribute(doc="the graph whose result decides")
    most: int = attribute(doc="the most steps", low=0)
    places: Shape = attribute((), "which inputs are the states, in a composed symbol; () for the first ones")

    def count(self, shapes: Sequence[Shape]) -> int:
        """The most steps: so many rows the outputs have."""
        return self.most

    def num_samples(self) -> int:
        return self.counters * self.most

    def state_inputs(self) -> Sequence[int]:
        """MXNet lists inputs in the order in which the graphs use them, which need not be states first."""
        return self.places or super().state_inputs()

    def call(self, F: Any, graphs: Sequence[Callable[..., list[Any]]], *inputs: Any) -> list[Any]:
        """``F.contrib.while_loop``; outputs are zeros if no step is run."""
        step, condition = graphs
        places = self.state_inputs()

        def given(*states: Any) -> list[Any]:
            values = list(inputs)
            for place, state in zip(places, states, strict=True):
                values[place] = state
            return values

        def asked(*states: Any) -> Any:
            return condition(*given(*states))[0]

        def func(*states: Any) -> tuple[list[Any], list[Any]]:
            found = step(*given(*states))
            return found[: self.outputs], found[self.outputs :]

        outputs, last = F.contrib.while_loop(asked, func, [inputs[i] for i in places], self.most)
        if not outputs:
            keys = self.body.arguments - len(inputs)
            shapes = self.infer_shape([*[x.shape for x in inputs], *[(2,)] * keys])[1]
            dtypes = self.infer_type([*[np.dtype(x.dtype) for x in inputs], *[np.dtype(np.uint64)] * keys])[1]
            found = zip(shapes[: self.outputs], dtypes, strict=False)
            outputs = [F.zeros(shape=shape, dtype=dtype) for shape, dtype in found]
        return [*outputs, *last]

    def to_nnvm(self) -> dict[str, Any]:
        return {**super().to_nnvm(), "max_iterations": self.most}

    def nnvm_graphs(self, inputs: Sequence[str]) -> list[NestedGraph]:
        """The graph of the condition and that of a step."""
        states = set(self.state_inputs())
        names = [f"{name}-0" if i in states else name for i, name in enumerate(inputs)]
        step = NestedGraph(self.body, names, self.outputs + self.states, sorted(states), apart=True)
        return [NestedGraph(self.condition, names, 1, apart=True), step]

    def nnvm_places(self, orders: Sequence[Sequence[int]]) -> dict[str, Any]:
        condition, step = map(list, orders)
        return {
            "cond_input_locs": condition,
            "func_input_locs": step,
            "func_var_locs": [step.index(i) for i in self.state_inputs()],
        }

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

    def compiled_condition(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> Any:
        """The graph ``condition``."""
        return self.compiled_graph(self.condition, shapes, dtypes, self.fixed())

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """Run the step while the condition holds."""
        ask = self.compiled_condition([x.shape for x in arrays], [x.dtype for x in arrays])
        ran = self.run(outs, arrays, self.most, ask.forward)
        self.filled(outs, ran)
        outs[-1][...] = ran


def _more_known(shape: Shape | None, other: Shape | None) -> Shape | None:
    """A shape with the sizes that either of two partly known ones has, else -1; conflicts are left to inference."""
    if shape is None or other is None or len(shape) != len(other):
        return other if shape is None else shape
    return tuple(m if n == -1 else n for n, m in zip(shape, other, strict=True))


# --- gradients --------------------------------------------------------------------------------------------------------


def _gradient(
    loop: _Iterated,
    needed: Sequence[bool],
    F: Any,
    ograds: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
) -> list[Any]:
    """The gradients of the inputs of a loop, None where none is needed, by another loop.

    Its step has a row of the data, of the states before it, of the gradients of the outputs and of the residuals; its
    states are the gradients of the states after it, and the sums of the gradients of what all steps read. Where these
    are sums of matmuls, it gives their factors instead: one matmul after the loop is as good as one in each step, and
    faster.
    """
    data, states = loop.rows_inside(), loop.states
    first = data + states  # of what all steps read
    given, keys = split_key(loop, inputs)
    saved = outputs[loop.outputs + states :]
    before, count = list(saved[:states]), list(saved[states:])
    computed = range(loop.outputs - loop.residuals, loop.outputs)  # the residuals among the outputs
    rows = [i for i in range(data) if needed[i]]
    kept = [i for i in range(states) if is_float(np.dtype(before[i].dtype))]  # states with gradients
    sums = [i for i in range(first, len(given)) if needed[i]]
    heads = [i for i in range(loop.outputs) if is_float(np.dtype(ograds[i].dtype)) and not is_zeros(ograds[i])]
    # A gradient of a saved state, of a gradient of this loop, is one more of that state.
    more = [i for i in kept if loop.saves and not is_zeros(ograds[loop.outputs + states + i])]
    of_saved = [ograds[loop.outputs + states + i] for i in more]

    # The graph of a step.
    trace = new_trace()
    each = [*given[:data], *before, *[ograds[i] for i in heads], *of_saved, *[outputs[i] for i in computed]]
    each_leaf = [trace.leaf(f"each{i}", x.shape[1:], x.dtype, "value") for i, x in enumerate(each)]
    grads_after = [ograds[loop.outputs + i] for i in kept]
    after_leaf = [trace.leaf(f"grad{i}", x.shape, x.dtype, "value") for i, x in enumerate(grads_after)]
    read = [*given[first:], *count]
    read_leaf = [trace.leaf(f"read{i}", x.shape, x.dtype, "value") for i, x in enumerate(read)]
    key_leaf = [trace.leaf("key", key.shape, key.dtype, "value") for key in keys]
    of_results: list[Any] = [None] * (loop.outputs + states)
    for i, leaf in zip(heads, each_leaf[first:], strict=False):
        of_results[i] = leaf
    for i, leaf in zip(kept, after_leaf, strict=True):
        of_results[loop.outputs + i] = leaf
    wanted = {*rows, *[data + i for i in kept], *sums}
    arguments = [*each_leaf[:first], *read_leaf[: len(given) - first], *key_leaf]
    residuals = {loop.body.results[i]: x for i, x in zip(computed, each_leaf[-len(computed) :], strict=False)}
    needed_inside = [i in wanted for i in range(len(inputs))]
    grads = recorded_gradients(trace, loop.body, of_results, arguments, needed_inside, residuals)
    with trace.active():
        for i, leaf in zip(more, each_leaf[first + len(heads) :], strict=False):
            grads[data + i] = grads[data + i] + leaf
    later = _Later([grads[i] for i in sums])
    adding = [i for i, plan in zip(sums, later.plans, strict=True) if plan is None]
    totals = [trace.leaf(f"total{i}", given[i].shape, given[i].dtype, "value") for i in adding]
    with trace.active():
        added = [total + grads[i] for i, total in zip(adding, totals, strict=True)]
    factors = [s for s in later.rows if all(s is not leaf for leaf in each_leaf)]
    results = [*[grads[i] for i in rows], *factors, *[grads[data + i] for i in kept], *added]
    carried = [*grads_after, *[F.zeros_like(given[i]) for i in adding]]
    made = ForLoop.bind(
        body=trace.body([*each_leaf, *after_leaf, *totals, *read_leaf, *key_leaf], results),
        data=len(each), states=len(carried), steps=() if each else (loop.count([x.shape for x in given]),),
        backwards=not loop.backwards, counted=loop.counted or bool(count), counters=loop.counters, draw=loop.draw,
    )  # fmt: skip
    found = outputs_of(made, [*each, *carried, *read, *keys])

    # The results of the loop, and what follows from them.
    stacked = {id(leaf): x for leaf, x in zip(each_leaf, each, strict=True)}
    stacked |= {id(s): x for s, x in zip(factors, found[len(rows) :], strict=False)}
    ends = found[len(rows) + len(factors) :]
    of_input: list[Any] = [None] * len(given)
    for i, grad in zip([*rows, *[data + i for i in kept], *adding], [*found[: len(rows)], *ends], strict=False):
        of_input[i] = grad
    for i, plan in zip(sums, later.plans, strict=True):
        if plan is not None:
            of_input[i] = plan(F, lambda s: stacked[id(s)])
    return [grad if n else None for grad, n in zip(of_input, needed, strict=False)]


_Plan = Callable[[Any, Callable[[Any], Any]], Any]


class _Later:
    """Sums of symbols over the steps that are better computed after the loop: ``plans``, None for the others.

    A plan ``plan(F, stacked)`` gets the values of ``rows`` in all steps.
    """

    def __init__(self, symbols: Sequence[Any]) -> None:
        self._rows: dict[int, Any] = {}
        self.plans = [self._of_sums(s) for s in symbols]
        # What the others are sums of may be there already.
        self.plans = [self._of_rows(s) if p is None else p for s, p in zip(symbols, self.plans, strict=True)]

    @property
    def rows(self) -> list[Any]:
        """The symbols whose values in all steps the plans need."""
        return list(self._rows.values())

    def _of_sums(self, symbol: Any) -> _Plan | None:
        """By operators that have a better way to sum over rows."""
        if symbol.node is None or not symbol.node.op.sums_rows():
            return self._of_linear(symbol, self._of_sums)
        op: Any = symbol.node.op
        inputs: list[Any] = symbol.node.inputs
        self._rows |= {id(s): s for s in inputs}
        return lambda F, stacked: op.summed(F, *map(stacked, inputs))

    def _of_rows(self, symbol: Any) -> _Plan | None:
        """By the sums of rows that are needed anyhow."""
        if id(symbol) in self._rows:
            return lambda F, stacked: F.reshape_to(F.sum(stacked(symbol), axis=0, keepdims=True), shape=symbol.shape)
        return self._of_linear(symbol, self._of_rows)

    def _of_linear(self, symbol: Any, plan: Callable[[Any], _Plan | None]) -> _Plan | None:
        if symbol.node is None or not symbol.node.op.LINEAR:
            return None
        op, before = symbol.node.op, dict(self._rows)
        plans = [each for s in symbol.node.inputs if (each := plan(s)) is not None]
        if len(plans) < len(symbol.node.inputs):
            self._rows = before
            return None
        return lambda F, stacked: invoke_bound(op, *[each(F, stacked) for each in plans])
