"""Random state: a seed and a counter, from which every random operator samples.

A draw is named by ``(seed, counter)`` alone, so the same seed gives the same numbers eagerly, in a compiled
graph and on every target, in whatever order the draws are computed.

Of several ranks that train together each has other numbers in training mode, and all have the same otherwise: see
:func:`next_key`.
"""

from __future__ import annotations

import itertools
import operator
import random as python_random
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.ground.hooks import HOOKS
from hybridc.ground.locks import ForkLock
from hybridc.ground.state import STATE

if TYPE_CHECKING:
    from hybridc.context import Context

_MASK = (1 << 64) - 1  # of the bits of a counter


class SeedEpoch:
    """The time until the next seed; ``pool`` keeps what others derived from this one, ``numbers`` tells these apart."""

    __slots__ = ("numbers", "pool", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pool: list[Any] = []
        self.numbers = itertools.count()


class _Stream:
    """A seed and how many draws were taken from it."""

    __slots__ = ("counter", "epoch", "seed")

    def __init__(self, seed: int) -> None:
        self.start(seed)

    def start(self, seed: int) -> None:
        self.seed = seed & _MASK
        self.counter = 0
        self.epoch = SeedEpoch(self.seed)


class _ThreadStream(threading.local):
    """The stream that replaces the process-wide one in this thread, see :func:`isolated`."""

    stream: _Stream | None = None


class _RankSeed:
    """What distinguishes the draws of this rank in training mode; 0 for rank 0, and for a process that is alone."""

    mixed = 0


# Like MXNet, a process that never calls seed() starts from seed 0: runs repeat by default.
_GLOBAL = _Stream(0)
_LOCK = ForkLock()
_LOCAL = _ThreadStream()


def seed(seed_state: Any, ctx: Context | str = "all") -> None:
    """Start the random numbers over from ``seed_state``, an integer.

    ``ctx`` is accepted for MXNet's API.
    """
    # COMPAT(mxnet): there a seed for one device leaves the others alone; here all devices share one stream,
    # so that a network gives the same numbers wherever it runs.
    try:
        number = operator.index(seed_state)
    except TypeError:
        raise ValueError(f"seed_state must be int, got {seed_state!r}") from None
    if isinstance(ctx, str) and ctx != "all":
        raise ValueError(f"ctx must be 'all' or a Context, got {ctx!r}")
    stream = _LOCAL.stream or _GLOBAL
    with _LOCK.current:
        stream.start(number)


def next_key(draws: int = 1, training: bool | None = None) -> npt.NDArray[np.uint64]:
    """Reserve ``draws`` draws: the array ``[seed, first counter]``, for :func:`generator`.

    In training mode (``training``, by default autograd's) the seed of a rank other than 0 is another one, which follows
    from the seed and the rank: ranks drop other elements, and the same ones in the next run of as many ranks. Counters
    go on alike on all ranks, so that what is drawn elsewhere stays equal.
    """
    stream = _LOCAL.stream or _GLOBAL
    with _LOCK.current:
        base = stream.counter
        stream.counter = (base + draws) & _MASK
        seed = stream.seed
    if _RankSeed.mixed and (STATE.training if training is None else training):
        seed = _scrambled(seed ^ _RankSeed.mixed)
    return np.array([seed, base], dtype=np.uint64)


def set_rank(rank: int) -> None:
    """Let draws in training mode be those of a rank, from now on."""
    _RankSeed.mixed = _scrambled(rank) if rank else 0


def _scrambled(number: int) -> int:
    """Another number of 64 bits for each: the output function of SplitMix64 (Steele, Lea and Flood, 2014)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def state() -> dict[str, int]:
    """The seed, and how many draws were taken since: what :func:`load_state` goes on from."""
    stream = _LOCAL.stream or _GLOBAL
    with _LOCK.current:
        return {"seed": stream.seed, "counter": stream.counter}


def load_state(state: Mapping[str, int]) -> None:
    """Go on where the stream was when :func:`state` gave this.

    Libraries with generators of their own begin anew from the seed.
    """
    stream = _LOCAL.stream or _GLOBAL
    with _LOCK.current:
        stream.start(state["seed"])
        stream.counter = state["counter"] & _MASK


def generator_states() -> dict[str, Any]:
    """The states of the global generators of this library, of NumPy and of Python, as plain data."""
    python = _plain_state(python_random.getstate())
    return {"mxnet": state(), "numpy": np.random.get_state(legacy=False), "python": python}


def _plain_state(state: tuple[Any, ...]) -> dict[str, Any]:
    """The state of a generator of Python's, whose many words make an array."""
    version, words, normal = state
    return {"version": version, "words": np.array(words, np.uint32), "normal": normal}


def load_generator_states(states: Mapping[str, Any]) -> None:
    """Go on with the random numbers that followed :func:`generator_states`."""
    load_state(states["mxnet"])
    np.random.set_state(states["numpy"])
    python = states["python"]
    python_random.setstate((python["version"], tuple(python["words"].tolist()), python["normal"]))


def derived_states(states: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Other states of the generators, for a process that begins where one with these ``states`` is."""
    numpy = np.random.RandomState(seed).get_state(legacy=False)
    python = _plain_state(python_random.Random(seed).getstate())
    return {"mxnet": {"seed": seed, "counter": states["mxnet"]["counter"]}, "numpy": numpy, "python": python}


def epoch() -> SeedEpoch:
    """A counter by which generators with a state of their own (those of compiled libraries) notice a new seed."""
    return (_LOCAL.stream or _GLOBAL).epoch


def generator(key: npt.NDArray[np.uint64], draw: int = 0) -> np.random.Generator:
    """The NumPy generator of one reserved draw: Philox with the seed as key and the draw as counter.

    The draw is the counter's highest word of 64 bits, so draws never overlap.

    Parameters
    ----------
    key:
        Two numbers of uint64: the seed, and the number of the first draw that was reserved.
    draw:
        Which of the reserved draws, from 0.
    """
    words = np.array([0, 0, 0, (int(key[1]) + draw) & _MASK], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=int(key[0]), counter=words))


@contextmanager
def isolated(seed_state: int) -> Generator[None]:
    """Within the ``with`` block this thread draws from a stream of its own.

    The data loader gives each batch its own stream, so that random transforms give the same samples
    whatever the number of workers.

    Parameters
    ----------
    seed_state:
        The seed of that stream, an integer.
    """
    previous = _LOCAL.stream
    _LOCAL.stream = _Stream(int(seed_state))
    try:
        yield
    finally:
        _LOCAL.stream = previous


_OPERATORS = (
    "uniform", "normal", "randn", "poisson", "exponential", "gamma", "multinomial", "negative_binomial",
    "generalized_negative_binomial", "randint", "shuffle",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """``mx.random.uniform`` and the like are ``mx.nd.random.uniform``, looked up when first used."""
    if name in _OPERATORS:
        return getattr(HOOKS.arrays().random, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["generator", "isolated", "load_state", "next_key", "seed", "state"]
