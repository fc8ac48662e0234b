"""Scalar bodies that no built-in operator has: each passes every check of ``check_op``."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import hybridc as mx
from hybridc import op
from tests.slices import one_in


def double_tanh(b, x):
    t = b.tanh(x)
    return b.mul(t, b.add(t, t))


def dead_step(b, x):
    b.log(x)
    return b.neg(x)


def chosen(b, x, y):
    inside = b.logical_and(b.gt(x, 0.0), b.lt(y, 1.0))
    return b.select(inside, b.mul(x, y), b.sub(x, y))


BODIES = {
    # name: body, reference, gradient where there is one
    "identity": (lambda b, x: x, lambda x: x, lambda F, dy, x, y: dy),
    "number": (lambda b, x: 2.5, lambda x: np.full_like(x, 2.5), None),
    "integer": (lambda b, x: 2, lambda x: np.full_like(x, 2), None),
    "second_only": (
        lambda b, x, y: b.exp(y),
        lambda x, y: np.exp(y) + 0 * x,
        lambda F, dy, x, y, z: (None, dy * z),
    ),
    "second_itself": (lambda b, x, y: y, lambda x, y: y + 0 * x, lambda F, dy, x, y, z: (None, dy)),
    "predicate": (lambda b, x: b.gt(x, 0.0), lambda x: (x > 0) * 1.0, None),
    "chosen": (chosen, lambda x, y: np.where((x > 0) & (y < 1), x * y, x - y), None),
    "three": (
        lambda b, x, y, z: b.add(b.mul(x, y), z),
        lambda x, y, z: x * y + z,
        lambda F, dy, x, y, z, o: (dy * y, dy * x, dy),
    ),
    "step_used_twice": (double_tanh, lambda x: 2 * np.tanh(x) ** 2, None),
    "dead_step": (dead_step, lambda x: -x, lambda F, dy, x, y: -dy),
    "number_first": (lambda b, x: b.sub(1, b.pow(2.0, x)), lambda x: 1 - 2.0**x, None),
    "special": (
        lambda b, x: b.mul(b.erf(x), b.lgamma(b.add(b.abs(x), 1.0))),
        lambda x: special.erf(x) * special.gammaln(np.abs(x) + 1),
        None,
    ),
    "through_integers": (lambda b, x: b.mul(b.cast(x, "int32"), 0.5), lambda x: np.trunc(x) * 0.5, None),
    "angle": (lambda b, x, y: b.atan2(x, y), lambda x, y: np.arctan2(x, y), None),
}


def register(name):
    """An elementwise operator of a body."""
    body, reference, gradient = BODIES[name]
    count = body.__code__.co_argcount - 1
    shapes = [[(3, 4)] * count, [(3, 1), (1, 4), (3, 4)][:count]]

    class Body(op.Elementwise):
        """One body"""

        INPUTS = ("a", "b", "c")[:count]

        def scalar(self, b, *xs):
            return body(b, *xs)

        @classmethod
        def samples(cls):
            return [op.Sample(s, reference, grad=gradient is not None) for s in shapes]

    if gradient is not None:
        Body.gradient = lambda self, F, *values: gradient(F, *values)
    op.register(f"bodies.{name}_body")(Body)


for each in BODIES:
    register(each)


@pytest.mark.parametrize("name", one_in(2, list(BODIES)))
def test_body(name):
    mx.test_utils.check_op(f"bodies.{name}_body")


def test_a_body_that_is_its_input_gives_an_array_of_its_own():
    x = mx.nd.ones(3)
    y = mx.nd.identity_body(x)
    y[:] = 0
    assert x.asnumpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_cast_to_integers_as_the_last_step(hybridized):
    @op.register("bodies.truncated")
    class Truncated(op.Elementwise):
        """trunc(x)"""

        def scalar(self, b, x):
            return b.cast(x, "int32")

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.truncated(x)

    net = Net()
    if hybridized:
        net.hybridize()
    np.testing.assert_array_equal(net(mx.nd.array([1.7, -1.7, 3.0])).asnumpy(), [1, -1, 3])
