"""The collectives, and the communicator of a process that is alone."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hybridc.ground.records import dataclass

Array = npt.NDArray[Any]
T = TypeVar("T")

# Bytes that one all-reduce of two or four ranks sums of an array: larger pieces overflow caches, and network queues.
_SUMMED = 4 << 20

# What all-reduce and reduce-scatter compute of the elements of all ranks.
OPERATIONS = ("sum", "min", "max", "prod")

# The calls of which the collectives of this thread are a part, the outermost first.
_LABELS: ContextVar[tuple[str, ...]] = ContextVar("labels", default=())


# Whether the ranks have compared all that decides which collectives this thread calls.
_AGREED: ContextVar[bool] = ContextVar("agreed", default=False)


@contextlib.contextmanager
def labelled(call: str, is_agreed: bool = False) -> Generator[None]:
    """Within the ``with`` block collectives are part of ``call``, which all ranks make: errors name it.

    With ``is_agreed`` the ranks have compared all that decides which collectives these are, by
    :meth:`Communicator.agree`, and do not compare each of them.
    """
    token, agreed = _LABELS.set((*_LABELS.get(), call)), _AGREED.set(is_agreed)
    try:
        yield
    finally:
        _LABELS.reset(token)
        _AGREED.reset(agreed)


def is_agreed() -> bool:
    """Whether collectives need not be compared, each for itself."""
    return _AGREED.get()


def with_label(collective: str) -> str:
    """The name of a collective, after the calls of which it is a part."""
    labels = _LABELS.get()
    return ": ".join((*labels, collective)) if labels else collective


def with_labels_of_now(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function for another thread, where its collectives are part of the same calls as here."""
    labels, agreed = _LABELS.get(), _AGREED.get()
    if not labels:
        return function

    def call() -> Any:
        with labelled(labels[-1], agreed):
            _LABELS.set(labels)
            return function()

    return call


class Pending:
    """A collective that another thread carries out."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None
        #: How long it took, without the time before it began.
        self.seconds = 0.0

    def finish(self, error: BaseException | None = None) -> None:
        """Let those go on that wait; they raise the error, if there is one."""
        self._error = error
        self._done.set()

    @property
    def is_done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._done.is_set()

    def wait(self) -> None:
        """Wait until the collective is done; raises what it raised."""
        self._done.wait()
        if self._error is not None:
            raise self._error


class Agreed(NamedTuple):
    """What the ranks brought to a call that they make together."""

    #: The sum of what each of them contributes.
    total: float
    #: Whether one of them asks for a further exchange, to which then all come.
    is_asked: bool


class Begun(Protocol):
    """A collective that goes on, by whatever carries it out."""

    @property
    def seconds(self) -> float:
        """The duration of the completed collective; 0 if it was not measured."""
        ...

    def wait(self) -> None:
        """Return when what comes next may use the result; raises what the collective raised."""
        ...


class Communicator:
    """Some of the ranks of a program, this process among them.

    Collectives are called by all of them, in the same order, with arrays of the same shapes and dtypes; arrays are
    contiguous. Those that :meth:`start` are carried out in order by a thread, while others are called. Before each one
    the ranks compare which it is: where they differ, all raise an error that names both calls.
    """

    rank: int
    size: int
    #: The number of this rank among those on this machine, and how many these are.
    local_rank: int
    local_size: int
    #: The names of the machines of all ranks.
    hosts: Sequence[str]

    def allreduce(self, array: Array, op: str = "sum") -> None:
        """Combine the arrays of all ranks elementwise; each gets the result in its array.

        Half precision is summed in single precision.
        """
        raise NotImplementedError

    def reduce_scatter(self, array: Array, counts: Sequence[int]) -> Array:
        """Sum one-dimensional arrays; each rank gets its part of the sum, ``counts[rank]`` elements, as a view.

        The rest of ``array`` is undefined after that.
        """
        raise NotImplementedError

    def allgather(self, array: Array, counts: Sequence[int]) -> None:
        """Put the parts that the ranks have in their one-dimensional arrays, at their places, into all arrays."""
        raise NotImplementedError

    def alltoall(self, parts: Array) -> Array:
        """Row ``i`` goes to rank ``i``; the rows that came, by rank."""
        raise NotImplementedError

    def exchange(self, array: Array, counts: Sequence[int], received: Sequence[int]) -> Array:
        """Send ``counts[i]`` elements of a one-dimensional array to rank ``i``, one part after the other.

        The parts that came, by rank: ``received[i]`` elements from rank ``i``.
        """
        raise NotImplementedError

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Copy the array of the rank ``root`` into those of the others."""
        raise NotImplementedError

    def gather_objects(self, value: T) -> list[T]:
        """The values of all ranks, which can be pickled."""
        raise NotImplementedError

    def broadcast_object(self, value: T, root: int = 0) -> T:
        """The value of the rank ``root``, which can be pickled."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        raise NotImplementedError

    def agree(
        self,
        call: str,
        facts: object = None,
        share: float = 0.0,
        asks: bool = False,
        details: Callable[[], Mapping[str, Any]] | None = None,
        count: int = 0,
    ) -> Agreed:
        """Raise on all ranks unless ``facts`` and ``count`` are equal on all of them; the sum of the shares.

        ``facts`` are plain values, compared by ``repr``; at each step the same text costs less than an equal one.
        ``details()`` names them for the error. It costs a message of some bytes, so values that may change on one rank
        alone are compared at every step.
        """
        raise NotImplementedError

    def split(self, color: int) -> Communicator:
        """A communicator of the ranks that give the same number; all call this."""
        raise NotImplementedError

    def start(self, collective: Callable[[], Any]) -> Pending:
        """Let the thread carry out a function of collectives, after those that were started before."""
        raise NotImplementedError

    def watched(self, name: str, wait: Callable[[], T]) -> T:
        """Call a function that returns when all ranks take part in the collective of another library.

        A rank that does not come to it is noticed as in the collectives here.
        """
        raise NotImplementedError


class Alone(Communicator):
    """The communicator of one rank."""

    def __init__(self, host: str = "") -> None:
        self.rank, self.size, self.local_rank, self.local_size = 0, 1, 0, 1
        self.hosts = (host,)

    def allreduce(self, array: Array, op: str = "sum") -> None:
        check_operation(op)

    def reduce_scatter(self, array: Array, counts: Sequence[int]) -> Array:
        return array[: counts[0]]

    def allgather(self, array: Array, counts: Sequence[int]) -> None:
        pass

    def alltoall(self, parts: Array) -> Array:
        return parts.copy()

    def exchange(self, array: Array, counts: Sequence[int], received: Sequence[int]) -> Array:
        return array[: counts[0]].copy()

    def broadcast(self, array: Array, root: int = 0) -> None:
        pass

    def gather_objects(self, value: T) -> list[T]:
        return [value]

    def broadcast_object(self, value: T, root: int = 0) -> T:
        return value

    def barrier(self) -> None:
        pass

    def agree(
        self,
        call: str,
        facts: object = None,
        share: float = 0.0,
        asks: bool = False,
        details: Callable[[], Mapping[str, Any]] | None = None,
        count: int = 0,
    ) -> Agreed:
        return Agreed(share, asks)

    def split(self, color: int) -> Communicator:
        return self

    def start(self, collective: Callable[[], Any]) -> Pending:
        pending = Pending()
        collective()
        pending.finish()
        return pending

    def watched(self, name: str, wait: Callable[[], T]) -> T:
        return wait()


@dataclass(frozen=True)
class Collective:
    """A collective in place, as the method of a communicator that carries it out."""

    method: Literal["allreduce", "reduce_scatter", "allgather"]
    #: The number of elements of each rank's part, of those that have parts.
    counts: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return {"allreduce": "all-reduce", "reduce_scatter": "reduce-scatter", "allgather": "all-gather"}[self.method]

    def __call__(self, ranks: Any, array: Any) -> None:
        """Carry it out on an array, by a communicator that takes such arrays."""
        getattr(ranks, self.method)(array, *(() if self.counts is None else (self.counts,)))


def in_memory(array: Any) -> bool:
    """Whether this is a NumPy array, not a device array."""
    return isinstance(array, np.ndarray)


def part_of(flat: Any, start: int, shape: Sequence[int]) -> Any:
    """A view of consecutive elements of an array of one dimension, in a shape."""
    return flat[start : start + math.prod(shape)].reshape(shape) if in_memory(flat) else flat.part(start, shape)


def begin(ranks: Communicator, array: Any, collective: Callable[[Communicator, Any], Any]) -> Begun:
    """Begin a collective on an array where that is: in the memory of this process, or on a device.

    A device may have a library of its own for a :class:`Collective`; another function gets a NumPy array.
    """
    if in_memory(array):
        return ranks.start(functools.partial(collective, ranks, array))
    if ranks.size == 1 and isinstance(collective, Collective):
        return ranks.start(lambda: None)  # without a copy in the memory of the host
    return array.device.begin_collective(ranks, array, collective)


def summed_at_once(ranks: int) -> int:
    """The most bytes that go in one all-reduce; more go in several, one after the other.

    They grow with the number of messages that it takes, whose latency is to be a small part.
    """
    return int(_SUMMED * max(1.0, math.log2(ranks) / 2))


def check_operation(op: str) -> None:
    """Raise unless there is such a reduction."""
    if op not in OPERATIONS:
        raise ValueError(f"there is no reduction {op!r}; there are {', '.join(map(repr, OPERATIONS))}")


def check_array(array: Array) -> None:
    """Raise unless MPI can write the array in place."""
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"a collective needs a contiguous array that can be written, got strides {array.strides}")


def bounds(counts: Sequence[int]) -> list[int]:
    """Where the part of each rank begins, and where the last one ends."""
    return [0, *np.cumsum(counts).tolist()]
