"""Operators that compute each element on its own."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.dtypes import is_float
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.walk_values import is_known, lifted

_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": mnp.abs,
    "Acos": mnp.arccos,
    "Acosh": mnp.arccosh,
    "Asin": mnp.arcsin,
    "Asinh": mnp.arcsinh,
    "Atan": mnp.arctan,
    "Atanh": mnp.arctanh,
    "BitwiseNot": mnp.bitwise_not,
    "Ceil": mnp.ceil,
    "Cos": mnp.cos,
    "Cosh": mnp.cosh,
    "Erf": npx.erf,
    "Exp": mnp.exp,
    "Floor": mnp.floor,
    "IsNaN": mnp.isnan,
    "Log": mnp.log,
    "Neg": mnp.negative,
    "Not": mnp.logical_not,
    "Reciprocal": mnp.reciprocal,
    "Relu": npx.relu,
    "Round": mnp.rint,
    "Sigmoid": npx.sigmoid,
    "Sign": mnp.sign,
    "Sin": mnp.sin,
    "Sinh": mnp.sinh,
    "Softsign": npx.softsign,
    "Sqrt": mnp.sqrt,
    "Tan": mnp.tan,
    "Tanh": mnp.tanh,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": mnp.add,
    "And": mnp.logical_and,
    "BitwiseAnd": mnp.bitwise_and,
    "BitwiseOr": mnp.bitwise_or,
    "BitwiseXor": mnp.bitwise_xor,
    "Greater": mnp.greater,
    "GreaterOrEqual": mnp.greater_equal,
    "Less": mnp.less,
    "LessOrEqual": mnp.less_equal,
    "Mul": mnp.multiply,
    "Or": mnp.logical_or,
    "Sub": mnp.subtract,
    "Xor": mnp.logical_xor,
}


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda _, x: function(x)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda call, x, y: function(x, _aligned(call, x, y))


def _aligned(call: OnnxCall, x: Any, y: Any) -> Any:
    """The second operand of an old operator set, whose axes begin at an axis of the first one."""
    axis = call.attributes.get("axis")
    if axis is None:
        return y
    return mnp.reshape(y, (*y.shape, *[1] * (len(x.shape) - axis % len(x.shape) - len(y.shape))))


for _name, _function in _UNARY.items():
    onnx_op(_name)(_unary(_function))
for _name, _function in _BINARY.items():
    onnx_op(_name)(_binary(_function))


@onnx_op("Equal", raw=True)
def equal(call: OnnxCall, x: Any, y: Any) -> Any:
    """Of numbers or texts."""
    if is_known([x, y]):
        return np.asarray(np.equal(x, y), bool)
    return mnp.equal(lifted(x), _aligned(call, x, lifted(y)))


@onnx_op("Div")
def divide(call: OnnxCall, x: Any, y: Any) -> Any:
    """Integers are divided as in C, towards 0."""
    y = _aligned(call, x, y)
    if is_float(np.dtype(x.dtype)):
        return mnp.divide(x, y)
    if np.dtype(x.dtype).kind == "u":
        return mnp.floor_divide(x, y)
    quotient = mnp.floor_divide(mnp.abs(x), mnp.abs(y))
    return mnp.where(mnp.less(x, 0) ^ mnp.less(y, 0), -quotient, quotient)


@onnx_op("Mod")
def modulo(call: OnnxCall, x: Any, y: Any) -> Any:
    """The remainder with the sign of the divisor, or with fmod of the dividend."""
    if call["fmod"]:
        return mnp.fmod(x, y)
    if not is_float(np.dtype(x.dtype)):
        return mnp.mod(x, y)
    rest = mnp.fmod(x, y)
    rest = mnp.where(mnp.not_equal(rest, 0) & mnp.logical_xor(rest < 0, y < 0), rest + y, rest)
    return mnp.where(mnp.equal(rest, 0), mnp.copysign(mnp.zeros_like(rest), y), rest)


@onnx_op("Pow")
def power(call: OnnxCall, x: Any, y: Any) -> Any:
    """In the dtype of the base."""
    y = _aligned(call, x, y)
    dtypes = [np.dtype(a.dtype) for a in (x, y)]
    if dtypes[0] == dtypes[1] or all(map(is_float, dtypes)):
        return mnp.power(x, y.astype(x.dtype))
    return mnp.power(x.astype("float64"), y.astype("float64")).astype(x.dtype)


@onnx_op("BitShift")
def bit_shift(call: OnnxCall, x: Any, y: Any) -> Any:
    return (mnp.left_shift if call["direction"] == "LEFT" else mnp.right_shift)(x, y)


@onnx_op("IsInf")
def is_inf(call: OnnxCall, x: Any) -> Any:
    signs = [f(x) for f, name in ((mnp.isposinf, "detect_positive"), (mnp.isneginf, "detect_negative")) if call[name]]
    return functools.reduce(mnp.logical_or, signs) if signs else mnp.zeros_like(x, dtype="bool")


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda _, *xs: functools.reduce(function, xs)


onnx_op("Max")(_folded(mnp.maximum))
onnx_op("Min")(_folded(mnp.minimum))
onnx_op("Sum")(_folded(mnp.add))


@onnx_op("Mean")
def mean(_: OnnxCall, *xs: Any) -> Any:
    return functools.reduce(mnp.add, xs) / len(xs)


@onnx_op("Where")
def where(_: OnnxCall, condition: Any, x: Any, y: Any) -> Any:
    return mnp.where(condition, x, y)


@onnx_op("Clip")
def clip(call: OnnxCall, x: Any, low: Any = None, high: Any = None) -> Any:
    """Bounds are attributes before operator set 11; of bounds in the wrong order the upper one wins."""
    low = call["min"] if low is None else low
    high = call["max"] if high is None else high
    x = x if low is None else mnp.maximum(x, low)
    return x if high is None else mnp.minimum(x, high)


@onnx_op("Identity", raw=True)
def identity(_: OnnxCall, x: Any) -> Any:
    return x


@onnx_op("LeakyRelu")
def leaky_relu(call: OnnxCall, x: Any) -> Any:
    return npx.leaky_relu(x, act_type="leaky", slope=call["alpha"])


@onnx_op("Elu")
def elu(call: OnnxCall, x: Any) -> Any:
    return mnp.where(x > 0, x, call["alpha"] * mnp.expm1(mnp.minimum(x, 0)))


@onnx_op("Selu")
def selu(call: OnnxCall, x: Any) -> Any:
    return call["gamma"] * elu(call, x)


@onnx_op("HardSigmoid")
def hard_sigmoid(call: OnnxCall, x: Any) -> Any:
    return npx.hard_sigmoid(x, alpha=call["alpha"], beta=call["beta"])


@onnx_op("Gelu")
def gelu(call: OnnxCall, x: Any) -> Any:
    """Exact, or by tanh."""
    if call["approximate"] == "tanh":
        return 0.5 * x * (1 + mnp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return npx.leaky_relu(x, act_type="gelu")


@onnx_op("PRelu")
def prelu(call: OnnxCall, x: Any, slope: Any) -> Any:
    if call.version < 7 and slope.shape == x.shape[1:2]:  # a slope for each channel
        slope = slope.reshape((-1, *[1] * (len(x.shape) - 2)))
    return mnp.where(x < 0, x * slope, x)


@onnx_op("Softplus")
def softplus(_: OnnxCall, x: Any) -> Any:
    return npx.softrelu(x)


@onnx_op("Affine", "ImageScaler")
def affine(call: OnnxCall, x: Any) -> Any:
    return call["alpha"] * x + call["beta"]
