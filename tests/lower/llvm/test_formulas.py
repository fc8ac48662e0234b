"""Formulas of math functions, run as machine code, against NumPy with more digits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import special
from xdsl.utils.exceptions import PassFailedException

import hybridc as mx
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.tools.loop_form import loop_form
from tests.lower.llvm.loops import TYPES, compute, elementwise
from tests.lower.llvm.native import llvm_ir, parse

UNARY = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cbrt": np.cbrt, "erf": special.erf,
}  # fmt: skip
BINARY = {"powf": np.power, "atan2": np.arctan2}
INTEGER = {"ipowi"}

# Where formulas change, or results begin to be subnormal, infinite or 1.
EDGES = [
    0.5, 1.0, 1.5, 2.0, 3.0, 0.70710677, 1.4142135, 1.1875, 3.92, 4.0, 6.0, 9.01, 9.02, 17.3, 22.0, 40.0,
    87.33, 88.7, 88.73, 89.41, 89.42, 103.9, 104.0, 176.0, 200.0, 708.3, 709.78, 709.79, 710.47, 710.48, 745.1, 745.2,
    2.0**-60, 2.0**28, 2.0**30, 2.0**51, 2.0**77, 2.0**103, 2.0**127,
]  # fmt: skip
SPECIAL = [0.0, 1.0, 0.5, 2.0, 3.0, 1e-45, 1e-39, np.inf, np.nan]


def apply(name, *arrays):
    kind = TYPES[arrays[0].dtype.name]
    operands = ", ".join(f"%{i}" for i in range(len(arrays)))
    return compute(f"%r = math.{name} {operands} : {kind}", arrays[0].dtype, *arrays)


def truth(function, *arrays):
    wide = np.float64 if arrays[0].dtype == np.float32 or function is special.erf else np.longdouble
    with np.errstate(all="ignore"):
        return function(*[a.astype(wide) for a in arrays])


def in_ulps(got, right):
    """Errors in units in the last place; not for what is no finite number of the type."""
    info = np.finfo(got.dtype)
    _, exponent = np.frexp(right)
    unit = np.ldexp(right.dtype.type(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
    return np.abs(got.astype(right.dtype) - right) / unit


def check(got, right, limit):
    """As near as that; what is infinite, a NaN or a zero is so in both."""
    with np.errstate(all="ignore"):
        rounded = right.astype(got.dtype)
        odd = ~np.isfinite(got) | ~np.isfinite(rounded)
        # The last number before infinity may become infinite by less than a unit.
        edge = np.isinf(got) ^ np.isinf(rounded)
        greatest = np.finfo(got.dtype).max
    np.testing.assert_array_equal(got[odd & ~edge], rounded[odd & ~edge])
    assert (np.abs(np.where(np.isinf(got), rounded, got)[edge]) == greatest).all()
    zero = (got == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(rounded)[zero])
    errors = in_ulps(got[~odd], right[~odd])
    assert errors.size == 0 or errors.max() <= limit, (errors.max(), np.flatnonzero(~odd)[errors.argmax()])


def around(values, dtype):
    """The values, their neighbours, and all of them with the other sign."""
    x = np.array(values, np.float64)
    x = x[np.abs(x) < np.finfo(dtype).max].astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf))])
    return np.concatenate([x, -x])


def every_size(dtype, step):
    """Numbers of all representations."""
    bits = np.dtype(dtype).itemsize * 8
    count = (1 << bits) // step
    return (np.arange(count, dtype=np.uint64) * step).astype(f"uint{bits}").view(dtype)


@pytest.mark.parametrize("name", UNARY)
def test_single_precision_is_within_two_and_a_half_units(name):
    x = np.concatenate([every_size(np.float32, 16381), around(EDGES, np.float32)])
    check(apply(name, x), truth(UNARY[name], x), 2.5)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no type with more digits than double")
@pytest.mark.parametrize("name", UNARY)
def test_double_precision_is_within_1e_14(name):
    random = np.random.default_rng(0)
    n = 20000
    x = np.concatenate([
        every_size(np.float64, (1 << 64) // n),
        around(EDGES, np.float64),
        random.uniform(-20, 20, n),
        random.uniform(-1, 1, n),
        1 + random.uniform(-1, 1, n) * 2.0 ** random.uniform(-40, 0, n),
        random.integers(-(10**6), 10**6, n) * (np.pi / 2),
    ])  # fmt: skip
    check(apply(name, x), truth(UNARY[name], x), 1e-14 / np.finfo(np.float64).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_special_values_are_those_of_numpy(name, dtype):
    x = np.array([*SPECIAL, *(-v for v in SPECIAL)], dtype)
    right = truth(UNARY[name], x)
    got = apply(name, x)
    exact = ~np.isfinite(right) | (right == 0)
    np.testing.assert_array_equal(got[exact], right[exact].astype(dtype))
    signed = exact & ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(right[signed]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name, dtype):
    random = np.random.default_rng(0)
    n = 20000
    values = np.array([*SPECIAL, *(-v for v in SPECIAL), 1e30, -1e30, 7.0, -7.0, 1e-300, 1e300], np.float64)
    with np.errstate(over="ignore"):
        x, y = np.meshgrid(values.astype(dtype), values.astype(dtype))
    xs = [x.ravel(), random.uniform(0, 8, n), random.uniform(-8, 8, n), 1 + random.uniform(-1e-4, 1e-4, n)]
    ys = [y.ravel(), random.uniform(-40, 40, n), random.integers(-30, 30, n), random.uniform(-6e5, 6e5, n)]
    x, y = (np.concatenate(v).astype(dtype) for v in (xs, ys))
    check(apply(name, x, y), truth(BINARY[name], x, y), 2.5 if dtype == np.float32 else 45)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_powers_of_integers_wrap(dtype):
    bits = np.dtype(dtype).itemsize * 8
    x, y = np.meshgrid(
        np.array([0, 1, -1, 2, -2, 3, 7, -10, 100], dtype), np.array([0, 1, 2, 3, 5, 31, 63, 100], dtype)
    )
    x, y = x.ravel(), y.ravel()
    right = [pow(int(a), int(b), 1 << bits) for a, b in zip(x, y)]
    right = np.array(right, np.uint64).astype(f"uint{bits}").view(dtype)
    np.testing.assert_array_equal(apply("ipowi", x, y), right)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "log", "sin"])
def test_half_precision_is_computed_in_single(name):
    x = every_size(np.float16, 7)
    check(apply(name, x), truth(UNARY[name], x.astype(np.float32)), 0.51)


LOGISTIC = """
%unit = arith.constant 1.0 : T
%n = arith.negf %0 : T
%e = math.exp %n : T
%d = arith.addf %e, %unit : T
%r = arith.divf %unit, %d : T
"""


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 2.5), (np.float64, 1e-14 / np.finfo(np.float64).eps)])
def test_the_logistic_function_is_exact_where_it_is_subnormal(dtype, limit):
    x = np.concatenate([
        every_size(dtype, 16381 if dtype == np.float32 else (1 << 64) // 20000),
        np.linspace(-750, 40, 20001).astype(dtype),
        np.linspace(-104, -87, 20001).astype(dtype),
    ])  # fmt: skip
    got = compute(LOGISTIC.replace("T", TYPES[np.dtype(dtype).name]), dtype, x)
    check(got, truth(special.expit, x), limit)
    assert ((got > 0) & (got < np.finfo(dtype).tiny)).any()


@pytest.mark.parametrize(
    "body",
    [
        LOGISTIC.replace("%d = arith.addf %e, %unit", "%d = arith.addf %e, %0"),
        LOGISTIC.replace("arith.negf %0", "math.absf %0"),
        LOGISTIC.replace("%r = arith.divf %unit", "%r = arith.divf %e"),
        LOGISTIC.replace("constant 1.0", "constant 2.0"),
    ],
)
def test_what_only_looks_like_the_logistic_function_is_computed_as_it_is_written(body):
    assert calls(written(body.replace("T", "f32"))) == ["exp_f32"]


def test_a_power_that_is_needed_elsewhere_is_computed_beside_the_logistic_function():
    body = LOGISTIC.replace("%r =", "%q =").replace("T", "f32") + "%r = arith.addf %q, %e : f32"
    assert calls(written(body)) == ["exp_f32", "logistic_f32"]
    x = np.linspace(-20, 80, 1001).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(compute(body, np.float32, x), special.expit(wide) + np.exp(-wide), rtol=1e-6)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, -1.0, 0.5, -0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_short_powers_need_no_function(exponent, dtype):
    kind = TYPES[np.dtype(dtype).name]
    body = f"%e = arith.constant {exponent} : {kind}\n%r = math.powf %0, %e : {kind}"
    assert calls(written(body, [kind], kind)) == []
    x = np.concatenate([np.array([*SPECIAL, *(-v for v in SPECIAL)]), np.linspace(0.01, 40, 500)]).astype(dtype)
    check(compute(body, dtype, x), truth(np.power, x, np.full_like(x, exponent)), 2.5)


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_results_stay_within_one(name):
    x = np.concatenate([np.linspace(-12, 12, 200001), around(EDGES, np.float32)]).astype(np.float32)
    got = apply(name, x)
    assert np.abs(got).max() == 1
    assert (np.abs(got[np.abs(x) > 10]) == 1).all()


def written(body, kinds=("f32",), result="f32"):
    """The LLVM IR of a loop with this body."""
    return llvm_ir(elementwise(kinds, result, body))


def calls(text):
    """The formulas that LLVM IR calls, in order."""
    return re.findall(r"call \w+ @(?!llvm\.|region\b)(\w+)\.\d+\(", text)


def test_a_function_is_added_once_for_each_type():
    text = written("%a = math.exp %0 : f32\n%b = math.exp %a : f32\n%c = math.log %b : f32\n%r = math.exp %c : f32")
    assert re.findall(r"^define internal float @(\w+)\.\d+\(float", text, re.MULTILINE) == ["exp_f32", "log_f32"]
    assert calls(text) == ["exp_f32", "exp_f32", "log_f32", "exp_f32"]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_half_precision_calls_the_function_of_single(kind):
    assert calls(written(f"%r = math.exp %0 : {kind}", [kind], kind)) == ["exp_f32"]


def test_a_logistic_function_is_one_call():
    assert calls(written(LOGISTIC.replace("T", "f32"))) == ["logistic_f32"]


def test_vectors_are_refused():
    vector = "%v = vector.broadcast %0 : f32 to vector<8xf32>\n%w = math.exp %v : vector<8xf32>"
    body = f"{vector}\n%r = arith.addf %0, %0 : f32"
    with pytest.raises(PassFailedException, match="formulas are of scalars"):
        written(body)


@pytest.mark.parametrize("name", UNARY)
def test_loops_that_call_them_are_vectorised(name):
    source = elementwise(["f32"], "f32", f"%r = math.{name} %0 : f32")
    optimised = NativeFunction(f"vectorised {name}", loop_form(lambda: parse(source))).explain("optimised")
    assert "x float>" in optimised
    assert f"call float @{name}" not in optimised


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_floats_that_no_integer_holds_are_cut_as_eagerly(dtype):
    """LLVM leaves it open, and computes what it likes where it knows the number."""

    class Casts(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, n):
            return F.cast(x, dtype=dtype), F.rsqrt(F.full_like(n, 0)), F.log10(F.zeros_like(n)) * 0 + n

    values = [np.nan, np.inf, -np.inf, 300, -300, 3e9, -3e9, 1e19, 2.0**31, 2.0**31 - 128, -(2.0**31), 1.5] * 3
    for source in ("float32", "float64"):
        net, x, n = Casts(), mx.nd.array(values, dtype=source), mx.nd.array([1, 2], dtype=dtype)
        want = [y.asnumpy() for y in net(x, n)]
        net.hybridize()
        for _ in range(2):
            for got, expected in zip(net(x, n), want, strict=True):
                np.testing.assert_array_equal(got.asnumpy(), expected)
