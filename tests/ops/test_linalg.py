"""Linear algebra and densities beside MXNet 1.9.1, differences of symmetric matrices, and errors in compiled graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from tests.golden.algebra_cases import CASES, LOW, S, run

GOLDEN = Path(__file__).parents[1] / "golden" / "algebra.npz"


def test_as_in_mxnet():
    with np.load(GOLDEN) as golden:
        assert {key.partition(".")[0] for key in golden.files} == set(CASES)
        for name, case in CASES.items():
            for key, value in run(mx, case).items():
                rtol = 1e-6 if "random_pdf" in case[0] else 1e-9  # MXNet has seven digits of pi and of digamma
                want = golden[f"{name}.{key}"]
                np.testing.assert_allclose(value, want, rtol, 1e-10, err_msg=f"{name}.{key}", strict=True)


@pytest.mark.parametrize("name", ["potrf", "syevd"])
@pytest.mark.parametrize("order", [1, 2])
def test_gradient_along_symmetric_directions(name, order):
    rng = np.random.default_rng(0)
    turn = rng.normal(size=S.shape)
    turn = turn + turn.swapaxes(1, 2)

    def value(x):
        outs = getattr(mx.nd.linalg, name)(x)
        outs = outs if isinstance(outs, list) else [outs]
        heads = np.random.default_rng(1)
        return sum((y * mx.nd.array(heads.normal(size=y.shape), dtype="float64")).sum() for y in outs)

    def slope(at):
        """The value, or its slope in the direction, as an array that is differentiated in turn."""
        x = mx.nd.array(at, dtype="float64")
        x.attach_grad()
        with mx.autograd.record():
            y = value(x)
            if order == 2:
                (first,) = mx.autograd.grad(y, [x], create_graph=True)
                y = (first * mx.nd.array(turn, dtype="float64")).sum()
        y.backward()
        return y.asscalar(), x.grad.asnumpy()

    step = 1e-6
    difference = (slope(S + step * turn)[0] - slope(S - step * turn)[0]) / (2 * step)
    np.testing.assert_allclose((slope(S)[1] * turn).sum(), difference, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_of_larger_matrices_multiply_to_them(dtype):
    rng = np.random.default_rng(2)
    a = rng.normal(size=(3, 40, 60)).astype(dtype)
    s = a @ a.swapaxes(1, 2)
    tolerance = {"rtol": 0, "atol": np.finfo(dtype).eps * 500 * np.abs(s).max()}
    low = mx.nd.linalg.potrf(mx.nd.array(s, dtype=dtype)).asnumpy()
    np.testing.assert_allclose(low @ low.swapaxes(1, 2), s, **tolerance)
    q, lower = (y.asnumpy() for y in mx.nd.linalg.gelqf(mx.nd.array(a, dtype=dtype)))
    np.testing.assert_allclose(lower @ q, a, **tolerance)
    u, w = (y.asnumpy() for y in mx.nd.linalg.syevd(mx.nd.array(s, dtype=dtype)))
    np.testing.assert_allclose(u.swapaxes(1, 2) * w[:, None] @ u, s, **tolerance)
    assert low.dtype == q.dtype == lower.dtype == u.dtype == w.dtype == np.dtype(dtype)


def test_equal_eigenvalues_have_finite_gradients():
    x = mx.nd.array(np.eye(3), dtype="float64")
    x.attach_grad()
    with mx.autograd.record():
        u, w = mx.nd.linalg.syevd(x)
        y = u.sum() + w.sum()
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), np.eye(3))


def test_cholesky_of_nan_is_nan_where_it_was():
    s = S.copy()
    s[0, 1, 0] = np.nan
    found = mx.nd.linalg.potrf(mx.nd.array(s, dtype="float64")).asnumpy()
    assert np.isnan(found[0][np.tril_indices(3)]).all()
    np.testing.assert_allclose(found[1], LOW[1])


def test_gaussian_process_hybridized():
    """A log-likelihood by Cholesky, with the gradient of the kernel matrix, compiled with host calls."""

    def likelihood(F, k, y):
        low = F.linalg.potrf(k)
        half = F.linalg.trsm(low, F.expand_dims(y, axis=-1))
        return F.linalg.sumlogdiag(low) + 0.5 * F.linalg.syrk(half, transpose=True).reshape((-1,))

    y = np.random.default_rng(3).normal(size=(2, 3))
    net = nn.HybridLambda(likelihood)
    net.hybridize()
    k, data = mx.nd.array(S, dtype="float64"), mx.nd.array(y, dtype="float64")
    k.attach_grad()
    with mx.autograd.record():
        out = net(k, data)
    out.backward()
    inverse = np.linalg.inv(S)
    want = 0.5 * np.linalg.slogdet(S)[1] + 0.5 * np.einsum("bi,bij,bj->b", y, inverse, y)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-12)
    solved = np.einsum("bij,bj->bi", inverse, y)
    np.testing.assert_allclose(k.grad.asnumpy(), 0.5 * (inverse - solved[:, :, None] * solved[:, None]), rtol=1e-10)
    with pytest.raises(mx.MXNetError, match=r"linalg_potrf: A\[1\] is not positive definite"):
        net(mx.nd.array(S * np.array([1.0, -1.0])[:, None, None], dtype="float64"), data)


def test_triangles_of_larger_matrices_hybridized():
    x = mx.nd.array(np.random.default_rng(4).normal(size=(2, 45, 45)))

    def there_and_back(F, x):
        packed = F.linalg.extracttrian(x, offset=2)
        return packed, F.linalg.maketrian(packed, offset=2)

    net = nn.HybridLambda(there_and_back)
    net.hybridize()
    packed, upper = (y.asnumpy() for y in net(x))
    rows, columns = np.tril_indices(45, -2)
    np.testing.assert_array_equal(packed, x.asnumpy()[:, columns, rows])
    np.testing.assert_array_equal(upper, np.triu(x.asnumpy(), 2))


def test_symbols():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    factors = mx.sym.linalg.slogdet(a, name="s")
    assert factors.list_outputs() == ["s_output0", "s_output1"]
    assert mx.sym.linalg_det(a, name="d").list_outputs() == ["d_output0"]
    solved = mx.sym.linalg.trsm(a, b, rightside=True, name="t")
    assert solved.infer_shape(a=(2, 3, 3), b=(2, 5, 3))[1] == [(2, 5, 3)]
    again = mx.sym.load_json(mx.sym.Group([solved, factors[1]]).tojson())
    low, rows = mx.nd.array(LOW), mx.nd.ones((2, 5, 3))
    found = again.eval(a=low, b=rows)
    np.testing.assert_allclose(found[0].asnumpy(), np.ones((2, 5, 3)) @ np.linalg.inv(LOW), rtol=1e-5)
    np.testing.assert_allclose(found[1].asnumpy(), np.linalg.slogdet(LOW)[1], rtol=1e-5)
