"""The registry of operators, by their names in the IR and the names of their functions; what users may change of them.

Operators are registered by importing their modules. Some modules are imported when a name is first not found: those of
:data:`LATE_MODULES`, then those of other packages under the entry point group ``hybridc.operators``.
"""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hybridc.errors import MXNetError
from hybridc.ground.locks import ForkLock

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator

Method = TypeVar("Method")

ENTRY_POINTS = "hybridc.operators"
# Those whose modules were imported; operators() and functions() have all.
OPERATORS: dict[str, type[Operator]] = {}
FUNCTIONS: dict[str, type[Operator]] = {}
# Modules of hybridc's own operators, in the order in which they are imported until a name is found.
LATE_MODULES: list[str] = []
# Is held while they are imported: an operator is registered before the rest of its module is there.
_LATE = ForkLock()
# Called with the name of each function that is bound to another operator.
LISTENERS: list[Callable[[str], None]] = []
_ROLE = "_role_in_keys"  # the attribute of a function that is marked


def add(cls: type[Operator], override: bool = False) -> None:
    """Register an operator class under its name and aliases, which must be unused, unless ``override``.

    A class of the same name in the same place is a newer version of it, as when its file is reloaded.
    """
    if not cls.__module__.startswith("hybridc."):
        _import_late_modules()  # one of them may have the name
    old = OPERATORS.get(cls.NAME)
    if old is not None and not override and old.__qualname__ != cls.__qualname__:
        raise MXNetError(
            f"operator {cls.NAME!r} is registered already, by {old.__module__}.{old.__qualname__}; choose another "
            "name, or pass override=True to replace it"
        )
    names = (cls.NAME.partition(".")[2], *cls.ALIASES)
    for function in names:
        taken = FUNCTIONS.get(function)
        if taken is not None and not override and taken.NAME != cls.NAME:
            raise MXNetError(
                f"operator {cls.NAME!r}: mx.nd.{function} is the operator {taken.NAME!r} already; choose another name, "
                "or pass override=True to replace it"
            )
    OPERATORS[cls.NAME] = cls
    for function in names:
        known = function in FUNCTIONS
        FUNCTIONS[function] = cls
        if known:
            for listener in LISTENERS:
                listener(function)


def operators() -> dict[str, type[Operator]]:
    """All operators by their names in the IR; entry points count once they are loaded."""
    _import_late_modules()
    return OPERATORS


def functions() -> dict[str, type[Operator]]:
    """All operators by the names of their functions, likewise."""
    _import_late_modules()
    return FUNCTIONS


def _import_late_modules(until: str = "") -> None:
    """Import the late modules, or those with which a name is found."""
    with _LATE.current:
        for module in LATE_MODULES:
            if until in OPERATORS or until in FUNCTIONS:
                return
            importlib.import_module(module)


def has_operator(name: str) -> bool:
    """Whether hybridc, or a module that was imported, has an operator of this name in the IR."""
    _import_late_modules(name)
    return name in OPERATORS


def operator(name: str) -> type[Operator]:
    """The operator class of a name in the IR."""
    if not has_operator(name):
        load_entry_points()
    try:
        return OPERATORS[name]
    except KeyError:
        raise MXNetError(f"no operator {name!r}; is the module that registers it imported?") from None


def has_function(name: str) -> bool:
    """Whether an operator has a function of this name; all modules are imported before the answer is no."""
    if not name.startswith("__"):
        _import_late_modules(name)
    if name not in FUNCTIONS and not name.startswith("_"):
        load_entry_points()
    return name in FUNCTIONS


def of_function(name: str) -> type[Operator]:
    """The operator whose function is called so, which there is."""
    has_function(name)
    return FUNCTIONS[name]


def of_mxnet(name: str) -> type[Operator] | None:
    """The operator that MXNet calls so: by a function's name, or as ``_contrib_quadratic`` is contrib.quadratic.

    ``_sparse_dot`` is MXNet's second name of ``dot``, ``_npx_relu`` of ``relu``, ``_npx__image_crop`` of
    ``_image_crop``.
    """
    if name.startswith("_npx_"):
        return of_mxnet(name.removeprefix("_npx_"))
    if has_function(name):
        return FUNCTIONS[name]
    found = next((cls for cls in operators().values() if name in (cls.nnvm_name(), *_aliases(cls))), None)
    return of_mxnet(name.removeprefix("_sparse_")) if found is None and name.startswith("_sparse_") else found


def of_scalar() -> dict[str, tuple[type[Operator], bool]]:
    """MXNet's operators of an array and a number: the operator of two arrays, and whether the number is first."""
    reflected: dict[str, tuple[type[Operator], bool]] = {}
    plain: dict[str, tuple[type[Operator], bool]] = {}
    for cls in operators().values():
        names: tuple[str, ...] = vars(cls).get("NNVM_SCALAR", ())
        reflected.update((name, (cls, True)) for name in names[1:2])
        plain.update((name, (cls, False)) for name in (*names[:1], *names[2:]))
    return reflected | plain


def snake_of_scalar(name: str) -> str:
    """``_RMinusScalar``, as early versions of MXNet wrote, is ``_rminus_scalar``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() if name.endswith("Scalar") else name


def _aliases(cls: type[Operator]) -> tuple[str, ...]:
    """Further names of an operator in files; not inherited: a subclass is another operator."""
    return vars(cls).get("NNVM_ALIASES", ())


@functools.cache
def load_entry_points() -> None:
    """Import, once, the modules of installed packages' entry points; a failure is a warning."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else "?"
            warnings.warn(
                f"the operators {entry.value!r} of package {package!r} could not be loaded: "
                f"{type(error).__name__}: {error}",
                stacklevel=2,
            )


class Revision:
    """``number`` counts changes of operator classes, which invalidate what was computed from them."""

    number: ClassVar[int] = 0


class Attached:
    """Attributes set on one class; subclasses do not inherit them.

    ``changes`` counts how often one was set on any class, which invalidates caches.
    ``METHODS`` maps NNVM's keys to the methods that they stand for.
    """

    FIELD: ClassVar[str] = "_NNVM"
    METHODS: ClassVar[dict[str, tuple[str, ...]]] = {}
    changes: ClassVar[int] = 0

    @classmethod
    def of(cls, operator: type[Operator]) -> dict[str, tuple[Any, int]]:
        """By key: the value and its plevel."""
        found = operator.__dict__.get(cls.FIELD)
        if found is None:
            found: Any = {}
            setattr(operator, cls.FIELD, found)
        return found


# --- what the cache on the disk makes of a user's operator that overrides a method ----------------------------------


def recorded(method: Method) -> Method:
    """Mark a method whose results a key has, by themselves or as a part of the trace."""
    return _marked(method, "recorded")


def called_later(method: Method) -> Method:
    """Mark a method, or all of a class, that programs call when they run, or users, files or tests: no key has it."""
    for member in vars(method).values() if isinstance(method, type) else ():
        if callable(_function(member)):
            _marked(_function(member), "called later")
    return method if isinstance(method, type) else _marked(method, "called later")


def unrecorded(method: Method) -> Method:
    """Mark a method that the compiler asks and no key has: of an operator that overrides it nothing is kept."""
    return _marked(method, "unrecorded")


def _marked(method: Method, role: str) -> Method:
    vars(method)[_ROLE] = role
    return method


def _function(member: Any) -> Any:
    """The function in a class or static method, or in a property."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def role_of(cls: type[Operator], name: str) -> str | None:
    """The mark of a method where it is first defined."""
    members = [vars(base)[name] for base in reversed(cls.__mro__) if name in vars(base)]
    return next((role for x in members if (role := getattr(_function(x), _ROLE, None)) is not None), None)
