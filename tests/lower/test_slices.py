"""Slices and concatenations are reads and writes of parts: results and gradients, launches, and what is saved."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn
from hybridc.ir.values import functions, result_count
from tests.test_kernel_counts import contractions, launches, lowered


class Function(gluon.HybridBlock):
    """A block of a function of F and arrays."""

    def __init__(self, function, *layers):
        super().__init__()
        self.function, self.layers = function, layers
        for layer in layers:
            self.register_child(layer)

    def hybrid_forward(self, F, *arrays):
        return self.function(F, *arrays, *self.layers)


def random(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def saved(made):
    """How many values a forward returns for its backward alone."""
    (forward,) = [f for f in functions(made.module) if f.sym_name.data == "forward"]
    return len(forward.function_type.outputs) - result_count(forward)


def gradients(net, *arrays):
    """Gradients of the inputs for a head gradient of the numbers 1, 2, …, hybridized."""
    inputs = [mx.nd.array(a, dtype="float64") for a in arrays]
    for x in inputs:
        x.attach_grad()
    net.hybridize()
    with autograd.record():
        y = net(*inputs)
    y.backward(mx.nd.array(np.arange(1, y.size + 1).reshape(y.shape), dtype="float64"))
    return y.asnumpy(), [x.grad.asnumpy() for x in inputs]


# Slices of an array of (6, 5), of which a sum of multiples is taken.
KEYS = {
    "rows": [np.s_[i : i + 1] for i in range(6)],
    "backwards": [np.s_[i : i + 1] for i in (5, 3, 4, 0, 1, 2)],
    "gaps": [np.s_[1:2], np.s_[4:5]],
    "ends apart": [np.s_[0:2], np.s_[4:6]],
    "columns": [np.s_[:, 0:2], np.s_[:, 2:5]],
    "tiles": [np.s_[0:3, 0:2], np.s_[0:3, 2:5], np.s_[3:6, 0:2], np.s_[3:6, 2:5]],
    "uneven tiles": [np.s_[0:3, 0:2], np.s_[3:6, 2:5], np.s_[2:4, 2:3]],
    "windows": [np.s_[i : i + 3] for i in range(4)],
    "one twice": [np.s_[1:3], np.s_[1:3], np.s_[3:6]],
    "steps": [np.s_[0:6:2], np.s_[1:6:2], np.s_[0:1]],
    "flipped": [np.s_[::-1], np.s_[0:3]],
    "nothing": [np.s_[2:2], np.s_[0:6]],
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside the whole"])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_gradients_of_slices(keys, beside):
    x = random(6, 5)

    def forward(F, x):
        total = sum(F.sum(x[key] * (i + 1)) for i, key in enumerate(keys))
        return total + F.sum(x * x) if beside else total

    expected = 2 * x * beside
    for i, key in enumerate(keys):
        expected[key] += i + 1
    _, (found,) = gradients(Function(forward), x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_gradient_of_rows_is_written_in_place():
    """Each row's gradient is a product, written where it lies: nothing is added up, and time is linear."""

    def forward(F, x, w):
        return F.stack(*(F.dot(x[i], w) for i in range(12)), axis=0)

    arrays = mx.nd.ones((12, 4, 8)), mx.nd.ones((8, 8))
    made = lowered(Function(forward), *arrays, grads={"data0"})
    assert len(launches(made)["backward"]) == 12
    assert made.programs["backward"].arena < 12 * 4 * 8 * 4


def chain(F, x, *layers):
    for layer in layers:
        x = F.concat(x, layer(x), dim=1)
    return x


def test_chain_of_concatenations():
    """Each layer writes its part of the last one, and reads those before it there; the backward needs nothing else."""
    layers = [nn.Dense(3, in_units=4 + 3 * i, activation="relu") for i in range(5)]
    net = Function(chain, *layers)
    net.initialize(mx.init.Normal(1.0))
    net.cast("float64")
    x = random(7, 4)
    y, (dx,) = gradients(net, x)
    parts = [x]
    for layer in layers:
        w, b = layer.weight.data().asnumpy(), layer.bias.data().asnumpy()
        parts.append(np.maximum(np.hstack(parts) @ w.T + b, 0))
    np.testing.assert_allclose(y, np.hstack(parts), rtol=1e-12)
    dy = np.arange(1.0, y.size + 1).reshape(y.shape)
    for i, layer in reversed([*enumerate(layers)]):
        split = 4 + 3 * i
        own = dy[:, split:] * (parts[i + 1] > 0)
        dy = dy[:, :split] + own @ layer.weight.data().asnumpy()
        np.testing.assert_allclose(layer.weight.grad().asnumpy(), own.T @ np.hstack(parts[: i + 1]), rtol=1e-9)
    np.testing.assert_allclose(dx, dy, rtol=1e-9)


def test_chain_of_concatenations_copies_its_input_alone():
    layers = [nn.Dense(16, in_units=32 + 16 * i, activation="relu") for i in range(5)]
    net = Function(chain, *layers)
    net.initialize()
    made = lowered(net, mx.nd.ones((64, 32)), grads=())
    names = launches(made)["forward"]
    assert sum("copy" in name for name in names) == 1
    assert not any("concat" in name for name in names)
    assert saved(made) == 0


def gated(F, x):
    y = F.exp(x) * 2
    return F.tanh(F.slice_axis(y, axis=1, begin=0, end=3)) * F.sigmoid(F.slice_axis(y, axis=1, begin=3, end=6))


def rotated(F, x, c, s):
    a, b = F.slice_axis(x, axis=-1, begin=0, end=4), F.slice_axis(x, axis=-1, begin=4, end=8)
    return F.broadcast_mul(x, c) + F.broadcast_mul(F.concat(-b, a, dim=-1), s)


def both_halves(F, x):
    y = F.sigmoid(x)
    a, b = F.split(y, num_outputs=2, axis=0)
    return F.concat(b - a, a * b, dim=0) * y


def strided(F, x):
    y = F.square(x)
    return F.slice(y, begin=(0, 0), end=(None, None), step=(1, 2)) - F.slice(
        y, begin=(0, 1), end=(None, None), step=(1, 2)
    )


ONE_KERNEL = {
    "gated": (gated, [(2, 6, 5)]),
    "rotated": (rotated, [(2, 3, 8), (1, 3, 8), (1, 3, 8)]),
    "halves": (both_halves, [(6, 4)]),
    "strided": (strided, [(3, 8)]),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_slices_of_elementwise_results_are_one_kernel(name):
    function, shapes = ONE_KERNEL[name]
    made = lowered(Function(function), *(mx.nd.ones(shape) for shape in shapes))
    assert len(launches(made)["forward"]) == 1, launches(made)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_slices_of_elementwise_results(name):
    function, shapes = ONE_KERNEL[name]
    arrays = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    y, found = gradients(Function(function), *arrays)
    head = np.arange(1, y.size + 1).reshape(y.shape)

    def value(*given):
        return mx_eager(function, given)

    np.testing.assert_allclose(y, value(*arrays), rtol=1e-12)
    for i, grad in enumerate(found):
        direction = random(*shapes[i], seed=9)
        step = 1e-6
        moved = [[a + sign * step * direction if i == j else a for j, a in enumerate(arrays)] for sign in (1, -1)]
        slope = ((value(*moved[0]) - value(*moved[1])) * head).sum() / (2 * step)
        np.testing.assert_allclose((grad * direction).sum(), slope, rtol=1e-6)


def mx_eager(function, arrays):
    """The function's value as NumPy's operators give it, one by one."""
    return function(mx.nd, *(mx.nd.array(a, dtype="float64") for a in arrays)).asnumpy()


# How a part of a concatenation is read besides.
READERS = {
    "product": lambda F, p: F.dot(p, F.ones((4, 2), dtype="float64")),
    "transposed": lambda F, p: F.transpose(p),
    "reshaped": lambda F, p: F.reshape(p, shape=(-1,)) * 2,
    "sorted": lambda F, p: F.sort(p, axis=0),
    "returned": lambda F, p: p,
    "sliced": lambda F, p: p[1:3] * 2,
    "reduced": lambda F, p: F.sum(p, axis=0),
    "another": lambda F, p: F.concat(p, p, dim=0),
    "taken": lambda F, p: F.take(p, F.ones((2,), dtype="float64")),
}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_parts_are_read_where_they_lie(read, dim):
    """A part of a concatenation has other readers, which find it in the whole, or a copy."""
    x = random(3, 4)

    def forward(F, x):
        part = F.exp(x)
        whole = F.concat(F.sin(x), part, F.cos(x), dim=dim)
        return whole, read(F, part)

    net = Function(forward)
    net.hybridize()
    given = mx.nd.array(x, dtype="float64")
    for _ in range(2):
        whole, other = net(given)
        np.testing.assert_allclose(whole.asnumpy(), np.concatenate([np.sin(x), np.exp(x), np.cos(x)], dim), rtol=1e-12)
        expected = read(mx.nd, mx.nd.array(np.exp(x), dtype="float64")).asnumpy()
        np.testing.assert_allclose(other.asnumpy(), expected, rtol=1e-12)


def test_steps_that_are_stacked_are_not_saved_once_more():
    """The backward of an unrolled recurrence takes the states out of what the forward returns."""

    def forward(F, x, w):
        h, states = F.zeros_like(x[0]), []
        for i in range(3):
            h = F.tanh(F.dot(h, w) + x[i])
            states.append(h)
        return F.stack(*states, axis=0)

    made = lowered(Function(forward), mx.nd.ones((3, 4, 8)), mx.nd.ones((8, 8)), grads=())
    assert saved(made) == 0


def gru(F, x, h, wx, wh, bx, bh):
    states = []
    for t in range(3):
        gates = F.FullyConnected(x[t], wx, bx, num_hidden=192)
        own = F.FullyConnected(h, wh, bh, num_hidden=192)
        r = F.sigmoid(gates[:, :64] + own[:, :64])
        z = F.sigmoid(gates[:, 64:128] + own[:, 64:128])
        n = F.tanh(gates[:, 128:] + r * own[:, 128:])
        h = (1 - z) * n + z * h
        states.append(h)
    return F.stack(*states, axis=0)


def lstm(F, x, h, c, wx, wh, b):
    states = []
    for t in range(3):
        gates = F.FullyConnected(x[t], wx, b, num_hidden=128) + F.dot(h, wh, transpose_b=True)
        i, f, g, o = F.split(gates, num_outputs=4, axis=1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        h = F.sigmoid(o) * F.tanh(c)
        states.append(h)
    return F.stack(*states, axis=0)


RECURRENT = {
    "gru": (gru, [(3, 16, 32), (16, 64), (192, 32), (192, 64), (192,), (192,)]),
    "lstm": (lstm, [(3, 16, 32), (16, 32), (16, 32), (128, 32), (128, 32), (128,)]),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_cells_by_slices(name):
    """In single precision, whose products keep what follows in registers, against the operators one by one."""
    function, shapes = RECURRENT[name]
    found = []
    for hybridized in (False, True):
        inputs = [mx.nd.array(random(*shape, seed=i) / 4, dtype="float32") for i, shape in enumerate(shapes)]
        net = Function(function)
        net.hybridize(hybridized)
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            y = net(*inputs)
        y.backward(mx.nd.array(random(*y.shape, seed=7), dtype="float32"))
        found.append([y.asnumpy(), *(x.grad.asnumpy() for x in inputs)])
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=0, atol=2e-6 * np.abs(plain).max())


@pytest.mark.parametrize("name", RECURRENT)
def test_gradients_of_weights_at_all_steps_are_one_product(name):
    function, shapes = RECURRENT[name]
    arrays = [mx.nd.ones(shape) for shape in shapes]
    made = lowered(Function(function), *arrays, grads=())
    # Two weights, and at each of three steps the input and the state before.
    assert contractions(made, "backward") == 2 + 3 + 3


@pytest.mark.parametrize("head", [0, 1])
def test_gradients_of_one_result_take_states_out_of_another(head):
    """A backward from some results only finds the states that a loop stacked in what the forward returns anyway."""

    def forward(F, x, w):
        h, states = F.zeros_like(x[0]), []
        for i in range(3):
            h = F.tanh(F.dot(h, w) + x[i])
            states.append(h)
        whole = F.stack(*states, axis=0)
        return whole, F.sum(whole * whole)

    found = []
    for hybridized in (False, True):
        inputs = [mx.nd.array(random(*shape), dtype="float64") for shape in ((4, 2, 3), (3, 3))]
        net = Function(forward)
        net.hybridize(hybridized)
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            y = net(*inputs)
        y[head].backward()
        found.append([x.grad.asnumpy() for x in inputs])
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-10)


def test_a_concatenation_that_is_needed_with_its_parts_is_saved():
    def forward(F, x, w):
        parts = [F.tanh(F.dot(x, w)), F.sigmoid(F.dot(x, w))]
        whole = F.concat(*parts, dim=1)
        return F.sum(F.sin(whole) * F.exp(whole))

    x = random(3, 4)
    w = random(4, 2)
    y, (dx, dw) = gradients(Function(forward), x, w)
    inner = x @ w
    a, b = np.tanh(inner), 1 / (1 + np.exp(-inner))
    whole = np.hstack([a, b])
    np.testing.assert_allclose(y, (np.sin(whole) * np.exp(whole)).sum(), rtol=1e-12)
    slope = np.exp(whole) * (np.sin(whole) + np.cos(whole))
    own = slope[:, :2] * (1 - a * a) + slope[:, 2:] * b * (1 - b)
    np.testing.assert_allclose(dx, own @ w.T, rtol=1e-10)
    np.testing.assert_allclose(dw, x.T @ own, rtol=1e-10)


def test_a_part_is_read_after_the_whole():
    """The memory of a concatenation stays while any part of it is to be read."""
    x = random(8, 8)

    def forward(F, x):
        part = F.exp(x)
        y = F.sort(F.concat(part, F.sin(x), dim=0), axis=1)
        for _ in range(3):
            y = F.sort(F.cos(y) * 3, axis=0)
        return F.broadcast_mul(part, F.sum(y, axis=0))

    net = Function(forward)
    net.hybridize()
    y = np.sort(np.concatenate([np.exp(x), np.sin(x)]), axis=1)
    for _ in range(3):
        y = np.sort(np.cos(y) * 3, axis=0)
    np.testing.assert_allclose(net(mx.nd.array(x, dtype="float64")).asnumpy(), np.exp(x) * y.sum(axis=0), rtol=1e-10)


def test_slices_in_another_order_are_not_their_array():
    x = random(6, 4)
    halves = Function(lambda F, x: F.concat(x[3:], x[:3], dim=0) + 1)
    np.testing.assert_allclose(gradients(halves, x)[0], np.concatenate([x[3:], x[:3]]) + 1, rtol=1e-12)


def test_a_concatenation_that_is_read_along_two_loops():
    x = random(3)

    def forward(F, x):
        whole = F.concat(F.exp(x), F.sin(x), dim=0)
        return F.broadcast_add(F.reshape(whole, shape=(-1, 1)), F.reshape(whole, shape=(1, -1))) * 2

    whole = np.concatenate([np.exp(x), np.sin(x)])
    np.testing.assert_allclose(gradients(Function(forward), x)[0], (whole[:, None] + whole) * 2, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_broadcast_into_a_batch_of_matmuls_is_not_written(side, dtype):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, w):
            w = F.broadcast_to(w, (6, 8, 12))
            return F.batch_dot(w, x) if side == "left" else F.batch_dot(x, w)

    net = Net()
    net.hybridize()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 12, 5) if side == "left" else (6, 5, 8)).astype(dtype)
    w = rng.standard_normal((1, 8, 12)).astype(dtype)
    given = [mx.nd.array(a, dtype=dtype) for a in (x, w)]
    for a in given:
        a.attach_grad()
    with autograd.record():
        y = net(*given)
    y.backward()
    x, w = x.astype(np.float64), w[0].astype(np.float64)
    rtol = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-2}[dtype]
    expected = w @ x if side == "left" else x @ w
    ones = np.ones_like(expected)
    grads = (
        (w.T @ ones, (ones @ x.transpose(0, 2, 1)).sum(0))
        if side == "left"
        else (ones @ w.T, (x.transpose(0, 2, 1) @ ones).sum(0))
    )
    for found, wanted in zip((y, given[0].grad, given[1].grad[0]), (expected, *grads), strict=True):
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=rtol, atol=rtol * abs(wanted).max())
    assert "broadcast_to" not in net.explain().split("backward")[0]
