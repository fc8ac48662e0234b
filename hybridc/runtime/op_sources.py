"""What the operators that users wrote mean: a fingerprint that is another when one of them changes.

It covers the files of their modules, their methods' code, and what these find around them: defaults, closures, global
numbers and functions. Where one finds something else there, nothing can be said, and nothing is kept.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
import types
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from hybridc.dialects import registry
from hybridc.dialects.attribute import Attribute
from hybridc.runtime.plan_bytes import NotWritable, written
from hybridc.trace.structure import as_list

# What a class has beside its methods and fields, and what operators keep there.
_UNSEEN = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__annotations__",
    "_BOUND",
    "__firstlineno__",
    "__static_attributes__",
}


# What own classes had when they were looked at.
_KNOWN: weakref.WeakKeyDictionary[type, Sequence[Any]] = weakref.WeakKeyDictionary()


def operators_of_users() -> str:
    """A digest of all registered operators that are not hybridc's own; NotWritable if one cannot be told."""
    users = {name: cls for name, cls in registry.OPERATORS.items() if not _is_own(cls)}
    if not users:
        return ""
    walk = _Walk()
    found: list[Any] = []
    for name, cls in sorted(users.items()):
        if _has_more(cls):
            raise NotWritable(f"attributes attached to {name}")
        names = sorted(function for function, operator in registry.FUNCTIONS.items() if operator is cls)
        found.append((name, names, walk.class_(cls)))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _is_own(cls: type) -> bool:
    """Whether a class is written in a file of hybridc, and is as it stands there."""
    if not _is_ours(cls.__module__) or _has_more(cls):
        return False
    found = [*vars(cls).values()]
    known = _KNOWN.get(cls, ())
    if len(found) != len(known) or not all(map(operator.is_, found, known)):
        if any(type(v) is types.FunctionType and not _is_ours(v.__module__) for v in found):
            return False  # a user has put another method into it
        _KNOWN[cls] = found
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls


def _has_more(cls: type) -> bool:
    """Whether attributes were attached to a class, as in NNVM."""
    nnvm = sys.modules.get("hybridc.dialects.nnvm")  # who attaches some imports it
    return nnvm is not None and bool(cls.__dict__.get(nnvm.Attached.FIELD))


def changes() -> int:
    """How often attributes were attached to operators in this process."""
    nnvm = sys.modules.get("hybridc.dialects.nnvm")
    return 0 if nnvm is None else nnvm.Attached.changes


def _is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] == "hybridc"


class _Walk:
    """Follows code to what it uses; what was met before is not followed again."""

    def __init__(self) -> None:
        self._met: set[int] = set()

    def class_(self, cls: type) -> Any:
        """A class: its file, its fields and methods, and those of its bases."""
        found: list[Any] = []
        for base in cls.__mro__:
            if base is object or _is_own(base):
                found.append(base.__qualname__)
                continue
            fields = [(k, self.value(v)) for k, v in sorted(vars(base).items()) if k not in _UNSEEN]
            found.append((base.__module__, base.__qualname__, _file(base.__module__), fields))
        return found

    def value(self, value: Any) -> Any:
        """Anything that code refers to."""
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, staticmethod | classmethod):
            return self.value(cast(Any, value).__func__)
        if isinstance(value, property):
            return [self.value(f) for f in (value.fget, value.fset, value.fdel)]
        if isinstance(value, types.ModuleType):
            return _module(value)
        if isinstance(value, type):
            return value.__module__, value.__qualname__, _file(value.__module__)
        if isinstance(value, types.BuiltinFunctionType | np.ufunc):
            return value.__name__
        if isinstance(value, np.ndarray):
            return _array(cast("np.ndarray[Any, Any]", value))
        if isinstance(value, Attribute):
            return repr(value)
        if isinstance(value, tuple | list):
            return [self.value(v) for v in as_list(cast(Any, value))]
        if type(value) is dict:
            return [(self.value(k), self.value(v)) for k, v in cast("dict[Any, Any]", value).items()]
        return written(value)

    def function(self, function: Any) -> Any:
        """A function: its code, and what it finds outside."""
        name = function.__module__, function.__qualname__
        if _is_ours(function.__module__) or id(function) in self._met:
            return name
        self._met.add(id(function))
        cells = [self._cell(c) for c in function.__closure__ or ()]
        defaults = self.value(function.__defaults__ or ()), self.value(function.__kwdefaults__ or {})
        outside = function.__globals__
        used = {n: self.value(outside[n]) for n in _names(function.__code__) if n in outside}
        return name, _code(function.__code__), cells, defaults, sorted(used.items()), _file(function.__module__)

    def _cell(self, cell: Any) -> Any:
        try:
            return self.value(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            return None


def _array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.hasobject:
        raise NotWritable("an array of objects")
    return array.dtype.str, array.shape, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _names(code: types.CodeType) -> list[str]:
    """The names that code, and code inside it, looks up; those of attributes are among them."""
    inside = [n for c in code.co_consts if isinstance(c, types.CodeType) for n in _names(c)]
    return sorted({*code.co_names, *inside})


def _code(code: types.CodeType) -> Any:
    consts = [_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return code.co_code.hex(), consts, code.co_names, code.co_varnames, code.co_freevars


def _module(module: types.ModuleType) -> Any:
    if _is_ours(module.__name__) or module.__name__ in sys.stdlib_module_names:
        return module.__name__
    return module.__name__, str(getattr(module, "__version__", "")), _file(module.__name__)


def _file(module: str) -> str:
    """A digest of the file that a module was read from."""
    if _is_ours(module) or module.partition(".")[0] in (*sys.stdlib_module_names, "builtins", "numpy"):
        return ""
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        raise NotWritable(f"the module {module}, which has no file")
    return _digest(path)


@functools.lru_cache(256)
def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise NotWritable(f"{path}: {error}") from error
