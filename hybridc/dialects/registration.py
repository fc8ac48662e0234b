"""What a class must have to be registered as an operator; what is missing is told with the user's line."""

from __future__ import annotations

import inspect
import re
from typing import Any

from hybridc.dialects.operator import (
    Composite,
    Contraction,
    Elementwise,
    Movement,
    Opaque,
    Operator,
    Reduction,
)
from hybridc.errors import MXNetError
from hybridc.location import user_location

NAME = r"[a-z][a-z0-9_]*\.[a-z_][a-z0-9_]*"
ALIAS = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?"

# The methods that a kind leaves to its classes, and what they say.
_SHAPE = ("infer_shape", "def infer_shape(self, shapes): return shapes, [shape of the result]")
_EAGER = ("eager", "def eager(self, *arrays), which returns NumPy arrays")
_KINDS: dict[type[Operator], tuple[tuple[str, str], ...]] = {
    Elementwise: (("scalar", "def scalar(self, b, x), which computes with the builder b"),),
    Reduction: (),
    Contraction: (_SHAPE,),
    Movement: (_EAGER, _SHAPE),
    Composite: (("decompose", "def decompose(self, F, x), which returns the value by other operators"),),
    Opaque: (_EAGER, _SHAPE),
}
# As Opaque, if it has a state: the class of these methods is not known here, as its module registers operators itself.
_STATE = (
    ("create_state", "def create_state(self, shapes, dtypes), which returns the state"),
    ("forward", "def forward(self, state, *arrays), which returns NumPy arrays"),
)


def kinds(cls: type[Operator]) -> list[type[Operator]]:
    """The kinds that a class is of; it should be one."""
    return [kind for kind in _KINDS if issubclass(cls, kind)]


def missing(cls: type[Operator]) -> tuple[str, str] | None:
    """The first method that the class's kind leaves to it and that it lacks, with what it says."""
    for kind in kinds(cls):
        stateful = hasattr(cls, "create_state")
        base = next((c for c in cls.__mro__ if c.__name__ == "Stateful"), kind) if stateful else kind
        for method, says in _STATE if stateful else _KINDS[kind]:
            if getattr(cls, method) is getattr(base, method):
                return method, says
    return None


def require_operator(cls: Any, name: str, aliases: tuple[str, ...]) -> None:
    """Raise, with the user's line, unless the class can be registered under these names."""
    problem = _problem_of_names(name, aliases) or _problem_of_class(cls, name)
    if problem is not None:
        raise MXNetError(f"{user_location()}: {problem}")


def _problem_of_names(name: Any, aliases: tuple[str, ...]) -> str | None:
    if not isinstance(name, str) or isinstance(name, type):
        return f"mx.op.register takes a name, got {name!r}; write @mx.op.register('mylib.my_op')"
    if "." not in name:
        return f"operator name {name!r} has no dialect; put your library's name before it: 'mylib.{name.lower()}'"
    if not re.fullmatch(NAME, name):
        return (
            f"operator name {name!r} must be a dialect, a dot and a name, of lower-case letters, digits and _; other "
            f"spellings are aliases: register({_lower(name)!r}, {name.rpartition('.')[2]!r})"
        )
    wrong = next((a for a in aliases if not re.fullmatch(ALIAS, a)), None)
    return None if wrong is None else f"alias {wrong!r} of operator {name!r} cannot be the name of a Python function"


def _lower(name: str) -> str:
    return re.sub(r"[^a-z0-9_.]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def _problem_of_class(cls: Any, name: str) -> str | None:
    names = ", ".join(kind.__name__ for kind in _KINDS)
    if not inspect.isclass(cls) or not issubclass(cls, Operator):
        return f"operator {name!r} must be a class derived from one of mx.op's kinds ({names}), got {cls!r}"
    found = kinds(cls)
    if len(found) != 1:
        of = " and ".join(kind.__name__ for kind in found) or "no kind"
        return f"operator {name!r}: class {cls.__name__} is of {of}; derive it from one of {names}"
    lacks = missing(cls)
    if lacks is not None:
        kind = "Stateful" if hasattr(cls, "create_state") else found[0].__name__
        return f"operator {name!r}: class {cls.__name__} is {kind} and has no {lacks[0]}; write {lacks[1]}"
    return None
