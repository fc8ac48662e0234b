"""``mx.nd.contrib``: the operators of this namespace, loops and branches."""

from __future__ import annotations

import math
from typing import Any

from hybridc.array.functions import function
from hybridc.context import Context
from hybridc.nd import random
from hybridc.nd.control_flow import cond, foreach, while_loop
from hybridc.nd.namespace import lookup
from hybridc.nd.random import uniform

__all__ = ["cond", "foreach", "rand_zipfian", "uniform", "while_loop"]

__getattr__, _names = lookup("contrib", "_contrib_")


def __dir__() -> list[str]:
    return sorted([*_names(), *__all__])


def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int, ctx: Context | None = None) -> tuple[Any, ...]:
    """Classes drawn, with replacement, from a distribution that is about log-uniform, as that of words.

    Class k from 0 to ``range_max - 1`` has the probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``.

    Parameters
    ----------
    true_classes : NDArray or Symbol
        Classes, of one axis.
    num_sampled : int
        How many to draw.
    range_max : int
        The number of classes.
    ctx : Context
        The device; None for the current one.

    Returns
    -------
    tuple
        The classes drawn (int64), how often each of ``true_classes`` is expected among them, and how often each of
        those drawn is expected (float64).

    Examples
    --------
    >>> mx.random.seed(0)
    >>> drawn, of_true, of_drawn = mx.nd.contrib.rand_zipfian(mx.nd.array([3]), num_sampled=4, range_max=100)
    >>> print(drawn.asnumpy(), of_true.asnumpy().round(3), of_drawn.asnumpy().round(3))
    [ 0  2  0 12] [0.193] [0.601 0.249 0.601 0.064]
    """
    whole = math.log(range_max + 1)
    drawn = random.uniform(0, whole, shape=(num_sampled,), dtype="float64", ctx=ctx)
    # The largest float64 below log(n + 1) may give n.
    sampled = function("modulo")(function("cast")(function("expm1")(drawn), dtype="int64"), range_max)

    def expected(classes: Any) -> Any:
        classes = function("cast")(classes, dtype="float64")
        return function("log")((classes + 2.0) / (classes + 1.0)) / whole * num_sampled

    return sampled, expected(true_classes), expected(sampled)
