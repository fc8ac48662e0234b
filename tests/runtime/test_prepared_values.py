"""Values that follow from parameters are computed once, and again after each write, whoever wrote."""

from __future__ import annotations

import gc
import re
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from hybridc.ground import watches
from hybridc.ir.structured import shape_of
from hybridc.ir.values import functions
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.options import OPTIONS
from hybridc.runtime.native import native_program, wrapper_call
from hybridc.transforms.memory.hoist_preparation import prepared_values

pytestmark = pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target keeps prepared values")


def network(seed=3, ctx=None):
    """A convolution whose weight is prepacked, batch norm, whose scale follows from its parameters, and Dense."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=32, use_bias=False), nn.BatchNorm(in_channels=32))
    net.add(nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(4, in_units=32))
    mx.random.seed(seed)
    net.initialize(mx.init.Normal(0.3), ctx=ctx)
    return net


@pytest.fixture
def x():
    return mx.nd.array(np.random.default_rng(0).standard_normal((2, 32, 12, 12)).astype("float32"))


@pytest.fixture
def net(x):
    made = network()
    made.hybridize()
    made(x)
    made(x)
    assert "preparation: " in str(made.explain()), "nothing is prepared, so nothing is tested"
    return made


def float64(net, x):
    """The network in float64, by NumPy alone, from what the parameters are now."""
    p = {
        name.rpartition("_")[2] + str(i): v.data().asnumpy().astype(np.float64)
        for i, (name, v) in enumerate(params(net))
    }
    weight, gamma, beta, mean, var, dense, bias = p.values()
    image = np.pad(x.asnumpy().astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    y = np.moveaxis(np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))), 3, 1)
    scale = gamma / np.sqrt(var + 1e-5)
    y = y * scale[:, None, None] + (beta - mean * scale)[:, None, None]
    return np.maximum(y, 0).mean((2, 3)) @ dense.T + bias


def params(net):
    return list(net.collect_params().items())


def check(net, x):
    expected = float64(net, x)
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=2e-4, atol=2e-4 * abs(expected).max())


def times(net):
    """How often values were prepared."""
    (graph,) = [g for g in net._cached_graph.graphs() if g.backward is None]
    return graph.forward.prepared.count


def weight(net):
    return net[0].weight.data()


def moment(net):
    return net[1].running_var.data()


def by_key(net):
    weight(net)[3] = 2.0


def by_view(net):
    weight(net)[5:7][:] = -1.0


def by_reshape(net):
    weight(net).reshape((32, -1))[2] = 0.5


def by_detached(net):
    weight(net).detach()[:] = 0.25


def by_view_from_before(net):
    net.view[:] = 0.75


def by_operator(net):
    w = weight(net)
    w *= 2


def by_operator_of_arrays(net):
    w = weight(net)
    w += mx.nd.ones_like(w)


def by_operator_that_broadcasts(net):
    w = weight(net)
    w -= mx.nd.ones((1, 32, 1, 1))


def by_out(net):
    mx.nd.elemwise_add(weight(net), weight(net), out=weight(net))


def by_random_out(net):
    mx.nd.random.uniform(-1, 1, out=weight(net))


def by_copyto(net):
    mx.nd.ones((32, 32, 3, 3)).copyto(weight(net))


def by_set_data(net):
    net[0].weight.set_data(mx.nd.full((32, 32, 3, 3), 0.1))


def by_set_data_of_numpy(net):
    net[1].running_var.set_data(np.full(32, 4.0, "float32"))


def by_initializer(net):
    mx.init.Xavier()(mx.init.InitDesc("weight"), weight(net))


def by_initialize(net):
    net.initialize(mx.init.Uniform(1.0), force_reinit=True)


def by_failed_write(net):
    with pytest.raises((ValueError, TypeError)):
        weight(net)[:] = mx.nd.ones((5, 5))


def by_running_statistics(net):
    with mx.autograd.record():
        net(mx.nd.random.normal(3, 2, shape=(2, 32, 12, 12)))


def by_eager_statistics(net):
    net.hybridize(False)
    with mx.autograd.record():
        net[1](mx.nd.random.normal(3, 2, shape=(2, 32, 12, 12)))
    net.hybridize()


def by_trainer(net):
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    with mx.autograd.record():
        loss = net(mx.nd.ones((2, 32, 12, 12))).sum()
    loss.backward()
    trainer.step(1)


def by_train_step(net):
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
    step(mx.nd.ones((2, 32, 12, 12)), mx.nd.ones((2, 4)))


def by_updater(net):
    optimizer = mx.optimizer.create("sgd", learning_rate=0.1)
    mx.optimizer.get_updater(optimizer)(0, mx.nd.ones((32, 32, 3, 3)), weight(net))


def by_optimizer_of_float64_states(net):
    optimizer = mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9)
    view = weight(net)[::2]  # strided: the update works on a copy
    optimizer.update(0, view, mx.nd.ones(view.shape), optimizer.create_state(0, view))


def by_gradient(net):
    w = mx.nd.ones((32, 32, 3, 3))
    mx.autograd.mark_variables([w], [weight(net)])
    with mx.autograd.record():
        y = (w * 3).sum()
    y.backward()


def by_numpy(net):
    np.asarray(weight(net))[7] = 1.5


def by_native(net):
    weight(net).asnative()[...] *= 0.5


def by_dlpack(net):
    np.from_dlpack(weight(net)).ravel()[:100] = 3.0


def by_dlpack_capsule(net):
    mx.nd.from_dlpack(mx.nd.to_dlpack_for_write(weight(net)))[4] = 3.0


def by_cast(net):
    net.cast("float64")
    net.cast("float32")
    weight(net)[1] = 2.0


def by_reset_ctx(net):
    net.collect_params().reset_ctx(mx.cpu(1))
    net.collect_params().reset_ctx(mx.cpu(0))
    weight(net)[1] = 2.0


def by_zero_grad_and_grad_req(net):
    net[0].weight.grad_req = "null"
    net[0].weight.grad_req = "write"
    weight(net)[1] = 2.0


WRITERS = {name: f for name, f in list(globals().items()) if name.startswith("by_")}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_every_way_to_write_a_parameter_shows_in_the_next_call(net, x, write):
    net.view = weight(net)[1:3]
    net(x)
    write(net)
    check(net, x)
    by_key(net)
    check(net, x)


def test_without_a_native_entry(x, monkeypatch):
    for module in (native_program, wrapper_call):
        monkeypatch.setattr(module, "objects_are_as_declared", lambda: False)
    net = network()
    net.hybridize()
    for write in (by_key, by_set_data, by_numpy, by_key):
        check(net, x)
        write(net)
        check(net, x)
    assert times(net) == 3  # the first call, and after two writes; numpy keeps the memory from then on


def test_without_a_write_nothing_is_prepared_again(net, x):
    before = times(net)
    assert before == 1
    for _ in range(3):
        net(x)
    x[:] = 1
    other = network(4)
    other(x)
    other[0].weight.data()[:] = 1
    net(x)
    net[4].weight.data().asnumpy()
    assert times(net) == before


def test_a_view_that_foreign_code_keeps_is_followed_from_call_to_call(net, x):
    foreign = np.asarray(weight(net))
    for value in (0.5, -2.0, 1.0):
        foreign[2] = value
        check(net, x)
    assert "at every call, as foreign code may write input" in str(net.explain())


def test_a_foreign_view_from_before_the_first_call_is_followed(x):
    net = network()
    foreign = weight(net).asnative()[3:]
    net.hybridize()
    for value in (0.5, -2.0, 1.0):
        foreign[2] = value
        check(net, x)


def test_saved_parameters_are_loaded_into_a_network_that_ran(net, x, tmp_path):
    file = str(tmp_path / "other.params")
    other = network(9)
    other.save_parameters(file)
    net.load_parameters(file)
    check(net, x)
    np.testing.assert_allclose(net(x).asnumpy(), other(x).asnumpy(), rtol=1e-3, atol=1e-3)


def test_an_exported_network_prepares_its_own(net, x, tmp_path):
    path = str(tmp_path / "net")
    net.export(path)
    block = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    block.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(block(x).asnumpy(), float64(net, x), rtol=1e-3, atol=1e-3)
    (parameter,) = [p for p in block.collect_params().values() if p.shape == (32, 32, 3, 3)]
    parameter.data()[2] = 0.5
    weight(net)[2] = 0.5
    np.testing.assert_allclose(block(x).asnumpy(), float64(net, x), rtol=1e-3, atol=1e-3)


def test_two_networks_share_a_parameter(net, x):
    other = nn.HybridSequential()
    other.add(nn.Conv2D(32, 3, padding=1, in_channels=32, use_bias=False, params=net[0].params))
    other.hybridize()
    for value in (0.5, 2.0):
        other(x)
        net(x)
        weight(net)[4] = value
        check(net, x)
        expected = mx.nd.Convolution(x, weight(net), kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)
        np.testing.assert_allclose(other(x).asnumpy(), expected.asnumpy(), rtol=1e-3, atol=1e-3)


def test_a_replaced_array_is_noticed(net, x):
    arrays = [weight(net)._data, *[np.full((32, 32, 3, 3), value, "float32") for value in (0.5, 2.0)]]
    for array in (*arrays, *arrays):  # of which none is freed
        weight(net)._data = array
        check(net, x)


def test_threads_call_while_one_writes(net, x):
    """After a write is done, every call sees it; while it is written, calls may see either."""
    expected = {}
    for value in (0.0, 0.5):
        weight(net)[:] = value
        expected[value] = net(x).asnumpy()
    stop, wrong = threading.Event(), []

    def call():
        while not stop.is_set():
            y = net(x).asnumpy()
            if not any(np.array_equal(y, each) for each in expected.values()):
                wrong.append(y)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(60):
        value = (0.0, 0.5)[number % 2]
        # One element after the other would show half-written weights, which is the writer's race: exchange the array.
        net[0].weight.data()._data = np.full((32, 32, 3, 3), value, "float32")
        assert np.array_equal(net(x).asnumpy(), expected[value])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_several_workspaces_share_the_values(net, x):
    (graph,) = net._cached_graph.graphs()
    before, found = times(net), []
    barrier = threading.Barrier(3)

    def call():
        barrier.wait()
        for _ in range(5):
            found.append(net(x).asnumpy())

    weight(net)[0] = 3.0
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = float64(net, x)
    for y in found:
        np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-4 * abs(expected).max())
    assert times(net) == before + 1
    assert graph.forward._make.unprepared is None


def test_inputs_that_are_not_contiguous(net, x):
    turned = mx.nd.NDArray(np.asfortranarray(x.asnumpy()))
    before = times(net)
    np.testing.assert_array_equal(net(turned).asnumpy(), net(x).asnumpy())
    assert times(net) == before
    net[0].weight._data[0] = mx.nd.NDArray(np.asfortranarray(weight(net).asnumpy()))
    mx.gluon.epoch.ATTRIBUTE_EPOCH.value += 1
    check(net, x)
    weight(net)[1] = 2.0
    check(net, x)


@pytest.mark.skipif(registers() is None, reason="without tiles in registers nothing is packed")
def test_weights_of_loops_are_packed_once_and_after_a_write():
    layer, eager = [mx.gluon.rnn.LSTM(64, num_layers=2, input_size=32) for _ in range(2)]
    x = mx.nd.array(np.random.default_rng(0).standard_normal((7, 8, 32)))
    for each in (layer, eager):
        mx.random.seed(2)
        each.initialize(mx.init.Normal(0.1))
    layer.hybridize()
    for done in (1, 2, 3):
        for _ in range(3):
            np.testing.assert_allclose(layer(x).asnumpy(), eager(x).asnumpy(), rtol=1e-4, atol=1e-5)
        assert re.search(rf"preparation: 4 steps, done {done} times?, ", layer.explain())
        for each in (layer, eager):
            (weight,) = [p for name, p in each.collect_params().items() if name.endswith("l1_h2h_weight")]
            weight.set_data(weight.data() * -2)


def test_a_training_step_prepares_nothing(x):
    net = network()
    net.hybridize()
    with mx.autograd.record():
        net(x)
    assert "preparation: " not in str(net.explain())


def test_what_reads_data_at_indices_of_a_parameter_is_not_prepared():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(3,), init="ones")

        def hybrid_forward(self, F, x, w):
            return F.take(x, w), F.exp(w)

    net = Net()
    net.initialize()
    (function,) = functions(net.trace(mx.nd.ones((4, 2))).optimize().structure().module)
    known = {shape_of(v) for v in prepared_values(function)}
    assert known == {(3,)}, "w and exp(w) follow from the parameter alone, what is taken of the data does not"


def test_nothing_is_watched_when_the_network_is_gone(x):
    gc.collect()
    before = len(watches._WATCHES)
    net = network()
    net.hybridize()
    net(x)
    parameters = net.collect_params()
    assert len(watches._WATCHES) > before
    del net
    gc.collect()
    assert len(watches._WATCHES) == before
    assert parameters
