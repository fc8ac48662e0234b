"""``mx.util``: which semantics shapes and arrays have, variables of the environment, GPUs.

NumPy's semantics of *shapes* say whether 0 is a size in the shapes that are given to symbols, or means unknown. Arrays
may have sizes of 0 and shapes of no sizes in any case. NumPy's *arrays* say which class the arrays have that are made
without inputs, as parameters are: those of ``mx.np``, or of ``mx.nd``. Both belong to a thread.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.base import c_str, check_call, py_str
from hybridc.context import Context, gpu_memory_info, num_gpus
from hybridc.errors import ArgumentTypeError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE
from hybridc.np.apply import check_ufunc, np_ufunc_legal_option

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
    """Say whether 0 is a size in the shapes that are given to symbols on this thread; what was said before.

    Parameters
    ----------
    active:
        Whether it is a size; else it is an unknown size.
    """
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
    """A context manager in which 0 is a size in the shapes that are given to symbols, or is not.

    Parameters
    ----------
    active:
        Whether 0 is a size there; else it is an unknown size.
    """
    return _NumpyShapeScope(active)


def use_np_shape(func: T) -> T:
    """Decorator: a function, or every method and property of a class, runs in :func:`np_shape`.

    Parameters
    ----------
    func:
        A function, or a class, whose methods and properties are changed in place; anything else is an
        ArgumentTypeError.
    """
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
    """Whether what makes arrays without inputs, as parameters and data sets do, makes those of ``mx.np``."""
    return STATE.np_array


def is_np_default_dtype() -> bool:
    """Whether float64 is the default dtype: no, float32 is."""
    return False


class _NumpyArrayScope:
    """``with np_array():``."""

    def __init__(self, is_np_array: bool) -> None:
        self._wanted = is_np_array
        self._previous: list[bool] = []

    def __enter__(self) -> _NumpyArrayScope:
        self._previous.append(_set_np_array(self._wanted))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        STATE.np_array = self._previous.pop()


def _set_np_array(active: bool) -> bool:
    """Say whether arrays of ``mx.np`` are made; what was said before."""
    previous, STATE.np_array = STATE.np_array, bool(active)
    if active:
        HOOKS.np()  # which gives these arrays their methods
    return previous


def np_array(active: bool = True) -> _NumpyArrayScope:
    """A context manager in which parameters, data sets, … make arrays of ``mx.np``, or do not.

    Parameters
    ----------
    active:
        Whether arrays of ``mx.np`` are made there; else those of ``mx.nd``.
    """
    return _NumpyArrayScope(active)


def use_np_array(func: T) -> T:
    """Decorator: a function, or the methods and properties of a class, run in :func:`np_array`.

    Parameters
    ----------
    func:
        A function, or a class, whose methods and properties are changed in place; anything else is an
        ArgumentTypeError.
    """
    return _within(np_array, use_np_array, func)


def use_np(func: T) -> T:
    """Decorator: a function, or the methods and properties of a class, run in NumPy's semantics.

    See :func:`np_shape` and :func:`np_array`.

    Parameters
    ----------
    func:
        A function, or a class, whose methods and properties are changed in place; anything else is an
        ArgumentTypeError.
    """
    return use_np_shape(use_np_array(func))


def set_np(shape: bool = True, array: bool = True) -> None:
    """NumPy's semantics of shapes and arrays from now on, in this thread: see :func:`np_shape`, :func:`np_array`.

    Parameters
    ----------
    shape:
        NumPy's semantics of shapes.
    array:
        NumPy's semantics of arrays, which need those of shapes, else a ValueError.
    """
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    _set_np_array(array)
    set_np_shape(shape)


def reset_np() -> None:
    """MXNet's legacy semantics: arrays are those of ``mx.nd``, and 0 in the shapes of symbols is an unknown size."""
    set_np(shape=False, array=False)


# --- functions like NumPy's ------------------------------------------------------------------------------------


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function of one array that takes a ufunc's keywords, as long as they have their defaults.

    Parameters
    ----------
    func:
        A function ``func(x, out=None)``.
    """

    @functools.wraps(func)
    def wrapped(x: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc(func.__name__, kwargs)
        return func(x, out=out)

    return wrapped


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function of two arrays that takes a ufunc's keywords, as long as they have their defaults.

    Parameters
    ----------
    func:
        A function ``func(x1, x2, out=None)``.
    """

    @functools.wraps(func)
    def wrapped(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc(func.__name__, kwargs)
        return func(x1, x2, out=out)

    return wrapped


def default_array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array of the kind that is the default: of ``mx.np`` in :func:`np_array`, else of ``mx.nd``.

    Parameters
    ----------
    source_array:
        What arrays are made of: an array, a list or a number.
    ctx:
        The device; None is the current one.
    dtype:
        The dtype; None is that of an array, and float32 for others.
    """
    return HOOKS.np().array(source_array, dtype, ctx) if STATE.np_array else nd.array(source_array, ctx, dtype)


def set_module(module: str | None) -> Callable[[T], T]:
    """Decorator: say of which module a function or class is.

    Parameters
    ----------
    module:
        The name; None changes nothing.
    """

    def decorator(func: T) -> T:
        if module is not None:
            func.__module__ = module
        return func

    return decorator


# --- the environment, folders, GPUs -----------------------------------------------------------------------------


def makedirs(d: str) -> None:
    """Make the folder ``d`` and those around it, unless it is there; ``~`` is the user's own folder."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def getenv(name: str) -> str | None:
    """The value of ``name``, a variable of the environment, or None."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set the variable ``name`` of the environment to ``value``; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count() -> int:
    """Number of GPUs on which arrays can be."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """The free bytes and all bytes of the memory of a GPU, whose number is ``gpu_dev_id``."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """The compute capability of a GPU ``ctx``: 80 for ``sm_80``; a ValueError for another device."""
    if ctx.device_type != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    major, minor = HOOKS.devices().device(ctx.device_id).capability
    return 10 * major + minor
