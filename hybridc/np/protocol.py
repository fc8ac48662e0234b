"""NumPy's protocols: ``numpy.mean(x)`` of an array of ``mx.np`` is ``mx.np.mean(x)``."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import sys
from typing import Any

import numpy as onp

from hybridc.array.ndarray import NDArray
from hybridc.np.making import array


def _on_host(value: Any) -> Any:
    """A value with NumPy's arrays for ours."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, list | tuple):
        return type(value)([_on_host(part) for part in value])
    if isinstance(value, dict):
        return {key: _on_host(part) for key, part in value.items()}
    return value


def _ours(value: Any) -> Any:
    """A result of NumPy with our arrays for its own."""
    if isinstance(value, onp.ndarray):
        return array(value) if value.dtype.kind in "fiub" else value
    if isinstance(value, list | tuple) and any(isinstance(part, onp.ndarray) for part in value):
        return type(value)([_ours(part) for part in value])
    return value


def _function(name: str) -> Any:
    return getattr(sys.modules["hybridc.np"], name, None)


def called_by_numpy(func: Any, args: Any, kwargs: Any) -> Any:
    """``numpy.func(*args)`` with arrays of ``mx.np`` among the arguments: our function, or else NumPy's on copies."""
    ours = _function(func.__name__) if func.__module__ in ("numpy", "numpy.linalg") else None
    if func.__module__ == "numpy.linalg":
        ours = getattr(_function("linalg"), func.__name__, None)
    if ours is not None:
        try:
            return ours(*args, **kwargs)
        except (TypeError, NotImplementedError):
            pass  # arguments that NumPy's function alone takes
    return _ours(func(*_on_host(args), **_on_host(kwargs)))


def called_as_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: Any) -> Any:
    """``numpy.ufunc(*inputs)`` with arrays of ``mx.np`` among the inputs."""
    out = kwargs.get("out")
    if out is not None and any(isinstance(y, onp.ndarray) for y in out):
        return getattr(ufunc, method)(*_on_host(inputs), **_on_host(kwargs))
    ours = _function(ufunc.__name__)
    if method == "__call__" and ours is not None and set(kwargs) <= {"out"}:
        return ours(*inputs, **({} if out is None else {"out": out[0]}))
    return _ours(getattr(ufunc, method)(*_on_host(inputs), **_on_host(kwargs)))
