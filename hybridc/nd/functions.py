"""Functions of operators, generated from their classes: a real signature, a docstring, one call of ``invoke``.

They serve ``mx.nd``, ``mx.sym`` and ``F`` alike: what they are given decides whether they run or record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc.dialects import registry
from hybridc.dialects.attribute import REQUIRED
from hybridc.dialects.operator import Operator
from hybridc.dispatch import invoke
from hybridc.errors import MXNetError

_BUILT: dict[str, Callable[..., Any]] = {}


def function(name: str) -> Callable[..., Any]:
    """The function of the operator that is called ``name`` (an alias will do)."""
    if name not in _BUILT:
        cls = registry.FUNCTIONS[name]
        _BUILT[name] = cls.function() or _build(name, cls)
    return _BUILT[name]


def _build(name: str, cls: type[Operator]) -> Callable[..., Any]:
    """Compile ``def softmax(data, axis=-1, …, *, out=None, name=None): return _invoke(_bind((axis, …)), (data,), out)``."""
    attrs = {k: a for k, a in cls.ATTRIBUTES.items() if not a.doc.startswith("internal")}
    names = list(cls.INPUTS) if not cls.VARIADIC else [f"*{cls.INPUTS[0]}"]
    if cls.DRAWS:
        names = [n for n in names if n != "key"]
    required = {n for n, a in attrs.items() if a.default is REQUIRED}
    defaults = {f"_default_{n}": a.default for n, a in cls.ATTRIBUTES.items()}
    parameters = [n if n.startswith("*") else f"{n}=None" for n in names]
    parameters += [f"{n}=_default_{n}" for n in attrs]
    parameters += ["out=None", "name=None", "ctx=None"]
    values = "".join((n if n in attrs else f"_default_{n}") + ", " for n in cls.ATTRIBUTES)
    if cls.VARIADIC:
        inputs = f"_flat({cls.INPUTS[0]})"
    else:
        inputs = "(" + "".join(f"{n}, " for n in names) + ")"
    check = f"_check_inputs(_op, {inputs})" if not cls.VARIADIC and names else inputs
    exact = not cls.OPTIONAL and not cls.VARIADIC
    missing = f" if {names[-1]} is not None else {check}" if exact and names else ""
    body = inputs + missing if exact else check
    safe = name.rpartition(".")[2]
    source = f"def {safe}({', '.join(parameters)}):\n    _op = _bind(({values}))\n    return _invoke(_op, {body}, out)\n"
    scope: dict[str, Any] = {
        "_bind": cls.bind_values,
        "_invoke": invoke,
        "_check_inputs": _check_inputs,
        "_flat": _flat,
        **defaults,
    }
    exec(compile(source, f"<function of {cls.NAME}>", "exec"), scope)
    made = scope[safe]
    made.__doc__ = _docstring(cls, required)
    made.__module__ = "hybridc.nd"
    return made


def _check_inputs(op: Operator, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs without the absent optional ones; an error that names the first missing."""
    names = tuple(n for n in op.input_names() if not (op.DRAWS and n == "key"))
    inputs = given[: len(names)]
    for name, value in zip(names, inputs, strict=True):
        if value is None:
            raise MXNetError(f"{op.title()}: input {name!r} is missing; it takes ({', '.join(names)})")
    return inputs


def _flat(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """``concat(a, b)`` and ``concat([a, b])`` alike."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        return tuple(values[0])
    return values


def _docstring(cls: type[Operator], required: set[str]) -> str:
    lines = [(cls.__doc__ or cls.title()).strip(), "", "Parameters", "----------"]
    lines += [f"{n} : NDArray or Symbol" for n in cls.INPUTS if n != "key"]
    for name, a in cls.ATTRIBUTES.items():
        if a.doc.startswith("internal"):
            continue
        default = "required" if name in required else f"default {a.default!r}"
        lines += [f"{name} : {a.describe()}, {default}", f"    {a.doc}"]
    return "\n".join(lines)
