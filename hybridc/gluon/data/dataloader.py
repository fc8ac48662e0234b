"""DataLoader: batches of a data set, loaded ahead by processes or threads."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

from hybridc import random
from hybridc.array.numpy_array import default_class
from hybridc.gluon.data.batchify import default_batchify_fn
from hybridc.gluon.data.dataset import ArrayDataset
from hybridc.gluon.data.queues import ConnectionWrapper, Queue, SimpleQueue, fetcher_loop_v1, worker_loop_v1
from hybridc.gluon.data.queues import as_in_context as _as_in_context
from hybridc.gluon.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from hybridc.gluon.data.workers import WorkerPool, too_slow
from hybridc.ground.display.arguments_text import value_text
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.events import recorded
from hybridc.ground.limits import thread_pool
from hybridc.ground.location import user_depth
from hybridc.ground.state import STATE

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from hybridc.array.several_arrays import Batch

    _Batch = TypeVar("_Batch", default=Batch)  # what batchify_fn makes
else:
    from typing import TypeVar

    _Batch = TypeVar("_Batch")

__all__ = [
    "ConnectionWrapper",
    "DataLoader",
    "DataLoaderV1",
    "ForkingPickler",
    "Queue",
    "SimpleQueue",
    "_as_in_context",
    "default_batchify_fn",
    "default_mp_batchify_fn",
    "fetcher_loop_v1",
    "worker_loop_v1",
]

# MXNet's default for worker processes puts the batch into shared memory; here the pipe takes care of it.
default_mp_batchify_fn = default_batchify_fn


class _Pool(Protocol):
    """A loader of batches; tickets stand for those under way."""

    def submit(self, indices: Sequence[Any], seed: int) -> Any:
        """Ask for a batch."""
        ...

    def result(self, ticket: Any) -> Any:
        """Wait for a batch."""
        ...

    def forget(self, tickets: Any) -> None:
        """Give up batches."""
        ...

    def close(self) -> None:
        """End."""
        ...


class DataLoader(Generic[_Batch]):
    """Batches of a data set, as an iterable that can be iterated repeatedly.

    ``len(loader)`` is the number of batches of a pass. Samples are stacked with their dtypes: those in float64 give
    batches in float64.

    Parameters
    ----------
    dataset:
        Anything with ``__len__`` and ``__getitem__``.
    batch_size:
        The number of samples of a batch.
    shuffle:
        Whether each pass has a new random order, as ``numpy.random.seed`` determines it; else samples come in order.
    sampler:
        What gives the indices of the samples of a pass, such as a :class:`DistributedSampler`; not beside ``shuffle``.
    last_batch:
        What becomes of samples that are too few for a batch: ``"keep"``, the default, is a smaller batch,
        ``"discard"`` leaves them out, ``"rollover"`` begins the next pass with them.
    batch_sampler:
        What gives a list of indices for each batch, in place of the four above.
    batchify_fn:
        Makes a batch of a list of samples: :func:`default_batchify_fn` stacks them.
    num_workers:
        Processes (or threads, with ``thread_pool``) that prefetch; 0 loads on demand. Random transforms
        that draw from ``mx.random`` give the same samples for any number. An exception in the data set is
        raised here, with the worker's traceback; the iteration can go on after it. Processes are forked now:
        make the loader before other threads multiply matrices, as OpenBLAS cannot be forked while they do.
    prefetch:
        How many batches are prefetched: twice the number of workers by default.
    timeout:
        Seconds to wait for one batch of a worker.
    auto_reload:
        Start to prefetch the next pass when one ends, and the first at once.
    pin_memory, pin_device_id:
        Accepted for MXNet's API, without effect.
    thread_pool:
        Whether workers are threads, not processes.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Sequence[Any]], _Batch] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout must be positive, got {timeout}")
        if _are_columns(dataset):
            warnings.warn(
                f"DataLoader: the dataset is a tuple of {len(dataset)} arrays, each of which counts as one sample; "
                "pairs of their elements are gluon.data.ArrayDataset(x, y)",
                stacklevel=user_depth(),
            )
        self._batch_sampler = batch_sampler
        if batch_sampler is None:
            self._batch_sampler = _grouped(dataset, batch_size, shuffle, sampler, last_batch)
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified."
            )
        # Loaders derived from MXNet's find these names.
        self._dataset, self._batchify_fn = dataset, batchify_fn or default_batchify_fn
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._num_workers = workers = max(0, num_workers)
        self._prefetch = max(0, 2 * workers if prefetch is None else prefetch)
        load = _Load(dataset, self._batchify_fn)
        self._pool: _Pool
        if not workers:
            self._prefetch = 0
            self._pool = _Here(load)
        elif thread_pool:
            self._pool = _Threads(load, workers, timeout)
        else:
            self._pool = WorkerPool(load, workers, timeout)

        self.auto_reload = auto_reload
        self._iter: _Batches | None = None
        self._current: Callable[[], _Batches | None] = lambda: None  # the pass that was begun last, while it is used
        self._restored: dict[str, Any] | None = None  # where the next pass begins
        if auto_reload:
            self.refresh()

    def __repr__(self) -> str:
        facts = [repr(self._dataset), *_order_text(self._batch_sampler)]
        if self._num_workers:
            facts.append(f"num_workers={self._num_workers}{', thread_pool=True' * isinstance(self._pool, _Threads)}")
        return f"{type(self).__name__}({', '.join(facts)})"

    def __iter__(self) -> Iterator[_Batch]:
        started, self._iter = self._iter, None
        batches = self._start() if started is None else started
        self._current = weakref.ref(batches)
        return self._reloading(batches) if self.auto_reload else batches

    def _start(self) -> _Batches:
        if self._restored is not None:
            restored, self._restored = self._restored, None
            return _Batches(self._pool, _Order.resumed(self._batch_sampler, restored), self._prefetch)
        return _Batches(self._pool, _Order(self._batch_sampler), self._prefetch)

    def state(self) -> dict[str, Any]:
        """Where the pass is that was begun last, after the batches that it gave; :meth:`load_state` goes on there.

        Batches that are loaded ahead do not count: they are loaded again. What the sampler draws is drawn again from
        NumPy's and Python's generators, if it has no ``state()`` of its own.
        """
        batches = self._current() if self._iter is None else self._iter
        if batches is None or batches.is_over():
            return {"sampler": _sampler_state(self._batch_sampler), "rolled": _rolled(self._batch_sampler)}
        return batches.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Let the next pass be the rest of the one in which the loader was when :meth:`state` gave this."""
        self._iter = self._restored = None
        self._current = lambda: None
        if "batches" in state:
            self._restored = state
        else:
            _load_sampler(self._batch_sampler, state)
        if self.auto_reload:
            self.refresh()

    def _reloading(self, batches: _Batches) -> Iterator[Any]:
        yield from batches
        if self._iter is None:
            self.refresh()

    def refresh(self) -> None:
        """Start the next pass anew: prefetch its batches now."""
        self._iter = self._start()

    def clean(self) -> None:
        """Forget what was prefetched for the next pass."""
        self._iter = None

    def __len__(self) -> int:
        return len(self._batch_sampler)


def _grouped(dataset: Any, batch_size: int | None, shuffle: bool, sampler: Any, last_batch: str | None) -> Sampler:
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")


def _order_text(batches: Any) -> list[str]:
    """How samples are ordered and grouped, as the arguments of a DataLoader say it."""
    if type(batches) is not BatchSampler:
        return [f"batch_sampler={value_text(batches)}"]
    facts = [f"batch_size={batches._batch_size}"]
    if type(batches._sampler) is RandomSampler:
        facts.append("shuffle=True")
    elif type(batches._sampler) is not SequentialSampler:
        facts.append(f"sampler={value_text(batches._sampler)}")
    return facts if batches._last_batch == "keep" else [*facts, f"last_batch={batches._last_batch!r}"]


def _are_columns(arrays: Any) -> bool:
    """Whether this is a tuple of arrays of equally many elements, more than there are arrays."""
    if arrays.__class__ is not tuple:
        return False
    shapes: list[Any] = [getattr(a, "shape", ()) for a in arrays]
    sizes = {s[0] if s else 0 for s in shapes}
    return len(arrays) > 1 and len(sizes) == 1 and sizes.pop() > len(arrays)


class _Load:
    """Makes the batch of some indices."""

    def __init__(self, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
        self._dataset = dataset
        self._batchify_fn = batchify_fn
        self._numpy = STATE.np_array  # in the thread that makes the loader, which holds in those of the workers
        own: Any = getattr(cast("type[Any]", type(dataset)), "__getitem__", None)
        self._at_once = own is ArrayDataset.__getitem__ and batchify_fn is default_batchify_fn

    def __call__(self, indices: Sequence[Any]) -> Any:
        """The batch."""
        with default_class(self._numpy):
            batch = self._dataset.batch(indices) if self._at_once else None
            return self._make(indices) if batch is None else batch

    def _make(self, indices: Sequence[Any]) -> Any:
        try:
            return self._batchify_fn([self._dataset[i] for i in indices])
        except StopIteration as error:
            # It would end the loop over the loader without a word.
            raise RuntimeError("the data set or batchify_fn raised StopIteration") from error


class _Here:
    """Loads each batch in this thread, on demand."""

    def __init__(self, load: _Load) -> None:
        self._load = load

    def submit(self, indices: Sequence[Any], seed: int) -> Any:
        return indices, seed

    def result(self, ticket: Any) -> Any:
        indices, seed = ticket
        with random.isolated(seed):
            return self._load(indices)

    def forget(self, tickets: Any) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing to end."""


class _Threads:
    """Loads in threads of this process."""

    def __init__(self, load: _Load, count: int, timeout: float) -> None:
        self._here = _Here(load)
        self._timeout = timeout
        self._executor = thread_pool(count, "DataLoader")

    def submit(self, indices: Sequence[Any], seed: int) -> Any:
        return self._executor.submit(self._here.result, (indices, seed))

    def result(self, ticket: Future[Any]) -> Any:
        try:
            return ticket.result(self._timeout)
        except TimeoutError:
            if ticket.done():
                raise
            raise TimeoutError(too_slow(self._timeout)) from None

    def forget(self, tickets: Any) -> None:
        for ticket in tickets:
            ticket.cancel()

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class _Order:
    """The batches' indices of one pass, with what a loader needs to go on in the middle of it."""

    def __init__(self, sampler: Any) -> None:
        seed, counter = (int(part) for part in random.next_key(training=False))
        self._sampler = sampler
        self._seed = (seed * 0x9E3779B97F4A7C15 + counter * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        self._count = 0
        # What a sampler draws from when it is iterated; one that has a state needs no replay.
        self._begun = {"generators": random.generator_states(), "rolled": _rolled(sampler)}
        self._indices: Iterator[Any] = iter(sampler)

    @classmethod
    def resumed(cls, sampler: Any, state: dict[str, Any]) -> _Order:
        """The rest of a pass, after the batches that its :meth:`state` counts."""
        self = cls.__new__(cls)
        self._sampler, self._seed, self._count, self._begun = sampler, state["seed"], state["batches"], state["begun"]
        if state["sampler"] is not None:
            _load_sampler(sampler, {"sampler": state["sampler"], "rolled": []})
            self._indices = iter(sampler)
            return self
        present = random.generator_states()
        random.load_generator_states(self._begun["generators"])
        _load_sampler(sampler, {"sampler": None, "rolled": self._begun["rolled"]})
        self._indices = iter(sampler)
        for _ in range(self._count):
            next(self._indices, None)
        # Who takes the state looks whether there is a further batch, for which a sampler may draw.
        ahead: list[Any] = [*itertools.islice(self._indices, 1)]
        self._indices = itertools.chain(ahead, self._indices)
        random.load_generator_states(present)
        return self

    def take(self) -> tuple[Any, int, dict[str, Any]]:
        """The next batch: its indices, its seed, and the state after it; StopIteration at the end."""
        indices = next(self._indices)
        seed = (self._seed + self._count) & (2**64 - 1)
        self._count += 1
        return indices, seed, self.state()

    def state(self) -> dict[str, Any]:
        """The pass and how many batches it gave, as plain data."""
        sampler = _sampler_state(self._sampler)
        return {"seed": self._seed, "batches": self._count, "begun": self._begun, "sampler": sampler}


def _stateful(sampler: Any) -> Any:
    """The sampler of batches, or the one from which it takes, whichever has a state; None if neither has."""
    for each in (sampler, getattr(sampler, "_sampler", None)):
        if hasattr(each, "state") and hasattr(each, "load_state"):
            return each
    return None


def _sampler_state(sampler: Any) -> Any:
    found = _stateful(sampler)
    return None if found is None else found.state()


def _rolled(sampler: Any) -> list[Any]:
    """What a sampler of batches carries into the next pass."""
    return [*getattr(sampler, "_rolled", ())]


def _load_sampler(sampler: Any, state: dict[str, Any]) -> None:
    found = _stateful(sampler)
    if found is not None and state["sampler"] is not None:
        found.load_state(state["sampler"])
    if hasattr(sampler, "_rolled"):
        sampler._rolled = [*state["rolled"]]


class _Batches:
    """One pass over the batches, with prefetching."""

    def __init__(self, pool: _Pool, order: _Order, ahead: int) -> None:
        self._pool = pool
        self._order = order
        self._ahead = ahead
        self._under_way: deque[Any] = deque()  # tickets, and the state after their batch
        self._state = order.state()
        self._fill(ahead)

    def __iter__(self) -> _Batches:
        return self

    @hides_frames
    def __next__(self) -> Any:
        self._fill(self._ahead + 1)
        if not self._under_way:
            raise StopIteration
        with recorded("data", "wait for a batch"):
            ticket, state = self._under_way.popleft()
            self._state = state
            return self._pool.result(ticket)

    def state(self) -> dict[str, Any]:
        """The state after the last batch that was given."""
        return self._state

    def is_over(self) -> bool:
        """Whether all batches were given."""
        self._fill(1)
        return not self._under_way

    def _fill(self, wanted: int) -> None:
        while len(self._under_way) < wanted:
            try:
                indices, seed, state = self._order.take()
            except StopIteration:
                return
            self._under_way.append((self._pool.submit(indices, seed), state))

    def __del__(self) -> None:
        self._pool.forget([ticket for ticket, _ in self._under_way])


class DataLoaderV1(DataLoader[_Batch]):
    """The loader of MXNet before 1.5: :class:`DataLoader` without ``thread_pool`` and ``timeout``."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Sequence[Any]], _Batch] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
    ) -> None:
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            last_batch,
            batch_sampler,
            batchify_fn,
            num_workers,
            pin_memory,
            pin_device_id,
        )


class _MultiWorkerIter:  # pyright: ignore[reportUnusedClass]
    """One pass over batches that a pool of processes makes: the base of iterators derived from MXNet's.

    A derived one may override ``_push_next``, which has the pool make one more batch. :class:`DataLoader` has workers
    of its own. Without ``dataset`` a worker gives the bytes of a batch's pickle.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[Sequence[Any]], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] | None = None,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float = 120,
    ) -> None:
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._worker_fn = worker_fn
        self._dataset = dataset
        self._data_loader = data_loader  # so that it is not collected, and the pool with it
        self._timeout = timeout
        self._iter = iter(batch_sampler)
        self._data_buffer: dict[int, Any] = {}
        self._sent_idx = self._rcvd_idx = 0
        for _ in range(prefetch):
            self._push_next()

    def _push_next(self) -> None:
        indices = next(self._iter, None)
        if indices is not None:
            given = (indices, self._batchify_fn, self._dataset)
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, given)
            self._sent_idx += 1

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> _MultiWorkerIter:
        return self

    def next(self) -> Any:
        """The next batch."""
        return self.__next__()

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        batch = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        self._rcvd_idx += 1
        return cast("Any", ForkingPickler).loads(batch) if self._dataset is None else batch
