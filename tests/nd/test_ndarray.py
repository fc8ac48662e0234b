"""The NDArray class: what it tells, conversions, operators, in-place changes, sharing memory with others."""

import copy
import pickle  # noqa: TID251  (arrays can be pickled, as in MXNet; the library itself never does)
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd
from hybridc.errors import AttributeValueError, DTypeError, MXNetError

DTYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("number", [0, 1])
def test_arrays_like_another_ignore_a_dtype(number):
    """MXNet 1.9.1 takes one, and gives the other's."""
    x = nd.array([[3, 4]], dtype="int64")
    like = (nd.zeros_like, nd.ones_like)[number]
    traced = mx.gluon.nn.HybridLambda(lambda F, x: (F.zeros_like, F.ones_like)[number](x, dtype="float32"))
    traced.hybridize()
    for y in (like(x), like(x, dtype="float32"), traced(x)):
        assert y.dtype is np.int64
        np.testing.assert_array_equal(y.asnumpy(), np.full((1, 2), number))
    with pytest.raises(AttributeValueError, match="dtype"):
        like(x, dtype="no dtype")


@pytest.mark.parametrize("dtype", DTYPES)
def test_array_and_back(dtype):
    source = np.array([[0, 1, 2], [3, 0, 5]], dtype)
    x = nd.array(source, dtype=dtype)
    assert x.dtype is np.dtype(dtype).type
    assert (x.shape, x.size, x.ndim, len(x)) == ((2, 3), 6, 2, 2)
    np.testing.assert_array_equal(x.asnumpy(), source)
    x.asnumpy()[:] = 0  # a copy
    np.testing.assert_array_equal(x.asnumpy(), source)
    np.testing.assert_array_equal(np.asarray(x), source)
    np.testing.assert_array_equal(np.from_dlpack(x), source)


def test_the_default_dtype():
    assert nd.array([1, 2]).dtype is np.float32
    assert nd.array(np.arange(3)).dtype is np.float32
    assert nd.array(np.zeros(3)).dtype is np.float32
    assert nd.array(nd.array([1], dtype="int32")).dtype is np.int32
    assert nd.array(3).shape == ()
    with pytest.raises(TypeError, match="source_array must be array like"):
        nd.array([[1], [2, 3]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_creation(dtype):
    for made, want in [
        (nd.zeros((2, 3), dtype=dtype), np.zeros((2, 3))),
        (nd.ones(3, dtype=dtype), np.ones(3)),
        (nd.full((2,), 1, dtype=dtype), np.ones(2)),
        (nd.eye(2, 3, 1, dtype=dtype), np.eye(2, 3, 1)),
        (nd.arange(2, dtype=dtype), np.arange(2)),
        (nd.linspace(0, 1, 2, dtype=dtype), np.linspace(0, 1, 2)),
        (nd.zeros((2,), mx.cpu(), dtype), np.zeros(2)),
    ]:
        assert made.dtype is np.dtype(dtype).type
        np.testing.assert_array_equal(made.asnumpy(), want.astype(dtype))
    assert nd.empty((2, 3), dtype=dtype).dtype is np.dtype(dtype).type


def test_joining_and_moving():
    x = nd.array(np.arange(24).reshape(2, 3, 4))
    assert nd.concatenate([x, x], axis=1).shape == (2, 6, 4)
    np.testing.assert_array_equal(nd.moveaxis(x, 0, 2).asnumpy(), np.moveaxis(x.asnumpy(), 0, 2))
    back = nd.moveaxis(x, [0, 1], [-1, -2])
    np.testing.assert_array_equal(back.asnumpy(), np.moveaxis(x.asnumpy(), [0, 1], [-1, -2]))
    np.testing.assert_array_equal(nd.onehot_encode(nd.array([1, 0]), nd.zeros((2, 3))).asnumpy(), np.eye(3)[[1, 0]])
    nd.waitall()


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ([[0, 1], [2, 3]], "\n[[0. 1.]\n [2. 3.]]\n<NDArray 2x2 @cpu(0)>"),
        ([1, 2], "\n[1. 2.]\n<NDArray 2 @cpu(0)>"),
        (3, "\n3.0\n<NDArray  @cpu(0)>"),
    ],
)
def test_repr(x, text):
    assert repr(nd.array(x)) == str(nd.array(x)) == text


def test_scalars():
    x = nd.array([3.5])
    assert (x.asscalar(), float(x), int(x), x.item()) == (3.5, 3.5, 3, 3.5)
    assert bool(x)
    assert not nd.array([0])
    assert [10, 20, 30][nd.array([2], dtype="int32")] == 30
    with pytest.raises(ValueError, match="not a scalar"):
        nd.zeros((2,)).asscalar()
    with pytest.raises(ValueError, match="truth value"):
        bool(nd.zeros((2,)))
    with pytest.raises(TypeError, match="index"):
        [1, 2][nd.array([1])]


OPERATORS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
    "%": lambda x, y: x % y, "**": lambda x, y: x**y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y, ">=": lambda x, y: x >= y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators(symbol):
    call = OPERATORS[symbol]
    a, b = np.array([[1.0, 2, 3]], np.float32), np.array([[2.0], [3]], np.float32)
    x, y = nd.array(a), nd.array(b)
    for got, want in [(call(x, y), call(a, b)), (call(x, 2), call(a, 2)), (call(2.0, x), call(2.0, a))]:
        assert got.dtype is np.float32
        np.testing.assert_allclose(got.asnumpy(), want.astype("float32"), rtol=1e-6)
    np.testing.assert_allclose(call(x, b).asnumpy(), call(a, b).astype("float32"), rtol=1e-6)
    got = call(a, y)
    assert isinstance(got, nd.NDArray)
    np.testing.assert_allclose(got.asnumpy(), call(a, b).astype("float32"), rtol=1e-6)


def test_integers_stay_integers():
    x = nd.array([-3, 2, 7], dtype="int32")
    for got, want in [
        (x + 1.7, [-2, 3, 8]),
        (x / 2, [-1, 1, 3]),
        (x * 1.5, [-3, 2, 7]),
        (x > 1, [0, 1, 1]),
    ]:
        assert got.dtype is np.int32
        assert got.asnumpy().tolist() == want
    assert (nd.array([0], dtype="uint8") - 5).asnumpy().tolist() == [251]


def test_mixed_dtypes_raise():
    with pytest.raises(DTypeError, match=r"lhs is float32, rhs is float64; use .astype\('float32'\)"):
        nd.ones(2) + nd.ones(2, dtype="float64")
    with pytest.raises(DTypeError):
        nd.ones(2).__iadd__(nd.ones(2, dtype="int32"))


def test_none_is_never_equal():
    assert (nd.ones(2) == None) is False  # noqa: E711
    assert (nd.ones(2) != None) is True  # noqa: E711


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_in_place(dtype):
    x = nd.array([4, 8, 12], dtype=dtype)
    y, view = x, x[1:]
    for change, want in [
        (lambda: x.__iadd__(1.5), [5.5, 9.5, 13.5]),
        (lambda: x.__isub__(nd.array([1], dtype=dtype)), [4.5, 8.5, 12.5]),
        (lambda: x.__imul__(2), [9, 17, 25]),
        (lambda: x.__itruediv__(4), [2.25, 4.25, 6.25]),
        (lambda: x.__imod__(4), [2.25, 0.25, 2.25]),
    ]:
        before = x.asnumpy()
        assert change() is x
        if dtype == "float32":
            assert x.asnumpy().tolist() == want
        else:
            assert x.dtype is np.dtype(dtype).type
            assert (x.asnumpy() != before).any()
    assert y is x
    np.testing.assert_array_equal(view.asnumpy(), x.asnumpy()[1:])


def test_in_place_integers_are_as_out_of_place():
    for call in OPERATORS["+"], OPERATORS["-"], OPERATORS["*"], OPERATORS["/"], OPERATORS["%"]:
        x = nd.array([7, -9, 5], dtype="int32")
        want = call(x, 2).asnumpy()
        if call is OPERATORS["+"]:
            x += 2
        elif call is OPERATORS["-"]:
            x -= 2
        elif call is OPERATORS["*"]:
            x *= 2
        elif call is OPERATORS["/"]:
            x /= 2
        else:
            x %= 2
        np.testing.assert_array_equal(x.asnumpy(), want)


def test_in_place_does_not_change_the_shape():
    x = nd.ones((2, 3))
    x += nd.ones((3,))
    with pytest.raises(MXNetError, match=r"shape \(4, 2, 3\) and does not fit into an array of shape \(2, 3\)"):
        x += nd.ones((4, 2, 3))


def test_reshape_shares_memory_and_operators_do_not():
    x = nd.zeros((2, 3))
    for y in (x.reshape((3, 2)), x.reshape(3, -1), x.reshape(shape=(-1,)), x.reshape((0, -1), reverse=True)):
        assert np.shares_memory(x.asnative(), y.asnative())
    for y in (
        nd.reshape(x, (3, 2)), x.T, x.transpose(), x.expand_dims(0), x.flatten(), x.squeeze(), x.flip(0),
        x.copy(), x.broadcast_to((2, 3)), x.slice_axis(0, 0, 1), x.astype("float32"), nd.identity(x),
        x.swapaxes(0, 1), nd.concat(x, dim=0), *x.split(2, axis=0), nd.BlockGrad(x),
        nd.take(x, nd.array([0, 1])),
    ):  # fmt: skip
        assert not np.shares_memory(x.asnative(), y.asnative())
        assert y.writable
    assert x.astype("float32", copy=False) is x
    assert np.shares_memory(x.detach().asnative(), x.asnative())


def test_recorded_reshape_shares_memory_and_has_a_gradient():
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    x.attach_grad()
    with mx.autograd.record():
        y = x.reshape((3, 2))
        z = (y * y).sum()
    assert np.shares_memory(x.asnative(), y.asnative())
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * x.asnumpy())


def test_copies():
    x = nd.array([[1, 2], [3, 4]])
    out = nd.zeros((2, 2), dtype="int32")
    assert x.copyto(out) is out
    assert out.asnumpy().tolist() == [[1, 2], [3, 4]]
    assert not np.shares_memory(x.copyto(mx.cpu()).asnative(), x.asnative())
    assert x.as_in_context(mx.cpu()) is x
    assert x.as_nd_ndarray() is x
    assert x.tostype("default") is x
    with pytest.raises(MXNetError, match="shape"):
        x.copyto(nd.zeros((3,)))
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        np.testing.assert_array_equal(other.asnumpy(), x.asnumpy())
        assert not np.shares_memory(other.asnative(), x.asnative())


def test_numpy_functions_give_numpy_arrays():
    x = nd.array([[1, 2], [3, 4]])
    for got, want in [(np.sin(x), np.sin(x.asnumpy())), (np.concatenate([x, x]), np.ones((4, 2)))]:
        assert type(got) is np.ndarray
        assert got.shape == want.shape
    assert isinstance(np.float32(2) * x, nd.NDArray)
    assert np.asarray(x, dtype="int64").dtype == np.int64


def test_dlpack():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = nd.from_dlpack(source)
    assert np.shares_memory(x.asnative(), source)
    np.testing.assert_array_equal(x.asnumpy(), source)
    y = np.from_dlpack(x)
    assert np.shares_memory(y, source)
    z = nd.from_dlpack(x.to_dlpack_for_read())
    z[0, 0] = 7
    assert source[0, 0] == 7
    nd.from_dlpack(nd.to_dlpack_for_write(x))[0, 1] = 8
    assert source[0, 1] == 8
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    try:
        taken = nd.from_dlpack(frozen)
    except BufferError:  # NumPy before 2.1 does not export read-only arrays
        return
    taken[0] = 5
    assert frozen[0] == 0


def test_from_numpy():
    source = np.zeros((2, 3), np.float32)
    assert np.shares_memory(nd.from_numpy(source).asnative(), source)
    assert not np.shares_memory(nd.from_numpy(source, zero_copy=False).asnative(), source)
    with pytest.raises(ValueError, match="contiguous"):
        nd.from_numpy(source.T)


def test_numbers_alone_give_a_number():
    assert nd.maximum(2, 3) == 3
    assert isinstance(nd.add(1, 2), int)
    assert nd.divide(1, 2) == 0.5
    np.testing.assert_array_equal(nd.maximum(2, nd.array([1, 5])).asnumpy(), [2, 5])
    np.testing.assert_array_equal(nd.power(2, nd.array([1, 5])).asnumpy(), [2, 32])


def test_namespaces():
    assert nd.op.relu is nd.relu
    assert callable(nd.random.normal_like)
    assert "add" in dir(nd)
    assert "boolean_mask" in dir(nd.contrib)
    for namespace in (nd.linalg, nd.contrib, nd.image, nd.op, nd.random):
        with pytest.raises(AttributeError, match="has no operator 'nonsense'"):
            namespace.nonsense  # noqa: B018


def test_boolean_mask():
    x = nd.array([[1, 2], [3, 4], [5, 6]])
    x.attach_grad()
    with mx.autograd.record():
        y = nd.contrib.boolean_mask(x, nd.array([1, 0, 1])) * 3
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), [[3, 6], [15, 18]])
    np.testing.assert_array_equal(x.grad.asnumpy(), [[3, 3], [0, 0], [3, 3]])
    assert nd.contrib.boolean_mask(x, nd.zeros((3,))).shape == (0, 2)
    assert nd.contrib.boolean_mask(x, nd.array([0, 1]), axis=1).shape == (3, 1)
    with pytest.raises(MXNetError, match=r"index must have shape \(3,\)"):
        nd.contrib.boolean_mask(x, nd.zeros((2,)))


def test_where_takes_numbers_and_rows():
    x = nd.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(nd.where(x > 2, x, 0).asnumpy(), [[0, 0], [3, 4]])
    np.testing.assert_array_equal(nd.where(x > 2, -1e9, x).asnumpy(), np.float32([[1, 2], [-1e9, -1e9]]))
    np.testing.assert_array_equal(nd.where(nd.array([1, 0]), x, -x).asnumpy(), [[1, 2], [-3, -4]])


def test_bad_attributes_name_the_operator():
    with pytest.raises(AttributeValueError, match="Reshape: attribute shape takes a tuple of integers, got 'x'"):
        nd.Reshape(nd.ones(2), shape="x")


def test_modes_belong_to_one_thread():
    x = nd.ones((2,))
    x.attach_grad()
    seen = []

    def work():
        seen.append((mx.autograd.is_recording(), mx.autograd.is_training()))
        with mx.autograd.record():
            (x * 3).backward()
        seen.append(mx.autograd.is_recording())

    with mx.autograd.record():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert mx.autograd.is_recording()
        assert (x * 2)._entry is not None
    assert seen == [(False, False), False]
    assert x.grad.asnumpy().tolist() == [3, 3]


def test_many_threads_compute_at_once():
    """Operators bind, build their functions and run in any thread."""
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    results = []

    def work(i):
        x = nd.array(data)
        for j in range(50):
            y = x.reshape((j % 2 + 1, -1)).sum() + nd.slice_axis(x, axis=1, begin=i % 3, end=4).max() + x[i % 3, 1:]
        results.append(y.asnumpy())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6


def test_a_device_that_is_none_is_refused():
    with pytest.raises(TypeError, match=r"expected a Context such as mx\.cpu"):
        mx.nd.zeros((2,), ctx="gpu", dtype="float16")
