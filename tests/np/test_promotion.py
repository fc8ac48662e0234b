"""Dtypes of results: what MXNet gives for each pair of dtypes and numbers (golden), and where we differ on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as onp
import pytest

import hybridc as mx
from hybridc import np
from hybridc.dialects.numpy_rules import promoted
from tests.golden import np_elements_cases as cases
from tests.np.eager_and_compiled import results

WANTED = json.loads((Path(__file__).parents[1] / "golden" / "np_elements.json").read_text())
# Functions that MXNet computes in integers of integers, where they are cut: here they are float32.
CUT = """
    sqrt cbrt reciprocal exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
    arctanh degrees radians var std arctan2 copysign ldexp hypot
"""
CUT = {f"np.{name}" for name in CUT.split()}
# Others of which MXNet's results are of no use, and why.
OTHER = {
    **dict.fromkeys([f"np.rint({d})" for d in cases.FLOATS], "a half goes towards minus infinity there"),
    **dict.fromkeys(["b == 2", "2 == b"], "2 is cast to True there"),
    **dict.fromkeys(["2 ** i32", "2 ** i64"], "overflow saturates there"),
    "np.average(f32, 0, returned=True)[1]": "the sum of the weights has the shape () there",
    "np.prod(np.zeros((0, 3)), 0)": "the product of nothing is 0 there",
}


def differs(code):
    """Whether we differ from MXNet: also beside 2.5, which it cuts to 2 for an array of integers."""
    function, _, rest = code.partition("(")
    operands = {rest.rstrip(")").partition(",")[0], *code.split()}
    whole = operands & {"b", *cases.INTEGERS}
    return code in OTHER or (bool(whole) and (function in CUT or ("2.5" in code and " > " not in code)))


def near(found, wanted, code):
    numbers = [onp.array([float(v) for v in onp.ravel(x[2])]) for x in (found, wanted)]
    tolerance = 2e-3 if "f16" in code else 1e-5
    return found[:2] == wanted[:2] and onp.allclose(*numbers, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_results_are_those_of_mxnet():
    assert [*WANTED] == cases.CASES, "run tests/golden/make_np_elements.py with MXNet"
    wrong = {}
    for code, wanted in WANTED.items():
        if isinstance(wanted, str) or differs(code):  # MXNet raises, of mixed dtypes above all
            continue
        found = cases.run(mx, code)
        if isinstance(found, str) or not near(found, wanted, code):
            wrong[code] = found, wanted
    assert wrong == {}


def test_what_mxnet_refuses_has_the_promoted_dtype():
    """Mixed dtypes, and functions of booleans; but no bits of floats."""
    refused = {code: cases.run(mx, code) for code, wanted in WANTED.items() if isinstance(wanted, str)}
    errors = {code for code, found in refused.items() if isinstance(found, str)}
    bits = {f"np.{f}({a}, {a}_)" for f in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm") for a in cases.FLOATS}
    bits |= {f"np.bitwise_not({a})" for a in cases.FLOATS}
    assert errors == bits | {"np.sign(b)", "np.subtract(b, b_)", "np.negative(b)"} - {"np.negative(b)"}
    for code, found in refused.items():
        pair = code.partition("(")[2].rstrip(")").split(", ")
        if code.partition("(")[0] not in ("np.add", "np.maximum", "np.mod") or len(pair) != 2:
            continue
        first, second = (onp.dtype(cases.DTYPES[name.rstrip("_")]) for name in pair)
        assert found[0] == promoted(first, second).name, code


def test_what_differs_is_what_numpy_gives():
    """Functions of integers are those of float32, and numbers keep their fractions."""
    for code in WANTED:
        function = code.partition("(")[0]
        found = cases.run(mx, code)
        if code in OTHER or not differs(code) or isinstance(WANTED[code], str) or code == "2.5 % b":  # % 0 is 0
            continue
        arrays = {name: x.astype("float64") for name, x in cases.ARRAYS.items()}
        with onp.errstate(all="ignore"):
            wanted = onp.float32(eval(code, {"np": onp}, arrays)) if function != "np.ldexp" else None
        assert found[0] == ("bool" if " == " in code or " < " in code else "float32"), code
        if wanted is not None:
            numbers = [float(v) for v in found[2]]
            onp.testing.assert_allclose(numbers, wanted.reshape(-1), rtol=1e-5, err_msg=code)


@pytest.mark.parametrize("number", [onp.float64(1.5), onp.float32(1.5), onp.int64(2), onp.bool_(True), 1.5, 2, True])
def test_numbers_of_numpy_and_python_take_the_dtype_of_the_array(number):
    for dtype in ("float16", "float32", "float64"):
        x = np.array([1, 2, 3], dtype=dtype)
        for y in (x + number, number + x, x * number, number - x, np.maximum(x, number)):
            assert onp.dtype(y.dtype) == dtype
            assert type(y) is np.ndarray
    i = np.array([1, 2, 3], dtype="int8")
    wanted = onp.float32 if isinstance(number, float | onp.floating) else onp.int8
    assert (i + number).dtype == (number + i).dtype == wanted


def test_comparisons_with_numbers_out_of_range_do_not_wrap():
    u, i = onp.array([1, 44, 255], "uint8"), onp.array([1, -5, 2**31 - 1], "int32")
    for x in (u, i):
        for number in (300, -1, 2**40, 2**70, 0.5):
            for call in (lambda x, n=number: x < n, lambda x, n=number: x == n, lambda x, n=number: n >= x):
                for found in results(call, x):
                    assert found[0].tolist() == call(x.astype("int64")).tolist(), (x.dtype, number)


def test_arrays_of_numpy_beside_ours():
    x = np.array([1.0, 2.0])
    y = onp.array([1.0, 2.0])
    for z in (x + y, y + x, x * y.astype("float32"), y > x):
        assert type(z) is np.ndarray
    assert (x + y).dtype == onp.float64
    assert np.add(x, [1, 2]).dtype == onp.float32


def test_compiled_results_have_the_dtypes_of_eager_ones():
    """Each pair of dtypes in one graph."""
    names = [*cases.DTYPES]
    arrays = [cases.ARRAYS[name] for name in names]

    def function(*xs):
        found = []
        for x in xs:
            found += [np.exp(x), x > 1, x + 2, x * 2.5, x.sum(), x.mean(), x.max(), x.argmax(1), np.any(x, 0), -x]
            for y in xs:
                found += [x + y, np.true_divide(x, y), x < y, np.maximum(x, y), np.hypot(x, y)]
        return found

    eager, compiled = results(function, *arrays)
    for x, y in zip(eager, compiled, strict=True):
        assert x.dtype == y.dtype
        tolerance = 4e-3 if x.dtype == onp.float16 else 1e-5
        onp.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=tolerance, atol=tolerance)
