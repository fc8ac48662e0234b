# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

from typing import Any as Any
from hybridc.array.fluent import Fluent as Fluent
from hybridc.array.functions import function as function
from hybridc.array.functions import require_hidden as require_hidden
from hybridc.context import Context as Context
from hybridc.context import check_device as check_device
from hybridc.errors import CheckError as CheckError
from hybridc.nd.namespace import lookup as lookup
Shape = int | tuple[int, ...] | None
def _is_array(x: Any) -> bool:
    ...
def _draw(name: str, parameters: tuple[Any, ...], shape: Any, dtype: Any, ctx: Context | None, out: Any) -> Any:
    """The operator ``random_<name>`` for numbers, ``sample_<name>`` for arrays."""
    ...
def uniform(low: Any=0.0, high: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Samples of a uniform distribution on [low, high)."""
    ...
def normal(loc: Any=0.0, scale: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Numbers from the normal distribution with that mean and standard deviation."""
    ...
def randn(*shape: int, loc: Any=0.0, scale: Any=1.0, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Numbers from the normal distribution, in the shape that the arguments give."""
    ...
def exponential(scale: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Numbers from the exponential distribution with the mean ``scale``."""
    ...
def gamma(alpha: Any=1.0, beta: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Numbers from the gamma distribution with the shape alpha and the scale beta; the mean is alpha beta."""
    ...
def poisson(lam: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Counts from the Poisson distribution with the mean lam."""
    ...
def negative_binomial(k: Any=1, p: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """How many failures come before the k-th success of probability p."""
    ...
def generalized_negative_binomial(mu: Any=1.0, alpha: Any=1.0, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Counts with the mean mu and the variance mu + alpha mu^2."""
    ...
def randint(low: int, high: int, shape: Shape=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> Any:
    """Integers that are equally likely from low up to but without high."""
    ...
def multinomial(data: Any, shape: Shape=None, get_prob: bool=False, out: Any=None, dtype: Any='int32', **kwargs: Any) -> Any:
    """Indices drawn by the probabilities in each row of data; with ``get_prob``, also their logarithms."""
    ...
def shuffle(data: Any, out: Any=None, **kwargs: Any) -> Any:
    """The slices along the first axis in random order."""
    ...

def bernoulli(
    prob: float = 0.5,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """1 with the probability prob, else 0"""
    ...

def exponential_like(
    data: _A,
    lam: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers from the exponential distribution with the mean 1 / lam, in the shape of data"""
    ...

def gamma_like(
    data: _A,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers from the gamma distribution with the mean alpha beta, in the shape of data"""
    ...

def generalized_negative_binomial_like(
    data: _A,
    mu: float = 1.0,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Counts with the mean mu and the variance mu + alpha mu^2, in the shape of data"""
    ...

def negative_binomial_like(
    data: _A,
    k: int = 1,
    p: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """How many failures come before the k-th success of probability p, in the shape of data"""
    ...

def normal_like(
    data: _A,
    loc: float = 0.0,
    scale: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers from the normal distribution, in the shape of data"""
    ...

def pdf_dirichlet(
    sample: _A,
    alpha: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The density of Dirichlet distributions with the concentrations along alpha's last axis"""
    ...

def pdf_exponential(
    sample: _A,
    lam: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lam exp(-lam sample): the density of exponential distributions with the rate lam"""
    ...

def pdf_gamma(
    sample: _A,
    alpha: _A | None = None,
    beta: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The density of gamma distributions with the shape alpha and the rate beta: their mean is alpha / beta"""
    ...

def pdf_generalized_negative_binomial(
    sample: _A,
    mu: _A | None = None,
    alpha: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The probability of counts with the mean mu and the variance mu + alpha mu^2"""
    ...

def pdf_negative_binomial(
    sample: _A,
    k: _A | None = None,
    p: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The probability of so many failures before the k-th success of probability p; k may be fractional"""
    ...

def pdf_normal(
    sample: _A,
    mu: _A | None = None,
    sigma: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The density of normal distributions with the mean mu and the standard deviation sigma"""
    ...

def pdf_poisson(
    sample: _A,
    lam: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """lam**sample exp(-lam) / sample!: the probability of counts with the mean lam"""
    ...

def pdf_uniform(
    sample: _A,
    low: _A | None = None,
    high: _A | None = None,
    is_log: bool | int = False,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """1 / (high - low): the density of uniform distributions between low and high"""
    ...

def poisson_like(
    data: _A,
    lam: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Counts from the Poisson distribution with the mean lam, in the shape of data"""
    ...

def uniform_like(
    data: _A,
    low: float = 0.0,
    high: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Numbers that are equally likely from low to high, in the shape of data"""
    ...
