"""``mx.np.random`` and ``mx.npx.random``: distributions by Kolmogorov and Smirnov, shapes, dtypes, gradients."""

from __future__ import annotations

import math

import numpy as onp
import pytest
from scipy import stats

import hybridc as mx
from hybridc import autograd, gluon, np, npx
from hybridc.errors import MXNetError

R = np.random
COUNT = 4000
SIGNIFICANCE = 1e-3  # of tests with fixed seeds


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    mx.random.seed(11)
    yield
    npx.reset_np()


# Name: the call, whose parameters are numbers or arrays, their values, and the distribution.
CONTINUOUS = {
    "uniform": (R.uniform, (-1.0, 3.0), lambda a, b: stats.uniform(a, b - a)),
    "normal": (R.normal, (1.0, 2.0), stats.norm),
    "lognormal": (R.lognormal, (0.5, 0.7), lambda m, s: stats.lognorm(s, scale=math.exp(m))),
    "logistic": (R.logistic, (1.0, 2.0), stats.logistic),
    "gumbel": (R.gumbel, (1.0, 2.0), stats.gumbel_r),
    "laplace": (R.laplace, (1.0, 2.0), stats.laplace),
    "exponential": (R.exponential, (2.0,), lambda s: stats.expon(scale=s)),
    "rayleigh": (R.rayleigh, (2.0,), lambda s: stats.rayleigh(scale=s)),
    "weibull": (R.weibull, (1.5,), stats.weibull_min),
    "pareto": (R.pareto, (2.5,), stats.lomax),
    "power": (R.power, (2.5,), stats.powerlaw),
    "gamma": (R.gamma, (2.5, 2.0), lambda a, s: stats.gamma(a, scale=s)),
    "beta": (R.beta, (0.7, 2.0), stats.beta),
    "chisquare": (R.chisquare, (3.0,), stats.chi2),
    "f": (R.f, (3.0, 5.0), stats.f),
    "uniform_n": (
        lambda a, b, size: npx.random.uniform_n(a, b, size), (-1.0, 3.0), lambda a, b: stats.uniform(a, b - a),
    ),
    "normal_n": (lambda a, b, size: npx.random.normal_n(a, b, size), (1.0, 2.0), stats.norm),
}  # fmt: skip


def check(samples, distribution):
    assert onp.isfinite(samples).all()
    assert stats.kstest(samples.ravel(), distribution.cdf).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_are_of_the_distribution(name):
    call, numbers, distribution = CONTINUOUS[name]
    y = call(*numbers, size=COUNT)
    assert type(y) is np.ndarray
    assert y.shape == (COUNT,)
    assert y.dtype == onp.float32
    check(y.asnumpy(), distribution(*numbers))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_parameters_broadcast(name):
    call, numbers, distribution = CONTINUOUS[name]
    size = (COUNT,) if name.endswith("_n") else (COUNT, 2, 3)
    first = np.array(onp.full((2, 1), numbers[0], "float32"))
    rest = [np.array(onp.full((3,), n, "float64")) for n in numbers[1:]]
    y = call(first, *rest, size=size)
    columns = 3 if rest else 1 if name.endswith("_n") else 3
    assert y.shape == (COUNT, 2, columns)
    assert y.dtype == onp.float32
    check(y.asnumpy()[:, 0], distribution(*numbers))
    check(y.asnumpy()[:, 1, -1], distribution(*numbers))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_shapes(name):
    call, numbers, _ = CONTINUOUS[name]
    assert call(*numbers, size=None).shape == ()
    assert call(*numbers, size=()).shape == ()
    assert call(*numbers, size=(2, 3)).shape == (2, 3)
    assert call(*numbers, size=(2, 0)).shape == (2, 0)
    assert call(*[np.array([n, n]) for n in numbers], size=None).shape == (2,)


class Call(gluon.HybridBlock):
    """A call of the parameters."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *xs):
        return self._function(*xs)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_compiled_calls_draw_what_eager_ones_do(name):
    call, numbers, _ = CONTINUOUS[name]
    block = Call(lambda *xs: call(*xs, size=(5,) if name.endswith("_n") else (5, 2)))
    arrays = [np.array([n, n]) for n in numbers]
    mx.random.seed(3)
    eager = [block(*arrays).asnumpy() for _ in range(2)]
    block.hybridize()
    mx.random.seed(3)
    for reference in eager:
        onp.testing.assert_allclose(block(*arrays).asnumpy(), reference, rtol=1e-5)
    assert (eager[0] != eager[1]).any()


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(
    "name", [n for n in CONTINUOUS if n.partition(" ")[0] not in ("beta", "chisquare", "f", "gamma")]
)
def test_samples_have_gradients(name, hybridize):
    """Samples of one seed as functions of the parameters: their slopes are those of differences."""
    call, numbers, _ = CONTINUOUS[name]
    block = Call(lambda *xs: call(*xs, size=(50,)))
    if hybridize:
        block.hybridize()
    arrays = [np.array([n]) for n in numbers] if name.endswith("_n") else [np.array(n) for n in numbers]
    for x in arrays:
        x.attach_grad()

    def value(*xs):
        mx.random.seed(7)
        return block(*xs)

    with autograd.record():
        y = value(*arrays).sum()
    y.backward()
    step = 1e-2
    for i, x in enumerate(arrays):
        above, below = ([v + d * (i == k) for k, v in enumerate(arrays)] for d in (step, -step))
        difference = (value(*above).asnumpy().astype(float) - value(*below).asnumpy()).sum() / (2 * step)
        onp.testing.assert_allclose(x.grad.asnumpy().sum(), difference, rtol=2e-2, atol=0.2)


def test_beta_of_small_parameters():
    y = R.beta(0.02, 0.02, COUNT)
    assert abs(float(y.mean()) - 0.5) < 0.03
    assert float((abs(y - 0.5) > 0.49).mean()) > 0.9


def test_gamma_has_a_gradient_of_scale():
    scale = np.array([2.0, 3.0])
    scale.attach_grad()
    with autograd.record():
        y = R.gamma(1.5, scale)
    y.backward()
    onp.testing.assert_allclose(scale.grad.asnumpy(), (y / scale).asnumpy(), rtol=1e-5)


def test_dtypes():
    assert R.uniform(dtype="float64").dtype == onp.float64
    assert R.normal(np.zeros(2), 1, dtype="float16").dtype == onp.float16
    assert R.gamma(2.0, dtype="float64").dtype == onp.float64
    assert R.randint(5).dtype == onp.int64
    assert R.randint(0, 5, (2,), dtype="int32").dtype == onp.int32
    assert npx.random.bernoulli(0.5, size=3, dtype="bool").dtype == onp.bool_


def test_out():
    y = np.zeros((3,))
    assert R.normal(5.0, 0.1, 3, out=y) is y
    assert (y > 3).all()


def test_seeds():
    for seed in (R.seed, npx.random.seed, npx.seed, mx.random.seed):
        seed(4)
        first = R.uniform(size=3).tolist()
        seed(4)
        assert R.uniform(size=3).tolist() == first


# --- whole numbers, choices --------------------------------------------------------------------------------------


def frequencies(samples, bound):
    return onp.bincount(samples.asnumpy().ravel().astype(int), minlength=bound) / samples.size


@pytest.mark.parametrize("arrays", [False, True])
def test_bernoulli(arrays):
    for kind in ("prob", "logit"):
        number = 0.3 if kind == "prob" else math.log(0.3 / 0.7)
        value = np.full((COUNT,), number) if arrays else number
        y = npx.random.bernoulli(**{kind: value}, size=None if arrays else COUNT)
        assert y.dtype == onp.float32
        onp.testing.assert_allclose(frequencies(y, 2), [0.7, 0.3], atol=0.03)
    with pytest.raises(ValueError, match="not both"):
        npx.random.bernoulli(0.5, 0.1)
    with pytest.raises(ValueError, match="Either"):
        npx.random.bernoulli()


def test_randint():
    y = R.randint(2, 5, (COUNT,))
    onp.testing.assert_allclose(frequencies(y, 5), [0, 0, 1 / 3, 1 / 3, 1 / 3], atol=0.03)
    with pytest.raises(ValueError, match="less than"):
        R.randint(3, 3)


@pytest.mark.parametrize("arrays", [False, True])
def test_binomial(arrays):
    y = R.binomial(np.full((COUNT,), 10), 0.3) if arrays else R.binomial(10, 0.3, COUNT)
    assert y.dtype == onp.int64
    onp.testing.assert_allclose(frequencies(y, 11), stats.binom(10, 0.3).pmf(range(11)), atol=0.03)
    assert R.binomial(10, 0.3).shape == ()


def test_multinomial():
    y = R.multinomial(10, [0.2, 0.3, 0.5], size=(COUNT, 2))
    assert y.shape == (COUNT, 2, 3)
    assert y.dtype == onp.int64
    assert (y.sum(-1) == 10).all()
    onp.testing.assert_allclose(y.asnumpy().mean((0, 1)), [2, 3, 5], atol=0.1)
    assert R.multinomial(4, np.array([0.5, 0.5])).shape == (2,)
    with pytest.raises(MXNetError, match="more than 1"):
        R.multinomial(4, [0.7, 0.7])


def test_multivariate_normal():
    cov = onp.array([[2.0, 0.6], [0.6, 1.0]])
    y = R.multivariate_normal(np.array([1.0, -1.0]), np.array(cov), COUNT).asnumpy()
    onp.testing.assert_allclose(y.mean(0), [1, -1], atol=0.1)
    onp.testing.assert_allclose(onp.cov(y.T), cov, atol=0.15)
    assert R.multivariate_normal(np.zeros((4, 2)), np.eye(2), (3,)).shape == (3, 4, 2)
    # A covariance may lack rank.
    y = R.multivariate_normal([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], 5).asnumpy()
    onp.testing.assert_allclose(y[:, 0], y[:, 1], atol=1e-3)
    with pytest.raises(ValueError, match="covariance of as many"):
        R.multivariate_normal(np.zeros(3), np.eye(2))


def test_choice():
    onp.testing.assert_allclose(frequencies(R.choice(3, COUNT), 3), 1 / 3, atol=0.03)
    onp.testing.assert_allclose(
        frequencies(R.choice(3, (COUNT,), p=np.array([0.1, 0.0, 0.9])), 3), [0.1, 0, 0.9], atol=0.03
    )
    assert R.choice(5).shape == ()
    assert R.choice(5).dtype == onp.int64
    assert sorted(R.choice(5, 5, replace=False).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(R.choice(np.array([1.0, 2.0, 4.0]), 3, False).tolist()) == [1, 2, 4]
    assert R.choice(np.ones((3, 2)), (2, 2)).shape == (2, 2, 2)
    firsts = np.array([R.choice(3, 2, False, [0.1, 0.0, 0.9])[0].item() for _ in range(300)])
    onp.testing.assert_allclose(frequencies(firsts, 3), [0.1, 0, 0.9], atol=0.08)
    with pytest.raises(ValueError, match="larger sample"):
        R.choice(3, 4, replace=False)
    with pytest.raises(ValueError, match="same size"):
        R.choice(3, 2, p=[0.5, 0.5])


def test_shuffle_and_permutation():
    x = np.arange(12).reshape(6, 2)
    assert R.shuffle(x) is None
    assert sorted(x[:, 0].tolist()) == [0, 2, 4, 6, 8, 10]
    assert (x[:, 1] == x[:, 0] + 1).all()
    assert x[:, 0].tolist() != [0, 2, 4, 6, 8, 10]
    y = R.permutation(10)
    assert y.dtype == onp.int64
    assert sorted(y.tolist()) == list(range(10))
    assert sorted(R.permutation(np.array([3.0, 1.0])).tolist()) == [1, 3]


def test_other_devices():
    y = R.normal(np.zeros((2,), ctx=mx.cpu(1)), 1.0)
    assert y.context == mx.cpu(1)
    assert R.uniform(size=2, ctx=mx.cpu(1)).context == mx.cpu(1)


def test_names():
    with pytest.raises(AttributeError, match="did you mean"):
        R.unifrm  # noqa: B018 - the name is looked up
    assert npx.image.to_tensor(np.zeros((2, 3, 3), dtype="uint8")).shape == (3, 2, 3)
    assert type(npx.image.resize(np.ones((4, 4, 3)), 2)) is np.ndarray
    assert {"imread", "normalize", "random_crop", "CreateAugmenter"} <= set(dir(npx.image))
