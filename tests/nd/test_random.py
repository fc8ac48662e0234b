"""Random operators: their moments, their reproducibility, and that streams are independent."""

import numpy as np
import pytest
from scipy import stats

import hybridc as mx
from hybridc import nd
from hybridc.errors import MXNetError

N = 40_000
# name, arguments, SciPy's distribution with the same meaning
CONTINUOUS = [
    ("uniform", (-2, 3), stats.uniform(-2, 5)),
    ("normal", (1, 2), stats.norm(1, 2)),
    ("exponential", (4,), stats.expon(scale=4)),
    ("gamma", (2, 3), stats.gamma(2, scale=3)),
]
DISCRETE = [
    ("poisson", (4,), stats.poisson(4)),
    ("negative_binomial", (3, 0.25), stats.nbinom(3, 0.25)),
    ("generalized_negative_binomial", (2, 0.5), stats.nbinom(2, 0.5)),
    ("randint", (-2, 7), stats.randint(-2, 7)),
    ("bernoulli", (0.3,), stats.bernoulli(0.3)),
]


@pytest.fixture(autouse=True)
def _seed():
    mx.random.seed(3)


@pytest.mark.parametrize(("name", "parameters", "law"), CONTINUOUS, ids=[c[0] for c in CONTINUOUS])
def test_continuous_distributions(name, parameters, law):
    x = getattr(nd.random, name)(*parameters, shape=(N // 4, 4))
    assert x.shape == (N // 4, 4)
    assert x.dtype == np.float32
    assert stats.kstest(x.asnumpy().reshape(-1), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("name", "parameters", "law"), DISCRETE, ids=[d[0] for d in DISCRETE])
def test_discrete_distributions(name, parameters, law):
    x = getattr(nd.random, name)(*parameters, shape=(N,)).asnumpy()
    values = np.arange(x.min(), x.max() + 1)
    expected = N * law.pmf(values)
    often = expected > 20
    counts = np.array([(x == v).sum() for v in values])
    rest = N - expected[often].sum(), N - counts[often].sum()
    chi2 = ((counts - expected)[often] ** 2 / expected[often]).sum() + (rest[1] - rest[0]) ** 2 / max(rest[0], 1)
    assert stats.chi2(often.sum()).sf(chi2) > 1e-3


ARRAYS = [*CONTINUOUS, *DISCRETE[:3]]


@pytest.mark.parametrize(("name", "parameters", "law"), ARRAYS, ids=[a[0] for a in ARRAYS])
def test_parameters_in_arrays(name, parameters, law):
    arrays = [nd.array([p, p]) for p in parameters]
    x = getattr(nd.random, name)(*arrays, shape=(N // 2,))
    assert x.shape == (2, N // 2)
    assert abs(x.asnumpy().mean() - law.mean()) < 5 * law.std() / N**0.5
    assert abs(x.asnumpy().std() / law.std() - 1) < 0.05
    assert getattr(nd.random, name)(*arrays).shape == (2,)


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "gamma", "poisson", "negative_binomial"])
def test_like(name):
    x = nd.zeros((3, 5), dtype="float64")
    y = getattr(nd.random, f"{name}_like")(x)
    assert (y.shape, y.dtype) == ((3, 5), np.float64)


@pytest.mark.parametrize("name", ["normal", "uniform"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes(name, dtype):
    assert getattr(nd.random, name)(shape=(2,), dtype=dtype).dtype == np.dtype(dtype).type


def test_the_same_seed_gives_the_same_numbers():
    def draw():
        return [nd.random.normal(shape=(7,)).asnumpy(), nd.random.randint(0, 100, shape=(5,)).asnumpy()]

    mx.random.seed(5)
    first = draw()
    mx.random.seed(5)
    again = draw()
    mx.random.seed(6)
    other = draw()
    for a, b, c in zip(first, again, other):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


def test_successive_draws_are_independent():
    x, y = (nd.random.normal(shape=(N,)).asnumpy() for _ in range(2))
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / N**0.5


def test_multinomial():
    chances = nd.array([[0, 0.1, 0.9], [1, 0, 0]])
    x, log = nd.random.multinomial(chances, shape=(N,), get_prob=True)
    assert (x.shape, x.dtype, log.dtype) == ((2, N), np.int32, np.float32)
    np.testing.assert_allclose(np.bincount(x.asnumpy()[0], minlength=3) / N, [0, 0.1, 0.9], atol=0.01)
    assert (x.asnumpy()[1] == 0).all()
    picked = np.take_along_axis(chances.asnumpy(), x.asnumpy(), 1)
    np.testing.assert_allclose(log.asnumpy(), np.log(picked), rtol=1e-6)
    assert nd.random.multinomial(chances).shape == (2,)
    assert nd.random.multinomial(chances[0]).shape == (1,)
    assert nd.random.multinomial(chances, dtype="int64").dtype == np.int64


def test_the_gradient_of_the_probability_of_a_draw():
    chances = nd.array([[0.2, 0.8], [0.5, 0.5]])
    chances.attach_grad()
    with mx.autograd.record():
        x, log = nd.random.multinomial(chances, shape=6, get_prob=True)
        loss = log.sum()
    loss.backward()
    drawn, p = x.asnumpy(), chances.asnumpy()
    want = [[(drawn[i] == j).sum() / p[i, j] for j in range(2)] for i in range(2)]
    np.testing.assert_allclose(chances.grad.asnumpy(), want, rtol=1e-5)


def test_shuffle_permutes_rows():
    x = nd.array(np.arange(200).reshape(100, 2))
    y = nd.random.shuffle(x).asnumpy()
    assert (y != x.asnumpy()).any()
    np.testing.assert_array_equal(y[np.argsort(y[:, 0])], x.asnumpy())
    np.testing.assert_array_equal(x.asnumpy()[:, 0], np.arange(0, 200, 2))


def test_shapes_and_out():
    assert nd.random.uniform().shape == (1,)
    assert nd.random.uniform(shape=3).shape == (3,)
    assert nd.random.randn(2, 3).shape == (2, 3)
    assert nd.random.randn(2, 3, loc=nd.array([0, 1]), scale=nd.array([1, 1])).shape == (2, 2, 3)
    out = nd.zeros((2,))
    assert nd.random.uniform(1, 2, shape=(2,), out=out) is out
    assert (out.asnumpy() >= 1).all()
    assert mx.random.uniform(0, 1, (2,)).shape == (2,)
    assert nd.random_uniform(low=0, high=1, shape=(2,)).shape == (2,)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nd.random.uniform(1, 0), "low=1.0 must not be greater than high=0.0"),
        (lambda: nd.random.normal(0, -1), "scale=-1.0 must not be negative"),
        (lambda: nd.random.randint(5, 5), "low=5 must be less than high=5"),
        (
            lambda: nd.sample_normal(nd.ones(2), nd.ones(3)),
            "parameters must have one shape, got mu (2,), sigma (3,)",
        ),
        (lambda: nd.random.uniform(shape="x"), "attribute shape takes a tuple of integers"),
    ],
)
def test_errors(call, text):
    with pytest.raises(MXNetError) as info:
        call()
    assert text in str(info.value)


def test_numbers_and_arrays_do_not_mix():
    with pytest.raises(AssertionError, match="must all have the same type, but got NDArray and int"):
        nd.random.normal(nd.array([1]), 2)


class Noisy(mx.gluon.HybridBlock):
    """Several draws in one forward."""

    def hybrid_forward(self, F, x):
        noise = F.random.normal(0, 2, shape=(3,)) + F.random.uniform_like(x)
        return F.shuffle(x * noise) + F.random.gamma(F.exp(x), F.ones_like(x))


def test_hybridized_draws_are_the_eager_ones():
    x = nd.array([1, 2, 3])
    runs = []
    for hybridize in (False, True):
        net = Noisy()
        if hybridize:
            net.hybridize()
        net(x)
        mx.random.seed(11)
        runs.append([net(x).asnumpy() for _ in range(3)])
    for eager, compiled in zip(*runs):
        np.testing.assert_allclose(eager, compiled, rtol=1e-6)
    assert (runs[1][0] != runs[1][1]).any()


def test_an_array_is_filled_in_its_shape_and_dtype():
    a = mx.nd.zeros((2, 3), dtype="float64")
    assert mx.nd.random.uniform(5, 6, out=a) is a
    assert a.dtype == np.float64
    assert ((a.asnumpy() >= 5) & (a.asnumpy() < 6)).all()
    assert len(np.unique(a.asnumpy())) == 6
    with pytest.raises(mx.MXNetError, match=r"out= has shape \(2, 3\)"):
        mx.nd.random.normal(shape=(3,), out=a)
