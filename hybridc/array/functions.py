"""Functions of operators, generated from their classes: a real signature and a docstring.

They serve ``mx.nd``, ``mx.sym`` and ``F`` alike: they run on arrays and record on symbols.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from hybridc.array.autocast import AUTOCAST
from hybridc.array.dispatch import as_scalar, explain, finish, invoke, placed, ran
from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator_registry
from hybridc.dialects.checked import on_arrays
from hybridc.dialects.operator import Elementwise, Movement, Operator
from hybridc.dialects.operator_attribute import REQUIRED
from hybridc.dialects.scalar import NUMPY, record
from hybridc.errors import ArgumentTypeError, MXNetError
from hybridc.ground.display.tracebacks import hide_frames, hides_frames
from hybridc.ground.events import RECORDER, EventRecorder, EventSource, now
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import FUNCTION_FILE
from hybridc.ground.state import STATE

_BUILT: dict[str, Callable[..., Any]] = {}


def _forget(name: str) -> None:
    """The name is bound to another operator: invalidate the cached function."""
    _BUILT.pop(name, None)


operator_registry.LISTENERS.append(_forget)


def function(name: str) -> Callable[..., Any]:
    """The function of the operator that is called ``name`` (an alias will do)."""
    if name not in _BUILT:
        cls = operator_registry.of_function(name)
        by_hand = cls.function()
        _BUILT[name] = _build(name, cls) if by_hand is None else hides_frames(_with_parameters(by_hand, cls))
    return _BUILT[name]


def _build(name: str, cls: type[Operator]) -> Callable[..., Any]:
    """Compile ``def softmax(data=None, axis=-1, …, out=None, name=None, ctx=None, **kwargs)``; see :func:`_source`."""
    scope: dict[str, Any] = {
        "__name__": "hybridc.nd.generated",  # NumPy's warnings about inf and nan name it, and are ignored
        "_bind": cls.bind_values,
        "_bound": cls._BOUND,
        "_invoke": invoke,
        "_placed": placed,
        "_check_inputs": _check_inputs,
        "_require_hidden": require_hidden,
        "_flat": _flat,
        "_state": STATE,
        "_NDArray": NDArray,
        "_ndarray": np.ndarray,
        "_asarray": np.asarray,
        "_finish": finish,
        "_as_scalar": as_scalar,
        "_other": cls.COMPUTES_IN.keys(),
        "_explain": explain,
        "_hide_frames": hide_frames,
        "_now": now,
        "_ran": ran,
        **{f"_default_{n}": a.default for n, a in cls.ATTRIBUTES.items()},
    }
    if not cls.ATTRIBUTES:
        op = scope["_op"] = cls.bind()
        scope["_eager"] = step_ufunc(op) or op.eager
    safe = name.rpartition(".")[2]
    exec(compile(_source(safe, cls), f"{FUNCTION_FILE} {cls.NAME}>", "exec"), scope)
    made = scope[safe]
    _VARIANTS.add(made, cls)
    made.__doc__ = _docstring(cls)
    made.__module__ = "hybridc.nd"
    return made


def step_ufunc(op: Operator) -> Any:
    """The NumPy ufunc that is the whole scalar body of an elementwise operator, or None."""
    if type(op).eager is not Elementwise.eager:
        return None
    arguments, steps, result = record(op, len(op.INPUTS))
    whole = len(steps) == 1 and steps[0] is result and [*map(id, result.operands)] == [*map(id, arguments)]
    if not whole or result.is_predicate:
        return None
    found = getattr(NUMPY, str(result.step))
    return found if isinstance(found, np.ufunc) else None


def _source(safe: str, cls: type[Operator], records: bool = False) -> str:
    """The text of an operator's function: bind the attributes, then run at once or ask ``invoke``.

    The variant that ``records`` notes the time of the former; ``invoke`` does so itself.

    The branch that runs at once serves one or two NDArrays (or an NDArray and a number, if elementwise) while
    nothing is traced. It does what ``invoke`` does, at a quarter of the cost.
    """
    attrs = [k for k, a in cls.ATTRIBUTES.items() if not a.doc.startswith("internal")]
    names = [n for n in cls.INPUTS if not (cls.DRAWS and n == "key")]
    parameters = [f"*{names[0]}"] if cls.VARIADIC else [f"{n}=None" for n in names]
    last = [parameters.pop() for _ in range(cls.KEYWORD_INPUTS)][::-1]
    parameters += [f"{n}=_default_{n}" for n in attrs] + [*last, "out=None", "name=None", "ctx=None", "**kwargs"]
    values = "".join((n if n in attrs else f"_default_{n}") + ", " for n in cls.ATTRIBUTES)
    inputs = f"_flat({names[0]})" if cls.VARIADIC else "(" + "".join(f"{n}, " for n in names) + ")"
    lines = ["    if kwargs:", f"        _require_hidden({safe!r}, kwargs, {(*names, *attrs)!r}, {cls.NNVM_ONLY!r})"]
    if cls.ATTRIBUTES:
        bind = [f"_op = _bind(({values}))"]
        if cls.bind_values.__func__ is Operator.bind_values.__func__:  # look among the bound ones without a call
            bind = [f"_values = ({values})", "try:", "    _op = _bound.get(_values) or _bind(_values)"]
            bind += ["except TypeError:", "    _op = _bind(_values)"]  # a list among them has no hash
        lines += ["    " + line for line in bind]
    exact = not cls.OPTIONAL and not cls.VARIADIC
    mutates = cls.MUTATES or cls.mutates is not Operator.mutates  # updates take turns, see dispatch.run
    plain = not (cls.VARIADIC or cls.DRAWS or cls.TRAIN_MODE or mutates or AUTOCAST.concerns(cls))
    if plain and names and not on_arrays(cls):  # what a user wrote is checked by dispatch.run
        if exact and len(names) <= 2:
            lines += _direct(cls, names, records)
        elif len(names) <= 4 and cls.OPTIONAL <= 1:  # the last input alone may be missing
            lines += _direct_by_arity(cls, names, records)
    if cls.VARIADIC or not names:
        checked = inputs
    elif exact:
        checked = f"{inputs} if {names[-1]} is not None else _check_inputs(_op, {inputs})"
    else:
        checked = f"_check_inputs(_op, {inputs})"
    made = f"_invoke(_op, {checked}, out)"
    made = made if names else f"{made} if out is not None else _placed(_invoke(_op, {checked}), ctx)"
    lines += [f"    return {made}"]
    head = [f"def {safe}({', '.join(parameters)}):", "    try:"]
    end = ["    except Exception as _error:", "        _hide_frames(_error)", "        raise", ""]
    return "\n".join([*head, *("    " + line for line in lines), *end])


class _Variants(EventSource):
    """The functions, whose code is that of a variant while eager operators are recorded: no call asks a flag."""

    def __init__(self) -> None:
        self._plain: dict[Any, tuple[CodeType, type[Operator]]] = {}
        self._is_on = False

    def add(self, function: Any, cls: type[Operator]) -> None:
        """Note a function."""
        self._plain[function] = function.__code__, cls
        if self._is_on:
            function.__code__ = self._recording(function)

    def switch(self, recorder: EventRecorder) -> None:
        """Replace the code of all functions."""
        if recorder.operators == self._is_on:
            return
        self._is_on = recorder.operators
        for function, (plain, _) in list(self._plain.items()):
            function.__code__ = self._recording(function) if self._is_on else plain

    def _recording(self, function: Any) -> CodeType:
        plain, cls = self._plain[function]
        found = {**function.__globals__}
        exec(compile(_source(function.__name__, cls, records=True), plain.co_filename, "exec"), found)
        return found[function.__name__].__code__


_VARIANTS = _Variants()
RECORDER.attach(_VARIANTS)


def _direct(cls: type[Operator], names: list[str], records: bool) -> list[str]:
    """The branch of :func:`_source` that runs at once."""
    eager = "_op.eager" if cls.ATTRIBUTES else "_eager"
    first, second = names[0], names[-1]
    same = " and _a.dtype is _b.dtype" if cls.SAME_DTYPE else ""
    idle = "out is None and _state.trace is None"
    native = _native(cls, names)
    run = _run(cls, f"({eager} if {native} else _op.evaluate)", "(" + ", ".join(names) + ",)", records)
    if len(names) == 1:
        body = [f"if type({first}) is _NDArray and {idle}:", f"    _arrays = ({first}._data,)"]
        return ["    " + line for line in (*body, *("    " + r for r in run))]
    body = [f"if {idle}:", "    _arrays = None", f"    if type({first}) is _NDArray:"]
    body += [
        f"        _a = {first}._data",
        f"        if type({second}) is _NDArray:",
        f"            _b = {second}._data",
    ]
    body += [f"            if True{same}:", "                _arrays = (_a, _b)"]
    if issubclass(cls, Elementwise):
        body += [f"        elif type({second}) is float or type({second}) is int:"]
        body += [f"            _b = _as_scalar({second}, _a.dtype)"]
        body += ["            if _state.recording:"]
        body += [f"                {second} = _NDArray(_asarray(_b))", f"                _b = {second}._data"]
        body += ["            _arrays = (_a, _b)"]
        body += [f"    elif type({second}) is _NDArray and (type({first}) is float or type({first}) is int):"]
        body += [f"        _b = {second}._data", f"        _a = _as_scalar({first}, _b.dtype)"]
        body += ["        if _state.recording:"]
        body += [f"            {first} = _NDArray(_asarray(_a))", f"            _a = {first}._data"]
        body += ["        _arrays = (_a, _b)"]
    body += ["    if _arrays is not None:", *("        " + r for r in run)]
    return ["    " + line for line in body]


def _direct_by_arity(cls: type[Operator], names: list[str], records: bool) -> list[str]:
    """As :func:`_direct`, for operators of up to four NDArrays of which the last may be missing."""
    body = ["if out is None and _state.trace is None:", "    _arrays = None"]
    for n in range(len(names) - cls.OPTIONAL, len(names) + 1):
        arrays = [f"type({x}) is _NDArray" for x in names[:n]]
        if cls.SAME_DTYPE and n > 1:
            arrays.append(" is ".join(f"{x}._data.dtype" for x in names[:n]))
        arrays += [f"{x} is None" for x in names[n:]]
        body += [f"    {'if' if len(body) == 2 else 'elif'} _op.arity == {n}:", f"        if {' and '.join(arrays)}:"]
        body.append(f"            _arrays = ({''.join(f'{x}._data, ' for x in names[:n])})")
    inputs = f"({', '.join(names)},)[: _op.arity]"
    native = _native(cls, names)
    run = _run(cls, f"(_op.eager if {native} else _op.evaluate)", inputs, records)
    body += ["    if _arrays is not None:", *("        " + r for r in run)]
    return ["    " + line for line in body]


def _native(cls: type[Operator], names: list[str]) -> str:
    """Whether NumPy computes in the dtypes of ``_arrays``, so that ``eager`` is all that is to be done."""
    if cls.evaluate is not Operator.evaluate or (not cls.ATTRIBUTES and step_ufunc(cls.bind()) is not None):
        return "True"
    if cls.SAME_DTYPE or len(names) == 1:
        return "_arrays[0].dtype not in _other"
    return "_other.isdisjoint([_x.dtype for _x in _arrays])"


def _run(cls: type[Operator], eager: str, inputs: str, records: bool) -> list[str]:
    """Run an operator on ``_arrays`` and return its result as an NDArray, by ``_finish`` if it is recorded."""
    plain, result = "type(_r) is _ndarray and not _state.recording", "_NDArray(_r)"
    if cls.num_outputs is not Operator.num_outputs:  # how many there are is checked by _finish
        plain += " and _op.results == 1"
    if issubclass(cls, Movement):  # a result never shares memory with an input
        result = "_NDArray(_r if _r.base is None else _r.copy())"
    elif issubclass(cls, Elementwise):
        plain += " and _r.dtype is _arrays[0].dtype"
    return [
        *(["_begin = _now()"] if records else []),
        "try:",
        f"    _r = {eager}(*_arrays)",
        "except Exception as _error:",
        "    _explain(_op, _arrays, _error)",
        "    raise",
        *(["_ran(_op, _arrays, _begin, _r)"] if records else []),
        f"if {plain}:",
        f"    return {result}",
        f"return _finish(_op, {inputs}, _arrays, _r)",
    ]


def require_hidden(
    function: str, given: Mapping[str, Any], known: Iterable[str] = (), only: Collection[str] = ()
) -> None:
    """Raise unless the keywords that a function does not know are attributes of nodes, such as ``__layout__``.

    These are for symbols, and mean nothing for arrays. ``known`` are the keywords that the function knows, ``only``
    those that MXNet alone knows, ``lower=True`` for one value only.
    """
    # COMPAT(mxnet): there an operator without attributes takes any keyword, and does nothing with it.
    names = list(known)
    for key, value in given.items():
        if not (key.startswith("__") and key.endswith("__")) and key not in only and f"{key}={value}" not in only:
            near = difflib.get_close_matches(key, names, n=1)
            meant = f"; did you mean {near[0]}?" if near else f"; it takes {', '.join(names)}" if names else ""
            raise ArgumentTypeError(f"{function}() got an unexpected keyword argument {key!r}{meant}")


def _check_inputs(op: Operator, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs without the absent optional ones; an error that names the first missing."""
    names: tuple[str, ...] | None = op.__dict__.get("_given_names")
    if names is None:  # computed once per operator: every eager call passes here
        names = tuple(n for n in op.input_names() if not (op.DRAWS and n == "key"))
        vars(op)["_given_names"] = names
    inputs = given[: len(names)] if op.OPTIONAL <= 1 else _by_name(op, names, given)
    if len(inputs) < len(given) and sum(x is not None for x in given) > sum(x is not None for x in inputs):
        raise _unused(op, names, given)
    for i, value in enumerate(inputs):
        if value is None and not (STATE.trace is not None and STATE.trace.creates_inputs):
            raise ArgumentTypeError(f"{op.title()}: input {names[i]!r} is missing; it takes ({', '.join(names)})")
    return inputs


def _by_name(op: Operator, names: tuple[str, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of these names; as in MXNet, as many as there are names may be given at the places of others."""
    inputs = tuple(value for name, value in zip(op.INPUTS, given, strict=True) if name in names)
    present = tuple(value for value in given if value is not None)
    return present if any(value is None for value in inputs) and len(present) == len(names) else inputs


def _unused(op: Operator, names: tuple[str, ...], given: tuple[Any, ...]) -> MXNetError:
    """The error for an input that the attributes do not provide for."""
    name = next(n for n, x in zip(op.INPUTS, given, strict=False) if x is not None and n not in names)
    flags = ((key, value) for key, value in op.attrs.items() if isinstance(value, bool))
    flips = (
        f"{key}={not value}" for key, value in flags if name in op.bind(**{**op.attrs, key: not value}).input_names()
    )
    how = next(flips, None)
    remedy = "leave it out" if how is None else f"set {how}, or leave it out"
    return MXNetError(f"{op.title()}: input {name!r} is given, but it takes ({', '.join(names)}); {remedy}")


def _flat(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """``concat(a, b)`` and ``concat([a, b])`` alike."""
    first: Any = values[0] if len(values) == 1 else None
    return tuple(first) if first.__class__ in (list, tuple) else values


# What inputs of these names are, where an operator does not say more.
_INPUT_MEANINGS = {
    "data": "the input",
    "args": "the inputs",
    "lhs": "the left operand",
    "rhs": "the right operand",
    "x": "the first operand",
    "y": "the second operand",
    "A": "the matrices, in the last two axes",
    "B": "the matrices of the second operand, in the last two axes",
    "C": "the matrices that are added, in the last two axes",
    "condition": "chooses where it is not 0",
    "index": "the places",
    "indices": "the places",
    "label": "the labels",
    "weight": "the weight",
    "bias": "what is added to each channel, or unit",
    "gamma": "the factor of each channel",
    "beta": "what is added to each channel",
    "moving_mean": "the running mean of each channel, which training updates",
    "moving_var": "the running variance of each channel, which training updates",
    "grad": "the gradient of the weight",
    "mom": "the momentum, a state that is updated",
    "mean": "the running mean of gradients, a state that is updated",
    "var": "the running mean of squared gradients, a state that is updated",
    "weight32": "the weight in float32, which is updated, too",
    "rois": "the regions, a row (image, x1, y1, x2, y2) each",
    "length": "how many elements count, of each sequence",
    "sequence_length": "how many steps each sequence has",
    "shape_like": "an array of the wanted shape",
}


def _docstring(cls: type[Operator]) -> str:
    """The text of a class, and what it says of each parameter; examples come last."""
    text, examples, shown = inspect.cleandoc(cls.__doc__ or cls.title()).partition("\n\nExamples\n")
    lines = [text, "", "Parameters", "----------"]
    for row in _parameters(cls).values():
        lines += row
    return "\n".join(lines) + examples + shown


def _parameters(cls: type[Operator]) -> dict[str, list[str]]:
    """What a docstring says of each input and attribute."""
    meanings = {**_INPUT_MEANINGS, **cls.INPUT_DOCS}
    rows = {n: (f"{n} : NDArray or Symbol", meanings.get(n)) for n in cls.INPUTS if not (cls.DRAWS and n == "key")}
    for name, a in cls.ATTRIBUTES.items():
        if not a.doc.startswith("internal"):
            default = "required" if a.default is REQUIRED else f"default {a.default!r}"
            rows[name] = f"{name} : {a.describe()}, {default}", a.doc
    return {name: [head, *([f"    {doc}"] if doc else [])] for name, (head, doc) in rows.items()}


def _with_parameters(made: Callable[..., Any], cls: type[Operator]) -> Callable[..., Any]:
    """A function that is written by hand, whose docstring has the parameters that it leaves to the class."""
    text = inspect.cleandoc(made.__doc__ or cls.__doc__ or cls.title())
    if "\nParameters\n" not in text:
        known, taken = _parameters(cls), inspect.signature(made).parameters
        lines = [line for name in taken if name in known for line in known[name]]
        made.__doc__ = "\n".join([text, "", "Parameters", "----------", *lines]) if lines else text
    return made


HOOKS.register(function=function)
