"""Operators with graphs inside: branches and loops."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc.errors import OnnxUnsupportedError
from hybridc.ground.state import STATE
from hybridc.interchange.onnx.reading.model_graph import ModelGraph
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.walk_values import as_np, is_known, is_traced, lifted, numbers
from hybridc.nd.control_flow import cond, foreach, while_loop

#: Steps of a loop that a trace writes one after the other, whose states may change their shapes. A loop of more is one
#: loop of the program, which is compiled once for all steps.
MOST_STEPS = 256


def truth(value: Any) -> bool:
    """A condition whose number is known."""
    return bool(np.asarray(numbers(value, "a condition")).reshape(()))


@onnx_op("If", raw=True)
def branch(call: OnnxCall, condition: Any) -> Any:
    """One of two graphs: the other is not computed, unless the condition follows from inputs of a compiled graph."""
    graphs = call["then_branch"], call["else_branch"]
    if is_traced(condition):
        first, second = (functools.partial(_results, call, graph) for graph in graphs)
        chosen = cond(lifted(condition).reshape((1,)), first, second)
        return tuple(chosen) if isinstance(chosen, list | tuple) else (chosen,)
    return tuple(call.runner.graph(graphs[0] if truth(condition) else graphs[1], []))


def _results(call: OnnxCall, graph: ModelGraph) -> list[Any]:
    return _arrays(call.runner.graph(graph, []))


def _arrays(values: list[Any]) -> list[Any]:
    return [lifted(x) for x in values]


@onnx_op("Loop", raw=True, known=(0,))
def loop(call: OnnxCall, most: Any, condition: Any, *states: Any) -> Any:
    """A graph again and again, while a condition holds, at most so many times; its further results are stacked."""
    body: ModelGraph = call["body"]
    limit = None if most is None else int(np.asarray(numbers(most, "the number of steps")).reshape(()))
    count = len(states)
    if is_traced(condition):
        return _while(call, body, limit, condition, list(states))
    if limit is not None and limit > MOST_STEPS and STATE.trace is not None:
        return _counted(call, limit, list(states))
    rows: list[list[Any]] = []
    now, step = list(states), 0
    goes_on = True if condition is None else truth(condition)
    while goes_on and (limit is None or step < limit):
        test, *results = call.runner.graph(body, [np.array(step, np.int64), np.array(True), *now])
        if is_traced(test):
            if step:
                raise OnnxUnsupportedError(f"the condition of {call.node} follows from values after {step} steps alone")
            return _while(call, body, limit, np.array(True), list(states))
        now, step = results[:count], step + 1
        rows.append(results[count:])
        goes_on = truth(test)
        if step > MOST_STEPS and is_traced(now):
            raise OnnxUnsupportedError(f"{call.node} has no bound, and runs more than {MOST_STEPS} steps when compiled")
    return *now, *(_stacked(list(column)) for column in _columns(rows, len(body.outputs) - 1 - count, body, count))


def _columns(rows: list[list[Any]], width: int, body: ModelGraph, count: int) -> list[Any]:
    if rows:
        return [*zip(*rows, strict=True)]
    empty = body.outputs[1 + count : 1 + count + width]
    return [
        [np.zeros((0, *(n if isinstance(n, int) else 0 for n in x.sizes or ())), x.dtype or np.float32)] for x in empty
    ]


def _stacked(values: list[Any]) -> Any:
    if len(values) == 1 and isinstance(values[0], np.ndarray) and values[0].shape[:1] == (0,):
        return values[0]
    if is_known(values):
        return np.stack(values)
    return mnp.stack([lifted(x) for x in values], 0)


def _counted(call: OnnxCall, count: int, states: list[Any]) -> Any:
    """A loop of many steps, in a compiled graph: no condition may end it before."""

    def step(row: Any, now: Any) -> Any:
        entered = [mnp.reshape(as_np(row[0]), ()), np.array(True), *map(as_np, now)]
        test, *results = call.runner.graph(call["body"], entered)
        if is_traced(test) or not truth(test):
            raise OnnxUnsupportedError(
                f"{call.node} may end before its {count} steps: compiled, it may have {MOST_STEPS} steps at most"
            )
        values = _arrays(results)
        return values[len(states) :], values[: len(states)]

    stacks, last = foreach(step, [lifted(np.arange(count)[:, None])], _arrays(states))
    return *last, *stacks


def _while(call: OnnxCall, body: ModelGraph, limit: int | None, condition: Any, states: list[Any]) -> Any:
    """A loop whose condition follows from values, in a compiled graph: it has a bound, and no stacked results."""
    if limit is None or len(body.outputs) > 1 + len(states):
        raise OnnxUnsupportedError(
            f"the number of steps of {call.node} follows from values: compiled, it needs a bound and no stacked results"
        )
    first = [lifted(np.zeros(1, np.int64)), lifted(condition).reshape((1,)).astype("int32"), *_arrays(states)]

    def step(i: Any, _: Any, *now: Any) -> Any:
        entered = [mnp.reshape(as_np(i), ()), np.array(True), *map(as_np, now)]
        test, *after = call.runner.graph(body, entered)
        return [], [as_np(i) + 1, lifted(test).reshape((1,)).astype("int32"), *_arrays(after)]

    _, last = while_loop(lambda *now: now[1], step, first, limit)
    return tuple(last[2:])


@onnx_op("Scan", raw=True, since=9)
def scan(call: OnnxCall, *inputs: Any) -> Any:
    """A graph for each index of an axis of the inputs; states go from one step to the next."""
    count, width = _states_and_rows(call, len(inputs))
    axes = call["scan_input_axes"] or (0,) * width
    back = call["scan_input_directions"] or (0,) * width
    rows = [mnp.moveaxis(lifted(x), a, 0) for x, a in zip(inputs[count:], axes)]
    rows = [mnp.flip(x, 0) if b else x for x, b in zip(rows, back)]
    states, stacks = _scanned(call, list(map(lifted, inputs[:count])), rows)
    axes = call["scan_output_axes"] or (0,) * len(stacks)
    back = call["scan_output_directions"] or (0,) * len(stacks)
    stacks = [mnp.flip(y, 0) if b else y for y, b in zip(stacks, back)]
    return *states, *(mnp.moveaxis(y, 0, a) for y, a in zip(stacks, axes))


@onnx_op("Scan", raw=True)
def batched_scan(call: OnnxCall, lengths: Any, *inputs: Any) -> Any:
    """As operator set 8 has it: for each example of a batch, along the second axis."""
    if lengths is not None:
        raise OnnxUnsupportedError(f"{call.node} has lengths of sequences, which are not read; leave them out")
    count, width = _states_and_rows(call, len(inputs))
    back = call["directions"] or (0,) * width
    made: list[list[Any]] = []
    for i in range(inputs[0].shape[0]):
        rows = [mnp.flip(lifted(x)[i], 0) if b else lifted(x)[i] for x, b in zip(inputs[count:], back)]
        states, stacks = _scanned(call, [lifted(x)[i] for x in inputs[:count]], rows)
        made.append([*states, *stacks])
    return tuple(mnp.stack(list(column), 0) for column in zip(*made, strict=True))


def _states_and_rows(call: OnnxCall, count: int) -> tuple[int, int]:
    """How many inputs of a scan are states, and how many go by rows."""
    width = call["num_scan_inputs"]
    if not 1 <= width <= count:
        raise call.refuse(f"num_scan_inputs={width}, of {count} inputs")
    return count - width, width


def _scanned(call: OnnxCall, states: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """The last states and the stacked results of a loop over the first axis."""

    def step(row: Any, now: Any) -> Any:
        results = _arrays(call.runner.graph(call["body"], [*now, *row]))
        return results[len(states) :], results[: len(states)]

    stacks, last = foreach(step, rows, states)
    return list(last), list(stacks)


@onnx_op("SequenceMap", raw=True)
def sequence_map(call: OnnxCall, first: Any, *more: Any) -> Any:
    """A graph for each element of a sequence."""
    results = [
        call.runner.graph(call["body"], [x, *(m[i] if isinstance(m, list) else m for m in more)])
        for i, x in enumerate(first)
    ]
    width = len(call["body"].outputs)
    return tuple([row[i] for row in results] for i in range(width))
