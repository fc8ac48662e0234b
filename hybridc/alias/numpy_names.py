"""Names that NumPy no longer has, for programs of MXNet's time: ``np.float``, ``np.asscalar``, ``np.product``, ….

``python -m hybridc run`` adds those that NumPy lacks; ``import hybridc`` alone leaves NumPy as it is.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def add() -> None:
    """Give NumPy the names that it lacks; what it has stays."""
    for name, value in _removed().items():
        if name not in vars(np):
            setattr(np, name, value)
    np.fromstring = _fromstring(np.fromstring)
    np.array = _array(np.array)


def _removed() -> dict[str, Any]:
    """By name, what NumPy's releases 1.20 to 2.4 took away, as its release notes say to write it now."""
    types = {name: getattr(builtins, name) for name in ("bool", "int", "float", "complex", "object", "str")}
    scalars = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_, "string_": np.bytes_}
    constants = {"NaN": np.nan, "NAN": np.nan, "Inf": np.inf, "Infinity": np.inf, "infty": np.inf, "PINF": np.inf}
    functions = {"alltrue": np.all, "sometrue": np.any, "product": np.prod, "cumproduct": np.cumprod}
    more = {"in1d": np.isin, "row_stack": np.vstack, "trapz": np.trapezoid, "round_": np.round}
    return {
        **types,
        **scalars,
        **constants,
        "NINF": -np.inf,
        **functions,
        **more,
        "asscalar": _asscalar,
        "msort": _msort,
        "find_common_type": _find_common_type,
        "cast": _Cast(),
        "mat": np.asmatrix,
        "unicode": str,
        "typeDict": np.sctypeDict,
        "sctypes": {
            "int": [np.int8, np.int16, np.int32, np.int64],
            "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
            "float": [np.float16, np.float32, np.float64, np.longdouble],
            "complex": [np.complex64, np.complex128, np.clongdouble],
            "others": [bool, object, bytes, str, np.void],
        },
    }


def _fromstring(of_text: Callable[..., Any]) -> Callable[..., Any]:
    """``np.fromstring`` that reads the bytes of arrays, too, as it did without ``sep``."""

    @functools.wraps(of_text)
    def fromstring(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", **like: Any) -> Any:
        if sep:
            return of_text(string, dtype, count, sep=sep, **like)
        data = string.encode("latin-1") if isinstance(string, str) else string
        return np.frombuffer(data, dtype, count).copy()

    return fromstring


def _array(array: Callable[..., Any]) -> Callable[..., Any]:
    """``np.array`` whose ``copy=False`` copies where it must, as it did before NumPy 2."""

    @functools.wraps(array)
    def made(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("copy") is False:
            kwargs["copy"] = None
        return array(*args, **kwargs)

    return made


def _asscalar(a: np.ndarray) -> Any:
    return a.item()


def _msort(a: Any) -> np.ndarray:
    return np.sort(a, axis=0)


def _find_common_type(array_types: list[Any], scalar_types: list[Any]) -> np.dtype[Any]:
    return np.result_type(*array_types, *scalar_types)


class _Cast(dict[Any, Any]):
    """``np.cast[dtype](array)``."""

    def __missing__(self, dtype: Any) -> Callable[[Any], np.ndarray]:
        def cast(array: Any) -> np.ndarray:
            return np.asarray(array).astype(dtype)

        return cast
