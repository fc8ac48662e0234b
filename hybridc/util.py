"""``mx.util``: which semantics shapes and arrays have, variables of the environment, GPUs.

NumPy's semantics of *shapes* say whether 0 is a size in the shapes that are given to symbols, or means unknown. Arrays
may have sizes of 0 and shapes of no sizes in any case. NumPy's *arrays*, ``mx.np``, do not exist in this version: what
turns them on raises where it does.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.base import c_str, check_call, py_str
from hybridc.context import Context, gpu_memory_info, num_gpus
from hybridc.errors import ArgumentTypeError, UnsupportedError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE

T = TypeVar("T", bound=Callable[..., Any])

__all__ = [
    "c_str",
    "check_call",
    "default_array",
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "makedirs",
    "np_array",
    "np_shape",
    "np_ufunc_legal_option",
    "py_str",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
    "wrap_np_binary_func",
    "wrap_np_unary_func",
]

# --- shapes ----------------------------------------------------------------------------------------------------


def set_np_shape(active: bool) -> bool:
    """Say whether 0 is a size in the shapes that are given to symbols on this thread; what was said before."""
    previous, STATE.np_shape = STATE.np_shape, bool(active)
    return previous


def is_np_shape() -> bool:
    """Whether 0 is a size in the shapes given to symbols; else it is an unknown size, as -1 is in any case."""
    return STATE.np_shape


class _NumpyShapeScope:
    """``with np_shape():``."""

    def __init__(self, is_np_shape: bool | None) -> None:
        self._wanted = is_np_shape
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(is_np_shape() if self._wanted is None else set_np_shape(self._wanted))

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        set_np_shape(self._previous.pop())


def np_shape(active: bool = True) -> _NumpyShapeScope:
    """A context manager in which 0 is a size in the shapes that are given to symbols, or is not."""
    return _NumpyShapeScope(active)


def use_np_shape(func: T) -> T:
    """Decorator: a function, or every method and property of a class, runs in :func:`np_shape`."""
    return _within(np_shape, use_np_shape, func)


def _within(scope: Callable[[], Any], decorator: Callable[[Any], Any], func: T) -> T:
    """The function, or the class with its methods and properties, that runs in a scope."""
    if inspect.isclass(func):
        for name, found in inspect.getmembers(func):
            if isinstance(found, property):
                getter = decorator(found.fget) if found.fget is not None else None
                setattr(func, name, property(getter, found.fset, found.fdel, found.__doc__))
            elif inspect.isfunction(found) or inspect.ismethod(found):
                setattr(func, name, _like(inspect.getattr_static(func, name), decorator(found)))
        return cast("T", func)
    if not callable(func):
        name = getattr(decorator, "__name__", "")
        raise ArgumentTypeError(f"{name} can only decorate classes and callable objects, got {type(func).__name__}")

    @functools.wraps(func)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return func(*args, **kwargs)

    return cast("T", scoped)


def _like(found: Any, wrapped: Any) -> Any:
    """A method that is bound already, or needs no object, stays so."""
    return staticmethod(wrapped) if isinstance(found, staticmethod | classmethod) else wrapped


# --- arrays ----------------------------------------------------------------------------------------------------


def is_np_array() -> bool:
    """Whether ``mx.np`` arrays are used: no."""
    return False


def is_np_default_dtype() -> bool:
    """Whether float64 is the default dtype: no, float32 is."""
    return False


class _NumpyArrayScope:
    """``with np_array():``; it cannot be entered for arrays of ``mx.np``."""

    def __init__(self, is_np_array: bool) -> None:
        self._wanted = is_np_array

    def __enter__(self) -> _NumpyArrayScope:
        _check_array("np_array", self._wanted)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        """Nothing to restore."""


def _check_array(what: str, wanted: bool) -> None:
    if wanted:
        raise UnsupportedError(f"{what}: mx.np arrays are not supported by this version; use mx.nd")


def np_array(active: bool = True) -> _NumpyArrayScope:
    """A context manager for ``mx.np`` arrays; entering it raises unless ``active`` is False. Use ``mx.nd``."""
    return _NumpyArrayScope(active)


def use_np_array(func: T) -> T:
    """Decorator: a function, or the methods and properties of a class, that raise when used, see :func:`np_array`."""
    return _within(np_array, use_np_array, func)


def use_np(func: T) -> T:
    """As :func:`use_np_array`: what is decorated can be defined, but not used, since ``mx.np`` does not exist."""
    return use_np_shape(use_np_array(func))


def set_np(shape: bool = True, array: bool = True) -> None:
    """Say whether 0 is a size in shapes, see :func:`np_shape`; ``array=True`` raises: there is no ``mx.np``."""
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    _check_array("set_np", array)
    set_np_shape(shape)


def reset_np() -> None:
    """MXNet's legacy semantics: 0 in the shapes that are given to symbols is an unknown size."""
    set_np(shape=False, array=False)


# --- functions like NumPy's ------------------------------------------------------------------------------------

# The keywords of NumPy's ufuncs that are accepted with these values only, and the values that others may have.
_UFUNC_DEFAULTS = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_DTYPES = (np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64)


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Whether NumPy's ufuncs take such a keyword with such a value."""
    match key:
        case "where":
            return True
        case "casting":
            return value in _CASTINGS
        case "order":
            return isinstance(value, str)
        case "dtype":
            return value in _DTYPES or value in [d.__name__ for d in _DTYPES]
        case "subok":
            return isinstance(value, bool)
        case _:
            return False


def _check_ufunc(name: str, kwargs: dict[str, Any]) -> None:
    """Raise unless the keywords of a ufunc have their defaults."""
    for key, value in kwargs.items():
        if key not in _UFUNC_DEFAULTS:
            raise TypeError(f"{key} is an invalid keyword to function '{name}'")
        if value != _UFUNC_DEFAULTS[key]:
            if np_ufunc_legal_option(key, value):
                raise NotImplementedError(f"{key}={value} is not implemented yet for operator {name}")
            raise TypeError(f"{key}={value} not understood for operator {name}")


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function of one array that takes a ufunc's keywords, as long as they have their defaults."""

    @functools.wraps(func)
    def wrapped(x: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_ufunc(func.__name__, kwargs)
        return func(x, out=out)

    return wrapped


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function of two arrays that takes a ufunc's keywords, as long as they have their defaults."""

    @functools.wraps(func)
    def wrapped(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_ufunc(func.__name__, kwargs)
        return func(x1, x2, out=out)

    return wrapped


def default_array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """``mx.nd.array``: the kind of arrays that are the default."""
    return nd.array(source_array, ctx, dtype)


def set_module(module: str | None) -> Callable[[T], T]:
    """Decorator: say of which module a function or class is."""

    def decorator(func: T) -> T:
        if module is not None:
            func.__module__ = module
        return func

    return decorator


# --- the environment, folders, GPUs -----------------------------------------------------------------------------


def makedirs(d: str) -> None:
    """Make a folder and those around it, unless it is there."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def getenv(name: str) -> str | None:
    """The value of a variable of the environment, or None."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set a variable of the environment; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count() -> int:
    """Number of GPUs on which arrays can be."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """The free bytes and all bytes of a GPU's memory."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """The compute capability of a GPU: 80 for ``sm_80``."""
    if ctx.device_type != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    major, minor = HOOKS.devices().device(ctx.device_id).capability
    return 10 * major + minor
