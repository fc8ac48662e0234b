"""A matmul as a library of a GPU computes it, as data."""

from __future__ import annotations

from typing import NamedTuple

from hybridc.dialects.operator_attribute import DType


class Matrix(NamedTuple):
    """A matrix column by column: whether it is to be transposed, and how far its columns, and batches, are apart."""

    transposed: bool
    apart: int
    batch: int


class LibraryMatmul(NamedTuple):
    """``c = a b`` for each of ``batches``, as a BLAS takes it: c has ``m`` rows and ``n`` columns, a has ``k`` columns.

    ``matrices`` and ``buffers`` are of a, b and c, which elements have the first and the second of ``dtypes``: of a and
    b, and of c. With ``tf32`` single precision may be rounded as tensor cores want it.
    """

    m: int
    n: int
    k: int
    batches: int
    matrices: tuple[Matrix, Matrix, Matrix]
    buffers: tuple[int, int, int]
    dtypes: tuple[DType, DType]
    tf32: bool
