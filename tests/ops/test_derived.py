"""Gradients of operators that give no rule: those of the scalar body or of the decomposition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd, op
from hybridc.array.ndarray import NDArray
from hybridc.dialects import gradient
from hybridc.dialects.operator import Composite, Elementwise
from hybridc.dialects.operator_registry import OPERATORS
from hybridc.errors import UnsupportedError
from hybridc.tools.check_op.case import each_gradient, gradients, ndarrays, run, weights_of, where
from tests.ops.samples import each

DERIVED = where(each_gradient, lambda case: isinstance(case.operator(), Elementwise) or case.operator().decomposes())


@each(DERIVED, lambda cls: issubclass(cls, Elementwise | Composite) and not cls.DRAWS)
def test_what_is_derived_is_what_the_rule_says(case):
    """The rules are tested against finite differences."""
    made, arrays = case.operator(), case.arrays()
    inputs = ndarrays(arrays)
    weights = weights_of(run(made, inputs))
    needed = [x.dtype == np.float64 and case.differentiable(i) for i, x in enumerate(arrays)]
    got = gradient.derived_gradients(made, nd, [NDArray(w) for w in weights], inputs, needed)
    for grad, rule, wanted in zip(got, gradients(made, arrays, weights), needed):
        if wanted:
            values = np.zeros_like(rule) if grad is None else grad.asnumpy()
            np.testing.assert_allclose(values, rule, rtol=1e-6, atol=1e-8)


X = np.array([[0.5, -1.5, 2.5], [1.25, -0.75, 0.25]])


@op.register("derived.bend")
class Bend(op.Elementwise):
    """x * tanh(log(1 + exp(x)))"""

    def scalar(self, b, x):
        return b.mul(x, b.tanh(b.log1p(b.exp(x))))

    @classmethod
    def samples(cls):
        return [op.Sample([X], lambda x: x * np.tanh(np.log(1 + np.exp(x))))]


@op.register("derived.clipped")
class Clipped(op.Elementwise):
    """min(max(x * slope, -1), y) where x > y, else x * y"""

    INPUTS = ("x", "y")
    slope: float = op.attribute(2.0, "before clipping")

    def scalar(self, b, x, y):
        return b.select(b.gt(x, y), b.min(b.max(b.mul(x, self.slope), -1.0), y), b.mul(x, y))

    @classmethod
    def samples(cls):
        def reference(x, y):
            return np.where(x > y, np.minimum(np.maximum(2 * x, -1), y), x * y)

        return [op.Sample([X, X[::-1] * 0.7], reference), op.Sample([X, X[:1] * 0.7], reference)]


@op.register("derived.rms")
class RMS(op.Composite):
    """x / sqrt(mean(x ** 2)), over the last axis"""

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True))

    def decompose(self, F, x):
        return x * F.rsqrt(F.mean(F.square(x), axis=-1, keepdims=True))

    @classmethod
    def samples(cls):
        return [op.Sample([(3, 4)], lambda x: x / np.sqrt((x**2).mean(1))[:, None])]


@op.register("derived.normed")
class Normed(op.Composite):
    """(x - mean) / deviation * gamma, and the mean: a decomposition and nothing else"""

    INPUTS = ("x", "gamma")

    def num_outputs(self):
        return 2

    def decompose(self, F, x, gamma):
        mean = F.mean(x, axis=-1, keepdims=True)
        centered = x - mean
        scale = F.rsqrt(F.mean(F.square(centered), axis=-1, keepdims=True) + 1e-5)
        return F.broadcast_mul(centered * scale, gamma), mean

    @classmethod
    def samples(cls):
        def reference(x, gamma):
            mean = x.mean(1, keepdims=True)
            return (x - mean) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma, mean

        return [op.Sample([(3, 4), (4,)], reference)]

    @classmethod
    def bad_samples(cls):
        text = (
            "normed: its decomposition does not take inputs of shapes [(3, 4), (5,)]: multiply: shapes do not "
            "broadcast: lhs (3, 4), rhs (5,); axis 1 has sizes [4, 5], which must be equal or 1"
        )
        return [(((3, 4), (5,)), {}, text)]


@op.register("derived.itself")
class Itself(op.Composite):
    """x"""

    def decompose(self, F, x):
        return x

    @classmethod
    def samples(cls):
        return [op.Sample([(3, 4)], lambda x: x)]


@pytest.mark.parametrize("name", ["bend", "clipped", "rms", "normed", "itself"])
def test_operators_without_a_rule(name):
    """Gradients of first and second order against finite differences, eager against compiled."""
    mx.test_utils.check_op(f"derived.{name}")


def test_steps_are_fused_into_the_backward():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.bend(x * 2)

    net = Net()
    net.hybridize()
    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    assert "forward: 1 kernel, 0 of them host calls" in net.explain()
    assert "backward: 1 kernel, 0 of them host calls" in net.explain()


def test_no_gradient_flows_through_jumps():
    @op.register("derived.steps")
    class Steps(op.Elementwise):
        """floor(x) + (x > 0)"""

        def scalar(self, b, x):
            return b.add(b.floor(x), b.gt(x, 0.0))

    assert gradient.derived_gradients(Steps.bind(), nd, [mx.nd.array(X)], [mx.nd.array(X)], [True]) == [None]
    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = nd.steps(x) + x
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.ones_like(X))


def test_a_rule_may_say_that_there_is_none():
    @op.register("derived.silent")
    class Silent(op.Elementwise):
        """exp(x), without a gradient on purpose"""

        def scalar(self, b, x):
            return b.exp(x)

        def gradient(self, F, *values):
            return None

    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = nd.silent(x) + x
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.ones_like(X))


def backward(function):
    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = function(x)
    y.backward()


def place(statement, hybridized):
    """What stands before an error's text: the line of this statement and the network's name if that is compiled."""
    (number,) = (i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.strip() == statement)
    return f"{__file__}:{number} (in net): " if hybridized else ""


def test_steps_without_a_known_gradient(monkeypatch):
    monkeypatch.delitem(OPERATORS, "hybrid.fmod")

    @op.register("derived.remains")
    class Remains(op.Elementwise):
        """fmod(x, 2)"""

        def scalar(self, b, x):
            return b.fmod(x, 2.0)

    with pytest.raises(UnsupportedError) as error:
        backward(nd.remains)
    assert str(error.value) == (
        "operator derived.remains: the step b.fmod of its scalar body has no gradient rule; give the "
        "operator a gradient(self, F, dy, …) of its own"
    )


def test_draws_cannot_be_repeated():
    @op.register("derived.noise")
    class Noise(op.Composite):
        """x * a random number for each element"""

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, x):
            return x.copy()

        def decompose(self, F, x):
            return x * F.random.uniform(shape=x.shape)

    with pytest.raises(UnsupportedError) as error:
        backward(nd.noise)
    assert str(error.value) == (
        "operator derived.noise: its decomposition uses hybrid.random_uniform, which cannot be computed again for the "
        "gradient; give the operator a gradient(self, F, …) of its own"
    )


class Host(op.Opaque):
    """x"""

    def infer_shape(self, shapes):
        return shapes, [shapes[0]]

    def eager(self, x):
        return x.copy()


@op.register("derived.forgotten")
class Forgotten(Host):
    """x, by a host call without a gradient rule"""


@op.register("derived.stopped")
class Stopped(Host):
    """x, by a host call through which no gradient flows"""

    gradient = op.no_gradient


@pytest.mark.parametrize("hybridized", [False, True])
def test_host_calls_without_a_rule(hybridized):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.forgotten(x)

    net = Net(prefix="net_")
    if hybridized:
        net.hybridize()
    with pytest.raises(UnsupportedError) as error:
        backward(net)
    assert str(error.value) == place("return F.forgotten(x)", hybridized) + (
        "operator derived.forgotten has no gradient: give it a rule, gradient(self, F, …), or say gradient = "
        "mx.op.no_gradient if none is to flow"
    )
    assert net(mx.nd.array(X)).shape == X.shape  # without autograd it is of use


def test_host_calls_that_stop_gradients():
    x = mx.nd.array(X)
    x.attach_grad()
    with mx.autograd.record():
        y = nd.stopped(x) * x
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), X, rtol=1e-6)


ARRAY = mx.nd.ones((2, 3))


@op.register("derived.captures")
class Captures(op.Composite):
    """x + an array of the module"""

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x + 1

    def decompose(self, F, x):
        return x + ARRAY


@pytest.mark.parametrize("hybridized", [False, True])
def test_arrays_that_are_no_inputs(hybridized):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.captures(x)

    net = Net(prefix="net_")
    if hybridized:
        net.hybridize()
    with pytest.raises(UnsupportedError) as error:
        backward(net)
    assert str(error.value) == place("return F.captures(x)", hybridized) + (
        "operator derived.captures: its decomposition uses an array that is not one of its inputs; make it an input"
    )
