"""Arithmetic, comparison and unary mathematics, elementwise."""

from __future__ import annotations

import numpy as np

from .op_cases import EMPTY, SPECIAL, Cases, F, I, P, V

CASES = Cases()
add = CASES.add

# Operators between arrays and with scalars on both sides.

SMOOTH = ["+", "-", "*", "/"]
COMPARE = ["==", "!=", ">", ">=", "<", "<="]

for op in SMOOTH:
    add(f"x {op} y", x=F(2, 3), y=P(2, 3))
    add(f"x {op} y", x=F(2, 1, 3), y=P(1, 4, 3))
    add(f"x {op} y", x=F(4, 3, dtype="float64"), y=P(4, 1, dtype="float64"))
    add(f"x {op} y", x=F(5, dtype="float16"), y=P(5, dtype="float16"), rtol=4e-3)
    add(f"x {op} y", x=I(2, 3), y=I(2, 3, lo=1))
    add(f"x {op} y", x=I(2, 3, dtype="int64"), y=I(1, 3, lo=1, dtype="int64"))
    add(f"x {op} y", x=I(2, 3, dtype="int8"), y=I(2, 3, lo=1, dtype="int8"))
    add(f"x {op} y", x=I(2, 3, hi=200, dtype="uint8"), y=I(2, 3, lo=1, hi=100, dtype="uint8"))
    add(f"x {op} 2", x=F(3, 5))
    add(f"x {op} 2.5", x=F(7, dtype="float64"))
    add(f"x {op} 0.1", x=F(7, dtype="float16"), rtol=4e-3)
    add(f"x {op} 2", x=I(7))
    add(f"x {op} 2", x=I(7, dtype="int64"))
    add(f"2.5 {op} x", x=P(3, 5))
    add(f"2 {op} x", x=P(3, dtype="float64"))
    add(f"20 {op} x", x=I(6, lo=1))
    add(f"x {op} y", x=SPECIAL, y=SPECIAL[::-1].copy(), tag="special")
    add(f"x {op} 0", x=SPECIAL, tag="special")
    add(f"1 {op} x", x=SPECIAL, tag="special")

for op in ["%", "**"]:
    add(f"x {op} y", x=P(2, 3), y=P(2, 3))
    add(f"x {op} y", x=P(2, 1, 3), y=P(1, 4, 3))
    add(f"x {op} y", x=P(4, dtype="float64"), y=P(4, dtype="float64"))
    add(f"x {op} y", x=P(4, dtype="float16"), y=P(4, dtype="float16"), rtol=5e-3, atol=5e-3)
    add(f"x {op} y", x=I(6, lo=0), y=I(6, lo=1, hi=5))
    add(f"x {op} 2", x=F(3, 5))
    add(f"x {op} 3", x=I(7))
    add(f"2.5 {op} x", x=P(3, 5))
    add(f"7 {op} x", x=I(6, lo=1, hi=5))
    add(f"x {op} y", x=SPECIAL, y=SPECIAL[::-1].copy(), tag="special", grad=False)
add("x ** 3", x=F(4))
add("x ** 0", x=V(0.0, 1.0, -2.0))
add("x ** 0.5", x=P(4))
add("x ** -1", x=P(4))
add("x ** -1.5", x=P(4, dtype="float64"))
add("2 ** x", x=F(4))
add("x % y", x=F(12, lo=-9, hi=9), y=V(2, -2, 3, -3, 1.5, -1.5, 2, -2, 5, -5, 0.7, -0.7))
add("x % y", x=I(12), y=V(2, -2, 3, -3, 4, -4, 5, -5, 7, -7, 1, -1, dtype="int32"))
add("x % -3", x=I(9))
add("x % -1.5", x=F(9, lo=-9, hi=9))
add("-7 % x", x=V(2, -2, 3, -3, 5, -5))
add("x % 0", x=F(4))
add("5 % x", x=V(0.0, 1.0, np.inf, np.nan), grad=False)

for op in COMPARE:
    close = V(1, 2, 3, 4, 5, 6, shape=(2, 3))
    add(f"x {op} y", x=close, y=V(1, 3, 2, 4, 4, 7, shape=(2, 3)))
    add(f"x {op} y", x=close, y=V(1, 5, shape=(2, 1)))
    add(f"x {op} y", x=close.astype("float64"), y=V(2, 5, 3, dtype="float64", shape=(1, 3)))
    add(f"x {op} y", x=I(9, hi=3, lo=-2), y=I(9, hi=3, lo=-2))
    add(f"x {op} y", x=SPECIAL, y=SPECIAL[::-1].copy(), tag="special")
    add(f"x {op} 3", x=close)
    add(f"3 {op} x", x=close)
    add(f"x {op} 1.5", x=I(9, lo=-1, hi=4))
    add(f"x {op} 1", x=I(9, lo=-1, hi=4, dtype="uint8"))
    add(f"x {op} 0", x=SPECIAL, tag="special")

add("-x", x=F(2, 3))
add("-x", x=I(5))
add("-x", x=I(5, hi=100, dtype="uint8"))
add("-x", x=F(5, dtype="float16"))
add("abs(x)", x=F(2, 3))
add("x * 0.5", x=I(7))
add("x + 1.9", x=I(7))
add("x - 1.9", x=I(7))
add("x * -1.9", x=I(7))
add("x + 250", x=I(7, lo=0, hi=100, dtype="uint8"))
add("x * 100", x=I(7, dtype="int8"))
add("x + True", x=F(3))
add("x + x * x - x / (x + 3)", x=F(2, 3))
add("(x - nd.mean(x, axis=1, keepdims=True)) / 2", x=F(3, 4))
add("x + y", x=F(3, 4), y=F(4))
add("x * y", x=F(4), y=F(2, 3, 4))
add("x + y", x=F(2, 3), y=F(2, 4), raises=True)
add("x + y", x=F(2, 3), y=F(2, 3, dtype="float64"), raises=True)
add("x * y", x=F(2, 3), y=I(2, 3), raises=True)
add("x == y", x=F(2, 3), y=I(2, 3), raises=True)
add("x + y", x=F(0, 3), y=F(0, 3), compat=EMPTY, want="x + y")
add("x + 1", x=F(2, 0), compat=EMPTY, want="x + 1")
add("x == None", x=F(3), trace=False, compat="nothing equals None, as everywhere in Python", want="False")
add("x + 'a'", x=F(3), raises=True)
add("x + np.float32(2)", x=F(3))
add("x * np.int64(2)", x=F(3))
add("x // 2", x=F(3), raises=True)
add("x & 1", x=I(3), raises=True)

# The same as functions.

BROADCAST = {
    "add": 1, "plus": 1, "sub": 1, "minus": 1, "mul": 1, "div": 1, "mod": 1, "power": 1, "maximum": 1, "minimum": 1, "hypot": 1,
    "equal": 0, "not_equal": 0, "greater": 0, "greater_equal": 0, "lesser": 0, "lesser_equal": 0,
    "logical_and": 0, "logical_or": 0, "logical_xor": 0,
}  # fmt: skip
for name, smooth in BROADCAST.items():
    code = f"nd.broadcast_{name}(x, y)"
    if smooth:
        add(code, x=P(2, 1, 3), y=P(1, 4, 3))
        add(code, x=P(2, 3), y=P(2, 3))
        add(code, x=P(3, 1, dtype="float64"), y=P(1, 2, dtype="float64"))
        add(code, x=P(3, 1, dtype="float16"), y=P(1, 2, dtype="float16"), rtol=5e-3, atol=5e-3)
        add(code, x=SPECIAL, y=SPECIAL[::-1].copy(), tag="special", grad=False)
    add(code, x=V(0, 1, 2, 3, 4, 5, shape=(2, 1, 3)), y=V(0, 2, 3, 4, shape=(1, 4, 1)), grad=False)
    add(code, x=I(3, 1, lo=0, hi=4), y=I(1, 4, lo=1, hi=4))
    add(code, x=F(2, 3), y=F(3, 2), raises=True)
    add(code, x=F(0, 3), y=F(1, 3), compat=EMPTY, want="np.zeros((0, 3), 'float32')")

for name in ["add", "sub", "mul", "div"]:
    add(f"nd.elemwise_{name}(x, y)", x=F(2, 3), y=P(2, 3))
    add(f"nd.elemwise_{name}(lhs=x, rhs=y)", x=F(3, dtype="float64"), y=P(3, dtype="float64"))
    add(f"nd.elemwise_{name}(x, y)", x=F(3, dtype="float16"), y=P(3, dtype="float16"), rtol=5e-3)
    add(f"nd.elemwise_{name}(x, y)", x=I(2, 3), y=I(2, 3, lo=1))
    add(f"nd.elemwise_{name}(x, y)", x=F(2, 3), y=F(1, 3), raises=True)

EITHER = ["add", "subtract", "multiply", "divide", "true_divide", "modulo", "power", "maximum", "minimum"]
for name in EITHER:
    add(f"nd.{name}(x, y)", x=P(2, 3), y=P(2, 3))
    add(f"nd.{name}(x, y)", x=P(2, 3), y=P(2, 1))
    add(f"nd.{name}(x, 2)", x=P(2, 3))
    add(f"nd.{name}(2, x)", x=P(2, 3))
    add(f"nd.{name}(7, 2)", trace=False)
for name in ["equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal",
             "logical_and", "logical_or", "logical_xor"]:  # fmt: skip
    few = V(0, 1, 2, 0, 2, 1)
    add(f"nd.{name}(x, y)", x=few, y=V(0, 2, 1, 1, 2, 0))
    add(f"nd.{name}(x, y)", x=few.reshape(2, 3), y=V(0, 2, shape=(2, 1)))
    add(f"nd.{name}(x, 1)", x=few)
    add(f"nd.{name}(1, x)", x=few)
    add(f"nd.{name}(x, y)", x=I(6, lo=0, hi=3), y=I(6, lo=0, hi=3))

tied = V(1, 2, 3, -1, 0, 5), V(1, 3, 2, -1, 0, 5)
for name in ["maximum", "minimum"]:
    add(f"nd.broadcast_{name}(x, y)", x=tied[0], y=tied[1], tag="ties")
    add(f"nd.{name}(x, 1)", x=tied[0], tag="ties")
    add(f"nd.{name}(0, x)", x=tied[0], tag="ties")
    add(f"nd.{name}(x, 0)", x=SPECIAL, tag="special", grad=False)
add("nd.broadcast_hypot(x, y)", x=V(3, 0, 1e20, 0), y=V(4, 0, 1e20, 2), grad=False)

add("nd.add_n(x, y, z)", x=F(2, 3), y=F(2, 3), z=F(2, 3))
add("nd.add_n(x)", x=F(2, 3))
add("nd.add_n(*[x, y])", x=I(4), y=I(4))
add("nd.ElementWiseSum(x, y)", x=F(4, dtype="float64"), y=F(4, dtype="float64"))
add("nd.add_n(x, x, y)", x=F(3), y=F(3))
add("nd.add_n(x, y)", x=F(3), y=F(2, 3), raises=True)

# Unary mathematics: the range of each one's samples.

ANY = ["abs", "sign", "square", "cbrt", "exp", "expm1", "sin", "cos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
       "degrees", "radians", "sigmoid", "softsign", "relu", "erf", "negative", "identity", "hard_sigmoid"]  # fmt: skip
POSITIVE = ["sqrt", "rsqrt", "rcbrt", "log", "log2", "log10", "log1p", "gamma", "gammaln", "reciprocal"]
UNIT = ["arcsin", "arccos", "arctanh", "erfinv", "tan"]
STEPS = ["round", "rint", "fix", "trunc", "floor", "ceil"]
OWN_SPECIAL = ["sign", "gammaln"]
add("nd.sign(x)", x=SPECIAL, compat="NaN stays NaN; MXNet's sign makes it 0", want="np.sign(x)")
add(
    "nd.gammaln(x)",
    x=SPECIAL,
    compat="SciPy's value at -inf is -inf, MXNet's inf",
    want="V(np.nan, np.inf, -np.inf, np.inf, np.inf, 0, np.inf, 0.5 * np.log(np.pi))",
)
for name in [*ANY, *POSITIVE, *UNIT, "arccosh"]:
    lo, hi = (-3.0, 3.0) if name in ANY else (0.2, 3.0) if name in POSITIVE else (-0.9, 0.9)
    lo, hi = (1.2, 4.0) if name == "arccosh" else (lo, hi)
    code = f"nd.{name}(x)"
    loose = name in (
        "erfinv",
        "gamma",
        "gammaln",
        "erf",
        "degrees",
        "radians",
        "hard_sigmoid",
    )  # MXNet: float32 inside
    add(code, x=F(3, 5, lo=lo, hi=hi), rtol=1e-4 if loose else 0)
    add(code, x=F(7, lo=lo, hi=hi, dtype="float64"), rtol=1e-4 if loose else 0)
    add(code, x=F(7, lo=lo, hi=hi, dtype="float16"), rtol=5e-3, atol=2e-3)
    if name not in OWN_SPECIAL:
        add(code, x=SPECIAL, tag="special", grad=False)
    add(code, x=F(0, 2), compat=EMPTY, want="x")
for name in STEPS:
    add(f"nd.{name}(x)", x=F(3, 5, lo=-9, hi=9))
    add(f"nd.{name}(x)", x=V(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -2.7, 2.7, 0, 3))
    add(f"nd.{name}(x)", x=V(-2.5, -1.5, 1.5, 2.49, 2.51, dtype="float64"))
    add(f"nd.{name}(x)", x=V(-2.5, -1.5, 1.5, 2.5, dtype="float16"))
    add(f"nd.{name}(x)", x=I(5))
    add(f"nd.{name}(x)", x=SPECIAL, tag="special")
for name in ["abs", "sign", "square", "negative", "identity", "relu", "sigmoid", "exp", "cbrt", "tanh"]:
    add(f"nd.{name}(x)", x=I(7))
    add(f"nd.{name}(x)", x=I(7, lo=0, hi=6, dtype="uint8"), tag="small")
for name in ["sqrt", "log", "reciprocal", "log1p", "rsqrt"]:
    add(f"nd.{name}(x)", x=I(7, lo=1, hi=30))
add("nd.sqrt(x)", x=I(5, lo=0, hi=1000, dtype="int64"))
add("nd.abs(x)", x=I(5, dtype="int8"))
add("nd.sqrt(x)", x=V(0.0, 4.0))
add("nd.abs(x)", x=V(0.0, -0.0, 2.0))
add("nd.relu(x)", x=V(0.0, -0.0, 2.0, -2.0))
add("nd.sign(x)", x=V(0.0, -0.0, 2.0, -2.0))
add("nd.softsign(x)", x=V(0.0, 100.0, -100.0))
add("nd.sigmoid(x)", x=V(0.0, 100.0, -100.0, 30.0, -30.0))
add("nd.tanh(x)", x=V(0.0, 100.0, -100.0, 1e-4))
add("nd.log1p(x)", x=V(0.0, 1e-6, -1e-6, 1e8))
add("nd.expm1(x)", x=V(0.0, 1e-6, -1e-6, -50.0))
add("nd.gamma(x)", x=V(0.5, 1, 2, 3, 4, 5, -0.5, -1.5, 10), rtol=1e-4)
add("nd.gammaln(x)", x=V(0.5, 1, 2, 3, 4, 5, -0.5, -1.5, 50), rtol=1e-4, atol=1e-5)
add("nd.erf(x)", x=V(0.0, 5.0, -5.0, 1e-5))
add("nd.erfinv(x)", x=V(0.0, 0.5, -0.99, 0.999), rtol=1e-4)
for args in ["alpha=0.1", "beta=0.3", "alpha=0.5, beta=0.2"]:
    add(f"nd.hard_sigmoid(x, {args})", x=F(4, 3, lo=-6, hi=6))
add("nd.logical_not(x)", x=V(0, 1, -2, 0.5, np.nan))
add("nd.logical_not(x)", x=I(6, lo=-1, hi=2))
add("nd.logical_not(x)", x=V(0.0, 2.0, dtype="float64"))
add("nd.BlockGrad(x) * x", x=F(2, 3))
add("nd.stop_gradient(x)", x=F(2, 3))
add("nd.make_loss(x)", x=F(2, 3))
add("nd.make_loss(x * x)", x=F(2, 3))
add("nd.MakeLoss(x * x)", x=F(2, 3))
add("nd.MakeLoss(x * x, grad_scale=2.0)", x=F(2, 3))
add("nd.MakeLoss(x * x, grad_scale=2.0, normalization='batch')", x=F(2, 3))
add("nd.MakeLoss(x, grad_scale=2.0, normalization='valid', valid_thresh=0.0)", x=F(2, 3))
add("nd.zeros_like(x)", x=F(2, 3))
add("nd.ones_like(x)", x=F(2, 3))
add("nd.ones_like(x)", x=I(2, 3))
add("nd.zeros_like(x)", x=I(2, 3, dtype="int64"))
add("nd.shape_array(x)", x=F(2, 3, 5), grad=False)
add("nd.size_array(x)", x=F(2, 3, 5), grad=False)
add("nd.shape_array(x)", x=I(4), grad=False)

add("nd.smooth_l1(x)", x=V(-3, -1, -0.5, 0, 0.5, 1, 3))
add("nd.smooth_l1(x, scalar=2.0)", x=V(-3, -0.25, -0.1, 0, 0.2, 0.25, 3))
add("nd.smooth_l1(x, scalar=0.5)", x=F(3, 4, lo=-6, hi=6))
add("nd.clip(x, -1, 1)", x=F(3, 4))
add("nd.clip(x, a_min=0.5, a_max=1.5)", x=F(3, 4, dtype="float64"))
add("nd.clip(x, a_min=-1, a_max=1)", x=V(-1, 1, -1.5, 1.5, 0), tag="edges")
add("nd.clip(x, -3, 4)", x=I(9))
add("nd.clip(x, -1, 1)", x=SPECIAL, tag="special", grad=False)
add("nd.clip(x, -1, 1)", x=F(4, dtype="float16"))

add("nd.cast(x, dtype='float64')", x=F(2, 3))
add("nd.Cast(x, dtype='float16')", x=F(2, 3))
add("nd.cast(x, dtype='int32')", x=V(-2.7, -0.5, 0.5, 2.7))
add("nd.cast(x, dtype='int64')", x=V(-2.7, 1e9, 3))
add("nd.cast(x, dtype='uint8')", x=V(2.7, 200, 3))
add("nd.cast(x, dtype='int8')", x=V(2.7, -100, 3))
add("nd.cast(x, dtype='bool')", x=V(0, 1, 0.5, -2))
add("nd.cast(x, dtype='float32')", x=I(4))
add("nd.cast(x, dtype='float32')", x=V(True, False, dtype="bool"))
add("nd.cast(x, dtype='int8')", x=I(4, lo=0, hi=500))
add("nd.cast(x, dtype='float32')", x=F(4, dtype="float16"))
add("nd.cast(x, dtype='complex64')", x=F(4), raises=True)
add("nd.amp_cast(x, dtype='float16')", x=F(4))
