"""Functions of ``mx.np`` by element: eager and compiled results against NumPy, gradients, dtypes, edges."""

from __future__ import annotations

import functools

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, np
from hybridc.errors import DTypeError
from tests.np.eager_and_compiled import check, check_gradient, results

RNG = onp.random.default_rng(0)
# Functions of one array: where they are tested, and whether they are differentiated.
INSIDE, POSITIVE, ANYWHERE = (-0.9, 0.9), (0.2, 3.0), (-3.0, 3.0)
ONE = {
    **dict.fromkeys(
        [
            "negative",
            "absolute",
            "square",
            "cbrt",
            "exp",
            "exp2",
            "expm1",
            "sin",
            "cos",
            "arctan",
            "sinh",
            "cosh",
            "tanh",
            "arcsinh",
        ],
        ANYWHERE,
    ),
    **dict.fromkeys(["degrees", "radians", "positive", "rad2deg", "deg2rad", "fabs", "sinc", "nan_to_num"], ANYWHERE),
    **dict.fromkeys(["arcsin", "arccos", "arctanh", "tan"], INSIDE),
    **dict.fromkeys(["sqrt", "reciprocal", "log", "log2", "log10", "log1p"], POSITIVE),
    "arccosh": (1.2, 3.0),
}
STEPS = [
    "sign",
    "floor",
    "ceil",
    "trunc",
    "fix",
    "rint",
    "around",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "signbit",
    "logical_not",
]
TWO = {
    **dict.fromkeys(
        [
            "add",
            "subtract",
            "multiply",
            "maximum",
            "minimum",
            "hypot",
            "arctan2",
            "copysign",
            "fmax",
            "fmin",
            "logaddexp",
        ],
        ANYWHERE,
    ),
    **dict.fromkeys(["true_divide", "divide", "mod", "remainder", "fmod", "power", "logaddexp2"], POSITIVE),
}
FLAT = "floor_divide heaviside equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor"
BITS = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "fmod",
    "floor_divide",
    "mod",
]
EDGES = onp.array([0.0, -0.0, 1.5, -1.5, 2.5, 0.5, -0.5, 3e38, 1e-30, onp.inf, -onp.inf, onp.nan], "float32")


@pytest.mark.parametrize("name", [*ONE, *STEPS])
def test_functions_of_one_array(name):
    function, reference = getattr(np, name), getattr(onp, name)
    x = RNG.uniform(*ONE.get(name, ANYWHERE), (3, 5)).astype("float32")
    shapes = (x, x[:, 1:2], x[:0], x[1, 2:3].reshape(()), onp.asfortranarray(x))
    check(lambda *xs: [function(x) for x in xs], lambda *xs: [reference(x) for x in xs], *shapes, rtol=3e-6)
    with onp.errstate(all="ignore"):
        check(lambda x: function(x), lambda x: reference(x.astype("float32")), EDGES, rtol=1e-6)
    number = float(x[0, 0])
    assert function(number) == pytest.approx(reference(number))
    if name in ONE:
        check_gradient(function, x[:2])


@pytest.mark.parametrize("name", [*TWO, *FLAT.split()])
def test_functions_of_two_arrays(name):
    function, reference = getattr(np, name), getattr(onp, name)
    low, high = TWO.get(name, ANYWHERE)
    x, y = (RNG.uniform(low, high, (3, 4)).astype("float32") for _ in range(2))
    pairs = ((x, y), (x[:, None], y[0]), (x[:, :1], y), (x[:0], y[:1]), (x.T, y.T), (x[0, 0].reshape(()), y))

    def both(function):
        def calls(*xs):
            found = [function(x, y) for x, y in zip(xs[::2], xs[1::2], strict=True)]
            return [*found, function(xs[0], 1.25), function(1.25, xs[0])]

        return calls

    check(both(function), both(reference), *[x for pair in pairs for x in pair])
    grid = [g.reshape(-1) for g in onp.meshgrid(EDGES, EDGES)]
    if name not in ("hypot", "logaddexp", "logaddexp2", "power"):  # powers of zeros and infinities: by functions of C
        with onp.errstate(all="ignore"):
            check(function, lambda x, y: reference(x.astype("f4"), y.astype("f4")), *edges_of(name, *grid), rtol=1e-6)
    assert function(2.5, 1.5) == pytest.approx(reference(2.5, 1.5))
    if name in TWO:
        check_gradient(function, x[:2], y[:1])


def edges_of(name, x, y):
    """The pairs of edges for which NumPy and IEEE 754 agree with MXNet."""
    if name in ("mod", "remainder"):  # by 0 it is 0 there
        return x[(y != 0) & onp.isfinite(x) & onp.isfinite(y)], y[(y != 0) & onp.isfinite(x) & onp.isfinite(y)]
    return x, y


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", BITS)
def test_integers(name, dtype):
    limits = onp.iinfo(dtype)
    x = onp.array([limits.min, limits.max, 0, 1, 5, 12, 100, limits.max - 1], dtype)
    if name == "lcm":
        x = onp.array([0, 1, 2, 3, 5, 6, 7, 11], dtype)
    counts = onp.array([0, 1, 2, 3, 7, 8, 6, 100], dtype)
    ys = (counts, counts[::-1].copy(), onp.zeros_like(counts))

    def calls(function):
        return lambda x, *ys: [function(x, y) for y in ys]

    check(calls(getattr(np, name)), calls(getattr(onp, name)), x, *ys, dtype=dtype, rtol=0, atol=0)
    if name not in ("fmod", "floor_divide", "mod"):
        with pytest.raises(DTypeError, match="must be integers, got float32"):
            getattr(np, name)(np.ones(2), np.ones(2))


def test_bits_of_booleans_and_python_operators():
    x, y = onp.array([True, False, True]), onp.array([True, True, False])
    i, j = onp.array([5, 6, -7], "int32"), onp.array([3, 2, 2], "int32")
    for function in (lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y):
        check(function, function, x, y, dtype="bool")
        check(function, function, i, j, dtype="int32")
    for function in (lambda i: ~i, lambda i: i << 2, lambda i: i >> 1, lambda i: i // 2, lambda i: +i, lambda i: 3 & i,
                     lambda i: 20 // i, lambda i: 1 << abs(i)):  # fmt: skip
        check(function, function, i, dtype="int32")
    check(lambda x: ~x, lambda x: ~x, x, dtype="bool")
    check(lambda x: x & True, lambda x: x & True, x, dtype="bool")
    check(lambda x: -x, lambda x: -x.astype(int), x, dtype="int64")
    quotient, rest = divmod(np.array([7.5, -7.5]), 2)
    assert (quotient.tolist(), rest.tolist()) == ([3, -4], [1.5, 0.5])
    z = np.array(i)
    same = z
    z |= 8
    assert same is z
    assert z.tolist() == [13, 14, -7]


def test_in_place_bits_while_recording_are_refused():
    z = np.array([1, 2], dtype="int32")
    w = np.array([1.0, 2.0])
    w.attach_grad()
    with autograd.record():
        y = w * 2
        with pytest.raises(mx.MXNetError):
            y &= z


def test_functions_with_two_results():
    x = onp.array([1.5, -2.25, 0.0, 7.0, -onp.inf, onp.nan], "float32")
    for name in ("modf", "frexp"):
        finite = x if name == "modf" else x[:4]
        check(getattr(np, name), lambda x, name=name: getattr(onp, name)(x), finite)
    check_gradient(lambda x: np.frexp(x)[0], onp.array([1.5, -2.25, 7.0]))
    check_gradient(lambda x: np.modf(x)[0], onp.array([1.5, -2.25, 7.3]))
    check(lambda x: np.divmod(x, 2), lambda x: onp.divmod(x, 2), x[:4])


def test_ldexp():
    x, n = onp.array([1.5, -2.5, 1e-30, 0.0], "float32"), onp.array([2, -1, 200, 5], "int32")
    check(np.ldexp, lambda x, n: x * 2.0**n, x, n, dtype="float32")
    check_gradient(np.ldexp, x[:2], onp.array([1.5, -0.5]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding(dtype):
    x = onp.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 2**22 + 0.5, 8388609.0, onp.nan, onp.inf], "float64")
    x = x.astype(dtype)
    for name in ("rint", "around", "round", "round_"):
        check(getattr(np, name), onp.rint, x, dtype=dtype, rtol=0, atol=0)
    values = onp.array([0.125, 0.375, 12.345, -12.355, 155.0, 145.0], dtype)
    for decimals in (1, 2, -1):
        check(
            lambda x, d=decimals: np.around(x, d),
            lambda x, d=decimals: onp.around(x.astype(dtype), d),
            values,
            rtol=1e-3,
        )


def test_rounding_of_integers():
    x = onp.array([5, 15, 25, -25, 149, 2**53 + 1], "int64")
    for name in ("rint", "around", "floor", "ceil", "trunc", "fix", "positive"):
        check(getattr(np, name), lambda x: x, x, dtype="int64", rtol=0, atol=0)
    check(lambda x: np.around(x, -1), lambda x: onp.around(x[:5], -1), x[:5], dtype="int64", rtol=0, atol=0)
    check(lambda x: np.around(x, 2), lambda x: x, x, dtype="int64", rtol=0, atol=0)


def test_floor_divide_is_exact():
    x = RNG.uniform(-1e4, 1e4, 2000).astype("float32")
    y = RNG.choice(onp.array([0.1, -0.3, 3.0, 7.0, -1e-3], "float32"), 2000)
    check(np.floor_divide, lambda x, y: onp.floor_divide(x.astype("f4"), y.astype("f4")), x, y, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_to_num(dtype):
    x = onp.array([onp.nan, onp.inf, -onp.inf, 1.5], dtype)
    check(np.nan_to_num, lambda x: onp.nan_to_num(x.astype(dtype)), x, dtype=dtype)
    check(lambda x: np.nan_to_num(x, True, 1, 2, 3), lambda x: onp.nan_to_num(x, True, 1, 2, 3), x, dtype=dtype)
    y = np.array(x, dtype=dtype)
    assert np.nan_to_num(y, copy=False) is y
    assert y.asnumpy()[0] == 0
    y = np.array(x[1:], dtype=dtype)
    y.attach_grad()
    with autograd.record():
        z = np.nan_to_num(y)
    z.backward()
    assert y.grad.tolist() == [0, 0, 1]


def test_close():
    x = onp.array([1.0, onp.nan, onp.inf, -onp.inf, 1e-9, 100.0], "float32")
    y = onp.array([1.00001, onp.nan, onp.inf, onp.inf, 0.0, 100.2], "float32")
    for nan in (False, True):
        check(
            lambda x, y, n=nan: np.isclose(x, y, equal_nan=n), lambda x, y, n=nan: onp.isclose(x, y, equal_nan=n), x, y
        )
    check(lambda x: np.isclose(x, 1), lambda x: onp.isclose(x, 1), x, dtype="bool")
    check(np.isclose, onp.isclose, onp.array([2**31 - 1, 5], "int32"), onp.array([2**31 - 2, 6], "int32"))
    assert np.allclose(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-6])) is True
    assert np.allclose(np.array(x), np.array(x)) is False
    assert np.allclose(np.array(x), np.array(x), equal_nan=True) is True
    assert np.array_equal(np.array([1, 2]), [1, 2]) is True
    assert np.array_equal(np.ones((2, 1)), np.ones(2)) is False
    assert np.array_equal(np.array(x), np.array(x), equal_nan=True) is True
    assert np.array_equiv(np.ones((2, 1)), np.ones(2)) is True
    assert np.array_equiv(np.ones(3), np.ones(2)) is False


def test_out_and_keywords():
    x, out = np.array([1.0, 4.0]), np.zeros(2)
    assert np.sqrt(x, out) is out
    assert out.tolist() == [1, 2]
    assert np.add(x, 1, out=out) is out
    assert np.arctan2(x, x, where=True).shape == (2,)
    with pytest.raises(NotImplementedError):
        np.exp(x, where=x)
    with pytest.raises(TypeError):
        np.exp(x, axis=0)


def test_the_tape_knows_all_ways_of_a_call():
    x = np.array([1.0, -2.0])
    x.attach_grad()
    sums = (lambda x: x.sum(), lambda x: x.mean(), lambda x: x.max(0), lambda x: x.sum(0, keepdims=True))
    calls = (lambda x: x + 1.0, lambda x: 1 - x, np.exp, lambda x: x * x, *sums)
    for call in calls:
        check_gradient(call, onp.array([1.0, -2.0]))
    with autograd.record():
        y = (x * (x > 0).astype("float32")).sum() + (x > 5).sum() + x.argmax(0)
    y.backward()
    assert x.grad.tolist() == [1, 0]


def test_sums_of_a_row_of_calls_are_one_kernel():
    """Elementwise operators of NumPy's arrays fuse as others do."""
    found, compiled = results(
        lambda x, y: np.arctan2(x, y) + np.copysign(x, y) + np.rint(x) + np.floor_divide(x, y),
        *(RNG.uniform(1, 2, (8, 8)).astype("float32") for _ in range(2)),
    )
    onp.testing.assert_allclose(found[0].asnumpy(), compiled[0].asnumpy(), rtol=1e-6)


def test_second_derivatives():
    x = np.array([0.5, 1.5], dtype="float64")
    y = np.array([1.0, -0.5], dtype="float64")
    x.attach_grad()
    with autograd.record():
        z = np.arctan2(x, y)
        (first,) = autograd.grad(z, [x], create_graph=True)
        total = functools.reduce(np.add, [first.sum()])
    total.backward()
    want = -2 * x * y / (x * x + y * y) ** 2
    onp.testing.assert_allclose(x.grad.asnumpy(), want.asnumpy(), rtol=1e-6)
