"""The tape: scopes, variables, backward and grad in all variants, own gradients, errors."""

from __future__ import annotations

import gc
import re
import threading
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.errors import MXNetError, ShapeError, TraceError


def variable(values, req="write", dtype="float64"):
    x = mx.nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def modes():
    return autograd.is_recording(), autograd.is_training()


# --- scopes ---------------------------------------------------------------------------------------------


def test_scopes_nest():
    assert modes() == (False, False)
    with autograd.record():
        assert modes() == (True, True)
        with autograd.pause():
            assert modes() == (False, False)
            with autograd.record(train_mode=False):
                assert modes() == (True, False)
                with autograd.train_mode():
                    assert modes() == (True, True)
                assert modes() == (True, False)
            with autograd.pause(train_mode=True):
                assert modes() == (False, True)
        with autograd.predict_mode():
            assert modes() == (True, False)
        assert modes() == (True, True)
    assert modes() == (False, False)


def test_scopes_end_with_exceptions():
    with pytest.raises(KeyError), autograd.record(), autograd.predict_mode():
        raise KeyError
    assert modes() == (False, False)


def test_a_scope_object_can_be_entered_again():
    scope = autograd.record()
    with scope, autograd.pause(), scope:
        assert modes() == (True, True)
    with scope:
        assert modes() == (True, True)
    assert modes() == (False, False)


def test_set_functions_return_what_was():
    assert autograd.set_recording(True) is False
    assert autograd.set_recording(False) is True
    assert autograd.set_training(True) is False
    assert autograd.set_training(False) is True
    assert modes() == (False, False)


def test_modes_belong_to_a_thread():
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append(modes()))
        thread.start()
        thread.join()
    assert seen == [(False, False)]


def test_a_graph_recorded_in_one_thread_is_differentiated_in_another():
    x = variable([3.0])
    with autograd.record():
        y = x * x
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert x.grad.asscalar() == 6


# --- variables --------------------------------------------------------------------------------------------


def test_attach_grad():
    x = mx.nd.ones((2, 3), dtype="float16")
    assert x.grad is None
    x.attach_grad()
    assert (x.grad.shape, x.grad.dtype) == ((2, 3), np.float16)
    assert not x.grad.asnumpy().any()
    kept = x.grad
    x.attach_grad("add")
    assert x.grad is not kept


def test_add_accumulates_and_write_replaces():
    x, y = variable([2.0], "add"), variable([2.0])
    for _ in range(3):
        with autograd.record():
            z = x * x + y * y
        z.backward()
    assert (x.grad.asscalar(), y.grad.asscalar()) == (12, 4)


def test_null_is_not_recorded():
    x = variable([2.0], "null")
    with autograd.record():
        y = x * x
    with pytest.raises(MXNetError):
        y.backward()


def test_mark_variables():
    x, y = mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 4.0])
    gx, gy = mx.nd.zeros((2,)), mx.nd.ones((2,))
    autograd.mark_variables([x, y], [gx, gy], ["write", "add"])
    with autograd.record():
        z = x * y
    z.backward()
    assert gx.asnumpy().tolist() == [3, 4]
    assert gy.asnumpy().tolist() == [2, 3]
    assert x.grad is gx
    autograd.mark_variables(x, mx.nd.zeros((2,)))
    with pytest.raises(MXNetError, match=r"^grad_req must be one of \('write', 'add', 'null'\), got 'sum'$"):
        autograd.mark_variables([x], [gx], "sum")
    with pytest.raises(MXNetError, match=r"^the gradient buffer has shape \(3,\), the variable \(2,\)$"):
        autograd.mark_variables([x], [mx.nd.zeros((3,))])


def test_detach_and_stop():
    x = variable([3.0])
    with autograd.record():
        y = x * x
        z = y.detach() * x + mx.nd.BlockGrad(y)
    z.backward()
    assert x.grad.asscalar() == 9


def test_pause_inside_record():
    x = variable([3.0])
    with autograd.record():
        y = x * 2
        with autograd.pause():
            c = y * y
        z = y * c
    z.backward()
    assert x.grad.asscalar() == 2 * 36


def test_attach_grad_cuts_the_graph():
    x = variable([3.0])
    with autograd.record():
        y = x * 2
        y.attach_grad()
        z = y * y
    z.backward()
    assert y.grad.asscalar() == 12
    assert x.grad.asscalar() == 0


# --- backward ---------------------------------------------------------------------------------------------


def test_shared_values_sum_their_gradients():
    x = variable([2.0])
    with autograd.record():
        y = x * x
        z = y + y * y + x + y
    z.backward()
    assert x.grad.asscalar() == 4 + 32 + 1 + 4


def test_head_gradient_and_default_ones():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
    y.backward(mx.nd.array([10.0, 100.0], dtype="float64"), retain_graph=True)
    assert x.grad.asnumpy().tolist() == [20, 400]
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]


def test_the_head_gradient_is_not_written():
    x = variable([1.0, 2.0])
    head = mx.nd.array([1.0, 1.0], dtype="float64")
    with autograd.record():
        y = x + x + x
    y.backward(head)
    assert head.asnumpy().tolist() == [1, 1]
    assert x.grad.asnumpy().tolist() == [3, 3]
    assert not np.shares_memory(x.grad._data, head._data)


def test_several_heads():
    x = variable([2.0])
    with autograd.record():
        y, z = x * x, x * 3
    autograd.backward([y, z], retain_graph=True)
    assert x.grad.asscalar() == 7
    autograd.backward([y, z], [mx.nd.array([10.0], dtype="float64"), None])
    assert x.grad.asscalar() == 43


def test_a_variable_as_head():
    x = variable([2.0])
    x.backward()
    assert x.grad.asscalar() == 1


def test_an_unreached_variable_keeps_its_gradient():
    x, y = variable([2.0]), variable([3.0])
    y.grad[:] = 7
    with autograd.record():
        z = x * x
        _ = y * z
    z.backward()
    assert y.grad.asscalar() == 7


def test_views_and_slices():
    x = variable(np.arange(6.0).reshape(2, 3))
    with autograd.record():
        y = (x[0] * x[1, 1:2]).sum() + x.T[2].sum() + x.reshape((3, 2))[1].sum()
    y.backward()
    expected = [[4, 4, 6], [1, 3, 1]]  # of the product; plus the last column; plus x[0, 2] and x[1, 0]
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_long_chains_do_not_recurse():
    x = variable([1.0])
    with autograd.record():
        y = x
        for _ in range(5000):
            y = y + 1e-3
    y.backward()
    assert x.grad.asscalar() == 1


def test_memory_is_freed_without_the_collector():
    x = variable(np.ones(4))
    gc.disable()
    try:
        for backward in (False, True):
            with autograd.record():
                middle = mx.nd.exp(x)
                y = middle * middle
            saved = weakref.ref(middle._data)
            del middle
            assert saved() is not None
            if backward:
                y.backward()
            else:
                del y
            assert saved() is None
    finally:
        gc.enable()


def test_backward_runs_in_the_given_mode():
    seen = []

    class Looks(autograd.Function):
        def forward(self, x):
            seen.append(modes())
            return x * 1

        def backward(self, dy):
            seen.append(modes())
            return dy

    x = variable([1.0])
    with autograd.record():
        y = Looks()(x)
    y.backward(retain_graph=True)
    y.backward(train_mode=False)
    assert seen == [(False, True), (False, True), (False, False)]


# --- grad -------------------------------------------------------------------------------------------------


def test_grad_of_one_and_of_several():
    x, y = variable([2.0]), variable([3.0])
    with autograd.record():
        z = x * x * y
    (g,) = autograd.grad(z, x, retain_graph=True)
    assert g.asscalar() == 12  # MXNet gives a list, also for one variable
    gx, gy = autograd.grad([z], [x, y], [mx.nd.array([2.0], dtype="float64")])
    assert (gx.asscalar(), gy.asscalar()) == (24, 8)
    assert x.grad.asscalar() == 0


def test_grad_for_an_intermediate_value():
    x = variable([2.0])
    with autograd.record():
        y = x * x
        z = y * y * x
    gy, gx = autograd.grad(z, [y, x])
    assert (gy.asscalar(), gx.asscalar()) == (2 * 4 * 2, 5 * 2**4)


def test_higher_orders_of_a_polynomial():
    v = np.array([0.5, -1.5, 2.0])
    x = variable(v)
    with autograd.record():
        y = x * x * x * x
        g = y
        found = []
        for _ in range(4):
            (g,) = autograd.grad(g, x, create_graph=True)
            found.append(g.asnumpy())
    np.testing.assert_allclose(found, [4 * v**3, 12 * v**2, 24 * v, 24 * np.ones(3)], rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "orders"),
    [
        (
            lambda x: mx.nd.exp(x) * x,
            lambda v: [(1 + v) * np.exp(v), (2 + v) * np.exp(v), (3 + v) * np.exp(v)],
        ),
        (lambda x: mx.nd.log(x), lambda v: [1 / v, -1 / v**2, 2 / v**3]),
        (lambda x: 1 / x, lambda v: [-1 / v**2, 2 / v**3, -6 / v**4]),
        (lambda x: mx.nd.sqrt(x), lambda v: [0.5 * v**-0.5, -0.25 * v**-1.5, 0.375 * v**-2.5]),
        (lambda x: x**3, lambda v: [3 * v**2, 6 * v, 6 + 0 * v]),
        (lambda x: mx.nd.sin(x), lambda v: [np.cos(v), -np.sin(v), -np.cos(v)]),
        (
            lambda x: mx.nd.sigmoid(x),
            lambda v: (lambda s: [s * (1 - s), s * (1 - s) * (1 - 2 * s), s * (1 - s) * (1 - 6 * s + 6 * s * s)])(
                1 / (1 + np.exp(-v))
            ),
        ),
        (
            lambda x: mx.nd.tanh(x),
            lambda v: (lambda t: [1 - t**2, -2 * t * (1 - t**2), (6 * t**2 - 2) * (1 - t**2)])(np.tanh(v)),
        ),
    ],
)
def test_three_orders(function, orders):
    v = np.array([0.3, 0.8, 1.7])
    x = variable(v)
    with autograd.record():
        g = function(x)
        for expected in orders(v):
            (g,) = autograd.grad(g, x, create_graph=True)
            np.testing.assert_allclose(g.asnumpy(), expected, rtol=1e-10)


def test_backward_through_a_gradient():
    v = np.array([0.4, 1.1])
    x, w = variable(v), variable([2.0, 3.0])
    with autograd.record():
        y = (mx.nd.sin(x) * w).sum()
        (g,) = autograd.grad(y, x, create_graph=True)
        penalty = (g * g).sum()
    penalty.backward()
    w0 = np.array([2.0, 3.0])
    np.testing.assert_allclose(x.grad.asnumpy(), -2 * w0**2 * np.cos(v) * np.sin(v), rtol=1e-12)
    np.testing.assert_allclose(w.grad.asnumpy(), 2 * w0 * np.cos(v) ** 2, rtol=1e-12)


def test_second_order_of_matrix_products_and_reductions():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    x, w = variable(a), variable(b)
    with autograd.record():
        y = (mx.nd.dot(x, w) ** 2).sum()
        (g,) = autograd.grad(y, [x], create_graph=True)
        z = (g**2).sum()
    z.backward()
    np.testing.assert_allclose(g.asnumpy(), 2 * a @ b @ b.T, rtol=1e-10)
    m = b @ b.T
    np.testing.assert_allclose(x.grad.asnumpy(), 8 * a @ m @ m, rtol=1e-10)


# --- functions --------------------------------------------------------------------------------------------


class Sigmoid(autograd.Function):
    """With its own gradient."""

    def forward(self, x):
        y = 1 / (1 + mx.nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


def test_function():
    x = variable([0.0, 1.0])
    with autograd.record():
        y = Sigmoid()(x) * 2
    y.backward()
    s = 1 / (1 + np.exp(-np.array([0.0, 1.0])))
    np.testing.assert_allclose(y.asnumpy(), 2 * s)
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * s * (1 - s))
    assert Sigmoid()(x)._entry is None


def test_function_with_several_inputs_and_outputs():
    class Both(autograd.Function):
        def forward(self, x, y):
            self.save_for_backward(x, y)
            return x * y, x + y

        def backward(self, dp, ds):
            x, y = self.saved_tensors
            return dp * y + ds, dp * x + ds

    x, y = variable([2.0]), variable([3.0])
    with autograd.record():
        p, s = Both()(x, y)
        z = p * 10 + s
    z.backward()
    assert (x.grad.asscalar(), y.grad.asscalar()) == (31, 21)
    with autograd.record():
        p, s = Both()(x, y)
    s.backward()  # one of its outputs only: the other's gradient is 0
    assert (x.grad.asscalar(), y.grad.asscalar()) == (1, 1)


def test_function_without_a_gradient_for_an_input():
    class First(autograd.Function):
        def forward(self, x, i):
            return x * i

        def backward(self, dy):
            return dy, None

    x, i = variable([2.0]), variable([3.0])
    with autograd.record():
        z = First()(x, i)
    z.backward()
    assert (x.grad.asscalar(), i.grad.asscalar()) == (1, 0)

    class Nothing(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            return None

    with autograd.record():
        z = Nothing()(x)
    z.backward()


def test_function_differentiated_twice():
    class Cube(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x * x

        def backward(self, dy):
            (x,) = self.saved_tensors
            return 3 * x * x * dy

    x = variable([2.0])
    with autograd.record():
        (g,) = autograd.grad(Cube()(x), x, create_graph=True)
    g.backward()
    assert x.grad.asscalar() == 12


def test_function_errors():
    class Wrong(autograd.Function):
        def forward(self, x, y):
            return x + y

        def backward(self, dy):
            return dy

    x = variable([1.0])
    with autograd.record():
        y = Wrong()(x, x)
    with pytest.raises(MXNetError, match=r"(?m)^Wrong.backward returned 1 gradients for 2 inputs$"):
        y.backward()
    with pytest.raises(MXNetError, match=r"^Function must override forward\(self, \*inputs\)$"):
        autograd.Function()(x)


def test_function_in_a_traced_block():
    net = mx.gluon.nn.HybridLambda(lambda F, x: Sigmoid()(x))
    net.hybridize()
    with pytest.raises(TraceError) as error:
        net(mx.nd.ones((2,)))
    assert "autograd.Function Sigmoid runs Python code in its backward and cannot be traced" in str(error.value)
    assert "test_autograd.py:" in str(error.value)


# --- errors -----------------------------------------------------------------------------------------------

NOT_RECORDED = (
    "cannot differentiate: this array does not depend on a variable; call attach_grad() on the inputs and "
    "compute it inside autograd.record()"
)
FREED = (
    "this part of the graph was differentiated already and its buffers are freed; "
    "use backward(retain_graph=True) the first time to do it again"
)


def test_backward_of_what_was_not_recorded():
    x = variable([1.0])
    for y in (mx.nd.ones((1,)), x * x, x.detach()):
        with pytest.raises(MXNetError) as error:
            y.backward()
        assert str(error.value) == NOT_RECORDED


@pytest.mark.parametrize("hybridize", [False, True])
def test_head_gradients_of_other_shapes_and_numbers(hybridize):
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.sum(x * x, axis=1))
    net.hybridize(hybridize)
    x = mx.nd.ones((4, 3))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    for shape in ((4, 1), (3,), (1,), ()):
        text = (
            rf"backward: a head of shape \(4,\) has a gradient of shape {re.escape(str(shape))}; it must be of the same"
        )
        with pytest.raises(ShapeError, match=text):
            y.backward(mx.nd.ones(shape))
    with pytest.raises(MXNetError, match="backward: got 2 head gradients for 1 heads"):
        autograd.backward([y], [y, y])
    y.backward(mx.nd.array([1, 2, 3, 4]))
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * np.arange(1, 5)[:, None] * np.ones((4, 3)))


def test_backward_twice():
    x = variable([1.0])
    with autograd.record():
        y = mx.nd.exp(x)
        z = y * 2
    z.backward()
    for head in (z, y):
        with pytest.raises(MXNetError) as error:
            head.backward()
        assert str(error.value) == FREED


def test_grad_without_a_variable():
    x, y = variable([1.0]), mx.nd.ones((1,), dtype="float64")
    with autograd.record():
        z = x * y
    with pytest.raises(MXNetError) as error:
        autograd.grad(z, y)
    assert str(error.value) == ("cannot differentiate with respect to an array of shape (1,): call attach_grad() first")


def test_writing_into_what_is_recorded():
    x = variable([1.0, 2.0])
    message = r"\+=.* are not supported on .* recording; write y = "
    with autograd.record(), pytest.raises(MXNetError, match=message):
        x += 1
    x += 1
    assert x.asnumpy().tolist() == [2, 3]


def test_modes_are_restored_when_backward_fails():
    class Fails(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            raise KeyError("on purpose")

    x = variable([1.0])
    with autograd.record():
        y = Fails()(x)
    with pytest.raises(KeyError):
        y.backward()
    assert modes() == (False, False)
