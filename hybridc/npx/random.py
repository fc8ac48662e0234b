"""``mx.npx.random``: what NumPy's random functions lack."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from typing import Any

from hybridc import random
from hybridc.array.functions import function
from hybridc.ground.absent import absent as _absent
from hybridc.np.apply import cast, into
from hybridc.np.by_element import less
from hybridc.np.random import Parameters, normal, shape_of_size, uniform

__all__ = ["bernoulli", "normal_n", "seed", "uniform_n"]


def seed(seed: int, ctx: Any = "all") -> None:
    """Seed the random numbers.

    Parameters
    ----------
    seed:
        An integer.
    ctx:
        Accepted for MXNet's API: all devices share one stream.
    """
    random.seed(seed, ctx)


def bernoulli(
    prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """1 with a probability, or with that of a logit, else 0. One of both is given, else it is a ValueError.

    Parameters
    ----------
    prob:
        The probability, 0 to 1, a number or an array.
    logit:
        The logarithm of the odds, ``log(p / (1 - p))``, a number or an array.
    size:
        The shape of the result; None is that of the parameter.
    dtype:
        The dtype of the result; None is float32.
    ctx:
        The device; None is the current one.
    out:
        An array of the result's shape into which it is written; None makes a new one.
    """
    if (prob is None) == (logit is None):
        raise ValueError(
            f"Either `prob` or `logit` must be specified, but not both. Received prob={prob}, logit={logit}"
        )
    p = Parameters(size, None, ctx, prob if logit is None else logit)
    (value,) = p.values
    if logit is not None:
        value = function("sigmoid")(value) if not p.are_numbers else 1.0 / (1.0 + 2.718281828459045**-value)
    return into(cast(less(p.noise("uniform", 0.0, 1.0), value), dtype or "float32"), out)


def uniform_n(low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Samples of a uniform distribution: ``batch_shape`` of them for each element of the parameters.

    Parameters
    ----------
    low, high:
        The bounds, of which the second is excluded; numbers or arrays, which broadcast.
    batch_shape:
        The shape of the samples of each element: the result has it before that of the parameters. None is ().
    dtype:
        The dtype of the result; None is float32.
    ctx:
        The device; None is the current one.
    """
    return uniform(low, high, _before(batch_shape, low, high), dtype, ctx)


def normal_n(loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Samples of a normal distribution: ``batch_shape`` of them for each element of the parameters.

    Parameters
    ----------
    loc, scale:
        The mean and the standard deviation; numbers or arrays, which broadcast.
    batch_shape:
        The shape of the samples of each element: the result has it before that of the parameters. None is ().
    dtype:
        The dtype of the result; None is float32.
    ctx:
        The device; None is the current one.
    """
    return normal(loc, scale, _before(batch_shape, loc, scale), dtype, ctx)


def _before(batch_shape: Any, *parameters: Any) -> tuple[int, ...]:
    return (*shape_of_size(batch_shape), *Parameters(None, None, None, *parameters).shape)


def __getattr__(name: str) -> Any:
    raise _absent("mx.npx.random", name, "function", __all__)


def __dir__() -> list[str]:
    return list(__all__)
