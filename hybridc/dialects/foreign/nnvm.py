"""NNVM's view of operators: attributes under any key, attached to any operator without editing its class.

A key that names an interface (``FInferShape``, ``FGradient``, ``FCompute<cpu>``, …) *is* that method of the
class: reading it returns the method with NNVM's signature, setting it replaces the method for all its
callers. Any other key is stored as it is. Where NNVM's C++ has a shape with ``ndim() == 0`` or the
type -1, an unknown shape or dtype is None here; an unknown size is -1.
"""

from __future__ import annotations

from typing import Any

from hybridc.dialects import operator_registry
from hybridc.dialects.foreign.nnvm_interfaces import INTERFACES
from hybridc.dialects.foreign.nnvm_nodes import Interface, get
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import Attached
from hybridc.errors import ArgumentTypeError, MXNetError

PLEVEL = 10  # of methods in a class, and the default of set_attr


# --- the public functions -------------------------------------------------------------------------------------


def set_attr(op_name: str, key: str, value: Any, plevel: int = PLEVEL) -> None:
    """Attach to the operator ``op_name`` any ``value`` under any ``key``; of two the higher ``plevel`` wins.

    The methods in the operator's class have plevel 10, so that replacing one needs a higher one. Set
    attributes before the operator is used: compiled networks are not recompiled.
    """
    cls = get(op_name)
    if key.__class__ is not str or not key:
        raise ArgumentTypeError(f"operator {cls.NAME!r}: an attribute's key is a string, as 'TMyKey', got {key!r}")
    _check_kind(cls, key, value)
    attached = Attached.of(cls)
    present = attached[key][1] if key in attached else PLEVEL if defines(cls, key) else None
    if present == plevel:
        raise MXNetError(
            f"operator {cls.NAME!r} has the attribute {key!r} with plevel {plevel} already; pass a higher plevel to "
            "replace it"
        )
    if present is not None and plevel < present:
        return
    interface = INTERFACES.get(key)
    if interface is not None:
        _install(cls, interface, value)
    attached[key] = value, plevel
    Attached.changes += 1


def get_attr(op_name: str, key: str, default: Any = None) -> Any:
    """What the operator ``op_name`` has under ``key``: what was set, or a method with NNVM's signature, or ``default``.

    ``mx.op.get_attr("relu", "FGradient")`` can be called as ``f(node, ograds)``.
    """
    cls = get(op_name)
    attached = Attached.of(cls)
    if key in attached:
        return attached[key][0]
    return INTERFACES[key].adapted if defines(cls, key) else default


def list_attrs(op_name: str) -> list[str]:
    """The keys of the attributes of the operator ``op_name``: its interfaces, and those attached to it."""
    cls = get(op_name)
    return sorted({*Attached.of(cls), *(key for key in INTERFACES if defines(cls, key))})


# --- implementation -------------------------------------------------------------------------------------------


def defines(cls: type[Operator], key: str) -> bool:
    """Whether the class itself defines the interface of a key, beyond the base of all operators."""
    interface = INTERFACES.get(key)
    if interface is None:
        return False
    missing = object()
    return any(getattr(cls, m, missing) not in (missing, getattr(Operator, m, missing)) for m in interface.methods)


def _check_kind(cls: type[Operator], key: str, value: Any) -> None:
    """All attributes of a key must have one type, as in NNVM."""
    if key in INTERFACES and key != "TIsBackward" and not callable(value):
        raise MXNetError(f"operator {cls.NAME!r}: attribute {key!r} must be a function, got {value!r}")
    if key == "TIsBackward" and not isinstance(value, bool):
        raise MXNetError(f"operator {cls.NAME!r}: attribute {key!r} must be True or False, got {value!r}")
    for other in operator_registry.OPERATORS.values():
        known = other.__dict__.get(Attached.FIELD, {}).get(key)
        if known is not None and _kind(known[0]) != _kind(value):
            raise MXNetError(
                f"operator {cls.NAME!r}: attribute {key!r} is a {_kind(known[0])} for operator {other.NAME!r}, "
                f"got a {_kind(value)}; one key has one kind of values"
            )


def _kind(value: Any) -> str:
    return "function" if callable(value) else type(value).__name__


def _install(cls: type[Operator], interface: Interface, value: Any) -> None:
    """Replace the methods of the class; derived operators keep theirs."""
    derived = [c for c in operator_registry.operators().values() if c is not cls and issubclass(c, cls)]
    before = [(c, m, getattr(c, m)) for c in derived for m in interface.methods if hasattr(c, m)]
    interface.install(cls, value)
    for other, method, kept in before:
        if getattr(other, method) is not kept:
            setattr(other, method, kept)
    refresh(cls)


def refresh(cls: type[Operator]) -> None:
    """Invalidate caches of the changed class: bound operators and functions."""
    cls._BOUND.clear()
    for name, owner in operator_registry.FUNCTIONS.items():
        if owner is cls:
            for listener in operator_registry.LISTENERS:
                listener(name)
