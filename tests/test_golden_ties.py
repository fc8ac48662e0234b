"""MXNet's answers where a function has two: at ties, for zeros with a sign, for windows and steps of nothing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from tests.golden.tie_cases import CASES, LABELS, halves, run

with np.load(Path(__file__).parent / "golden" / "ties.npz") as file:
    GOLDEN = dict(file)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_ties(name, hybridize):
    found = run(mx, name, hybridize)
    wanted = [GOLDEN[f"{name}/{i}"] for i in range(len(found))]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    if name.startswith("sign"):
        assert not np.signbit(found[0][np.array(CASES[name][1][0]) == 0]).any()


def test_labels_have_no_gradient_here():
    assert all(sum(name.startswith(label) for name in CASES) for label in LABELS)


def test_halves_of_images():
    for name, image in halves(mx).items():
        np.testing.assert_array_equal(image, GOLDEN[name], name)


# --- integers: the reference is NumPy, in 64 bits -----------------------------------------------------------------


class Statistics(mx.gluon.HybridBlock):
    """The mean, the norms and the moments of an array."""

    def hybrid_forward(self, F, x):
        return (F.mean(x), F.norm(x), F.norm(x, ord=1), *F.moments(x, axes=(0,)), F.mean(x, axis=0, keepdims=True))


INTEGERS = [
    ("uint8", np.full(256, 1)),
    ("uint8", np.full(300, 200)),
    ("int8", np.full(128, 1)),
    ("int8", np.full(200, -2)),
    ("uint8", np.array([20, 25, 30])),
    ("int8", np.array([-128, 127, 3, -50])),
    ("int32", np.full(1000, 2**24)),
    ("int32", np.arange(-500, 100) * 12345),
]


# COMPAT: in MXNet sums, counts and squares of small integers overflow: the mean of 300 times 200 is 2.
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(("dtype", "values"), INTEGERS)
def test_integers_whose_sums_are_wider(dtype, values, hybridize):
    net = Statistics()
    net.hybridize(hybridize)
    found = [y.asnumpy() for y in net(mx.nd.array(values, dtype=dtype))]
    mean = int(values.sum() / len(values))
    variance = int((((values - mean) ** 2).astype(object)).sum() // len(values))
    norms = math.isqrt((values.astype(object) ** 2).sum()), int(np.abs(values).sum())
    with np.errstate(all="ignore"):
        for one, other in zip(found, (mean, *norms, mean, variance, mean), strict=True):
            assert one.dtype == dtype
            assert one.tolist() == [np.array(other).astype(dtype).item()]


# --- where MXNet's gradients are wrong: the reference is calculus -------------------------------------------------

# The derivative, or second one, at 0.3 and 1.7, of what MXNet 1.9.1 has another value for.
DERIVATIVES = {
    "selu": (1, lambda x: np.where(x > 0, 1, 1.6732632423543772 * np.exp(x)) * 1.0507009873554805, [-2.0, -0.3, 0.7]),
    "arcsinh": (2, lambda x: -x / (x * x + 1) ** 1.5, [-2.0, 0.3, 1.7]),
    "arccosh": (2, lambda x: -x / (x * x - 1) ** 1.5, [1.1, 1.7, 3.0]),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_that_are_wrong_in_mxnet(name):
    order, reference, at = DERIVATIVES[name]
    x = mx.nd.array(at, dtype="float64")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.LeakyReLU(x, act_type=name) if name == "selu" else getattr(mx.nd, name)(x)
        if order == 2:
            y = mx.autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), reference(np.array(at)), rtol=1e-12)


def test_degrees_can_be_differentiated_twice():
    """The second derivative of degrees(x) ** 2 is 2 * (180 / pi) ** 2; in MXNet it is an error."""
    x = mx.nd.array([0.3], dtype="float64")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.autograd.grad(mx.nd.degrees(x) ** 2, x, create_graph=True, retain_graph=True)[0]
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [2 * (180 / np.pi) ** 2], rtol=1e-12)


@pytest.mark.parametrize("of_data", ["write", "null"])
def test_a_bias_whose_weight_has_no_gradient(of_data):
    """It is the sum over the batch; in MXNet the array is left as it was."""
    symbol = mx.sym.FullyConnected(mx.sym.var("x"), mx.sym.var("w"), mx.sym.var("b"), num_hidden=2)
    arrays = {"x": mx.nd.ones((4, 3)), "w": mx.nd.ones((2, 3)), "b": mx.nd.ones(2)}
    grads = {name: mx.nd.full(arrays[name].shape, 9) for name in ("x", "b")}
    executor = symbol.bind(mx.cpu(), arrays, grads, {"x": of_data, "w": "null", "b": "write"})
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((4, 2))])
    assert executor.grad_dict["b"].asnumpy().tolist() == [4, 4]
    assert executor.grad_dict["x"].asnumpy()[0].tolist() == ([2, 2, 2] if of_data == "write" else [9, 9, 9])
