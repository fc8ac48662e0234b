"""Every operation of loop form, run as machine code, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.utils.exceptions import PassFailedException

from tests.lower.llvm.loops import TYPES, compute, elementwise, region
from tests.lower.llvm.native import llvm_ir

NAN, INF = np.nan, np.inf
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.75, -7.25, 1e3, INF, -INF, NAN]
INTS = [0, 1, -1, 2, 3, -3, 7, 100, -128, 127]


def grid(values, dtype, others=None):
    """All pairs."""
    x, y = np.meshgrid(np.array(values, dtype), np.array(values if others is None else others, dtype))
    return x.ravel(), y.ravel()


def agree(got, expected):
    """Equal to the sign of zero; a NaN is a NaN."""
    np.testing.assert_array_equal(got, expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(
            np.signbit(got), np.signbit(expected) & ~np.isnan(expected) | np.signbit(got) & np.isnan(expected)
        )


FLOAT_BINARY = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.copysign": np.copysign,
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", FLOAT_BINARY)
def test_float_binary(op, dtype):
    x, y = grid(FLOATS, dtype)
    if op in ("arith.maximumf", "arith.minimumf"):  # of zeros with two signs NumPy takes either
        keep = ~((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y)))
        x, y = x[keep], y[keep]
    with np.errstate(all="ignore"):
        agree(compute(f"%r = {op} %0, %1 : {TYPES[dtype]}", dtype, x, y), FLOAT_BINARY[op](x, y))


FLOAT_UNARY = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.sqrt": np.sqrt,
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_float_unary(op, dtype):
    x = np.array(FLOATS * 3, dtype)
    with np.errstate(all="ignore"):
        agree(compute(f"%r = {op} %0 : {TYPES[dtype]}", dtype, x), FLOAT_UNARY[op](x))


def test_maximum_prefers_positive_zero():
    x, y = np.array([0.0, -0.0], "f4"), np.array([-0.0, 0.0], "f4")
    assert not np.signbit(compute("%r = arith.maximumf %0, %1 : f32", "f4", x, y)).any()
    assert np.signbit(compute("%r = arith.minimumf %0, %1 : f32", "f4", x, y)).all()


def test_number_rather_than_nan():
    x, y = np.array([NAN, 1, NAN], "f4"), np.array([2, NAN, NAN], "f4")
    agree(compute("%r = arith.maxnumf %0, %1 : f32", "f4", x, y), np.fmax(x, y))
    agree(compute("%r = arith.minnumf %0, %1 : f32", "f4", x, y), np.fmin(x, y))


INT_BINARY = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("op", INT_BINARY)
def test_integer_binary(op, dtype):
    limits = np.iinfo(dtype)
    x, y = grid([*INTS, limits.min, limits.max], dtype)
    agree(compute(f"%r = {op} %0, %1 : {TYPES[dtype]}", dtype, x, y), INT_BINARY[op](x, y))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_unsigned(dtype):
    limits = np.iinfo(dtype)
    x, y = grid([*INTS, limits.min, limits.max], dtype)
    unsigned = np.dtype(f"u{dtype}")
    u, v = x.view(unsigned), y.view(unsigned)
    kind = TYPES[dtype]
    agree(compute(f"%r = arith.maxui %0, %1 : {kind}", dtype, x, y), np.maximum(u, v).view(dtype))
    agree(compute(f"%r = arith.minui %0, %1 : {kind}", dtype, x, y), np.minimum(u, v).view(dtype))
    agree(compute(f"%r = arith.cmpi ult, %0, %1 : {kind}", bool, x, y), u < v)
    agree(compute(f"%r = arith.cmpi uge, %0, %1 : {kind}", bool, x, y), u >= v)
    x, y, u, v = x[v != 0], y[v != 0], u[v != 0], v[v != 0]
    agree(compute(f"%r = arith.divui %0, %1 : {kind}", dtype, x, y), (u // v).view(dtype))
    agree(compute(f"%r = arith.remui %0, %1 : {kind}", dtype, x, y), (u % v).view(dtype))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_division_cuts_towards_zero(dtype):
    x, y = grid(INTS, dtype, [1, 2, -2, 3, -7, 100])
    quotient = np.trunc(x / y.astype("f8")).astype(dtype)
    agree(compute(f"%r = arith.divsi %0, %1 : {TYPES[dtype]}", dtype, x, y), quotient)
    agree(compute(f"%r = arith.remsi %0, %1 : {TYPES[dtype]}", dtype, x, y), np.fmod(x, y))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_shifts_and_absolute_value(dtype):
    kind = TYPES[dtype]
    x, y = grid([*INTS, np.iinfo(dtype).min], dtype, [0, 1, 3, 7])
    unsigned = x.view(f"u{dtype}")
    agree(compute(f"%r = arith.shli %0, %1 : {kind}", dtype, x, y), x << y)
    agree(compute(f"%r = arith.shrsi %0, %1 : {kind}", dtype, x, y), x >> y)
    agree(compute(f"%r = arith.shrui %0, %1 : {kind}", dtype, x, y), (unsigned >> y.view(unsigned.dtype)).view(dtype))
    agree(compute(f"%r = math.absi %0 : {kind}", dtype, x), np.abs(x))


ORDERED = {"oeq": np.equal, "olt": np.less, "ole": np.less_equal, "ogt": np.greater, "oge": np.greater_equal}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_comparisons_of_floats(dtype):
    x, y = grid(FLOATS, dtype)
    kind = TYPES[dtype]
    nan = np.isnan(x) | np.isnan(y)
    cases = {
        **{name: f(x, y) for name, f in ORDERED.items()},
        **{f"u{name[1:]}": f(x, y) | nan for name, f in ORDERED.items()},
        "one": (x != y) & ~nan,
        "une": x != y,
        "ord": ~nan,
        "uno": nan,
        "false": nan & False,
        "true": nan | True,
    }
    for name, expected in cases.items():
        agree(compute(f"%r = arith.cmpf {name}, %0, %1 : {kind}", bool, x, y), expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_comparisons_of_integers(dtype):
    x, y = grid(INTS, dtype)
    kind = TYPES[dtype]
    signed = {"eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater}
    for name, f in {**signed, "sge": np.greater_equal}.items():
        agree(compute(f"%r = arith.cmpi {name}, %0, %1 : {kind}", bool, x, y), f(x, y))


def test_truth_values_are_bytes():
    x, y = grid([True, False], bool)
    agree(compute("%r = arith.andi %0, %1 : i1", bool, x, y), x & y)
    agree(compute("%r = arith.xori %0, %1 : i1", bool, x, y), x ^ y)
    agree(compute("%t = arith.constant true\n%r = arith.xori %0, %t : i1", bool, x), ~x)
    numbers = np.arange(4, dtype="f4")
    picked = compute("%r = arith.select %0, %1, %2 : f32", "f4", x, numbers, -numbers)
    agree(picked, np.where(x, numbers, -numbers))


CASTS = [
    ("float32", "float64", "arith.extf"),
    ("float16", "float32", "arith.extf"),
    ("float64", "float32", "arith.truncf"),
    ("float32", "float16", "arith.truncf"),
    ("float64", "float16", "arith.truncf"),
    ("int8", "int64", "arith.extsi"),
    ("int64", "int8", "arith.trunci"),
    ("int32", "float32", "arith.sitofp"),
    ("int64", "float64", "arith.sitofp"),
    ("int8", "float16", "arith.sitofp"),
]


@pytest.mark.parametrize(("source", "target", "op"), CASTS)
def test_conversions(source, target, op):
    floats = [*FLOATS, 65504.0, 65519.0, 65520.0, 1e-7, 6e-8, 1.0009765625, 0.1]
    with np.errstate(over="ignore"):
        x = np.array(floats if source.startswith("f") else [*INTS, np.iinfo(source).max, np.iinfo(source).min], source)
    with np.errstate(all="ignore"):
        agree(compute(f"%r = {op} %0 : {TYPES[source]} to {TYPES[target]}", target, x), x.astype(target))


def test_doubles_are_rounded_once_to_half():
    half = np.arange(1 << 16, dtype="u2").view("f2")
    half = half[np.isfinite(half)].astype("f8")
    ties = (half[1:] + half[:-1]) / 2
    near = np.concatenate([half, ties, np.nextafter(ties, INF), np.nextafter(ties, -INF), ties * (1 + 1e-12)])
    x = np.concatenate(
        [near, np.random.default_rng(0).standard_normal(1000) * 1e-5, [1e300, -1e300, 1e-300, 65519.999]]
    )
    with np.errstate(all="ignore"):
        agree(compute("%r = arith.truncf %0 : f64 to f16", "f2", x), x.astype("f2"))


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "int32", "int64"])
def test_floats_to_integers(source, target):
    x = np.array([0, -0.0, 1.5, -1.5, 99.9, -99.9, 127], source)
    agree(compute(f"%r = arith.fptosi %0 : {TYPES[source]} to {TYPES[target]}", target, x), x.astype(target))
    x = np.array([0, 1.5, 99.9, 200.5], source)
    unsigned = x.astype(f"u{target}").view(target)
    agree(compute(f"%r = arith.fptoui %0 : {TYPES[source]} to {TYPES[target]}", target, x), unsigned)


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_to_unsigned_integers_of_64_bits(source):
    """Also where they are no signed ones; what none holds is what x86's instructions give, and so NumPy there."""
    below = [2.0**64 * (1 - np.finfo(source).epsneg), 2.0**63, np.nextafter(np.float32(2**63), 0), 2.0**40 + 0.0]
    x = np.array([*below, 0, 1.5, 1e10, 1.8e19] * 3, source)
    got = compute(f"%r = arith.fptoui %0 : {TYPES[source]} to i64", "int64", x)
    agree(got, x.astype("uint64").view("int64"))
    x = np.array([-1, -2.5, -1e30, 3e19, 1e30, INF, -INF, np.nan], source)
    wanted = np.array([2**64 - 1, 2**64 - 2, 2**63, 0, 0, 0, 2**63, 2**63], "uint64")
    got = compute(f"%r = arith.fptoui %0 : {TYPES[source]} to i64", "int64", x)
    agree(got, wanted.view("int64"))


@pytest.mark.parametrize("target", ["float32", "float64"])
def test_unsigned_to_floats(target):
    x = np.array([0, 1, 2**31, 2**32 - 1, 12345], "u4")
    got = compute(f"%r = arith.uitofp %0 : i32 to {TYPES[target]}", target, x.view("i4"))
    agree(got, x.astype(target))
    x = np.array([0, 1, 200, 255], "u1")
    agree(compute("%r = arith.extui %0 : i8 to i32", "i4", x.view("i1")), x.astype("i4"))


def test_bits_of_floats():
    x = np.array(FLOATS, "f4")
    agree(compute("%r = arith.bitcast %0 : f32 to i32", "i4", x), x.view("i4"))
    agree(compute("%b = arith.bitcast %0 : f32 to i32\n%r = arith.bitcast %b : i32 to f32", "f4", x), x)


def test_bfloat16_rounds_to_even():
    x = np.array(
        [1.0, 1.00390625, 1.01171875, -3.14159, 1e38, 65504, INF, -INF, 0.0], "f4"
    )  # processors flush denormal ones
    bits = x.view("u4").astype("u8")
    expected = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("u4").view("f4")
    body = "%b = arith.truncf %0 : f32 to bf16\n%r = arith.extf %b : bf16 to f32"
    agree(compute(body, "f4", x), expected)
    body = "%c = arith.constant 3.14159 : bf16\n%r = arith.extf %c : bf16 to f32"
    agree(compute(body, "f4", x), np.full(len(x), 3.140625, "f4"))


@pytest.mark.parametrize("value", [0.1, -0.1, 1e-45, 3e38, 0.0, -0.0])
def test_constants(value):
    x = np.zeros(3, "f8")
    agree(compute(f"%r = arith.constant {value:e} : f64", "f8", x), np.full(3, value))
    agree(compute(f"%r = arith.constant {value:e} : f32", "f4", x), np.full(3, value).astype("f4"))
    if abs(value) < 1e4:
        agree(compute(f"%r = arith.constant {value:e} : f16", "f2", x), np.full(3, value).astype("f2"))


@pytest.mark.parametrize(("bits", "value"), [("0x7F800000", INF), ("0xFF800000", -INF), ("0x7FC00000", NAN)])
def test_constants_that_are_no_numbers(bits, value):
    agree(compute(f"%r = arith.constant {bits} : f32", "f4", np.zeros(2)), np.full(2, value, "f4"))


def test_fused_multiply_add_rounds_once():
    x = np.array([1 + 2.0**-12], "f4")
    body = "%n = arith.constant -1.0 : f32\n%r = math.fma %0, %0, %n : f32"
    exact = float(x[0]) ** 2 - 1
    assert compute(body, "f4", x)[0] == np.float32(exact)
    separate = "%n = arith.constant -1.0 : f32\n%p = arith.mulf %0, %0 : f32\n%r = arith.addf %p, %n : f32"
    assert compute(separate, "f4", x)[0] == x[0] * x[0] - 1  # without `contract` both steps round
    assert x[0] * x[0] - 1 != np.float32(exact)


def test_indices_become_numbers():
    body = """%k = arith.index_cast %i : index to i32
      %m = arith.index_cast %k : i32 to index
      %n = arith.index_cast %m : index to i64
      %r = arith.sitofp %n : i64 to f64"""
    agree(compute(body, "f8", np.zeros(5)), np.arange(5.0))


def test_what_has_no_form_is_named():
    source = elementwise(["f32"], "f32", "%r = math.rsqrt %0 : f32")
    with pytest.raises(PassFailedException, match=r"math\.rsqrt has no lowering to LLVM IR"):
        llvm_ir(source)


def test_memory_has_one_index():
    source = region("%x: memref<?x?xf32>", "%v = memref.load %x[%zero, %one] : memref<?x?xf32>")
    with pytest.raises(PassFailedException, match="a memref of rank 2 is not flat"):
        llvm_ir(source)


def test_equal_functions_of_several_modules_are_written_once():
    sources = [
        elementwise(["f32"], "f32", f"%a = math.{name} %0 : f32\n%r = math.exp %a : f32") for name in ("exp", "log")
    ]
    text = llvm_ir(*sources)
    defined = re.findall(r"^define (?:internal )?\w+ @([\w.]+)", text, re.MULTILINE)
    assert [re.sub(r"\.\d+$", "", name) for name in defined] == [
        "exp_f32", "region.body", "symbol0", "log_f32", "region.body", "symbol1"
    ]  # fmt: skip
    assert text.count("declare float @llvm.fma.f32(") == 1
