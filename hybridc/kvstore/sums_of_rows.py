"""Sums of row_sparse arrays over ranks: each rank gets the rows of all, and adds up those of one index.

How many rows there are differs from rank to rank and from step to step, so they are in no bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.array.sparse import wrapped
from hybridc.communication import Communicator
from hybridc.communication.agreement import require_equal
from hybridc.communication.communicator import Array
from hybridc.errors import UnsupportedError
from hybridc.sparse_storage import RowSparseStorage


def rows_and_dense(groups: Sequence[Sequence[NDArray]]) -> tuple[list[int], list[int]]:
    """The numbers of the groups of row_sparse arrays, and those of the dense ones."""
    stypes = [group[0].stype for group in groups]
    if "csr" in stypes:
        raise UnsupportedError("csr arrays are not summed over ranks; there a gradient is row_sparse or dense")
    rows = [i for i, stype in enumerate(stypes) if stype == "row_sparse"]
    return rows, [i for i, stype in enumerate(stypes) if stype == "default"]


def sums_of_rows(
    ranks: Communicator, names: Sequence[str], groups: Sequence[Sequence[NDArray]], likes: Sequence[NDArray]
) -> list[NDArray]:
    """The sum of each group, which may be empty, over this rank and all others, in the shape and dtype of its ``like``.

    All ranks have groups of the same names. Rows are added in the order of the ranks, so each has the same sum.
    """
    storages: list[list[Any]] = [[x._data for x in group] for group in groups]
    mine = [sum(len(x.indices) for x in group) for group in storages]
    counts = ranks.gather_objects(dict(zip(names, mine, strict=True)))
    if any(each.keys() != counts[0].keys() for each in counts):
        require_equal("the list of keys whose rows are summed", list(names), ranks)
    return [
        _sum(ranks, group, like, [each[name] for each in counts])
        for name, group, like in zip(names, storages, likes, strict=True)
    ]


def _sum(ranks: Communicator, group: Sequence[RowSparseStorage], like: NDArray, counts: list[int]) -> NDArray:
    """The sum of one group; ``counts`` are the numbers of its rows on the ranks."""
    shape, dtype = like.shape, like._data.dtype
    indices, data = np.empty(sum(counts), np.int64), np.empty((sum(counts), *shape[1:]), dtype)
    start = sum(counts[: ranks.rank])
    for storage in group:
        end = start + len(storage.indices)
        indices[start:end], data[start:end] = storage.indices, storage.data
        start = end
    width = data[:1].size if len(data) else 0
    for array, size in ((indices, 1), (data, width)):
        _gather(ranks, array, [n * size for n in counts])
    return wrapped(RowSparseStorage.of_sum(shape, data, indices))


def _gather(ranks: Communicator, array: Array, counts: list[int]) -> None:
    """Put the parts of all ranks into the arrays of all."""
    if array.size and ranks.size > 1:
        ranks.allgather(array.reshape(-1), counts)
