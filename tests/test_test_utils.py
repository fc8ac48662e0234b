"""``mx.test_utils``: checks find what is wrong, and pass what is right, beside NumPy, SciPy and MXNet 1.9.1."""

from __future__ import annotations

import gzip
import os
import struct
import sys

import numpy as np
import pytest
from scipy import stats

import hybridc as mx
from hybridc.errors import CheckError, DownloadError, UnsupportedError

tu = mx.test_utils
A = np.array([[1.0, 2.0], [3.0, 4.0]])
B = np.array([[5.0, 6.0], [7.0, 8.0]])
ONES = np.ones((2, 2))


def product():
    return mx.sym.dot(mx.sym.var("a"), mx.sym.var("b"), name="p")


# --- symbols -------------------------------------------------------------------------------------------------


def test_values_of_symbols():
    (found,) = tu.check_symbolic_forward(product(), [A, B], [A @ B])
    assert found.asnumpy().tolist() == (A @ B).tolist()
    assert found.dtype == np.float32
    (found,) = tu.check_symbolic_forward(product(), {"b": B, "a": A}, {"p_output": A @ B}, dtype="asnumpy")
    assert found.dtype == np.float64
    with pytest.raises(AssertionError, match=r"EXPECTED_p_output and FORWARD_p_output differ: Error 344\.\d+ exceeds"):
        tu.check_symbolic_forward(product(), [A, B], [A @ B + 1])
    with pytest.raises(ValueError, match="the symbol has a, b, got a"):
        tu.check_symbolic_forward(product(), {"a": A}, [A @ B])
    nan = np.array([np.nan, 1.0])
    with pytest.raises(AssertionError, match="differ"):
        tu.check_symbolic_forward(mx.sym.exp(mx.sym.var("a")), [nan], [np.exp(nan)])
    tu.check_symbolic_forward(mx.sym.exp(mx.sym.var("a")), [nan], [np.exp(nan)], equal_nan=True)
    assert (tu.simple_forward(product(), a=A, b=B) == A @ B).all()
    assert len(tu.simple_forward(mx.sym.Group([product(), mx.sym.var("c")]), a=A, b=B, c=A)) == 2
    assert tu.same_symbol_structure(product(), product())
    assert not tu.same_symbol_structure(product(), mx.sym.var("a") + mx.sym.var("b"))


@pytest.mark.parametrize("req", ["write", "add"])
def test_gradients_of_symbols(req):
    grads = [ONES @ B.T, A.T @ ONES]
    found = tu.check_symbolic_backward(product(), [A, B], [ONES], grads, grad_req=req)
    assert sorted(found) == ["a", "b"]
    named = {"b": grads[1]}
    tu.check_symbolic_backward(
        product(), [A, B], {"p_output": mx.nd.array(ONES)}, named, grad_req={"a": "null", "b": req}
    )
    with pytest.raises(AssertionError, match="EXPECTED_a and BACKWARD_a differ"):
        tu.check_symbolic_backward(product(), [A, B], [ONES], [grads[0] + 1, grads[1]], grad_req=req)


def test_gradients_that_are_not_wanted_stay():
    tu.check_symbolic_backward(product(), [A, B], [ONES], [A, A.T @ ONES], grad_req=["null", "write"])
    with pytest.raises(ValueError, match="grad_req"):
        tu.check_symbolic_backward(product(), [A, B], [ONES], [A, B], grad_req="nosuch")
    with pytest.raises(UnsupportedError, match="the gradient of a: stype 'row_sparse' is not supported"):
        tu.check_symbolic_backward(product(), [A, B], [ONES], [A, B], grad_stypes={"a": "row_sparse"})


def test_numeric_gradients():
    tu.check_numeric_gradient(product(), [A / 8, B / 8])
    tu.check_numeric_gradient(mx.sym.tanh(mx.sym.var("a")), {"a": A}, grad_nodes={"a": "add"}, dtype=np.float64)
    norm = mx.sym.BatchNorm(mx.sym.var("a"), fix_gamma=False)
    x = np.random.RandomState(0).normal(size=(4, 3, 2, 2))
    tu.check_numeric_gradient(
        norm, [x, np.ones(3), np.zeros(3)], [np.zeros(3), np.ones(3)], numeric_eps=1e-2, rtol=0.16, atol=1e-2
    )
    a = mx.sym.var("a")
    wrong = mx.sym.BlockGrad(a) * a  # half of its gradient is missing
    with pytest.raises(AssertionError, match="NUMERICAL_a and BACKWARD_a differ"):
        tu.check_numeric_gradient(wrong, [A])
    tu.check_numeric_gradient(wrong + mx.sym.var("b"), [A, B], grad_nodes=["b"])
    with pytest.raises(AssertionError, match="dtype must be"):
        tu.check_numeric_gradient(wrong, [A], dtype=np.int32)
    with pytest.raises(AssertionError, match="numeric_eps must be at least 1e-05 in float32"):
        tu.check_numeric_gradient(product(), [A, B], numeric_eps=1e-7)


def test_slopes_are_those_of_the_function():
    symbol = mx.sym.exp(mx.sym.var("a")) * 2
    executor = symbol.bind(mx.cpu(), {"a": mx.nd.array(A, dtype="float64")})
    slopes = tu.numeric_grad(executor, {"a": A.copy()}, eps=1e-5, dtype=np.float64)
    np.testing.assert_allclose(slopes["a"], 2 * np.exp(A), rtol=1e-8)
    assert (executor.arg_dict["a"].asnumpy() == A).all()


def test_consistency():
    symbol = mx.sym.Convolution(mx.sym.var("x"), num_filter=3, kernel=(3, 3), name="conv")
    devices = [{"ctx": mx.cpu(), "x": (2, 2, 6, 6), "type_dict": {"x": d}} for d in (np.float32, np.float64)]
    truth = tu.check_consistency(symbol, devices, use_uniform=True)
    assert sorted(truth) == ["conv_bias", "conv_output", "conv_weight", "x"]
    assert truth["conv_output"].dtype == np.float64
    other = {"conv_output": truth["conv_output"] + 1}
    with pytest.raises(AssertionError, match=r"Predict Err: .* at conv_output"):
        tu.check_consistency(symbol, devices, ground_truth=other)
    tu.check_consistency(symbol, devices, grad_req="null", arg_params={"conv_weight": np.zeros((3, 2, 3, 3))})
    different = [symbol, mx.sym.BlockGrad(symbol, name="conv")]
    with pytest.raises(AssertionError, match="Train Err"):
        tu.check_consistency(different, devices)
    with pytest.raises(AssertionError, match="two devices or more"):
        tu.check_consistency(symbol, devices[:1])


def test_speed():
    assert tu.check_speed(product(), {"a": A, "b": B}, N=1) > 0
    assert tu.check_speed(product(), N=1, typ="forward", a=(2, 2), b=(2, 2)) > 0
    with pytest.raises(ValueError, match="whole"):
        tu.check_speed(product(), typ="nosuch")


# --- comparisons ---------------------------------------------------------------------------------------------


def test_comparisons():
    tu.assert_almost_equal(mx.nd.ones(2), np.ones(2) + 1e-5)
    tu.assert_almost_equal(np.float32([1.0]), np.full(1, 1.0009))
    tu.assert_almost_equal(np.ones((3, 1)), np.ones((1, 3)))
    tu.assert_almost_equal(1.0, mx.nd.ones(1))
    tu.assert_almost_equal(np.ones(2), np.ones(2) + 0.4, atol={np.dtype("float64"): 0.5})
    tu.assert_almost_equal(np.array([np.inf]), np.array([np.inf]))
    tu.assert_almost_equal(np.zeros((0, 3)), np.zeros((0, 3)))
    for a, b, options, text in [
        (np.ones(2), np.ones(2) + 1e-4, {}, "a and b differ: Error 9.*mismatch 100"),
        (np.array([1.0, 5.0]), np.array([1.0, 3.0]), {"names": ("x", "y")}, r"Location of maximum error: \(1,\), x=5"),
        (np.ones((3, 1)), np.ones((1, 3)), {"use_broadcast": False}, r"a.shape = \(3, 1\) and b.shape = \(1, 3\)"),
        (np.ones(2), np.ones(3), {}, "do not broadcast"),
        (np.array([np.nan]), np.array([np.nan]), {}, "differ"),
        (np.array([True]), np.array([False]), {}, "differ"),
        (np.array([1], "int32"), np.array([2], "int32"), {}, "differ"),
    ]:
        with pytest.raises(AssertionError, match=text):
            tu.assert_almost_equal(a, b, **options)
    assert tu.almost_equal(np.ones(2), np.ones(2) + 1e-6)
    assert not tu.almost_equal(np.ones(2), np.ones(2) + 1e-4)
    assert tu.same(mx.nd.ones(2), np.ones(2))
    assert not tu.same(np.ones(2), np.ones((2, 1)))
    nan = np.array([1.0, np.nan])
    tu.assert_allclose(nan, nan)
    tu.assert_almost_equal_ignore_nan(nan, np.array([1.0, 2.0]))
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_ignore_nan(nan, np.array([2.0, 2.0]))
    four, last = np.arange(4.0), np.array([0, 0, 0, 1])
    tu.assert_almost_equal_with_err(four, four + last, etol=0.25)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_with_err(four, four + last, etol=0.2)


def test_tolerances_are_those_of_mxnet():
    assert tu.get_tols(np.float32([0]), np.float64([0]), None, None) == (1e-4, 1e-3)
    assert tu.get_tols(1, np.float16([0]), {np.dtype("float16"): 0.5}, None) == (0.5, 1e-1)
    assert tu.default_rtols()[np.dtype("float64")] == 1e-5
    assert tu.default_atols()[np.dtype("float64")] == 1e-20
    assert tu.default_numeric_eps()[np.dtype("float32")] == 1 / 512
    assert tu.get_rtol() == 1e-5
    assert tu.get_atol(3) == 3
    assert tu.get_etol() == 0
    assert tu.effective_dtype(mx.nd.ones(1)) == np.float32


def test_arrays_that_share_memory():
    x = mx.nd.ones((4,))
    assert tu.same_array(x, x[:])
    assert not tu.same_array(x, x.copy())
    assert (x.asnumpy() == 1).all()


def test_helpers_of_comparisons():
    x = np.random.RandomState(0).normal(size=(2, 3, 4))
    np.testing.assert_array_equal(tu.collapse_sum_like(x, (3, 1)), x.sum(axis=(0, 2)).reshape(3, 1))
    with pytest.raises(AssertionError):
        tu.collapse_sum_like(x, (2, 1))
    for axis in (None, 1, (0, 2)):
        for keep in (False, True):
            np.testing.assert_allclose(tu.np_reduce(x, axis, keep, np.sum), np.sum(x, axis=axis, keepdims=keep))
    np.testing.assert_array_equal(tu.assign_each(A, lambda v: v + 1), A + 1)
    np.testing.assert_array_equal(tu.assign_each2(A, B, lambda v, w: v * w), A * B)
    tu.assert_exception(lambda x: 1 / x, ZeroDivisionError, 0)
    with pytest.raises(AssertionError, match="raised nothing"):
        tu.assert_exception(lambda x: 1 / x, ZeroDivisionError, 1)


# --- random numbers ------------------------------------------------------------------------------------------


def test_random_arrays_are_numpys():
    np.random.seed(3)
    found = tu.random_arrays((2, 3), ())
    np.random.seed(3)
    want = [np.random.randn(2, 3).astype("float32"), np.float32(np.random.randn())]
    assert all((f == w).all() and f.dtype == np.float32 for f, w in zip(found, want, strict=True))
    assert tu.rand_ndarray((2, 3), dtype="float64").dtype == np.float64
    assert tu.random_uniform_arrays((50,), low=2, high=3, dtype="float64")[0].min() >= 2
    with pytest.raises(TypeError, match="nosuch"):
        tu.random_uniform_arrays((2,), nosuch=1)
    for _ in range(20):
        x, y = tu.rand_coord_2d(1, 3, 5, 6)
        assert 1 <= x < 3
        assert y == 5
        assert len(tu.rand_shape_2d(3, 4)) == 2
        assert 0 in {0, *tu.rand_shape_nd(3, 2, allow_zero_size=True)}
    sample = tu.random_sample([1, 2, 3], 2)
    assert len(set(sample)) == 2
    assert {*sample} <= {1, 2, 3}
    assert tu.create_vector(3).asnumpy().tolist() == [0, 1, 2]
    assert tu.create_2d_tensor(2, 3).asnumpy().tolist() == [[0] * 3, [1] * 3]
    assert (tu.get_identity_mat_batch(3).asnumpy() == np.eye(3)).all()


def test_random_sparse_arrays():
    np.random.seed(5)
    for stype in ("csr", "row_sparse"):
        x, parts = tu.rand_sparse_ndarray((30, 20), stype, density=0.2)
        assert (x.stype, x.shape, len(parts)) == (stype, (30, 20), 3 if stype == "csr" else 2)
        x.check_format()
        stored = len(x.data) / (600 if stype == "csr" else 30)
        assert 0.1 < stored < 0.35
        assert (tu.rand_ndarray((4, 3), stype, density=1, modifier_func=lambda v: v + 5).asnumpy() >= 5).all()
        assert not tu.create_sparse_array_zd((4, 3), stype, density=0).asnumpy().any()
    x, (_, rows) = tu.rand_sparse_ndarray((9, 2), "row_sparse", rsp_indices=[1, 7], data_init=2)
    assert x.indices.asnumpy().tolist() == rows.tolist() == [1, 7]
    assert (x.data.asnumpy() == 2).all()
    ends = tu.rand_ndarray((5, 16), "csr", density=0.5, distribution="powerlaw").indptr.asnumpy()
    counts = np.diff(ends)
    assert counts[2] == 2 * counts[1]
    assert counts[3] == 2 * counts[2]
    with pytest.raises(AssertionError, match="unknown storage type 'crs'"):
        tu.rand_ndarray((2, 2), "crs")


def test_random_matrices():
    for make in (tu.new_matrix_with_real_eigvals_nd, tu.new_sym_matrix_with_real_eigvals_nd):
        found = make((2, 3, 3))
        assert found.shape == (2, 3, 3)
        values = np.linalg.eigvals(found)
        assert np.abs(np.imag(values)).max() < 1e-9
        assert np.abs(values).max() <= 10 + 1e-9
    q = tu.new_orthonormal_matrix_2d(4)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-12)


def test_random_generators():
    rng = np.random.RandomState(1)
    buckets, probs = tu.gen_buckets_probs_with_ppf(stats.norm.ppf, 5)
    assert probs == [0.2] * 5
    assert buckets[0][0] == -np.inf
    assert buckets[1] == (stats.norm.ppf(0.2), stats.norm.ppf(0.4))
    samples = rng.normal(size=10000)
    p, observed, expected = tu.chi_square_check(lambda n: samples[:n], buckets, probs, 10000)
    want = stats.chisquare(np.histogram(samples, [b[0] for b in buckets] + [np.inf])[0], expected)
    assert abs(p - want.pvalue) < 1e-6
    assert observed.sum() == expected.sum() == 10000
    p, observed, _ = tu.chi_square_check(lambda n: rng.randint(0, 4, size=n), [0, 1, 2, 3], [0.25] * 4, 10000)
    assert p > 0.001
    assert observed.sum() == 10000
    assert len(tu.verify_generator(lambda n: rng.normal(size=n), buckets, probs, 10000, nrepeat=3)) == 3
    with pytest.raises(AssertionError, match="Generator test fails, Chi-square p="):
        tu.verify_generator(lambda n: rng.normal(0.2, size=n), buckets, probs, 10000)
    with pytest.raises(AssertionError, match="ascending"):
        tu.chi_square_check(lambda n: rng.normal(size=n), buckets[::-1], probs, 100)
    assert tu.mean_check(lambda n: rng.normal(size=n), 0, 1, 10000)
    assert not tu.mean_check(lambda n: rng.normal(0.1, size=n), 0, 1, 10000)
    assert tu.var_check(lambda n: rng.normal(size=n), 1, 10000)
    assert not tu.var_check(lambda n: rng.normal(0, 1.2, size=n), 1, 10000)


def test_generators_of_hybridc():
    mx.random.seed(7)
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda q: stats.gamma.ppf(q, 2), 5)
    tu.verify_generator(lambda n: mx.nd.random.gamma(2, 1, shape=n).asnumpy(), buckets, probs, 100000, nrepeat=3)


# --- surroundings --------------------------------------------------------------------------------------------


def test_environment(monkeypatch):
    monkeypatch.setenv("HYBRIDC_TEST_A", "1")
    monkeypatch.delenv("HYBRIDC_TEST_B", raising=False)
    with tu.environment("HYBRIDC_TEST_B", "2"), tu.EnvManager("HYBRIDC_TEST_A", "3"):
        assert (os.environ["HYBRIDC_TEST_A"], os.environ["HYBRIDC_TEST_B"]) == ("3", "2")
        with tu.environment({"HYBRIDC_TEST_A": None, "HYBRIDC_TEST_B": "4"}):
            assert "HYBRIDC_TEST_A" not in os.environ
    assert os.environ["HYBRIDC_TEST_A"] == "1"
    assert "HYBRIDC_TEST_B" not in os.environ
    with pytest.raises(CheckError), tu.environment("HYBRIDC_TEST_A"):
        pass


def test_default_context():
    tu.set_default_context(mx.cpu(2))
    assert tu.default_context() == mx.cpu(2)
    tu.set_default_context(mx.cpu())
    assert tu.default_dtype() is np.float32
    assert list(tu.list_gpus()) == list(range(mx.context.num_gpus()))
    assert tu.is_op_runnable()
    assert not tu.has_tvm_ops()


def test_retry():
    calls = []

    @tu.retry(3)
    def test(value):
        calls.append(value)
        assert len(calls) > 2

    test("x")
    assert calls == ["x"] * 3
    calls[:] = []
    with pytest.raises(AssertionError):
        tu.retry(2)(lambda: tu.assert_exception(calls.append, ValueError, 0))()
    assert calls == [0, 0]
    with pytest.raises(AssertionError):
        tu.retry(0)


def test_stderr_can_be_discarded(capfd):
    with tu.discard_stderr():
        os.write(2, b"hidden")
        print("hidden too", file=sys.stderr)
    os.write(2, b"seen")
    assert "seen" in capfd.readouterr().err


def test_an_iterator_of_one_batch():
    real = mx.io.NDArrayIter(np.arange(8).reshape(4, 2), batch_size=2)
    dummy = tu.DummyIter(real)
    batches = [next(dummy).data[0].asnumpy().tolist() for _ in range(3)]
    assert batches == [[[0, 1], [2, 3]]] * 3
    assert dummy.provide_data == real.provide_data


# --- training ------------------------------------------------------------------------------------------------


def test_optimizers():
    sgd = mx.optimizer.SGD
    tu.compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), (3, 4), "float32")
    tu.compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), [(3, 4), (2,)], "float32", ntensors=2)
    with pytest.raises(AssertionError, match="differ"):
        tu.compare_optimizer(sgd(learning_rate=0.1), sgd(learning_rate=0.2), (3, 4), "float32")
    with pytest.raises(UnsupportedError, match="storage type 'csr'"):
        tu.compare_optimizer(sgd(), sgd(), (3, 4), "float32", g_stype="csr")


def test_hybridized_networks():
    def dense(prefix):
        return mx.gluon.nn.Dense(3, use_bias=False, weight_initializer="ones", prefix=prefix)

    x = mx.nd.array(A)
    tu.check_gluon_hybridize_consistency(dense, [x], lambda v: np.repeat(v.sum(axis=1, keepdims=True), 3, axis=1))
    with pytest.raises(AssertionError, match="differ"):
        tu.check_gluon_hybridize_consistency(dense, [x], lambda v: v @ np.ones((2, 3)) + 1)

    class Differs(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * (2 if F is mx.sym else 1)

    with pytest.raises(AssertionError, match="differ"):
        tu.check_gluon_hybridize_consistency(lambda prefix: Differs(prefix=prefix), [x])


# --- files ---------------------------------------------------------------------------------------------------


def test_downloads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source").write_bytes(b"text")
    url = (tmp_path / "source").as_uri()
    assert tu.download(url, "target", "folder") == "folder/target"
    assert (tmp_path / "folder" / "target").read_bytes() == b"text"
    (tmp_path / "source").write_bytes(b"other")
    assert tu.download(url, "target", "folder") == "folder/target"
    assert (tmp_path / "folder" / "target").read_bytes() == b"text"
    tu.download(url, "target", "folder", overwrite=True)
    assert (tmp_path / "folder" / "target").read_bytes() == b"other"
    said = r"Failed downloading .*nosuch: .* put the file there by hand: /.*/nosuch$"
    with pytest.raises(DownloadError, match=said) as caught:
        tu.download((tmp_path / "nosuch").as_uri(), retries=0)
    assert isinstance(caught.value, OSError)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "source"]
    assert tu.download_model("nosuch") == (None, 0)
    assert tu.download_model("m", meta_info={"m": {"symbol": url, "params": url}}) == ("./m", 0)
    assert (tmp_path / "m-0000.params").exists()
    with pytest.raises(OSError, match="Could not find path to tools/im2rec"):
        tu.get_im2rec_path("HYBRIDC_NO_SUCH_VARIABLE")


@pytest.mark.parametrize("folder", [".", "datasets/mnist"])
def test_mnist_from_files(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    pixels = np.random.RandomState(0).randint(0, 256, (3, 28, 28)).astype("uint8")
    for kind in ("train", "t10k"):
        with gzip.open(tmp_path / folder / f"{kind}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">IIII", 2051, 3, 28, 28) + pixels.tobytes())
        with gzip.open(tmp_path / folder / f"{kind}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 2049, 3) + bytes([7, 8, 9]))
    found = tu.get_mnist()
    np.testing.assert_array_equal(found["test_data"], pixels.reshape(3, 1, 28, 28).astype("float32") / 255)
    assert found["train_label"].tolist() == [7, 8, 9]
    assert found["train_data"].dtype == np.float32
