"""Shapes, joining, cutting, edits and statistics of ``mx.np`` arrays: as NumPy has them, with gradients, compiled."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, np
from hybridc.errors import MXNetError
from tests.np.array_agreement import arrays, check_compiled, check_composed, check_eager, check_gradient, evaluated

DIFFERENTIABLE = """
np.reshape(x, (2, 6))
np.reshape(x, -1)
np.reshape(d, (2, -1))
np.ravel(d)
np.real(x)
np.transpose(t)
np.transpose(t, (1, 0, 2))
np.swapaxes(t, 0, -1)
np.moveaxis(t, 0, -1)
np.moveaxis(t, (0, 1), (-1, 0))
np.rollaxis(t, 2)
np.expand_dims(x, 0)
np.expand_dims(x, (0, 2))
np.squeeze(x[None, :, None])
np.squeeze(x[None], 0)
np.atleast_1d(s)
np.atleast_2d(v)
np.atleast_3d(v)
np.atleast_3d(x)
np.broadcast_to(v, (3, 4))
np.broadcast_to(s, (2, 2))
np.broadcast_arrays(v, x)
np.concatenate([x[:2], d], axis=1)
np.concatenate((x, x), 0)
np.concatenate([x, y], None)
np.append(x, x, 0)
np.append(x, v)
np.stack([x, x], -1)
np.vstack([x, v])
np.hstack([v, w])
np.hstack([x, x])
np.dstack([x, x])
np.column_stack([w, x])
np.split(x, 2, 1)
np.split(x, [1, 3], 1)
np.array_split(x, 3, 1)
np.hsplit(x, 2)
np.vsplit(x, 3)
np.dsplit(t, 2)
np.tile(x, 2)
np.tile(x, (2, 1, 3))
np.tile(s, 3)
np.repeat(x, 2)
np.repeat(x, 3, 1)
np.repeat(x, [1, 0, 2], 0)
np.flip(x)
np.flip(t, (0, 2))
np.fliplr(x)
np.flipud(x)
np.roll(x, 3)
np.roll(x, (1, -1), (0, 1))
np.rot90(x)
np.rot90(t, 3, (1, 2))
np.insert(x, 1, 9)
np.insert(x, 1, v, 0)
np.insert(x, 1, w, 1)
np.insert(x, [1], x, 1)
np.insert(x, [1, 3, 1], 9, 1)
np.insert(x, [0, 2], x[:2], 0)
np.insert(x, slice(0, 3, 2), v, 0)
np.insert(x, -1, x[0], axis=0)
np.insert(v, 4, s)
np.delete(x, 1)
np.delete(x, [0, -1], 1)
np.delete(x, slice(0, 4, 2), 1)
np.delete(x, -1, 0)
np.resize(x, (2, 7))
np.resize(x, 3)
np.pad(x, 1)
np.pad(x, ((1, 0), (0, 2)), constant_values=3)
np.pad(x, 1, constant_values=((1, 2), (3, 4)))
np.pad(x, ((2, 1), (0, 3)), 'edge')
np.pad(x, ((2, 1), (0, 3)), 'reflect')
np.pad(x, ((5, 1), (0, 9)), 'reflect')
np.pad(x, ((5, 1), (0, 9)), 'symmetric')
np.pad(x, ((5, 1), (0, 9)), 'wrap')
np.pad(x, ((2, 1), (0, 3)), 'maximum')
np.pad(x, ((2, 1), (0, 3)), 'minimum', stat_length=2)
np.pad(x, ((2, 1), (0, 3)), 'mean')
np.pad(x, ((2, 1), (0, 3)), 'linear_ramp', end_values=2)
np.pad(t, ((0, 0), (1, 1), (2, 0)), 'edge')
np.diff(x)
np.diff(x, 2, 0)
np.diff(x, 0)
np.diff(x, prepend=0, append=x[:, :1])
np.ediff1d(x)
np.ediff1d(x, to_begin=[1, 2], to_end=s)
np.diag(v)
np.diag(v, -2)
np.diag(x, 1)
np.diagonal(t, 1, 0, 2)
np.diagflat(x, 1)
np.tril(x)
np.triu(t, -1)
np.clip(x, -1, 1)
np.where(b, x, v)
np.where(x > 0, x, 0)
np.select([x > 1, x > 0], [x, -x], 7)
np.take(x, j)
np.take(x, j, 0)
np.take(x, [[0, -1]], 1)
np.take(x, [5, 30], mode='clip')
np.take(x, [5, -30], mode='wrap')
np.take_along_axis(x, np.argsort(x, 1), 1)
np.sort(x)
np.sort(x, 0)
np.sort(x, None)
np.percentile(x, 30)
np.percentile(x, [0, 30, 100], 0)
np.percentile(t, [[10], [60]], (0, 2))
np.percentile(x, 40, 1, keepdims=True)
np.quantile(x, 0.3, 1)
np.median(x)
np.median(t, 1, keepdims=True)
np.median(np.stack([x, 2 * x]), (0, 1))
np.meshgrid(v, w)
np.meshgrid(v, w, v, indexing='ij', sparse=True)
np.meshgrid(v)
np.polyval(v, x)
np.polyval(v, s)
""".strip().splitlines()

NO_GRADIENT = """
np.reshape(e, (3, 0, 2))
np.transpose(e)
np.broadcast_to(v[:1], (0, 1))
np.broadcast_to(e, (2, 0, 3))
np.concatenate([e, w[None]])
np.concatenate([i, x])
np.concatenate([b, n])
np.stack([i, i])
np.tile(e, (2, 2))
np.tile(x, 0)
np.repeat(x, 0)
np.roll(e, 1)
np.roll(i, -1, 0)
np.flip(e)
np.pad(e, 1)
np.pad(b, 1, constant_values=True)
np.pad(i, ((1, 2), (0, 1)), 'maximum')
np.pad(i, 1, 'mean')
np.pad(x, ((0, 0), (2, 0)), 'maximum')
np.diff(b)
np.diff(i)
np.insert(i, 1, 2.7, 1)
np.insert(b, 0, True)
np.delete(e, [])
np.delete(x, [], 0)
np.delete(x, [True, False, True], 0)
np.resize(i, (3, 5))
np.split(i, 2, 1)
np.array_split(v, 6)
np.array_split(i, [1, 7], 1)
np.diag(i)
np.tril(b)
np.diag(x, 4)
np.diagonal(t, -9)
np.trace(x, -3)
np.triu(x, 9)
np.clip(i, 0, 3)
np.where(b, i, n)
np.argsort(x)
np.argsort(x, None)
np.unravel_index(j, (3, 4))
np.ravel_multi_index((j, j), (3, 4))
np.diag_indices_from(m)
np.tril_indices_from(m, -1)
np.triu_indices_from(m)
np.tril_indices(3)
np.triu_indices(2, 1, 4)
np.diag_indices(3)
np.ix_(j, [0, 1])
np.indices((2, 3), 'int64')
""".strip().splitlines()

EAGER = """
np.nonzero(x > 0)
np.argwhere(b)
np.flatnonzero(i)
np.unique(i)
np.unique(i, return_index=True, return_counts=True)
np.unique(i, axis=0)
np.bincount(j)
np.bincount(j, minlength=5)
np.bincount(j, w)
np.histogram(x)
np.histogram(x, 5, (-1, 1))
np.histogram(x, bins=[-1.0, 0, 2])
np.histogram(x, 4, density=True)
np.histogram(x, 4, weights=x)
np.histogram2d(x[0], x[1], 3)
np.searchsorted(np.sort(v), x)
np.digitize(x, np.sort(v))
np.interp(x, np.sort(v), v)
np.cov(x)
np.corrcoef(x)
np.convolve(v, w)
np.correlate(v, w, 'same')
np.isin(i, j)
np.intersect1d(i, j)
np.union1d(i, j)
np.setdiff1d(i, j)
np.extract(b, x)
np.compress([True, False, True], x, 0)
np.choose(j, [w, -w, 2 * w])
np.piecewise(x, [x > 0, x <= 0], [1, lambda p: -p])
np.trim_zeros(x[0] * [0, 1, 0, 1])
np.apply_along_axis(lambda p: p[::2], 1, x)
np.nanpercentile(x, 30, 1)
np.nanmedian(x)
np.polyfit(v, v ** 2, 2)
np.polyadd(v, w)
np.roots([1.0, -3, 2])
np.vander(v)
np.lexsort((v, v))
np.unwrap(x)
np.setxor1d(i, j)
np.ix_(j, [True, False, True])
""".strip().splitlines()


@pytest.mark.parametrize("code", [*DIFFERENTIABLE, *NO_GRADIENT, *EAGER])
def test_as_numpy(code):
    check_eager(code)


@pytest.mark.parametrize("code", DIFFERENTIABLE)
def test_gradient(code):
    check_gradient(code)


@pytest.mark.parametrize("part", range(4))
def test_compiled(part):
    check_compiled([*DIFFERENTIABLE, *NO_GRADIENT][part::4])


@pytest.mark.parametrize("part", range(4))
def test_composed(part):
    check_composed([*DIFFERENTIABLE, *NO_GRADIENT][part::4])


def test_trapz():
    check_eager("np.trapz(x, dx=0.5)")
    for code in (
        "np.trapz(x, v)",
        "np.trapz(x, axis=0)",
    ):
        check_eager(code)
        check_gradient(code)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_between_elements(how):
    x = onp.array([3, 1, 4, 1.5, 9], "float32")
    for q in (0, 0.1, 0.3, 0.66, 1):
        y = np.quantile(np.array(x), q, interpolation=how)
        onp.testing.assert_allclose(y.asnumpy(), onp.quantile(x, q, method=how), rtol=1e-6)


def test_a_quantile_of_nan_is_nan():
    x = np.array([[1, onp.nan, 2], [1, 2, 4]])
    onp.testing.assert_array_equal(np.median(x, 1).asnumpy(), [onp.nan, 2])


def test_the_quantile_may_be_a_value_of_the_trace():
    net = mx.gluon.nn.HybridLambda(lambda F, x, q: np.percentile(x, q, axis=0))
    net.hybridize()
    x, q = onp.random.rand(7, 3).astype("float32"), onp.array([10, 55], "float32")
    onp.testing.assert_allclose(net(np.array(x), np.array(q)).asnumpy(), onp.percentile(x, q, 0), rtol=1e-5)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: np.reshape(x, (4, 3)),
        np.ravel,
        np.transpose,
        lambda x: x.T,
        lambda x: np.swapaxes(x, 0, 1),
        lambda x: np.moveaxis(x, 0, 1),
        lambda x: np.expand_dims(x, 0),
        lambda x: np.squeeze(x[None]),
        lambda x: np.split(x, [0], 1)[1],
        np.flip,
        np.atleast_3d,
        lambda x: np.rot90(x),
    ],
)
def test_what_numpy_has_as_views_shares_memory(view):
    x = np.arange(12).reshape(3, 4)
    y = view(x)
    assert np.shares_memory(x, y)
    y[...] = 0
    assert x.sum() == 0
    x.attach_grad()
    with autograd.record():
        z = view(x) * 2
    z.backward()
    assert (x.grad == 2).reshape(-1)[-1]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda x: np.interp(x, x, x), r"mx\.np\.interp is NumPy's function, .* leave the block unhybridized"),
        (lambda x: np.unique(x), r"mx\.np\.unique is NumPy's function"),
        (lambda x: np.nonzero(x), r"mx\.np\.nonzero: how many results there are depends on values"),
        (lambda x: np.argwhere(x), r"mx\.np\.argwhere: how many results"),
        (lambda x: np.histogram(x), r"without range= it depends on values"),
        (lambda x: np.insert(x, x, 1), r"mx\.np\.insert: the shape of the result depends on the indices"),
        (lambda x: np.fill_diagonal(x, 1), r"use mx\.np\.where with eye"),
    ],
)
def test_what_needs_values_is_refused_in_traces(run, message):
    net = mx.gluon.nn.HybridLambda(lambda F, x: run(x))
    net.hybridize()
    with pytest.raises(MXNetError, match=message):
        net(np.ones((3, 3)))


@pytest.mark.parametrize(
    "code",
    ["np.tril(x)", "np.pad(x, 1, 'edge')", "np.pad(x, 1, 'linear_ramp')", "np.percentile(x, [30, 40])", "x.T",
     "np.einsum('ij,kj', x, x)", "np.cov(x)", "x[[0, 1]]", "np.insert(x, 0, 1)", "np.diff(x, prepend=0)",
     "np.unique(x)", "np.nonzero(x)[0]", "np.polyval(x[0], x)", "x[x > 0]", "np.broadcast_to(x, (0, 3, 4))"],
)  # fmt: skip
def test_results_are_on_the_device_of_the_input(code):
    x = arrays("x")["x"].as_in_ctx(mx.cpu(1))
    assert evaluated(code, np, {"x": x})[0].ctx == mx.cpu(1)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda x: np.reshape(x, (5, -1)), ValueError, "cannot reshape array of size 12"),
        (lambda x: np.concatenate([]), ValueError, "need at least one array"),
        (lambda x: np.split(x, 5), ValueError, "equal division"),
        (lambda x: np.pad(x, 1, "odd"), ValueError, "mode 'odd' is not supported"),
        (lambda x: np.pad(x, 1, "edge", constant_values=1), ValueError, "unsupported keyword argument"),
        (lambda x: np.percentile(x, 101), ValueError, r"range \[0, 100\]"),
        (lambda x: np.insert(x, 20, 1), IndexError, "out of bounds"),
        (lambda x: np.delete(x, 20), IndexError, "out of bounds"),
        (lambda x: np.diff(np.array(1)), ValueError, "at least one dimensional"),
        (lambda x: np.squeeze(x, 0), ValueError, "size not equal to one"),
        (lambda x: np.take(x, np.array([12])), IndexError, "index 12 is out of bounds"),
        (lambda x: np.diag_indices_from(x), ValueError, "equal length"),
        (lambda x: np.npv(0.1, x), NotImplementedError, "use numpy_financial"),
        (lambda x: np.bincount(x), TypeError, "must be integers"),
    ],
)
def test_errors(run, error, message):
    with pytest.raises(error, match=message):
        run(np.arange(12).reshape(3, 4))


def test_fill_diagonal():
    for shape, wrap in (((3, 3), False), ((7, 3), True), ((2, 2, 2), False)):
        x, reference = np.zeros(shape), onp.zeros(shape)
        np.fill_diagonal(x, [1, 2], wrap)
        onp.fill_diagonal(reference, [1, 2], wrap)
        onp.testing.assert_array_equal(x.asnumpy(), reference)
