"""Functions of ``mx.np`` that work element by element: each is one operator."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.dialects.elements import bits as bits
from hybridc.dialects.elements import numpy_binary as numpy_binary
from hybridc.dialects.numpy_rules import BOOL
from hybridc.dialects.operator_registry import of_function
from hybridc.dtypes import TYPES, is_float
from hybridc.np.apply import applied, binary, call, cast, check_ufunc, dtype_of, into, is_number, operand, unary

__all__ = [
    "abs",
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "divide",
    "divmod",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "gcd",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "invert",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "modf",
    "multiply",
    "nan_to_num",
    "negative",
    "not_equal",
    "positive",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "round_",
    "sign",
    "signbit",
    "sin",
    "sinc",
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
fmax = binary("fmax", "fmax", onp.fmax, "The greater of x1 and x2; the other one if one is nan.")
fmin = binary("fmin", "fmin", onp.fmin, "The lesser of x1 and x2; the other one if one is nan.")
fmod = binary("fmod", "fmod", onp.fmod, "The remainder of x1 / x2, with the sign of x1.")
floor_divide = binary(
    "floor_divide", "floor_divide", onp.floor_divide, "The greatest whole number that is at most x1 / x2."
)
hypot = binary("hypot", "hypot", onp.hypot, "sqrt(x1**2 + x2**2) without overflow.")
# COMPAT(mxnet): there these are integers of integers: arctan2, hypot, copysign, ldexp.
arctan2 = binary("arctan2", "arctan2", onp.arctan2, "The angle of the point (x2, x1), from -pi to pi.")
copysign = binary("copysign", "copysign", onp.copysign, "|x1| with the sign of x2.")
ldexp = binary("ldexp", "ldexp", lambda x1, x2: onp.float64(x1 * 2.0**x2), "x1 * 2**x2.")  # pyright: ignore[reportUnknownLambdaType]
heaviside = binary("heaviside", "heaviside", onp.heaviside, "0 where x1 < 0, 1 where x1 > 0, x2 where x1 is 0.")
logaddexp = binary("logaddexp", "logaddexp", onp.logaddexp, "log(e**x1 + e**x2) without overflow.")

# --- bits, integers ----------------------------------------------------------------------------------------------

bitwise_and = binary("bitwise_and", "bitwise_and", onp.bitwise_and, "The bits that x1 and x2 both have.")
bitwise_or = binary("bitwise_or", "bitwise_or", onp.bitwise_or, "The bits that x1 or x2 has.")
bitwise_xor = binary("bitwise_xor", "bitwise_xor", onp.bitwise_xor, "The bits that x1 or x2 alone has.")
bitwise_not = invert = unary("bitwise_not", "bitwise_not", onp.bitwise_not, "The bits that x lacks.")
left_shift = binary("left_shift", "left_shift", onp.left_shift, "x1 * 2**x2 modulo the range of the dtype.")
right_shift = binary("right_shift", "right_shift", onp.right_shift, "The floor of x1 / 2**x2.")
_lcm = binary("lcm", "lcm", onp.lcm, "The least common multiple of x1 and x2.")
gcd = binary("gcd", "gcd", onp.gcd, "The greatest common divisor of x1 and x2.")

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
exp2 = unary("exp2", "exp2", onp.exp2, "2**x.")
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
# COMPAT(mxnet): there rint has its halves go towards minus infinity: rint(1.5) is 1.
rint = unary("rint", "around", onp.rint, "The whole number nearest to x, a half to the even one.")
positive = unary("positive", "identity", onp.positive, "A copy of x.")
floor = unary("floor", "floor", onp.floor, "The greatest whole number that is at most x.")
ceil = unary("ceil", "ceil", onp.ceil, "The least whole number that is at least x.")
trunc = unary("trunc", "trunc", onp.trunc, "x without its fraction.")
fix = unary("fix", "trunc", onp.trunc, "x without its fraction.")


# --- made of several operators -----------------------------------------------------------------------------------


def lcm(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """The least common multiple of x1 and x2; of booleans whether both are true."""
    if not (is_number(x1) or is_number(x2)) and dtype_of(operand(x1)) == dtype_of(operand(x2)) == BOOL:
        return bitwise_and(x1, x2, out, **kwargs)
    return _lcm(x1, x2, out, **kwargs)


def around(x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
    """x rounded to so many decimals, a half to the even one."""
    check_ufunc("around", kwargs)
    if is_number(x):
        return onp.around(x, decimals).item()
    if not decimals:
        return rint(x, out)
    x = operand(x)
    if is_float(dtype_of(x)):
        return applied(of_function("around").bind(decimals=decimals), [x], out)
    if decimals > 0:
        return into(positive(x), out)
    # COMPAT(mxnet): there integers are rounded to 0.
    return into(cast(call("around", cast(x, "float64"), decimals=decimals), dtype_of(x)), out)


round = round_ = around


def divmod(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """The greatest whole numbers that are at most x1 / x2, and the remainders."""
    check_ufunc("divmod", kwargs)
    first, second = (None, None) if out is None else out
    return floor_divide(x1, x2, first), mod(x1, x2, second)


def modf(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """The fractions and the whole parts of x, with its sign."""
    check_ufunc("modf", kwargs)
    if is_number(x):
        return tuple(part.item() for part in onp.modf(x))
    x, (first, second) = _inexact(x), (None, None) if out is None else out
    whole = trunc(x)
    fraction = function("where")(isinf(x), function("zeros_like")(x), x - whole)
    return copysign(fraction, x, first), into(whole, second)


def frexp(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """Mantissas of 0.5 to 1 and exponents, int32, of which x is mantissa * 2**exponent."""
    check_ufunc("frexp", kwargs)
    if is_number(x):
        return tuple(part.item() for part in onp.frexp(x))
    first, second = (None, None) if out is None else out
    mantissa, exponent = function("frexp")(_inexact(x))
    return into(mantissa, first), into(exponent, second)


def _inexact(x: Any) -> Any:
    """An operand in its dtype of floats, or in float32."""
    x = operand(x)
    return x if is_float(dtype_of(x)) else cast(x, "float32")


def float_power(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """x1 ** x2 in float64."""
    check_ufunc("float_power", kwargs)
    if is_number(x1) and is_number(x2):
        return onp.float_power(x1, x2).item()
    return power(*[float(x) if is_number(x) else cast(operand(x), "float64") for x in (x1, x2)], out)


def signbit(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """Whether x has a minus, also that of -0.0; as booleans."""
    check_ufunc("signbit", kwargs)
    if is_number(x):
        return onp.signbit(x).item()
    x = operand(x)
    return less(copysign(1.0, x) if is_float(dtype_of(x)) else x, 0, out)


def isposinf(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """Whether x is inf, as booleans."""
    check_ufunc("isposinf", kwargs)
    return _is_infinite(x, math.inf, out)


def isneginf(x: Any, out: Any = None, **kwargs: Any) -> Any:
    """Whether x is -inf, as booleans."""
    check_ufunc("isneginf", kwargs)
    return _is_infinite(x, -math.inf, out)


def _is_infinite(x: Any, infinity: float, out: Any) -> Any:
    if is_number(x):
        return x == infinity
    x = operand(x)
    return equal(x, infinity, out) if is_float(dtype_of(x)) else isinf(x, out)


def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    **kwargs: Any,
) -> Any:
    """x with ``nan`` for nan, and numbers for the infinities: the greatest and the least of the dtype.

    With ``copy=False`` x itself has the result.
    """
    check_ufunc("nan_to_num", kwargs)
    if is_number(x):
        return onp.nan_to_num(x, True, nan, posinf, neginf).item()
    x = operand(x)
    dtype = dtype_of(x)
    if not is_float(dtype):
        return positive(x) if copy else x
    limit = TYPES[dtype].largest
    above, below = limit if posinf is None else posinf, -limit if neginf is None else neginf
    return call("nan_to_num", x, out=None if copy else x, nan=nan, posinf=above, neginf=below)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x); 1 for 0."""
    if is_number(x):
        return onp.sinc(x).item()
    x = _inexact(x)
    # NumPy's number for 0, of which the quotient is 1.
    y = function("where")(equal(x, 0), function("full_like")(x, fill_value=1e-20), x) * math.pi
    return sin(y) / y


def logaddexp2(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """log2(2**x1 + 2**x2) without overflow."""
    check_ufunc("logaddexp2", kwargs)
    two = math.log(2)
    return into(logaddexp(multiply(x1, two), multiply(x2, two)) / two, out)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether a and b differ by at most atol + rtol * |b|, as booleans; infinities are close if they are equal."""
    if is_number(a) and is_number(b):
        return bool(onp.isclose(a, b, rtol, atol, equal_nan))
    a, b = [x if is_number(x) or is_float(dtype_of(x)) else cast(x, "float64") for x in (operand(a), operand(b))]
    if is_number(b):
        b = call("full_like", a, fill_value=float(b))
    near = less_equal(absolute(subtract(a, b)), atol + rtol * absolute(b))
    close = logical_or(logical_and(near, isfinite(b)), equal(a, b))
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close
