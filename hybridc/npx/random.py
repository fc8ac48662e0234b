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
    """Seed the random numbers, of one device or of all."""
    random.seed(seed, ctx)


def bernoulli(
    prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """1 with a probability, or with that of a logit, else 0."""
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
    """Samples of a uniform distribution: ``batch_shape`` of them for each element of the parameters."""
    return uniform(low, high, _before(batch_shape, low, high), dtype, ctx)


def normal_n(loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Samples of a normal distribution: ``batch_shape`` of them for each element of the parameters."""
    return normal(loc, scale, _before(batch_shape, loc, scale), dtype, ctx)


def _before(batch_shape: Any, *parameters: Any) -> tuple[int, ...]:
    return (*shape_of_size(batch_shape), *Parameters(None, None, None, *parameters).shape)


def __getattr__(name: str) -> Any:
    raise _absent("mx.npx.random", name, "function", __all__)


def __dir__() -> list[str]:
    return list(__all__)
