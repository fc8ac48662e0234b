"""Floats of blocks that change from call to call: one graph for all values, where its value shapes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import HybridBlock
from tests.trace.test_guards import again, parent

X = mx.nd.array([1.0, 2.0])


class Net(HybridBlock):
    def __init__(self, use, **attributes):
        super().__init__(prefix="net_")
        self.use = use
        self.rate = 2.5
        self.other = 0.5
        for name, value in attributes.items():
            setattr(self, name, value)

    def hybrid_forward(self, F, x):
        return self.use(self, F, x)


def traced(net):
    return net._cached_graph._traced


ARGUMENTS = {
    "product": lambda self, F, x: x * self.rate,
    "reflected": lambda self, F, x: self.rate / x - x,
    "mixed": lambda self, F, x: (1 - self.rate) * x + self.rate * self.other * F.exp(x),
    "negative": lambda self, F, x: -self.rate + x,
    "function": lambda self, F, x: F.broadcast_maximum(x, F.ones_like(x) * self.rate) + x**self.rate,
    "halves": lambda self, F, x: F.cast(F.cast(x, "float16") * self.rate, "float32"),
    "passed on": lambda self, F, x: helper(F, x, self.rate),
}
CONSTANTS = {
    "comparison": lambda self, F, x: x * 2 if self.rate > 3 else x * 3,
    "int": lambda self, F, x: x * int(self.rate),
    "text": lambda self, F, x: x * float(f"{self.rate}"),
    "math": lambda self, F, x: x * math.exp(self.rate),
    "numpy": lambda self, F, x: x * np.float32(self.rate),
    "attribute": lambda self, F, x: F.clip(x, 0, self.rate * 0.3),
    "integers": lambda self, F, x: F.cast(F.cast(x, "int32") * self.rate, "float32"),
    "set": lambda self, F, x: setattr(self, "last", self.rate * 1.0) or x * self.last,
}


def helper(F, x, number):
    assert isinstance(number, float)
    return F.sqrt(x * number + 0.5)


@pytest.mark.parametrize("name", [*ARGUMENTS, *CONSTANTS])
def test_annealing(name):
    use = {**ARGUMENTS, **CONSTANTS}[name]
    net = Net(use)
    net.hybridize()
    for value in (2.5, 3.5, 0.25, 4.75, 2.5):
        net.rate = value
        got = net(X).asnumpy()
        np.testing.assert_allclose(got, net(X).asnumpy())
        count = traced(net)
        np.testing.assert_allclose(got, again(net), rtol=2e-3 if name == "halves" else 1e-6, err_msg=str(value))
        assert type(net.rate) is float
    if name in ARGUMENTS:
        assert count == 2
    else:
        assert count == 4  # the last value has a graph of before
    assert type(getattr(net, "last", 0.0)) is float


def test_a_child_and_its_gradients():
    net = parent(Net(lambda self, F, x: x * x * self.rate))
    net.hybridize()
    x = X.copy()
    x.attach_grad()
    waiting = []
    for value in (2.5, 3.5, 0.25, 4.75):
        net.child.rate = value
        with mx.autograd.record():
            waiting.append((value, net(x)))
    assert traced(net) == 2
    for value, y in waiting:  # each backward has the number of its forward
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * value * x.asnumpy(), rtol=1e-6)


def test_what_is_no_float_any_more():
    net = Net(ARGUMENTS["product"])
    net.hybridize()
    for value in (1.5, 2.5, 3, None, 3.5):
        net.rate = value
        if value is None:
            with pytest.raises(mx.MXNetError, match="missing"):
                net(X)
        else:
            np.testing.assert_allclose(net(X).asnumpy(), value * X.asnumpy())
    assert "attribute net_rate was a float, and is 3 now" in net.explain()


def test_code_that_takes_only_floats():
    def use(self, F, x):
        assert type(self.rate) is float
        return x * self.rate

    net = Net(use)
    net.hybridize()
    for value in (1.5, 2.5, 3.5):
        net.rate = value
        np.testing.assert_allclose(net(X).asnumpy(), value * X.asnumpy())


def test_an_exported_network_has_its_last_number(tmp_path):
    net = Net(ARGUMENTS["product"])
    net.hybridize()
    for value in (1.5, 2.5):
        net.rate = value
        net(X)
    net.export(str(tmp_path / "net"))
    loaded = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    np.testing.assert_allclose(loaded(X).asnumpy(), 2.5 * X.asnumpy())
