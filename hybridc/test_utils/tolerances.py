"""Which device and dtype tests have by default, and how far apart results may be, by their dtypes."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from hybridc.context import Context, current_context
from hybridc.dtypes import BFLOAT16, TYPES, DType

Tolerance = float | Mapping[Any, float] | None

_FLOAT64 = np.dtype(np.float64)
_EXACT = (np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64)
# Relative and absolute tolerances of floats.
_FLOATS = {t.dtype: t.tolerances for t in TYPES.values() if t.kind == "f"}


def default_context() -> Context:
    """The device of tests."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make ``ctx`` the device of new arrays on this thread."""
    Context._default_ctx.value = ctx


def default_dtype() -> Any:
    """The dtype of tests."""
    return np.float32


def default_rtols() -> dict[DType, float]:
    """Relative tolerances by dtype."""
    return {**{dtype: r for dtype, (r, _) in _FLOATS.items()}, **{np.dtype(d): 0 for d in _EXACT}}


def default_atols() -> dict[DType, float]:
    """Absolute tolerances by dtype."""
    return {**{dtype: a for dtype, (_, a) in _FLOATS.items()}, **{np.dtype(d): 0 for d in _EXACT}}


def default_numeric_eps() -> dict[DType, float]:
    """Steps of finite differences by dtype: powers of two, which add exactly."""
    digits = {BFLOAT16: 4, np.dtype(np.float16): 6, np.dtype(np.float32): 9, np.dtype(np.float64): 14}
    return {dtype: 2.0**-n for dtype, n in digits.items()}


def effective_dtype(dat: Any) -> DType:
    """The dtype that says how exact ``dat`` is: its own. GPUs compute in it, too: TensorFloat-32 is not used."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[Any, float]) -> float:
    """``tol`` if it is a number; else what it, or ``default_tol``, says of the dtype of the array ``dat``."""
    if isinstance(tol, numbers.Number):
        return tol  # pyright: ignore[reportReturnType]
    dtype = effective_dtype(dat)
    given: Any = tol or {}
    return given.get(dtype, default_tol.get(dtype, 0.0))


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """The relative and the absolute tolerance for the arrays ``x`` and ``y``: the larger of each.

    Parameters
    ----------
    rtol, atol:
        Numbers, or dicts by dtype; None for the defaults.
    """
    both = [v if hasattr(v, "dtype") else np.asarray(v) for v in (x, y)]
    return (
        max(get_tolerance(v, rtol, default_rtols()) for v in both),
        max(get_tolerance(v, atol, default_atols()) for v in both),
    )


def get_atol(atol: float | None = None, dtype: DType = _FLOAT64) -> float:
    """The absolute tolerance ``atol``, or that of ``dtype`` for None."""
    return default_atols()[dtype] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: DType = _FLOAT64) -> float:
    """The relative tolerance ``rtol``, or that of ``dtype`` for None."""
    return default_rtols()[dtype] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """The share of elements that may differ: ``etol``, or 0 for None."""
    return 0 if etol is None else etol
