"""All-gather, broadcast and all-to-all of arrays: ``hvd.allgather`` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.communication import Communicator
from hybridc.communication.communicator import labelled
from hybridc.errors import MXNetError
from hybridc.ground.events import recorded
from hybridc.horovod.differentiable import differentiable
from hybridc.horovod.host_values import Array, checked, copied, new_like, own_values, put_back
from hybridc.horovod.rank_sets import ProcessSet, global_process_set


def allgather(
    tensor: NDArray, name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set
) -> NDArray:
    """The arrays of all ranks one after the other along the first axis, which may differ in length.

    Parameters
    ----------
    tensor:
        This rank's array, of one axis at least; the other axes agree.
    name:
        Distinguishes this call in errors; None for nothing.
    priority:
        Accepted for Horovod's API: calls are carried out in their order.
    process_set:
        The ranks that take part; others must not call this.
    """
    return grouped_allgather([tensor], name, priority, process_set, what="allgather")[0]


def grouped_allgather(
    tensors: Sequence[NDArray],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    *,
    what: str = "grouped_allgather",
) -> list[NDArray]:
    """As :func:`allgather`, of several arrays.

    Parameters
    ----------
    tensors:
        This rank's arrays, as many on all ranks.
    name:
        Distinguishes this call in errors; None for nothing.
    priority:
        Accepted for Horovod's API: calls are carried out in their order.
    process_set:
        The ranks that take part; others must not call this.
    what:
        What errors call this.
    """
    given = [checked(what, tensor) for tensor in tensors]
    for tensor in given:
        if not tensor.ndim:
            raise MXNetError(f"hvd.{what}: an array without dimensions has no first axis; use reshape((1,))")
    ranks = process_set.communicator()
    counts = np.zeros((ranks.size, len(given)), np.int64)

    def forward(*inputs: NDArray) -> list[NDArray]:
        counts[ranks.rank] = [len(x) for x in inputs]
        call = _call(what, name, [(x.dtype, ("…", *x.shape[1:])) for x in inputs])
        with labelled(call), recorded("communication", what, arrays=len(inputs)):
            ranks.allgather(counts.reshape(-1), [len(inputs)] * ranks.size)
            return [new_like(x, gathered(ranks, copied(x), counts[:, i])) for i, x in enumerate(inputs)]

    def backward(*grads: NDArray) -> list[NDArray]:
        found: list[NDArray] = []
        for i, grad in enumerate(grads):
            whole = copied(grad)
            with labelled(f"gradient of hvd.{what}"):
                ranks.allreduce(whole)
            start = int(counts[: ranks.rank, i].sum())
            found.append(new_like(grad, whole[start : start + int(counts[ranks.rank, i])].copy()))
        return found

    return differentiable(forward, backward, given)


def gathered(ranks: Communicator, part: Array, counts: Sequence[int] | Array) -> Array:
    """The rows of all ranks, which have so many each."""
    width = int(np.prod(part.shape[1:], dtype=np.int64))
    whole = np.empty((int(np.sum(counts)), *part.shape[1:]), part.dtype)
    start = int(np.sum(counts[: ranks.rank]))
    whole[start : start + len(part)] = part
    if whole.size:
        ranks.allgather(whole.reshape(-1), [int(n) * width for n in counts])
    return whole


def broadcast(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """A new array with the values of ``tensor`` of the rank ``root_rank``, which is one of all ranks.

    Parameters
    ----------
    tensor:
        The array, of one shape on all ranks.
    root_rank:
        The rank whose values they are: its number among all ranks, else a ValueError.
    name:
        Distinguishes this call in errors; None for nothing.
    priority:
        Accepted for Horovod's API: calls are carried out in their order.
    process_set:
        The ranks that take part; others must not call this.
    """
    ranks, root = process_set.communicator(), process_set.place(root_rank, "hvd.broadcast")

    def forward(x: NDArray) -> list[NDArray]:
        values = copied(x)
        call = f"{_call('broadcast', name, [(x.dtype, x.shape)])} from rank {root_rank}"
        with labelled(call), recorded("communication", "broadcast", bytes=values.nbytes):
            ranks.broadcast(values, root)
        return [new_like(x, values)]

    def backward(grad: NDArray) -> list[NDArray]:
        values = copied(grad)
        with labelled("gradient of hvd.broadcast"):
            ranks.allreduce(values)
        return [new_like(grad, values if ranks.rank == root else np.zeros_like(values))]

    return differentiable(forward, backward, [checked("broadcast", tensor)])[0]


def broadcast_(
    tensor: NDArray,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> NDArray:
    """As :func:`broadcast`, into ``tensor`` itself, which is returned.

    Parameters
    ----------
    tensor:
        The array, of one shape on all ranks.
    root_rank:
        The rank whose values they are: its number among all ranks, else a ValueError.
    name:
        Distinguishes this call in errors; None for nothing.
    priority:
        Accepted for Horovod's API: calls are carried out in their order.
    process_set:
        The ranks that take part; others must not call this.
    """
    x = checked("broadcast_", tensor)
    ranks, root = process_set.communicator(), process_set.place(root_rank, "hvd.broadcast_")
    values = own_values(x)
    call = f"{_call('broadcast', name, [(x.dtype, x.shape)])} from rank {root_rank}"
    with labelled(call), recorded("communication", "broadcast", bytes=values.nbytes):
        ranks.broadcast(values, root)
    put_back(x, values)
    return tensor


def alltoall(
    tensor: NDArray,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Row blocks of an array go to the ranks in their order; the blocks that came, by rank, one after the other.

    With ``splits`` the result is a pair: the array, and how many rows came from each rank, int32.

    Parameters
    ----------
    tensor:
        The array, of one axis at least.
    splits:
        The rows for each rank; None divides them equally, which must come out even, else it is a ValueError.
    name:
        Distinguishes this call in errors; None for nothing.
    priority:
        Accepted for Horovod's API: calls are carried out in their order.
    process_set:
        The ranks that take part; others must not call this.
    """
    x = checked("alltoall", tensor)
    ranks = process_set.communicator()
    if not x.ndim:
        raise MXNetError("hvd.alltoall: an array without dimensions has no rows")
    sent = _splits(splits, len(x), ranks.size)
    received = np.zeros(ranks.size, np.int64)

    def forward(x: NDArray) -> list[NDArray]:
        call = _call("alltoall", name, [(x.dtype, ("…", *x.shape[1:]))])
        with labelled(call), recorded("communication", "alltoall", bytes=sent.nbytes):
            received[:] = ranks.alltoall(sent.copy())
            return [new_like(x, _exchanged(ranks, copied(x), sent, received))]

    def backward(grad: NDArray) -> list[NDArray]:
        with labelled("gradient of hvd.alltoall"):
            return [new_like(grad, _exchanged(ranks, copied(grad), received, sent))]

    result = differentiable(forward, backward, [x])[0]
    return result if splits is None else (result, NDArray(received.astype(np.int32)))


def _splits(splits: Any, rows: int, size: int) -> Array:
    if splits is None:
        if rows % size:
            raise ValueError(f"hvd.alltoall: {rows} rows cannot be divided among {size} ranks equally; give splits")
        return np.full(size, rows // size, np.int64)
    given = np.asarray(splits.asnumpy() if isinstance(splits, NDArray) else splits)
    if given.shape != (size,) or (given < 0).any() or int(given.sum()) > rows:
        raise ValueError(
            f"hvd.alltoall: splits must be {size} numbers, one for each rank, whose sum is at most the {rows} rows of "
            f"tensor, got {given.tolist()}"
        )
    return given.astype(np.int64)


def _exchanged(ranks: Communicator, values: Array, sent: Array, received: Array) -> Array:
    """The rows that came from each rank, where so many go to each."""
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    flat = ranks.exchange(values.reshape(-1), (sent * width).tolist(), (received * width).tolist())
    return flat.reshape(int(received.sum()), *values.shape[1:])


def _call(what: str, name: str | None, arrays: Sequence[tuple[Any, tuple[Any, ...]]]) -> str:
    """A description of a call, equal on all ranks."""
    shapes = ", ".join(f"{np.dtype(dtype)}[{', '.join(map(str, shape))}]" for dtype, shape in arrays)
    return f"hvd.{what}{'' if name is None else f' {name!r}'} of {shapes}"
