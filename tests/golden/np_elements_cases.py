"""What MXNet's functions of ``mx.np`` by element and its reductions give for each dtype: code, and its result.

``run`` is used by the script that makes np_elements.json with MXNet 1.9.1 and by the tests of hybridc; both pass their
own module as ``mx``. Arrays are called by their dtypes: ``i8``, ``f32``; ``i8_`` is another one of that dtype.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

DTYPES = {"b": "bool", "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64"}
DTYPES |= {"f16": "float16", "f32": "float32", "f64": "float64"}
INTEGERS = ("i8", "u8", "i32", "i64")
FLOATS = ("f16", "f32", "f64")


def _values(name, number):
    if name == "b":
        return np.array([[True, False, True], [False, False, True]])[:, :: 1 - 2 * number]
    if name in INTEGERS:
        return np.array([[[5, 1, 7], [3, 2, 100]], [[2, 3, 3], [1, 5, 4]]][number])
    return np.array([[[1.5, -2.5, 0.5], [0.25, 3.0, -0.75]], [[2.0, 0.5, -1.5], [1.0, -2.0, 0.75]]][number])


ARRAYS = {f"{name}{'_' * n}": _values(name, n).astype(dtype) for name, dtype in DTYPES.items() for n in (0, 1)}
NUMBERS = ("2", "2.5", "True")
ONE = [
    "absolute",
    "negative",
    "sign",
    "sqrt",
    "square",
    "cbrt",
    "reciprocal",
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "degrees",
    "radians",
    "floor",
    "ceil",
    "trunc",
    "fix",
    "rint",
    "around",
    "logical_not",
    "isnan",
    "isinf",
    "isfinite",
    "isneginf",
    "isposinf",
    "bitwise_not",
    "nan_to_num",
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "argmin",
    "cumsum",
    "var",
    "std",
]
TWO = [
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "mod",
    "power",
    "maximum",
    "minimum",
    "equal",
    "less",
    "greater_equal",
    "hypot",
]
SAME = [
    "arctan2",
    "copysign",
    "ldexp",
    "lcm",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "not_equal",
    "less_equal",
    "greater",
]

CASES = [
    *[f"np.{f}({a})" for f in ONE for a in DTYPES],
    *[f"np.{f}({a}, {b}_)" for f in TWO for a in DTYPES for b in DTYPES],
    *[f"np.{f}({a}, {a}_)" for f in SAME for a in DTYPES],
    *[f"{a} {sign} {n}" for sign in ("+", "-", "*", "/", "%", "**", ">", "==") for a in DTYPES for n in NUMBERS],
    *[f"{n} {sign} {a}" for sign in ("-", "/", "%", "**", "<") for a in DTYPES for n in NUMBERS],
    *[f"np.{f}({a}, {n})" for f in ("maximum", "arctan2", "copysign") for a in DTYPES for n in NUMBERS],
    *[f"{a} {sign} 3" for sign in ("&", "|", "^") for a in ("b", *INTEGERS)],
    *[f"np.{f}(f32, {how})" for f in ("sum", "prod", "mean", "max", "min", "any", "all", "var", "std")
      for how in ("axis=0", "axis=-1", "axis=(0, 1)", "axis=1, keepdims=True", "keepdims=True")],
    *[f"np.{f}(f32, {how})" for f in ("argmax", "argmin", "cumsum") for how in ("axis=0", "axis=-1")],
    *[f"np.sum({a}, dtype='{d}')" for a in ("i8", "f16", "f32") for d in ("float32", "float64", "int64")],
    "np.sum(f32, 0, None, True)", "np.sum(f32, initial=2.5)", "np.max(f32, 1, True)", "np.mean(f32, 0, 'float64')",
    "np.var(f32, ddof=1)", "np.std(f64, 0, ddof=1)", "np.around(f32, 1)", "np.around(f32 * 10, -1)",
    "np.average(f32)", "np.average(f32, 1, np.array([1.0, 2, 3]))", "np.average(f32, weights=f32_ * 2)",
    "np.average(f32, 0, returned=True)[1]", "np.nan_to_num(f32 / 0)", "np.nan_to_num(f32 / 0, True, 1, 2, 3)",
    "np.isclose(f32, f32_, 0.5)", "np.allclose(f32, f32)", "np.array_equal(f32, f32_)", "np.array_equiv(f32, f32[0])",
    "np.ptp(f32, 0)", "np.count_nonzero(i8 - 3)", "np.nansum(f32 / (f32 - 0.5) * 0)", "np.nanmax(f32, 0)",
    "np.nanmean(f32)", "np.modf(f32)[0]", "np.frexp(f32)[1]", "np.heaviside(f32, 0.5)", "np.signbit(f32)",
    "np.divmod(f32, 2)[0]", "np.float_power(f32, 2)", "f32.sum()", "f32.mean(0)", "f32.argmax(1)", "f32.std()",
    "i32.sum()", "b.sum()", "b.mean()", "u8.max()", "np.sum(np.zeros((0, 3)))", "np.prod(np.zeros((0, 3)), 0)",
]  # fmt: skip


def run(mx, code):
    """The result's dtype, shape and numbers; the name of an error's class."""
    arrays = {name: mx.np.array(x, dtype=x.dtype) for name, x in ARRAYS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(code, {"np": mx.np, "math": math}, arrays)
            if isinstance(value, bool):
                return ["python", [], value]
            found = value.asnumpy()
        except Exception as error:
            return type(error).__name__
    numbers = [float(v) if math.isfinite(v) else str(float(v)) for v in found.reshape(-1).tolist()]
    return [str(found.dtype), list(found.shape), numbers]
