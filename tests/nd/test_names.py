"""Names of MXNet that programs use beside the main families: hidden attributes, samplers, casts, old operators."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn


def hybridized(function):
    net = nn.HybridLambda(function)
    net.hybridize()
    return net


# --- keywords ---------------------------------------------------------------------------------------------------------


HIDDEN = [
    lambda F, x: F.zeros((2,), __layout__="NC") + x,
    lambda F, x: F.ones((2,), __layout__="NC") + x,
    lambda F, x: F.dot(F.eye(2, __layout__="NC"), x),
    lambda F, x: F.random.uniform(shape=(2,), __layout__="NC") * x,
    lambda F, x: F.random_normal(shape=(2,), __layout__="NC") * x,
    lambda F, x: F.relu(x, __lr_mult__=2),
    lambda F, x: F.concat(x, x, dim=0, __ctx_group__="a"),
]


def test_attributes_of_nodes_mean_nothing_for_arrays():
    x = mx.nd.ones((2,))
    traced = hybridized(lambda F, x: [call(F, x) for call in HIDDEN])(x)
    for call, found in zip(HIDDEN, traced, strict=True):
        want = call(mx.nd, x).shape
        assert found.shape == want
        assert call(mx.sym, mx.sym.var("x")).infer_shape_partial(x=(2,))[1] == [want]


def test_a_misspelt_keyword_is_refused():
    for error in (mx.MXNetError, TypeError):
        with pytest.raises(error, match=r"softmax\(\) got an unexpected keyword argument 'axes'; did you mean axis\?"):
            mx.nd.softmax(mx.nd.ones((2,)), axes=1)
        with pytest.raises(error, match=r"zeros\(\) got an unexpected keyword argument 'layout'"):
            mx.nd.zeros((2,), layout="NC")


# --- symbols ----------------------------------------------------------------------------------------------------------


def test_the_class_shows_what_symbols_have():
    symbol = mx.sym.Symbol
    assert list(inspect.signature(symbol.bind).parameters)[:4] == ["self", "ctx", "args", "args_grad"]
    x = mx.sym.var("x")
    assert symbol.list_arguments(x + 1) == ["x"]
    assert isinstance(symbol.name, property)
    assert x.as_in_context(mx.cpu()) is x is x.as_nd_ndarray()
    seen = []

    def forward(F, x):
        seen.append((isinstance(x, symbol), hasattr(x, "list_arguments"), x.as_in_context(mx.cpu()) is x))
        with pytest.raises(AttributeError, match="has no 'tojson': it is a value of a traced block"):
            x.tojson()
        return x + 1

    hybridized(forward)(mx.nd.ones((2,)))
    assert seen == [(True, False, True)]


def test_arrays_have_no_handle():
    x = mx.nd.ones((2,))
    assert not hasattr(x, "handle")
    assert x.as_nd_ndarray() is x


# --- random -----------------------------------------------------------------------------------------------------------


def test_zipfian():
    true = mx.nd.array([3, 0])
    mx.random.seed(1)
    drawn, expected, expected_drawn = mx.nd.contrib.rand_zipfian(true, 20000, 50)
    k = np.arange(50)
    counts = 20000 * np.log((k + 2) / (k + 1)) / np.log(51)
    assert (drawn.dtype, expected.dtype, expected_drawn.dtype) == (np.int64, np.float64, np.float64)
    np.testing.assert_allclose(expected.asnumpy(), counts[[3, 0]], rtol=1e-12)
    np.testing.assert_allclose(expected_drawn.asnumpy(), counts[drawn.asnumpy()], rtol=1e-12)
    found = np.bincount(drawn.asnumpy(), minlength=50)
    assert len(found) == 50
    assert np.abs(found - counts).max() < 5 * np.sqrt(counts.max())
    composed = mx.sym.Group(list(mx.sym.contrib.rand_zipfian(mx.sym.var("t"), 20000, 50)))
    for call in (hybridized(lambda F, t: F.contrib.rand_zipfian(t, 20000, 50)), lambda t: composed.eval(t=t)):
        mx.random.seed(1)
        for got, want in zip(call(true), (drawn, expected, expected_drawn), strict=True):
            np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-14)


# --- casts, storage, zeros --------------------------------------------------------------------------------------------


AS_IN_MXNET = [
    ("float16 float32", False, "float32 float32"),
    ("float16 float32", True, "float16 float16"),
    ("float16 float32 int32", False, "float32 float32 int32"),
    ("float16 float64", False, "float16 float64"),
    ("float64 float32", True, "float64 float32"),
    ("float16", False, "float16"),
]


def test_amp_multicast():
    def made(F, *xs):
        outs, rest = [], list(xs)
        for dtypes, narrow, _ in AS_IN_MXNET:
            count = len(dtypes.split())
            ys = F.amp_multicast(*rest[:count], num_outputs=count, cast_narrow=narrow)
            outs, rest = outs + (ys if isinstance(ys, list | tuple) else [ys]), rest[count:]
        return outs

    arrays = [mx.nd.ones((2,), dtype=d) for dtypes, _, _ in AS_IN_MXNET for d in dtypes.split()]
    wanted = [d for _, _, dtypes in AS_IN_MXNET for d in dtypes.split()]
    for outs in (made(mx.nd, *arrays), hybridized(made)(*arrays)):
        assert [np.dtype(y.dtype).name for y in outs] == wanted


def test_storage_is_cast():
    x = mx.nd.ones((2, 3))
    for stype in ("default", "row_sparse", "csr"):
        y = mx.nd.cast_storage(x, stype)
        assert y.stype == stype
        np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())


def test_arrays_are_reset_in_place():
    a, b = mx.nd.ones((2, 3)), mx.nd.ones((4,), dtype="float16")
    assert mx.nd.reset_arrays(a, b, num_arrays=2) == []
    assert not a.asnumpy().any()
    assert not b.asnumpy().any()
    x = mx.nd.ones((2,))

    def forward(F, x):
        y = x + 1
        F.reset_arrays(x, num_arrays=1)
        return y, x + 3

    y, z = hybridized(forward)(x)
    assert (y.asnumpy().tolist(), z.asnumpy().tolist(), x.asnumpy().tolist()) == ([2, 2], [3, 3], [0, 0])


# --- old layers -------------------------------------------------------------------------------------------------------


def test_sparse_regularization_as_in_mxnet():
    """The gradient of the penalty, by the moving average after this batch; see MXNet's executor."""
    data = mx.sym.var("data")
    layer = mx.sym.IdentityAttachKLSparseReg(data, sparseness_target=0.2, penalty=0.01, momentum=0.8, name="k")
    assert (layer.list_arguments(), layer.list_auxiliary_states()) == (["data"], ["k_moving_avg"])
    x = np.random.default_rng(0).uniform(0.1, 0.9, (4, 3))
    executor = layer.simple_bind(mx.cpu(), data=(4, 3), type_dict={"data": "float64"})
    executor.aux_dict["k_moving_avg"][:] = 0.5
    executor.arg_dict["data"][:] = mx.nd.array(x, dtype="float64")
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 3), dtype="float64") * 3)
    average = 0.8 * 0.5 + 0.2 * x.mean(0)
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), x)
    np.testing.assert_allclose(executor.aux_dict["k_moving_avg"].asnumpy(), average)
    pull = 0.01 * (0.8 / (1 - average) - 0.2 / average)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), np.tile(3 + pull, (4, 1)))
    executor.forward(is_train=False)
    np.testing.assert_allclose(executor.aux_dict["k_moving_avg"].asnumpy(), average)


def test_old_batch_normalization():
    """As BatchNorm; but the third result is the variance."""
    x = mx.nd.array(np.random.default_rng(1).normal(size=(4, 3, 2, 2)))
    results = []
    for name in ("BatchNorm", "BatchNorm_v1"):
        layer = getattr(mx.sym, name)(mx.sym.var("x"), eps=0.1, fix_gamma=False, output_mean_var=True, name="b")
        assert layer.list_outputs() == ["b_output", "b_mean", "b_var"]
        executor = layer.simple_bind(mx.cpu(), x=x.shape)
        executor.arg_dict["b_gamma"][:] = mx.nd.array([1, 2, 3])
        outs = [y.asnumpy() for y in executor.forward(is_train=True, x=x)]
        executor.backward([mx.nd.array(np.cos(y)) for y in outs])
        moved = [*executor.grad_dict.values(), *executor.aux_dict.values()]
        results.append((outs, [v.asnumpy() for v in moved]))
    (new, changed), (old, also) = results
    np.testing.assert_allclose(old[2], x.asnumpy().var((0, 2, 3)), rtol=1e-5)
    for got, want in zip((*old[:2], 1 / np.sqrt(old[2] + 0.1), *also), (*new, *changed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
