"""Random programs on sparse arrays give what they give on dense ones, and arrays whose format is right."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse

import hybridc as mx
from tests.slices import EXAMPLES

pytestmark = pytest.mark.filterwarnings("ignore:.*dense copies")

_NAMES = "abs sign square relu negative trunc zeros_like tanh sin expm1 exp cos ones_like identity"
NAMES = _NAMES.split()
UNARY = [
    *(lambda x, name=name: getattr(mx.nd, name)(x) for name in NAMES),
    lambda x: x * 2,
    lambda x: x + 1,
    lambda x: x > 0.5,
    lambda x: mx.nd.clip(x, -1, 1),
    lambda x: 0 - x,
    lambda x: x.astype("float64").astype("float32"),
    lambda x: x.copy(),
]
BINARY = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: mx.nd.maximum(x, y),
    lambda x, y: mx.nd.minimum(x, y),
    lambda x, y: mx.nd.add_n(x, y, x),
    lambda x, y: x * y.tostype("default"),
    lambda x, y: y.tostype("default") * x,
    lambda x, y: x + y.tostype("default"),
    lambda x, y: x == y,
]
ENDS = [
    lambda x: x.sum(),
    lambda x: mx.nd.sum(x, axis=0),
    lambda x: mx.nd.sum(x, axis=1, keepdims=True),
    lambda x: mx.nd.mean(x, axis=1),
    lambda x: x.norm(),
    lambda x: mx.nd.norm(x, axis=0),
    lambda x: mx.nd.norm(x, ord=1, axis=1),
    lambda x: mx.nd.max(x, axis=0),
    lambda x: mx.nd.dot(x, mx.nd.ones((x.shape[1], 2))),
    lambda x: mx.nd.dot(x, mx.nd.ones((x.shape[0], 2)), transpose_a=True),
    lambda x: mx.nd.dot(mx.nd.ones((2, x.shape[0])), x),
    lambda x: mx.nd.take(x, mx.nd.array([0, x.shape[0] - 1, 0])),
    lambda x: mx.nd.concat(x, x, dim=0),
    lambda x: mx.nd.slice(x, begin=(0, 1), end=(None, None)),
]


def values(random, shape):
    """Numbers from -2 to 2, of which most are zero, some whole rows, and a few are not finite."""
    x = (
        np.round(random.normal(size=shape), 1)
        * (random.random(shape) < 0.3)
        * (random.random(shape[:1]) < 0.7)[:, None]
    )
    return x.astype("float32")


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_program_gives_what_it_gives_on_dense_arrays(seed):
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(1, 9, 2))
    given = [values(random, shape) for _ in range(2)]
    stype = ["csr", "row_sparse"][seed % 2]
    sparse, dense = ([mx.nd.array(x).tostype(s) for x in given] for s in (stype, "default"))
    for _ in range(4):
        if random.random() < 0.5:
            run = UNARY[random.integers(len(UNARY))]
            sparse[0], dense[0] = run(sparse[0]), run(dense[0])
        else:
            run = BINARY[random.integers(len(BINARY))]
            sparse[0], dense[0] = run(*sparse), run(*dense)
        same(sparse[0], dense[0])
    end = ENDS[random.integers(len(ENDS))]
    same(end(sparse[0]), end(dense[0]))


def same(sparse, dense):
    if sparse.stype != "default":
        sparse.check_format()
    assert sparse.dtype == dense.dtype
    np.testing.assert_allclose(sparse.asnumpy(), dense.asnumpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_dtypes(stype, dtype, tmp_path):
    x = np.array([[0, 3, 0], [0, 0, 0], [1, 0, 2]]).astype(dtype)
    y = mx.nd.array(x, dtype=dtype).tostype(stype)
    assert y.dtype == np.dtype(dtype).type
    for found in (y, y.copy(), y.tostype("default")):
        np.testing.assert_array_equal(found.asnumpy(), x)
    mx.nd.save(str(tmp_path / "x.params"), [y])
    (again,) = mx.nd.load(str(tmp_path / "x.params"))
    assert (again.stype, again.dtype) == (stype, y.dtype)
    np.testing.assert_array_equal(again.asnumpy(), x)
    if dtype != "bool":
        np.testing.assert_array_equal((y + y).asnumpy(), x + x)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_what_is_not_finite_stays(stype):
    x = np.array([[0, np.nan], [0, 0], [np.inf, -np.inf]], "float32")
    y = mx.nd.array(x).tostype(stype)
    np.testing.assert_array_equal(y.asnumpy(), x)
    np.testing.assert_array_equal((-y).asnumpy(), -x)
    assert np.isnan(y.sum().asscalar())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_no_elements(stype, shape):
    with mx.util.np_shape(True):
        x = mx.nd.zeros(shape, stype=stype)
        assert (x + x).shape == (x * 2).shape == x.tostype("default").shape == shape


@pytest.mark.parametrize("width", [1, 7])
def test_large_products_are_those_of_scipy(width):
    random = np.random.RandomState(0)
    a = scipy.sparse.random(3000, 5000, 0.02, "csr", "float32", random)
    x, w, y = mx.nd.array(a), random.rand(5000, width).astype("float32"), random.rand(3000, width).astype("float32")
    np.testing.assert_allclose(mx.nd.dot(x, mx.nd.array(w)).asnumpy(), a.astype("float64") @ w, rtol=1e-4)
    for stype in ("row_sparse", "default"):
        found = mx.nd.dot(x, mx.nd.array(y), transpose_a=True, forward_stype=stype)
        assert found.stype == stype
        np.testing.assert_allclose(found.asnumpy(), a.T.astype("float64") @ y, rtol=1e-4, atol=1e-6)


def test_many_threads_use_one_matrix():
    random = np.random.RandomState(1)
    a = scipy.sparse.random(200, 300, 0.1, "csr", "float32", random)
    x, w = mx.nd.array(a), random.rand(300, 5).astype("float32")
    expected, wrong = a @ w, []

    def work():
        for _ in range(30):
            if not np.allclose(mx.nd.dot(x, mx.nd.array(w)).asnumpy(), expected, rtol=1e-4):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_steps_of_an_embedding_are_those_of_its_rows():
    table = mx.gluon.nn.Embedding(1_000_000, 4, sparse_grad=True)
    table.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(table.collect_params(), "adam", {"learning_rate": 0.5})
    for rows in ([5, 999_999, 5], [7]):
        with mx.autograd.record():
            loss = table(mx.nd.array(rows)).sum()
        loss.backward()
        assert table.weight.grad().indices.asnumpy().tolist() == sorted(set(rows))
        trainer.step(1)
    changed = np.flatnonzero((table.weight.data().asnumpy() != 1).any(1))
    assert changed.tolist() == [5, 7, 999_999]


@pytest.mark.parametrize("rows", [[7, 2, 5], [7, 2, 7]])
def test_each_row_of_a_gradient_is_that_of_its_word(rows):
    x, heads = mx.nd.ones((9, 2)), np.arange(1.0, 7).reshape(3, 2)
    x.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        y = mx.nd.Embedding(mx.nd.array(rows), x, input_dim=9, output_dim=2, sparse_grad=True)
    y.backward(mx.nd.array(heads))
    wanted = np.zeros((9, 2))
    np.add.at(wanted, rows, heads)
    np.testing.assert_array_equal(x.grad.asnumpy(), wanted)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("run", BINARY)
def test_as_many_values_at_other_places(run, stype):
    a, b = np.zeros((2, 5, 3), "float32")
    a[0, 1], a[3, 0], b[2, 1], b[3, 2] = 1, 2, 3, -4
    same(run(*(mx.nd.array(x).tostype(stype) for x in (a, b))), run(mx.nd.array(a), mx.nd.array(b)))


@pytest.mark.parametrize("run", BINARY)
def test_columns_in_any_order(run):
    x = mx.nd.sparse.csr_matrix(([1.0, 2, -3], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    y = mx.nd.array([[4, 0, 5], [0, -6, 0]]).tostype("csr")
    for pair in ((x, y), (y, x), (x, x)):
        found, wanted = run(*pair), run(*(a.tostype("default") for a in pair))
        np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())


def test_gradients_that_are_added():
    x = mx.nd.ones((6, 2))
    x.attach_grad("add", stype="row_sparse")
    for rows in ([1, 1], [4, 1]):
        with mx.autograd.record():
            y = mx.nd.Embedding(mx.nd.array(rows), x, input_dim=6, output_dim=2, sparse_grad=True)
        y.backward()
    assert x.grad.indices.asnumpy().tolist() == [1, 4]
    assert x.grad.asnumpy()[:, 0].tolist() == [0, 3, 0, 0, 1, 0]
    x.grad[:] = 0
    assert len(x.grad.indices) == 0


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_parameters_of_rows_are_saved_and_loaded(tmp_path, stype):
    kind = mx.gluon.nn.Embedding if stype == "default" else mx.gluon.contrib.nn.SparseEmbedding
    net, again = kind(6, 2), kind(6, 2)
    net.initialize(mx.init.Normal(1))
    net.save_parameters(str(tmp_path / "net.params"))
    (saved,) = mx.nd.load(str(tmp_path / "net.params")).values()
    assert saved.stype == stype
    again.load_parameters(str(tmp_path / "net.params"))
    x = mx.nd.array([[1, 5], [0, 1]])
    with mx.autograd.record():
        y = again(x)
    y.backward()
    np.testing.assert_array_equal(net(x).asnumpy(), y.asnumpy())
    assert again.weight.data().stype == stype
    assert again.weight.grad().stype == stype


@pytest.mark.filterwarnings("error:.*dense copies")
def test_layers_and_losses_of_sparse_arrays():
    random = np.random.default_rng(3)
    x, w, b = values(random, (4, 6)), random.random((3, 6), "float32"), random.random(3, "float32")
    w[1] = 0
    for data, weight in (("csr", "default"), ("default", "row_sparse")):
        given = [mx.nd.array(a).tostype(s) for a, s in ((x, data), (w, weight), (b, "default"))]
        y = mx.nd.FullyConnected(*given, num_hidden=3)
        np.testing.assert_allclose(y.asnumpy(), x @ w.T + b, rtol=1e-5, atol=1e-6)
    label, y = mx.nd.array(x).tostype("csr"), mx.nd.array(x + 1)
    y.attach_grad()
    with mx.autograd.record():
        loss = mx.nd.LinearRegressionOutput(y, label)
    loss.backward()
    np.testing.assert_allclose(y.grad.asnumpy(), np.ones((4, 6)) / 6, rtol=1e-5)
    np.testing.assert_allclose(mx.nd.dot(label, mx.nd.array(w[0])).asnumpy(), x @ w[0], rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("error:.*dense copies")
def test_a_csr_condition():
    random = np.random.default_rng(4)
    condition, x, y = values(random, (4, 6)), random.random((4, 6)), random.random((4, 6))
    arrays = [mx.nd.array(a, dtype="float64") for a in (x, y)]
    for a in arrays:
        a.attach_grad()
    with mx.autograd.record():
        z = mx.nd.where(mx.nd.array(condition).tostype("csr"), *arrays)
    z.backward(mx.nd.array(x, dtype="float64"))
    np.testing.assert_array_equal(z.asnumpy(), np.where(condition, x, y))
    np.testing.assert_array_equal(arrays[0].grad.asnumpy(), np.where(condition, x, 0))
    np.testing.assert_array_equal(arrays[1].grad.asnumpy(), np.where(condition, 0, x))


def test_a_file_with_rows_of_an_array_without_axes_is_damaged(tmp_path):
    with mx.util.np_shape(True):
        mx.nd.save(str(tmp_path / "rows.params"), [mx.nd.sparse.zeros("row_sparse", (1, 1))])
    data = (tmp_path / "rows.params").read_bytes()
    shape = b"\x02\x00\x00\x00" + 2 * b"\x01\x00\x00\x00\x00\x00\x00\x00"
    assert data.count(shape) == 1
    with pytest.raises(mx.MXNetError, match=r"a row_sparse array has shape \(\)"):
        mx.nd.load_frombuffer(data.replace(shape, b"\x00\x00\x00\x00"))


@pytest.mark.parametrize("rows", [[600_000, 0], [0, 600_000], [0, 0, 600_000, 2]])
def test_threads_share_a_matrix_with_one_full_row(rows):
    random = np.random.default_rng(5)
    columns = np.concatenate([np.sort(random.choice(700_000, count, replace=False)) for count in rows])
    ends = np.concatenate([[0], np.cumsum(rows)])
    a = scipy.sparse.csr_matrix((random.random(len(columns)), columns, ends), (len(rows), 700_000))
    b, c = random.random((len(rows), 1)), random.random((700_000, 1))
    x = mx.nd.sparse.csr_matrix(a, dtype="float64")
    found = mx.nd.dot(x, mx.nd.array(b, dtype="float64"), transpose_a=True)
    found.check_format()
    assert len(found.indices) == len(np.unique(columns))
    np.testing.assert_allclose(found.asnumpy(), a.T @ b, rtol=1e-12)
    np.testing.assert_allclose(mx.nd.dot(x, mx.nd.array(c, dtype="float64")).asnumpy(), a @ c, rtol=1e-10)
