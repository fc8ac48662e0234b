"""``mx.np.linalg`` beside NumPy, eagerly and hybridized, with gradients beside differences."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, gluon, np, npx
from hybridc.errors import MXNetError

L = onp.linalg


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    yield
    npx.reset_np()


def data(*shape, seed=0):
    return onp.random.default_rng(seed).normal(size=shape)


def square(*shape, seed=0):
    """Matrices that are far from singular, with distinct real eigenvalues."""
    n = shape[-1]
    return data(*shape, seed=seed) * 0.3 + onp.diag(onp.arange(1.0, n + 1))


def positive(*shape, seed=0):
    a = square(*shape, seed=seed)
    return a @ a.swapaxes(-1, -2)


def symmetric(x):
    return (x + x.swapaxes(-1, -2)) / 2


def signed(y, axis):
    """Vectors along an axis, of which a sign is any, with their largest component positive."""
    largest = onp.take_along_axis(y, onp.abs(y).argmax(axis, keepdims=True), axis)
    return y * onp.sign(largest)


def thin_svd(a):
    return L.svd(a, full_matrices=False)


def squares_of(outs):
    """What does not depend on the signs of vectors."""
    return [y * y for y in outs] if isinstance(outs, list | tuple) else [outs]


# Name, function, its reference, inputs, whether it has a gradient; inputs that are symmetric are made so from any.
CASES = {
    "cholesky": (lambda m, a: m.cholesky((a + a.swapaxes(-1, -2)) / 2), [positive(3, 3)], True),
    "cholesky of many": (lambda m, a: m.cholesky((a + a.swapaxes(-1, -2)) / 2), [positive(2, 2, 3, 3)], True),
    "det": (lambda m, a: m.det(a), [square(3, 3)], True),
    "det of many": (lambda m, a: m.det(a), [square(2, 4, 3, 3)], True),
    "det of one number": (lambda m, a: m.det(a), [square(1, 1)], True),
    "slogdet": (lambda m, a: list(m.slogdet(a)), [square(3, 3)], True),
    "slogdet of many": (lambda m, a: list(m.slogdet(a)), [-square(2, 3, 3)], True),
    "inv": (lambda m, a: m.inv(a), [square(2, 3, 3)], True),
    "pinv tall": (lambda m, a: m.pinv(a), [data(4, 2)], True),
    "pinv wide": (lambda m, a: m.pinv(a), [data(2, 2, 4)], True),
    "pinv hermitian": (lambda m, a: m.pinv(a, hermitian=True), [positive(3, 3)], False),
    "solve": (lambda m, a, b: m.solve(a, b), [square(3, 3), data(3, 2)], True),
    "solve of a vector": (lambda m, a, b: m.solve(a, b), [square(3, 3), data(3)], True),
    "solve broadcast": (lambda m, a, b: m.solve(a, b), [square(2, 3, 3), data(1, 3, 2)], True),
    "tensorinv": (lambda m, a: m.tensorinv(a, ind=1), [square(6, 6).reshape(6, 2, 3)], True),
    "tensorsolve": (lambda m, a, b: m.tensorsolve(a, b), [square(6, 6).reshape(2, 3, 6), data(2, 3)], True),
    "tensorsolve axes": (
        lambda m, a, b: m.tensorsolve(a, b, axes=(0,)), [square(6, 6).reshape(6, 2, 3), data(2, 3)], True,
    ),
    "matrix_power": (lambda m, a: m.matrix_power(a, 5), [square(2, 3, 3) / 2], True),
    "matrix_power 1": (lambda m, a: m.matrix_power(a, 1), [square(3, 3)], True),
    "matrix_power 0": (lambda m, a: m.matrix_power(a, 0), [square(2, 3, 3)], False),
    "matrix_power -2": (lambda m, a: m.matrix_power(a, -2), [square(3, 3)], True),
    "multi_dot": (lambda m, *xs: m.multi_dot(xs), [data(4, 2), data(2, 5), data(5, 1), data(1, 3)], True),
    "multi_dot of vectors": (lambda m, *xs: m.multi_dot(xs), [data(4), data(4, 2), data(2)], True),
    "multi_dot of two": (lambda m, *xs: m.multi_dot(xs), [data(4), data(4, 2)], True),
    "svd": (lambda m, a: squares_of(svd(m, a)), [data(3, 3)], True),
    "svd tall": (lambda m, a: squares_of(svd(m, a)), [data(4, 2)], True),
    "svd of many": (lambda m, a: squares_of(svd(m, a)), [data(2, 2, 4)], True),
    "eigh": (lambda m, a: squares_of(m.eigh((a + a.swapaxes(-1, -2)) / 2)), [positive(3, 3)], True),
    "eigh U": (lambda m, a: squares_of(m.eigh(a, "U")), [symmetric(square(2, 3, 3))], False),
    "eigvalsh": (lambda m, a: m.eigvalsh((a + a.swapaxes(-1, -2)) / 2), [positive(2, 3, 3)], True),
    "eig": (lambda m, a: squares_of(m.eig(a)), [square(3, 3)], True),
    "eig of many": (lambda m, a: squares_of(m.eig(a)), [square(2, 3, 3)], True),
    "eigvals": (lambda m, a: m.eigvals(a), [square(3, 3)], True),
    "qr": (lambda m, a: list(m.qr(a)), [data(3, 3)], True),
    "qr tall": (lambda m, a: list(m.qr(a)), [data(2, 4, 2)], True),
    "qr wide": (lambda m, a: list(m.qr(a)), [data(2, 4)], True),
    "qr r": (lambda m, a: m.qr(a, "r"), [data(4, 2)], True),
    "lstsq": (lambda m, a, b: m.lstsq(a, b, rcond=None)[0], [data(5, 3), data(5, 2)], True),
    "lstsq of a vector": (lambda m, a, b: m.lstsq(a, b, rcond=None)[0], [data(5, 3), data(5)], True),
    "lstsq wide": (lambda m, a, b: m.lstsq(a, b, rcond=None)[0], [data(2, 4), data(2, 2)], True),
    "lstsq all": (lambda m, a, b: list(m.lstsq(a, b, rcond=None)), [data(5, 3), data(5, 2)], False),
    "cond": (lambda m, a: m.cond(a), [square(2, 3, 3)], True),
    "cond -2": (lambda m, a: m.cond(a, -2), [square(3, 3)], True),
    "cond fro": (lambda m, a: m.cond(a, "fro"), [square(3, 3)], True),
    "cond 1": (lambda m, a: m.cond(a, 1), [square(3, 3)], True),
    "norm": (lambda m, a: m.norm(a), [data(2, 3, 4)], True),
    "norm keepdims": (lambda m, a: m.norm(a, keepdims=True), [data(2, 3)], True),
    **{
        f"norm {ord} of vectors, {keepdims}": (
            lambda m, a, ord=ord, keepdims=keepdims: m.norm(a, ord, 1, keepdims), [data(2, 3, 4)], True,
        )
        for ord in (None, 1, 2, 3, 0.5, -1, 0, onp.inf, -onp.inf)
        for keepdims in (False, True)
    },
    **{
        f"norm {ord} of matrices, {axis}": (
            lambda m, a, ord=ord, axis=axis: m.norm(a, ord, axis, axis == (2, 0)), [data(2, 3, 4)], True,
        )
        for ord in (None, "fro", "nuc", 1, -1, 2, -2, onp.inf, -onp.inf)
        for axis in ((0, 1), (2, 0), (-2, -1))
    },
    "norm of a vector": (lambda m, a: m.norm(a, 3), [data(4)], True),
    "norm of a matrix": (lambda m, a: m.norm(a, 1), [data(4, 3)], True),
    "matrix_rank": (lambda m, a: m.matrix_rank(a), [onp.stack([onp.eye(3), onp.ones((3, 3))])], False),
    "matrix_rank tol": (lambda m, a: m.matrix_rank(a, 1.5), [onp.diag([1.0, 2.0, 3.0])], False),
    "matrix_rank hermitian": (lambda m, a: m.matrix_rank(a, hermitian=True), [onp.ones((3, 3))], False),
    "matrix_rank of a vector": (lambda m, a: m.matrix_rank(a), [onp.zeros(3)], False),
}  # fmt: skip


def svd(m, a):
    return thin_svd(a) if m is L else m.svd(a)


class Call(gluon.HybridBlock):
    """A case, which can be hybridized."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *xs):
        return self._function(np.linalg, *xs)


def listed(outputs):
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_values(name, hybridize):
    function, inputs, _ = CASES[name]
    for dtype, rtol in (("float64", 1e-9), ("float32", 2e-3)):
        block = Call(function)
        if hybridize:
            block.hybridize()
        found = listed(block(*[np.array(x.astype(dtype)) for x in inputs]))
        wanted = listed(function(L, *inputs))
        assert len(found) == len(wanted)
        for y, reference in zip(found, wanted, strict=True):
            assert y.shape == onp.shape(reference)
            if onp.asarray(reference).dtype.kind == "f":
                assert y.dtype == onp.dtype(dtype)
            onp.testing.assert_allclose(y.asnumpy(), reference, rtol=rtol, atol=rtol)


def _weights(shapes):
    return [onp.random.default_rng(5 + i).normal(size=shape) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2]])
def test_gradients(name, hybridize):
    function, inputs, _ = CASES[name]
    shapes = [onp.shape(y) for y in listed(function(L, *inputs))]
    weights = _weights(shapes)

    def total(*xs):
        return sum((w * y).sum() for w, y in zip(weights, listed(function(L, *xs)), strict=True))

    block = Call(function)
    if hybridize:
        block.hybridize()
    arrays = [np.array(x) for x in inputs]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        outputs = listed(block(*arrays))
        heads = [(np.array(w) * y).sum() for w, y in zip(weights, outputs, strict=True)]
    autograd.backward(heads)
    step = 1e-6
    for i, x in enumerate(inputs):
        differences = onp.zeros_like(x)
        for place in onp.ndindex(*x.shape):
            moved = [value.copy() for value in inputs]
            moved[i][place] += step
            above = total(*moved)
            moved[i][place] -= 2 * step
            differences[place] = (above - total(*moved)) / (2 * step)
        onp.testing.assert_allclose(arrays[i].grad.asnumpy(), differences, rtol=1e-4, atol=1e-5)


def test_vectors_are_of_their_values():
    a = symmetric(square(2, 3, 3))
    values, vectors = np.linalg.eigh(np.array(a))
    onp.testing.assert_allclose(a @ vectors.asnumpy(), vectors.asnumpy() * values.asnumpy()[:, None], atol=1e-9)
    a = square(2, 3, 3)
    values, vectors = np.linalg.eig(np.array(a))
    onp.testing.assert_allclose(a @ vectors.asnumpy(), vectors.asnumpy() * values.asnumpy()[:, None], atol=1e-9)
    u, low, v = (x.asnumpy() for x in np.linalg.svd(np.array(data(2, 4, 3))))
    onp.testing.assert_allclose((u * low[:, None]) @ v, data(2, 4, 3), atol=1e-9)


def test_integers_are_computed_in_float32():
    y = np.linalg.inv(np.array([[2, 1], [1, 1]], dtype="int32"))
    assert y.dtype == onp.float32
    onp.testing.assert_allclose(y.asnumpy(), [[1, -1], [-1, 2]], atol=1e-6)


@pytest.mark.parametrize("name", ["inv", "det", "svd", "pinv", "norm", "cholesky", "eigh", "qr"])
def test_matrices_of_no_elements(name):
    for found, reference in zip(
        listed(getattr(np.linalg, name)(np.zeros((2, 0, 0)))),
        listed(thin_svd(onp.zeros((2, 0, 0))) if name == "svd" else getattr(L, name)(onp.zeros((2, 0, 0)))),
        strict=True,
    ):
        onp.testing.assert_array_equal(found.asnumpy(), reference)
        assert found.shape == onp.shape(reference)


def test_rows_of_equations_that_lack_rank():
    a = onp.ones((4, 2))
    x, residuals, rank, values = np.linalg.lstsq(np.array(a), np.array(onp.arange(4.0)), rcond=None)
    wanted = L.lstsq(a, onp.arange(4.0), rcond=None)
    onp.testing.assert_allclose(x.asnumpy(), wanted[0], atol=1e-9)
    assert residuals.shape == (0,)
    assert rank == 1
    onp.testing.assert_allclose(values.asnumpy(), wanted[3], atol=1e-9)


def test_errors():
    with pytest.raises(MXNetError, match="singular"):
        np.linalg.inv(np.ones((2, 2)))
    with pytest.raises(MXNetError, match="singular"):
        np.linalg.solve(np.ones((2, 2)), np.ones((2,)))
    with pytest.raises(MXNetError, match="complex eigenvalues"):
        np.linalg.eig(np.array([[0, 1], [-1, 0]]))
    with pytest.raises(MXNetError, match="square"):
        np.linalg.det(np.ones((2, 3)))
    with pytest.raises(ValueError, match="Invalid norm order"):
        np.linalg.norm(np.ones((2, 3)), 3)
    with pytest.raises(AttributeError, match="did you mean"):
        np.linalg.choleski  # noqa: B018 - the name is looked up


def test_called_by_numpy():
    x = np.array(square(3, 3))
    y = onp.linalg.inv(x)
    assert type(y) is np.ndarray
    assert type(onp.linalg.norm(x)) is np.ndarray
    assert mx.np.linalg is np.linalg
