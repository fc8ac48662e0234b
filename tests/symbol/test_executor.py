"""Executors: the compiled graph of a hybridized block, its arrays, gradients, monitors."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def mlp():
    fc1 = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1")
    return mx.sym.FullyConnected(mx.sym.relu(fc1, name="act"), num_hidden=3, name="fc2")


def filled(executor):
    for i, x in enumerate(executor.arg_arrays):
        x[:] = normal(*x.shape, seed=i)
    return executor


def reference(args):
    """The two layers and the gradients of the sum of squares, in float64."""
    x, w1, b1, w2, b2 = (a.asnumpy().astype(np.float64) for a in args)
    before = x @ w1.T + b1
    hidden = np.maximum(before, 0)
    y = hidden @ w2.T + b2
    dy = 2 * y
    dhidden = dy @ w2 * (before > 0)
    return y, [dhidden @ w1, dhidden.T @ x, dhidden.sum(0), dy.T @ hidden, dy.sum(0)]


def test_results_and_gradients():
    executor = filled(mlp().simple_bind(mx.cpu(), data=(5, 7)))
    (y,) = executor.forward(is_train=True)
    want, grads = reference(executor.arg_arrays)
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5, atol=1e-6)
    executor.backward(2 * y)
    for got, wanted in zip(executor.grad_arrays, grads, strict=True):
        np.testing.assert_allclose(got.asnumpy(), wanted, rtol=1e-4, atol=1e-5)


def test_it_is_the_compiled_graph_of_a_hybridized_block():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.nd.array(normal(5, 7))
    with mx.autograd.record():
        net(x)
    symbol = net(mx.sym.var("data"))
    params = {k: p.data() for k, p in net.collect_params().items()}
    grads = {k: mx.nd.zeros(p.shape) for k, p in params.items()}
    executor = symbol.bind(mx.cpu(), {"data": x, **params}, grads)
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((5, 3)))

    def kernels(text):
        """Their names, and what they cost, without their layers, of which a symbol knows nothing."""
        return [line.rpartition(";")[0] for line in text.splitlines() if " kernel " in line]

    assert kernels(net.explain())
    assert kernels(executor.debug_str()) == kernels(net.explain())


def test_outputs_stay_the_same_objects():
    executor = filled(mlp().simple_bind(mx.cpu(), data=(5, 7)))
    (y,) = executor.outputs
    assert y.shape == (5, 3)
    executor.forward()
    assert executor.outputs[0] is y
    np.testing.assert_allclose(y.asnumpy(), reference(executor.arg_arrays)[0], rtol=1e-5, atol=1e-6)
    executor.arg_dict["data"][:] = 0
    executor.forward()
    np.testing.assert_allclose(y.asnumpy(), reference(executor.arg_arrays)[0], rtol=1e-5, atol=1e-6)


def test_the_bound_arrays_are_used_and_left_alone():
    x, grad = mx.nd.array([1.0, 2]), mx.nd.array([5.0, 5])
    x.attach_grad()
    executor = mx.sym.square(mx.sym.var("x")).bind(mx.cpu(), [x], [grad])
    assert executor.arg_arrays[0] is x
    x[:] = 3
    executor.forward(is_train=True)
    executor.backward()
    assert grad.asnumpy().tolist() == [6, 6]
    assert x.grad.asnumpy().tolist() == [0, 0]
    with mx.autograd.record():
        executor.forward(is_train=True)
        y = x * 2
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]


def test_an_output_that_is_an_input_is_a_copy():
    x = mx.nd.array([1.0, 2])
    a = mx.sym.var("a")
    outputs = mx.sym.Group([a, a + 1, a]).bind(mx.cpu(), [x]).forward()
    x[:] = 9
    assert [y.asnumpy().tolist() for y in outputs] == [[1, 2], [2, 3], [1, 2]]


def test_backward_after_predicting_predicts():
    x = mx.nd.ones((64,))
    grad = mx.nd.zeros((64,))
    executor = mx.sym.Dropout(mx.sym.var("x") * 3, p=0.5).bind(mx.cpu(), [x], [grad])
    executor.forward(is_train=False)
    executor.backward(mx.nd.ones((64,)))
    assert set(grad.asnumpy()) == {3.0}
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((64,)))
    assert set(grad.asnumpy()) == {0.0, 6.0}
    assert np.array_equal(executor.outputs[0].asnumpy(), grad.asnumpy())


def test_gradients_by_output_name_and_twice():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    group = mx.sym.Group([mx.sym.elemwise_mul(a, b, name="product"), mx.sym.sum(a, name="total")])
    x, y = normal(3), normal(3, seed=1)
    grads = {"a": mx.nd.zeros((3,)), "b": mx.nd.zeros((3,))}
    executor = group.bind(mx.cpu(), {"a": mx.nd.array(x), "b": mx.nd.array(y)}, grads, {"a": "add", "b": "write"})
    executor.forward(is_train=True)
    heads = {"product_output": mx.nd.array([1, 2, 3]), "total_output": mx.nd.array([10])}
    executor.backward(heads)
    executor.backward(heads)
    np.testing.assert_allclose(grads["a"].asnumpy(), 2 * (y * [1, 2, 3] + 10), rtol=1e-5)
    np.testing.assert_allclose(grads["b"].asnumpy(), x * [1, 2, 3], rtol=1e-5)


def test_gradients_through_integers_are_none():
    table = mx.sym.Embedding(mx.sym.var("i"), input_dim=4, output_dim=2, name="e")
    executor = table.simple_bind(mx.cpu(), type_dict={"i": "int32"}, i=(3,))
    executor.arg_dict["i"][:] = mx.nd.array([1, 1, 3])
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3, 2)))
    assert executor.grad_dict["e_weight"].asnumpy().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    assert executor.grad_dict["i"].asnumpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize(("req", "before"), [("write", 0), ("add", 7)])
def test_gradients_of_integers_are_integers(req, before):
    """As in MXNet, where what is cast to floats has a gradient, too."""
    a, b, c = map(mx.sym.var, "abc")
    product = mx.sym.Cast(a, dtype="float32") * b + mx.sym.Cast(c * 2, dtype="float32") * 1.5
    args = {
        "a": mx.nd.array([1, 2], dtype="int32"),
        "b": mx.nd.array([3.5, 4]),
        "c": mx.nd.array([5, 6], dtype="int32"),
    }
    grads = {n: mx.nd.ones((2,), dtype=x.dtype) * 7 for n, x in args.items()}
    executor = product.bind(mx.cpu(), args, grads, req)
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2,)))
    expected = {"a": [3, 4], "b": [1, 2], "c": [2, 2]}
    for name, grad in grads.items():
        assert grad.dtype == args[name].dtype
        assert (grad.asnumpy() - before).tolist() == expected[name], name


def test_auxiliary_states_of_a_custom_operator():
    class Count(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            aux[0][:] = aux[0] + 1
            self.assign(out_data[0], req[0], in_data[0] * aux[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * aux[0])

    class CountProp(mx.operator.CustomOpProp):
        def list_auxiliary_states(self):
            return ["calls"]

        def infer_shape(self, in_shape):
            return in_shape, in_shape, [(1,)]

        def create_operator(self, ctx, shapes, dtypes):
            return Count()

    mx.operator.register("executor_count")(CountProp)
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="executor_count", name="count")
    assert symbol.list_auxiliary_states() == ["count_calls"]
    executor = symbol.simple_bind(mx.cpu(), x=(2,))
    for call in (1, 2, 3):
        (y,) = executor.forward(is_train=True, x=mx.nd.array([1.0, 2]))
        assert y.asnumpy().tolist() == [call, 2 * call]
        assert executor.aux_dict["count_calls"].asnumpy().tolist() == [call]


def test_monitor_sees_every_result():
    executor = filled(mlp().simple_bind(mx.cpu(), data=(5, 7)))
    seen = {}
    executor.set_monitor_callback(lambda name, x: seen.update({name: x.asnumpy()}))
    (y,) = executor.forward(is_train=True)
    assert list(seen) == [b"fc1_output", b"act_output", b"fc2_output"]
    assert np.array_equal(seen[b"act_output"], np.maximum(seen[b"fc1_output"], 0))
    assert np.array_equal(seen[b"fc2_output"], y.asnumpy())
    executor.backward(2 * y)
    for got, wanted in zip(executor.grad_arrays, reference(executor.arg_arrays)[1], strict=True):
        np.testing.assert_allclose(got.asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    seen.clear()
    executor.set_monitor_callback(lambda name, x: seen.update({name: x.shape}), monitor_all=True)
    executor.forward()
    assert seen[b"fc2_weight"] == (3, 4)
    assert (
        len(seen) == 11
    )  # 5 variables, 3 results, and the inputs that are no parameters: fc1_data, act_data, fc2_data
    seen.clear()
    executor.set_monitor_callback(None)
    executor.forward()
    assert not seen


def test_monitor_sees_gradients_of_each_operator():
    """Names and order are MXNet 1.9.1's."""
    with mx.name.NameManager():
        symbol = mx.sym.FullyConnected(mx.sym.var("a") * 2, num_hidden=2, name="fc")
    executor = symbol.simple_bind(mx.cpu(), a=(3, 2))
    x, w = np.array([[1, 2], [3, 4], [5, 7]]), np.array([[1, -2], [3, 4]])
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name.decode(), array.asnumpy())), monitor_all=True)
    executor.forward(is_train=True, a=mx.nd.array(x), fc_weight=mx.nd.array(w))
    assert [name for name, _ in seen] == [
        *("a", "_mulscalar0_input0", "_mulscalar0_output"),
        *("fc_data", "fc_weight", "fc_weight", "fc_bias", "fc_bias", "fc_output"),
    ]
    seen.clear()
    dy = np.array([[1, 2], [0, 1], [1, 1]])
    for times in (1, 2):
        executor.backward(mx.nd.array(dy))
        assert len(seen) == 4 * times
    wanted = {
        "fc_backward_output0": dy @ w, "fc_backward_output1": dy.T @ x * 2, "fc_backward_output2": dy.sum(axis=0),
        "_mulscalar0_backward_output": dy @ w * 2,
    }  # fmt: skip
    for (name, got), (wanted_name, value) in zip(seen, wanted.items()):
        assert name == wanted_name
        np.testing.assert_allclose(got, value)
    np.testing.assert_allclose(executor.grad_dict["a"].asnumpy(), dy @ w * 2)


def bound_product(grad_req="write", **options):
    a, b = mx.sym.var("a"), mx.sym.var("b")
    executor = (a * b).simple_bind(mx.cpu(), grad_req, a=(2,), b=(2,), **options)
    executor.forward(a=mx.nd.array([2, 3]), b=mx.nd.array([5, 7]))
    return executor


def test_backward_after_a_forward_without_training():
    executor = bound_product(force_rebind=True)
    executor.backward(mx.nd.array([1, 10]))
    assert [g.asnumpy().tolist() for g in executor.grad_arrays] == [[5, 70], [2, 30]]


def test_requests_of_other_names_are_ignored():
    executor = bound_product({"b": "write", "c": "add"})
    executor.backward(mx.nd.ones(2))
    assert executor.grad_dict["a"] is None
    assert executor.grad_dict["b"].asnumpy().tolist() == [2, 3]
    x = mx.nd.ones(2)
    symbol = mx.sym.var("a") * mx.sym.var("b")
    bound = symbol.bind(mx.cpu(), [x, x], [x.copy(), x.copy()], ["null", "add", "write"])
    bound.forward(is_train=True)
    bound.backward([x])
    assert bound.grad_dict["b"].asnumpy().tolist() == [2, 2]
    with pytest.raises(mx.MXNetError, match="3 entries for 2 arguments"):
        bound_product(["null", "add", "write"])


@pytest.mark.parametrize("watched", [False, True])
def test_gradients_of_outputs_that_nothing_reads(watched):
    """Further ones are of hidden outputs in MXNet; an operator without a gradient takes any shape, a loss too."""
    executor = bound_product()
    executor.backward([mx.nd.ones(2), mx.nd.ones(7)])
    assert executor.grad_dict["a"].asnumpy().tolist() == [5, 7]
    a = mx.sym.var("a")
    for symbol, wanted in (
        (mx.sym.shape_array(a), 0),
        (mx.sym.size_array(a), 0),
        (mx.sym.argmax(a, axis=1), 0),
        (mx.sym.MakeLoss(a * 3), 3),
    ):
        bound = symbol.simple_bind(mx.cpu(), a=(2, 3))
        if watched:
            bound.set_monitor_callback(lambda name, array: None)
        bound.forward(is_train=True)
        bound.backward([mx.nd.ones((5, 7))])
        assert (bound.grad_arrays[0].asnumpy() == wanted).all()
    with pytest.raises(mx.MXNetError, match=r"has shape \(3,\), it must be \(2,\)"):
        executor.backward(mx.nd.ones(3))


def test_shared_executor_and_buffer():
    net = mlp()
    first = filled(net.simple_bind(mx.cpu(), data=(5, 7)))
    second = net.simple_bind(mx.cpu(), data=(2, 7), shared_exec=first)
    assert second.arg_dict["fc1_weight"] is first.arg_dict["fc1_weight"]
    assert second.arg_dict["data"].shape == (2, 7)
    buffer = {}
    third = net.simple_bind(mx.cpu(), data=(2, 7), shared_buffer=buffer)
    fourth = net.simple_bind(mx.cpu(), data=(2, 7), shared_buffer=buffer)
    assert fourth.arg_dict["data"] is third.arg_dict["data"]


def test_executors_of_a_symbol_share_its_compiled_graphs():
    net = mlp()
    results = []
    for _ in range(3):
        executor = filled(net.simple_bind(mx.cpu(), data=(5, 7)))
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((5, 3)))
        results.append((executor, executor.outputs[0].asnumpy(), executor.grad_dict["fc1_weight"].asnumpy()))
    first, second, _ = (each for each, *_ in results)
    assert first._graphs[True, True] is second._graphs[True, True]
    with mx.no_recompile():
        third = filled(net.simple_bind(mx.cpu(), data=(5, 7)))
        third.arg_dict["data"][:] = 0
        third.forward(is_train=True)
    for executor, y, grad in results:  # each has arrays of its own
        np.testing.assert_array_equal(executor.outputs[0].asnumpy(), results[0][1])
        np.testing.assert_array_equal(y, results[0][1])
        np.testing.assert_array_equal(grad, results[0][2])
    other = filled(net.simple_bind(mx.cpu(), data=(5, 7), grad_req={"fc1_weight": "write"}))
    other.forward(is_train=True)
    assert other._graphs[True, True] is not first._graphs[True, True]


def test_eval_takes_auxiliary_states_too():
    norm = mx.sym.BatchNorm(mx.sym.var("x"), name="bn", fix_gamma=False, eps=0)
    given = {"bn_gamma": [2, 3], "bn_beta": [0, 1], "bn_moving_mean": [1, 1], "bn_moving_var": [4, 1]}
    (y,) = norm.eval(x=mx.nd.array([[3, 2]]), **{k: mx.nd.array(v) for k, v in given.items()})
    np.testing.assert_allclose(y.asnumpy(), [[2, 4]], rtol=1e-5)


def test_grad_req_null_needs_no_backward_program():
    executor = mlp().simple_bind(mx.cpu(), grad_req="null", data=(5, 7))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((5, 3)))
    assert executor.grad_arrays == [None] * 5
    assert "backward:" not in executor.debug_str()


def test_no_arguments_and_random_numbers():
    assert mx.sym.zeros((2, 3)).eval()[0].asnumpy().tolist() == [[0, 0, 0]] * 2
    executor = mx.sym.random.uniform(shape=(1000,)).bind(mx.cpu(), {})
    mx.random.seed(3)
    first = executor.forward()[0].asnumpy()
    second = executor.forward()[0].asnumpy()
    assert not np.array_equal(first, second)
    assert 0.45 < first.mean() < 0.55
    mx.random.seed(3)
    assert np.array_equal(executor.forward()[0].asnumpy(), first)
    mx.random.seed(3)
    assert np.array_equal(mx.nd.random.uniform(shape=(1000,)).asnumpy(), first)


def test_executors_are_freed():
    executor = filled(mlp().simple_bind(mx.cpu(), data=(5, 7)))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((5, 3)))
    gone = weakref.ref(executor.outputs[0])
    del executor
    gc.collect()
    assert gone() is None


def test_a_user_operator_is_a_symbol_at_once():
    @mx.op.register("executortest.swish")
    class Swish(mx.op.Elementwise):
        """x * sigmoid(beta * x)"""

        INPUTS = ("data",)
        beta: float = mx.op.attribute(1.0, "slope")

        def scalar(self, b, *xs):
            return b.mul(xs[0], b.div(1.0, b.add(1.0, b.exp(b.mul(xs[0], -self.beta)))))

        def gradient(self, F, dy, x, y):
            s = F.sigmoid(self.beta * x)
            return dy * (s + self.beta * y * (1 - s))

    symbol = mx.sym.swish(mx.sym.var("x"), beta=2.0, name="act")
    assert symbol.list_outputs() == ["act_output"]
    assert symbol.infer_shape(x=(4,))[1] == [(4,)]
    x = normal(4)
    grad = mx.nd.zeros((4,))
    executor = symbol.bind(mx.cpu(), [mx.nd.array(x)], [grad])
    (y,) = executor.forward(is_train=True)
    s = 1 / (1 + np.exp(-2 * x))
    np.testing.assert_allclose(y.asnumpy(), x * s, rtol=1e-5)
    executor.backward(mx.nd.ones((4,)))
    np.testing.assert_allclose(grad.asnumpy(), s + 2 * x * s * (1 - s), rtol=1e-5)
    assert "0 of them host calls" in executor.debug_str()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_follow_the_arrays(dtype):
    x = mx.nd.array([1.0, 2], dtype=dtype)
    (y,) = (mx.sym.var("x") * 2.5 + 1).eval(x=x)
    assert y.dtype == x.dtype
    assert y.asnumpy().tolist() == [3.5, 6]
