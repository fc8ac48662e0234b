"""Scalar steps in MLIR's ``arith`` and ``math`` dialects: beside each step of :mod:`hybridc.dialects.scalar`.

A step is one operation (:data:`UPSTREAM`), or composed of other steps (:data:`COMPOSED`), or has neither and stays
a host call (:data:`HOST`). ``select``, ``cast`` and ``like`` are the builder's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc.dialects.scalar import NUMPY, SPECIAL

BOOL = np.dtype(bool)

# The operations on floats, signed integers, unsigned integers and booleans. "" is the operand itself, None that
# NumPy has no such loop. Comparisons name their predicate.
UPSTREAM: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    "add": ("arith.addf", "arith.addi", "arith.addi", "arith.ori"),
    "sub": ("arith.subf", "arith.subi", "arith.subi", None),
    "mul": ("arith.mulf", "arith.muli", "arith.muli", "arith.andi"),
    "div": ("arith.divf", None, None, None),
    "quotient": ("arith.divf", "arith.divsi", "arith.divui", "arith.andi"),
    "neg": ("arith.negf", None, None, None),
    "abs": ("math.absf", "math.absi", "", ""),
    "max": ("arith.maximumf", "arith.maxsi", "arith.maxui", "arith.ori"),
    "min": ("arith.minimumf", "arith.minsi", "arith.minui", "arith.andi"),
    "pow": ("math.powf", "math.ipowi", "math.ipowi", None),
    "fmod": ("arith.remf", "arith.remsi", "arith.remui", None),
    "lt": ("olt", "slt", "ult", "ult"),
    "le": ("ole", "sle", "ule", "ule"),
    "gt": ("ogt", "sgt", "ugt", "ugt"),
    "ge": ("oge", "sge", "uge", "uge"),
    "eq": ("oeq", "eq", "eq", "eq"),
    "ne": ("une", "ne", "ne", "ne"),
    "logical_and": (None, None, None, "arith.andi"),
    "logical_or": (None, None, None, "arith.ori"),
    "logical_xor": (None, None, None, "arith.xori"),
    "floor": ("math.floor", "", "", ""),
    "ceil": ("math.ceil", "", "", ""),
    "trunc": ("math.trunc", "", "", ""),
    "rint": ("math.roundeven", None, None, None),
    **{
        step: (f"math.{step}", None, None, None)
        for step in (
            *("exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "cbrt", "erf", "sin", "cos", "tan", "asin"),
            *("acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        )
    },
}

# Steps that are host calls, on whole arrays.
HOST = frozenset({"erfinv", "lgamma", "gamma", "digamma"})

LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor"})  # on booleans, whatever the operands are


def _rem(b: Any, x: Any, y: Any) -> Any:
    """The remainder with the sign of the divisor."""
    r = b.fmod(x, y)
    return b.select((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def _hypot(b: Any, x: Any, y: Any) -> Any:
    """Scaled by the greater one against overflow; infinite beside a nan, too."""
    x, y = b.abs(x), b.abs(y)
    great, small = b.max(x, y), b.min(x, y)
    ratio = small / b.select(great == 0, 1.0, great)
    length = great * b.sqrt(ratio * ratio + 1.0)
    return b.select(b.isinf(x) | b.isinf(y), float("inf"), length)


def _sign(b: Any, x: Any) -> Any:
    return b.select(x > 0, 1, b.select(x < 0, -1, b.abs(x)))  # +0 for both zeros, nan for nan


def _square(_: Any, x: Any) -> Any:
    return x * x


def _reciprocal(_: Any, x: Any) -> Any:
    return 1 / x


def _isnan(_: Any, x: Any) -> Any:
    return x != x


def _isinf(b: Any, x: Any) -> Any:
    return b.abs(x) == float("inf")


def _isfinite(b: Any, x: Any) -> Any:
    return b.abs(x) < float("inf")


def _logical_not(_: Any, x: Any) -> Any:
    return x == 0


def _logistic(b: Any, x: Any) -> Any:
    return 1.0 / (b.exp(-x) + 1.0)


COMPOSED: dict[str, Callable[..., Any]] = {
    "logistic": _logistic,
    "rem": _rem,
    "hypot": _hypot,
    "sign": _sign,
    "square": _square,
    "reciprocal": _reciprocal,
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "logical_not": _logical_not,
}


# Steps that are no ufunc: a ufunc with the same dtypes.
_LOOPS: dict[str, Any] = {"pow": np.power, "quotient": np.multiply, "logistic": np.exp}


@functools.lru_cache(4096)
def loop_dtypes(step: str, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """NumPy's loop dtypes of a step: those of the operands, then that of the result.

    ``kinds`` are the operands' dtypes, or ``float``, ``int`` or ``bool`` for Python scalars, which adapt to the others.
    """
    if step in SPECIAL:
        wide = np.result_type(np.float32, *[np.dtype(k) for k in kinds])
        return (wide,) * (len(kinds) + 1)
    ufunc: Any = _LOOPS.get(step) or getattr(NUMPY, step)
    found: tuple[np.dtype[Any], ...] = ufunc.resolve_dtypes((*[BOOL if k is bool else k for k in kinds], None))
    return found
