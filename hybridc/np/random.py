"""Random arrays of ``mx.np``; the generator is that of ``mx.random``, which ``mx.random.seed`` seeds."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.array.numpy_array import as_numpy
from hybridc.np.apply import into, is_number, reshaped

__all__ = ["normal", "rand", "randint", "randn", "uniform"]


def _size(size: Any) -> tuple[int, ...]:
    return () if size is None else (int(size),) if isinstance(size, int | onp.integer) else tuple(size)


def _drawn(name: str, parameters: tuple[Any, ...], size: Any, dtype: Any, ctx: Any, out: Any) -> Any:
    """Samples of a distribution whose parameters are numbers."""
    shape = _size(size)
    made = as_numpy(function(f"random_{name}")(*parameters, shape=shape or (1,), dtype=dtype, ctx=ctx))
    return into(reshaped(made, shape), out)


def uniform(
    low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Samples of a uniform distribution on [low, high)."""
    if is_number(low) and is_number(high):
        return _drawn("uniform", (low, high), size, dtype or "float32", ctx, out)
    shape = _broadcast(size, low, high)
    return into(low + (high - low) * uniform(0.0, 1.0, shape, dtype, ctx), out)


def normal(
    loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Samples of a normal distribution with mean ``loc`` and standard deviation ``scale``."""
    if is_number(loc) and is_number(scale):
        return _drawn("normal", (loc, scale), size, dtype or "float32", ctx, out)
    shape = _broadcast(size, loc, scale)
    return into(loc + scale * normal(0.0, 1.0, shape, dtype, ctx), out)


def _broadcast(size: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of samples: the size, or what the parameters broadcast to."""
    shape = onp.broadcast_shapes(*[() if is_number(p) else p.shape for p in parameters])
    return shape if size is None else _size(size)


def randint(
    low: int, high: int | None = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Whole numbers that are equally likely from low up to but without high; with one number, it is high. int64."""
    if high is None:
        low, high = 0, low
    shape = _size(size)
    made = function("random_randint")(low, high, shape=shape or (1,), dtype="int64", ctx=ctx)
    made = reshaped(as_numpy(made), shape)
    return into(made if dtype is None else made.astype(dtype), out)


def rand(*size: int, **kwargs: Any) -> Any:
    """Samples of a uniform distribution on [0, 1) in the shape that the arguments give."""
    return uniform(0.0, 1.0, size, **kwargs)


def randn(*size: int, **kwargs: Any) -> Any:
    """Samples of the standard normal distribution in the shape that the arguments give."""
    return normal(0.0, 1.0, size, **kwargs)
