"""Names that NumPy no longer has, for programs of MXNet's time: ``np.float``, ``np.asscalar``, ``np.product``, ….

``python -m hybridc run`` adds those that NumPy lacks; ``import hybridc`` alone leaves NumPy as it is.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np


def add() -> None:
    """Give NumPy the names that it lacks; what it has stays."""
    for name, value in _removed().items():
        if name not in vars(np):
            setattr(np, name, value)


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
    }


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
