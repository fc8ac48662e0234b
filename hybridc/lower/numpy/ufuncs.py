"""Operations of ``arith`` and ``math`` as functions of NumPy."""

from __future__ import annotations

import math

import numpy as np

from hybridc.dialects import special
from hybridc.dtypes import DType
from hybridc.errors import UnsupportedError
from hybridc.ir import kernel as scalars
from hybridc.ir.kernel import Number

# One of no dialect: 1 where x > 0, else -1 where x < 0, else x.
SIGN = "sign"

UFUNCS = {
    SIGN: "np.sign",
    "arith.addf": "np.add", "arith.addi": "np.add", "arith.subf": "np.subtract", "arith.subi": "np.subtract",
    "arith.mulf": "np.multiply", "arith.muli": "np.multiply", "arith.divf": "np.divide", "arith.negf": "np.negative",
    "arith.divui": "np.floor_divide", "arith.remf": "np.fmod", "arith.remsi": "np.fmod", "arith.remui": "np.fmod",
    "arith.maximumf": "np.maximum", "arith.minimumf": "np.minimum", "arith.maxsi": "np.maximum",
    "arith.minsi": "np.minimum", "arith.maxui": "np.maximum", "arith.minui": "np.minimum",
    "arith.andi": "np.bitwise_and", "arith.ori": "np.bitwise_or", "arith.xori": "np.bitwise_xor",
    "arith.shli": "np.left_shift", "arith.shrsi": "np.right_shift", "arith.shrui": "np.right_shift",
    "math.absf": "np.abs", "math.absi": "np.abs", "math.powf": "special.power", "math.ipowi": "np.power",
    "arith.divsi": "special.quotient",
    "math.roundeven": "np.rint", "math.erf": "special.erf", "math.atan2": "np.arctan2",
    **{f"math.{name}": f"np.{name}" for name in (
        "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "cbrt", "floor", "ceil", "trunc",
        "sin", "cos", "tan", "sinh", "cosh", "tanh",
    )},
    **{f"math.a{name}": f"np.arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}  # fmt: skip

_ORDERS = {
    "eq": "np.equal", "ne": "np.not_equal", "gt": "np.greater", "ge": "np.greater_equal", "lt": "np.less",
    "le": "np.less_equal",
}  # fmt: skip
# NumPy compares as IEEE 754 says: with a nan only "not equal" is true.
_FLOAT_ORDERS = {"une": "np.not_equal"} | {f"o{k}": f for k, f in _ORDERS.items() if k != "ne"}

# What a reduction by a ufunc does.
_COMBINES = {
    "np.add": "add", "np.multiply": "mul", "np.maximum": "max", "np.minimum": "min", "np.bitwise_or": "or",
    "np.bitwise_and": "and", "np.bitwise_xor": "xor",
}  # fmt: skip


def ufunc(op: str, lines: str = "") -> str:
    """The function that computes an operation, as source; ``lines`` are the user's, for an error."""
    name, _, predicate = op.partition(" ")
    found = UFUNCS.get(name)
    if name == "arith.cmpf":
        found = _FLOAT_ORDERS.get(predicate)
    elif name == "arith.cmpi":
        found = _ORDERS[predicate[-2:]]
    if found is None:
        raise UnsupportedError(f"the numpy target has no function for {op}" + (f" ({lines})" if lines else ""))
    return found


def ufunc_neutral(function: str, dtype: DType) -> Number:
    """The element from which a reduction begins."""
    return scalars.neutral(_COMBINES[function], dtype)


def python_literal(value: Number) -> str:
    """A Python scalar as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def fold(function: str, numbers: list[Number], dtype: DType, result: DType) -> Number:
    """The result of a function of scalars, computed in a dtype; ``copy`` only converts."""
    arrays = [np.asarray(n, dtype) for n in numbers]
    with np.errstate(all="ignore"):
        if function == "copy":
            return arrays[0].astype(result).item()
        if function.startswith("np."):
            return getattr(np, function[3:])(*arrays).item()
    return getattr(special, function.partition(".")[2])(*arrays).item()
