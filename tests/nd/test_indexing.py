"""Indexing agrees with NumPy: as views, while recording (with gradients), and while tracing."""

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd
from hybridc.errors import MXNetError
from hybridc.trace.tracer import Trace

s_ = np.s_
BASIC = [
    (), 0, -1, s_[1:], s_[::-1], s_[::2], s_[2:0:-1], s_[0, 1], s_[0, 1, 2], s_[:, 1], s_[..., 0], s_[0, ...],
    s_[...], None, s_[:, None], s_[None, 0, None], s_[1, None, ::-2, None], s_[:, :, None, 1], s_[..., None],
    s_[1:1], s_[5:9], s_[-2:, 1:2, ::3], s_[0, :, None, ..., -1], np.int64(1), s_[np.int32(0), 1:],
]  # fmt: skip
ADVANCED = [
    [0, 1], [-1], s_[:, [0, 2]], s_[[0, 1], [1, 2]], s_[:, [0, 1], [1, 3]], s_[[0, 1], :, [1, 3]],
    s_[0, :, [1, 3]], s_[[0, 1], ..., [1, 2]], s_[:, [0, 1], None, [1, 2]],
    s_[None, [0, 1]], s_[:, None, [0, 1]],
    s_[..., [0, 1]], s_[[[0], [1]], [0, 2]], s_[1:, [0, 1], ::2], s_[::-1, 0, [3, 1]],
    np.array([[0, 1], [1, 0]]), s_[0, [1, 1], 2], s_[:, [[0, 1], [2, 0]], None],
    s_[[0], 1:, None, [2]], s_[[1, 0], None, 0], s_[[0, 1], [0, 1], [0, 1]],
    np.array([True, False]), s_[:, np.array([True, False, True])], s_[np.ones((2, 3), bool)],
    s_[0, np.array([True, False, True])], s_[np.eye(2, 3, dtype=bool), 1:], np.zeros(2, bool),
]  # fmt: skip
DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def expected(data, key):
    return np.atleast_1d(data[key])


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_basic_keys_give_views(key):
    data = DATA.copy()
    x = nd.from_numpy(data)
    y = x[key]
    np.testing.assert_array_equal(y.asnumpy(), expected(data, key))
    if y.size:
        assert np.shares_memory(y.asnative(), data)
        y[:] = -1
        want = DATA.copy()
        want[key] = -1
        np.testing.assert_array_equal(x.asnumpy(), want)


@pytest.mark.parametrize("key", ADVANCED, ids=str)
def test_advanced_keys_give_copies(key):
    x = nd.array(DATA)
    y = x[key]
    np.testing.assert_array_equal(y.asnumpy(), expected(DATA, key))
    assert not np.shares_memory(y.asnative(), x.asnative())


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
def test_recorded_keys_and_their_gradients(key):
    x = nd.array(DATA)
    x.attach_grad()
    with mx.autograd.record():
        y = x[key]
    np.testing.assert_array_equal(y.asnumpy(), expected(DATA, key))
    weights = np.random.RandomState(0).uniform(-1, 1, y.shape).astype(np.float32)
    y.backward(nd.array(weights))
    want = np.zeros_like(DATA)
    np.add.at(want, key, weights.reshape(DATA[key].shape))
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-6)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
def test_traced_keys_have_numpys_shape(key):
    trace = Trace()
    with trace.active():
        y = trace.leaf("x", DATA.shape, DATA.dtype, "data")[key]
    assert y.shape == expected(DATA, key).shape
    assert y.dtype == np.float32


def test_traced_indices():
    trace = Trace()
    with trace.active():
        x = trace.leaf("x", DATA.shape, DATA.dtype, "data")
        i = trace.leaf("i", (2, 1), np.dtype("float32"), "data")
        j = trace.leaf("j", (5,), np.dtype("int32"), "data")
        assert x[i].shape == (2, 1, 3, 4)
        assert x[:, j].shape == (2, 5, 4)
        assert x[i, j].shape == (2, 5, 4)
        assert x[i, :, j].shape == (2, 5, 3)
        assert x[0, i, 1].shape == (2, 1)
        assert x[j, 1:, None].shape == (5, 2, 1, 4)
        with pytest.raises(MXNetError, match="dtype bool cannot be an index"):
            x[trace.leaf("m", (2,), np.dtype("bool"), "data")]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_array_indices_of_any_dtype(dtype):
    x = nd.array(DATA)
    i = nd.array([1, 0, 1], dtype=dtype)
    np.testing.assert_array_equal(x[i].asnumpy(), DATA[[1, 0, 1]])
    np.testing.assert_array_equal(x[i, [0, 1, 2]].asnumpy(), DATA[[1, 0, 1], [0, 1, 2]])
    mask = nd.array([1, 0], dtype="bool")
    np.testing.assert_array_equal(x[mask].asnumpy(), DATA[:1])


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
@pytest.mark.parametrize("kind", ["number", "array", "numpy", "list"])
def test_assignment(key, kind):
    x, want = nd.array(DATA), DATA.copy()
    shape = want[key].shape
    value = np.random.RandomState(0).uniform(-1, 1, shape[-1:]).astype(np.float32)
    if kind == "number":
        x[key], want[key] = 7.5, 7.5
    else:
        x[key] = {"array": nd.array, "numpy": np.array, "list": np.ndarray.tolist}[kind](value)
        want[key] = value
    np.testing.assert_array_equal(x.asnumpy(), want)


def test_assignment_casts_as_c_does():
    x = nd.zeros((2, 3), dtype="int32")
    x[0] = 2.7
    x[1] = nd.array([1.5, 2.5, -1.5])
    assert x.asnumpy().tolist() == [[2, 2, 2], [1, 2, -1]]
    y = nd.zeros((2,), dtype="uint8")
    y[0] = 300
    y[1] = -1
    assert y.asnumpy().tolist() == [44, 255]


def test_views_of_parameters_and_reshaped_views():
    x = nd.zeros((2, 3))
    x.reshape((6,))[4] = 1
    x[0][1:] = 2
    x[:, 0] += 5
    assert x.asnumpy().tolist() == [[5, 2, 2], [5, 1, 0]]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (2, IndexError, "index 2 is out of bounds for axis 0 with size 2"),
        (s_[0, 3], IndexError, "index 3 is out of bounds for axis 1 with size 3"),
        (s_[0, 0, 0, 0], IndexError, "too many indices"),
        (s_[..., ...], IndexError, "ellipsis"),
        ([5], IndexError, "index 5 is out of bounds for axis 0 with size 2"),
        (np.array([True]), IndexError, "boolean index"),
        (1.0, ValueError, "does not support slicing with key 1.0 of type <class 'float'>"),
        ("x", ValueError, "does not support slicing with key x of type <class 'str'>"),
        (s_[[0, 1], [0, 1, 2]], IndexError, "broadcast"),
    ],
    ids=str,
)
@pytest.mark.parametrize("recording", [False, True])
def test_errors(key, error, text, recording):
    x = nd.array(DATA)
    x.attach_grad()
    with mx.autograd.record() if recording else mx.autograd.pause(), pytest.raises(error, match=text):
        x[key]


def test_assignment_of_a_wrong_shape():
    x = nd.zeros((2, 3))
    with pytest.raises(ValueError, match=r"shape \(2, 2\) to the selected elements, of shape \(2, 3\)"):
        x[:] = nd.ones((2, 2))


def test_assignment_while_recording():
    x = nd.ones((2, 3))
    x.attach_grad()
    with mx.autograd.record():
        y = x * 2
        writes = lambda: x.__setitem__(0, 5), lambda: y.__setitem__(s_[:], 5), lambda: y.__iadd__(1)
        for write in writes:
            with pytest.raises(MXNetError, match="inplace operations"):
                write()
        z = nd.zeros((2, 3))
        with pytest.raises(MXNetError, match="inplace operations"):
            z[0] = y[0]
        z[0] = 3  # nothing is known of z
        z[:] = y
        loss = (z * z).sum()
    loss.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full((2, 3), 8.0))


def test_the_gradient_of_a_view_of_a_view():
    x = nd.array(DATA)
    x.attach_grad()
    with mx.autograd.record():
        y = x[1:][0, ::2][..., 1] * 3
    y.backward()
    want = np.zeros_like(DATA)
    want[1, ::2, 1] = 3
    np.testing.assert_array_equal(x.grad.asnumpy(), want)


def test_iteration_and_length():
    x = nd.array(DATA)
    assert len(x) == 2
    assert [row.shape for row in x] == [(3, 4)] * 2
    assert nd.array([1, 2])[1].shape == (1,)
    assert nd.array(3)[()].shape == ()
    with pytest.raises(TypeError):
        len(nd.array(3))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "float16", "float32"])
def test_gradients_of_gathers_with_small_index_types(dtype):
    """Positions in the flat gradient are larger than the index type can hold."""
    index = np.array([3, 99, 3], dtype)
    x = nd.zeros((100, 7))
    x.attach_grad()
    with mx.autograd.record():
        y = nd.take(x, nd.array(index, dtype=dtype)) + nd.Embedding(
            nd.array(index, dtype=dtype), x, input_dim=100, output_dim=7
        )
    y.backward()
    want = np.zeros((100, 7))
    want[3], want[99] = 4, 2
    np.testing.assert_array_equal(x.grad.asnumpy(), want)
