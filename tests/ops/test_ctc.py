"""CTCLoss: long sequences in single precision, what the native loops make of bad input, missing derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.errors import CheckError, IndexRangeError, MXNetError, UnsupportedError
from hybridc.gluon.nn import HybridLambda
from hybridc.options import OPTIONS

RNG = np.random.default_rng(7)
STEPS, BATCH, CLASSES = 150, 6, 20
DATA = 3 * RNG.normal(size=(STEPS, BATCH, CLASSES))
LABEL = RNG.integers(0, CLASSES - 1, (BATCH, 33)).astype(np.int32)
LABEL[:, 5:9] = LABEL[:, 5:6]  # repeated ones
LENGTHS = np.int32([150, 149, 40, 1, 0, 100]), np.int32([33, 1, 33, 1, 0, 0])


def loss_block():
    flags = {"use_data_lengths": True, "use_label_lengths": True, "blank_label": "last"}
    return HybridLambda(lambda F, *inputs: F.CTCLoss(*inputs, **flags))


def evaluated(block, dtype, *lengths):
    x = mx.nd.array(DATA, dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = block(x, *[mx.nd.array(v, dtype="int32") for v in (LABEL, *lengths)])
    y.backward(mx.nd.array(np.arange(1, BATCH + 1), dtype=dtype))
    return y.asnumpy(), x.grad.asnumpy()


@pytest.fixture(scope="module")
def double():
    """In double precision, eagerly: what the operator's samples compare with its definition."""
    return evaluated(loss_block(), "float64", *LENGTHS)


def test_too_many_labels_cost_nothing(double):
    loss, gradient = double
    assert (loss > 0).tolist() == [True, True, True, True, False, True]  # of 0 steps for 0 labels
    assert not gradient[40:, 2].any()
    assert gradient[:40, 2].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_long_sequences_are_exact(double, hybrid, dtype):
    block = loss_block()
    block.hybridize(hybrid)
    loss, gradient = evaluated(block, dtype, *LENGTHS)
    np.testing.assert_allclose(loss, double[0], rtol=3e-7 if dtype == "float32" else 1e-13)
    np.testing.assert_allclose(gradient, double[1], atol=1e-4 if dtype == "float32" else 1e-11)


def test_target_numpy(double):
    flags = {"use_data_lengths": True, "use_label_lengths": True, "blank_label": "last"}
    block = HybridLambda(lambda F, *inputs: F.CTCLoss(*inputs, **flags))
    arrays = [np.float32(DATA), LABEL, *LENGTHS]
    graph = block.trace(*[mx.nd.array(x, dtype=x.dtype) for x in arrays]).optimize()
    (found,) = graph.lower("numpy").compile().forward(*arrays)
    np.testing.assert_allclose(found, double[0], rtol=3e-7)


def test_infinitely_improbable_labels():
    x = np.zeros((3, 1, 3), np.float32)
    x[:, :, 1] = -np.inf
    block = HybridLambda(lambda F, x, y: F.CTCLoss(x, y))
    for hybrid in (False, True):
        block.hybridize(hybrid)
        assert block(mx.nd.array(x), mx.nd.array([[1]])).asnumpy().tolist() == [np.inf]
        np.testing.assert_allclose(block(mx.nd.array(x), mx.nd.array([[2]])).asnumpy(), [-np.log(6 / 8)], rtol=1e-6)


@pytest.mark.parametrize(
    ("label", "lengths"),
    [([[1], [5]], [3, 3]), ([[1], [-1]], [3, 3]), ([[1], [1]], [3, 4]), ([[1], [1]], [3, -1])],
)
def test_bad_input_is_an_error_or_not_a_number(label, lengths):
    """Natively, where nothing can raise, it spoils its own sequence alone."""
    block = HybridLambda(lambda F, x, y, n: F.CTCLoss(x, y, n, use_data_lengths=True))
    inputs = [mx.nd.array(DATA[:3, :2, :5]), mx.nd.array(label), mx.nd.array(lengths)]
    with pytest.raises(IndexRangeError, match=r"CTCLoss: (label\[1, 0\]|data_lengths\[1\]) is"):
        block(*inputs)
    block.hybridize()
    inputs[0].attach_grad()
    if OPTIONS.target == "numpy":
        with pytest.raises(IndexRangeError, match="CTCLoss: "):
            block(*inputs)
        return
    with autograd.record():
        y = block(*inputs)
    y.backward()
    assert np.isnan(y.asnumpy()).tolist() == [False, True]
    assert np.isnan(inputs[0].grad.asnumpy()).all((0, 2)).tolist() == [False, True]
    assert np.isfinite(inputs[0].grad.asnumpy()[:, 0]).all()


def test_lengths_that_are_not_used():
    x, y, n = mx.nd.ones((3, 1, 3)), mx.nd.ones((1, 2)), mx.nd.ones(1)
    want = mx.nd.CTCLoss(x, y, label_lengths=n, use_label_lengths=True).asnumpy()
    # As in MXNet, the third array is that of the labels, if these alone have one.
    np.testing.assert_array_equal(mx.nd.CTCLoss(x, y, n, use_label_lengths=True).asnumpy(), want)
    text = r"input 'data_lengths' is given, but it takes \(data, label, label_lengths\); set use_data_lengths=True, or"
    with pytest.raises(MXNetError, match=text):
        mx.nd.CTCLoss(x, y, n, n, use_label_lengths=True)
    text = (
        r"SequenceMask: input 'sequence_length' is given, but it takes \(data\); set use_sequence_length=True, or leave"
    )
    with pytest.raises(MXNetError, match=text):
        mx.nd.SequenceMask(x, n)
    with pytest.raises(MXNetError, match="input 'label_lengths' is missing"):
        mx.nd.CTCLoss(x, y, use_label_lengths=True)


def test_no_second_derivative():
    x = mx.nd.ones((3, 1, 3))
    x.attach_grad()
    with autograd.record():
        y = mx.nd.CTCLoss(x, mx.nd.ones((1, 1)))
        (dx,) = autograd.grad(y, [x], create_graph=True)
    with pytest.raises(UnsupportedError, match="CTCLoss has no second derivative"):
        dx.backward()


def test_layouts_of_the_loss():
    with pytest.raises(CheckError, match="layout must be 'NTC' or 'TNC', got 'NCT'"):
        mx.gluon.loss.CTCLoss(layout="NCT")
    with pytest.raises(CheckError, match="label_layout must be 'NT' or 'TN', got 'T'"):
        mx.gluon.loss.CTCLoss(label_layout="T")
