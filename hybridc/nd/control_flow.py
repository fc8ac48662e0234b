"""Loops and branches over Python functions: ``mx.nd.contrib.foreach``, ``while_loop`` and ``cond``.

On arrays each step runs as its operators are called, and autograd records it like any other code. In a hybridized
block ``foreach`` is one operator, whose body is traced once; ``while_loop`` and ``cond`` depend on values, which a graph
does not have, and raise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.dialects.control.loop import Loop
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
from hybridc.ground.location import user_location
from hybridc.ground.nesting import Structure, as_list, flatten, regroup
from hybridc.ground.state import STATE
from hybridc.trace.nested_trace import NestedTrace
from hybridc.trace.traced import Symbol, TracedSymbol
from hybridc.trace.tracer import Trace

__all__ = ["cond", "foreach", "while_loop"]

P = ParamSpec("P")
R = TypeVar("R")

_VALUES = (NDArray, Symbol)


def _at_users_line(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose errors name the user's line."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except MXNetError as error:
            raise_located(error, user_location())

    return call


@_at_users_line
def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """Call ``body(data[i], states)`` for each index of the first axis; it returns an output and the next states.

    ``data``, ``init_states`` and the outputs are arrays or nested lists of them; all data has the same first size.
    Returns the outputs of all steps, stacked along a new first axis, and the last states. The number of states, their
    shapes and dtypes stay the same.
    """
    arrays, structure = _arrays(data, f"{name}: data")
    states, kind = _arrays(init_states, f"{name}: init_states")
    steps = _steps(name, arrays)
    trace = _traced(arrays, states)
    if trace is not None:
        return _recorded(trace, body, (arrays, structure), (states, kind), name)
    first = states
    outputs: list[list[Any]] = []
    made: Structure = None
    # No step says what an output is like; one on zeros does.
    for i in range(max(steps, 1)):
        each = [x[i] for x in arrays] if steps else [_zeros_like_row(x) for x in arrays]
        out, after = _pair(body(regroup(each, structure), regroup(states, kind)), f"{name}: body", "(outputs, states)")
        values, form = _arrays(out, f"{name}: an output of body")
        if i and form != made:
            raise MXNetError(f"{name}: outputs of body have structure {made} in step 0 but {form} in step {i}")
        outputs.append(values)
        made = form
        if steps:
            states = _next_states(name, "body", i, states, after)
    stacked = [_stack(name, [row[k] for row in outputs]) for k in range(len(outputs[0]))]
    if not steps:
        stacked, states = [x[:0] for x in stacked], first
    return regroup(stacked, made), regroup(states, kind)


@_at_users_line
def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., tuple[Any, Any]],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> Any:
    """Call ``func(*loop_vars)`` while ``cond(*loop_vars)``; it returns an output of the step and the next variables.

    At most ``max_iterations`` steps are run, and so many rows the stacked outputs have: those of steps that were not
    run are zeros. Returns the stacked outputs, ``[]`` if no step was run, and the last variables, whose number, shapes
    and dtypes stay the same.
    """
    # COMPAT(mxnet): rows of steps that were not run contain whatever the memory did.
    if max_iterations is None:
        raise AttributeValueError(f"{name}: max_iterations must be given, the most steps that it may run")
    most = int(_number(max_iterations, f"{name}: max_iterations", "an integer"))
    if most < 0:
        raise AttributeValueError(f"{name}: max_iterations must be at least 0, got {most}")
    alone = isinstance(loop_vars, _VALUES)
    states = as_list(loop_vars)
    if not states:
        raise AttributeValueError(f"{name}: loop_vars must have at least one array, got none")
    flat, kind = _arrays(states, f"{name}: loop_vars")
    if any(isinstance(x, Symbol) for x in flat):
        raise _needs_values(name)
    outputs: list[list[Any]] = []
    made: Structure = []
    while len(outputs) < most and _number(cond(*regroup(flat, kind)), f"{name}: what cond returns", "a number"):
        out, after = _pair(func(*regroup(flat, kind)), f"{name}: func", "(outputs, loop_vars)")
        values, form = _arrays([] if out is None else out, f"{name}: an output of func")
        if outputs and len(values) != len(outputs[0]):
            raise MXNetError(
                f"{name}: func gives {len(outputs[0])} outputs in step 0 but {len(values)} in step {len(outputs)}"
            )
        flat = _next_states(name, "func", len(outputs), flat, as_list(after) if after is not None else [])
        outputs.append(values)
        made = form
    left = most - len(outputs)
    stacked = [_stack(name, [row[k] for row in outputs], left) for k in range(len(outputs[0]) if outputs else 0)]
    last = regroup(flat, kind)
    return regroup(stacked, made), last[0] if alone else last


@_at_users_line
def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """What ``then_func()`` returns if a number is not zero, else what ``else_func()`` does; the other is not called."""
    if isinstance(pred, Symbol):
        raise _needs_values(name)
    chosen = then_func if _number(pred, f"{name}: pred", "a number") else else_func
    return chosen()


# --- in a graph -------------------------------------------------------------------------------------------------------


def _traced(*values: Sequence[Any]) -> Trace | None:
    """The trace that records, if some value is symbolic."""
    trace = STATE.trace
    return trace if any(isinstance(x, TracedSymbol) for part in values for x in part) else None


def _recorded(
    trace: Trace, body: Callable[..., Any], data: tuple[list[Any], Structure], states: tuple[list[Any], Structure], name: str
) -> Any:
    """A loop as one operator of a graph: its body is traced once, for a row of the data."""
    arrays, structure = data
    before, kind = states
    inner = NestedTrace(trace)
    each = [inner.leaf(f"each{i}", x.shape[1:], x.dtype, "value") for i, x in enumerate(arrays)]
    held = [inner.leaf(f"state{i}", x.shape, x.dtype, "value") for i, x in enumerate(before)]
    with inner.active():
        result = body(regroup(each, structure), regroup(held, kind))
    out, after = _pair(result, f"{name}: body", "(outputs, states)")
    outputs, made = _arrays(out, f"{name}: an output of body")
    inner.finish([*outputs, *_next_states(name, "body", 0, held, after)])
    # What operators in the body mutate, such as running statistics, is a state, too.
    mutated = [inner.leaves[i] for i in inner.updates]
    if any(leaf.index not in inner.given for leaf in mutated):
        raise UnsupportedError(f"{name}: the body mutates one of its arguments; mutate parameters, or return states")
    chosen = {id(s) for s in (*each, *held, *mutated)}
    rest = [s for s in inner.leaves if id(s) not in chosen and s.index in inner.given]
    keys = [s for s, role in zip(inner.leaves, inner.roles, strict=True) if role == "key"]
    op = Loop.bind(
        body=inner.body([*each, *held, *mutated, *rest, *keys], inner.outputs),
        data=len(each),
        states=len(held) + len(mutated),
        steps=(arrays[0].shape[0],) if keys else (),
        saves=trace.training,
        counters=inner.draws,
    )
    given = [*arrays, *before, *[inner.given[s.index] for s in (*mutated, *rest)]]
    found = as_list(invoke_bound(op, *given))
    for leaf, new in zip(mutated, found[len(outputs) + len(held) :], strict=True):
        trace.update(inner.given[leaf.index], new)
    last = found[len(outputs) :][: len(held)]
    return regroup(found[: len(outputs)], made), regroup(last, kind)


# --- arguments --------------------------------------------------------------------------------------------------------


def _arrays(value: Any, what: str) -> tuple[list[Any], Structure]:
    """The arrays of nested lists, and the structure."""
    found, structure = flatten(value, _VALUES, what)
    unknown = next((x for x in found if isinstance(x, Symbol) and not isinstance(x, TracedSymbol)), None)
    if unknown is not None:
        raise UnsupportedError(f"{what} is a symbol without a known shape; call it in a hybridized block, or on arrays")
    return found, structure


def _needs_values(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} depends on values, which a graph does not have: call it outside of the hybridized block, or "
        "compute both branches and choose by F.where"
    )


def _number(value: Any, what: str, wanted: str) -> float:
    """A Python number of an array of one element."""
    if isinstance(value, Symbol):
        raise _needs_values(what.split(":")[0])
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


def _pair(value: Any, what: str, wanted: str) -> tuple[Any, Any]:
    parts = as_list(value)
    if len(parts) != 2:
        raise MXNetError(f"{what} must return {wanted}, got {len(parts)} values")
    return parts[0], parts[1]


def _next_states(name: str, function: str, step: int, before: list[Any], after: Any) -> list[Any]:
    """The next states, which must be as those before."""
    # COMPAT(mxnet): imperatively it lets states change, in graphs it fails on them.
    values, _ = _arrays(after, f"{name}: a state that {function} returns")
    if len(values) != len(before):
        raise MXNetError(
            f"{name}: {function} must return {len(before)} states, as many as it is given, got {len(values)}"
        )
    for i, (x, y) in enumerate(zip(before, values, strict=True)):
        if (x.shape, np.dtype(x.dtype)) != (y.shape, np.dtype(y.dtype)):
            raise ShapeError(
                f"{name}: state {i} must stay {np.dtype(x.dtype)}{list(x.shape)}, {function} returned "
                f"{np.dtype(y.dtype)}{list(y.shape)} in step {step}"
            )
    return values


# --- rows -------------------------------------------------------------------------------------------------------------


def _zeros_like_row(x: Any) -> Any:
    from hybridc import nd

    return nd.zeros(shape=x.shape[1:], dtype=x.dtype)


def _stack(name: str, rows: list[Any], left: int = 0) -> Any:
    """Rows along a new first axis, then as many rows of zeros as are left."""
    from hybridc import nd

    shapes = {x.shape for x in rows}
    if len(shapes) > 1:
        at = next(i for i, x in enumerate(rows) if x.shape != rows[0].shape)
        raise ShapeError(f"{name}: an output has shape {rows[0].shape} in step 0 but {rows[at].shape} in step {at}")
    stacked = nd.stack(*rows, axis=0)
    if not left:
        return stacked
    return nd.concat(stacked, nd.zeros(shape=(left, *rows[0].shape), dtype=rows[0].dtype), dim=0)
