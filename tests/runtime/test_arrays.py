"""What a compiled graph may share: nothing. Kinds of inputs: all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import HybridBlock, nn
from tests.function_blocks import Lambda, hybrid


def as_list(result):
    return list(result) if isinstance(result, list | tuple) else [result]


def arr(*shape, dtype="float32", seed=0):
    return mx.nd.array(np.random.default_rng(seed).uniform(-2, 2, shape), dtype=dtype)


SHARED = [
    ("the input", lambda F, x: x),
    ("the input twice", lambda F, x: [x, x]),
    ("a view of the input", lambda F, x: x.reshape((-1,))),
    ("a transpose of the input", lambda F, x: F.transpose(x)),
    ("two views of the input", lambda F, x: [x.reshape((-1,)), F.transpose(x)]),
    ("a value and its view", lambda F, x: (lambda y: [y, y.reshape((-1,)), y.T])(F.exp(x))),
    ("the same value twice", lambda F, x: (lambda y: [y, y])(F.exp(x))),
    ("equal values", lambda F, x: [F.exp(x), F.exp(x)]),
    ("a broadcast value", lambda F, x: F.broadcast_to(F.exp(x).expand_dims(0), shape=(5, 3, 4))),
    ("a broadcast view of the input", lambda F, x: F.broadcast_to(x.expand_dims(0), shape=(5, 3, 4))),
    ("a constant", lambda F, x: [F.ones((3, 4)), F.zeros((3, 4)), x + 1]),
    ("equal constants", lambda F, x: [F.ones((3, 4)), F.ones((3, 4))]),
    ("a value that others need", lambda F, x: (lambda y: [y, F.sin(y), F.cos(y)])(F.exp(x))),
    ("slices of one value", lambda F, x: (lambda y: [y[0:2], y[1:3]])(F.exp(x))),
    ("parts of one value", lambda F, x: F.split(F.exp(x), num_outputs=2, axis=1)),
    ("an input through an identity", lambda F, x: F.identity(x)),
    ("an input without gradient", lambda F, x: [F.BlockGrad(x), x.detach()]),
    ("an input times one", lambda F, x: [x * 1, x + 0, x / 1]),
]


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize(("name", "function"), SHARED, ids=[name for name, _ in SHARED])
def test_outputs_share_nothing(name, function, recorded):
    net = hybrid(function)
    x = arr(3, 4)
    expected = [y.asnumpy() for y in as_list(Lambda(function)(x))]
    if recorded:
        x.attach_grad()
    before = x.asnumpy()

    def run():
        if not recorded:
            return as_list(net(x))
        with mx.autograd.record():
            return as_list(net(x))

    first, second = run(), run()
    arrays = [y._data for y in first + second]
    for a, b in itertools.combinations([x._data, *arrays], 2):
        assert not np.shares_memory(a, b), name
    for i, y in enumerate(arrays):  # written to, each array changes alone, and may be written to anywhere
        y[...] = i + 100.0
    for i, y in enumerate(arrays):
        assert (y == i + 100.0).all()
    np.testing.assert_array_equal(x.asnumpy(), before)
    for y, e in zip(run(), expected, strict=True):
        np.testing.assert_allclose(y.asnumpy(), e, rtol=1e-6)


def test_elements_of_a_broadcast_output_are_independent():
    net = hybrid(lambda F, x: F.broadcast_to(F.exp(x), shape=(3, 4)))
    y = net(mx.nd.zeros((1, 4)))
    y._data[0, 0] = 7
    assert y.asnumpy()[:, 0].tolist() == [7, 1, 1]


def test_parameters_are_not_shared_with_outputs():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.w = self.params.get("w", shape=(2, 2), init="ones")

        def hybrid_forward(self, F, x, w):
            return w, w.T, w.reshape((4,)), x + w

    net = Net()
    net.initialize()
    net.hybridize()
    outputs = net(mx.nd.zeros((2, 2)))
    for y in outputs:
        y._data[...] = 5
    assert net.w.data().asnumpy().tolist() == [[1, 1], [1, 1]]
    net.w.data()[:] = 3
    assert all((y.asnumpy() == 5).all() for y in outputs)


def test_input_changed_in_place_afterwards():
    net = hybrid(lambda F, x: [x, x * 2])
    x = arr(3)
    expected = x.asnumpy()
    a, b = net(x)
    x[:] = 0
    np.testing.assert_array_equal(a.asnumpy(), expected)
    np.testing.assert_array_equal(b.asnumpy(), expected * 2)


def test_results_kept_across_calls():
    """The arena is reused: results of earlier calls must not change."""
    net = hybrid(lambda F, x: [F.softmax(x), F.sum(F.exp(x), axis=0), x.T])
    xs = [arr(6, 5, seed=s) for s in range(4)]
    results = [net(x) for x in xs]
    for x, got in zip(xs, results, strict=True):
        for y, e in zip(got, Lambda(net.function)(x), strict=True):
            np.testing.assert_allclose(y.asnumpy(), e.asnumpy(), rtol=1e-6)


VIEWS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T.copy().T,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "fortran": lambda a: np.asfortranarray(a),
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("shape", [(4, 6), (64, 1000), (3, 5, 7)])
def test_inputs_of_every_layout(view, shape):
    from hybridc.array.ndarray import NDArray

    def function(F, x, w):
        return [F.exp(x) + w, F.sum(x * w, axis=-1), F.dot(x.reshape((-1, shape[-1])), w), F.softmax(x)]

    given = NDArray(VIEWS[view](arr(*shape)._data))
    w = arr(shape[-1], seed=1)
    plain = NDArray(np.array(given._data))
    for y, e in zip(hybrid(function)(given, w), Lambda(function)(plain, w), strict=True):
        np.testing.assert_allclose(y.asnumpy(), e.asnumpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_no_elements(shape):
    def function(F, x):
        y = F.exp(x) * 2 + x
        return [y, F.sum(y, axis=0), F.sum(y, axis=-1, keepdims=True), F.sum(y), y.T, y.reshape((-1,))]

    x = mx.nd.zeros(shape)
    x.attach_grad()
    for y, e in zip(hybrid(function)(x), Lambda(function)(x), strict=True):
        assert (y.shape, y.dtype) == (e.shape, e.dtype)
        np.testing.assert_array_equal(y.asnumpy(), e.asnumpy())
    with mx.autograd.record():
        y = hybrid(function)(x)[0]
    y.backward()
    assert x.grad.shape == shape


BROADCASTS = [
    ((3, 4), (4,)),
    ((3, 4), (3, 1)),
    ((3, 4), (1, 1)),
    ((3, 4), (1,)),
    ((2, 3, 4), (3, 1)),
    ((2, 3, 4), (2, 1, 4)),
    ((2, 1, 4), (3, 1)),
    ((2, 1, 4, 1), (3, 1, 5)),
    ((1,), (5, 1, 1)),
    ((40, 1, 30), (1, 50, 1)),
    ((300, 1, 7), (1, 20, 7)),
    ((5, 1), (1, 70000)),
]


@pytest.mark.parametrize(("a", "b"), BROADCASTS)
def test_broadcasting(a, b):
    def function(F, x, y):
        z = F.broadcast_add(F.sin(x), y) * y
        return z / (F.square(x) + 1)

    x, y = arr(*a), arr(*b, seed=1)
    results = {}
    for name, net in (("eager", Lambda(function)), ("hybrid", hybrid(function))):
        x.attach_grad()
        y.attach_grad()
        with mx.autograd.record():
            z = net(x, y)
        z.backward()
        results[name] = [z, x.grad, y.grad]
    for got, want in zip(results["hybrid"], results["eager"], strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8"])
def test_dtypes(dtype):
    def function(F, x, y):
        return [
            x + y,
            x * 2 - y,
            F.maximum(x, y),
            x > y,
            F.square(x),
            F.sum(x, axis=1),
            F.max(y, axis=0),
            -x,
            x / 2,
        ]

    values = np.array([[1, 2, 3], [7, 5, 4]])
    x = mx.nd.array(values, dtype=dtype)
    y = mx.nd.array(values[::-1] * 3, dtype=dtype)
    for got, want in zip(hybrid(function)(x, y), Lambda(function)(x, y), strict=True):
        assert got.dtype == want.dtype == np.dtype(dtype).type
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_float_functions_in_other_precisions(dtype):
    def function(F, x):
        return [
            F.exp(x),
            F.tanh(x) * F.sigmoid(x),
            F.erf(x),
            F.softmax(x),
            F.mean(x, axis=0),
            F.log1p(F.abs(x)),
        ]

    x = arr(5, 7, dtype=dtype)
    for got, want in zip(hybrid(function)(x), Lambda(function)(x), strict=True):
        assert got.dtype == np.dtype(dtype).type
        np.testing.assert_allclose(
            got.asnumpy().astype("f8"),
            want.asnumpy().astype("f8"),
            rtol=4e-3 if dtype == "float16" else 1e-12,
        )


def test_special_numbers():
    def function(F, x):
        return [
            x * 0.0,
            x * -0.0,
            1.0 / (x * -0.0),
            x + float("inf"),
            x * float("nan"),
            0.0 - x,
        ]

    x = mx.nd.array([0.0, -0.0, 1.0, -1.0, float("inf"), float("nan")])
    for got, want in zip(hybrid(function)(x), Lambda(function)(x), strict=True):
        np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
        np.testing.assert_array_equal(np.signbit(got.asnumpy()), np.signbit(want.asnumpy()))
    zeros = hybrid(lambda F, x: F.maximum(x, -0.0))(x)  # of two zeros that differ in sign, either
    np.testing.assert_array_equal(zeros.asnumpy(), np.maximum(x.asnumpy(), 0.0))


def test_scalar_arrays_and_single_elements():
    net = hybrid(lambda F, x, y: x * y + F.sum(x))
    for a, b in (((1,), (1,)), ((1, 1), (1,)), ((3,), (1,))):
        x, y = arr(*a), arr(*b, seed=1)
        np.testing.assert_allclose(net(x, y).asnumpy(), Lambda(net.function)(x, y).asnumpy(), rtol=1e-6)


def test_parameters_changed_after_compilation():
    net = nn.Dense(3, in_units=2)
    net.initialize()
    net.hybridize()
    x = arr(4, 2)

    def check(dtype="float32"):
        w, b = net.weight.data().asnumpy(), net.bias.data().asnumpy()
        y = net(x.astype(dtype))
        assert y.dtype == np.dtype(dtype).type
        np.testing.assert_allclose(
            y.asnumpy(), x.astype(dtype).asnumpy() @ w.T + b, rtol=1e-2 if dtype == "float16" else 1e-5
        )

    check()
    net.weight.set_data(mx.nd.ones((3, 2)))
    check()
    net.weight.data()[:] = 2
    check()
    net.initialize(mx.init.Normal(1), force_reinit=True)
    check()
    net.cast("float64")
    check("float64")
    for p in net.collect_params().values():  # not through the block
        p.cast("float16")
    check("float16")
    assert "dtype" in net.explain()


def test_a_parameter_cast_alone_is_noticed():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.w = self.params.get("w", shape=(2,), init="ones")

        def hybrid_forward(self, F, x, w):
            return F.cast(w, "float32") + x

    net = Net()
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2,)))
    net.w.cast("float64")
    net.w.data()[:] = 0.5
    assert net(mx.nd.ones((2,))).asnumpy().tolist() == [1.5, 1.5]
    assert np.float64 == net._cached_graph.graphs()[-1].trace.leaves[1].dtype


def test_grad_req_changed_after_compilation():
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = mx.nd.array([[1.0, 2.0]])

    def step():
        with mx.autograd.record():
            y = net(x)
        if y._entry is not None:
            y.backward()

    step()
    assert net.weight.grad().asnumpy().tolist() == [[1, 2]]
    net.weight.grad_req = "add"
    step()
    step()
    assert net.weight.grad().asnumpy().tolist() == [[2, 4]]
    net.weight.grad_req = "null"
    step()
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        net.weight.grad()
    net.weight.grad_req = "write"
    step()
    assert net.weight.grad().asnumpy().tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("dtype", "number"), [("uint64", 2**63), ("int64", 2**53 + 1), ("int64", 2**63 - 1), ("uint8", 255), ("int8", 300)]
)
def test_large_integer_constants(dtype, number):
    def function(F, x):
        return [x + number, x * number, number - x]

    x = mx.nd.array([0, 1], dtype=dtype)
    for got, want in zip(hybrid(function)(x), Lambda(function)(x), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
