"""Operations of ``arith`` and ``math`` as functions of NumPy: which one, and in which dtype integers are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from hybridc.dialects.hybrid import location_of
from hybridc.errors import UnsupportedError
from hybridc.lower.kernel import Number

DType = np.dtype[Any]

UFUNCS = {
    "arith.addf": "np.add", "arith.addi": "np.add", "arith.subf": "np.subtract", "arith.subi": "np.subtract",
    "arith.mulf": "np.multiply", "arith.muli": "np.multiply", "arith.divf": "np.divide", "arith.negf": "np.negative",
    "arith.divui": "np.floor_divide", "arith.remf": "np.fmod", "arith.remsi": "np.fmod", "arith.remui": "np.fmod",
    "arith.maximumf": "np.maximum", "arith.minimumf": "np.minimum", "arith.maxsi": "np.maximum",
    "arith.minsi": "np.minimum", "arith.maxui": "np.maximum", "arith.minui": "np.minimum",
    "arith.andi": "np.bitwise_and", "arith.ori": "np.bitwise_or", "arith.xori": "np.bitwise_xor",
    "arith.shli": "np.left_shift", "arith.shrsi": "np.right_shift", "arith.shrui": "np.right_shift",
    "math.absf": "np.abs", "math.absi": "np.abs", "math.powf": "np.power", "math.ipowi": "np.power",
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

CASTS = frozenset(
    f"arith.{n}" for n in ("extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "extsi", "extui", "trunci")
)
_UNSIGNED = frozenset(f"arith.{n}" for n in ("divui", "remui", "maxui", "minui", "shrui", "uitofp", "extui"))
_SIGNED = frozenset(f"arith.{n}" for n in ("remsi", "maxsi", "minsi", "shrsi", "sitofp", "extsi")) | {"math.absi"}

# The element that combined with another gives that other, where it is no limit of the dtype.
_NEUTRAL = {"np.add": 0, "np.multiply": 1, "np.bitwise_or": 0, "np.bitwise_and": -1, "np.bitwise_xor": 0}


def ufunc(op: Operation) -> str:
    """The function that computes an operation, as source."""
    name = UFUNCS.get(op.name)
    if isinstance(op, arith.CmpfOp):
        name = _FLOAT_ORDERS.get(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data])
    elif isinstance(op, arith.CmpiOp):
        name = _ORDERS[arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data][-2:]]
    if name is None:
        where = location_of(op)
        raise UnsupportedError(f"the numpy target has no function for {op.name}" + (f" ({where})" if where else ""))
    return name


def sign(op: Operation) -> str | None:
    """How an operation reads integers: ``i`` signed, ``u`` unsigned, None if that makes no difference."""
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return None if name in ("eq", "ne") else "u" if name[0] == "u" else "i"
    return "u" if op.name in _UNSIGNED else "i" if op.name in _SIGNED else None


def signed_as(dtype: DType, kind: str | None) -> DType:
    """The integer dtype of the same size with that sign; other dtypes have none."""
    if kind is None or dtype.kind not in "iu":
        return dtype
    return np.dtype(f"{'u' if kind == 'u' else ''}int{dtype.itemsize * 8}")


def number_as(value: Number, dtype: DType) -> Number:
    """A number as the dtype holds it: integers wrap, floats are as short as they can be written."""
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind == "f":
        return float(str(dtype.type(value)))
    return np.asarray(int(value) & (2**64 - 1), np.uint64).astype(dtype).item()


def neutral(function: str, dtype: DType) -> Number:
    """The element from which a reduction begins."""
    if function in _NEUTRAL:
        return number_as(_NEUTRAL[function], dtype)
    greatest = function == "np.minimum"
    if dtype.kind == "f":
        return math.inf if greatest else -math.inf
    if dtype.kind == "b":
        return greatest
    limits = np.iinfo(dtype)
    return int(limits.max if greatest else limits.min)


def literal(value: Number) -> str:
    """A Python number as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def fold(function: str, numbers: list[Number], dtype: DType, result: DType) -> Number:
    """What a function gives for numbers, computed in a dtype; ``copy`` only converts."""
    arrays = [np.asarray(n, dtype) for n in numbers]
    with np.errstate(all="ignore"):
        if function == "copy":
            return arrays[0].astype(result).item()
        if function.startswith("np."):
            return getattr(np, function[3:])(*arrays).item()
    from hybridc.runtime import special

    return getattr(special, function.partition(".")[2])(*arrays).item()
