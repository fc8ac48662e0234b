"""Facts of ``mx.np`` arrays that are not arrays: shared memory, dtypes; how they are printed and read from text."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.
# pyright: reportPrivateUsage=false
# An array's buffer belongs to all classes of arrays.

from __future__ import annotations

from typing import Any

import numpy as onp

from hybridc.array.ndarray import NDArray
from hybridc.dialects.numpy_rules import common
from hybridc.np.making import array

__all__ = [
    "can_cast",
    "genfromtxt",
    "may_share_memory",
    "min_scalar_type",
    "promote_types",
    "result_type",
    "set_printoptions",
    "shares_memory",
]


def _buffer(name: str, x: Any) -> Any:
    if isinstance(x, NDArray):
        return x._data
    if isinstance(x, onp.ndarray):
        return x
    raise TypeError(f"mx.np.{name}: expected arrays, got {type(x).__name__}")


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether the memory of two arrays lies in a common range."""
    return onp.may_share_memory(_buffer("may_share_memory", a), _buffer("may_share_memory", b), max_work)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether two arrays have an element in common."""
    return onp.shares_memory(_buffer("shares_memory", a), _buffer("shares_memory", b), max_work)


def _dtype(x: Any) -> Any:
    return onp.dtype(x.dtype) if hasattr(x, "dtype") and not isinstance(x, type) else x


def promote_types(type1: Any, type2: Any) -> onp.dtype[Any]:
    """The dtype that both can be cast to safely, by NumPy's rules."""
    return onp.promote_types(type1, type2)


def result_type(*arrays_and_dtypes: Any) -> onp.dtype[Any]:
    """The dtype of arithmetic on arrays, numbers and dtypes, by the rules of ``mx.np``."""
    # COMPAT(mxnet): MXNet raises for its arrays.
    dtypes = [_dtype(x) for x in arrays_and_dtypes]
    numbers = [x for x in dtypes if isinstance(x, bool | int | float)]
    known = [onp.dtype(x) for x in dtypes if not isinstance(x, bool | int | float)]
    if not known:
        return onp.result_type(*numbers)
    dtype = common(known)
    if dtype.kind in "iub" and any(isinstance(n, float) for n in numbers):
        return onp.dtype(onp.float32)
    if dtype.kind == "b" and any(not isinstance(n, bool) for n in numbers):
        return onp.dtype(onp.int64)
    return dtype


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether elements of a dtype, or of an array, can be cast to another by a rule of NumPy's."""
    return onp.can_cast(_dtype(from_), to, casting)


def min_scalar_type(a: Any) -> onp.dtype[Any]:
    """The smallest dtype that has a number."""
    return onp.min_scalar_type(a.asnumpy() if isinstance(a, NDArray) else a)


def set_printoptions(precision: int | None = None, threshold: int | None = None, **kwarg: Any) -> None:
    """Set how arrays are printed, as ``numpy.set_printoptions`` does, whose options these are."""
    onp.set_printoptions(precision, threshold, **kwarg)


def genfromtxt(*args: Any, **kwargs: Any) -> Any:
    """An array of the numbers in a text file or in lines, as ``numpy.genfromtxt`` reads it; float64 by default."""
    return array(onp.genfromtxt(*args, **kwargs))
