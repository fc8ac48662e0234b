"""Loops and branches in hybridized blocks give what they give eagerly (which tests/nd compares with NumPy)."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.errors import MXNetError
from hybridc.gluon import nn
from hybridc.options import OPTIONS

FLOATS = (np.float16, np.float32, np.float64)


class Of(gluon.HybridBlock):
    """A block of a function of F and arrays."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


def results_of(function, arrays, hybridize, order=1):
    """Results, and gradients of the inputs, of a function of F and arrays; of second order, of the first gradient."""
    net = Of(function)
    if hybridize:
        net.hybridize()
    given = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
    wanted = [x for x in given if x.dtype in FLOATS]
    for x in wanted:
        x.attach_grad()
    mx.random.seed(7)
    with autograd.record():
        found = net(*given)
        found = list(found) if isinstance(found, list | tuple) else [found]
        loss = sum((y * (i + 1)).sum() for i, y in enumerate(found) if y.dtype in FLOATS)
        if order == 2:
            loss = sum((g * g).sum() for g in autograd.grad(loss, wanted, create_graph=True))
    loss.backward()
    return [y.asnumpy() for y in (*found, *[x.grad for x in wanted])]


def foreach(F, x, h, w):
    out, state = F.contrib.foreach(lambda a, s: (F.tanh(F.dot(a, w) + s) * a, F.tanh(F.dot(a, w)) + 0.5 * s), x, h)
    return out, state


def many(F, x, h, w):
    def body(each, states):
        (h, count), last = states
        h = F.dot(each[0], w) * each[1] + h
        return [h, (count * 2,)], [(h, count + 1), each[0] + last]

    (out, (counts,)), ((h, count), last) = F.contrib.foreach(
        body, [x, F.flip(x, axis=0)], [(h, F.zeros((1,), dtype="float64")), h * 0]
    )
    return out, counts, h, count, last


def nested(F, x, h, w):
    def outer(row, s):
        def inner(each, t):
            return F.tanh(each * F.sum(w) + t), t * 0.9 + each

        cells, last = F.contrib.foreach(inner, row, F.slice_axis(s, axis=0, begin=0, end=1).reshape((3,)))
        return cells, s + last

    return F.contrib.foreach(outer, x, h)


def counted(F, x, h, w):
    def func(i, s):
        s = F.tanh(F.dot(s, w)) + F.take(x, i).reshape((2, 3))
        return [s, i * 1.0], [i + 1, s]

    outputs, (i, s) = F.contrib.while_loop(
        lambda i, s: F.sum(i) < 3, func, [F.zeros((1,), dtype="float64"), h], max_iterations=6
    )
    return [*outputs, i, s]


def no_outputs(F, x, h, w):
    _, last = F.contrib.while_loop(
        lambda s: F.sum(F.abs(s)) < 100, lambda s: (None, s * 1.7 + F.sum(w)), F.sum(x * x, axis=0), max_iterations=40
    )
    return last


def never(F, x, h, w):
    _, last = F.contrib.while_loop(lambda s: F.sum(s * 0), lambda s: (s * 2, s + 1), h, max_iterations=3)
    return [last * F.sum(w)]


def chosen(F, x, h, w):
    first = F.contrib.cond(F.sum(w) > 0, lambda: (F.dot(h, w), h * 2), lambda: (F.dot(h, w * w), h * F.sum(x)))
    second = F.contrib.cond(F.sum(w) < 0, lambda: F.dot(h, w), lambda: F.exp(h * 0.1) * F.sum(w))
    return [*first, second]


def branches_in_loops(F, x, h, w):
    def body(a, s):
        s = F.contrib.cond(F.sum(s) > 0, lambda: s - F.abs(F.dot(a, w)), lambda: s + a * a)
        return s, s

    return F.contrib.foreach(body, x, h)


CASES = [foreach, many, nested, counted, no_outputs, never, chosen, branches_in_loops]


def inputs(dtype="float64"):
    random = np.random.default_rng(3)
    return [random.normal(size=shape).astype(dtype) for shape in [(4, 2, 3), (2, 3), (3, 3)]]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("function", CASES, ids=[f.__name__ for f in CASES])
def test_hybridized_is_eager(function, order):
    arrays = inputs()
    for found, wanted in zip(*[results_of(function, arrays, h, order) for h in (True, False)], strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(OPTIONS.target != "llvm", reason="other targets run the steps of loops one by one")
@pytest.mark.parametrize("function", CASES, ids=[f.__name__ for f in CASES])
def test_loops_and_branches_in_each_other_call_no_host(function):
    net = Of(function)
    net.hybridize()
    given = [mx.nd.array(a, dtype=a.dtype) for a in inputs()]
    given[0].attach_grad()
    with autograd.record():
        found = net(*given)
    autograd.backward([y for y in found if y.dtype in FLOATS] if isinstance(found, list | tuple) else [found])
    text = net.explain()
    assert "backward: " in text
    assert "host call " not in text


def test_views_go_into_loops_and_results_into_parts_of_concatenations():
    def function(F, x, h, w):
        rows = F.transpose(x, axes=(1, 0, 2))
        out, last = F.contrib.foreach(
            lambda a, s: (a * 2 + s, F.tanh(s) + a), rows, F.slice(x, (0, 0, 0), (4, 1, 3)).reshape((4, 3))
        )
        picked = F.contrib.cond(F.sum(w) > 0, lambda: F.dot(h, w), lambda: h * 2)
        return (
            F.concat(F.flip(rows, axis=0), out, dim=2),
            F.concat(last, F.exp(last), dim=1),
            F.concat(h, picked, dim=1),
        )

    arrays = inputs()
    for found, wanted in zip(*[results_of(function, arrays, h) for h in (True, False)], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_negative_zero_is_zero_for_conditions(dtype):
    def function(F, x):
        steps, _ = F.contrib.while_loop(lambda s: s * 0, lambda s: (s, s + 1), x, max_iterations=2)
        return steps, F.contrib.cond(x * 0, lambda: x + 1, lambda: x - 1)

    steps, chosen, *_ = results_of(function, [np.array([-3], dtype)], True)
    np.testing.assert_array_equal(steps, np.zeros((2, 1)))
    np.testing.assert_array_equal(chosen, [-4])


def test_float16_and_int_states():
    def body(F, x, i):
        return F.contrib.foreach(lambda a, s: (a * s[0].astype("float16"), [s[0] + 1, s[1] + a]), x, [i, x[0]])

    arrays = [np.arange(6).reshape(3, 2).astype("float16"), np.array([2, 5], "int32")]

    def function(F, x, i):
        out, (i, total) = body(F, x, i)
        return out, i, total

    for found, wanted in zip(*[results_of(function, arrays, h) for h in (True, False)], strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


class Cell(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.inner, self.norm, self.drop = nn.Dense(4), nn.BatchNorm(), nn.Dropout(0.5)

    def hybrid_forward(self, F, x, h):
        h = F.tanh(self.inner(F.concat(x, h, dim=1)))
        return self.drop(self.norm(h)) + F.random.normal(shape=(2, 4)), h


class Recurrent(gluon.HybridBlock):
    def __init__(self, loop):
        super().__init__()
        self.loop, self.cell, self.top = loop, Cell(), nn.Dense(2, flatten=False)

    def hybrid_forward(self, F, x, h):
        if self.loop:
            out, h = F.contrib.foreach(self.cell, x, h)
        else:
            rows = []
            for i in range(3):
                row, h = self.cell(x[i], h)
                rows.append(row)
            out = F.stack(*rows, axis=0)
        return self.top(F.Dropout(out, p=0.3)), h


def trained(loop, hybridize):
    """Results, losses, parameters, running statistics of blocks with random numbers, after steps of training."""
    mx.random.seed(1)
    net = Recurrent(loop)
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    x = mx.nd.array(np.random.default_rng(0).normal(size=(3, 2, 3)))
    h = mx.nd.ones((2, 4))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    losses = []
    for _ in range(3):
        with autograd.record():
            out, last = net(x, h)
            loss = (out * out).sum() + last.sum()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    found = [net(x, h)[1].asnumpy(), np.array(losses)]
    return found + [p.data().asnumpy() for p in net.collect_params().values()]


def test_blocks_in_loops_train_with_statistics_and_random_numbers_as_they_do_eagerly():
    wanted = trained(False, False)
    for loop, hybridize in [(True, False), (True, True)]:
        for found, expected in zip(trained(loop, hybridize), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


def test_other_lengths_run_the_same_graph():
    net = Of(lambda F, x, h: F.contrib.foreach(lambda a, s: (a + s, s * 0.5 + a), x, h))
    net.hybridize()
    h = np.ones((2,), "float32")
    for steps in (3, 7, 1, 0, 20):
        x = np.random.default_rng(steps).normal(size=(steps, 2)).astype("float32")
        out, last = net(mx.nd.array(x), mx.nd.array(h))
        state, rows = h, []
        for row in x:
            rows.append(row + state)
            state = state * np.float32(0.5) + row
        np.testing.assert_allclose(out.asnumpy(), np.array(rows).reshape(steps, 2), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last.asnumpy(), state, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda F, x: F.contrib.foreach(lambda a, s: (a, [s[0], s[0]]), x, [x[0]]),
         "foreach: body must return 1 states, as many as it is given, got 2"),
        (lambda F, x: F.contrib.foreach(lambda a, s: (a, F.concat(s, s, dim=0)), x, x[0]),
         "foreach: state 0 must stay float64[3], body returned float64[6] in step 0"),
        (lambda F, x: F.contrib.while_loop(lambda s: s, lambda s: (s, s), x, max_iterations=2)[1],
         "while_loop: what cond returns must be a number, got an array of shape (2, 3)"),
        (lambda F, x: F.contrib.while_loop(lambda s: 1, lambda s: (s, s), x)[1],
         "while_loop: max_iterations must be given"),
        (lambda F, x: F.contrib.cond(x, lambda: x, lambda: x),
         "cond: pred must be a number, got an array of shape (2, 3)"),
    ],
)  # fmt: skip
def test_wrong_functions_are_the_same_errors(function, text):
    for hybridize in (False, True):
        with pytest.raises(MXNetError) as error:
            results_of(function, [np.ones((2, 3))], hybridize)
        assert text in str(error.value)
        assert f"{__file__}:" in str(error.value)


def test_branches_must_agree():
    def function(F, x):
        return F.contrib.cond(F.sum(x) > 0, lambda: x, lambda: F.sum(x, axis=0))

    with pytest.raises(MXNetError, match="cond: both branches must give the same shapes"):
        results_of(function, [np.ones((2, 3))], True)
