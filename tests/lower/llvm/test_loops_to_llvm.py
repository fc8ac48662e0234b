"""Every operation of loop form, run as machine code, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.utils.exceptions import PassFailedException

from hybridc.lower.llvm.loops_to_llvm import LoopsToLLVM
from tests.lower.llvm.loops import TYPES, compute, elementwise, phase
from tests.lower.llvm.native import context, parse, run

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


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "int32", "int64"])
def test_floats_to_integers(source, target):
    x = np.array([0, -0.0, 1.5, -1.5, 99.9, -99.9, 127], source)
    agree(compute(f"%r = arith.fptosi %0 : {TYPES[source]} to {TYPES[target]}", target, x), x.astype(target))
    x = np.array([0, 1.5, 99.9, 200.5], source)
    unsigned = x.astype(f"u{target}").view(target)
    agree(compute(f"%r = arith.fptoui %0 : {TYPES[source]} to {TYPES[target]}", target, x), unsigned)


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


def test_sums_of_rows():
    body = """%z = arith.constant 0.0 : f32
    scf.for %i = %lo to %hi step %one {
      %row = arith.muli %i, %n : index
      %s = scf.for %j = %zero to %n step %one iter_args(%a = %z) -> (f32) {
        %p = arith.addi %row, %j : index
        %v = memref.load %x[%p] : memref<?xf32>
        %w = arith.addf %a, %v fastmath<reassoc, nsz, contract> : f32
        scf.yield %w : f32
      }
      memref.store %s, %y[%i] : memref<?xf32>
    }"""
    source = phase("%x: memref<?xf32>, %y: memref<?xf32>, %n: index", body)
    for columns in (0, 1, 7, 8, 33, 200):
        x = np.random.default_rng(columns).standard_normal((6, columns)).astype("f4")
        _, got = run(source, [x, np.ones(6, "f4")], [columns], extent=6, cuts=[1, 4])
        np.testing.assert_allclose(got, x.astype("f8").sum(1), rtol=1e-5, atol=1e-5)


def test_several_values_go_around_a_loop():
    body = """%z = arith.constant 0 : i64
    %o = arith.constant 1 : i64
    %a, %b = scf.for %i = %lo to %hi step %one iter_args(%p = %z, %q = %o) -> (i64, i64) {
      %r = arith.addi %p, %q : i64
      scf.yield %q, %r : i64, i64
    }
    memref.store %a, %y[%zero] : memref<?xi64>"""
    (got,) = run(phase("%y: memref<?xi64>", body), [np.zeros(1, "i8")], extent=50)
    assert got[0] == 12586269025


def test_choices_and_loops_until():
    body = """%two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %w = arith.constant 1 : i64
    %z = arith.constant 0 : i64
    scf.for %i = %lo to %hi step %one {
      %v = memref.load %x[%i] : memref<?xi64>
      %last, %steps = scf.while (%c = %v, %s = %z) : (i64, i64) -> (i64, i64) {
        %go = arith.cmpi sgt, %c, %w : i64
        scf.condition(%go) %c, %s : i64, i64
      } do {
      ^bb0(%c: i64, %s: i64):
        %bit = arith.andi %c, %w : i64
        %odd = arith.cmpi eq, %bit, %w : i64
        %next = scf.if %odd -> (i64) {
          %t = arith.muli %c, %three : i64
          %u = arith.addi %t, %w : i64
          scf.yield %u : i64
        } else {
          %h = arith.divsi %c, %two : i64
          scf.yield %h : i64
        }
        %s1 = arith.addi %s, %w : i64
        scf.yield %next, %s1 : i64, i64
      }
      %long = arith.cmpi sgt, %steps, %three : i64
      scf.if %long {
        memref.store %steps, %y[%i] : memref<?xi64>
      }
    }"""

    def collatz(n):
        steps = 0
        while n > 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    x = np.arange(1, 30)
    steps = np.array([collatz(int(n)) for n in x])
    _, got = run(phase("%x: memref<?xi64>, %y: memref<?xi64>", body), [x, x * 0 - 1], extent=len(x), cuts=[10])
    agree(got, np.where(steps > 3, steps, -1))


def test_private_functions_with_and_without_results():
    functions = """
  func.func private @twice(%v: f32) -> f32 {
    %h = func.call @half(%v) : (f32) -> f32
    %four = arith.constant 4.0 : f32
    %w = arith.mulf %h, %four : f32
    func.return %w : f32
  }
  func.func private @half(%v: f32) -> f32 {
    %two = arith.constant 2.0 : f32
    %w = arith.divf %v, %two : f32
    func.return %w : f32
  }
  func.func private @nothing() {
    func.return
  }"""
    x = np.arange(9, dtype="f4")
    body = "func.call @nothing() : () -> ()\n%r = func.call @twice(%0) : (f32) -> f32"
    agree(compute(body, "f4", x, functions=functions), 2 * x)


def test_numbers_of_every_type():
    body = """%f = arith.extf %b : f32 to f64
    %g = arith.sitofp %c : i64 to f64
    %k = arith.index_cast %a : index to i64
    %h = arith.sitofp %k : i64 to f64
    %1 = arith.addf %f, %g : f64
    %2 = arith.addf %1, %h : f64
    %3 = arith.addf %2, %d : f64
    memref.store %3, %y[%zero] : memref<?xf64>"""
    source = phase("%y: memref<?xf64>, %a: index, %b: f32, %c: i64, %d: f64", body)
    (got,) = run(source, [np.zeros(1)], [-7, np.float32(0.25), 2**40, np.float64(0.125)])
    assert got[0] == -7 + 0.25 + 2**40 + 0.125


def test_scratch_memory_of_threads_and_of_calls():
    body = """%n = arith.subi %hi, %lo : index
    %four = arith.constant 4 : index
    %half = arith.muli %n, %four : index
    %a = memref.view %scratch[%zero][%n] : memref<?xi8> to memref<?xf32>
    %b = memref.view %scratch[%half][%n] : memref<?xi8> to memref<?xf32>
    %own = memref.alloca() : memref<1xf32>
    scf.for %i = %zero to %n step %one {
      %p = arith.addi %lo, %i : index
      %v = memref.load %x[%p] : memref<?xf32>
      memref.store %v, %a[%i] : memref<?xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %b[%i] : memref<?xf32>
    }
    scf.for %i = %zero to %n step %one {
      %v = memref.load %a[%i] : memref<?xf32>
      memref.store %v, %own[%zero] : memref<1xf32>
      %u = memref.load %own[%zero] : memref<1xf32>
      %w = memref.load %b[%i] : memref<?xf32>
      %s = arith.addf %u, %w : f32
      %p = arith.addi %lo, %i : index
      memref.store %s, %y[%p] : memref<?xf32>
    }"""
    x = np.arange(100, dtype="f4")
    source = phase("%x: memref<?xf32>, %y: memref<?xf32>", body)
    _, got = run(source, [x, 0 * x], extent=100, cuts=[64], scratch=64 * 8)
    agree(got, 3 * x)


def test_vectors():
    body = """%eight = arith.constant 8 : index
    %c = arith.constant dense<0.5> : vector<8xf32>
    scf.for %i = %lo to %hi step %eight {
      %v = vector.load %x[%i] : memref<?xf32>, vector<8xf32>
      %s = memref.load %x[%i] : memref<?xf32>
      %b = vector.broadcast %s : f32 to vector<8xf32>
      %f = vector.fma %v, %b, %c : vector<8xf32>
      %m = arith.mulf %f, %c : vector<8xf32>
      vector.store %m, %y[%i] : memref<?xf32>, vector<8xf32>
      %t = vector.reduction <add>, %m : vector<8xf32> into f32
      %u = vector.reduction <maximumf>, %m : vector<8xf32> into f32
      %k = arith.divui %i, %eight : index
      memref.store %t, %sums[%k] : memref<?xf32>
      memref.store %u, %greatest[%k] : memref<?xf32>
    }"""
    arguments = "%x: memref<?xf32>, %y: memref<?xf32>, %sums: memref<?xf32>, %greatest: memref<?xf32>"
    x = np.random.default_rng(0).standard_normal(32).astype("f4")
    few = np.zeros(4, "f4")
    _, y, sums, greatest = run(phase(arguments, body), [x, 0 * x, few, few], extent=32, cuts=[16])
    rows = x.reshape(4, 8).astype("f8")
    expected = (rows * rows[:, :1] + 0.5) * 0.5
    np.testing.assert_allclose(y.reshape(4, 8), expected, rtol=1e-6)
    np.testing.assert_allclose(sums, expected.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(greatest, y.reshape(4, 8).max(1))


def test_vectors_are_permuted():
    body = """%v = vector.load %x[%zero] : memref<?xf32>, vector<4xf32>
    %w = vector.shuffle %v, %v [3, 2, 1, 4] : vector<4xf32>, vector<4xf32>
    vector.store %w, %y[%zero] : memref<?xf32>, vector<4xf32>"""
    x = np.arange(4, dtype="f4")
    _, got = run(phase("%x: memref<?xf32>, %y: memref<?xf32>", body), [x, 0 * x])
    agree(got, x[[3, 2, 1, 0]])


def test_what_has_no_form_is_named():
    module = parse(elementwise(["f32"], "f32", "%r = math.erf %0 : f32"))
    with pytest.raises(PassFailedException, match=r"math\.erf has no form in LLVM"):
        LoopsToLLVM().apply(context(), module)


def test_memory_has_one_index():
    module = parse(phase("%x: memref<?x?xf32>", "%v = memref.load %x[%zero, %one] : memref<?x?xf32>"))
    with pytest.raises(PassFailedException, match="has one index, not 2"):
        LoopsToLLVM().apply(context(), module)


def test_the_result_is_valid():
    module = parse(elementwise(["f32", "i1"], "f32", "%r = arith.select %1, %0, %0 : f32"))
    LoopsToLLVM().apply(context(), module)
    module.verify()
    again = parse(str(module))
    assert str(again) == str(module)
