"""Initializers: deterministic ones against MXNet 1.9.1, random ones against their distribution."""

import json
import pathlib
import sys

import numpy as np
import pytest
from scipy import stats

import hybridc as mx

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "golden"))
import frontend_cases as cases  # noqa: E402

GOLDEN = np.load(HERE / "golden" / "frontend.npz")


def run(init, shape, name="a_weight", dtype="float32"):
    arr = mx.nd.full(shape, 7, dtype=dtype)
    init(mx.init.InitDesc(name), arr)
    assert arr.shape == shape
    assert np.dtype(arr.dtype) == dtype
    return arr.asnumpy()


@pytest.mark.parametrize("name", cases.INITIALIZERS)
def test_values_are_those_of_mxnet(name):
    make, parameter, shape = cases.INITIALIZERS[name]
    np.testing.assert_allclose(run(make(mx), shape, parameter), GOLDEN[f"init/{name}"], rtol=1e-6)


@pytest.mark.parametrize("name", cases.PLAIN_NAMES)
def test_values_for_plain_names_are_those_of_mxnet(name):
    make, parameter, shape = cases.PLAIN_NAMES[name]
    arr = mx.nd.full(shape, 7)
    make(mx)(parameter, arr)
    np.testing.assert_allclose(arr.asnumpy(), GOLDEN[f"init/{name}"], rtol=1e-6)


def test_quantized_weights_are_random_integers():
    mx.random.seed(1)
    got = run(mx.init.Zero(), (40, 50), "a_weight_quantize")
    assert (got == np.round(got)).all()
    assert got.min() < -110
    assert 110 < got.max() <= 127


@pytest.mark.parametrize("name", cases.DUMPS)
def test_dumps_are_those_of_mxnet_and_create_reads_them(name):
    make, text = cases.DUMPS[name]
    init = make(mx)
    assert init.dumps() == text
    assert mx.init.create(text) == init


@pytest.mark.parametrize("value", [[1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), [[1, 2, 3]], [[1.0], [2.0]], 3])
def test_constant_takes_what_was_meant(value):
    init = mx.init.Constant(value)
    want = np.broadcast_to(np.array(value, dtype="float32"), (2, 3))
    np.testing.assert_array_equal(run(init, (2, 3)), want)
    np.testing.assert_array_equal(run(mx.init.create(init.dumps()), (2, 3)), want)


def test_constant_that_does_not_fit_says_so():
    with pytest.raises(mx.MXNetError, match=r"'a_weight' of shape \(2, 3\) with values of shape \(2,\)"):
        run(mx.init.Constant([1, 2]), (2, 3))


SHAPE = (200, 50)
UNIFORM = {
    "default": (lambda: mx.init.Uniform(), 0.07, SHAPE),
    "scale": (lambda: mx.init.Uniform(2), 2.0, SHAPE),
    "xavier": (lambda: mx.init.Xavier(), np.sqrt(3 / 125), SHAPE),
    "xavier in": (lambda: mx.init.Xavier(factor_type="in", magnitude=2), np.sqrt(2 / 50), SHAPE),
    "xavier out": (lambda: mx.init.Xavier(factor_type="out"), np.sqrt(3 / 200), SHAPE),
    "xavier conv": (lambda: mx.init.Xavier(), np.sqrt(3 / (0.5 * (40 + 20) * 9)), (20, 40, 3, 3)),
}
NORMAL = {
    "default": (lambda: mx.init.Normal(), 0.01, SHAPE),
    "sigma": (lambda: mx.init.Normal(0.5), 0.5, SHAPE),
    "xavier": (lambda: mx.init.Xavier(rnd_type="gaussian"), np.sqrt(3 / 125), SHAPE),
    "msra": (lambda: mx.init.MSRAPrelu(), np.sqrt(2 / (1 + 0.25**2) / 125), SHAPE),
    "msra in": (lambda: mx.init.MSRAPrelu("in", 0.0), np.sqrt(2 / 50), SHAPE),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_bounds_and_distribution(name, dtype):
    make, bound, shape = UNIFORM[name]
    mx.random.seed(3)
    values = run(make(), shape, dtype=dtype).astype("float64").ravel()
    assert np.abs(values).max() <= bound * (1 + 1e-3)
    assert stats.kstest(values / bound, stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NORMAL)
def test_normal_distribution(name, dtype):
    make, sigma, shape = NORMAL[name]
    mx.random.seed(4)
    values = run(make(), shape, dtype=dtype).ravel()
    assert stats.kstest(values / sigma, stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("rand_type", ["uniform", "normal"])
@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (4, 4), (6, 2, 3)])
def test_orthogonal_rows_or_columns(shape, rand_type):
    values = run(mx.init.Orthogonal(scale=2.0, rand_type=rand_type), shape, dtype="float64")
    matrix = values.reshape(shape[0], -1) / 2
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)


def test_seed_repeats_and_draws_differ():
    init = mx.init.Normal()
    mx.random.seed(9)
    first, second = run(init, (4,)), run(init, (4,))
    mx.random.seed(9)
    np.testing.assert_array_equal(run(init, (4,)), first)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bn_running_mean", 0), ("bn_running_var", 1), ("bn_moving_mean", 0), ("bn_moving_var", 1),
        ("bn_gamma", 1), ("bn_beta", 0), ("fc_bias", 0), ("q_min", 0), ("q_max", 1), ("fc_weight", 5),
    ],
)  # fmt: skip
def test_rules_by_name(name, value):
    init = mx.init.Constant(5)
    np.testing.assert_array_equal(run(init, (2,), name), [value] * 2)
    plain = mx.nd.full((2,), 7)
    init(name, plain)
    np.testing.assert_array_equal(plain.asnumpy(), [value] * 2)


def test_an_attribute_overrides_the_name():
    arr = mx.nd.zeros((3,))
    mx.init.Zero()(mx.init.InitDesc("a_bias", {"__init__": mx.init.Constant([1, 2, 3]).dumps()}), arr)
    np.testing.assert_array_equal(arr.asnumpy(), [1, 2, 3])


def test_a_users_initializer():
    @mx.init.register
    @mx.init.alias("test_halves")
    class HalvesForTest(mx.init.Initializer):
        def _init_weight(self, name, arr):
            arr[:] = 0.5

        def _init_bias(self, name, arr):
            arr[:] = -0.5

    for name in ("halvesfortest", "test_halves"):
        init = mx.init.create(name)
        assert run(init, (1,), "a_weight")[0] == 0.5
        assert run(init, (1,), "a_bias")[0] == -0.5
    assert json.loads(init.dumps()) == ["halvesfortest", {}]


def test_mixed_takes_names_and_reports_what_matches_nothing():
    init = mx.init.Mixed(["a_.*"], ["ones"])
    assert run(init, (1,), "a_weight")[0] == 1
    with pytest.raises(ValueError, match="b_weight did not match any pattern"):
        run(init, (1,), "b_weight")
    with pytest.raises(ValueError, match="one initializer for each pattern"):
        mx.init.Mixed(["a", "b"], [mx.init.One()])


def test_load_takes_what_it_knows():
    known = {"arg:a_weight": mx.nd.array([1.0, 2.0]), "aux:m": mx.nd.array([3.0])}
    init = mx.init.Load(known, default_init=mx.init.Constant(9))
    assert run(init, (2,), "a_weight").tolist() == [1, 2]
    assert run(init, (1,), "m").tolist() == [3]
    assert run(init, (1,), "b_weight").tolist() == [9]
    with pytest.raises(mx.MXNetError, match=r"a_weight has shape \(3,\), but shape \(2,\)"):
        run(init, (3,), "a_weight")
    with pytest.raises(mx.MXNetError, match="no default_init"):
        run(mx.init.Load(known), (1,), "b_weight")


def test_verbosity_logs(caplog):
    with caplog.at_level("INFO"):
        run(mx.init.Constant(2).set_verbosity(True), (4,))
    assert "Initialized a_weight as weight: 2.0" in caplog.text


ERRORS = [
    (lambda: run(mx.init.Xavier(), (3,)), ValueError, "at least 2D"),
    (lambda: mx.init.Xavier(rnd_type="poisson"), ValueError, "'uniform' or 'gaussian'"),
    (lambda: mx.init.Xavier(factor_type="all"), ValueError, "'avg', 'in' or 'out'"),
    (lambda: mx.init.Orthogonal(rand_type="x"), ValueError, "'uniform' or 'normal'"),
    (lambda: run(mx.init.Bilinear(), (3, 3)), ValueError, "4 dimensions"),
    (lambda: run(mx.init.Initializer(), (3,)), RuntimeError, "does not define _init_weight"),
    (lambda: run(mx.init.Zero(), (3,), "what"), ValueError, "Unknown initialization pattern for what"),
    (lambda: mx.init.create("xaver"), RuntimeError, "unknown initializer 'xaver'; known are"),
    (lambda: mx.init.Load(3), AssertionError, "a file name or a dict"),
    (lambda: mx.init.Zero()(3, None), TypeError, "a name and an array"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
