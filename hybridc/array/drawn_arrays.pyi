# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.array.ndarray import NDArray
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

def band_first(
    kind: Literal['centers', 'corners', 'means'] | str,
    size: int,
    count: int,
    transposed: bool | int = False,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """The index of the first element of which each element of a resized axis is made"""
    ...

def band_weight(
    kind: Literal['centers', 'corners', 'means'] | str,
    size: int,
    count: int,
    transposed: bool | int = False,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """The factors of the elements of which each element of a resized axis is made"""
    ...

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

def constant(
    value: Any,
    dtype: DTypeLike | None = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """A number in the graph: an array of shape ()."""
    ...

def exponential(
    lam: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers from the exponential distribution with the mean 1 / lam"""
    ...

def generalized_negative_binomial(
    mu: float = 1.0,
    alpha: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Counts with the mean mu and the variance mu + alpha mu^2"""
    ...

def negative_binomial(
    k: int = 1,
    p: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """How many failures come before the k-th success of probability p"""
    ...

def normal(
    loc: float = 0.0,
    scale: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers from the normal distribution"""
    ...

def poisson(
    lam: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Counts from the Poisson distribution with the mean lam"""
    ...

def random_bernoulli(
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

def random_exponential(
    lam: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers from the exponential distribution with the mean 1 / lam"""
    ...

def random_gamma(
    alpha: float = 1.0,
    beta: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers from the gamma distribution with the mean alpha beta"""
    ...

def random_generalized_negative_binomial(
    mu: float = 1.0,
    alpha: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Counts with the mean mu and the variance mu + alpha mu^2"""
    ...

def random_negative_binomial(
    k: int = 1,
    p: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """How many failures come before the k-th success of probability p"""
    ...

def random_normal(
    loc: float = 0.0,
    scale: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers from the normal distribution"""
    ...

def random_poisson(
    lam: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Counts from the Poisson distribution with the mean lam"""
    ...

def random_randint(
    low: int,
    high: int,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Integers that are equally likely from low up to but without high"""
    ...

def random_uniform(
    low: float = 0.0,
    high: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers that are equally likely anywhere from low to high"""
    ...

def uniform(
    low: float = 0.0,
    high: float = 1.0,
    shape: int | Sequence[int] = ...,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Numbers that are equally likely anywhere from low to high"""
    ...

def uniform_sample(
    key: Fluent,
    shape: int | Sequence[int],
    dtype: DTypeLike = 'float32',
    draw: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """Uniform numbers in [0, 1) of the draw that a key names: what the operators here decompose into"""
    ...

def window_count(
    size: int,
    kernel: int,
    count: int,
    stride: int = 1,
    pad: int = 0,
    padded: bool | int = False,
    dtype: DTypeLike = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> NDArray:
    """How many elements each window along an axis has; at least 1."""
    ...

