"""Products of sparse and dense matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc.dtypes import HALVES
from hybridc.ground.limits import thread_pool
from hybridc.options import OPTIONS
from hybridc.sparse_storage import CsrStorage, RowSparseStorage, SparseStorage, stype_of

# So many products of two numbers pay for a thread, which takes 0.1 ms to start.
_WORK_OF_A_THREAD = 1 << 18


def product_stype(a: Any, b: Any, transpose_a: bool, transpose_b: bool, wanted: str | None) -> str | None:
    """The storage type of a product of two matrices, as MXNet has it; None if it is computed on dense ones.

    ``wanted`` is what the caller asked for, where there is a choice.
    """
    kinds = stype_of(a), stype_of(b)
    if len(a.shape) == 2 and len(b.shape) == 1 and kinds == ("csr", "default"):
        return "default"
    if len(a.shape) != 2 or len(b.shape) != 2:
        return None
    if kinds[0] == "csr" and not transpose_b and kinds[1] in ("default", "row_sparse"):
        return (wanted or "row_sparse") if transpose_a else "default"
    if kinds == ("default", "csr") and not transpose_a:
        return "default" if transpose_b else wanted or "csr"
    if kinds == ("default", "row_sparse") and not (transpose_a or transpose_b):
        return "default"
    return None


def product(a: Any, b: Any, transpose_a: bool, transpose_b: bool, stype: str) -> Any:
    """The product, in this storage type."""
    dtype = a.dtype
    if dtype in HALVES:
        return product(
            a.astype(np.float32), b.astype(np.float32), transpose_a, transpose_b, stype
        ).astype(dtype)  # fmt: skip
    if isinstance(a, CsrStorage):
        return _rows_of(a, b, stype) if transpose_a else _of_rows(a, b)
    if isinstance(b, RowSparseStorage):
        return np.ascontiguousarray(a[:, b.indices] @ b.data)
    matrix = b.matrix()
    if transpose_b:
        return np.ascontiguousarray((matrix @ a.T).T)
    dense = np.ascontiguousarray((matrix.T @ a.T).T)
    return CsrStorage.of(dense) if stype == "csr" else dense


def _of_rows(a: CsrStorage, b: Any) -> Any:
    """``a @ b``: a row of the result is a sum of rows of b."""
    if not isinstance(b, RowSparseStorage):
        return _by_rows(a, b)
    places, found = b.find(a.indices)
    return a.with_columns(len(b.indices), places, found).matrix() @ b.data


def _by_rows(a: CsrStorage, b: Any) -> Any:
    """The product with a dense matrix, whose rows several threads share, each with about as many values."""
    ends = _parts(a, b, a.shape[0])
    if len(ends) == 2:
        return a.matrix() @ b
    made = np.empty((a.shape[0], *b.shape[1:]), np.result_type(a.dtype, b.dtype))
    whole = a.matrix()

    def multiply(first: int, last: int) -> None:
        made[first:last] = _rows(whole, whole.data, first, last) @ b

    _in_threads(multiply, _equal_shares(whole, ends))
    return made


def _equal_shares(matrix: Any, ends: list[int]) -> list[int]:
    """The ends of as many parts of the rows of a matrix, each with about as many values."""
    inner = np.searchsorted(matrix.indptr, np.linspace(0, len(matrix.data), len(ends))[1:-1])
    return [0, *inner.tolist(), ends[-1]]


def _rows(matrix: Any, data: Any, first: int, last: int) -> Any:
    """Some rows of a SciPy matrix, with other values."""
    begin, end = matrix.indptr[first], matrix.indptr[last]
    places = matrix.indices[begin:end], matrix.indptr[first : last + 1] - begin
    return type(matrix)((data[begin:end], *places), (last - first, matrix.shape[1]), copy=False)


def _transposed_product(a: CsrStorage, b: Any) -> Any:
    """``a.T @ b`` for a dense b: threads share its columns."""
    width = math.prod(b.shape[1:])
    if width < OPTIONS.num_threads:
        return _sum_of_transposes(a, a.data, b)
    ends = _parts(a, b, width)
    turned = a.matrix().T
    if len(ends) == 2:
        return np.ascontiguousarray(turned @ b)
    made = np.empty((a.shape[1], *b.shape[1:]), np.result_type(a.dtype, b.dtype))

    def multiply(first: int, last: int) -> None:
        made[:, first:last] = turned @ np.ascontiguousarray(b[:, first:last])

    _in_threads(multiply, ends)
    return made


def _sum_of_transposes(a: CsrStorage, data: Any, b: Any) -> Any:
    """``a.T @ b`` for a dense b of few columns: threads share the rows, and their products are added.

    ``data`` are the values in the places of a.
    """
    ends = _parts(a, b, a.shape[0])
    whole = a.matrix()
    ends = _equal_shares(whole, ends) if len(ends) > 2 else ends
    products: dict[tuple[int, int], Any] = {}

    def multiply(first: int, last: int) -> None:
        products[first, last] = _rows(whole, data, first, last).T @ b[first:last]

    _in_threads(multiply, ends)
    first, *others = (products[part] for part in sorted(products))  # one order, so that each time has the same sum
    total = np.ascontiguousarray(first)
    for other in others:
        total += other
    return total


def _parts(a: CsrStorage, b: Any, size: int) -> list[int]:
    """Where the parts of a size begin, and the last one ends, that threads share in a product."""
    work = len(a.data) * math.prod(b.shape[1:])
    count = max(min(OPTIONS.num_threads, work // _WORK_OF_A_THREAD, size), 1)
    return np.linspace(0, size, count + 1).astype(int).tolist()


def _in_threads(run: Callable[[int, int], None], ends: list[int]) -> None:
    """Call a function for each part, in threads; SciPy computes without Python's lock."""
    with thread_pool(len(ends) - 2, "sparse product") as threads:
        others = [threads.submit(run, *pair) for pair in itertools.pairwise(ends[1:])]
        run(*ends[:2])
        for other in others:
            other.result()


def _rows_of(a: CsrStorage, b: Any, stype: str) -> Any:
    """``a.T @ b``: only the rows that are columns of a with values are not zero."""
    dense = b.dense() if isinstance(b, SparseStorage) else b
    if stype == "default":
        return _transposed_product(a, dense)
    shape = a.shape[1], b.shape[1]
    if a.shape[1] > len(a.indices):
        columns, places = np.unique(a.indices, return_inverse=True)
        narrow = CsrStorage((a.shape[0], len(columns)), a.data, places, a.indptr)
        return RowSparseStorage(shape, _transposed_product(narrow, dense), columns)
    # The sum of truth values is "or": this says which columns have values, in less time than a scatter of them takes.
    occurs = _sum_of_transposes(a, np.ones(len(a.data), bool), np.ones(a.shape[0], bool))
    columns, product = np.flatnonzero(occurs), _transposed_product(a, dense)
    return RowSparseStorage(shape, product if len(columns) == len(product) else product.take(columns, 0), columns)
