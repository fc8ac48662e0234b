"""Operators where they are easily wrong: great integers, nothing to reduce, nan, ranges left: the same on all targets.

Expected are Python's integers, MXNet 1.9.1's results, or, where MXNet has none (it fails or reads foreign
memory), NumPy's.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.array.dispatch import invoke
from hybridc.errors import AttributeValueError, DTypeError, IndexRangeError, MXNetError, ShapeError
from hybridc.gluon import nn
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.nesting import as_list
from hybridc.tools.check_op.case import each_class
from tests.ops.samples import each
from tests.ops.test_contract import NO_SAMPLES

BIG = 2**60 + 1
LEAST = -(2**63)
INF, NAN = np.inf, np.nan


def everywhere(function, *inputs):
    """The result of a function of F: eagerly, and what the two targets for the CPU give, which must be equal."""
    arrays = [mx.nd.array(x, dtype=x.dtype) for x in map(np.asarray, inputs)]
    block = HybridLambda(function)
    eager = block(*arrays).asnumpy()
    for target in ("llvm", "numpy"):
        (found,) = block.trace(*arrays).optimize().lower(target).compile().forward(*[x.asnumpy() for x in arrays])
        assert found.dtype == eager.dtype, target
        assert np.shape(found) == eager.shape, target
        np.testing.assert_array_equal(found, eager, target)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(eager), target)
    return eager


def both(function, *inputs):
    """Results and the first input's gradients, eagerly and hybridized, which must be equal."""
    found = []
    for hybrid in (False, True):
        block = HybridLambda(function)
        block.hybridize(hybrid)
        arrays = [mx.nd.array(x, dtype=np.asarray(x).dtype) for x in inputs]
        arrays[0].attach_grad()
        mx.random.seed(1)
        with autograd.record():
            y = block(*arrays)
        y.backward()
        found.append((y.asnumpy(), arrays[0].grad.asnumpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    return found[0]


def int64(*values):
    return np.array(values, np.int64)


def int32(*values):
    return np.array(values, np.int32)


def float32(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (lambda F, x, y: F.broadcast_div(x, y), [int64(BIG, -BIG, BIG, 7), int64(1, 10, -10, 0)], None),
        (lambda F, x, y: F.broadcast_div(x, y), [int64(LEAST, LEAST, -7, 7), int64(-1, 1, 2, -2)], None),
        (lambda F, x, y: F.broadcast_div(x, y), [int32(-(2**31), -7, 7, 7), int32(-1, 2, -2, 0)], None),
        (lambda F, x, y: F.broadcast_div(x, y), [np.uint8([255, 7]), np.uint8([2, 0])], None),
        (lambda F, x, y: F.broadcast_div(x, y), [np.int8([-128, 7]), np.int8([-1, -2])], None),
        (lambda F, x: x / 10, [int64(BIG, -BIG)], [BIG // 10, -(BIG // 10)]),
        (lambda F, x: F.clip(x, -(2**61), 2**61), [int64(BIG, -BIG, 3 * BIG)], [BIG, -BIG, 2**61]),
        (lambda F, x: F.clip(x, -0.5, 2.5), [int32(-1, 0, 2, 3)], [0, 0, 2, 2]),
        (lambda F, x: F.clip(x, -1, 300), [np.uint8([0, 7, 255])], [0, 7, 255]),
        (lambda F, x: F.clip(x, -INF, 2), [int32(-9, 3)], [-9, 2]),
        (lambda F, x: F.mean(x), [int64(BIG, BIG + 2)], [BIG + 1]),
        (lambda F, x: F.mean(x, axis=0), [int64(-1, -2)], [-1]),
    ],
)
def test_integers_are_exact(function, inputs, expected):
    if expected is None:
        info = np.iinfo(inputs[0].dtype)
        pairs = [(int(x), int(y)) for x, y in zip(*inputs, strict=True)]
        exact = [0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
        expected = [(n - int(info.min)) % 2**info.bits + int(info.min) for n in exact]
    np.testing.assert_array_equal(everywhere(function, *inputs), np.array(expected, inputs[0].dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_powers_of_integers_wrap(dtype):
    info = np.iinfo(dtype)
    base = [0, 1, -1, 2, -2, 3, 10, 1, -1, -1, 5, 0, 7]
    exponent = [0, 9, 9, 63, 31, 39, 20, -1, -3, -4, -1, -2, 10]
    if info.min == 0:
        base, exponent = np.abs(base).tolist(), np.abs(exponent).tolist()
    exact = [x**y if y >= 0 else int(x) ** -y if abs(x) == 1 else 0 for x, y in zip(base, exponent, strict=True)]
    expected = [(n - info.min) % 2**info.bits + info.min for n in exact]
    found = everywhere(lambda F, x, y: F.broadcast_power(x, y), np.array(base, dtype), np.array(exponent, dtype))
    np.testing.assert_array_equal(found, np.array(expected, dtype))


def test_a_number_to_the_power_of_integers():
    np.testing.assert_array_equal(everywhere(lambda F, x: 2**x, int32(3, 31, 33, -2)), [8, -(2**31), 0, 0])


@pytest.mark.parametrize(("exponent", "least"), [(0.5, INF), (-0.5, 0.0), (1.5, INF)])
def test_roots_of_infinity_are_those_of_c(exponent, least):
    """NumPy takes a square root, which is nan of -inf and negative of -0.0."""
    found = everywhere(lambda F, x: x**exponent, float32(-INF, INF, 4))
    np.testing.assert_array_equal(found, float32(least, INF if exponent > 0 else 0, 4**exponent))
    zero = everywhere(lambda F, x: x**exponent, float32(-0.0))
    assert zero == (0 if exponent > 0 else INF)
    assert not np.signbit(zero)


# --- sequences --------------------------------------------------------------------------------------------

STEPS = np.arange(1, 13, dtype=np.float32).reshape(4, 3, 1)


def rows(found):
    return found[:, :, 0].T.tolist()


def test_sequence_reverse_limits_its_lengths():
    def reverse(F, x, n):
        return F.SequenceReverse(x, n, use_sequence_length=True)

    columns = STEPS[:, :, 0].T.tolist()
    whole = [c[::-1] for c in columns]
    beyond = rows(everywhere(reverse, STEPS, float32(6, INF, 4.9)))
    assert beyond == whole
    assert rows(everywhere(reverse, STEPS, float32(-1, NAN, 0.5))) == columns
    assert rows(everywhere(reverse, STEPS, np.uint8([255, 4, 0]))) == [*whole[:2], columns[2]]


def test_sequence_mask_cuts_its_lengths():
    """MXNet makes integers of them; what is not a number, it cannot tell."""

    def mask(F, x, n):
        return F.SequenceMask(x, n, use_sequence_length=True, value=-5)

    (a, b, c) = STEPS[:, :, 0].T.tolist()
    assert rows(everywhere(mask, STEPS, float32(2.5, 0.9, 7))) == [[*a[:2], -5, -5], [-5] * 4, c]
    assert rows(everywhere(mask, STEPS, float32(NAN, -1, INF))) == [[-5] * 4, [-5] * 4, c]
    assert b


@pytest.mark.parametrize(("dtype", "value", "expected"), [("uint8", -1, 255), ("int8", 300, 44), ("int32", -1.7, -1)])
def test_a_masks_value_wraps(dtype, value, expected):
    def mask(F, x, n):
        return F.SequenceMask(x, n, use_sequence_length=True, value=value)

    found = everywhere(mask, np.ones((2, 1), dtype), int32(1))
    assert found.tolist() == [[1], [expected]]


@pytest.mark.parametrize("hybrid", [False, True])
def test_indices_out_of_range_name_the_operator(hybrid):
    for function, inputs, text in [
        (lambda F, x, i: F.gather_nd(x, i), [np.ones((2, 2)), int32([0], [2])], "gather_nd: index 2 is out of bounds"),
        (
            lambda F, x, n: F.SequenceLast(x, n, use_sequence_length=True),
            [np.ones((4, 1)), int32(6)],
            r"SequenceLast: sequence_length\[0\] is 6; it must be from 1 to 4",
        ),
    ]:
        block = HybridLambda(function)
        block.hybridize(hybrid)
        with pytest.raises(IndexRangeError, match=text):
            block(*[mx.nd.array(x, dtype=x.dtype) for x in inputs])


# --- reductions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
def test_of_nothing_there_is_no_extreme(name, hybrid):
    block = HybridLambda(lambda F, x: getattr(F, name)(x, axis=0))
    block.hybridize(hybrid)
    with pytest.raises(ShapeError, match=rf"{name}: no element to choose from in an input of shape \(0, 3\)"):
        block(mx.nd.zeros((0, 3)))


def test_an_extreme_of_nothing_for_nobody_is_empty():
    assert everywhere(lambda F, x: F.max(x, axis=1), np.ones((0, 3), np.float32)).shape == (0,)
    assert everywhere(lambda F, x: F.softmax(x, axis=1), np.ones((3, 0), np.float32)).shape == (3, 0)


@pytest.mark.parametrize("name", ["sum", "max", "prod", "mean", "norm", "cumsum"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_scalar_has_an_axis_as_in_numpy(name, axis):
    assert everywhere(lambda F, x: getattr(F, name)(x, axis=axis), np.float32(5)).tolist() == [5]


@pytest.mark.parametrize(
    ("labels", "cut"),
    [(float32(0.7, 1.2, -0.5), [0, 1, 0]), (float32(2.9, 3.1, INF), [2]), (float32(-1, 3, NAN), [])],
)
def test_softmax_cross_entropy_cuts_its_labels(labels, cut):
    """Labels out of range add nothing to the loss; MXNet reads foreign memory for them."""
    x = np.array([[1, 2, 3], [1, 2, 4], [3, 1, 1]], np.float32)
    loss, grad = both(lambda F, x, y: F.softmax_cross_entropy(x, y), x, labels)
    share = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    expected = np.zeros_like(x)
    for i, k in enumerate(cut):
        expected[i] = share[i] - np.eye(3)[k]
    np.testing.assert_allclose(loss, [-sum(np.log(share[i, k]) for i, k in enumerate(cut))], rtol=1e-6)
    np.testing.assert_allclose(grad, expected, rtol=1e-5, atol=1e-7)


def test_softmax_output_cuts_its_labels():
    x = np.array([[1, 2, 3], [1, 2, 4]], np.float32)
    y, grad = both(lambda F, x, y: F.SoftmaxOutput(x, y), x, float32(0.7, 2.2))
    np.testing.assert_allclose(grad, y - np.eye(3)[[0, 2]], rtol=1e-5, atol=1e-7)


def test_the_gradient_of_relu_is_nan_at_nan():
    _, grad = both(lambda F, x: F.relu(x), float32(NAN, 1, -1, 0))
    np.testing.assert_array_equal(grad, [NAN, 1, 0, 0])


def test_integers_have_gradients():
    _, grad = both(lambda F, x: F.cast(x, "float32") * 2.5, int32(1, 2))
    np.testing.assert_array_equal(grad, [2, 2])
    _, grad = both(lambda F, i, w: F.take(w, i), int32(1, 0), float32(3, 4))
    np.testing.assert_array_equal(grad, [0, 0])


# --- creation and shapes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "dtype", "expected"),
    [
        ((1.3, 12, 1.3), "int32", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ((5, -3, -1.5), "int32", [5, 4, 3, 2, 1, 0]),
        ((0.5, 2, 0.7), "int64", [0, 0, 0]),
        ((0.5, 2, 0.75), "float64", [0.5, 1.25]),
    ],
)
def test_ranges_of_integers_count_in_integers(arguments, dtype, expected):
    start, stop, step = arguments
    np.testing.assert_array_equal(mx.nd.arange(start, stop, step, dtype=dtype).asnumpy(), expected)
    found = everywhere(lambda F, x: F.arange(start, stop, step, dtype=dtype) + F.cast(x, dtype), float32(0))
    np.testing.assert_array_equal(found, expected)


def test_ranges_like_an_array_of_integers():
    found = everywhere(lambda F, x: F.contrib.arange_like(x, start=1.3, step=1.3), int32(9, 9, 9, 9))
    np.testing.assert_array_equal(found, [1, 2, 3, 4])


def test_allclose_is_a_scalar_of_uint8():
    found = everywhere(lambda F, x: F.contrib.allclose(x, x), float32(1, NAN))
    assert (found.shape, found.dtype, int(found)) == ((), np.uint8, 1)


@pytest.mark.parametrize(
    ("shape", "like"), [((1, 1), (0, 3)), ((1, 3), (0, 3)), ((1,), (0,)), ((1, 1), (2, 0)), ((3,), (0, 3)), ((), (0,))]
)
def test_broadcast_like_something_empty(shape, like):
    block = HybridLambda(lambda F, x, y: F.broadcast_like(x, y) * 2 + y)
    block.hybridize()
    x = mx.nd.ones(shape)
    x.attach_grad()
    with autograd.record():
        y = block(x, mx.nd.zeros(like))
    y.backward()
    assert y.shape == like
    assert x.grad.shape == shape
    assert not x.grad.asnumpy().any()


# --- numbers beyond all ranges ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: mx.nd.broadcast_to(x, shape=(2**70,)),
            "broadcast_to: attribute shape takes a tuple of integers, got (1180591620717411303424,)",
        ),
        (
            lambda x: mx.nd.sum(x, axis=2**70),
            "sum: attribute axis takes an integer or a tuple of integers, got an integer of 71 bits, which is more "
            "than 64",
        ),
        (
            lambda x: mx.nd.sum(x, axis="9" * 5000),
            f"sum: attribute axis takes an integer or a tuple of integers, got '{'9' * 79}… (5002 characters)",
        ),
        (lambda x: mx.nd.repeat(x, repeats=2**62), "repeat: "),
        (lambda x: mx.nd.arange(INF), "arange: start, stop and step must be finite, got inf, 1.0"),
        (
            lambda x: x.astype("int32") + NAN,
            "nan is no number of int32, the dtype of the array beside it; cast the array with .astype",
        ),
        (lambda x: x.astype("int32") * -INF, "-inf is no number of int32"),
        (lambda x: x + 10**400, "an integer of 1329 bits is no number of float32"),
    ],
)
def test_numbers_that_cannot_be(call, text):
    with pytest.raises(MXNetError) as error:
        call(mx.nd.ones((1,)))
    assert str(error.value).startswith(text)


def test_integers_beside_arrays_wrap():
    x = mx.nd.zeros((1,), dtype="int32")
    for number in (2**31, -(2**31) - 1, 2**70 + 3, 10**400):
        wrapped = (number + 2**31) % 2**32 - 2**31
        assert (x + number).asscalar() == wrapped


def test_integers_in_symbol_files_are_exact():
    x = mx.sym.var("x")
    zero = mx.nd.zeros((1,), dtype="int64")
    for symbol in (x + BIG, BIG - x, mx.sym.broadcast_add(mx.sym.full((1,), BIG, dtype="int64"), x)):
        assert mx.sym.load_json(symbol.tojson()).eval(x=zero)[0].asscalar() == BIG
    clipped = mx.sym.load_json(mx.sym.clip(x, -BIG, BIG).tojson())
    assert clipped.eval(x=zero + 3 * BIG)[0].asscalar() == BIG


def test_a_number_of_5000_digits_in_a_symbol_file():
    text = (mx.sym.var("x") + 12345).tojson()
    with pytest.raises(MXNetError, match="attribute scalar has 5000 characters, which is beyond all numbers"):
        mx.sym.load_json(text.replace("12345", "9" * 5000))
    with pytest.raises(AttributeValueError, match="attribute shape takes a tuple of integers"):
        mx.sym.load_json(mx.sym.zeros((12345,)).tojson().replace("12345", "9" * 5000))


def test_an_array_of_integers_wraps():
    assert mx.nd.array([-1, 300], dtype="uint8").asnumpy().tolist() == [255, 44]
    assert mx.nd.array([2**40 + 7], dtype="int32").asscalar() == 7
    with pytest.raises(TypeError, match="source_array must be array like, of numbers of int64"):
        mx.nd.array([2**70], dtype="int64")


@pytest.mark.parametrize("name", ["sigmoid", "silu"])
def test_half_precision_reaches_as_far_as_its_numbers(name):
    """exp(-x) overflows in half precision long before the result vanishes."""
    x = np.array([-16, -12, -11.09, -5, 0, 3, 20], np.float16)
    wide = x.astype(np.float64)
    want = (1 if name == "sigmoid" else wide) / (1 + np.exp(-wide))
    got = everywhere(lambda F, x: getattr(F, name)(x), x)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-7)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_batch_norm_of_half_precision_sums_in_single(hybrid):
    """The sum of squares is beyond 65504."""
    rng = np.random.default_rng(0)
    x, dy = rng.normal(300, 60, (64, 3)).astype(np.float16), rng.normal(size=(64, 3)).astype(np.float16)
    net = nn.BatchNorm(in_channels=3, scale=False)
    net.initialize()
    net.cast("float16")
    net.hybridize(hybrid)
    data = mx.nd.array(x, dtype="float16")
    data.attach_grad()
    with autograd.record():
        y = net(data)
    y.backward(mx.nd.array(dy, dtype="float16"))
    wide, head = x.astype(np.float64), dy.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(0) + 1e-5)
    normal = (wide - wide.mean(0)) * scale
    want = (head - head.mean(0) - normal * (head * normal).mean(0)) * scale
    np.testing.assert_allclose(y.asnumpy(), normal, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(data.grad.asnumpy(), want, rtol=2e-3, atol=2e-5)


def test_a_choice_between_computed_arrays():
    """Neither is kept where the result is written: the other one is written there first."""
    x, y = np.linspace(-2, 2, 7, dtype=np.float32), np.linspace(0.5, 2, 5, dtype=np.float32)[:, None]
    got = everywhere(lambda F, x, y: F.where(x * y > 0, x * y, F.abs(x - y)), x, y)
    np.testing.assert_allclose(got, np.where(x * y > 0, x * y, np.abs(x - y)), rtol=1e-6)


def test_places_outside_of_the_result_are_refused():
    """Those of another row must not be written."""
    block = HybridLambda(lambda F, x, i: F.scatter_along_axis(x, i, size=3))
    x, places = mx.nd.ones((2, 2)), mx.nd.array([[0, 3], [1, 2]])
    for hybrid in (False, True):
        block.hybridize(hybrid)
        with pytest.raises(IndexRangeError, match="index 3 is out of bounds for an axis of size 3"):
            block(x, places)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_gradients_of_indices_that_count_from_the_end(hybrid):
    block = HybridLambda(lambda F, x, i: F.take_along_axis(x, i, axis=1))
    block.hybridize(hybrid)
    x = mx.nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = block(x, mx.nd.array([[-1, 0], [1, -3]]))
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[1, 0, 1], [1, 1, 0]])


# --- what the fuzzer found ------------------------------------------------------------------------------------


def test_batch_norm_of_channels_alone():
    """Data whose only axis is that of the channels: each is its own mean."""
    net = nn.BatchNorm(axis=0, in_channels=3)
    x = mx.nd.array([1.0, -2.0, 5.0])
    for hybrid in (False, True):
        net.initialize(force_reinit=True)
        net.hybridize(hybrid)
        with autograd.record():
            y = net(x)
        np.testing.assert_array_equal(y.asnumpy(), [0, 0, 0])
        np.testing.assert_allclose(net.running_mean.data().asnumpy(), [0.1, -0.2, 0.5], rtol=1e-6)


@pytest.mark.parametrize("ascending", [True, False])
def test_nan_of_bfloat16_is_sorted_as_the_largest(ascending):
    x = np.array([2, NAN, -1, 0.5, NAN, -8], ml_dtypes.bfloat16)
    order = [5, 2, 3, 0, 1, 4] if ascending else [1, 4, 0, 3, 2, 5]
    np.testing.assert_array_equal(everywhere(lambda F, x: F.argsort(x, is_ascend=ascending), x), order)
    got = everywhere(lambda F, x: F.cast(F.sort(x, is_ascend=ascending), "float32"), x)
    np.testing.assert_array_equal(got, x.astype("f4")[order])


def test_l2_normalization_of_numbers_whose_squares_overflow():
    x = np.array([[300, 400]], np.float16)
    y, dx = both(lambda F, x: F.cast(F.L2Normalization(x), "float32"), x)
    np.testing.assert_allclose(y, [[0.6, 0.8]], rtol=1e-3)
    np.testing.assert_allclose(dx.astype("f8") * 500, [[0.16, -0.12]], atol=0.05)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dropout_keeps_the_same_elements(dtype):
    x = np.ones((100, 100), getattr(ml_dtypes, dtype, dtype))
    kept = [(y != 0).mean() for y in both(lambda F, x: F.cast(F.Dropout(x, p=0.25), "float32"), x)]
    np.testing.assert_allclose(kept, 0.75, atol=0.02)


def test_differences_of_unsigned_integers_do_not_wrap():
    a, b = np.array([7, 1], np.uint8), np.array([6, 5], np.uint8)
    assert everywhere(lambda F, a, b: F.allclose(a, b, rtol=0.5, atol=3.5), a, b)
    assert not everywhere(lambda F, a, b: F.allclose(a, b, rtol=0.0, atol=3.5), a, b)


def test_rows_are_copied_into_an_array_without_any():
    both(lambda F, a, i, b: F.index_copy(a, i, b), np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)))


def test_product_of_great_integers_over_no_axes():
    x = int64(BIG, LEAST, 3)
    np.testing.assert_array_equal(everywhere(lambda F, x: F.nanprod(x, axis=0, exclude=True), x), x)


def test_norm_in_another_dtype_has_a_gradient():
    y, dx = both(lambda F, x: F.cast(F.norm(x, out_dtype="float16"), "float32"), np.float32([3, 4]))
    np.testing.assert_allclose(y, [5], rtol=1e-3)
    np.testing.assert_allclose(dx, [0.6, 0.8], rtol=1e-3)


@pytest.mark.parametrize("shape", [(0,), (0, 1)])
def test_gradient_of_batch_take_with_indices_of_another_shape(shape):
    index = np.zeros((2, 0) if shape == (0,) else (0, 2), np.int64)
    a = np.zeros((0, 3), np.float32)
    assert both(lambda F, a, i: F.batch_take(a, i), a, index)[1].shape == (0, 3)


@pytest.mark.parametrize(
    ("function", "shapes", "kind"),
    [
        (lambda F, x: F.basic_index(x, newaxis=(1, 0)), [(2,)], AttributeValueError),
        (lambda F, x: F.basic_index(x, begin=(0,), end=(1,), squeeze=(0, 0)), [(2,)], AttributeValueError),
        (lambda F, x: F.basic_index(x, begin=(0,), end=(2,), squeeze=(0,)), [(2,)], ShapeError),
        (lambda F, x, i: F.take(x, i, axis=1), [(0, 0), (1,)], ShapeError),
        (lambda F, x, i: F.take_scatter(x, i, shape=(0,)), [(2,), (2,)], ShapeError),
        (lambda F, x, i: F.take_scatter(x, i, shape=(0, 0), axis=1), [(0, 2), (2,)], ShapeError),
        (lambda F, x: F.transpose(x, axes=(0, 1, 1)), [(2, 2)], ShapeError),
        (lambda F, x: F.unravel_index(x, shape=()), [(2,)], AttributeValueError),
        (lambda F, x: F.slice_scatter(x, shape=(3,), begin=0, end=2), [()], ShapeError),
        (lambda F, x: F.SequenceLast(x, axis=1), [(2, 0)], ShapeError),
        (lambda F, x, i: F.scatter_along_axis(x, i, size=3), [(2,), (1, 2)], ShapeError),
        (lambda F, x: F.take_along_axis(x, x), [(1,)], IndexRangeError),
    ],
)
def test_eager_and_compiled_calls_refuse_the_same(function, shapes, kind):
    for hybrid in (False, True):
        block = HybridLambda(function)
        block.hybridize(hybrid)
        with pytest.raises(kind):
            block(*[mx.nd.ones(s) for s in shapes])


def test_rrelu_refuses_integers_of_any_shape():
    for shape in ((), (2,)):
        for hybrid in (False, True):
            block = HybridLambda(lambda F, x: F.rrelu(x))
            block.hybridize(hybrid)
            with autograd.record(), pytest.raises(DTypeError, match="rrelu: in training"):
                block(mx.nd.array(np.zeros(shape), dtype="int64"))


def shapes_like(x):
    """Arrays of almost the shape of one."""
    for axis, n in enumerate(x.shape):
        yield np.concatenate([x, x], axis)
        if n:
            yield np.take(x, [0], axis)
            yield np.take(x, 0, axis)
    yield x[None]


@each(each_class, lambda cls: cls.NAME not in NO_SAMPLES)
def test_eager_calls_take_the_shapes_that_inference_takes_and_give_those_that_it_says(case):
    for sample in case.samples():
        operator = case.bind(**sample.attrs)
        if operator.DRAWS:
            continue
        first = np.dtype(sample.dtypes[0])
        arrays = [np.ones(x, first) if isinstance(x, tuple) else np.asarray(x) for x in sample.inputs]
        arrays = [x if x.dtype != np.float64 else x.astype(first) for x in arrays]
        for given in [[*arrays[:i], y, *arrays[i + 1 :]] for i, x in enumerate(arrays) for y in shapes_like(x)]:
            try:
                expected = operator.infer_shape([x.shape for x in given])[1]
            except MXNetError:
                expected = None
            try:
                found = as_list(invoke(operator, [mx.nd.array(x, dtype=x.dtype) for x in given]))
            except IndexRangeError:  # for its values, not its shape
                continue
            except MXNetError as error:
                if "must increase monotonically" in str(error):  # values, too
                    continue
                found = None
            known = expected and [tuple(s) for s in expected[: len(found or ())]]
            assert (found and [y.shape for y in found]) == known, (sample.attrs, [x.shape for x in given])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("value", [-1.0, -2.7, 300.0])
def test_numbers_that_a_dtype_does_not_have_are_everywhere_the_same(dtype, value):
    x = np.zeros((2, 3), dtype)
    everywhere(lambda F, x: F.full_like(x, fill_value=value), x)
    everywhere(lambda F, x: F.sum(F.full_like(x, fill_value=value), axis=1), x)


@pytest.mark.parametrize("order", [1, 2])
def test_norm_of_numbers_whose_squares_overflow(order):
    x = np.array([[300, 400]], np.float16)
    y = everywhere(lambda F, x: F.cast(F.norm(x, ord=order, axis=1), "float32"), x)
    np.testing.assert_allclose(y, np.linalg.norm(x.astype("f8"), order, axis=1), rtol=0.05)
