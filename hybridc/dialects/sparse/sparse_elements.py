"""Functions of elements on sparse arrays: on the stored values, where a function of zeros is zero."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from hybridc.sparse_storage import CsrStorage, RowSparseStorage, SparseStorage


def result_stype(inputs: Sequence[Any], absorbing: Sequence[int], evaluate: Callable[..., Any]) -> str | None:
    """The storage type of a function of elements; None if its result is dense.

    It is that of the sparse inputs, if all arrays are such, of one form and shape, and the function of zeros is zero;
    or if one is sparse which is ``absorbing``: its zeros make the result zero, whatever the others are.
    """
    sparse = [i for i, x in enumerate(inputs) if isinstance(x, SparseStorage)]
    stypes = {inputs[i].stype for i in sparse}
    if len(stypes) != 1 or len({inputs[i].shape for i in sparse}) > 1:
        return None
    if any(np.ndim(x) for x in inputs if not isinstance(x, SparseStorage)):
        return stypes.pop() if len(sparse) == 1 and sparse[0] in absorbing else None
    zeros = [np.zeros(1, x.dtype) if isinstance(x, SparseStorage) else x for x in inputs]
    with np.errstate(all="ignore"):
        return stypes.pop() if (np.asarray(evaluate(*zeros)) == 0).all() else None


def at_common_places(
    inputs: Sequence[Any], absorbing: Sequence[int] = ()
) -> tuple[list[Any], Callable[[Any], SparseStorage]]:
    """The values of inputs at the places where one of the sparse ones has any, and what makes a result of new values.

    Where csr matrices are ``absorbing``, at the places where all of them have values. Dense inputs, which broadcast,
    are read there; numbers are as they are.
    """
    every = all(i in absorbing and x.stype == "csr" for i, x in enumerate(inputs) if isinstance(x, SparseStorage))
    stored: list[SparseStorage] = [x for x in inputs if isinstance(x, SparseStorage)]
    first = stored[0]
    places = [_places(x) for x in stored]
    common = places[0] if all(p is places[0] or np.array_equal(p, places[0]) for p in places[1:]) else None
    if common is None:
        common = functools.reduce(np.intersect1d if every else np.union1d, places)
        first = _at(first, common)
    values = iter([_spread(x, p, common) for x, p in zip(stored, places, strict=True)])
    return [next(values) if isinstance(x, SparseStorage) else _read(x, first) for x in inputs], first.with_data


def _places(x: SparseStorage) -> Any:
    """The places of the values as numbers that rise: of rows, or of elements of a matrix."""
    return x.rows() * x.shape[1] + x.indices if isinstance(x, CsrStorage) else x.indices


def _at(x: SparseStorage, places: Any) -> SparseStorage:
    """An array of this form with values at other places."""
    none = x.data[:0]
    if isinstance(x, RowSparseStorage):
        return RowSparseStorage(x.shape, none, places)
    rows, columns = np.divmod(places, max(x.shape[1], 1))
    ends = np.searchsorted(rows, np.arange(x.shape[0] + 1))
    return CsrStorage(x.shape, none, columns, ends)


def _spread(x: SparseStorage, places: Any, common: Any) -> Any:
    """The values at other places: zero where there are none."""
    if len(places) == len(common) and np.array_equal(places, common):
        return x.data
    order = np.argsort(places, kind="stable")
    found = cast("Any", np.searchsorted(places, common, sorter=order))
    inside = found < len(places)
    inside[inside] = places[order[found[inside]]] == common[inside]
    made = np.zeros((len(common), *x.data.shape[1:]), x.dtype)
    made[inside] = x.data[order[found[inside]]]
    return made


def _read(x: Any, at: SparseStorage) -> Any:
    """A dense input, which broadcasts, at the places of a sparse array."""
    if not np.ndim(x):
        return x
    whole = np.broadcast_to(x, at.shape)
    return whole[at.rows(), at.indices] if isinstance(at, CsrStorage) else whole[at.indices]
