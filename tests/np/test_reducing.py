"""Reductions of ``mx.np``: eager and compiled results against NumPy, gradients, axes, dtypes, edges."""

from __future__ import annotations

import numpy as onp
import pytest

from hybridc import autograd, np
from tests.np.eager_and_compiled import check, check_gradient, results

RNG = onp.random.default_rng(1)
X = RNG.uniform(0.5, 2, (3, 4, 5)).astype("float32")
HOLES = onp.where(RNG.uniform(size=X.shape) < 0.3, onp.nan, X).astype("float32")
AXES = (None, 0, -1, (0, 2), (-1, -3), (0, 1, 2), (), 1)
PLAIN = ["sum", "prod", "mean", "max", "min", "amax", "amin", "product", "ptp", "var", "std", "any", "all"]
NAN = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]
DIFFERENTIATED = ["sum", "prod", "mean", "max", "min", "var", "std", "nansum", "nanmean", "nanvar", "nanmax", "ptp"]


def of_axes(function, name):
    """Its results for all axes, with and without keepdims."""
    ways = [(axis, keep) for axis in AXES for keep in (False, True) if not (name == "ptp" and (keep or axis == ()))]

    def calls(x):
        return [function(x, axis=axis, **({"keepdims": True} if keep else {})) for axis, keep in ways]

    return calls


def reference(name):
    return getattr(onp, {"product": "prod"}.get(name, name))


@pytest.mark.parametrize("name", [*PLAIN, *NAN])
def test_axes(name):
    x = HOLES if name in NAN else X
    check(of_axes(getattr(np, name), name), of_axes(reference(name), name), x, rtol=2e-5)
    strided = onp.asfortranarray(x[:, ::2])
    for found in results(lambda x: getattr(np, name)(x, 1), strided):
        onp.testing.assert_allclose(found[0].asnumpy(), reference(name)(strided, 1), rtol=2e-5)
    scalar = onp.asarray(X[0, 0, 0])
    check(lambda x: getattr(np, name)(x), reference(name), scalar, rtol=1e-6)
    if name in DIFFERENTIATED:
        for axis in (None, 0, (0, 2)):
            check_gradient(lambda x, a=axis: getattr(np, name)(x, axis=a), X[:2, :2, :2])


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "std", "var", "any", "all", "argmax", "argmin"])
def test_methods(name):
    for found in results(lambda x: [getattr(x, name)(), getattr(x, name)(1)], X):
        for y, axis in zip(found, (None, 1), strict=True):
            onp.testing.assert_allclose(y.asnumpy(), getattr(X, name)(axis), rtol=1e-5)


def test_no_elements():
    empty = onp.zeros((0, 3), "float32")
    for name in ("sum", "prod", "any", "all", "count_nonzero"):
        check(lambda x, n=name: getattr(np, n)(x), lambda x, n=name: getattr(onp, n)(x), empty)
        check(lambda x, n=name: getattr(np, n)(x, 0), lambda x, n=name: getattr(onp, n)(x, 0), empty)
        check(lambda x, n=name: getattr(np, n)(x, 1), lambda x, n=name: getattr(onp, n)(x, 1), empty)
    assert np.isnan(np.mean(np.array(empty)))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match=r"no elements|empty sequence"):
            getattr(np, name)(np.array(empty))
        assert getattr(np, name)(np.array(empty), 1).shape == (0,)
    check(lambda x: np.max(x, initial=2.5), lambda x: onp.max(x, initial=2.5), empty)


def whole_reductions(x):
    names = ("sum", "prod", "cumsum", "mean", "std", "max", "any", "argmax")
    return [getattr(x, name)() for name in names]


def test_dtypes():
    wanted = {"bool": ("int64", "float32"), "int8": ("int8", "float32"), "int32": ("int32", "float32"),
              "float16": ("float16", "float16"), "float64": ("float64", "float64")}  # fmt: skip
    x = onp.array([[1, 0, 3], [2, 1, 1]])
    for dtype, (sums, means) in wanted.items():
        for found in results(whole_reductions, x.astype(dtype)):
            got = [onp.dtype(y.dtype).name for y in found]
            assert got == [sums, sums, sums, means, means, dtype, "bool", "int64"]
    check(
        lambda x: np.sum(x, dtype="float64"), lambda x: onp.sum(x, dtype="float64"), x.astype("int8"), dtype="float64"
    )
    check(lambda x: np.mean(x, 0, "float64"), lambda x: onp.mean(x, 0), x, dtype="float64")


def test_half_precision_is_accumulated_in_single():
    x = onp.full(16384, 1.25, "float16")
    for name, wanted in (("sum", 20480.0), ("mean", 1.25), ("var", 0.0), ("std", 0.0)):
        for found in results(lambda x, n=name: getattr(np, n)(x), x):
            assert found[0].dtype == onp.float16
            assert float(found[0]) == wanted
    wide = onp.array([300, -300, 300, -300], "float16")  # squares overflow
    check(np.std, onp.std, wide, dtype="float16")


def test_long_sums_and_variances_are_exact():
    x = (1e4 + RNG.normal(size=(1000, 300))).astype("float32")
    for axis in (None, 0, 1):
        wide = x.astype("float64")
        for found in results(lambda x, a=axis: [np.sum(x, a), np.mean(x, a), np.var(x, a), np.std(x, a)], x):
            for y, w in zip(found, (wide.sum(axis), wide.mean(axis), wide.var(axis), wide.std(axis)), strict=True):
                onp.testing.assert_allclose(y.asnumpy(), w, rtol=5e-4)  # columns are added as NumPy does, naively


def test_ddof():
    for ddof in (0, 1, 2.5):
        check(lambda x, d=ddof: np.var(x, 1, ddof=d), lambda x, d=ddof: onp.var(x, 1, ddof=d), X)
        check(lambda x, d=ddof: np.nanstd(x, ddof=d), lambda x, d=ddof: onp.nanstd(x, ddof=d), HOLES)
    assert np.isnan(np.var(np.array([1.0]), ddof=1))


def test_initial_and_where():
    mask = RNG.uniform(size=X.shape) < 0.5
    for name, more in (("sum", {}), ("prod", {}), ("mean", {}), ("max", {"initial": 1.0}), ("min", {"initial": 1.0}),
                       ("sum", {"initial": 3}), ("var", {}), ("std", {"ddof": 1})):  # fmt: skip
        for axis in (None, (0, 1)):

            def call(x, m, module, name=name, more=more, axis=axis):
                return getattr(module, name)(x, axis=axis, where=m, **more)

            check(lambda x, m: call(x, m, np), lambda x, m: call(x, m, onp), X, mask, rtol=2e-5)
    check(lambda x: np.max(x, 1, initial=1.5), lambda x: onp.max(x, 1, initial=1.5), X)
    check(lambda x: np.sum(x, 1, where=x[0] > 1), lambda x: onp.sum(x, 1, where=x[0] > 1), X)
    with pytest.raises(ValueError, match="give initial="):
        np.max(np.array(X), where=np.array(mask))
    check_gradient(lambda x: np.mean(x, where=np.array([True, False])), X[0, :2, :2])


def test_average():
    w, rows = X[::-1].copy(), onp.array([1.0, 2, 3, 4], "float32")
    check(np.average, onp.average, X)
    check(lambda x, w: np.average(x, weights=w), lambda x, w: onp.average(x, weights=w), X, w)
    check(lambda x, w: np.average(x, 1, w), lambda x, w: onp.average(x, 1, w), X, rows)
    check(lambda x, w: np.average(x, 1, w, True), lambda x, w: onp.average(x, 1, w, True), X, rows)
    check(lambda x: np.average(x, 0, returned=True), lambda x: onp.average(x, 0, returned=True), X)
    check_gradient(lambda x, w: np.average(x, 0, w), X[0, :2, :2], onp.array([1.0, 2.0]))
    with pytest.raises(TypeError, match="need an axis"):
        np.average(np.array(X), weights=np.array(rows))


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_indices(name):
    x = HOLES if name.startswith("nan") else onp.round(X, 1)
    x = onp.where(onp.isnan(x).all(1, keepdims=True), 1, x).astype("float32")
    for axis in (None, 0, -1, 1):
        check(lambda x, a=axis: getattr(np, name)(x, a), lambda x, a=axis: getattr(onp, name)(x, a), x, dtype="int64")
    for dtype in ("bool", "uint8", "int64", "float16"):
        values = onp.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        check(lambda x: getattr(np, name)(x, 1), lambda x: getattr(onp, name)(x, 1), values, dtype="int64")
    check(lambda x: getattr(np, name)(x), getattr(onp, name), onp.float32(2.0).reshape(()), dtype="int64")


def test_indices_are_exact_and_nan_is_extreme():
    size = 2**24 + 3
    x = onp.zeros(size, "float32")
    x[-1] = 1
    for found in results(lambda x: [np.argmax(x), x.argmin()], x):
        assert [int(y) for y in found] == [size - 1, 0]
    half = onp.zeros(5000, "float16")
    half[4097] = 1
    check(np.argmax, onp.argmax, half, dtype="int64")
    check(np.argmax, onp.argmax, onp.array([1, onp.nan, 3], "float32"), dtype="int64")
    y = np.array(X)
    out = np.zeros((3, 5), dtype="int64")
    assert np.argmax(y, 1, out) is out
    assert np.argmax(y, 1, keepdims=True).shape == (3, 1, 5)


def test_truth():
    x = onp.array([[0, 0.5, onp.nan], [0, 0, -0.0], [1, 1, 1]], "float32")
    for name in ("any", "all"):
        check(of_axes(getattr(np, name), name), of_axes(getattr(onp, name), name), x[None], dtype="bool")
        check(lambda x, n=name: getattr(np, n)(x, 1), lambda x, n=name: getattr(onp, n)(x, 1), x.astype("int8"))
    check(lambda x: np.count_nonzero(x, 1), lambda x: onp.count_nonzero(x, 1), x, dtype="int64")
    with autograd.record():
        y = np.array(x) > 0
        assert np.all(y, 1).tolist() == [False, False, True]
        assert y.any().item() is True


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_sums_so_far(name):
    x = HOLES if name.startswith("nan") else X
    for axis in (None, 0, -1):
        check(lambda x, a=axis: getattr(np, name)(x, a), lambda x, a=axis: getattr(onp, name)(x, a), x, rtol=2e-5)
        check_gradient(lambda x, a=axis: getattr(np, name)(x, axis=a), X[:2, :2, :2])
    check(lambda x: getattr(np, name)(x), getattr(onp, name), onp.array([True, True, False]), dtype="int64")
    check(
        lambda x: getattr(np, name)(x, 0, "float64"), lambda x: getattr(onp, name)(x, 0), x, dtype="float64", rtol=1e-6
    )


def test_all_nan():
    x = onp.array([[onp.nan, onp.nan], [1, onp.nan]], "float32")
    wanted = onp.array([onp.nan, 1.0])
    for name in ("nanmax", "nanmin", "nanmean"):
        check(lambda x, n=name: getattr(np, n)(x, 1), lambda _: wanted, x)


def test_wrong_axes():
    x = np.array(X)
    for name in ("sum", "mean", "max", "any", "argmax", "var", "cumsum"):
        with pytest.raises((ValueError, IndexError), match=r"axis|out of"):
            getattr(np, name)(x, 3)
    with pytest.raises(ValueError, match="twice"):
        np.sum(x, (0, -3))


def test_out_and_order_of_arguments():
    x, out = np.array(X), np.zeros((3, 5))
    assert np.max(x, 1, False, out) is out
    assert np.sum(x, 1, None, False, None, out) is out
    assert np.prod(x, 1, None, out) is out
    assert np.mean(x, 1, None, out) is out
    onp.testing.assert_allclose(out.asnumpy(), X.mean(1), rtol=1e-6)
    assert np.ptp(x, 1, out) is out
