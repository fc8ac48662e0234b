"""NumPy's protocols: ``numpy.mean(x)`` of an array of ``mx.np`` is ``mx.np.mean(x)``."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as onp

from hybridc.np.numpy_fallback import on_host, ours

F = TypeVar("F")


def _function(name: str) -> Any:
    return getattr(sys.modules["hybridc.np"], name, None)


def with_array_function_protocol(func: F) -> F:
    """The function itself: arrays of ``mx.np`` follow NumPy's protocol for functions always."""
    return func


def with_array_ufunc_protocol(func: F) -> F:
    """The function itself: arrays of ``mx.np`` follow NumPy's protocol for universal functions always."""
    return func


def called_by_numpy(func: Any, args: Any, kwargs: Any) -> Any:
    """``numpy.func(*args)`` with arrays of ``mx.np`` among the arguments: our function, or else NumPy's on copies."""
    known = _function(func.__name__) if func.__module__ in ("numpy", "numpy.linalg") else None
    if func.__module__ == "numpy.linalg":
        known = getattr(_function("linalg"), func.__name__, None)
    if known is not None:
        try:
            return known(*args, **kwargs)
        except (TypeError, NotImplementedError):
            pass  # arguments that NumPy's function alone takes
    return ours(func(*on_host(args), **on_host(kwargs)))


def called_as_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: Any) -> Any:
    """``numpy.ufunc(*inputs)`` with arrays of ``mx.np`` among the inputs."""
    out = kwargs.get("out")
    if out is not None and any(isinstance(y, onp.ndarray) for y in out):
        return getattr(ufunc, method)(*on_host(inputs), **on_host(kwargs))
    known = _function(ufunc.__name__)
    if method == "__call__" and known is not None and set(kwargs) <= {"out"}:
        return known(*inputs, **({} if out is None else {"out": out[0]}))
    return ours(getattr(ufunc, method)(*on_host(inputs), **on_host(kwargs)))
