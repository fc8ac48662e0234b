"""The settings of an optimizer as plain values, which ranks compare before they train together, and at each step."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Mapping
from typing import Any, cast

import numpy as np

# What belongs to a process, or is another form of what else is there.
_LEFT_OUT = frozenset(
    {"param_dict", "sym_info", "_runner", "_index_update_count", "_all_index_update_counts", "idx2name"}
)
_SCALARS = (int, float, bool, str, type(None), np.float32, np.float64)


def settings_of(optimizer: Any) -> dict[str, Any]:
    """The class and the attributes of an optimizer and of its schedule; of what is no plain value, the class."""
    return {"class": type(optimizer).__name__, **_attributes(optimizer)}


def scalars_of(optimizer: Any) -> dict[str, Any]:
    """The scalars that an optimizer and its schedule were made with, as they are now, its count and multipliers.

    A step may change them, and a user may on one rank alone. What else a class keeps in attributes is its own.
    """
    found = {"class of the optimizer": type(optimizer).__name__, **_scalars(optimizer)}
    found["lr"], found["num_update"] = optimizer.lr, optimizer.num_update
    for name in ("lr_mult", "wd_mult"):  # parameters have those of their own
        found[f"{name} of the optimizer"] = dict(getattr(optimizer, name))
    schedule = optimizer.lr_scheduler
    if schedule is not None:
        found |= {f"{name} of lr_scheduler": value for name, value in _scalars(schedule).items()}
    return found


class ScalarsReader:
    """Tells whether the scalars of an optimizer are those of before, which takes a fraction of reading them again.

    Those called ``changing`` are left out.
    """

    def __init__(self, optimizer: Any, changing: Collection[str]) -> None:
        schedule = optimizer.lr_scheduler
        self._readers = (
            [_ObjectReader(optimizer, changing)]
            if schedule is None
            else [_ObjectReader(optimizer, changing), _ObjectReader(schedule, ())]
        )
        self._multipliers = dict(optimizer.lr_mult), dict(optimizer.wd_mult)
        self._lr = optimizer.lr

    def finds_as_before(self, optimizer: Any) -> bool:
        """Whether :func:`scalars_of` of the optimizer would be equal."""
        if optimizer is not self._readers[0].instance or optimizer.lr != self._lr:
            return False
        if (optimizer.lr_mult, optimizer.wd_mult) != self._multipliers:
            return False
        return all(map(_ObjectReader.finds_as_before, self._readers))


class _ObjectReader:
    """The scalars of one object, and which its other attributes are, at one time."""

    def __init__(self, instance: object, changing: Collection[str]) -> None:
        self.instance = instance
        names = [name for name in _named(type(instance)) if hasattr(instance, name) and name not in changing]
        scalars = [name for name in names if type(getattr(instance, name)) in _SCALARS]
        others = [name for name in names if name not in scalars]
        # Of two names at least, getters return tuples.
        self._scalars = operator.attrgetter("__class__", "__class__", *scalars)
        self._others = operator.attrgetter("__class__", "__class__", *others)
        self._found = self._scalars(instance), self._others(instance), len(vars(instance))

    def finds_as_before(self) -> bool:
        """Whether scalars are equal, and other attributes the same objects."""
        scalars, others, count = self._found
        instance = self.instance
        try:
            is_equal = self._scalars(instance) == scalars and len(instance.__dict__) == count
            return is_equal and all(map(operator.is_, self._others(instance), others))
        except AttributeError:
            return False


def _scalars(instance: object) -> dict[str, Any]:
    values = ((name, getattr(instance, name, ...)) for name in _named(type(instance)))
    return {name: value for name, value in values if type(value) in _SCALARS}


@functools.lru_cache(maxsize=256)
def _named(kind: type) -> tuple[str, ...]:
    """The names of what the constructors of a class and of its bases take."""
    found: dict[str, None] = {}
    for each in kind.__mro__[:-1]:
        code = getattr(vars(each).get("__init__"), "__code__", None)
        if code is not None:
            found |= dict.fromkeys(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])
    return tuple(found)


def _attributes(instance: object) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(instance).items() if name not in _LEFT_OUT}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return cast("Any", value).item()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    kind = type(value).__name__
    return {"class": kind, **_attributes(value)} if kind.endswith("Scheduler") and hasattr(value, "__dict__") else kind
