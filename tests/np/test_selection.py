"""Indexing, choosing and ordering of arrays of ``mx.np``: as NumPy, eagerly, while autograd records, and compiled."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, np
from hybridc.errors import MXNetError

DATA = onp.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
I64 = onp.array([2, 0, 2])
MASK = DATA > 0.3

KEYS = [
    0, -1, 2, (1, 2), (1, -1, 0), (), Ellipsis, None, slice(None), slice(1, None), slice(None, None, 2),
    slice(None, None, -1), slice(3, 0, -2), slice(5, 1), slice(-2, None), (slice(None), 1), (Ellipsis, 1),
    (1, Ellipsis), (1, Ellipsis, 2), (Ellipsis, None), (None, 1), (slice(None), None, slice(1, 3)),
    (None, Ellipsis, None, 2), (slice(0, 2), slice(1, 4, 2), slice(None, None, -2)), (0, slice(None), slice(None, 2)),
    I64, [2, 0, 2], I64.astype("int32"), I64.astype("uint8"), I64.reshape(1, 3), onp.array(1), onp.array([], "int64"),
    [[0, 1], [2, 0]], (I64, I64), (I64, slice(None), I64), (slice(None), I64, I64), (I64, 1), (1, I64),
    (slice(None), I64, 1), (0, slice(None), I64), (slice(1, None), I64 % 2), (Ellipsis, I64), (None, I64),
    (I64[:, None], I64), (I64, None, I64), (slice(None), slice(None), [0, 4]), (I64, Ellipsis, I64),
    (slice(None, None, 2), [1, 1], slice(None, None, -1)), (onp.array(1), slice(None)), (onp.array(1), onp.array(2)),
    MASK, MASK[:, 0, 0], MASK[:, :, 1], (slice(None), MASK[0, :, 0]), (Ellipsis, MASK[0, 0]), (0, MASK[0]),
    (MASK[:, 0, 0], 1), onp.zeros((3,), bool), onp.zeros((3, 4, 5), bool), [True, False, True], range(2),
    True, False, (True, 1), (slice(None), False), (1, True, slice(2)), onp.array(True), -onp.array([1, 2]),
]  # fmt: skip


def ours(key):
    """A key with arrays of ``mx.np`` for NumPy's."""
    if isinstance(key, tuple):
        return tuple(map(ours, key))
    return np.array(key) if isinstance(key, onp.ndarray) else key


def text(key):
    return f"{key.dtype}{key.shape}" if isinstance(key, onp.ndarray) else str(key)[:40]


def same(y, reference):
    assert type(y) is np.ndarray
    assert y.shape == reference.shape
    assert y.dtype == reference.dtype
    onp.testing.assert_array_equal(y.asnumpy(), reference)


@pytest.mark.parametrize("convert", [lambda key: key, ours], ids=["numpy", "ours"])
@pytest.mark.parametrize("key", KEYS, ids=text)
def test_reading_is_as_numpy_has_it(key, convert):
    x, key = np.array(DATA), convert(key)
    reference = onp.asarray(
        DATA[tuple(k.asnumpy() if isinstance(k, np.ndarray) else k for k in key)]
        if isinstance(key, tuple)
        else DATA[key.asnumpy() if isinstance(key, np.ndarray) else key]
    )
    same(x[key], reference)
    x.attach_grad()
    with autograd.record():
        y = x[key]
        z = (y * y).sum()
    same(y, reference)
    z.backward()
    counted = onp.zeros_like(DATA)
    onp.add.at(counted, key if not isinstance(key, tuple | np.ndarray) else _plain(key), 1)
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * DATA * counted, rtol=1e-6)


def _plain(key):
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    return key.asnumpy() if isinstance(key, np.ndarray) else key


def test_reading_is_traced():
    """All keys in one block: a graph for each would take long."""

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return [x[key] * 1 for key in KEYS]

    net = Net()
    net.hybridize()
    for key, y in zip(KEYS, net(np.array(DATA)), strict=True):
        same(y, onp.asarray(DATA[key]))


@pytest.mark.parametrize("value", [3, "row", "like"], ids=str)
@pytest.mark.parametrize("key", KEYS, ids=text)
def test_assignment_is_as_numpy_has_it(key, value):
    x, reference = np.array(DATA), DATA.copy()
    part = reference[key]
    if value == "row":
        value = onp.arange(part.shape[-1], dtype="float64") if part.ndim else onp.array(2.0)
    elif value == "like":
        value = onp.arange(part.size, dtype="float32").reshape(part.shape)
    reference[key] = value
    x[ours(key)] = np.array(value) if isinstance(value, onp.ndarray) else value
    onp.testing.assert_array_equal(x.asnumpy(), reference)


def test_a_comparison_is_a_mask():
    x = np.array(DATA)
    same(x[x > 0], DATA[DATA > 0])
    x[x > 0] = 0
    onp.testing.assert_array_equal(x.asnumpy(), onp.minimum(DATA, 0))
    x[...] = 3
    assert (x == 3).all()


def test_arrays_of_floats_are_indices():
    same(np.array(DATA)[np.array([2.0, 0.0])], DATA[[2, 0]])


def test_basic_keys_share_memory_and_others_do_not():
    x = np.array(DATA)
    for key, shared in ((0, True), ((slice(None), 1), True), ((0, 0, 0), True), (I64, False), (MASK, False)):
        assert np.shares_memory(x, x[key]) == shared
    x[0][1][2] = 7
    assert x[0, 1, 2] == 7


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (3, IndexError, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, 0, 0, 0), IndexError, "too many indices"),
        ([0, 5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
        (onp.zeros((2, 4), bool), IndexError, "boolean index"),
        (0.5, ValueError, "does not support slicing with key 0.5"),
        ("a", ValueError, "does not support slicing with key a"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast together"),
    ],
    ids=str,
)
@pytest.mark.parametrize("recording", [False, True], ids=["eager", "recorded"])
def test_wrong_keys(key, error, message, recording):
    x = np.array(DATA)
    if recording:
        x.attach_grad()
    with pytest.raises(error, match=message), autograd.record() if recording else autograd.pause():
        x[key]


def test_a_mask_of_a_trace_is_refused():
    net = mx.gluon.nn.HybridLambda(lambda F, x: x[x > 0])
    net.hybridize()
    with pytest.raises(MXNetError, match=r"use F\.where"):
        net(np.array(DATA))


def test_an_index_of_a_trace():
    net = mx.gluon.nn.HybridLambda(lambda F, x, i: x[:, i])
    net.hybridize()
    same(net(np.array(DATA), np.array(I64)), DATA[:, I64])


def test_iteration():
    x = np.array(DATA)
    rows = list(x)
    assert [type(r) for r in rows] == [np.ndarray] * 3
    onp.testing.assert_array_equal(onp.stack([r.asnumpy() for r in rows]), DATA)
    assert [float(v) for v in np.arange(3)] == [0, 1, 2]
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(np.array(1)).__next__()
