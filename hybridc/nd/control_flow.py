"""Loops and branches over Python functions: ``mx.nd.contrib.foreach``, ``while_loop`` and ``cond``.

On arrays each step runs as its operators are called, and autograd records it like any other code. In a hybridized
block each is one operator, with its functions as graphs inside, which are traced once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from hybridc.array.autocast import AUTOCAST
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.dialects.array.shape_rules import agree
from hybridc.dialects.control.branch import Branch
from hybridc.dialects.control.loop import ForLoop, WhileLoop
from hybridc.dialects.error_context import raise_located
from hybridc.dialects.operator import invoke_bound
from hybridc.errors import (
    ArgumentTypeError,
    AttributeValueError,
    MXNetError,
    OneElementError,
    ShapeError,
    UnsupportedError,
)
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.location import user_location
from hybridc.ground.nesting import Structure, as_list, flatten, regroup
from hybridc.ground.records import dataclass
from hybridc.ground.state import STATE
from hybridc.trace.nested_trace import NestedTrace
from hybridc.trace.traced import Symbol, TracedSymbol
from hybridc.trace.tracer import Trace

__all__ = ["cond", "foreach", "while_loop"]

P = ParamSpec("P")
R = TypeVar("R")

_VALUES = (NDArray, Symbol)


def at_users_line(loop: Callable[P, R]) -> Callable[P, R]:
    """A function whose errors name the user's line."""

    @functools.wraps(loop)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return loop(*args, **kwargs)
        except MXNetError as error:
            raise_located(error, user_location())

    return call


@hides_frames
@at_users_line
def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """Call ``body(data[i], states)`` for each index of the first axis; it returns an output and the next states.

    Parameters
    ----------
    body:
        The function. The number of states, their shapes and dtypes stay the same.
    data:
        An array, or nested lists of arrays, all of the same first size.
    init_states:
        The states of the first step, an array or nested lists of arrays.
    name:
        What errors, and nodes of symbols, are called.

    Returns
    -------
    The outputs of all steps, stacked along a new first axis, and the last states.

    Examples
    --------
    >>> def add(x, total):
    ...     return x * 10, total + x
    >>> rows, total = mx.nd.contrib.foreach(add, mx.nd.array([1, 2, 3]), mx.nd.zeros(1))
    >>> rows.tolist(), total.tolist()
    ([[10.0], [20.0], [30.0]], [6.0])
    """
    given, states = _nested(data, f"{name}: data"), _nested(init_states, f"{name}: init_states")
    steps = _steps(name, given.arrays)
    trace = _trace()
    if trace is not None:
        return _recorded_foreach(trace, body, given, states, steps, name)
    now = states.arrays
    rows: list[list[Any]] = []
    made: _Nested | None = None
    # No step says what an output is like; one on zeros does.
    for i in range(max(steps, 1)):
        each = [x[i] for x in given.arrays] if steps else [_zeros_like_row(x) for x in given.arrays]
        out, after = pair(body(given.of(each), states.of(now)), f"{name}: body", "(outputs, states)")
        row = _nested(out, f"{name}: an output of body")
        if made is not None and row.structure != made.structure:
            raise MXNetError(
                f"{name}: outputs of body have structure {made.structure} in step 0 but {row.structure} in step {i}"
            )
        made = row
        rows.append(row.arrays)
        after = _next_states(name, "body", i, now, after)
        now = after if steps else now
    assert made is not None, "there is at least one step"
    stacked = [_stack(name, list(column)) for column in zip(*rows, strict=True)]
    return made.of(stacked if steps else [x[:0] for x in stacked]), states.of(now)


@hides_frames
@at_users_line
def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., tuple[Any, Any]],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> Any:
    """Call ``func(*loop_vars)`` while ``cond(*loop_vars)``; it returns an output of the step and the next variables.

    Parameters
    ----------
    cond:
        A function that gives a number, not zero to go on.
    func:
        The function of a step. The number of variables, their shapes and dtypes stay the same.
    loop_vars:
        The variables of the first step: an array, or a list, of arrays or nested lists.
    max_iterations:
        The most steps that are run, which is required. So many rows the stacked outputs have: those of steps that were
        not run are zeros.
    name:
        What errors, and nodes of symbols, are called.

    Returns
    -------
    The stacked outputs, ``[]`` if no step was run, and the last variables.

    Examples
    --------
    >>> steps, last = mx.nd.contrib.while_loop(
    ...     lambda x: x < 10, lambda x: (x, 2 * x), mx.nd.array([3]), max_iterations=4
    ... )
    >>> steps.tolist(), last.tolist()
    ([[3.0], [6.0], [0.0], [0.0]], [12.0])
    """
    # COMPAT(mxnet): rows of steps that were not run contain whatever the memory did.
    most = most_steps(max_iterations, name)
    alone = isinstance(loop_vars, _VALUES)
    states = as_list(loop_vars)
    if not states:
        raise AttributeValueError(f"{name}: loop_vars must have at least one array, got none")
    given = _nested(states, f"{name}: loop_vars")
    trace = _trace()
    if trace is not None:
        outputs, last = _recorded_while(trace, cond, func, given, most, name)
        return outputs, last[0] if alone else last
    now = given.arrays
    rows: list[list[Any]] = []
    made = _Nested([], [])
    while len(rows) < most and _number(cond(*given.of(now)), f"{name}: what cond returns", "a number"):
        out, after = pair(func(*given.of(now)), f"{name}: func", "(outputs, loop_vars)")
        made = _nested([] if out is None else out, f"{name}: an output of func")
        if rows and len(made.arrays) != len(rows[0]):
            raise MXNetError(
                f"{name}: func gives {len(rows[0])} outputs in step 0 but {len(made.arrays)} in step {len(rows)}"
            )
        now = _next_states(name, "func", len(rows), now, as_list(after) if after is not None else [])
        rows.append(made.arrays)
    stacked = [_stack(name, list(column), most - len(rows)) for column in zip(*rows, strict=True)]
    last = given.of(now)
    return made.of(stacked), last[0] if alone else last


@hides_frames
@at_users_line
def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """What ``then_func()`` returns if a number is not zero, else what ``else_func()`` does; the other is not called.

    Parameters
    ----------
    pred:
        The number: an array of one element, or a number of Python.
    then_func, else_func:
        Functions without parameters, which give an array or nested lists of arrays; in a graph both alike.
    name:
        What errors, and nodes of symbols, are called.

    Examples
    --------
    >>> x = mx.nd.array([-2])
    >>> mx.nd.contrib.cond(x > 0, lambda: x, lambda: -x).tolist()
    [2.0]
    """
    trace = _trace()
    if trace is not None and isinstance(pred, _VALUES):
        return _recorded_cond(trace, _nested(pred, f"{name}: pred").arrays[0], then_func, else_func, name)
    if isinstance(pred, Symbol):
        raise _unknown(f"{name}: pred")
    chosen = then_func if _number(pred, f"{name}: pred", "a number") else else_func
    return chosen()


# --- in a graph -------------------------------------------------------------------------------------------------------


def _trace() -> Trace | None:
    """The trace that records, in a hybridized block."""
    return STATE.trace if isinstance(STATE.trace, Trace) else None


def _recorded_foreach(
    trace: Trace, body: Callable[..., Any], data: _Nested, states: _Nested, steps: int, name: str
) -> tuple[Any, Any]:
    """A loop as one operator of a graph: its body is traced once, for a row of the data."""
    inner = NestedTrace(trace)
    each = [inner.leaf(f"each{i}", x.shape[1:], x.dtype, "value") for i, x in enumerate(data.arrays)]
    held = _leaves(inner, states.arrays)
    with inner.active():
        out, after = pair(body(data.of(each), states.of(held)), f"{name}: body", "(outputs, states)")
        outputs = _nested(out, f"{name}: an output of body")
        after = _next_states(name, "body", 0, held, after)
    inner.finish([*outputs.arrays, *after])
    shared = _Shared([inner])
    op = ForLoop.bind(
        body=inner.body([*each, *held, *shared.arguments(inner)], inner.outputs),
        data=len(each),
        states=len(held) + len(shared.mutated),
        steps=(steps,) if shared.keyed else (),
        saves=trace.training,
        counters=inner.draws,
    )
    found = as_list(invoke_bound(op, *data.arrays, *states.arrays, *shared.values))
    last = found[len(outputs.arrays) :]
    shared.update(trace, last[len(held) :])
    return outputs.of(found[: len(outputs.arrays)]), states.of(last[: len(held)])


def _recorded_while(
    trace: Trace, cond: Callable[..., Any], func: Callable[..., Any], states: _Nested, most: int, name: str
) -> tuple[Any, Any]:
    """A while loop as one operator of a graph."""
    asking, inner = NestedTrace(trace), NestedTrace(trace)
    asked = _leaves(asking, states.arrays)
    with asking.active():
        answer = _answer(cond(*states.of(asked)), name)
    asking.finish([answer])
    held = _leaves(inner, states.arrays)
    inner.draws = asking.draws
    with inner.active():
        out, after = pair(func(*states.of(held)), f"{name}: func", "(outputs, loop_vars)")
        outputs = _nested([] if out is None else out, f"{name}: an output of func")
        after = _next_states(name, "func", 0, held, as_list(after) if after is not None else [])
    inner.finish([*outputs.arrays, *after])
    shared = _Shared([inner, asking])
    if asking.updates:
        raise UnsupportedError(f"{name}: cond mutates an array, such as running statistics; let func do that")
    op = WhileLoop.bind(
        body=inner.body([*held, *shared.arguments(inner)], inner.outputs),
        condition=asking.body([*asked, *shared.arguments(asking)], asking.outputs),
        states=len(held) + len(shared.mutated),
        most=most,
        saves=trace.training,
        counters=inner.draws,
    )
    found = as_list(invoke_bound(op, *states.arrays, *shared.values))
    last = found[len(outputs.arrays) :]
    shared.update(trace, last[len(held) :])
    return outputs.of(found[: len(outputs.arrays)]), states.of(last[: len(held)])


def _answer(value: Any, name: str) -> Any:
    """What a condition returns, as a symbol of float32: 1 to go on, else 0."""
    if not isinstance(value, _VALUES):
        return function("ones")(shape=()) * float(bool(_number(value, f"{name}: what cond returns", "a number")))
    shape: Any = getattr(value, "shape")  # noqa: B009 - of an array, or a symbol that knows it
    if math.prod(shape) != 1:
        raise OneElementError(f"{name}: what cond returns must be a number, got an array of shape {shape}")
    return function("cast")(value != 0, dtype="float32")


def _recorded_cond(
    trace: Trace, pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str
) -> Any:
    """A branch as one operator of a graph."""
    if math.prod(pred.shape) != 1:
        raise OneElementError(f"{name}: pred must be a number, got an array of shape {pred.shape}")
    inner = [NestedTrace(trace), NestedTrace(trace)]
    made: list[_Nested] = []
    for each, branch in zip(inner, (then_func, else_func), strict=True):
        with each.active():
            made.append(_nested(branch(), f"{name}: what {'then' if each is inner[0] else 'else'}_func returns"))
        each.finish(made[-1].arrays)
    if made[0].structure != made[1].structure:
        raise MXNetError(
            f"{name}: both functions must return the same structure, got {made[0].structure} and {made[1].structure}"
        )
    count = len(made[0].arrays)
    shared = _Shared(inner)
    bodies = [
        each.body(
            [each.inside(pred), *shared.arguments(each)],
            [*each.outputs[:count], *[each.latest(each.inside(x)) for x in shared.mutated]],
        )
        for each in inner
    ]
    counters = max(each.draws for each in inner)
    found = as_list(
        invoke_bound(Branch.bind(then=bodies[0], otherwise=bodies[1], counters=counters), pred, *shared.values)
    )
    shared.update(trace, found[count:])
    return made[0].of(found[:count])


def _leaves(trace: Trace, arrays: Sequence[Any]) -> list[TracedSymbol]:
    return [trace.leaf(f"state{i}", _known_shape(x), x.dtype, "value") for i, x in enumerate(arrays)]


def _known_shape(x: Any) -> Any:
    """The shape of an array, or what is known of a traced value's."""
    return x.inferred_shape if isinstance(x, TracedSymbol) else x.shape


class _Shared:
    """What graphs inside an operator have of the trace around it: arguments of all of them, in one order.

    What an operator mutates, such as running statistics, comes first, as it is a state; a random key comes last.
    """

    def __init__(self, traces: Sequence[NestedTrace]) -> None:
        for trace in traces:
            if any(i not in trace.outer_values for i in trace.updates):
                raise UnsupportedError("an argument of a loop is mutated; mutate a parameter, or return a new state")
        changed = {id(x): x for trace in traces for x in (trace.outer_values[i] for i in trace.updates)}
        every = {id(x): x for trace in traces for x in trace.outer_values.values()}
        self.mutated = list(changed.values())
        self.values = [*self.mutated, *[x for number, x in every.items() if number not in changed]]
        self.keyed = any(trace.draws for trace in traces)

    def arguments(self, trace: NestedTrace) -> list[TracedSymbol]:
        """The inputs of a graph that these values are."""
        return [*[trace.leaf_of(x) for x in self.values], *[trace.key()] * self.keyed]

    def update(self, trace: Trace, new: Sequence[TracedSymbol]) -> None:
        """Note the new values of what is mutated, the first ones."""
        for symbol, value in zip(self.mutated, new, strict=False):
            trace.update(symbol, value)


# --- arguments --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Nested:
    """Arrays of nested lists."""

    arrays: list[Any]
    structure: Structure

    def of(self, arrays: Sequence[Any]) -> Any:
        """Other arrays in these lists."""
        return regroup(arrays, self.structure)


def _nested(value: Any, what: str) -> _Nested:
    found, structure = flatten(value, _VALUES, what)
    unknown = next((x for x in found if isinstance(x, Symbol) and not isinstance(x, TracedSymbol)), None)
    if unknown is not None:
        raise _unknown(what)
    return _Nested(found, structure)


def _unknown(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} is a symbol without a known shape; call it in a hybridized block, or on arrays")


def _number(value: Any, what: str, wanted: str) -> float:
    """A Python number of an array of one element."""
    if isinstance(value, Symbol):
        raise _unknown(what)
    if isinstance(value, NDArray) and value.size != 1:
        raise OneElementError(f"{what} must be {wanted}, got an array of shape {value.shape}")
    found = value.asscalar() if isinstance(value, NDArray) else value
    if isinstance(found, bool | int | float | np.generic):
        return cast("float", found)
    raise ArgumentTypeError(f"{what} must be {wanted}, got {type(value).__name__}")


def _steps(name: str, arrays: Sequence[Any]) -> int:
    """The first size of all data."""
    if not arrays:
        raise AttributeValueError(f"{name}: data must have at least one array, got none")
    shapes = [x.shape for x in arrays]
    if any(not shape for shape in shapes):
        raise ShapeError(f"{name}: data must have an axis of steps, got an array of shape ()")
    if len({shape[0] for shape in shapes}) > 1:
        raise ShapeError(f"{name}: the first axes of data must have one size, got shapes {', '.join(map(str, shapes))}")
    return shapes[0][0]


def most_steps(max_iterations: Any, name: str) -> int:
    """The most steps of a while loop."""
    if max_iterations is None:
        raise AttributeValueError(f"{name}: max_iterations must be given, the most steps that it may run")
    most = int(_number(max_iterations, f"{name}: max_iterations", "an integer"))
    if most < 0:
        raise AttributeValueError(f"{name}: max_iterations must be at least 0, got {most}")
    return most


def pair(value: Any, what: str, wanted: str) -> tuple[Any, Any]:
    parts = as_list(value)
    if len(parts) != 2:
        raise MXNetError(f"{what} must return {wanted}, got {len(parts)} values")
    return parts[0], parts[1]


def _next_states(name: str, called: str, step: int, before: list[Any], after: Any) -> list[Any]:
    """The next states, which must be as those before."""
    # COMPAT(mxnet): imperatively it lets states change, in graphs it fails on them.
    values = _nested(after, f"{name}: a state that {called} returns").arrays
    if len(values) != len(before):
        raise MXNetError(
            f"{name}: {called} must return {len(before)} states, as many as it is given, got {len(values)}"
        )
    # COMPAT(mxnet): under mixed precision a state keeps its dtype; there it takes that of the first step's result.
    values = [AUTOCAST.as_dtype(y, x.dtype) for x, y in zip(before, values, strict=True)]
    for i, (x, y) in enumerate(zip(before, values, strict=True)):
        if np.dtype(x.dtype) != np.dtype(y.dtype) or not agree(_known_shape(x), _known_shape(y)):
            raise ShapeError(
                f"{name}: state {i} must stay {np.dtype(x.dtype)}{list(x.shape)}, {called} returned "
                f"{np.dtype(y.dtype)}{list(y.shape)} in step {step}"
            )
    return values


# --- rows -------------------------------------------------------------------------------------------------------------


def _zeros_like_row(x: Any) -> Any:
    return function("zeros")(shape=x.shape[1:], dtype=x.dtype, ctx=_device(x))


def _stack(name: str, rows: list[Any], left: int = 0) -> Any:
    """Rows along a new first axis, then as many rows of zeros as are left."""
    shapes = {x.shape for x in rows}
    if len(shapes) > 1:
        at = next(i for i, x in enumerate(rows) if x.shape != rows[0].shape)
        raise ShapeError(f"{name}: an output has shape {rows[0].shape} in step 0 but {rows[at].shape} in step {at}")
    stacked = function("stack")(*rows, axis=0)
    if not left:
        return stacked
    rest = function("zeros")(shape=(left, *rows[0].shape), dtype=rows[0].dtype, ctx=_device(rows[0]))
    return function("concat")(stacked, rest, dim=0)


def _device(x: Any) -> Any:
    """The device of an array; none is known of a symbol."""
    return x.context if isinstance(x, NDArray) else None
