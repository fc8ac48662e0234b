"""Functions of ``mx.np`` that work element by element: each is one operator."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.dialects.math.elementwise import Divide
from hybridc.dialects.numpy_rules import PROMOTES
from hybridc.dtypes import is_float
from hybridc.np.apply import applied, binary, cast, check_ufunc, dtype_of, into, is_number, operand, unary

__all__ = [
    "abs",
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "around",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "divide",
    "equal",
    "exp",
    "expm1",
    "fabs",
    "fix",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "round_",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
]

# --- arithmetic --------------------------------------------------------------------------------------------------

add = binary("add", "add", onp.add, "x1 + x2.")
subtract = binary("subtract", "subtract", onp.subtract, "x1 - x2.")
multiply = binary("multiply", "multiply", onp.multiply, "x1 * x2.")
true_divide = divide = binary("true_divide", "divide", onp.true_divide, "x1 / x2; of integers in float32.")
mod = remainder = binary("mod", "modulo", onp.mod, "The remainder of x1 / x2, with the sign of x2.")
power = binary("power", "power", onp.power, "x1 ** x2.")
maximum = binary("maximum", "maximum", onp.maximum, "The greater of x1 and x2; nan if either is nan.")
minimum = binary("minimum", "minimum", onp.minimum, "The lesser of x1 and x2; nan if either is nan.")
hypot = binary("hypot", "hypot", onp.hypot, "sqrt(x1**2 + x2**2) without overflow.")

# --- comparisons, logic ------------------------------------------------------------------------------------------

equal = binary("equal", "equal", onp.equal, "Whether x1 == x2, as booleans.")
not_equal = binary("not_equal", "not_equal", onp.not_equal, "Whether x1 != x2, as booleans.")
less = binary("less", "lesser", onp.less, "Whether x1 < x2, as booleans.")
less_equal = binary("less_equal", "lesser_equal", onp.less_equal, "Whether x1 <= x2, as booleans.")
greater = binary("greater", "greater", onp.greater, "Whether x1 > x2, as booleans.")
greater_equal = binary("greater_equal", "greater_equal", onp.greater_equal, "Whether x1 >= x2, as booleans.")
logical_and = binary("logical_and", "logical_and", onp.logical_and, "Whether x1 and x2 are both not 0, as booleans.")
logical_or = binary("logical_or", "logical_or", onp.logical_or, "Whether x1 or x2 is not 0, as booleans.")
logical_xor = binary("logical_xor", "logical_xor", onp.logical_xor, "Whether exactly one is not 0, as booleans.")
logical_not = unary("logical_not", "logical_not", onp.logical_not, "Whether x is 0, as booleans.")
isnan = unary("isnan", "isnan", onp.isnan, "Whether x is not a number, as booleans.")
isinf = unary("isinf", "isinf", onp.isinf, "Whether x is infinite, as booleans.")
isfinite = unary("isfinite", "isfinite", onp.isfinite, "Whether x is neither infinite nor nan, as booleans.")

# --- functions of one array --------------------------------------------------------------------------------------

negative = unary("negative", "negative", onp.negative, "-x.")
absolute = abs = unary("absolute", "abs", onp.absolute, "|x|.")
fabs = unary("fabs", "abs", onp.fabs, "|x|.")
sign = unary("sign", "sign", onp.sign, "-1, 0 or 1 as x is negative, zero or positive.")
square = unary("square", "square", onp.square, "x**2.")
sqrt = unary("sqrt", "sqrt", onp.sqrt, "The square root of x.")
cbrt = unary("cbrt", "cbrt", onp.cbrt, "The cube root of x.")
reciprocal = unary("reciprocal", "reciprocal", onp.reciprocal, "1 / x; of integers in float32.")
exp = unary("exp", "exp", onp.exp, "e**x.")
expm1 = unary("expm1", "expm1", onp.expm1, "e**x - 1, exact for small x.")
log = unary("log", "log", onp.log, "The natural logarithm of x.")
log2 = unary("log2", "log2", onp.log2, "The logarithm of x to the base 2.")
log10 = unary("log10", "log10", onp.log10, "The logarithm of x to the base 10.")
log1p = unary("log1p", "log1p", onp.log1p, "log(1 + x), exact for small x.")
sin = unary("sin", "sin", onp.sin, "The sine of x in radians.")
cos = unary("cos", "cos", onp.cos, "The cosine of x in radians.")
tan = unary("tan", "tan", onp.tan, "The tangent of x in radians.")
arcsin = unary("arcsin", "arcsin", onp.arcsin, "The angle whose sine is x.")
arccos = unary("arccos", "arccos", onp.arccos, "The angle whose cosine is x.")
arctan = unary("arctan", "arctan", onp.arctan, "The angle whose tangent is x.")
sinh = unary("sinh", "sinh", onp.sinh, "The hyperbolic sine of x.")
cosh = unary("cosh", "cosh", onp.cosh, "The hyperbolic cosine of x.")
tanh = unary("tanh", "tanh", onp.tanh, "The hyperbolic tangent of x.")
arcsinh = unary("arcsinh", "arcsinh", onp.arcsinh, "The inverse of sinh.")
arccosh = unary("arccosh", "arccosh", onp.arccosh, "The inverse of cosh.")
arctanh = unary("arctanh", "arctanh", onp.arctanh, "The inverse of tanh.")
degrees = rad2deg = unary("degrees", "degrees", onp.degrees, "An angle of x radians in degrees.")
radians = deg2rad = unary("radians", "radians", onp.radians, "An angle of x degrees in radians.")
floor = unary("floor", "floor", onp.floor, "The greatest whole number that is at most x.")
ceil = unary("ceil", "ceil", onp.ceil, "The least whole number that is at least x.")
trunc = unary("trunc", "trunc", onp.trunc, "x without its fraction.")
fix = unary("fix", "trunc", onp.trunc, "x without its fraction.")


# --- made of several operators -----------------------------------------------------------------------------------


def rint(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """The whole number nearest to x, a half to the even one."""
    # COMPAT(mxnet): there a half goes towards minus infinity: rint(1.5) is 1.
    check_ufunc("rint", kwargs)
    if is_number(x):
        return onp.rint(x).item()
    x = operand(x)
    if not is_float(dtype_of(x)):
        return into(x + 0, out)
    whole = floor(x)
    rest = x - whole
    up = logical_or(greater(rest, 0.5), logical_and(equal(rest, 0.5), not_equal(mod(whole, 2.0), 0.0)))
    return into(function("where")(isfinite(x), whole + up, x), out)


def around(x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """x rounded to so many decimals, a half to the even one."""
    check_ufunc("around", kwargs)
    if is_number(x):
        return onp.around(x, decimals).item()
    if not decimals:
        return rint(x, out)
    scale = 10.0 ** max(decimals, -decimals)
    x = operand(x)
    if not is_float(dtype_of(x)):
        return into(x + 0 if decimals > 0 else cast(rint(x / scale) * scale, x.dtype), out)
    return into(rint(x * scale) / scale if decimals > 0 else rint(x / scale) * scale, out)


round = round_ = around


def floor_divide(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """The greatest whole number that is at most x1 / x2."""
    check_ufunc("floor_divide", kwargs)
    if is_number(x1) and is_number(x2):
        return onp.floor_divide(x1, x2).item()
    # (x1 - x1 mod x2) / x2 is whole, so the division is exact.
    whole = applied(Divide.bind(), [subtract(x1, mod(x1, x2)), x2], None, PROMOTES)
    return into(rint(whole), out)
