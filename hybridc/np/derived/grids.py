"""Grids, indices of parts of matrices, windows: arrays of ``mx.np`` that follow from sizes."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol
from hybridc.array.functions import function
from hybridc.context import Context
from hybridc.dialects.numpy_rules import BOOL, INT64
from hybridc.np.apply import cast, dtype_of, is_number, operand
from hybridc.np.making import array
from hybridc.np.reducing import given
from hybridc.np.selection import diag, nonzero
from hybridc.np.shaping import broadcast_to, ravel, reshape

__all__ = [
    "blackman",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "hamming",
    "hanning",
    "indices",
    "ix_",
    "meshgrid",
    "ravel_multi_index",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]


def indices(dimensions: Sequence[int], dtype: Any = onp.int32, ctx: Context | None = None) -> Any:
    """The coordinates of all elements of an array of a shape: along the first axis, one array for each dimension."""
    return array(onp.indices(tuple(dimensions)), onp.int32 if dtype is None else dtype, ctx)


def meshgrid(*xi: Any, **kwargs: Any) -> list[Any]:
    """Vectors as coordinates of a grid: each one broadcast along the axes of the others."""
    indexing, sparse = kwargs.pop("indexing", "xy"), kwargs.pop("sparse", False)
    copied = kwargs.pop("copy", True)
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    arrays = [given(x) for x in xi]
    count = len(arrays)
    axes = list(range(count))
    if indexing == "xy" and count > 1:
        axes[:2] = 1, 0
    grids = [
        reshape(a, (1,) * axis + (a.size,) + (1,) * (count - axis - 1)) for a, axis in zip(arrays, axes, strict=True)
    ]
    if not sparse:
        together = onp.broadcast_shapes(*[g.shape for g in grids])
        grids = [broadcast_to(g, together) for g in grids]
    return [function("identity")(g) for g in grids] if copied else grids


def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors of indices, or masks, as an open grid: ``a[ix_(rows, columns)]``."""
    made: list[Any] = []
    for axis, arg in enumerate(args):
        index = array(arg, INT64 if not len(arg) else None) if isinstance(arg, list | tuple | range) else operand(arg)
        if isinstance(arg, list | tuple | range):
            index = cast(index, BOOL if all(isinstance(v, bool) for v in arg) and len(arg) else INT64)
        if index.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if dtype_of(index) == BOOL:
            (index,) = nonzero(index)
        made.append(reshape(index, (1,) * axis + (index.size,) + (1,) * (len(args) - axis - 1)))
    return tuple(made)


# --- indices of parts of matrices --------------------------------------------------------------------------------


def _all_int64(parts: Any) -> tuple[Any, ...]:
    return tuple(array(part, INT64) for part in parts)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array of n elements along each of ``ndim`` axes; int64."""
    return _all_int64([onp.arange(n)] * ndim)


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array; int64."""
    a = given(arr)
    if a.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(a.shape[0], a.ndim)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, ...]:
    """The indices of the elements on and below the k-th diagonal of an n by m matrix; int64."""
    return _all_int64(onp.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, ...]:
    """The indices of the elements on and above the k-th diagonal of an n by m matrix; int64."""
    return _all_int64(onp.triu_indices(n, k, m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """The indices of the elements of a matrix on and below the k-th diagonal; int64."""
    return tril_indices(_matrix(arr).shape[0], k, given(arr).shape[1])


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """The indices of the elements of a matrix on and above the k-th diagonal; int64."""
    return triu_indices(_matrix(arr).shape[0], k, given(arr).shape[1])


def _matrix(arr: Any) -> Any:
    a = given(arr)
    if a.ndim != 2:
        raise ValueError("input array must be 2-d")
    return a


def diagflat(array: Any, k: int = 0) -> Any:
    """The matrix with all elements of ``array`` on its ``k``-th diagonal, and 0 elsewhere."""
    return diag(ravel(given(array)), k)


# --- positions and coordinates -----------------------------------------------------------------------------------


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """The coordinates of the elements at positions in row-major order, an array for each axis; int64."""
    if order != "C":
        raise NotImplementedError(f"mx.np.unravel_index: order={order!r} is not supported; positions are row-major")
    shape = (int(shape),) if isinstance(shape, int | onp.integer) else tuple(int(n) for n in shape)
    if is_number(indices):
        return onp.unravel_index(int(indices), shape)
    a = _positions(indices)
    found = function("unravel_index")(reshape(a, a.shape or (1,)), shape=shape)
    return tuple(reshape(found[i], a.shape) for i in range(len(shape)))


def _positions(indices: Any) -> Any:
    """Indices as integers."""
    a = given(indices)
    return a if dtype_of(a).kind in "iu" else cast(a, INT64)


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """The positions in row-major order of the elements with coordinates, an array for each axis; int64."""
    if order != "C":
        raise NotImplementedError(f"mx.np.ravel_multi_index: order={order!r} is not supported; positions are row-major")
    dims = tuple(int(n) for n in dims)
    parts = list(multi_index)
    if len(parts) != len(dims):
        raise ValueError(f"mx.np.ravel_multi_index: {len(parts)} coordinates do not fit dims={dims}")
    if all(is_number(part) for part in parts):
        return onp.ravel_multi_index(tuple(int(n) for n in parts), dims, mode)
    coordinates = [cast(_positions(part), INT64) for part in parts]
    if mode != "raise":
        coordinates = [
            c % n if mode == "wrap" else function("clip")(c, a_min=0, a_max=n - 1)
            for c, n in zip(coordinates, dims, strict=True)
        ]
    elif not any(is_symbol(c) for c in coordinates) and any(
        ((c.asnumpy() < 0) | (c.asnumpy() >= n)).any() for c, n in zip(coordinates, dims, strict=True)
    ):
        raise ValueError("invalid entry in coordinates array")
    flat = coordinates[0]
    for c, n in zip(coordinates[1:], dims[1:], strict=True):
        flat = flat * n + c
    return flat


# --- windows -----------------------------------------------------------------------------------------------------


def hanning(M: int, dtype: Any = onp.float32, ctx: Context | None = None) -> Any:
    """A window of M weights that falls from 1 in the middle to 0 as a raised cosine."""
    return array(onp.hanning(M), dtype, ctx)


def hamming(M: int, dtype: Any = onp.float32, ctx: Context | None = None) -> Any:
    """A window of M weights that falls from 1 in the middle to 0.08 as a raised cosine."""
    return array(onp.hamming(M), dtype, ctx)


def blackman(M: int, dtype: Any = onp.float32, ctx: Context | None = None) -> Any:
    """A window of M weights: the first three terms of a sum of cosines."""
    return array(onp.blackman(M), dtype, ctx)
