"""What objects are, in a line: the arguments that they were made with; arrays and parameters by their shapes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

# Longer lists, and longer texts of other objects, say nothing more to a reader of one line.
_MOST_ITEMS, _MOST_CHARACTERS = 8, 120


def settings(
    instance: object,
    always: Collection[str] = (),
    left_out: Collection[str] = (),
    kept_as: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The arguments of an object's constructors as texts: those that have no default, and that differ from it now.

    An argument is found in the attribute of its name, of its name after an underscore, or the one of ``kept_as``.
    ``always`` are given even if they are the default, ``left_out`` never.
    """
    found: dict[str, str] = {}
    values = vars(instance)
    for name, default in _arguments(type(instance)).items():
        attribute = (kept_as or {}).get(name, name)
        attribute = attribute if attribute in values else f"_{attribute}"
        if name in left_out or attribute not in values:
            continue
        value = values[attribute]
        if name in always or default is inspect.Parameter.empty or not _is_same(value, default):
            found[name] = value_text(value)
    return {**{name: found[name] for name in always if name in found}, **found}


def called(instance: object, arguments: Mapping[str, str]) -> str:
    """``Name(a=1, b=2)``."""
    return f"{type(instance).__name__.lstrip('_')}({', '.join(f'{k}={v}' for k, v in arguments.items())})"


def typed(dtype: Any, shape: Collection[Any] | None) -> str:
    """``float32[2, 3]``; ``float32[?]`` where the shape is not known."""
    return f"{getattr(dtype, '__name__', dtype)}{'[?]' if shape is None else [*shape]}"


def value_text(value: Any) -> str:
    """A value as a line shows it, whatever it is."""
    if hasattr(value, "shape") and hasattr(value, "dtype") and getattr(value, "ndim", 0):
        return typed(value.dtype, value.shape)
    if hasattr(value, "item") and not isinstance(value, type):
        value = value.item()
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        left, right = "[]" if isinstance(value, list) else "()"
        shown = ", ".join(map(value_text, items[:_MOST_ITEMS]))
        return f"{left}{shown}{f', … {len(items)} items' if len(items) > _MOST_ITEMS else ''}{right}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    text = " ".join(repr(value).split())
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"


def counted(number: int, what: str) -> str:
    """``1 kernel``, ``1,200 kernels``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def elements_of(parameter: Any) -> int | None:
    """The number of elements of a parameter, if its shape is known."""
    shape = parameter.shape
    return None if shape is None or any(n <= 0 for n in shape) else math.prod(shape)


def elements_text(parameters: Iterable[Any]) -> str:
    """``4 parameters, 1,234 elements``; those of unknown shapes are said to be."""
    sizes = [elements_of(p) for p in parameters]
    open_count = sizes.count(None)
    known = counted(sum(n for n in sizes if n is not None), "element")
    waiting = f", {open_count} of shapes not known yet" if open_count else ""
    return f"{counted(len(sizes), 'parameter')}, {known}{waiting}"


def dtype_name(dtype: Any) -> str:
    """The name of a dtype, which parameters keep as it was given: a name or a class."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype)


def _arguments(kind: type) -> dict[str, Any]:
    """The arguments of a class with their defaults; those of its bases as far as keywords are passed on."""
    found: dict[str, Any] = {}
    for each in kind.__mro__[:-1]:
        init = vars(each).get("__init__")
        if init is None:
            continue
        parameters = list(inspect.signature(init).parameters.values())[1:]
        named = (p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        found = {**found, **{p.name: p.default for p in named if p.name not in found}}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found


def _is_same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    try:
        return bool(value == default)
    except Exception:  # arrays, and what else compares as it likes
        return False
