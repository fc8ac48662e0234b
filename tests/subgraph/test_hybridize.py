"""Backends on networks: keywords, caching, training, threads, several backends, passes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from backends import RAN, Function, note, numeric_gradient, partitioned, partitioner, parts, run, values

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.gluon import nn


def network(seed=3):
    mx.random.seed(seed)
    net = nn.HybridSequential(prefix=f"n{seed}_")
    with net.name_scope():
        net.add(nn.Dense(5, activation="tanh", in_units=4), nn.BatchNorm(), nn.Dense(2, in_units=5))
    net.initialize()
    return net


def train(net, steps=4):
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for step in range(steps):
        x = nd.array(np.random.RandomState(step).rand(6, 4))
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(6)
    return [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("wanted", [{"FullyConnected"}, {"FullyConnected", "BatchNorm", "Activation"}, {"BatchNorm"}])
def test_training_is_the_same(wanted):
    expected = train(network())
    partitioner("taken", wanted)
    net = network()
    net.hybridize(backend="taken")
    for got, reference in zip(train(net), expected, strict=True):
        np.testing.assert_allclose(got, reference, rtol=1e-5, atol=1e-6)
    assert {op for _, _, ops in RAN for op in ops} == wanted


def test_running_statistics_of_a_taken_batch_norm():
    partitioner("taken", {"BatchNorm"})
    net = nn.BatchNorm(in_channels=3, momentum=0.5)
    net.initialize()
    net.hybridize(backend="taken")
    x = np.random.RandomState(0).rand(8, 3).astype("float32")
    with autograd.record():
        net(nd.array(x))
    np.testing.assert_allclose(net.running_mean.data().asnumpy(), 0.5 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(net.running_var.data().asnumpy(), 0.5 + 0.5 * x.var(0), rtol=1e-5)


def test_dropout_inside_draws_one_mask_for_forward_and_backward():
    partitioner("taken", {"Dropout", "exp"})
    net = Function(lambda F, x: F.exp(F.Dropout(x, p=0.5)))
    net.hybridize(backend="taken")
    x = values(50)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    dropped = y.asnumpy() == 1
    assert 5 < dropped.sum() < 45
    expected = np.where(dropped, 0, 2 * np.exp(2 * x.asnumpy()))
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-12)
    with autograd.record():
        again = net(x)
    assert (again.asnumpy() != y.asnumpy()).any()


def test_options_and_state():
    made = []

    class Scaled(mx.subgraph.Partitioner):
        ops = ("exp",)

        def __init__(self, scale=1, *, offset=0):
            self.scale, self.offset = scale, offset

        def create(self, part):
            made.append((part.name, part.shapes, part.dtypes, part.options))
            return {"runs": 0}

        def run(self, part, x):
            part.state["runs"] += 1
            return part(x) * self.scale + self.offset + part.state["runs"]

    mx.subgraph.register_partitioner("scaled")(Scaled)
    net = Function(lambda F, x: F.exp(x))
    x = values(3)
    plain = np.exp(x.asnumpy())
    for keywords in ({"backend_opts": {"scale": 2}, "offset": 5}, {"scale": 2, "offset": 5}):
        net.hybridize(backend="scaled", **keywords)
        np.testing.assert_allclose(net(x).asnumpy(), plain * 2 + 6)
        np.testing.assert_allclose(net(x).asnumpy(), plain * 2 + 7)  # the state stays from call to call
    assert made == [("scaled0", [(3,)], [np.dtype("float64")], {"scale": 2, "offset": 5})] * 2


def test_a_new_shape_makes_a_new_graph_and_new_states():
    made = []
    partitioner("taken", {"exp"}, create=lambda self, part: made.append(part.shapes))
    net = Function(lambda F, x: F.exp(x) + 1)
    net.hybridize(backend="taken")
    for shape in ((2,), (3, 2), (2,), (3, 2)):
        x = values(*shape)
        np.testing.assert_allclose(net(x).asnumpy(), np.exp(x.asnumpy()) + 1)
    assert made == [[(2,)], [(3, 2)]]


def test_host_calls_are_listed():
    partitioner("taken", {"exp", "log"})
    net = Function(lambda F, x: F.log(F.exp(x)) + 1)
    net.hybridize(backend="taken")
    net(values(3))
    assert "host call hybrid.subgraph taken0 (exp, log) at " in net.explain()


def test_clearing_and_adding_backends():
    partitioner("first", {"exp"})
    partitioner("second", {"log"})
    net = Function(lambda F, x: F.log(F.exp(x) + 1))
    x = values(3)
    expected = np.log(np.exp(x.asnumpy()) + 1)

    def ran(*keywords):
        for active, options in keywords:
            net.hybridize(active, **options)
        RAN.clear()
        np.testing.assert_allclose(net(x).asnumpy(), expected)
        return [backend for backend, _, _ in RAN]

    assert ran((True, {"backend": "first"})) == ["first"]
    assert ran((True, {"backend": "second"})) == ["second"]
    assert ran((True, {"backend": "first", "clear": False})) == ["second", "first"][::-1]
    assert ran((True, {})) == []


def test_optimize_for_compiles_without_running_and_adds_up():
    partitioner("first", {"exp"})
    partitioner("second", {"log"})
    net = Function(lambda F, x: F.log(F.exp(x) + 1))
    x = values(3)
    net.optimize_for(x, backend="first")
    assert RAN == []
    assert "traced once" in net.explain()
    net.optimize_for(x, backend="second")
    net(x)
    assert [backend for backend, _, _ in RAN] == ["first", "second"]
    net.optimize_for(x, backend="second", clear=True)
    RAN.clear()
    net(x)
    assert [backend for backend, _, _ in RAN] == ["second"]
    assert "traced once" in net.explain()


def test_one_backend_with_several_partitioners_and_a_pass():
    order = []

    @mx.subgraph.register_pass("both")
    def drop_sine(module):
        order.append("pass")
        mx.subgraph.rewrite(module, lambda F, op, value: value(op.operands[0]) if op.name == "hybrid.sin" else None)

    class Exps(mx.subgraph.Partitioner):
        ops = ("exp",)

        def begin(self, module):
            order.append("Exps")
            assert "hybrid.sin" not in str(module)

    class Logs(mx.subgraph.Partitioner):
        ops = ("log", "hybrid.exp")

        def run(self, part, x):
            note(part)
            return part(x)

    mx.subgraph.register_partitioner("both")(Exps)
    mx.subgraph.register_partitioner("both")(Logs)
    net = Function(lambda F, x: F.log(F.sin(F.exp(x)) + 1))
    module = partitioned(net, values(3), backend="both")
    assert order == ["pass", "Exps"]
    assert parts(module) == [["exp"], ["log"]]
    outs, _ = run(net, values(3), backend="both")
    np.testing.assert_allclose(outs[0], np.log(np.exp(values(3).asnumpy()) + 1))
    assert RAN == [("both", "both1", ["log"])]


def test_a_pass_fuses_into_a_users_operator():
    @mx.op.register("subgraph_test.mul_add")
    class MulAdd(mx.op.Elementwise):
        """x * y + z"""

        INPUTS = ("x", "y", "z")

        def scalar(self, b, x, y, z):
            return b.add(b.mul(x, y), z)

        def gradient(self, F, dr, x, y, z, r):
            return dr * y, dr * x, dr

    @mx.subgraph.register_pass("fuse")
    def fuse(module):
        def rule(F, op, value):
            if op.name != "hybrid.add" or op.operands[0].owner.name != "hybrid.multiply":
                return None
            x, y = op.operands[0].owner.operands
            return F.mul_add(value(x), value(y), value(op.operands[1]))

        mx.subgraph.rewrite(module, rule)

    net = Function(lambda F, x, y: F.exp(x * y + x))
    x, y = values(2, 3), values(2, 3) + 0.5
    module = str(partitioned(net, x, y, backend="fuse"))
    assert "subgraph_test.mul_add" in module
    assert "hybrid.multiply" not in module
    outs, grads = run(net, x, y, backend="fuse")
    a, b = x.asnumpy(), y.asnumpy()
    np.testing.assert_allclose(outs[0], np.exp(a * b + a), rtol=1e-12)
    numeric = numeric_gradient(lambda a, b: (np.exp(a * b + a) ** 2).sum(), [a, b])
    for got, expected in zip(grads, numeric, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_pass_can_be_an_xdsl_pass_with_options():
    from dataclasses import dataclass

    from xdsl.passes import ModulePass

    @mx.subgraph.register_pass("renames")
    @dataclass(frozen=True)
    class Renames(ModulePass):
        name = "renames"
        title: str = "other"

        def apply(self, ctx, op):
            from xdsl.dialects.builtin import StringAttr

            op.sym_name = StringAttr(self.title)

    net = Function(lambda F, x: F.exp(x))
    assert "@other" in str(partitioned(net, values(2), backend="renames"))
    assert "@mine" in str(partitioned(net, values(2), backend="renames", title="mine"))


def test_a_backward_of_its_own():
    calls = []

    class Steep(mx.subgraph.Partitioner):
        """exp, with a gradient that is twice the true one."""

        ops = ("exp", "multiply")

        def backward(self, part, ograds, inputs, outputs):
            calls.append((len(ograds), len(inputs), len(outputs), part.state))
            return [2 * ograds[0] * outputs[0] * inputs[1], None]

        def create(self, part):
            return "mine"

    mx.subgraph.register_partitioner("steep")(Steep)
    net = Function(lambda F, x, y: F.exp(x * y).sum())
    net.hybridize(backend="steep")
    x, y = values(4), values(4) + 1
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        z = net(x, y)
    z.backward()
    a, b = x.asnumpy(), y.asnumpy()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * b * np.exp(a * b))
    np.testing.assert_allclose(y.grad.asnumpy(), 0)  # None: no gradient
    assert calls == [(1, 2, 1, "mine")]


def test_second_order():
    partitioner("taken", {"exp", "multiply"})
    net = Function(lambda F, x: F.exp(x) * x)
    net.hybridize(backend="taken")
    x = values(3)
    x.attach_grad()
    with autograd.record():
        y = net(x)
        (dx,) = autograd.grad([y], [x], create_graph=True)
    dx.backward()
    a = x.asnumpy()
    np.testing.assert_allclose(dx.asnumpy(), np.exp(a) * (a + 1), rtol=1e-12)
    np.testing.assert_allclose(x.grad.asnumpy(), np.exp(a) * (a + 2), rtol=1e-12)


def test_threads_have_states_of_their_own():
    barrier = threading.Barrier(4, timeout=30)
    states = set()

    def run_together(self, part, x):
        barrier.wait()
        states.add(id(part))
        result = part(x)
        barrier.wait()
        return result

    partitioner("taken", {"exp"}, run=run_together)
    net = Function(lambda F, x: F.exp(x) + 1)
    found = {}

    def work(number):
        x = nd.array([number], dtype="float64")
        found[number] = net(x).asscalar()

    net.hybridize(backend="taken")
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert found == pytest.approx({i: np.exp(i) + 1 for i in range(4)})
    assert len(states) == 4


def test_arrays_of_a_part_may_be_kept():
    kept = []

    def keep(self, part, x):
        kept.append(x)
        return part(x)

    partitioner("taken", {"exp"}, run=keep)
    net = Function(lambda F, x: F.exp(F.sin(x)) + F.cos(x))
    net.hybridize(backend="taken")
    a, b = values(3), values(3) + 1
    net(a)
    net(b)
    np.testing.assert_allclose(kept[0].asnumpy(), np.sin(a.asnumpy()))
    np.testing.assert_allclose(kept[1].asnumpy(), np.sin(b.asnumpy()))


def test_a_block_keeps_its_backend_through_children():
    partitioner("taken", {"FullyConnected"})
    net = network()
    net.hybridize(backend="taken")
    net[0](nd.ones((1, 4)))
    assert RAN == [("taken", "taken0", ["FullyConnected"])]
