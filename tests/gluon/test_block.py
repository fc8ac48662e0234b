"""Blocks beyond what MXNet's golden data covers: caches, tracing, copies, keywords, error texts."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251
import subprocess
import sys
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn


def values(*shape, seed=0):
    return mx.nd.array(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))


def same(a, b, rtol=1e-5):
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=rtol, atol=1e-6)


class Scaled(mx.gluon.HybridBlock):
    """A plain attribute in the forward function."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.factor = 2.0
        with self.name_scope():
            self.inner = nn.Dense(3)

    def hybrid_forward(self, F, x):
        return self.inner(x) * self.factor


class Gluon2(mx.gluon.HybridBlock):
    """A forward that reads its parameter itself."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.weight = self.params.get("weight", shape=(3, 0), allow_deferred_init=True)

    def forward(self, x):
        return mx.nd.FullyConnected(x, self.weight.data(), num_hidden=3, no_bias=True) + 1


@pytest.fixture
def scaled():
    net = Scaled()
    net.initialize()
    net(values(2, 4))
    return net


# --- hybridized and eager ---------------------------------------------------------------------------------


def test_changed_attribute_is_seen(scaled):
    x = values(2, 4)
    once = scaled(x)
    scaled.hybridize()
    same(scaled(x), once)
    scaled.factor = 4.0
    same(scaled(x), once * 2)


def test_changed_child_is_seen_by_all_blocks_around_it(scaled):
    outer = nn.HybridSequential()
    outer.add(scaled)
    outer.hybridize()
    x = values(2, 4)
    outer(x)
    scaled.inner = nn.Dense(3, in_units=4, weight_initializer="ones")
    scaled.inner.initialize()
    same(outer(x), mx.nd.array(np.repeat(x.asnumpy().sum(1, keepdims=True), 3, 1) * 2))


def test_changed_gradient_requests_are_seen(scaled):
    scaled.hybridize()
    x, weight, bias = values(2, 4), scaled.inner.weight, scaled.inner.bias

    def backward():
        with mx.autograd.record():
            y = scaled(x)
        y.backward()

    backward()
    once = weight.grad().asnumpy()
    weight.grad_req = "null"
    bias.zero_grad()
    backward()
    assert bias.grad().asnumpy().tolist() == [4, 4, 4]
    weight.grad_req = "add"
    backward()
    backward()
    np.testing.assert_allclose(weight.grad().asnumpy(), 2 * once, rtol=1e-6)
    with mx.autograd.record():
        y = scaled(x).detach() * 2 + scaled(x)
    y.backward()
    np.testing.assert_allclose(weight.grad().asnumpy(), 3 * once, rtol=1e-6)


def test_hybridized_blocks_inside_a_graph_of_their_own(scaled):
    """Gradients flow through several compiled graphs and eager operators between them."""
    x = values(2, 4)
    first, last = nn.Dense(4, in_units=4), nn.Dense(1, in_units=3)
    for net in (first, last):
        net.initialize(mx.init.Normal(1.0))
    grads = []
    for active in (False, True):
        for net in (first, scaled, last):
            net.hybridize(active)
        with mx.autograd.record():
            y = last(scaled(mx.nd.tanh(first(x))) * 3)
        y.backward()
        grads.append([net.collect_params() for net in (first, scaled, last)])
        grads[-1] = [p.grad().asnumpy() for params in grads[-1] for p in params.values()]
    for eager, compiled in zip(*grads, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_scope_inside_of_a_block_sets_the_mode(hybridize):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            one, zero, mean, var = F.ones((3,)), F.zeros((3,)), F.zeros((3,)), F.ones((3,))
            with mx.autograd.train_mode():
                y = F.BatchNorm(x, one, zero, mean, var, eps=1e-3, fix_gamma=False)
            with mx.autograd.predict_mode():
                return y, F.BatchNorm(x, one, zero, zero, one * 4, eps=0, fix_gamma=False), F.Dropout(x, p=0.5)

    net = Net()
    if hybridize:
        net.hybridize()
    x = np.random.default_rng(0).normal(2, 3, (8, 3, 5))
    mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    for scope in (mx.autograd.train_mode(), mx.autograd.predict_mode()):
        with scope:
            results = net(mx.nd.array(x))
        for got, want in zip(results, [(x - mean) / np.sqrt(var + 1e-3), x / 2, x], strict=True):
            np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5, atol=1e-5)


def test_train_and_predict_mode_are_told_apart():
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5), nn.HybridLambda(lambda F, x: x * 1))
    net.hybridize()
    x = mx.nd.ones((100,))
    assert (net(x).asnumpy() == 1).all()
    with mx.autograd.train_mode():
        assert set(np.unique(net(x).asnumpy())) == {0, 2}
    assert (net(x).asnumpy() == 1).all()


@pytest.mark.parametrize("active", [False, True])
def test_dropout_draws_the_same_eagerly_and_hybridized(active):
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5), nn.Dropout(0.3))
    x = mx.nd.ones((50,))
    mx.random.seed(3)
    with mx.autograd.train_mode():
        eager = [net(x).asnumpy() for _ in range(2)]
    net.hybridize(active)
    mx.random.seed(3)
    with mx.autograd.train_mode():
        again = [net(x).asnumpy() for _ in range(2)]
    np.testing.assert_array_equal(eager, again)
    assert (eager[0] != eager[1]).any()


def test_cast_set_data_and_reinitialisation_are_seen(scaled):
    scaled.hybridize()
    x = values(2, 4)
    scaled(x)
    scaled.inner.weight.set_data(mx.nd.ones((3, 4)))
    expected = np.repeat(x.asnumpy().sum(1, keepdims=True), 3, 1) * 2
    np.testing.assert_allclose(scaled(x).asnumpy(), expected, rtol=1e-5)
    scaled.cast("float64")
    assert scaled(x.astype("float64")).dtype == np.float64
    scaled.cast("float32")
    scaled.initialize(mx.init.Zero(), force_reinit=True)
    assert not scaled(x).asnumpy().any()


@pytest.mark.parametrize("active", [False, True])
def test_forward_that_reads_its_parameters(active):
    net = Gluon2()
    net.initialize(mx.init.One())
    net.hybridize(active)
    x = values(2, 4)
    with mx.autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), np.repeat(x.asnumpy().sum(1, keepdims=True), 3, 1) + 1, rtol=1e-5)
    np.testing.assert_allclose(net.weight.grad().asnumpy(), np.tile(x.asnumpy().sum(0), (3, 1)), rtol=1e-5)


@pytest.mark.parametrize("active", [False, True])
def test_nested_lists_in_and_out(active):
    class Swap(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, states):
            return x + states[0], [states[1] * 2, states[0]]

    net = Swap()
    net.hybridize(active)
    x, a, b = values(2), values(2, seed=1), values(2, seed=2)
    y, (doubled, first) = net(x, [a, b])
    same(y, x + a)
    same(doubled, b * 2)
    same(first, a)


def test_children_compile_for_themselves_when_called_alone(scaled):
    x = values(2, 4)
    eager = scaled.inner(x)
    scaled.hybridize()
    same(scaled.inner(x), eager)
    assert "traced once" in scaled.inner.explain()
    scaled.hybridize(False)
    same(scaled.inner(x), eager)


def test_plain_block_runs_hybridized_children(scaled):
    class Plain(mx.gluon.Block):
        def __init__(self, inner, **kwargs):
            super().__init__(**kwargs)
            self.inner = inner

        def forward(self, x):
            return self.inner(x).asnumpy() * 2

    net = Plain(scaled)
    eager = net(values(2, 4))
    net.hybridize()
    np.testing.assert_allclose(net(values(2, 4)), eager, rtol=1e-6)
    assert scaled.is_active


def test_hooks_of_a_hybridized_block(scaled):
    seen = []
    scaled.inner.register_forward_hook(lambda *_: seen.append("inner"))
    scaled.register_forward_hook(lambda block, args, out: seen.append(out.shape))
    with pytest.warns(UserWarning, match="hooks will not take effect"):
        scaled.hybridize()
    scaled(values(2, 4))
    scaled(values(2, 4))
    assert seen == [(2, 3), (2, 3)]


def test_trace_prints_the_graph_and_explain_tells_the_state(scaled):
    assert "is not hybridized" in scaled.explain()
    scaled.hybridize()
    assert "nothing is compiled yet" in scaled.explain()
    text = str(scaled.trace(values(2, 4)))
    assert "hybrid.fully_connected" in text
    scaled(values(2, 4))
    assert "first call" in scaled.explain()


def test_trace_infers_deferred_shapes():
    net = nn.Dense(3)
    net.initialize()
    net.trace(values(2, 4))
    assert net.weight.shape == (3, 4)
    assert net.weight.data().shape == (3, 4)


@pytest.mark.parametrize("active", [False, True])
def test_many_threads_make_one_graph(active):
    scaled = Scaled()
    scaled.initialize()
    scaled.hybridize(active)
    x = values(2, 4)
    results, errors = [], []

    def work():
        try:
            results.append(scaled(x).asnumpy())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert all(np.array_equal(r, results[0]) for r in results)
    assert "traced once" in scaled.explain() or not active


# --- initialisation ---------------------------------------------------------------------------------------


def weights(build, active=False):
    mx.random.seed(7)
    with mx.name.NameManager():
        net = build()
        net.initialize(mx.init.Xavier())
    net.hybridize(active)
    net(values(2, 4))
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


def two_ways(last_first):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.a = nn.Dense(4)
                self.b = nn.Dense(4)

        def hybrid_forward(self, F, x):
            return self.a(self.b(x)) if last_first else self.b(self.a(x))

    return Net


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("last_first", [False, True])
def test_the_seed_alone_decides_the_weights(active, last_first):
    wanted = weights(two_ways(False))
    for name, value in weights(two_ways(last_first), active).items():
        np.testing.assert_array_equal(value, wanted[name])
    assert len({v.tobytes() for k, v in wanted.items() if k.endswith("weight")}) == 2


def test_known_and_inferred_sizes_give_the_same_weights():
    inferred = weights(lambda: nn.Dense(4))
    known = weights(lambda: nn.Dense(4, in_units=4))
    np.testing.assert_array_equal(inferred["dense0_weight"], known["dense0_weight"])


def test_unused_parameters_stay_deferred():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.used = nn.Dense(2)
            self.unused = nn.Dense(2)

        def hybrid_forward(self, F, x):
            return self.used(x)

    for active in (False, True):
        net = Net()
        net.initialize()
        net.hybridize(active)
        net(values(2, 4))
        with pytest.raises(mx.gluon.parameter.DeferredInitializationError, match="deferred"):
            net.unused.weight.data()


def test_mixed_initializes_a_network():
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3, bias_initializer=None), nn.Dense(2, in_units=2))
    net.initialize(mx.init.Mixed([".*dense0", ".*"], [mx.init.Constant(5.0), mx.init.One()]))
    assert (net[0].weight.data().asnumpy() == 5).all()
    assert (net[1].weight.data().asnumpy() == 1).all()
    assert (net[0].bias.data().asnumpy() == 0).all()


def test_shapes_that_cannot_be_inferred_name_the_parameter():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scale = self.params.get("scale", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, scale):
            return F.concat(x, F.reshape(scale, (1, -1)), dim=1)

    net = Net()
    net.initialize()
    with pytest.raises(ValueError, match="Deferred initialization failed because shape cannot be inferred"):
        net(values(1, 4))


# --- attributes, children, copies -------------------------------------------------------------------------


def test_keywords_of_hybridize_are_checked(scaled):
    scaled.hybridize(static_alloc=True, static_shape=True, inline_limit=3, forward_bulk_size=1, backward_bulk_size=2)
    scaled(values(2, 4))
    for net in (scaled, nn.Sequential()):
        with pytest.raises(
            ValueError, match=r"unexpected keyword 'static_aloc'; it takes active, backend, .*static_alloc"
        ):
            net.hybridize(static_aloc=True)


def test_children_before_init_are_refused_clearly():
    class Wrong(mx.gluon.HybridBlock):
        def __init__(self):
            self.inner = nn.Dense(2)
            super().__init__()

    with pytest.raises(mx.MXNetError, match=r"call super\(\).__init__"):
        Wrong()


def test_deleted_child_is_forgotten(scaled):
    del scaled.inner
    assert list(scaled.collect_params()) == []
    with pytest.raises(AttributeError):
        scaled(values(2, 4))


def test_blocks_in_plain_containers_are_warned_about():
    class Net(mx.gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(2), {"x": nn.Dense(2)}]

    with pytest.warns(UserWarning, match=r'"Net.layers" is an unregistered container with Blocks'):
        Net().collect_params()


def test_registered_blocks_in_containers_are_not_warned_about(recwarn):
    class Net(mx.gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(2)]
            self.register_child(self.layers[0])

    assert len(Net().collect_params()) == 2
    assert not recwarn


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_independent_and_train(duplicate, scaled):
    scaled.hybridize()
    x = values(2, 4)
    y = scaled(x)
    twin = duplicate(scaled)
    same(twin(x), y)
    trainer = mx.gluon.Trainer(twin.collect_params(), "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        loss = twin(x).sum()
    loss.backward()
    trainer.step(1)
    assert np.abs(twin(x).asnumpy() - y.asnumpy()).max() > 0.1
    same(scaled(x), y)
    twin.inner = nn.Dense(3, in_units=4, weight_initializer="zeros")
    twin.inner.initialize()
    assert not twin(x).asnumpy().any()


def test_symbols_are_recorded_into_their_trace(scaled):
    from hybridc.trace.tracer import Trace

    trace = Trace()
    x = trace.leaf("x", (2, 4), np.float32, "data")
    y = scaled(x)
    assert y.shape == (2, 3)
    assert [s.name for s in trace.leaves] == ["x", scaled.inner.weight.name, scaled.inner.bias.name]


def test_forward_must_be_overridden():
    with pytest.raises(mx.MXNetError, match=r"Block must override forward"):
        mx.gluon.Block()(values(2))
    with pytest.raises(mx.MXNetError, match=r"HybridBlock must override hybrid_forward"):
        mx.gluon.HybridBlock()(values(2))


def test_hook_handle_serves_one_hook(scaled):
    with scaled.register_forward_hook(lambda *_: None) as handle:
        with pytest.raises(ValueError, match="attached twice"):
            handle.attach(scaled._forward_hooks, print)
        assert len(scaled._forward_hooks) == 1
    assert not scaled._forward_hooks


# --- the package ------------------------------------------------------------------------------------------


def test_import_is_light_and_names_exist():
    code = """
import sys, warnings
import hybridc as mx
heavy = [m for m in ("scipy", "xdsl", "hybridc.gluon.nn", "matplotlib") if m in sys.modules]
assert not heavy, heavy
names = '''
nd ndarray sym symbol autograd gluon init initializer optimizer lr_scheduler metric operator random cpu gpu
cpu_pinned Context current_context num_gpus context base MXNetError name attribute AttrScope waitall util
test_utils __version__ registry
'''
for name in names.split():
    getattr(mx, name)
assert mx.base.MXNetError is mx.MXNetError and mx.ndarray is mx.nd and mx.symbol is mx.sym
assert set(dir(mx)) >= {"gluon", "nd", "optimizer"}
heavy = [m for m in ("scipy", "xdsl") if m in sys.modules]
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_eager_computing_does_not_import_the_compiler():
    code = """
import sys
import hybridc as mx
net = mx.gluon.nn.Dense(2)
net.initialize()
trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
with mx.autograd.record():
    loss = mx.gluon.loss.L2Loss()(net(mx.nd.ones((2, 3))), mx.nd.ones((2, 2)))
loss.backward()
assert "xdsl" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_operators_are_imported_when_they_are_used():
    code = """
import sys
import hybridc as mx
family = lambda name: [m for m in sys.modules if m.startswith(f"hybridc.dialects.{name}.")]
assert not family("vision") + family("quantized") + family("updates"), "imported with the package"
assert "numpy.random" not in sys.modules
assert mx.nd.contrib.box_iou(mx.nd.array([[0, 0, 2, 2]]), mx.nd.array([[0, 0, 2, 2]])).asscalar() == 1
assert family("vision") and not family("quantized")
assert "ROIPooling" in dir(mx.nd) and family("quantized")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_operators_that_are_not_imported_yet_are_taken():
    code = """
import hybridc as mx
try:
    @mx.op.register("mylib.pooled", "ROIPooling")
    class Mine(mx.op.Elementwise):
        def scalar(self, b, x):
            return x
except mx.MXNetError as error:
    assert "mx.nd.ROIPooling is the operator" in str(error), error
else:
    raise AssertionError("two operators have one name")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_raise_attribute_error():
    for module in (mx, mx.gluon, mx.nd):
        with pytest.raises(AttributeError, match="nonesuch"):
            _ = module.nonesuch


def test_names_count_for_each_thread():
    found = []

    def work():
        found.append(nn.Dense(1).prefix)

    with mx.name.NameManager():
        nn.Dense(1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert nn.Dense(1).prefix == "dense1_"
    assert found == ["dense0_"]


def test_attribute_scopes_nest():
    with mx.AttrScope(a="1", b="2"), mx.AttrScope(b="3") as inner:
        assert inner.get({"c": "4"}) == {"a": "1", "b": "3", "c": "4"}
        assert mx.attribute.current() is inner
    assert mx.attribute.current().get() == {}
    with pytest.raises(ValueError, match="need to be string"):
        mx.AttrScope(a=1)


def test_test_utils():
    mx.test_utils.assert_almost_equal(mx.nd.ones((2,)), np.ones(2) + 1e-5)
    assert mx.test_utils.same(mx.nd.ones((2,)), np.ones(2))
    assert not mx.test_utils.almost_equal(mx.nd.ones((2,)), np.zeros(2))
    with pytest.raises(AssertionError, match="left and right differ"):
        mx.test_utils.assert_almost_equal(mx.nd.ones((2,)), np.zeros(2), names=("left", "right"))
    assert mx.test_utils.rand_ndarray((2, 3)).shape == (2, 3)
    assert mx.test_utils.default_context() == mx.cpu()


def test_clearing_the_cached_graph_traces_again():
    class Scaled(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * FACTOR[0]

    FACTOR = [2.0]
    net = Scaled()
    net.hybridize()
    x = mx.nd.ones(3)
    assert net(x).asnumpy().tolist() == [2, 2, 2]
    FACTOR[0] = 5.0
    net._clear_cached_op()
    assert net(x).asnumpy().tolist() == [5, 5, 5]


class Named(mx.gluon.HybridBlock):
    """A loss of arrays that it takes out of dictionaries, as Sockeye's do."""

    def forward(self, outputs, labels):
        return super().forward(outputs["y"], labels["y"])

    def hybrid_forward(self, F, y, label):
        return F.square(y - label).sum()


def test_a_forward_of_the_users_own_takes_what_it_likes_when_hybridized():
    loss = Named()
    loss.hybridize()
    x = mx.nd.array([1, 2, 4])
    x.attach_grad()
    with mx.autograd.record():
        y = loss({"y": x}, {"y": mx.nd.array([1, 1, 1])})
    y.backward()
    assert y.asscalar() == 10
    assert x.grad.asnumpy().tolist() == [0, 2, 6]
    layer = nn.Dense(2)
    layer.initialize()
    layer.hybridize()
    layer(mx.nd.ones((1, 3)))
    with pytest.raises(mx.MXNetError, match="the arguments of a hybridized block must be an NDArray or nested lists"):
        layer({"x": x})


def test_a_network_that_was_called_before_it_was_initialized_recovers():
    net = nn.HybridSequential()
    net.add(nn.Dense(2))
    net.hybridize()
    x = mx.nd.ones((1, 3))
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net(x)
    net.initialize(mx.init.One())
    assert net(x).asnumpy().tolist() == [[3, 3]]
