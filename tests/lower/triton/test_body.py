"""Bodies in Triton's language, interpreted, against NumPy with more digits; and compiled for a GPU."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import special

from hybridc.dialects.scalar import NUMPY
from hybridc.dialects.scalar.table import OPERATIONS
from tests.lower.triton.bodies import op_of, run
from tests.lower.triton.steps import (
    BINARY,
    DTYPES,
    ROUGH,
    SPECIAL,
    of_numbers,
    of_steps,
    reductions,
    samples,
    stages_of,
)

pytestmark = pytest.mark.triton


# Units in the last place by which single precision may be wrong, and double: 1e-14 of the value.
IN_SINGLE, IN_DOUBLE = 2.5, 45


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps(dtype):
    size = 8192
    x, y = samples(dtype, size)
    steps = of_steps(dtype)
    assert len(steps) > 30
    for step, got in zip(steps, run(stages_of(dtype, steps, size), x, y), strict=True):
        operands = (x, y) if step in BINARY else (x,)
        if step == "pow" and x.dtype.kind == "i":  # of negative exponents NumPy makes no integers
            got, operands = got[y >= 0], (x[y >= 0], y[y >= 0])
        if step == "reciprocal" and x.dtype.kind in "iub":  # of zero any integer may come
            got, operands = got[x != 0], (x[x != 0],)
        check(step, got, operands)


def check(step, got, operands):
    with np.errstate(all="ignore"):
        if step not in ROUGH or got.dtype.kind != "f":
            same(step, got, getattr(NUMPY, step)(*operands))
            return
        wide = np.float64 if got.dtype.itemsize < 8 or step in SPECIAL else np.longdouble
        function = special.erf if step == "erf" else getattr(NUMPY, step)
        right = function(*[v.astype(got.dtype).astype(wide) for v in operands])
    single = 4.0 if step == "tan" else IN_SINGLE
    near(step, got, right, {"float16": 0.51, "float32": single, "float64": IN_DOUBLE}[got.dtype.name])


def test_a_formula_with_branches_computes_both(monkeypatch):
    """In double precision the formula of sin looks for what matters of 2/pi only where an argument is great."""
    for name in ("math.sin", "math.cos"):
        monkeypatch.setitem(OPERATIONS, name, dataclasses.replace(OPERATIONS[name], triton=""))
    x, y = samples("float64", 8192)
    assert (np.abs(x[np.isfinite(x)]) > 2.0**50).any()
    for step, got in zip(("sin", "cos"), run(stages_of("float64", ["sin", "cos"], len(x)), x, y), strict=True):
        check(step, got, (x,))


def same(step, got, right):
    assert got.dtype == right.dtype, step
    np.testing.assert_array_equal(got, right, step)
    if got.dtype.kind == "f" and step not in ("rem", "sign", "max", "min"):  # whose zeros have any sign
        zero = got == 0
        np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(right)[zero], step)


def near(step, got, right, limit):
    with np.errstate(all="ignore"):
        rounded = right.astype(got.dtype)
        odd = ~np.isfinite(got) | ~np.isfinite(rounded)
        edge = np.isinf(got) ^ np.isinf(rounded)
    info = np.finfo(got.dtype)
    small = (got == 0) & (np.abs(right) < info.tiny) & (got.dtype == np.float32)  # CUDA's library flushes these
    odd |= small
    assert (np.abs(np.where(np.isinf(got), rounded, got)[edge]) == np.finfo(got.dtype).max).all(), step
    where = odd & ~edge & ~small
    np.testing.assert_array_equal(got[where], rounded[where], step)
    _, exponent = np.frexp(right)
    unit = np.ldexp(right.dtype.type(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
    with np.errstate(all="ignore"):
        errors = np.where(odd, 0, np.abs(got.astype(right.dtype) - right) / unit)
    assert errors.max() <= limit, (step, errors.max(), got[errors.argmax()], right[errors.argmax()])


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype):
    kind = np.dtype(dtype)
    some = [0, 1, 2, 3, 100, 127, 1.9, 0.3] + [-1, -2, -128, -1.9, -0.3] * (kind.kind in "if")
    with np.errstate(all="ignore"):
        x = np.resize(np.array(some).astype(dtype), 64)
    kernel_ops = [op_of(lambda b, x, _, to=to: b.cast(x, to), [dtype], to) for to in DTYPES]
    for to, got in zip(DTYPES, run(kernel_ops, x), strict=True):
        fits = (x >= 0) | (np.dtype(to).kind in "if") if kind.kind == "f" else np.ones(x.shape, bool)
        same(to, got[fits], x[fits].astype(to))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e5, 1e300, 1e-7, 1e-300, 5e-324, -0.0])
@pytest.mark.parametrize(("wide", "narrow"), [("float64", "float32"), ("float64", "float16"), ("float32", "float16")])
def test_floats_are_rounded_to_narrower_ones(wide, narrow, value):
    with np.errstate(all="ignore"):
        x = np.full(64, value, wide)
        (got,) = run([op_of(lambda b, x, _: b.cast(x, narrow), [wide], narrow)], x)
        same("cast", got, x.astype(narrow))


NUMBERS = {"f": [0.1, -1.7, 0.0, -0.0, 1e-40, 1e-310, np.inf, -np.inf, np.nan, 65504.0], "i": [0, 1, -1, 100, -128]}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"])
def test_numbers_keep_their_digits_and_give_no_other_type(dtype):
    kind = np.dtype(dtype)
    x = samples(dtype, 256)[0]
    bodies, right = [], []
    for c in NUMBERS["f" if kind.kind == "f" else "i"]:
        if kind.kind == "u" and c < 0:
            continue
        with np.errstate(all="ignore"):
            of = kind.type(c)
            bodies += [
                lambda b, x, c=c: b.add(x, c),
                lambda b, x, c=c: b.sub(c, x),
                lambda b, x, c=c: b.max(x, c),
                lambda b, x, c=c: b.select(b.gt(x, c), c, x),
                lambda b, x, c=c: b.select(b.gt(x, c), b.cast(b.cast(c, dtype), dtype), b.mul(x, c)),
                lambda b, x, c=c: b.select(b.lt(x, 3), c, 1),
            ]
            right += [x + of, of - x, np.maximum(x, of), np.where(x > of, of, x), np.where(x > of, of, x * of)]
            right += [np.where(x < 3, of, kind.type(1))]
    kernel_ops = [op_of(lambda b, x, _, body=body: body(b, x), [dtype], dtype, (256,)) for body in bodies]
    for number, (got, wanted) in enumerate(zip(run(kernel_ops, x), right, strict=True)):
        same("max" if number % 6 == 2 else str(number), got, wanted)


COMBINES = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype):
    """Of whole rows with a nan, infinities, zeros, and the extremes of integers."""
    kind, shape = np.dtype(dtype), (16, 32)
    x = samples(dtype, 1 << 16)[0][-512:].reshape(shape).copy()
    if kind.kind == "f":
        x = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(dtype)
        x[1, 3], x[2, 30], x[3, 5], x[4], x[5, 1:3], x[6] = np.nan, np.nan, np.inf, -np.inf, (np.inf, -np.inf), np.nan
    elif kind.kind in "iu":
        x[0], x[1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:
        x[0], x[1] = False, True
    names, kernel_ops = zip(*reductions(dtype, shape), strict=True)
    for name, got in zip(names, run(kernel_ops, x), strict=True):
        sums = kind.kind == "f" and name in ("add", "mul")
        wide = np.float64 if sums else kind
        with np.errstate(all="ignore"):
            right = COMBINES[name].reduce(x.astype(wide), axis=1, dtype=wide)
        if not sums:
            same(name, got, right)
            continue
        finite = np.isfinite(right)
        np.testing.assert_array_equal(got[~finite], right[~finite].astype(dtype))
        np.testing.assert_allclose(got[finite], right[finite], rtol=40 * np.finfo(dtype).eps)


def test_sums_of_half_precision_are_rounded_once():
    x = np.full((16, 2048), 1.001, np.float16)
    (got,) = run([op_of(lambda b, x, sofar: b.add(sofar, x), ["float16"], "float16", x.shape, 0)], x)
    np.testing.assert_array_equal(got, x.astype(np.float64).sum(1).astype(np.float16))


def test_elements_widened_before_they_are_summed():
    x = np.full((16, 64), 100, np.int8)
    (got,) = run([op_of(lambda b, x, sofar: b.add(sofar, b.cast(x, "int64")), ["int8"], "int64", x.shape, 0)], x)
    np.testing.assert_array_equal(got, x.astype(np.int64).sum(1))


def test_what_a_reduction_is_of_may_be_a_number_or_what_is_given():
    x = np.ones((16, 64), np.float32)
    bodies = [lambda b, x, sofar: b.add(sofar, 2.5), lambda b, x, sofar: b.max(sofar, x)]
    counted, greatest = run([op_of(body, ["float32"], "float32", x.shape, 0) for body in bodies], x)
    np.testing.assert_array_equal(counted, 160)
    np.testing.assert_array_equal(greatest, 1)


def test_places_and_what_is_read_anywhere():
    n = 256
    x = np.random.default_rng(0).permutation(n).astype(np.int32)
    y = np.random.default_rng(1).normal(size=n)

    def twice(b, x, y, _):
        return b.load(b.arrays[1], b.load(b.arrays[0], b.cast(x, "int64")))

    kernel_ops = [
        op_of(lambda b, x, y, _: b.mul(b.index_of(0), b.cast(x, "int64")), ["int32", "float64"], "int64", (n,)),
        op_of(
            lambda b, x, y, _: b.load(b.arrays[1], b.sub(n - 1, b.index_of(0))), ["int32", "float64"], "float64", (n,)
        ),
        op_of(twice, ["int32", "float64"], "float64", (n,)),
    ]
    places, reversed_, found = run(kernel_ops, x, y)
    np.testing.assert_array_equal(places, np.arange(n) * x)
    np.testing.assert_array_equal(reversed_, y[::-1])
    np.testing.assert_array_equal(found, y[x[x]])


def test_functions_of_numbers_alone():
    x = np.arange(64).astype(np.float32)
    for got, right in zip(run(of_numbers(), x), [1.5, 3**5, np.exp(1), np.sqrt(2)], strict=True):
        np.testing.assert_allclose(got, x + right, rtol=1e-6)


def test_unsigned_numbers_are_read_as_such():
    x = np.array([0, 1, 127, 128, 200, 255, 77, 254] * 8, np.uint8)
    bodies = {
        "float32": lambda b, x: b.cast(x, "float32"),
        "int64": lambda b, x: b.cast(x, "int64"),
        "uint8": lambda b, x: b.max(b.rem(b.add(x, 100), b.cast(77, "uint8")), b.sub(3, x)),
        "bool": lambda b, x: b.lt(x, 200),
    }
    kernel_ops = [op_of(lambda b, x, _, f=f: f(b, x), ["uint8"], to) for to, f in bodies.items()]
    single, wide, bytes_, less = run(kernel_ops, x)
    same("float32", single, x.astype(np.float32))
    same("int64", wide, x.astype(np.int64))
    same("uint8", bytes_, np.maximum((x + np.uint8(100)) % np.uint8(77), np.uint8(3) - x))
    same("bool", less, x < 200)


@pytest.mark.long
def test_everything_compiles_and_keeps_its_meaning():
    """For a GPU, in a process of its own: divisions and roots are rounded, no nan is dropped, nothing is spilled."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.lower.triton.compile_bodies"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    texts = json.loads(done.stdout)
    single = texts["float32"]
    assert "div.rn.f32" in single
    assert "sqrt.rn.f32" in single
    assert not re.search(r"(div\.full|div\.approx|sqrt\.approx|rsqrt\.approx)", single)
    assert "ex2.approx.f32" not in single  # it is less precise than the formula
    assert "ex2.approx.f32" in texts["exp float16"]
    for kind in ("f16", "f32"):
        text = texts[f"float{kind[1:]} reduced"]
        for name in ("max", "min"):
            assert f"{name}.NaN.{kind}" in text
            assert f"{name}.{kind}" not in text
