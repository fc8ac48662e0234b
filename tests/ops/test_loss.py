"""The special gradients of output layers, against formulas in float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc import autograd, nd
from hybridc.array.ndarray import NDArray

RNG = np.random.default_rng(0)
SCORES = RNG.uniform(-2, 2, (4, 3))
LABELS = np.array([0.0, 2.0, 1.0, 2.0])


def gradient(op, x, label, head=None, **attrs):
    """The gradient that the operator gives its data."""
    data, labels = NDArray(np.array(x)), NDArray(np.array(label))
    data.attach_grad()
    with autograd.record():
        y = op(data, labels, **attrs)
    y.backward(NDArray(np.full(y.shape, 7.0) if head is None else head))
    return data.grad.asnumpy()


def softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


def one_hot(label, classes):
    return (np.arange(classes) == np.asarray(label)[..., None]).astype(float)


PLAIN = softmax(SCORES) - one_hot(LABELS, 3)
COUNTS = (LABELS != 2)[:, None]


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        ({}, PLAIN),
        ({"grad_scale": 2.5}, PLAIN * 2.5),
        ({"normalization": "batch"}, PLAIN / 4),
        ({"normalization": "valid"}, PLAIN / 4),
        ({"use_ignore": True, "ignore_label": 2}, PLAIN * COUNTS),
        ({"use_ignore": True, "ignore_label": 2, "normalization": "valid"}, PLAIN * COUNTS / 2),
        ({"use_ignore": True, "ignore_label": 2, "normalization": "batch"}, PLAIN * COUNTS / 4),
        ({"out_grad": True}, PLAIN * 7),
        ({"smooth_alpha": 0.1}, softmax(SCORES) - np.where(one_hot(LABELS, 3), 0.9, 0.05)),
    ],
    ids=str,
)
def test_softmax_output(attrs, want):
    np.testing.assert_allclose(gradient(nd.SoftmaxOutput, SCORES, LABELS, **attrs), want, rtol=1e-9, atol=1e-12)


def test_softmax_output_with_probabilities_as_labels():
    share = softmax(RNG.uniform(-1, 1, (4, 3)))
    got = gradient(nd.Softmax, SCORES, share, grad_scale=3.0)
    np.testing.assert_allclose(got, 3 * (softmax(SCORES) - share), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("normalization", "divisor"), [("null", 5), ("batch", 20), ("valid", 20)])
def test_softmax_output_with_several_positions(normalization, divisor):
    x, label = RNG.uniform(-2, 2, (4, 3, 5)), RNG.integers(0, 3, (4, 5)).astype(float)
    want = (softmax(x, 1) - one_hot(label, 3).transpose(0, 2, 1)) / divisor
    got = gradient(nd.SoftmaxOutput, x, label, multi_output=True, normalization=normalization)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_softmax_output_along_the_last_axis():
    x, label = RNG.uniform(-2, 2, (4, 2, 3)), RNG.integers(0, 3, (4, 2)).astype(float)
    got = gradient(nd.SoftmaxOutput, x, label, preserve_shape=True)
    np.testing.assert_allclose(got, softmax(x) - one_hot(label, 3), rtol=1e-9, atol=1e-12)


def test_labels_may_be_integers():
    got = gradient(nd.SoftmaxOutput, SCORES, LABELS.astype(np.int32))
    np.testing.assert_allclose(got, PLAIN, rtol=1e-9, atol=1e-12)


def test_labels_outside_of_the_classes_lower_no_score():
    got = gradient(nd.SoftmaxOutput, SCORES, [0.0, 5.0, 1.0, -1.0])
    np.testing.assert_allclose(got[1], softmax(SCORES)[1], rtol=1e-9)


TARGET = RNG.uniform(0, 1, (4, 3))


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (nd.LinearRegressionOutput, SCORES - TARGET),
        (nd.MAERegressionOutput, np.sign(SCORES - TARGET)),
        (nd.LogisticRegressionOutput, 1 / (1 + np.exp(-SCORES)) - TARGET),
    ],
)
def test_regression_divides_by_the_numbers_of_an_example(op, want):
    got = gradient(op, SCORES, TARGET, grad_scale=1.5)
    np.testing.assert_allclose(got, want * 1.5 / 3, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
def test_svm_output_is_the_gradient_of_its_loss(linear):
    margin, factor, eps = 0.7, 1.3, 1e-6

    def loss(x):
        side = np.where(one_hot(LABELS, 3), -1.0, 1.0)
        hinge = np.maximum(margin + side * x, 0)
        return factor * (hinge if linear else hinge**2).sum()

    got = gradient(nd.SVMOutput, SCORES, LABELS, margin=margin, regularization_coefficient=factor, use_linear=linear)
    for i in np.ndindex(SCORES.shape):
        step = np.zeros(SCORES.shape)
        step[i] = eps
        assert got[i] == pytest.approx((loss(SCORES + step) - loss(SCORES - step)) / (2 * eps), abs=1e-6)


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        ({}, 1),
        ({"grad_scale": 3}, 3),
        ({"normalization": "batch"}, 1 / 4),
        ({"normalization": "valid"}, 1 / 6),
    ],
    ids=str,
)
def test_make_loss(attrs, want):
    x = np.array([[1.0, -1.0, 2.0], [0.0, 3.0, -4.0], [1.0, -1.0, 1.0], [-1.0, -1.0, 2.0]])
    data = NDArray(x)
    data.attach_grad()
    with autograd.record():
        y = nd.MakeLoss(data, **attrs)
        heads = y * 5, nd.make_loss(data) * 5
    np.testing.assert_array_equal(y.asnumpy(), x)
    heads[0].backward()
    np.testing.assert_allclose(data.grad.asnumpy(), np.full((4, 3), want))
    heads[1].backward()
    np.testing.assert_allclose(data.grad.asnumpy(), np.ones((4, 3)))
