"""Sparse storage: the buffers of an array most of whose elements are zero, in MXNet's two forms.

An array holds one of these in the place of a NumPy array: it has its ``shape``, ``dtype`` and size, and what computes
with NumPy's functions gets the dense values by ``__array__``. Nothing writes into it: a write gives an array another
storage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hybridc.errors import MissingPackageError, MXNetError, ShapeError

Array = npt.NDArray[Any]
INT64 = np.dtype("int64")


class SparseStorage:
    """The base of both forms: ``data`` are the stored values, ``indices`` say where they are."""

    stype: ClassVar[str]

    def __init__(self, shape: Sequence[int], data: Array, indices: Array) -> None:
        self.shape = tuple(shape)
        self.data = data
        self.indices = indices

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, zeros included."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def auxiliary(self) -> tuple[Array, ...]:
        """The arrays that say where the values are, in MXNet's order."""
        return (self.indices,)

    @property
    def nbytes(self) -> int:
        """The bytes of values and indices."""
        return self.data.nbytes + sum(a.nbytes for a in self.auxiliary)

    def with_data(self, data: Array) -> Self:
        """Other values at the same places."""
        raise NotImplementedError

    def dense(self) -> Array:
        """All elements as a NumPy array."""
        raise NotImplementedError

    def check(self, full: bool = True) -> None:
        """Raise MXNetError unless the buffers fit together; with ``full`` indices must rise, too."""
        raise NotImplementedError

    def astype(self, dtype: Any, copy: bool = True) -> Self:
        """The values in another dtype."""
        return self.with_data(self.data.astype(dtype, copy=copy))

    def copy(self) -> Self:
        """A copy of the values; places are never written, so they are shared."""
        return self.with_data(self.data.copy())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.dense().astype(dtype or self.dtype, copy=False)


class CsrStorage(SparseStorage):
    """A matrix in compressed rows: those of row i are ``data[indptr[i]:indptr[i + 1]]``, in columns ``indices``."""

    stype = "csr"

    def __init__(self, shape: Sequence[int], data: Array, indices: Array, indptr: Array) -> None:
        super().__init__(shape, data, indices)
        self.indptr = indptr
        self._matrix: Any = None

    @property
    def auxiliary(self) -> tuple[Array, ...]:
        return self.indptr, self.indices

    def with_data(self, data: Array) -> CsrStorage:
        return CsrStorage(self.shape, data, self.indices, self.indptr)

    @classmethod
    def of(cls, dense: Array) -> CsrStorage:
        """The elements of a matrix that are not zero."""
        if dense.ndim != 2:
            raise ShapeError(f"csr storage is for matrices, got shape {dense.shape}")
        rows, columns = np.nonzero(dense)
        counts = np.bincount(rows, minlength=len(dense))
        return cls(dense.shape, dense[rows, columns], columns, _ends(counts))

    @classmethod
    def of_coordinates(cls, data: Array, rows: Array, columns: Array, shape: tuple[int, int] | None) -> CsrStorage:
        """Values with their rows and columns, in any order: those at one place are added."""
        if not data.ndim == rows.ndim == columns.ndim == 1 or not len(data) == len(rows) == len(columns):
            raise ValueError(
                "csr_matrix: values, rows and columns must be vectors of one length, got shapes "
                f"{data.shape}, {rows.shape} and {columns.shape}"
            )
        if shape is None:
            if not len(rows):
                raise ValueError("csr_matrix: without values the shape does not follow; give shape=")
            shape = int(rows.max()) + 1, int(columns.max()) + 1
        for indices, size, axis in ((rows, shape[0], "rows"), (columns, shape[1], "columns")):
            if len(indices) and (indices.min() < 0 or indices.max() >= size):
                raise ValueError(f"csr_matrix: {axis} must be from 0 to {size - 1}, got {indices}")
        order = np.lexsort((columns, rows))
        rows, columns, data = rows[order], columns[order], data[order]
        first = np.ones(len(rows), bool)
        first[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
        starts = np.flatnonzero(first)
        sums = np.add.reduceat(data, starts).astype(data.dtype, copy=False) if len(starts) else data
        return cls(shape, sums, columns[starts], _ends(np.bincount(rows[starts], minlength=shape[0])))

    @classmethod
    def of_matrix(cls, matrix: Any) -> CsrStorage:
        """A SciPy matrix in compressed rows; it keeps the values' memory."""
        return cls(matrix.shape, matrix.data, *(np.asarray(x, INT64) for x in (matrix.indices, matrix.indptr)))

    def matrix(self) -> Any:
        """The SciPy matrix on the same values."""
        if self._matrix is None:  # SciPy copies indices into a smaller dtype, which takes as long as a product
            self._matrix = scipy_sparse().csr_matrix((self.data, self.indices, self.indptr), self.shape, copy=False)
        return self._matrix

    def rows(self) -> Array:
        """The row of each value."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def dense(self) -> Array:
        made = np.zeros(self.shape, self.dtype)
        made[self.rows(), self.indices] = self.data  # of values at one place the last counts, as in MXNet
        return made

    def slice_rows(self, begin: int, end: int) -> CsrStorage:
        """The rows from ``begin`` to ``end``."""
        first, last = (int(self.indptr[i]) for i in (begin, end))
        shape = end - begin, self.shape[1]
        part = slice(first, last)
        return CsrStorage(shape, self.data[part], self.indices[part], self.indptr[begin : end + 1] - first)

    def slice_columns(self, begin: int, end: int) -> CsrStorage:
        """The columns from ``begin`` to ``end``."""
        if (begin, end) == (0, self.shape[1]):
            return self
        inside = (self.indices >= begin) & (self.indices < end)
        return self.with_columns(end - begin, self.indices - begin, inside)

    def with_columns(self, count: int, indices: Array, kept: Array) -> CsrStorage:
        """Those of the values that are kept, in other columns, of ``count``."""
        ends = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        return CsrStorage((self.shape[0], count), self.data[kept], indices[kept], ends)

    @classmethod
    def joined(cls, parts: Sequence[CsrStorage]) -> CsrStorage:
        """The rows of several matrices, one after the other."""
        counts = np.concatenate([np.diff(x.indptr) for x in parts])
        data, indices = (np.concatenate([getattr(x, name) for x in parts]) for name in ("data", "indices"))
        return cls((len(counts), parts[0].shape[1]), data, indices, _ends(counts))

    def sorted(self) -> CsrStorage:
        """The same matrix with rising columns in each row."""
        order = np.lexsort((self.indices, self.rows()))
        return CsrStorage(self.shape, self.data[order], self.indices[order], self.indptr)

    def take_rows(self, rows: Any) -> CsrStorage:
        """These rows, in this order: their numbers, or a slice."""
        chosen = np.arange(self.shape[0])[rows]
        counts = np.diff(self.indptr)[chosen]
        ends = _ends(counts)
        places: Any = np.arange(int(ends[-1])) + np.repeat(self.indptr[chosen] - ends[:-1], counts)
        return CsrStorage((len(chosen), self.shape[1]), self.data[places], self.indices[places], ends)

    def check(self, full: bool = True) -> None:
        rows, columns = self.shape
        if self.data.ndim != 1 or self.indices.shape != self.data.shape or self.indptr.shape != (rows + 1,):
            raise MXNetError(
                f"csr of shape {self.shape}: data and indices must be vectors of one length and indptr have {rows + 1} "
                f"elements, got shapes {self.data.shape}, {self.indices.shape} and {self.indptr.shape}"
            )
        ends = self.indptr
        if int(ends[0]) or int(ends[-1]) != len(self.data) or (np.diff(ends) < 0).any():
            raise MXNetError(
                f"csr: indptr must begin with 0, end with the number of values, {len(self.data)}, and not decrease, "
                f"got {ends}"
            )
        if len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= columns):
            raise MXNetError(f"csr: indices must be from 0 to {columns - 1}, got {self.indices}")
        if not full or not len(self.indices):
            return
        rising = np.diff(self.indices) > 0
        rising[ends[1:-1][(ends[1:-1] > 0) & (ends[1:-1] < len(self.indices))] - 1] = True  # across rows
        if not rising.all():
            raise MXNetError("csr: the indices of each row must rise, and none may repeat")


class RowSparseStorage(SparseStorage):
    """An array most of whose rows are zero: row ``indices[i]`` is ``data[i]``; the indices rise."""

    stype = "row_sparse"

    def with_data(self, data: Array) -> RowSparseStorage:
        return RowSparseStorage(self.shape, data, self.indices)

    @classmethod
    def of(cls, dense: Array) -> RowSparseStorage:
        """The rows that are not zero."""
        if not dense.ndim:
            raise ShapeError("row_sparse storage is for arrays with at least one axis")
        indices = np.flatnonzero(dense.reshape(len(dense), -1).any(1)) if dense.size else np.zeros(0, INT64)
        return cls(dense.shape, dense[indices], indices)

    @classmethod
    def of_sum(cls, shape: Sequence[int], data: Array, indices: Array) -> RowSparseStorage:
        """The sum of rows, in any order: those of one index are added."""
        unique, places = np.unique(indices, return_inverse=True)
        if len(unique) == len(indices):
            made = np.empty_like(data)
            made[places] = data
            return cls(shape, made, unique)
        # The rows of one index are added in pairs, and then these sums.
        left, counts = np.argsort(places, kind="stable"), np.bincount(places)
        sums = data.astype(np.promote_types(data.dtype, np.float32))
        while (counts > 1).any():
            within = np.arange(len(left)) - np.repeat(_ends(counts)[:-1], counts)
            second = np.flatnonzero(within & 1)
            sums[left[second - 1]] += sums[left[second]]
            left, counts = left[within & 1 == 0], (counts + 1) // 2
        return cls(shape, sums[left].astype(data.dtype, copy=False), unique)

    def dense(self) -> Array:
        made = np.zeros(self.shape, self.dtype)
        made[self.indices] = self.data
        return made

    def take_rows(self, rows: Array) -> Array:
        """These rows, in the shape of their numbers, as a dense array."""
        places, stored = self.find(rows)
        made = np.zeros((*rows.shape, *self.shape[1:]), self.dtype)
        made[stored] = self.data[places[stored]]
        return made

    def find(self, rows: Array) -> tuple[Array, Array]:
        """Where each of these rows is among the stored ones, and whether it is there."""
        places = np.searchsorted(self.indices, rows)
        stored = places < len(self.indices)
        stored[stored] = self.indices[places[stored]] == rows[stored]
        return places, stored

    def retain(self, indices: Array) -> RowSparseStorage:
        """These rows alone, all of which the result stores."""
        rows = np.unique(indices)
        return RowSparseStorage(self.shape, self.take_rows(rows), rows)

    def check(self, full: bool = True) -> None:
        if self.indices.ndim != 1 or self.data.shape != (len(self.indices), *self.shape[1:]):
            raise MXNetError(
                f"row_sparse of shape {self.shape}: data must have shape {(len(self.indices), *self.shape[1:])}, a row "
                f"for each of the indices, got {self.data.shape}"
            )
        outside = len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= self.shape[0])
        if outside or (full and (np.diff(self.indices) <= 0).any()):
            raise MXNetError(
                f"row_sparse: indices must rise, from 0 to at most {self.shape[0] - 1}, got {self.indices}"
            )


#: The storage types, in the order of MXNet's numbers, which is that of their arrays of indices.
STORAGE_TYPES = ("default", "row_sparse", "csr")
#: The class of each sparse storage type.
STORAGES: dict[str, type[CsrStorage] | type[RowSparseStorage]] = {"csr": CsrStorage, "row_sparse": RowSparseStorage}


def as_csr(buffer: Any) -> CsrStorage:
    """A matrix as csr."""
    return buffer if isinstance(buffer, CsrStorage) else CsrStorage.of(converted(buffer, "default"))


def zeros(stype: str, shape: Sequence[int], dtype: Any) -> Any:
    """A buffer of zeros, which has no values if it is sparse."""
    if stype == "default":
        return np.zeros(shape, dtype)
    if stype == "csr":
        if len(shape) != 2:
            raise ShapeError(f"csr storage is for matrices, got shape {tuple(shape)}")
        return CsrStorage(shape, np.zeros(0, dtype), np.zeros(0, INT64), np.zeros(shape[0] + 1, INT64))
    return RowSparseStorage(shape, np.zeros((0, *shape[1:]), dtype), np.zeros(0, INT64))


def scipy_sparse() -> Any:
    """SciPy's sparse matrices, which compute products; they take 100 ms to import."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise MissingPackageError("products of csr matrices need SciPy: pip install 'hybridc[sparse]'") from error
    return scipy.sparse


def is_scipy(x: Any) -> bool:
    """Whether it is a sparse matrix of SciPy."""
    return type(x).__module__.startswith("scipy.sparse")


def stype_of(value: Any) -> str:
    """The storage type of an array's buffer."""
    return value.stype if isinstance(value, SparseStorage) else "default"


def converted(value: Any, stype: str) -> Any:
    """A buffer in another storage type; between two sparse ones there is no way."""
    have = stype_of(value)
    if have == stype:
        return value
    if stype == "default":
        return value.dense()
    if have != "default":
        raise ValueError(f"cast_storage from {have} to {stype} is not supported")
    return STORAGES[stype].of(value)


def rows_of(buffer: Any, rows: Array) -> Array:
    """Some rows of a buffer, dense or in rows itself."""
    return buffer.take_rows(rows) if isinstance(buffer, RowSparseStorage) else buffer[rows]


def put_rows(buffer: Any, rows: Array, values: Array) -> Any:
    """Write rows of a buffer in place; where a row_sparse one does not store all of them, the result is another."""
    if not isinstance(buffer, RowSparseStorage):
        buffer[rows] = values
        return buffer
    places, stored = buffer.find(rows)
    if not stored.all():
        more = rows[~stored]
        indices = np.concatenate([buffer.indices, more])
        order = np.argsort(indices)
        data = np.concatenate([buffer.data, np.zeros((len(more), *buffer.shape[1:]), buffer.dtype)])[order]
        buffer = RowSparseStorage(buffer.shape, data, indices[order])
        places, _ = buffer.find(rows)
    buffer.data[places] = values
    return buffer


def _ends(counts: Array) -> Array:
    """Where each row ends, from the numbers of values in rows."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(INT64)
