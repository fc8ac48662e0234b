# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.array.ndarray import NDArray
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

import warnings
from typing import Any as Any
from hybridc.array.fluent import Fluent as Fluent
from hybridc.array.functions import function as function
from hybridc.array.functions import require_hidden as require_hidden
from hybridc.array.ndarray import NDArray as NDArray
from hybridc.context import Context as Context
from hybridc.context import check_device as check_device
from hybridc.errors import CheckError as CheckError
from hybridc.ground.display.tracebacks import hides_frames as hides_frames
from hybridc.ground.location import user_depth as user_depth
from hybridc.nd.namespace import lookup as lookup
ShapeLike = int | tuple[int, ...] | None
def _is_array(x: Any) -> bool:
    ...
def _draw(name: str, parameters: tuple[Any, ...], shape: Any, dtype: Any, ctx: Context | None, out: Any) -> Any:
    """The operator ``random_<name>`` for numbers, ``sample_<name>`` for arrays."""
    ...
def _warn_of_sizes(name: str, first: Any, second: Any, shape: Any, out: Any) -> None:
    """Warn where two parameters of one number look like the sizes of a shape."""
    ...
@hides_frames
def uniform(low: Any=0, high: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Samples of a uniform distribution on [low, high)."""
    ...
@hides_frames
def normal(loc: Any=0, scale: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Numbers from the normal distribution."""
    ...
@hides_frames
def randn(*shape: int, loc: Any=0, scale: Any=1, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Numbers from the normal distribution, in the shape that the arguments give."""
    ...
@hides_frames
def exponential(scale: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Numbers from the exponential distribution."""
    ...
@hides_frames
def gamma(alpha: Any=1, beta: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Numbers from the gamma distribution, whose mean is alpha beta."""
    ...
@hides_frames
def poisson(lam: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Counts from the Poisson distribution."""
    ...
@hides_frames
def negative_binomial(k: Any=1, p: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """How many failures come before the k-th success of probability p."""
    ...
@hides_frames
def generalized_negative_binomial(mu: Any=1, alpha: Any=1, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Counts with the mean mu and the variance mu + alpha mu^2."""
    ...
@hides_frames
def randint(low: int, high: int, shape: ShapeLike=None, dtype: Any=None, ctx: Context | None=None, out: Any=None, **kwargs: Any) -> NDArray:
    """Integers that are equally likely from low up to but without high."""
    ...
@hides_frames
def multinomial(data: Any, shape: ShapeLike=None, get_prob: bool=False, out: Any=None, dtype: Any='int32', **kwargs: Any) -> Any:
    """Indices drawn by the probabilities in each row of data."""
    ...
@hides_frames
def shuffle(data: Any, out: Any=None, **kwargs: Any) -> NDArray:
    """The slices along the first axis in random order."""
    ...
from hybridc.array import operator_functions as _functions
exponential_like = _functions.random_exponential_like
gamma_like = _functions.random_gamma_like
generalized_negative_binomial_like = _functions.random_generalized_negative_binomial_like
negative_binomial_like = _functions.random_negative_binomial_like
normal_like = _functions.random_normal_like
pdf_dirichlet = _functions.random_pdf_dirichlet
pdf_exponential = _functions.random_pdf_exponential
pdf_gamma = _functions.random_pdf_gamma
pdf_generalized_negative_binomial = _functions.random_pdf_generalized_negative_binomial
pdf_negative_binomial = _functions.random_pdf_negative_binomial
pdf_normal = _functions.random_pdf_normal
pdf_poisson = _functions.random_pdf_poisson
pdf_uniform = _functions.random_pdf_uniform
poisson_like = _functions.random_poisson_like
uniform_like = _functions.random_uniform_like

def bernoulli(
    prob: float = 0.5,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """1 with the probability prob, else 0"""
    ...
