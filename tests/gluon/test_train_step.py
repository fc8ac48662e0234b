"""A training step as one program, against NumPy in float64 and against the loop that it stands for."""

import gc
import threading
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError, RecompileError, TraceError, UnsupportedError
from hybridc.gluon import TrainStep, nn
from tests.runtime.test_training import transformer
from tests.slices import one_in

OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01},
    "nag": {"learning_rate": 0.1, "momentum": 0.9},
    "signum": {"learning_rate": 0.01, "wd_lh": 0.01},
    "adam": {"learning_rate": 0.01, "clip_gradient": 0.05},
    "adamw": {"learning_rate": 0.01, "wd": 0.01},
    "adamax": {"learning_rate": 0.01, "wd": 0.1},
    "nadam": {"learning_rate": 0.01},
    "adagrad": {"learning_rate": 0.1},
    "adadelta": {"rho": 0.8},
    "rmsprop": {"learning_rate": 0.01, "centered": True},
    "ftrl": {"learning_rate": 0.1},
    "ftml": {"learning_rate": 0.01},
    "dcasgd": {"learning_rate": 0.1, "momentum": 0.9},
    "lamb": {"learning_rate": 0.01},
    "lars": {"learning_rate": 0.1, "momentum": 0.9},
}


def batch(seed, size=8, columns=6, classes=4):
    rng = np.random.default_rng(seed)
    return mx.nd.array(rng.normal(size=(size, columns))), mx.nd.array(rng.integers(0, classes, size))


def network(dropout=0.3, activation="tanh"):
    """Layers with running statistics and random numbers; the same weights every time."""
    mx.random.seed(5)
    net = nn.HybridSequential()
    net.add(nn.Dense(7, activation=activation), nn.BatchNorm(), nn.Dropout(dropout), nn.Dense(4))
    net.initialize(mx.init.Xavier())
    return net


def cross_entropy():
    return mx.gluon.loss.SoftmaxCrossEntropyLoss()


def trainer_of(net, optimizer="sgd", **options):
    return mx.gluon.Trainer(net.collect_params(), optimizer, options or {"learning_rate": 0.1, "momentum": 0.9})


def loop(net, loss, trainer, batches):
    """The eager loop; its losses."""
    losses = []
    for x, y in batches:
        with mx.autograd.record():
            out = loss(net(x), y)
        out.backward()
        trainer.step(x.shape[0])
        losses.append(out.asnumpy())
    return losses


def values(net):
    return {name.partition("_")[2]: p.data().asnumpy() for name, p in net.collect_params().items()}


def assert_same(net, other, rtol=1e-5, atol=1e-6):
    ours, theirs = values(net), values(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=rtol, atol=atol, err_msg=name)


def compare(optimizer, options, batches, **keywords):
    """Train two equal networks, one by the loop and one by steps; returns the step."""
    eager, compiled = network(), network()
    trainer = trainer_of(eager, optimizer, **options)
    mx.random.seed(11)
    expected = loop(eager, cross_entropy(), trainer, batches)
    step = TrainStep(compiled, cross_entropy(), trainer_of(compiled, optimizer, **options), **keywords)
    mx.random.seed(11)
    for (x, y), loss in zip(batches, expected, strict=True):
        np.testing.assert_allclose(step(x, y).asnumpy(), loss, rtol=1e-5, atol=1e-6)
    assert_same(compiled, eager)
    return step


# --- results ------------------------------------------------------------------------------------------------


def test_steps_of_a_perceptron_are_those_of_float64():
    rng = np.random.default_rng(0)
    w1, b1, w2 = rng.normal(size=(5, 6)), rng.normal(size=5), rng.normal(size=(1, 5))
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=6), nn.HybridLambda("tanh"), nn.Dense(1, in_units=5, use_bias=False))
    net.initialize()
    params = list(net.collect_params().values())
    for p, value in zip(params, (w1, b1, w2), strict=True):
        p.set_data(mx.nd.array(value))
    places = [p.data().asnative().ctypes.data for p in params]
    step = TrainStep(net, mx.gluon.loss.L2Loss(), trainer_of(net, "sgd", learning_rate=0.1, momentum=0.5))

    weights, moments = [w1, b1, w2], [np.zeros_like(w) for w in (w1, b1, w2)]
    for seed in range(3):
        x, y = rng.normal(size=(8, 6)), rng.normal(size=(8, 1))
        h = np.tanh(x @ weights[0].T + weights[1])
        error = h @ weights[2].T - y
        back = error @ weights[2] * (1 - h * h)
        grads = [back.T @ x / 8, back.sum(0) / 8, error.T @ h / 8]
        moments = [0.5 * m - 0.1 * g for m, g in zip(moments, grads, strict=True)]
        weights = [w + m for w, m in zip(weights, moments, strict=True)]
        loss = step(mx.nd.array(x), mx.nd.array(y))
        np.testing.assert_allclose(loss.asnumpy(), (error**2 / 2).mean(1), rtol=1e-5, atol=1e-6, err_msg=str(seed))
        for p, w in zip(params, weights, strict=True):
            np.testing.assert_allclose(p.data().asnumpy(), w, rtol=1e-5, atol=1e-6)
    assert [p.data().asnative().ctypes.data for p in params] == places


@pytest.mark.parametrize("optimizer", one_in(5, list(OPTIMIZERS)))
def test_a_step_is_the_loop_for_every_optimizer(optimizer):
    compare(optimizer, OPTIMIZERS[optimizer], [batch(i) for i in range(4)])


def test_updates_do_not_depend_on_the_names_of_parameters():
    """Trainers take parameters in the order of their names, where dense10 is before dense9."""
    results = []
    for prefixes in (("dense8_", "dense9_"), ("dense9_", "dense10_")):
        mx.random.seed(5)
        net = nn.HybridSequential(prefix="")
        net.add(nn.Dense(7, prefix=prefixes[0]), nn.Dense(4, prefix=prefixes[1]))
        net.initialize(mx.init.Xavier())
        results.append(
            loop(net, cross_entropy(), trainer_of(net, "nadam", learning_rate=0.01), [batch(i) for i in range(3)])
        )
    np.testing.assert_array_equal(*results)


def test_every_optimizer_with_a_formula_is_compared_above():
    from hybridc import optimizer

    base = optimizer.Optimizer
    classes = {name.lower(): getattr(optimizer, name) for name in optimizer.__all__}
    optimizers = {name: cls for name, cls in classes.items() if isinstance(cls, type) and issubclass(cls, base)}
    known = {name for name, cls in optimizers.items() if cls.formula is not base.formula}
    assert known - {"ccsgd", "test"} == set(OPTIMIZERS)


def test_a_step_is_one_program():
    step = compare("sgd", {"learning_rate": 0.1}, [batch(i) for i in range(2)])
    text = str(step.explain())
    assert text.count("forward:") == 1
    assert "backward" not in text


def test_a_loop_with_the_loss_inside_the_network_is_three_programs():
    class WithLoss(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.net, self.loss = network(), cross_entropy()

        def forward(self, x, y):
            return self.loss(self.net(x), y)

    both = WithLoss()
    both.hybridize()
    trainer = trainer_of(both)
    for i in range(2):
        x, y = batch(i)
        with mx.autograd.record():
            loss = both(x, y)
        loss.backward()
        trainer.step(8)
    programs = [line.split(":")[0].strip() for line in both.explain().splitlines() if "arena" in line]
    assert programs == ["forward", "backward"]
    assert trainer.explain().count("update of") == 1


def test_learning_rates_and_batch_sizes_compile_nothing():
    eager, compiled = network(), network()
    trainers = [
        trainer_of(net, "sgd", lr_scheduler=mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.2))
        for net in (eager, compiled)
    ]
    step = TrainStep(compiled, cross_entropy(), trainers[1])
    mx.random.seed(11)
    step(*batch(0))
    with mx.no_recompile():
        for i in range(1, 4):
            step(*batch(i), batch_size=i)
    mx.random.seed(11)
    for i in range(4):
        x, y = batch(i)
        with mx.autograd.record():
            loss = cross_entropy()(eager(x), y)
        loss.backward()
        trainers[0].step(i or 8)
    assert trainers[1].learning_rate == trainers[0].learning_rate != 0.2
    assert_same(compiled, eager)
    trainers[1].optimizer.lr_scheduler = None
    trainers[1].optimizer.lr = 0.0
    before = compiled[3].weight.data().asnumpy().copy()
    with mx.no_recompile():
        step(*batch(0))
    np.testing.assert_array_equal(compiled[3].weight.data().asnumpy(), before)


def test_other_shapes_and_simpler_numbers_are_compiled_once_each():
    batches = [batch(0), batch(1, size=3), batch(2), batch(3, size=3)]
    step = compare("sgd", {"learning_rate": 0.1, "wd": 0.1}, batches)
    assert "argument 0 has shape (3, 6), compiled before for (8, 6)" in step.explain()
    net = network()
    trainer = trainer_of(net, "sgd", learning_rate=0.1, wd=0.0)
    step = TrainStep(net, cross_entropy(), trainer)
    step(*batch(0))
    trainer.optimizer.wd = 0.1
    with mx.no_recompile(), pytest.raises(RecompileError, match="numbers of the optimizer"):
        step(*batch(0))
    step(*batch(0))
    with mx.no_recompile():
        step(*batch(0))
        trainer.optimizer.wd = 0.0
        step(*batch(0))


def test_multi_precision_updates_the_copy_and_the_weight():
    nets = []
    for compiled in (False, True):
        mx.random.seed(3)
        net = nn.Dense(3, in_units=6)
        net.initialize(mx.init.Xavier())
        net.cast("float16")
        trainer = trainer_of(net, "adam", learning_rate=0.01, multi_precision=True)
        step = TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
        batches = [(x.astype("float16"), mx.nd.ones((8, 3), dtype="float16")) for x, _ in map(batch, range(3))]
        if compiled:
            for x, y in batches:
                step(x, y)
        else:
            loop(net, mx.gluon.loss.L2Loss(), trainer, batches)
        assert net.weight.data().dtype == np.float16
        nets.append((net, trainer.updater.states[trainer.parameters.index(net.weight)][0].asnumpy()))
    assert_same(nets[1][0], nets[0][0], rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(nets[1][1], nets[0][1], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(nets[1][1].astype(np.float16), nets[1][0].weight.data().asnumpy())


@pytest.mark.long
def test_a_transformer_trains_as_in_the_loop():
    nets = []
    for compiled in (False, True):
        mx.random.seed(3)
        net, (x, y), loss = transformer()
        net.initialize(mx.init.Xavier())
        trainer = trainer_of(net, "sgd", learning_rate=0.05)
        step = TrainStep(net, loss, trainer)
        mx.random.seed(4)
        losses = [step(x, y).asnumpy() for _ in range(3)] if compiled else loop(net, loss, trainer, [(x, y)] * 3)
        nets.append((net, np.array(losses)))
    np.testing.assert_allclose(nets[1][1], nets[0][1], rtol=1e-3, atol=1e-5)
    assert nets[0][1][-1].mean() < nets[0][1][0].mean()
    assert_same(nets[1][0], nets[0][0], rtol=1e-3, atol=1e-4)


def test_a_parameter_used_twice_gets_both_gradients():
    class Twice(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = nn.Dense(6, in_units=6)

        def forward(self, x):
            return self.inner(mx.nd.tanh(self.inner(x)))

    nets = []
    for compiled in (False, True):
        mx.random.seed(3)
        net = Twice()
        net.initialize(mx.init.Xavier())
        step = TrainStep(net, mx.gluon.loss.L1Loss(), trainer_of(net))
        batches = [(x, mx.nd.ones((8, 6))) for x, _ in map(batch, range(3))]
        if compiled:
            for x, y in batches:
                step(x, y)
        else:
            loop(net, mx.gluon.loss.L1Loss(), trainer_of(net), batches)
        nets.append(net)
    assert_same(*nets)


def test_gradients_are_kept_on_request():
    net, other = network(dropout=0), network(dropout=0)
    TrainStep(net, cross_entropy(), trainer_of(net), keep_grads=True)(*batch(0))
    loop(other, cross_entropy(), trainer_of(other), [batch(0)])
    for p, q in zip(net.collect_params().values(), other.collect_params().values(), strict=True):
        if p.grad_req != "null":
            np.testing.assert_allclose(p.grad().asnumpy(), q.grad().asnumpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(net[3].weight.grad().asnumpy()).max() > 1e-3
    plain = network(dropout=0)
    TrainStep(plain, cross_entropy(), trainer_of(plain))(*batch(0))
    assert not plain[3].weight.grad().asnumpy().any()


@pytest.mark.long
def test_steps_leave_nothing_behind():
    net = network()
    step = TrainStep(net, cross_entropy(), trainer_of(net))

    def arrays():
        gc.collect()
        return sum(isinstance(o, mx.nd.NDArray) for o in gc.get_objects())

    x, y = batch(0)
    for _ in range(3):
        step(x, y)
    before = arrays()
    for _ in range(20):
        step(x, y)
    assert arrays() <= before
    batch_alive = weakref.ref(x._data)
    del x
    assert batch_alive() is None


# --- what is trained ----------------------------------------------------------------------------------------


def test_frozen_parameters_stay_and_may_be_frozen_later():
    net = network()
    step = TrainStep(net, cross_entropy(), trainer_of(net))
    net[0].weight.grad_req = "null"
    step(*batch(0))
    first, last = net[0].weight.data().asnumpy().copy(), net[3].weight.data().asnumpy().copy()
    net[3].weight.grad_req = "null"
    net[0].weight.grad_req = "write"
    step(*batch(1))
    np.testing.assert_array_equal(net[3].weight.data().asnumpy(), last)
    assert np.abs(net[0].weight.data().asnumpy() - first).max() > 1e-4
    assert "other parameters are trained" in step.explain()


def test_a_gradient_that_vanishes_is_zero_and_decay_goes_on():
    class Blocked(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Dense(4, in_units=6, use_bias=False), nn.Dense(4, in_units=6, use_bias=False)

        def hybrid_forward(self, F, x):
            return F.BlockGrad(self.a(x)) + self.b(x)

    net = Blocked()
    net.initialize()
    before = net.a.weight.data().asnumpy().copy()
    TrainStep(net, cross_entropy(), trainer_of(net, "sgd", learning_rate=0.5, wd=0.2))(*batch(0))
    np.testing.assert_allclose(net.a.weight.data().asnumpy(), before * 0.9, rtol=1e-6)


def test_parameters_that_the_loss_does_not_use():
    net = network()
    spare = nn.Dense(2, in_units=2, prefix="spare_")
    spare.initialize()
    params = {**net.collect_params(), **spare.collect_params()}
    trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": 0.1})
    with pytest.raises(UserWarning, match="spare_"):
        TrainStep(net, cross_entropy(), trainer)(*batch(0))
    before = spare.weight.data().asnumpy().copy()
    TrainStep(net, cross_entropy(), trainer, ignore_stale_grad=True)(*batch(0))
    np.testing.assert_array_equal(spare.weight.data().asnumpy(), before)
    with pytest.raises(MXNetError, match="depends on no parameter"):
        TrainStep(net, cross_entropy(), trainer_of(spare), ignore_stale_grad=True)(*batch(0))


def test_grad_req_add_is_refused_with_the_remedy():
    net = network()
    net[3].weight.grad_req = "add"
    with pytest.raises(MXNetError, match=r"grad_req 'add'.*grad_req = 'write'"):
        TrainStep(net, cross_entropy(), trainer_of(net))(*batch(0))


# --- losses and data ----------------------------------------------------------------------------------------


def test_a_function_may_be_the_loss_and_return_more():
    net, other = network(dropout=0), network(dropout=0)

    def loss(out, y):
        return cross_entropy()(out, y), out

    x, y = batch(0)
    value, out = TrainStep(net, loss, trainer_of(net))(x, y)
    with mx.autograd.train_mode():
        expected = other(x)
    np.testing.assert_allclose(out.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    assert value.shape == (8,)


def test_several_inputs_and_labels():
    class Add(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(4)

        def forward(self, a, b):
            return self.dense(a) + self.dense(b)

    net = Add()
    net.initialize()
    (x, y), (z, _) = batch(0), batch(1)
    seen = []

    def loss(out, label, weight):
        seen.append(weight.shape)
        return cross_entropy()(out, label, weight)

    step = TrainStep(net, loss, trainer_of(net))
    assert step((x, z), (y, mx.nd.zeros((8, 1)))).asnumpy().tolist() == [0] * 8
    assert seen == [(8, 1)] * len(seen)
    unsupervised = TrainStep(net, lambda out: mx.sym.square(out), trainer_of(net))
    assert unsupervised([x, z]).shape == (8, 4)


def test_data_that_shares_memory_with_a_weight_is_what_it_was():
    net = nn.Dense(6, in_units=6, use_bias=False)
    net.initialize(mx.init.Xavier())
    weight = net.weight.data().asnumpy().astype(np.float64)
    step = TrainStep(net, lambda out: mx.sym.square(out), trainer_of(net, "sgd", learning_rate=0.1))
    out = step(net.weight.data())
    product = weight @ weight.T
    np.testing.assert_allclose(out.asnumpy(), product**2, rtol=1e-5, atol=1e-6)
    expected = weight - 0.1 / 6 * (2 * product).T @ weight
    np.testing.assert_allclose(net.weight.data().asnumpy(), expected, rtol=1e-5, atol=1e-6)


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_states_that_are_saved_and_loaded_go_on(optimizer, tmp_path):
    batches = [batch(i) for i in range(4)]
    straight, resumed = network(dropout=0), network(dropout=0)
    loop(straight, cross_entropy(), trainer_of(straight, optimizer, **OPTIMIZERS[optimizer]), batches)

    trainer = trainer_of(resumed, optimizer, **OPTIMIZERS[optimizer])
    step = TrainStep(resumed, cross_entropy(), trainer)
    for x, y in batches[:2]:
        step(x, y)
    trainer.save_states(str(tmp_path / "states"))
    resumed.save_parameters(str(tmp_path / "parameters"))
    step(*batch(9))
    trainer.load_states(str(tmp_path / "states"))
    resumed.load_parameters(str(tmp_path / "parameters"))
    with mx.no_recompile():
        for x, y in batches[2:]:
            step(x, y)
    assert_same(resumed, straight)


def test_the_loop_and_the_step_may_alternate():
    net, other = network(dropout=0), network(dropout=0)
    trainer = trainer_of(net, "adam", learning_rate=0.01)
    step = TrainStep(net, cross_entropy(), trainer)
    batches = [batch(i) for i in range(4)]
    for i, (x, y) in enumerate(batches):
        if i % 2:
            loop(net, cross_entropy(), trainer, [(x, y)])
        else:
            step(x, y)
    loop(other, cross_entropy(), trainer_of(other, "adam", learning_rate=0.01), batches)
    assert_same(net, other)


def test_threads_take_turns():
    net, other = nn.Dense(4, in_units=6), nn.Dense(4, in_units=6)
    for each in (net, other):
        each.initialize(mx.init.Constant(0.1))
    trainer = trainer_of(net, "sgd", learning_rate=0.01)
    step = TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
    x, y = batch(0)[0], mx.nd.ones((8, 4))
    threads = [threading.Thread(target=lambda: [step(x, y) for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop(other, mx.gluon.loss.L2Loss(), trainer_of(other, "sgd", learning_rate=0.01), [(x, y)] * 100)
    assert trainer.optimizer.num_update == 100
    assert_same(net, other, rtol=1e-4)


# --- errors -------------------------------------------------------------------------------------------------


def test_control_flow_on_values_names_the_line_and_the_loop():
    class Branching(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(4)

        def forward(self, x):
            out = self.dense(x)
            return out if out.sum() > 0 else -out

    net = Branching()
    net.initialize()
    with pytest.raises(TraceError, match=r"(?s)test_train_step.py:\d+.*autograd.record\(\), loss.backward"):
        TrainStep(net, cross_entropy(), trainer_of(net))(*batch(0))


def test_blocks_that_cannot_be_compiled_are_refused():
    net = nn.Sequential()
    net.add(nn.Dense(4, in_units=6))
    net.initialize()
    with pytest.raises(UnsupportedError, match="Sequential, which cannot be compiled"):
        TrainStep(net, cross_entropy(), trainer_of(net))

    class Plain(mx.gluon.Block):
        def forward(self, out, y):
            return out

    good = network()
    with pytest.raises(UnsupportedError, match="loss is a Plain"):
        TrainStep(good, Plain(), trainer_of(good))


def test_an_optimizer_without_a_formula_is_refused():
    class Own(mx.optimizer.Optimizer):
        def create_state(self, index, weight):
            return None

        def update(self, index, weight, grad, state):
            weight -= grad

    net = network()
    trainer = mx.gluon.Trainer(net.collect_params(), Own())
    with pytest.raises(UnsupportedError, match=r"Own has an update\(\) of its own"):
        TrainStep(net, cross_entropy(), trainer)(*batch(0))


def test_a_loss_that_is_no_array_is_refused():
    net = network()
    with pytest.raises(MXNetError, match="must give an array"):
        TrainStep(net, lambda out, y: ((out,), y), trainer_of(net))(*batch(0))
    with pytest.raises(MXNetError, match="dtype int32"):
        TrainStep(net, lambda out, y: mx.sym.cast(out, dtype="int32"), trainer_of(net))(*batch(0))


class ConcatOfItself(mx.gluon.HybridBlock):
    """The input, and a 1x1 convolution of it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1D(2, 1)

    def hybrid_forward(self, F, x):
        return F.concat(x, self.conv(x), dim=1)


def test_a_convolution_whose_result_is_an_operand_to_pack_for_the_backward():
    """The weight's gradient multiplies by the dilated convolution's result, which is itself of a packed matmul."""
    net = nn.HybridSequential()
    net.add(nn.Conv1D(2, 2, padding=1, dilation=2, use_bias=False), ConcatOfItself(), nn.Dense(3, use_bias=False))
    mx.random.seed(1)
    net.initialize(mx.init.Normal(0.5))
    x = np.random.default_rng(0).normal(size=(2, 2, 3)).astype("float32")
    net(mx.nd.array(x))
    before = [p.data().asnumpy().astype("float64") for p in net.collect_params().values()]

    def loss(first, second, bias, dense):
        padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1)))
        y = sum(np.einsum("oc,bcl->bol", first[:, :, k], padded[:, :, 2 * k : 2 * k + 3]) for k in range(2))
        both = np.concatenate([y, np.einsum("oc,bcl->bol", second[:, :, 0], y) + bias[:, None]], 1)
        return np.square(both.reshape(2, -1) @ dense.T).sum()

    step = TrainStep(net, lambda y, _: (y * y).sum(), trainer_of(net, "sgd", learning_rate=0.1))
    got = step(mx.nd.array(x), mx.nd.zeros((2, 1)))
    np.testing.assert_allclose(got.asnumpy().sum(), loss(*before), rtol=1e-5)
    for number, (p, old) in enumerate(zip(net.collect_params().values(), before, strict=True)):
        for at in np.ndindex(old.shape):
            moved = [[a.copy() for a in before] for _ in range(2)]
            moved[0][number][at] += 1e-5
            moved[1][number][at] -= 1e-5
            gradient = (loss(*moved[0]) - loss(*moved[1])) / 2e-5
            np.testing.assert_allclose(p.data().asnumpy()[at], old[at] - 0.1 * gradient / 2, rtol=1e-4, atol=1e-5)


class ReadsPartsOfAConcatenation(mx.gluon.HybridBlock):
    """A layer whose result is read twice, once inside a concatenation that recurrent layers read."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(3, 7)
        self.dense = nn.Dense(8, flatten=False)
        self.rnn = mx.gluon.rnn.RNN(2, layout="NTC", num_layers=2)

    def hybrid_forward(self, F, tokens):
        rows = self.embedding(tokens)
        masked = F.SequenceMask(F.swapaxes(rows, 0, 1)).swapaxes(0, 1)
        return self.rnn(F.concat(self.dense(masked), rows, dim=2)), masked, F.clip(self.dense(masked), -1, 1)


def test_what_is_taken_out_of_a_concatenation_is_not_what_it_is_rematerialised_from():
    net = ReadsPartsOfAConcatenation()
    mx.random.seed(1)
    net.initialize(mx.init.Normal(0.5))
    tokens, gradients = mx.nd.array([[0], [2]]), []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with mx.autograd.record():
            total = sum(y.sum() for y in net(tokens))
        total.backward()
        gradients.append([p.grad().asnumpy() for p in net.collect_params().values()])
    for eager, compiled in zip(*gradients, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6)
