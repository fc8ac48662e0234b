"""Every operator against its samples: values, gradients, memory, inference, decomposition, error texts."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc import autograd, nd
from hybridc.dialects.operator import Elementwise, Movement
from hybridc.dialects.scalar import NUMPY
from hybridc.dispatch import invoke
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.nd.ndarray import NDArray
from tests.ops.samples import (
    BAD_CALLS,
    CALLS,
    SPECIAL,
    WITH_DTYPES,
    bound,
    close,
    differences,
    differentiable,
    eager,
    gradients,
    inputs_of,
    keyed,
    reference_of,
    run,
    weights_of,
)

GRADIENTS = [call for call, (_, sample) in CALLS.items() if sample.grad]
# First derivatives only, and why.
ONCE = {
    "gamma": "needs the derivative of digamma",
    "gammaln": "needs the derivative of digamma",
}


@pytest.mark.parametrize(("call", "dtype"), WITH_DTYPES)
def test_values(call, dtype):
    cls, sample = CALLS[call]
    arrays = inputs_of(call, sample, dtype)
    want = reference_of(sample, arrays)
    got = run(bound(cls, sample), [NDArray(x) for x in arrays])
    assert len(got) == len(want)
    for y, w in zip(got, want):
        assert not np.shares_memory(y._data, w)
        close(y.asnumpy(), w, dtype)


@pytest.mark.parametrize(("call", "dtype"), WITH_DTYPES)
def test_inferred_shapes_and_types(call, dtype):
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = keyed(op, inputs_of(call, sample, dtype))
    got = eager(op, arrays[: len(arrays) - op.DRAWS])
    in_shapes, out_shapes = op.infer_shape([x.shape for x in arrays])
    in_types, out_types = op.infer_type([x.dtype for x in arrays])
    assert len(got) == op.num_outputs()
    assert in_shapes == [x.shape for x in arrays]
    assert out_shapes == [y.shape for y in got]
    assert in_types == [x.dtype for x in arrays]
    assert out_types == [y.dtype for y in got]


@pytest.mark.parametrize("call", CALLS)
def test_inputs_that_are_not_contiguous(call):
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = inputs_of(call, sample, sample.dtypes[0])
    want = eager(op, arrays)
    for layout in (transposed, strided, reversed_in_memory):
        for y, w in zip(eager(op, [layout(x) for x in arrays]), want):
            close(y, w, sample.dtypes[0])


def transposed(x):
    """The same values with the axes in the opposite order in memory."""
    return np.ascontiguousarray(x.T).T


def strided(x):
    """The same values, every second element of a larger array that holds nan or junk between them."""
    wide = np.full([2 * n for n in x.shape], np.nan if x.dtype.kind == "f" else 1).astype(x.dtype)
    view = wide[tuple(slice(1, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def reversed_in_memory(x):
    """The same values with negative strides."""
    back = (slice(None, None, -1),) * x.ndim
    return np.ascontiguousarray(x[back])[back]


@pytest.mark.parametrize("call", CALLS)
def test_inputs_stay_as_they_are(call):
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = inputs_of(call, sample, sample.dtypes[0])
    before = [x.copy() for x in arrays]
    results = eager(op, arrays)
    for x, b in zip(arrays, before):
        np.testing.assert_array_equal(x, b)
    for y in results:
        # The result of a movement may be a view; test_views tests which are.
        assert isinstance(op, Movement) or not any(np.shares_memory(y, x) for x in arrays)


@pytest.mark.parametrize("call", [c for c, (cls, _) in CALLS.items() if issubclass(cls, Movement)])
def test_views(call):
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = inputs_of(call, sample, sample.dtypes[0])
    result = eager(op, arrays)[0]
    if op.is_view() and result.size:
        assert np.shares_memory(result, arrays[0])


@pytest.mark.parametrize("call", CALLS)
def test_eager_into_given_arrays(call):
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = keyed(op, inputs_of(call, sample, sample.dtypes[0]))
    want = eager(op, arrays[: len(arrays) - op.DRAWS])
    outs = [np.empty_like(w) for w in want]
    with np.errstate(all="ignore"):
        op.eager_out(outs, *arrays)
    for y, w in zip(outs, want):
        close(y, w, sample.dtypes[0])


def decomposing():
    """Calls, dtypes and modes in which the operator decomposes."""
    for call, dtype in WITH_DTYPES:
        cls, sample = CALLS[call]
        for training in sorted({False, cls.TRAIN_MODE}):
            if bound(cls, sample, training).decomposes():
                yield call, dtype, training


@pytest.mark.parametrize(("call", "dtype", "training"), list(decomposing()))
def test_decomposition(call, dtype, training):
    cls, sample = CALLS[call]
    op = bound(cls, sample, training)
    arrays = keyed(op, inputs_of(call, sample, dtype))
    with np.errstate(all="ignore"):
        made = op.decompose(nd, *[NDArray(x) for x in arrays])
    got = list(made) if isinstance(made, tuple | list) else [made]
    want = eager(op, arrays[: len(arrays) - op.DRAWS])
    assert len(got) == len(want)
    for y, w in zip(got, want):
        assert y.asnumpy().dtype == w.dtype
        close(y.asnumpy(), w, dtype)


def elementwise():
    return [c for c, (cls, _) in CALLS.items() if issubclass(cls, Elementwise)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("call", elementwise())
def test_fast_path_agrees_with_scalar_body_on_special_values(call, dtype):
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = [g.astype(dtype) for g in np.meshgrid(*[SPECIAL] * len(sample.inputs))]
    got = eager(op, arrays)[0]
    with np.errstate(all="ignore"):
        want = np.broadcast_to(op.scalar(NUMPY, *arrays), got.shape)
    close(got, want.astype(got.dtype), dtype)


@pytest.mark.parametrize("call", GRADIENTS)
def test_gradient(call):
    cls, sample = CALLS[call]
    for training in {False, cls.TRAIN_MODE and not cls.DRAWS}:
        op = bound(cls, sample, training)
        arrays = inputs_of(call, sample, "float64")
        weights = weights_of(run(op, [NDArray(x) for x in arrays]))

        def loss(moved, op=op, weights=weights):
            return sum(float((y.asnumpy() * w).sum()) for y, w in zip(run(op, [NDArray(x) for x in moved]), weights))

        got = gradients(op, arrays, weights, training)
        for i, grad in enumerate(got):
            if grad is not None and differentiable(sample.inputs[i]):
                np.testing.assert_allclose(grad, differences(loss, arrays, i), rtol=1e-5, atol=2e-7)


@pytest.mark.parametrize("call", GRADIENTS)
def test_second_gradient(call):
    """The gradient's derivative in one direction, against the difference of gradients."""
    cls, sample = CALLS[call]
    op = bound(cls, sample)
    arrays = inputs_of(call, sample, "float64")
    chosen = [i for i, x in enumerate(arrays) if x.dtype == np.float64 and differentiable(sample.inputs[i])]
    rng = np.random.default_rng(3)
    weights = weights_of(run(op, [NDArray(x) for x in arrays]))
    directions = {i: rng.uniform(-1, 1, arrays[i].shape) for i in chosen}

    def slope(moved):
        """The gradient along the directions, as something to be differentiated."""
        inputs = [NDArray(x.copy()) for x in moved]
        for i in chosen:
            inputs[i].attach_grad()
        with autograd.record(train_mode=False):
            outputs = run(op, inputs)
            heads = [(y, NDArray(w)) for y, w in zip(outputs, weights) if y._entry is not None]
            grads = autograd.grad(
                [y for y, _ in heads],
                [inputs[i] for i in chosen],
                head_grads=[w for _, w in heads],
                create_graph=True,
                train_mode=False,
            )
            total = sum((nd.sum(g * NDArray(directions[i])) for g, i in zip(grads, chosen)), NDArray(np.zeros(1)))
        return total, inputs

    with np.errstate(all="ignore"):
        try:
            total, inputs = slope(arrays)
            if total._entry is not None:
                total.backward(train_mode=False)
        except UnsupportedError:
            assert call.rpartition("-")[0] in ONCE
            return
        got = sum(float((inputs[i].grad.asnumpy() * directions[i]).sum()) for i in chosen)
        eps = 1e-6
        sides = [
            float(
                slope([x + s * eps * directions[i] if i in chosen else x for i, x in enumerate(arrays)])[0].asscalar()
            )
            for s in (1, -1)
        ]
    np.testing.assert_allclose(got, (sides[0] - sides[1]) / (2 * eps), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("call", BAD_CALLS)
def test_error_text(call):
    cls, (inputs, attrs, text) = BAD_CALLS[call]
    arrays = [x if isinstance(x, np.ndarray) else np.zeros(x, dtype=np.float32) for x in inputs]
    with pytest.raises(MXNetError) as raised:
        invoke(cls.bind(**attrs), [NDArray(x) for x in arrays])
    assert str(raised.value) == text
