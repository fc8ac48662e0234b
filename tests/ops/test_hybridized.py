"""Every operator inside a hybridized block against the same operator run eagerly, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, random
from hybridc.dialects.operator import Elementwise, Reduction
from hybridc.dispatch import invoke
from hybridc.nd.ndarray import NDArray
from tests.ops.samples import (
    CALLS,
    SPECIAL,
    WITH_DTYPES,
    close,
    differentiable,
    gradients,
    inputs_of,
    run,
    weights_of,
)

# What cannot be inside a graph, and why.
NOT_TRACED: dict[str, str] = {
    "boolean_mask": "the result's shape depends on values",
}


def traced(call):
    return call.rpartition("-")[0] not in NOT_TRACED


FORWARD = [(call, dtype) for call, dtype in WITH_DTYPES if traced(call)]
BACKWARD = [call for call, (_, sample) in CALLS.items() if sample.grad and traced(call)]
TRAINING = [call for call, (cls, _) in CALLS.items() if cls.TRAIN_MODE and traced(call)]


class Net(mx.gluon.HybridBlock):
    """A block of one operator; it takes one more input, so that operators without inputs can be tested."""

    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, _, *inputs):
        return invoke(self.op, inputs)


def block(cls, sample):
    """A hybridized block of the sample's operator."""
    net = Net(cls.bind(**sample.attrs))
    net.hybridize()
    return net


def call_of(net):
    """The block as a function of the operator's inputs; the same random numbers at every call."""

    def apply(*inputs):
        with random.isolated(11), np.errstate(all="ignore"):
            result = net(NDArray(np.zeros(1, dtype=np.float32)), *inputs)
        return list(result) if isinstance(result, tuple | list) else [result]

    return apply


@pytest.mark.parametrize(("call", "dtype"), FORWARD)
def test_forward(call, dtype):
    cls, sample = CALLS[call]
    arrays = inputs_of(call, sample, dtype)
    want = run(cls.bind(**sample.attrs), [NDArray(x) for x in arrays])
    apply = call_of(block(cls, sample))
    for _ in range(2):  # the first call compiles, the second finds the compiled graph
        got = apply(*[NDArray(x) for x in arrays])
        assert len(got) == len(want)
        for y, w in zip(got, want):
            assert y.dtype == w.dtype
            close(y.asnumpy(), w.asnumpy(), dtype, 4)


@pytest.mark.parametrize("call", [c for c in CALLS if traced(c)])
def test_inputs_that_are_not_contiguous(call):
    cls, sample = CALLS[call]
    arrays = inputs_of(call, sample, sample.dtypes[0])
    want = run(cls.bind(**sample.attrs), [NDArray(x) for x in arrays])
    got = call_of(block(cls, sample))(*[NDArray(np.ascontiguousarray(x.T).T) for x in arrays])
    for y, w in zip(got, want):
        close(y.asnumpy(), w.asnumpy(), sample.dtypes[0], 4)


def compare_backward(call, training):
    cls, sample = CALLS[call]
    op = cls.bind(**sample.attrs)
    arrays = inputs_of(call, sample, "float64")
    mode = autograd.train_mode() if training else autograd.predict_mode()
    with mode:
        outputs = run(op, [NDArray(x) for x in arrays])
    weights = weights_of(outputs)
    want = gradients(op, arrays, weights, training)
    apply = call_of(block(cls, sample))
    inputs = [NDArray(x.copy()) for x in arrays]
    for x, given in zip(inputs, sample.inputs):
        if x.dtype is np.float64 and differentiable(given):
            x.attach_grad()
    with autograd.record(train_mode=training):
        got = apply(*inputs)
    for y, w in zip(got, outputs):
        close(y.asnumpy(), w.asnumpy(), "float64", 100)
    heads = [(y, NDArray(w)) for y, w in zip(got, weights) if y._entry is not None]
    if heads:
        autograd.backward([y for y, _ in heads], [w for _, w in heads], train_mode=training)
    for x, w in zip(inputs, want):
        if x.grad is not None:
            np.testing.assert_allclose(x.grad.asnumpy(), w, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("call", BACKWARD)
def test_backward(call):
    compare_backward(call, training=False)


@pytest.mark.parametrize("call", TRAINING)
def test_training(call):
    compare_backward(call, training=True)


ELEMENTWISE = [c for c, (cls, _) in CALLS.items() if issubclass(cls, Elementwise)]


@pytest.mark.parametrize("call", ELEMENTWISE)
def test_special_values(call):
    """Not-a-numbers, infinities and signed zeros, in arrays long enough for the vectorised part of a loop."""
    cls, sample = CALLS[call]
    grids = np.meshgrid(*[np.repeat(SPECIAL, 3)] * len(sample.inputs))
    arrays = [g.astype("float32") for g in grids]
    want = run(cls.bind(**sample.attrs), [NDArray(x) for x in arrays])
    got = call_of(block(cls, sample))(*[NDArray(x) for x in arrays])
    for y, w in zip(got, want):
        close(y.asnumpy(), w.asnumpy(), "float32", 4)


@pytest.mark.parametrize("call", ELEMENTWISE)
def test_elementwise_operators_are_one_kernel_without_host_calls(call):
    cls, sample = CALLS[call]
    net = block(cls, sample)
    call_of(net)(*[NDArray(x) for x in inputs_of(call, sample, "float32")])
    assert "forward: 1 kernel, 0 of them host calls" in net.explain()


OTHER_DTYPES = ["float16", "int32", "int64", "int8", "uint8"]
FIRST_OF_EACH = [c for c, (cls, s) in CALLS.items() if issubclass(cls, Elementwise | Reduction) and c.endswith("-0")]


@pytest.mark.parametrize("dtype", OTHER_DTYPES)
@pytest.mark.parametrize("call", FIRST_OF_EACH)
def test_other_dtypes(call, dtype):
    """Small whole numbers in half precision and in integers: the result has the input's dtype."""
    cls, sample = CALLS[call]
    rng = np.random.default_rng(1)
    arrays = [rng.integers(1, 4, np.shape(np.empty(x) if isinstance(x, tuple) else x)) for x in sample.inputs]
    op = cls.bind(**sample.attrs)
    want = run(op, [NDArray(x.astype(dtype)) for x in arrays])
    got = call_of(block(cls, sample))(*[NDArray(x.astype(dtype)) for x in arrays])
    for y, w in zip(got, want):
        assert y.dtype == w.dtype == op.infer_type([np.dtype(dtype)] * len(arrays))[1][0]
        close(y.asnumpy(), w.asnumpy(), dtype, 2)


# Operators that are passes over rows: all of one row fits into one kernel.
ROW_KERNELS = [
    "activation-0", "fully_connected-1", "instance_norm-0", "l2_normalization-0", "layer_norm-0",
    "leaky_relu-0", "log_softmax-0", "mean-1", "nansum-1", "norm-4", "prelu-0", "smooth_l1-0", "softmax-0", "softmin-0",
    "softmax_output-0", "square_sum-1", "sum-1",
]  # fmt: skip


@pytest.mark.parametrize("call", ROW_KERNELS)
def test_operators_over_rows_are_one_kernel(call):
    cls, sample = CALLS[call]
    net = block(cls, sample)
    call_of(net)(*[NDArray(x) for x in inputs_of(call, sample, "float32")])
    assert "forward: 1 kernel, 0 of them host calls" in net.explain()
