"""``foreach``, ``while_loop`` and ``cond`` beside the same loops of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.errors import MXNetError

foreach, while_loop, cond = mx.nd.contrib.foreach, mx.nd.contrib.while_loop, mx.nd.contrib.cond


class Scan(gluon.HybridBlock):
    """h = tanh(x[i] w + h), with w captured by the body and two outputs of other structures than the states."""

    def __init__(self):
        super().__init__()
        self.w = self.params.get("w", shape=(3, 3), init=mx.init.Uniform(1.0))

    def hybrid_forward(self, F, x, h, w):
        def body(each, states):
            (h,), count = states
            h = F.tanh(F.dot(each[0], w) + h)
            return (h, [h * each[1]]), [(h,), count + 1]

        (hs, (scaled,)), ((last,), count) = F.contrib.foreach(body, [x, x * 2], [(h,), F.zeros(shape=(1,))])
        return hs, scaled, last, count


def scan(x, h, w):
    hs = []
    for each in x:
        h = np.tanh(each @ w + h)
        hs.append(h)
    return np.stack(hs), np.stack(hs) * x * 2, h, np.array([len(x)])


@pytest.mark.parametrize("hybridize", [False, True])
def test_foreach_and_its_gradients(hybridize):
    x, h = np.random.default_rng(0).normal(size=(2, 5, 2, 3))[0], np.ones((2, 3))
    net = Scan()
    net.initialize()
    net.cast("float64")
    if hybridize:
        net.hybridize()
    w = net.w.data().asnumpy()
    given = [mx.nd.array(a, dtype="float64") for a in (x, h)]
    for a in given:
        a.attach_grad()
    with autograd.record():
        results = net(*given)
        loss = sum(r.sum() for r in results[:3])
    loss.backward()
    for result, wanted in zip(results, scan(x, h, w), strict=True):
        np.testing.assert_allclose(result.asnumpy(), wanted, rtol=1e-12)

    def loss_of(*args):
        return sum(r.sum() for r in scan(*args)[:3])

    for i, found in enumerate((*[a.grad for a in given], net.w.grad())):
        for place in [(0,) * found.ndim, (-1,) * found.ndim]:
            ends = []
            for step in (1e-6, -1e-6):
                args = [x.copy(), h.copy(), w.copy()]
                args[i][place] += step
                ends.append(loss_of(*args))
            np.testing.assert_allclose(found.asnumpy()[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_foreach_second_order_and_added_gradients():
    x = mx.nd.array([1.0, 2.0, 3.0], dtype="float64")
    x.attach_grad(grad_req="add")
    with autograd.record():
        _, product = foreach(lambda each, state: (each, state * each), x, mx.nd.ones((1,), dtype="float64"))
        (first,) = autograd.grad(product, [x], create_graph=True)
        total = (first * first).sum()  # (bc)² + (ac)² + (ab)²
    for _ in range(2):
        total.backward(retain_graph=True)
    a, b, c = 1.0, 2.0, 3.0
    wanted = [2 * a * (c * c + b * b), 2 * b * (c * c + a * a), 2 * c * (b * b + a * a)]
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.array(wanted), rtol=1e-12)


def test_foreach_of_no_steps_keeps_states_and_shapes():
    outputs, state = foreach(lambda x, s: ([x + s, x.sum()], s + 1), mx.nd.zeros((0, 2)), mx.nd.ones((2,)))
    assert [o.shape for o in outputs] == [(0, 2), (0, *mx.nd.ones((2,)).sum().shape)]
    assert state.asnumpy().tolist() == [1, 1]


def test_loops_in_loops_and_branches():
    def inner(x, s):
        return cond(x.sum() > 2, lambda: x * s, lambda: x - s), s + 1

    def outer(row, s):
        rows, last = foreach(inner, row, s)
        return rows, last

    x = np.arange(6.0).reshape(2, 3)
    rows, last = foreach(outer, mx.nd.array(x), mx.nd.array([1.0]))
    wanted = [v * (i + 1) if v > 2 else v - (i + 1) for i, v in enumerate(x.ravel())]
    assert rows.asnumpy().ravel().tolist() == wanted
    assert last.asscalar() == 7


def test_random_numbers_are_those_of_a_loop():
    def body(x, s):
        return mx.nd.Dropout(x + s + mx.nd.random.uniform(shape=(50,)), p=0.5), s + 1

    x = mx.nd.ones((4, 50))
    mx.random.seed(3)
    with autograd.record():
        found, _ = foreach(body, x, mx.nd.zeros((1,)))
    mx.random.seed(3)
    state, rows = mx.nd.zeros((1,)), []
    with autograd.record():
        for i in range(4):
            row, state = body(x[i], state)
            rows.append(row.asnumpy())
    np.testing.assert_array_equal(found.asnumpy(), np.stack(rows))
    assert (found.asnumpy() == 0).any()


@pytest.mark.parametrize("most", [0, 3, 6, 8])
def test_while_loop_and_its_gradients(most):
    x = mx.nd.array([2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        outputs, (i, product) = while_loop(
            lambda i, _: i < 6, lambda i, p: ([p * x, i], [i + 1, p * x]), [mx.nd.zeros((1,)), x], max_iterations=most
        )
        product.sum().backward()
    steps = min(most, 6)
    powers = np.array([2.0, 3.0]) ** np.arange(1, 10)[:, None]
    assert i.asscalar() == steps
    np.testing.assert_allclose(product.asnumpy(), powers[steps])
    np.testing.assert_allclose(x.grad.asnumpy(), (steps + 1) * powers[steps] / powers[0], rtol=1e-6)
    if not steps:
        assert outputs == []
        return
    wanted = np.zeros((most, 2))
    wanted[:steps] = powers[1 : steps + 1]
    np.testing.assert_allclose(outputs[0].asnumpy(), wanted)
    assert outputs[1].asnumpy().ravel().tolist() == [*range(steps), *[0] * (most - steps)]


def test_while_loop_without_outputs_and_of_one_variable():
    outputs, last = while_loop(lambda i: i < 4, lambda i: (None, i * 2), mx.nd.ones((1,)), max_iterations=9)
    assert outputs == []
    assert last.asscalar() == 4


def test_cond_calls_one_branch():
    called = []
    for pred in (mx.nd.array([0.0]), mx.nd.array([[3]]), 1, False):
        cond(pred, lambda: called.append("then"), lambda: called.append("else"))
    assert called == ["else", "then", "then", "else"]


ONE = mx.nd.ones((2,))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: foreach(lambda x, s: (x, [*s, *s]), ONE, [ONE]),
         "foreach: body must return 1 states, as many as it is given, got 2"),
        (lambda: foreach(lambda x, s: x, ONE, [ONE]), "foreach: body must return (outputs, states), got 1 values"),
        (lambda: foreach(lambda x, s: (x, [s[0].astype("int32")]), ONE, [ONE]),
         "foreach: state 0 must stay float32[2], body returned int32[2] in step 0"),
        (lambda: foreach(lambda x, s: (x, mx.nd.concat(s, s, dim=0)), ONE, ONE),
         "foreach: state 0 must stay float32[2], body returned float32[4] in step 0"),
        (lambda: foreach(lambda x, s: (x, s), [ONE, mx.nd.ones((3, 2))], ONE),
         "foreach: the first axes of data must have one size, got shapes (2,), (3, 2)"),
        (lambda: foreach(lambda x, s: (x, s), [], ONE), "foreach: data must have at least one array, got none"),
        (lambda: foreach(lambda x, s: (x, s), 3, ONE),
         "foreach: data must be an NDArray or nested lists or tuples of them, got int"),
        (lambda: foreach(lambda x, s: (x, s), mx.sym.var("x"), ONE), "foreach: data is a symbol without a known shape"),
        (lambda: while_loop(lambda i: True, lambda i: (i, i), ONE),
         "while_loop: max_iterations must be given, the most steps that it may run"),
        (lambda: while_loop(lambda i: True, lambda i: (i, i), ONE, max_iterations=-1),
         "while_loop: max_iterations must be at least 0, got -1"),
        (lambda: while_loop(lambda i: i, lambda i: (i, i), ONE, max_iterations=3),
         "while_loop: what cond returns must be a number, got an array of shape (2,)"),
        (lambda: while_loop(lambda: True, lambda: ([], []), [], max_iterations=3),
         "while_loop: loop_vars must have at least one array, got none"),
        (lambda: cond(ONE, lambda: 1, lambda: 2), "cond: pred must be a number, got an array of shape (2,)"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, text):
    with pytest.raises(MXNetError) as error:
        call()
    assert text in str(error.value)
    assert str(error.value).startswith(f"{__file__}:")


def test_outputs_must_keep_their_shape_and_number():
    rows = iter([mx.nd.ones((2,)), mx.nd.ones((3,))])
    with pytest.raises(MXNetError, match=r"foreach: an output has shape \(2,\) in step 0 but \(3,\) in step 1"):
        foreach(lambda x, s: (next(rows), s), ONE, ONE)
    counts = iter([[ONE], [ONE, ONE]])
    with pytest.raises(MXNetError, match="while_loop: func gives 1 outputs in step 0 but 2 in step 1"):
        while_loop(lambda i: 1, lambda i: (next(counts), i), ONE, max_iterations=3)
