"""The vocabulary of scalar bodies, and its meaning in NumPy.

A scalar body is written with a builder ``b`` whose methods are named as in MLIR's ``arith`` and ``math`` dialects.
Run on :data:`NUMPY` it is the eager operator; run on a recording builder (:class:`Recorder`) it becomes a list of
steps which a target turns into ufunc calls, LLVM instructions or Triton expressions. Python numbers may stand for
operands; comparisons give truth values for ``select`` and the logical operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Steps that NumPy lacks: the function of hybridc.runtime.special (and of scipy) that computes them.
SPECIAL = {"erf": "erf", "erfinv": "erfinv", "lgamma": "gammaln", "gamma": "gamma", "digamma": "psi"}


def _special(step: str) -> Any:
    """A special function, imported when first used: scipy costs more import time than all of hybridc."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from hybridc.runtime import special

        return getattr(special, SPECIAL[step])(*args, **kwargs)

    return call


def _select(condition: Any, a: Any, b: Any) -> Any:
    where: Any = np.where
    return where(condition, a, b)


def _cast(x: Any, dtype: npt.DTypeLike) -> Any:
    return x.astype(dtype)


class NumPyScalar:
    """The scalar vocabulary on NumPy arrays."""

    add, sub, mul, div, rem = np.add, np.subtract, np.multiply, np.divide, np.mod
    fmod, neg, abs, sign = np.fmod, np.negative, np.abs, np.sign
    max, min, pow, hypot = np.maximum, np.minimum, np.power, np.hypot
    exp, log, log2, log10, log1p, expm1 = np.exp, np.log, np.log2, np.log10, np.log1p, np.expm1
    sqrt, cbrt, square, reciprocal = np.sqrt, np.cbrt, np.square, np.reciprocal
    sin, cos, tan, asin, acos, atan, atan2 = (
        np.sin,
        np.cos,
        np.tan,
        np.arcsin,
        np.arccos,
        np.arctan,
        np.arctan2,
    )
    sinh, cosh, tanh, asinh, acosh, atanh = np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh
    floor, ceil, trunc, rint = np.floor, np.ceil, np.trunc, np.rint
    isnan, isinf, isfinite = np.isnan, np.isinf, np.isfinite
    lt, le, gt, ge, eq, ne = np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal
    logical_and, logical_or, logical_xor, logical_not = (
        np.logical_and,
        np.logical_or,
        np.logical_xor,
        np.logical_not,
    )
    erf = staticmethod(_special("erf"))
    erfinv = staticmethod(_special("erfinv"))
    lgamma = staticmethod(_special("lgamma"))
    gamma = staticmethod(_special("gamma"))
    digamma = staticmethod(_special("digamma"))
    select = staticmethod(_select)
    cast = staticmethod(_cast)


NUMPY = NumPyScalar()

# Steps that give a truth value, whatever their operands are.
PREDICATES = frozenset(
    {"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite"}
    | {"logical_and", "logical_or", "logical_xor", "logical_not"}
)


@dataclass(frozen=True, eq=False)
class Scalar:
    """A value inside a recorded scalar body: an argument (``step is None``) or the result of a step."""

    step: str | None
    operands: tuple[Any, ...]
    index: int = 0

    @property
    def is_predicate(self) -> bool:
        """Whether this is a truth value."""
        return self.step in PREDICATES


class Recorder:
    """A builder that records what a scalar body does, one :class:`Scalar` a step."""

    def __init__(self) -> None:
        self.steps: list[Scalar] = []

    def __getattr__(self, name: str) -> Any:
        if not hasattr(NumPyScalar, name):
            raise AttributeError(f"scalar bodies have no step {name!r}; see hybridc.dialects.scalar")

        def record(*operands: Any) -> Scalar:
            step = Scalar(name, operands, len(self.steps))
            self.steps.append(step)
            return step

        return record
