"""Queues between processes, and the loops at their ends: what loaders derived from those of early MXNet take."""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.queues
from collections.abc import Callable, MutableMapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

from hybridc.array.ndarray import NDArray
from hybridc.context import Context, cpu_pinned


class ConnectionWrapper:
    """A connection to another process that sends and receives objects, arrays among them."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def send(self, obj: Any) -> None:
        """Send an object."""
        buffer = io.BytesIO()
        ForkingPickler(buffer, -1).dump(obj)
        self._conn.send_bytes(buffer.getvalue())

    def recv(self) -> Any:
        """Wait for an object."""
        return cast("Any", ForkingPickler).loads(self._conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_conn"], name)


class Queue(multiprocessing.queues.Queue):  # type: ignore[type-arg]  # takes no argument at run time
    """A queue between processes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


class SimpleQueue(multiprocessing.queues.SimpleQueue):  # type: ignore[type-arg]  # likewise
    """A queue between processes, without a thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)


def as_in_context(data: Any, ctx: Context) -> Any:
    """Arrays in nested lists on a device."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, list | tuple):
        return [as_in_context(part, ctx) for part in cast("list[Any]", data)]
    return data


def worker_loop_v1(dataset: Any, key_queue: Any, data_queue: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
    """Make the batches that ``key_queue`` asks for, as (number, indices), until the number is None."""
    while True:
        number, indices = key_queue.get()
        if number is None:
            return
        data_queue.put((number, batchify_fn([dataset[i] for i in indices])))


def fetcher_loop_v1(
    data_queue: Any,
    data_buffer: MutableMapping[int, Any],
    pin_memory: bool = False,
    pin_device_id: int = 0,
    data_buffer_lock: Any = None,
) -> None:
    """Put the batches of a queue into a dict, by their numbers, until the number is None."""
    while True:
        number, batch = data_queue.get()
        if number is None:
            return
        if pin_memory:
            batch = as_in_context(batch, cpu_pinned(pin_device_id))
        if data_buffer_lock is None:
            data_buffer[number] = batch
            continue
        with data_buffer_lock:
            data_buffer[number] = batch
