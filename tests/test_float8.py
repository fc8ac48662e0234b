"""float8_e4m3fn: values are kept in 8 bits; every operator computes in float32, or wider, and rounds once.

What the values are, and how numbers are rounded to them, is written down once more, in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i8

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.dialects import operator_registry
from hybridc.dialects.mlir.hybrid import SIGNLESS
from hybridc.dtypes import TYPES, exact_integers
from hybridc.errors import DTypeError, MXNetError, UnsupportedError
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.llvm.codegen.function_text import ModuleText
from hybridc.lower.llvm.loops.loop_builder import LoopBuilder
from hybridc.runtime.devices.dlpack import array_of, capsule_of
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.tools.check_op import case as check
from hybridc.trace.tracer import trace_call
from tests.slices import one_in

NAME = "float8_e4m3fn"
DTYPE = np.dtype(NAME)
FRACTION, BIAS, LARGEST = 3, 7, 448.0
TARGETS = ("numpy", "llvm")
RNG = np.random.default_rng(8)
INF, NAN = float("inf"), float("nan")
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")


def values():
    """The numbers of all 256 bytes, in float64."""
    bits = np.arange(256)
    exponent, rest = (bits & 0x7F) >> FRACTION, (bits & 7) / 8
    size = np.where(exponent > 0, (1 + rest) * 2.0 ** (exponent - BIAS), rest * 2.0 ** (1 - BIAS))
    size = np.where(size > LARGEST, NAN, size)
    return np.where(bits & 0x80, -size, size)


def rounded(x):
    """float64 to the nearest number, of two the one whose last bit is 0."""
    x = np.asarray(x, np.float64)
    exponent = np.maximum(np.frexp(x)[1] - 1, 1 - BIAS)
    step = 2.0 ** (exponent - FRACTION)
    nearest = np.round(x / step) * step
    return np.where(np.abs(nearest) <= LARGEST, nearest, NAN)


def array(x):
    return mx.nd.array(np.asarray(x), dtype=NAME)


def numbers(x):
    """What an array holds, in float64, once it is clear that it is of float8."""
    assert np.dtype(x.dtype) is DTYPE
    return x.asnumpy().astype(np.float64)


def on(target, function, *arrays, grads=()):
    """A function of arrays compiled for a target."""
    traced = Traced(trace_call(HybridLambda(function), list(arrays), training=False), tuple(grads))
    return traced.optimize().lower(target).compile()


# --- values -------------------------------------------------------------------------------------------------


def test_every_value_is_widened():
    """All 256 of them, on each target and eagerly."""
    every = mx.nd.from_numpy(np.arange(256, dtype=np.uint8).view(DTYPE))
    for wide in ("float16", "bfloat16", "float32", "float64"):
        compiled = [on(t, lambda F, x, wide=wide: F.cast(x, dtype=wide), every) for t in TARGETS]
        for run in [lambda x, wide=wide: x.astype(wide), *compiled]:
            y = run(every)
            assert np.dtype(y.dtype).name == wide
            np.testing.assert_array_equal(y.asnumpy().astype(np.float64), values())
    np.testing.assert_array_equal(np.signbit(numbers(every)), np.arange(256) >= 128)


def edges():
    """Every half, what is in the middle of two numbers of eight bits and beside it, and what is no number."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    middle = np.append(np.convolve(np.sort(values()[:127]), [0.5, 0.5], "valid"), 464).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(limit)) for limit in (-INF, INF)]
    single = np.concatenate([middle, *beside, [1e-45, 1e-20, 1e20, 3.4e38, 0.0, INF, NAN]]).astype(np.float32)
    return halves, np.concatenate([single, -single])


def test_every_half_and_every_edge_is_rounded_to_even():
    for given in edges():
        x = mx.nd.from_numpy(given)
        want = rounded(given.astype(np.float64))
        for run in [lambda x: x.astype(NAME), *(on(t, lambda F, x: F.cast(x, dtype=NAME), x) for t in TARGETS)]:
            got = numbers(run(x))
            np.testing.assert_array_equal(got, want)
            numeric = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[numeric], np.signbit(want)[numeric])


@pytest.mark.parametrize("other", ["float64", "bfloat16", "int32", "uint8", "bool", NAME])
def test_casts(other):
    given = np.array([0, 1, 1, 0, 3, 17]) if other in ("uint8", "bool") else np.array([-3, -1, 0, 1, 17, 100])
    there, x = mx.nd.array(given, dtype=other), array(given)
    for target in TARGETS:
        got = on(target, lambda F, x: F.cast(x, dtype=NAME), there)(there)
        np.testing.assert_array_equal(numbers(got), rounded(there.asnumpy().astype(np.float64)))
        back = on(target, lambda F, x: F.cast(x, dtype=other), x)(x)
        assert np.dtype(back.dtype).name == other
        np.testing.assert_array_equal(back.asnumpy().astype(np.float64), x.asnumpy().astype(other).astype(np.float64))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", NAME])
def test_up_to_where_integers_are_exact(dtype):
    """The first that is not its own neighbour: attention asks whether indices are told apart."""
    last = exact_integers(np.dtype(dtype))
    x = mx.nd.array([last - 1, last, last + 1], dtype="float64").astype(dtype).asnumpy().astype(np.float64)
    assert (x == [last - 1, last, last + 1]).tolist() == [True, True, False]


@pytest.mark.parametrize("known", [t for t in TYPES.values() if t.kind == "f"], ids=lambda t: t.name)
def test_limits_are_numbers_of_the_dtype_and_what_is_beyond_is_not(known):
    with np.errstate(all="ignore"):
        limits = np.array([known.largest, known.smallest, 1 + known.epsilon]).astype(known.dtype)
        beyond = np.array([known.largest * (1 + known.epsilon), 1 + known.epsilon / 2]).astype(known.dtype)
    assert limits.astype(np.float64).tolist() == [known.largest, known.smallest, 1 + known.epsilon]
    assert beyond.astype(np.float64)[1] == 1
    assert not np.isfinite(beyond.astype(np.float64)[0])


# --- operators ----------------------------------------------------------------------------------------------


def test_every_operator_computes_and_gives_the_dtypes_it_infers():
    """Those that take floats at all."""
    seen = 0
    for name, cls in sorted(operator_registry.operators().items()):
        if not name.startswith("hybrid.") or cls.DRAWS:
            continue
        for call, found in check.each_sample(cls):
            case = check.Case(cls, call, found.sample, NAME)
            op, arrays = case.operator(), case.arrays()
            try:
                promised = op.infer_type([x.dtype for x in arrays])[1]
            except (DTypeError, UnsupportedError):
                continue
            got = check.eager(op, arrays)
            assert [y.dtype for y in got] == promised, call
            seen += 1
    assert seen > 500


FUNCTIONS = {
    "arithmetic": lambda F, x, y: (x * y + 1.3) / (F.abs(y) + 0.7) - 2 * x,
    "functions": lambda F, x, y: F.tanh(x) * F.exp(y) + F.sigmoid(y),
    "softmax": lambda F, x, y: F.softmax(x) + F.softmax(y, axis=0),
    "sums": lambda F, x, y: F.mean(x, axis=1) + F.max(y, axis=1),
    "product": lambda F, x, y: F.dot(x, y, transpose_b=True),
    "selection": lambda F, x, y: F.where(x > y, F.concat(x, y, dim=0)[3:12], F.flip(y, axis=1)),
    "order": lambda F, x, y: F.transpose(F.expand_dims(x, 0), axes=(2, 0, 1))[1::2],
    "rows": lambda F, x, y: F.take(x, F.argmax(y, axis=1)),
    "layer norm": lambda F, x, y: F.LayerNorm(x, y[0], y[1]),
}


@pytest.mark.parametrize("name", one_in(2, list(FUNCTIONS)))
def test_targets_agree_with_eager(name):
    """Each operator rounds once, on every target as eagerly; results and gradients."""
    function = FUNCTIONS[name]
    x, y = (array(RNG.normal(size=(9, 33))) for _ in range(2))

    def differentiated(run):
        given = [x.copy(), y.copy()]
        for a in given:
            a.attach_grad()
        with mx.autograd.record(train_mode=False):
            result = run(*given)
        head = np.cos(np.arange(result.size)).reshape(result.shape)
        result.backward(mx.nd.array(head, dtype=NAME).astype(result.dtype))
        return [result, *(a.grad for a in given)]

    want = [numbers(a) for a in differentiated(lambda *a: function(mx.nd, *a))]
    for target in TARGETS:
        found = differentiated(on(target, function, x, y, grads=(0, 1)))
        for got, exact in zip(map(numbers, found), want, strict=True):
            assert got.shape == exact.shape
            assert np.abs(got - exact).max() <= 2.0**-FRACTION * max(1e-3, np.abs(exact).max())


def test_an_operator_rounds_once():
    """Not after each of its steps: 16 + 1 is 16."""
    x = array(RNG.normal(size=200))
    want = rounded(1 / (1 + np.exp(-numbers(x))))
    ones = array(np.ones((1, 200)))
    for run in [mx.nd.sigmoid, *(on(t, lambda F, x: F.sigmoid(x), x) for t in TARGETS)]:
        np.testing.assert_array_equal(numbers(run(x)), want)
    for run in [mx.nd.sum, *(on(t, lambda F, x: F.sum(x), ones) for t in TARGETS)]:
        assert numbers(run(ones)).tolist() == [192.0]  # 200 is halfway between 192 and 208


@pytest.mark.parametrize("target", [None, *TARGETS])
def test_gradients_of_casts_are_casts_back(target):
    """What comes from a wider result is rounded to float8 where an array of float8 was cast."""
    x, dy = array(RNG.normal(size=(3, 5))), RNG.normal(size=(3, 5)).astype(np.float32)
    single = mx.nd.array(RNG.normal(size=(3, 5)))

    def function(F, x, w):
        return F.cast(x, dtype="float32") * w, F.cast(w, dtype=NAME)

    run = (lambda *a: function(mx.nd, *a)) if target is None else on(target, function, x, single, grads=(0, 1))
    for a in (x, single):
        a.attach_grad()
    with mx.autograd.record(train_mode=False):
        product, narrow = run(x, single)
    mx.autograd.backward([product, narrow], [mx.nd.array(dy), x])
    np.testing.assert_array_equal(numbers(x.grad), rounded(dy * single.asnumpy()))
    np.testing.assert_allclose(single.grad.asnumpy(), dy * numbers(x) + numbers(x), 1e-6, 1e-6)


# --- arrays -------------------------------------------------------------------------------------------------


def test_arrays():
    x = array([[1.0, 2.0], [3.0, 4.0]])
    x += 1
    x *= x
    x[0] = 7
    assert numbers(x).tolist() == [[7.0, 7.0], [16.0, 24.0]]  # 25 is rounded
    assert numbers(x[1, ::-1]).tolist() == [24.0, 16.0]
    assert (x > 10).asnumpy().astype(bool).tolist() == [[False, False], [True, True]]
    assert "16 24" in repr(x)
    assert float(x[0, 0]) == 7.0
    assert numbers(mx.nd.zeros((2,), dtype=NAME)).tolist() == [0.0, 0.0]
    assert numbers(mx.nd.concat(x, mx.nd.ones((1, 2), dtype=NAME), dim=0).T).tolist() == [[7, 16, 1], [7, 24, 1]]
    with pytest.raises(DTypeError, match=rf"lhs is {NAME}, rhs is .*use \.astype\('{NAME}'\)"):
        x + x.astype("float32")


def test_files_have_no_code_for_it(tmp_path):
    """MXNet's format; a number of float8 is one of float16, so nothing is lost by that."""
    x = mx.nd.from_numpy(np.arange(256, dtype=np.uint8).view(DTYPE))
    with pytest.raises(MXNetError, match=rf"'w' has dtype {NAME}, which the format cannot hold; use \.astype"):
        mx.nd.save(str(tmp_path / "a.params"), {"w": x})
    mx.nd.save(str(tmp_path / "a.params"), {"w": x.astype("float16")})
    back = mx.nd.load(str(tmp_path / "a.params"))["w"].astype(NAME)
    np.testing.assert_array_equal(numbers(back), values())


def test_memory_is_shared_on_devices_and_refused_on_processors():
    with pytest.raises(MXNetError, match=r"share x\.astype\('float32'\)"):
        array([1.0]).__dlpack__()
    x = Interpreter().put(array([1.0, 2.5]).asnumpy())
    other = array_of(capsule_of(x), Interpreter())
    x.host()[0] = 3
    assert other.dtype is DTYPE
    assert other.host().tolist() == [3.0, 2.5]


@pytest.mark.triton
def test_gpus_refuse_it():
    """Theirs has another meaning: what is too large becomes the largest number."""
    x = mx.nd.array([1.0])
    with pytest.raises(UnsupportedError, match=rf"arrays of {NAME} cannot be used on GPUs: cast them before, as \."):
        on("triton", lambda F, x: F.cast(F.cast(x, dtype=NAME), dtype="float32"), x)


def test_an_integer_of_the_same_bits_is_no_float():
    """1.0 is 56 in bits: what is known of one constant says nothing of the other."""
    module, eight_bits = ModuleText(256), SIGNLESS["f8E4M3FN"]
    b = LoopBuilder(module, [f32], 0)
    one = b.constant(FloatAttr(1.0, eight_bits), eight_bits)
    assert b.constant(IntegerAttr(56, i8), i8) == one
    b.store_at(b.pure(arith.ExtFOp, [one], f32), b.arrays[0], b.index(0))
    b.write_region("region")
    assert "fpext i8" not in str(module)
    assert "fpext half" in str(module)
