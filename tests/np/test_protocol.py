"""Arrays of ``mx.np`` among NumPy's functions and arrays, SciPy, DLPack, pickles and Python's own protocols."""

from __future__ import annotations

import copy
import operator
import pickle  # noqa: TID251  (what users do)

import numpy as onp
import pytest
import scipy.special
from matplotlib.figure import Figure

import hybridc as mx
from hybridc import autograd, np

A = onp.array([[1, -2, 3], [0.5, 5, 6]], "float32")


def x():
    return np.array(A)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: onp.mean(a),
        lambda a: onp.sum(a, axis=1, keepdims=True),
        lambda a: onp.concatenate([a, a]),
        lambda a: onp.stack([a, a], axis=-1),
        lambda a: onp.transpose(a),
        lambda a: onp.reshape(a, (3, 2)),
        lambda a: onp.where(a > 0, a, 0),
        lambda a: onp.clip(a, 0, 2),
        lambda a: onp.einsum("ij->j", a),
        lambda a: onp.pad(a, 1),
        lambda a: onp.argsort(a, axis=0),
        lambda a: onp.percentile(a, 30),
        lambda a: onp.nanpercentile(a, 30, axis=0),
        lambda a: onp.fft.fft(a).real,
        lambda a: onp.exp(a),
        lambda a: onp.add(a, a),
        lambda a: onp.multiply.outer(a[0], a[1]),
        lambda a: onp.add.reduce(a, axis=1),
        lambda a: onp.maximum(a, 2),
        lambda a: onp.arctan2(a, a),
        lambda a: onp.isnan(a),
        lambda a: scipy.special.erf(a),
        lambda a: onp.zeros_like(a),
        lambda a: onp.tril(a),
        lambda a: onp.sort(a, axis=None),
        lambda a: onp.var(a, axis=0),
        lambda a: onp.cov(a),
        lambda a: onp.quantile(a, 0.3, method="lower"),
    ],
)  # fmt: skip
def test_functions_of_numpy(call):
    y, reference = call(x()), call(A)
    assert not isinstance(y, onp.ndarray) or y.dtype.kind == "c" or y.dtype == reference.dtype
    onp.testing.assert_allclose(onp.asarray(y), reference, rtol=1e-5, atol=1e-6)
    assert onp.shape(y) == reference.shape


def test_functions_of_numpy_give_arrays_that_autograd_records():
    a = x()
    a.attach_grad()
    with autograd.record():
        y = onp.mean(onp.exp(a) * 6)
    y.backward()
    assert type(y) is np.ndarray
    onp.testing.assert_allclose(a.grad.asnumpy(), onp.exp(A), rtol=1e-5)


def test_ufuncs_write_into_either_kind_of_array():
    y, z = np.zeros((2, 3)), onp.zeros((2, 3), "float32")
    assert onp.exp(x(), out=y) is y
    assert onp.add(x(), 1, out=z) is z
    onp.testing.assert_allclose(y.asnumpy(), onp.exp(A), rtol=1e-5)
    onp.testing.assert_allclose(z, A + 1)


@pytest.mark.parametrize(
    "apply", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod]
)
def test_arithmetic_with_numpys_arrays(apply):
    b = onp.abs(A) + 1
    for y in (apply(x(), b), apply(A, np.array(b)), apply(x(), onp.float32(2)), apply(onp.float32(2), np.array(b))):
        assert type(y) is np.ndarray
        assert y.dtype == onp.float32
    onp.testing.assert_allclose(apply(x(), b).asnumpy(), apply(A, b), rtol=1e-5)
    onp.testing.assert_allclose(apply(A, np.array(b)).asnumpy(), apply(A, b), rtol=1e-5)
    onp.testing.assert_allclose(apply(onp.float32(2), np.array(b)).asnumpy(), apply(2, b), rtol=1e-5)


@pytest.mark.parametrize("apply", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
def test_comparisons_with_numpys_arrays(apply):
    for y in (apply(x(), A[::-1]), apply(A, x()[::-1])):
        assert type(y) is np.ndarray
        onp.testing.assert_array_equal(y.asnumpy(), apply(A, A[::-1]))
    with pytest.raises(TypeError, match=r"mx\.np must be arrays or numbers"):
        apply(x(), "text") if apply not in (operator.eq, operator.ne) else operator.lt(x(), "text")


def test_products_with_numpys_arrays():
    onp.testing.assert_allclose((x() @ A.T).asnumpy(), A @ A.T)
    onp.testing.assert_allclose((A @ x().T).asnumpy(), A @ A.T)


def test_memory_is_shared_by_dlpack_and_asarray():
    a = x()
    for shared in (onp.asarray(a), onp.from_dlpack(a)):
        assert onp.shares_memory(shared, onp.asarray(a))
    b = onp.zeros(3, "float32")
    y = np.from_dlpack(b)
    assert type(y) is np.ndarray
    y[1] = 7
    assert b[1] == 7
    assert type(np.from_dlpack(a)) is np.ndarray
    assert np.shares_memory(np.from_dlpack(a.to_dlpack_for_read()), a)


def test_copies():
    a = x()
    for made in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a), a.copy(), np.array(a)):
        assert type(made) is np.ndarray
        assert not np.shares_memory(a, made)
        onp.testing.assert_array_equal(made.asnumpy(), A)
    scalar = copy.deepcopy(np.array(3, dtype="int64"))
    assert scalar.shape == ()
    assert scalar.dtype == onp.int64


def test_texts():
    assert repr(np.array([1, 2])) == "array([1., 2.])"
    assert repr(np.array(3)) == "array(3.)"
    assert repr(np.array([1, 2], dtype="int64")) == "array([1, 2], dtype=int64)"
    assert repr(np.array([1, 2]) > 1) == "array([False,  True])"
    assert repr(np.array([1], ctx=mx.cpu(1))) == "array([1.])"
    assert str(np.array([1, 2])) == "[1. 2.]"
    assert f"{np.array(2.5):.2f} {np.array(7, dtype='int32'):3d} {np.array([1])}" == "2.50   7 [1.]"
    options = onp.get_printoptions()
    try:
        np.set_printoptions(precision=2)
        assert repr(np.array([1.23456])) == "array([1.23])"
    finally:
        onp.set_printoptions(**{k: v for k, v in options.items() if k != "override_repr"})


def test_numbers_of_python():
    one = np.array([[2.5]])
    assert (one.item(), float(one), int(one), bool(one), one.tolist()) == (2.5, 2.5, 2, True, [[2.5]])
    assert type(one.item()) is float
    assert x().item(4) == 5
    assert x().item(1, 0) == 0.5
    assert [1, 2, 3][np.array(1, dtype="int32")] == 2
    assert round(np.array(2.567), 1) == np.array(2.6)
    assert not np.array(0)
    assert np.array(True)
    with pytest.raises(ValueError, match="truth value"):
        bool(x())
    with pytest.raises(TypeError, match="unsized"):
        len(np.array(1))
    with pytest.raises(ValueError, match="size 1"):
        x().item()


def test_python():
    a = x()
    assert (a == None) is False  # noqa: E711
    assert (a != None) is True  # noqa: E711
    assert a in [a]
    assert {a: 1}[a] == 1
    assert 5 in a
    assert 7 not in a
    assert sum(np.array([1, 2])) == 3
    assert [float(v) for v in reversed(np.array([1, 2]))] == [2, 1]
    first, second = np.array([1, 2])
    assert first < second
    assert divmod(7, 2) == (3, 1)


def test_casts():
    onp.testing.assert_array_equal(x().astype(bool).asnumpy(), A.astype(bool))
    assert x().astype("int32").dtype == onp.int32
    assert np.array([0, 0.5, onp.nan]).astype(bool).tolist() == [False, True, True]


def test_the_array_namespace_is_mx_np():
    assert x().__array_namespace__() is mx.np


def test_mx_np_and_mx_nd_meet():
    a = x()
    b = a.as_nd_ndarray()
    assert type(b) is mx.nd.NDArray
    assert np.shares_memory(a, b)
    assert type(a + b) is np.ndarray
    assert type(b + a) is np.ndarray


def test_plots_take_arrays():
    figure = Figure()
    axes = figure.subplots()
    x = np.arange(0, 3, 0.5)
    (line,) = axes.plot(x, np.sin(x))
    onp.testing.assert_array_equal(line.get_xdata(), x.asnumpy())
    rows, columns = np.meshgrid(x, x)
    axes.contour(rows, columns, rows**2 + columns)
    axes.imshow(np.ones((4, 4)))
    assert not onp.iterable(np.array(1.0))
