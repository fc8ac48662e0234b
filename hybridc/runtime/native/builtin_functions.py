"""Builtin functions of Python at addresses of native code, which can all be sent to other code at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

_METH_FASTCALL = 0x80  # of methodobject.h


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_NEW_FUNCTION = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_METHODS: dict[int, _MethodDef] = {}  # a builtin function points to its definition as long as it lives


def _definition(address: int) -> _MethodDef:
    """The definition of all builtin functions that were made at an address."""
    return _METHODS.setdefault(address, _MethodDef(b"entry", address, _METH_FASTCALL, None))


def builtin(address: int, self: Any) -> Callable[..., Any]:
    """The builtin function at a code address."""
    return cast("Callable[..., Any]", _NEW_FUNCTION(ctypes.addressof(_definition(address)), self, None))


def redirect(address: int, to: int) -> None:
    """Let all builtin functions that were, or will be, made at an address run the code at another one.

    Python reads the address from the definition at each call, so nothing is added to the path of a call.
    """
    _definition(address).code = to
