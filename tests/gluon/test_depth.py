"""Deep and long networks: all that is done with them works at any depth, in time that follows their size."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from hybridc.ir.costs import LARGEST, body_size
from hybridc.ir.structured import kernels

# Deeper than Python's recursion is by default.
DEEP = 1100
X = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")


class Inside(mx.gluon.HybridBlock):
    """A block around another one."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.block = block

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.block(x)


class Chain(mx.gluon.HybridBlock):
    """An operator many times."""

    def __init__(self, count: int, operator: str = "tanh") -> None:
        super().__init__()
        self.count = count
        self.operator = operator

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        for _ in range(self.count):
            x = getattr(F, self.operator)(x)
        return x


def sequential(block: Any) -> Any:
    net = nn.HybridSequential()
    net.add(block)
    return net


def nested(around: Any, levels: int = 1000) -> Any:
    net: Any = nn.Dense(3, in_units=3)
    net.initialize(mx.init.Normal(1))
    for _ in range(levels):
        net = around(net)
    return net


def dense(net: Any) -> Any:
    """X times the weight of the only layer."""
    (weight,) = net.collect_params(".*weight").values()
    return X.astype("float64") @ weight.data().asnumpy().astype("float64").T


@pytest.mark.parametrize("around", [sequential, Inside])
def test_a_thousand_nested_blocks(around: Any, tmp_path: Path) -> None:
    net = nested(around)
    x = mx.nd.array(X)
    np.testing.assert_allclose(net(x).asnumpy(), dense(net), rtol=1e-5)
    for same in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(same(x).asnumpy(), net(x).asnumpy())
    assert repr(net).count("\n") == 2 * 1000
    net.cast("float32")
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), dense(net), rtol=1e-5)
    with mx.autograd.record():
        loss = net(x).sum()
    loss.backward()
    (weight,) = net.collect_params(".*weight").values()
    np.testing.assert_allclose(weight.grad().asnumpy(), np.tile(X.sum(0), (3, 1)), rtol=1e-5)
    net.save_parameters(str(tmp_path / "p"))
    net.load_parameters(str(tmp_path / "p"))
    net.export(str(tmp_path / "n"))
    read = mx.gluon.SymbolBlock.imports(str(tmp_path / "n-symbol.json"), ["data"], str(tmp_path / "n-0000.params"))
    np.testing.assert_allclose(read(x).asnumpy(), dense(net), rtol=1e-5)
    assert "signature" in str(net.explain())


def test_shallow_networks_leave_the_recursion_limit_alone() -> None:
    before = sys.getrecursionlimit()
    nested(sequential, 20)
    assert sys.getrecursionlimit() == before


def test_endless_nesting_is_a_recursion_error() -> None:
    with pytest.raises(RecursionError):
        nested(Inside, 5000)(mx.nd.array(X))


def test_changes_below_reach_graphs_above() -> None:
    inner = nn.HybridSequential()
    inner.add(nn.Dense(3, in_units=3, use_bias=False))
    net = sequential(sequential(inner))
    net.initialize()
    net.hybridize()
    x = mx.nd.array(X)
    first = net(x).asnumpy()
    for _ in range(2):  # the second change meets blocks whose graphs were dropped, and are there again
        inner.add(nn.HybridLambda("negative"))
        assert not np.array_equal(net(x).asnumpy(), first)
        first = net(x).asnumpy()


def test_blocks_with_deep_copies_of_their_own_keep_them() -> None:
    class Own(Inside):
        def __deepcopy__(self, memo: Any) -> Any:
            return Own(copy.deepcopy(self.block, memo))

    shared = nn.Dense(3, in_units=3)
    net = nn.HybridSequential()
    net.add(Own(shared), shared)
    made = copy.deepcopy(net)
    assert type(made[0]) is Own
    assert made[0].block is made[1]
    assert made[1] is not shared


@pytest.mark.parametrize("target", ["llvm", "numpy", "triton"])
def test_kernels_have_a_size_limit(target: str) -> None:
    """A chain becomes kernels of equal size, which are one, beside the one for what is left."""
    net = Chain(300)
    made = net.trace(mx.nd.array(X)).optimize().lower(target)
    bodies = [[body_size(op) for op in f.body.block.ops if op.regions] for f in kernels(made.module).values()]
    assert 1 <= len(bodies) <= 2
    assert all(LARGEST / 2 < sum(sizes) <= LARGEST or len(sizes) < 300 % 40 for sizes in bodies)
    assert max(map(len, bodies)) > 20


def test_a_kernel_of_cheap_steps_is_not_cut() -> None:
    made = Chain(100, "abs").trace(mx.nd.array(X)).optimize().lower("numpy")
    assert len(kernels(made.module)) == 1


def test_long_chains() -> None:
    x = X.astype("float64")
    for _ in range(DEEP):
        x = np.tanh(x)
    symbol: Any = mx.sym.var("data")
    for _ in range(DEEP):
        symbol = mx.sym.tanh(symbol)
    (made,) = symbol.eval(data=mx.nd.array(X))
    np.testing.assert_allclose(made.asnumpy(), x, rtol=1e-4)
    assert mx.sym.load_json(symbol.tojson()).list_arguments() == ["data"]
    net, data = Chain(DEEP), mx.nd.array(X)
    grads: list[Any] = []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        data.attach_grad()
        with mx.autograd.record():
            y = net(data)
        y.backward()
        np.testing.assert_allclose(y.asnumpy(), x, rtol=1e-4)
        grads.append(data.grad.asnumpy())
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-3)


@pytest.mark.long
def test_a_thousand_layers(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    for _ in range(1000):
        net.add(nn.Dense(3, in_units=3, use_bias=False))
    net.initialize(mx.init.Orthogonal(scale=1.0))
    x = mx.nd.array(X)
    expected = X.astype("float64")
    for weight in net.collect_params().values():
        expected = expected @ weight.data().asnumpy().astype("float64").T
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-3, atol=1e-3)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-3, atol=1e-3)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
    losses = [step(x, mx.nd.array(X)).mean().asscalar() for _ in range(3)]
    assert losses[2] < losses[0]
    net.export(str(tmp_path / "n"))
    read = mx.gluon.SymbolBlock.imports(str(tmp_path / "n-symbol.json"), ["data"], str(tmp_path / "n-0000.params"))
    np.testing.assert_allclose(read(x).asnumpy(), net(x).asnumpy(), rtol=1e-5)


class Shifted(mx.gluon.HybridBlock):
    """All its parameters are added."""

    def __init__(self, count: int) -> None:
        super().__init__()
        for i in range(count):
            setattr(self, f"w{i}", self.params.get(f"w{i}", shape=(3,)))

    def hybrid_forward(self, F: Any, x: Any, **parameters: Any) -> Any:
        for parameter in parameters.values():
            x = F.broadcast_add(x, parameter)
        return x


@pytest.mark.long
def test_thousands_of_parameters(tmp_path: Path) -> None:
    net, x = Shifted(5000), mx.nd.array(X)
    net.initialize(mx.init.Normal(1))
    params = net.collect_params()
    trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": 0.25})
    total = sum(p.data().asnumpy().astype("float64") for p in params.values())
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with mx.autograd.record():
            y = net(x)
        np.testing.assert_allclose(y.asnumpy(), X + total, rtol=1e-3, atol=1e-3)
        y.backward()
        trainer.step(1)  # each gradient is the number of rows
        total = total - 5000 * 0.25 * len(X)
    net.save_parameters(str(tmp_path / "p"))
    net.load_parameters(str(tmp_path / "p"))
    net.export(str(tmp_path / "n"))
    read = mx.gluon.SymbolBlock.imports(str(tmp_path / "n-symbol.json"), ["data"], str(tmp_path / "n-0000.params"))
    np.testing.assert_allclose(read(x).asnumpy(), X + total, rtol=1e-3)
    assert len(net.collect_params(".*w1")) == 1111
