"""Diagonals and triangles of matrices; products and equations with a triangular matrix.

Matrices are the last two axes; the axes before them are a batch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc.dialects.math.contraction import Product
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Composite, Movement, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float
from hybridc.errors import DTypeError, ShapeError

LAPACK_TYPES = (np.dtype("float32"), np.dtype("float64"))


def require_lapack_type(title: str, dtype: Any) -> None:
    """Raise unless BLAS and LAPACK compute in this dtype."""
    if dtype not in LAPACK_TYPES:
        raise DTypeError(f"{title}: inputs must be float32 or float64, got {dtype}; use .astype('float32') on them")


def square_size(title: str, name: str, shape: Shape) -> int:
    """The number of rows of square matrices of this shape."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{title}: {name} must hold square matrices in its last two axes, got shape {shape}")
    return shape[-1]


def lower_mirrored(F: Any, x: Any) -> Any:
    """The symmetric matrix with the lower triangle of ``x``."""
    return F._triangle(x) + F.swapaxes(F._triangle(x, k=-1), -1, -2)


# --- triangles --------------------------------------------------------------------------------------------------------


@register("hybrid._triangle")
class Triangle(Movement):
    """The elements of each matrix on and below its k-th diagonal, or on and above it; 0 elsewhere."""

    k: int = attribute(0, "the diagonal: 0 is the main one, positive above it")
    lower: bool = attribute(True, "keep what is below the diagonal, else what is above it")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if len(shapes[0]) < 2:
            raise ShapeError(f"_triangle: the input must hold matrices in its last two axes, got shape {shapes[0]}")
        return shapes, list(shapes)

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs

        def element(b: Any, *i: Any) -> Any:
            above = i[-1] - i[-2]
            inside = above <= self.k if self.lower else above >= self.k
            return b.select(inside, b.load(x, *i), b.cast(0, x.dtype))

        return m.generate(x.shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([arrays[0].shape])
        return np.tril(arrays[0], self.k) if self.lower else np.triu(arrays[0], self.k)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F._triangle(values[0], k=self.k, lower=self.lower)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4)], np.tril),
            Sample([(2, 3, 3)], lambda x: np.triu(x, 1), k=1, lower=False),
            Sample([(0, 3, 3)], lambda x: x, k=-1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((3,),), {}, "_triangle: the input must hold matrices in its last two axes, got shape (3,)")]


class _Packing(Movement):
    """Base of maketrian and extracttrian: the elements of a lower triangle row by row, of an upper one by columns."""

    offset: Any = 0
    lower: Any = True

    def is_below(self) -> bool:
        """Whether it is a lower triangle."""
        return self.offset < 0 or (self.offset == 0 and self.lower)

    def places(self, n: int) -> tuple[Any, Any]:
        """The rows and columns of the triangle's elements, in order, in an n by n matrix."""
        rows, columns = np.tril_indices(n, -abs(self.offset))
        return (rows, columns) if self.is_below() else (columns, rows)

    def place(self, b: Any, index: Any) -> tuple[Any, Any]:
        """The row and the column of an element, by its number in the triangle."""
        # Row r begins at r (r + 1) / 2. The root is exact where a row begins, and clearly less before.
        root = b.sqrt(b.cast(index * 8 + 1, np.dtype("float64")))
        row = b.cast(b.floor((root - 1.0) * 0.5), np.dtype("int64"))
        column = index - b.quotient(row * (row + 1), 2)
        row = row + abs(self.offset)
        return (row, column) if self.is_below() else (column, row)

    def index(self, b: Any, i: Any, j: Any) -> tuple[Any, Any]:
        """Whether element (i, j) of a matrix is in the triangle, and its number there."""
        row, column = (i, j) if self.is_below() else (j, i)
        row = row - abs(self.offset)
        return column <= row, b.quotient(row * (row + 1), 2) + column


@register("hybrid.linalg_maketrian", "linalg.maketrian", "_linalg_maketrian")
class MakeTrian(_Packing):
    """Square matrices with the elements of the last axis as a triangle; 0 elsewhere.

    The triangle is the lower one, row by row, or, with ``lower=False``, the upper one, column by column. An offset adds
    so many diagonals of zeros: a negative one makes the matrix strictly lower triangular, a positive one upper.
    """

    INPUTS = ("A",)
    offset: int = attribute(0, "the diagonal where the triangle begins: 0 is the main one, positive above it")
    lower: bool = attribute(True, "the lower triangle, else the upper one; of use with offset=0 only")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        count = shape[-1] if shape else 0
        if count == -1:
            return shapes, [(*shape, -1)]
        inner = (math.isqrt(8 * count + 1) - 1) // 2
        if not shape or inner * (inner + 1) // 2 != count:
            raise ShapeError(
                f"linalg_maketrian: the last axis of A must have 1, 3, 6, 10, … elements, those of a triangle, got "
                f"shape {shape}"
            )
        n = inner + abs(self.offset)
        return shapes, [(*shape[:-1], n, n)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        if not math.prod(x.shape):
            return m.full(shape, x.dtype, 0)

        def element(b: Any, *i: Any) -> Any:
            inside, index = self.index(b, i[-2], i[-1])
            return b.select(inside, b.load(x, *i[:-2], b.select(inside, index, 0)), b.cast(0, x.dtype))

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        out = np.zeros(self.infer_shape([x.shape])[1][0], x.dtype)
        out[..., *self.places(out.shape[-1])] = x
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.linalg_extracttrian(values[0], offset=self.offset, lower=self.lower)

    @classmethod
    def samples(cls) -> list[Sample]:
        def placed(rows: Any, columns: Any) -> Any:
            def reference(x: Any) -> Any:
                out = np.zeros((*x.shape[:-1], 3, 3))
                for at, (i, j) in enumerate(zip(rows, columns, strict=True)):
                    out[..., i, j] = x[..., at]
                return out

            return reference

        return [
            Sample([(6,)], placed((0, 1, 1, 2, 2, 2), (0, 0, 1, 0, 1, 2))),
            Sample([(2, 6)], placed((0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)), lower=False),
            Sample([(3,)], placed((0, 0, 1), (1, 2, 2)), offset=1),
            Sample([(2, 3)], placed((1, 2, 2), (0, 0, 1)), offset=-1, lower=False),
            Sample([(0, 3)], placed((1, 2, 2), (0, 0, 1)), offset=-1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_maketrian: the last axis of A must have 1, 3, 6, 10, … elements, those of a triangle, got shape "
        return [(((5,),), {}, text + "(5,)")]


@register("hybrid.linalg_extracttrian", "linalg.extracttrian", "_linalg_extracttrian")
class ExtractTrian(_Packing):
    """The elements of a triangle of each square matrix along the last axis.

    It is the lower triangle, row by row, or, with ``lower=False``, the upper one, column by column; with a negative
    offset what is on and below that diagonal, with a positive one what is on and above it.
    """

    INPUTS = ("A",)
    offset: int = attribute(0, "the diagonal where the triangle begins: 0 is the main one, positive above it")
    lower: bool = attribute(True, "the lower triangle, else the upper one; of use with offset=0 only")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        n = square_size("linalg_extracttrian", "A", shape)
        if n == -1:
            return shapes, [(*shape[:-2], -1)]
        _require_offset("linalg_extracttrian", self.offset, n)
        inner = n - abs(self.offset)
        return shapes, [(*shape[:-2], inner * (inner + 1) // 2)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]

        def element(b: Any, *i: Any) -> Any:
            return b.load(x, *i[:-1], *self.place(b, i[-1]))

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return np.ascontiguousarray(x[..., *self.places(x.shape[-1])])

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.linalg_maketrian(values[0], offset=self.offset, lower=self.lower)

    @classmethod
    def samples(cls) -> list[Sample]:
        def taken(*places: tuple[int, int]) -> Any:
            def reference(x: Any) -> Any:
                return np.stack([x[..., i, j] for i, j in places], -1)

            return reference

        return [
            Sample([(3, 3)], taken((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))),
            Sample([(2, 3, 3)], taken((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)), lower=False),
            Sample([(3, 3)], taken((0, 1), (0, 2), (1, 2)), offset=1),
            Sample([(2, 3, 3)], taken((1, 0), (2, 0), (2, 1)), offset=-1, lower=False),
            Sample([(0, 3, 3)], taken((1, 0), (2, 0), (2, 1)), offset=-1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_extracttrian: A must hold square matrices in its last two axes, got shape (2, 3)"
        wide = "linalg_extracttrian: offset=3 is outside a matrix of 3 rows; it must be from -2 to 2"
        return [(((2, 3),), {}, text), (((3, 3),), {"offset": 3}, wide)]


def _require_offset(title: str, offset: int, n: int) -> None:
    if abs(offset) >= n:
        raise ShapeError(
            f"{title}: offset={offset} is outside a matrix of {n} rows; it must be from {1 - n} to {n - 1}"
        )


# --- diagonals --------------------------------------------------------------------------------------------------------


@register("hybrid.linalg_makediag", "linalg.makediag", "_linalg_makediag")
class MakeDiag(Composite):
    """Square matrices with the elements of the last axis on a diagonal; 0 elsewhere."""

    INPUTS = ("A",)
    offset: int = attribute(0, "the diagonal: 0 is the main one, positive above it")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if not shape:
            raise ShapeError("linalg_makediag: A must have an axis, got shape ()")
        n = -1 if shape[-1] == -1 else shape[-1] + abs(self.offset)
        return shapes, [(*shape[:-1], n, n)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.diag_scatter(x, shape=self.infer_shape([x.shape])[1][0], k=self.offset, axis1=-2, axis2=-1)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3,)], lambda x: np.eye(3) * x),
            Sample([(2, 2)], lambda x: np.stack([np.diag(x[0], 1), np.diag(x[1], 1)]), offset=1),
            Sample([(2,)], lambda x: np.diag(x, -2), offset=-2),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((),), {}, "linalg_makediag: A must have an axis, got shape ()")]


@register("hybrid.linalg_extractdiag", "linalg.extractdiag", "_linalg_extractdiag")
class ExtractDiag(Composite):
    """A diagonal of each square matrix, along the last axis."""

    INPUTS = ("A",)
    offset: int = attribute(0, "the diagonal: 0 is the main one, positive above it")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        n = square_size("linalg_extractdiag", "A", shape)
        if n != -1:
            _require_offset("linalg_extractdiag", self.offset, n)
        return shapes, [(*shape[:-2], -1 if n == -1 else n - abs(self.offset))]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        self.infer_shape([inputs[0].shape])
        return F.diag(*inputs, k=self.offset, axis1=-2, axis2=-1)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 3)], lambda x: x[range(3), range(3)]),
            Sample([(2, 3, 3)], lambda x: x[:, [0, 1], [1, 2]], offset=1),
            Sample([(3, 3)], lambda x: x[2, :1], offset=-2),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_extractdiag: A must hold square matrices in its last two axes, got shape (2, 3)"
        wide = "linalg_extractdiag: offset=-3 is outside a matrix of 3 rows; it must be from -2 to 2"
        return [(((2, 3),), {}, text), (((3, 3),), {"offset": -3}, wide)]


@register("hybrid.linalg_sumlogdiag", "linalg.sumlogdiag", "_linalg_sumlogdiag")
class SumLogDiag(Composite):
    """The sum of the logarithms of each square matrix's diagonal: half the log-determinant of L Lᵀ, given L."""

    INPUTS = ("A",)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        square_size("linalg_sumlogdiag", "A", shape)
        return shapes, [shape[:-2] or (1,)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"linalg_sumlogdiag: A must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, dtypes

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        self.infer_shape([x.shape])
        self.infer_type([np.dtype(x.dtype)])
        return F.sum(F.log(F.diag(x, axis1=-2, axis2=-1)), axis=-1)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 3)], lambda x: np.log([x[0, 0] * x[1, 1] * x[2, 2]]), low=0.5),
            Sample([(2, 2, 2)], lambda x: np.log(x[:, 0, 0] * x[:, 1, 1]), low=0.5),
            Sample([(2, 0, 0)], lambda _: np.zeros(2)),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_sumlogdiag: A must hold square matrices in its last two axes, got shape (2, 3)"
        return [(((2, 3),), {}, text)]


# --- products and equations -------------------------------------------------------------------------------------------


class _Triangular(Product):
    """Base of trmm and trsm: the triangular matrix A on one side of B."""

    INPUTS = ("A", "B")
    transpose: Any = False
    rightside: Any = False
    lower: Any = True
    alpha: Any = 1.0

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        a, b = shapes
        n = square_size(self.title(), "A", a)
        if len(a) != len(b) or a[:-2] != b[:-2]:
            raise ShapeError(
                f"{self.title()}: A {a} and B {b} must have equally many axes, and equal sizes in all but the last two"
            )
        rows = b[-1] if self.rightside else b[-2]
        if rows != n:
            raise ShapeError(
                f"{self.title()}: B {b} must have {n} {'columns' if self.rightside else 'rows'}, as A {a} has, "
                f"with rightside={self.rightside}"
            )
        return shapes, [b]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        name = cls.title()
        return [
            (((2, 3), (3, 3)), {}, f"{name}: A must hold square matrices in its last two axes, got shape (2, 3)"),
            (
                ((3, 3), (2, 3)),
                {},
                f"{name}: B (2, 3) must have 3 rows, as A (3, 3) has, with rightside=False",
            ),
            (
                ((3, 3), (2, 3, 3)),
                {},
                f"{name}: A (3, 3) and B (2, 3, 3) must have equally many axes, and equal sizes in all but the last "
                "two",
            ),
        ]


@register("hybrid.linalg_trmm", "linalg.trmm", "_linalg_trmm")
class Trmm(_Triangular, Composite):
    """alpha * op(A) @ B, or alpha * B @ op(A) with ``rightside``, where A is triangular and op transposes or not

    The other triangle of A is not read.
    """

    transpose: bool = attribute(False, "whether A comes transposed")
    rightside: bool = attribute(False, "whether A is on the right of B")
    lower: bool = attribute(True, "whether A is lower triangular, else upper")
    alpha: float = attribute(1.0, "factor of the product")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        a, b = inputs
        self.infer_shape([a.shape, b.shape])
        a = F._triangle(a, lower=self.lower)
        y = F.matmul(b, a, False, self.transpose) if self.rightside else F.matmul(a, b, self.transpose, False)
        return y if self.alpha == 1 else y * self.alpha

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 3), (3, 2)], lambda a, b: np.tril(a) @ b),
            Sample([(2, 3, 3), (2, 3, 2)], lambda a, b: 2 * np.tril(a).swapaxes(1, 2) @ b, transpose=True, alpha=2),
            Sample([(3, 3), (2, 3)], lambda a, b: b @ np.triu(a), rightside=True, lower=False),
            Sample([(3, 3), (2, 3)], lambda a, b: b @ np.triu(a).T, rightside=True, lower=False, transpose=True),
        ]


@register("hybrid.linalg_trsm", "linalg.trsm", "_linalg_trsm")
class Trsm(_Triangular, Opaque):
    """The solution X of op(A) @ X = alpha * B, or of X @ op(A) = alpha * B with ``rightside``, by BLAS

    A is triangular, its other triangle is not read; op transposes or not. A zero on the diagonal gives inf or nan.
    """

    transpose: bool = attribute(False, "whether A comes transposed")
    rightside: bool = attribute(False, "whether A is on the right of X")
    lower: bool = attribute(True, "whether A is lower triangular, else upper")
    alpha: float = attribute(1.0, "factor of B")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        require_lapack_type(self.title(), dtypes[0])
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        a, b = arrays
        self.infer_shape([a.shape, b.shape])
        self.infer_type([a.dtype, b.dtype])
        # X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ, and an upper triangular matrix is a lower one, backwards.
        a, lower = (a.swapaxes(-1, -2), not self.lower) if self.transpose != self.rightside else (a, self.lower)
        b = self.alpha * (b.swapaxes(-1, -2) if self.rightside else b)
        with np.errstate(all="ignore"):
            x = _solve_lower(a, b) if lower else _solve_lower(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]
        return np.ascontiguousarray(x.swapaxes(-1, -2) if self.rightside else x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, _, x = values
        flags = {"rightside": self.rightside, "lower": self.lower}
        db = F.linalg_trsm(a, dy, transpose=not self.transpose, **flags)

        def da() -> Any:
            # d op(A) = -dB Xᵀ, or -Xᵀ dB on the right side
            left, right = (x, db) if self.rightside else (db, x)
            if self.transpose:
                left, right = right, left
            grad = F.matmul(left, right, self.rightside, not self.rightside)
            return F._triangle(grad * -1, lower=self.lower)

        return da, lambda: db if self.alpha == 1 else db * self.alpha

    @classmethod
    def samples(cls) -> list[Sample]:
        rng = np.random.default_rng(5)
        # A dominant diagonal: the solutions stay small.
        a = rng.uniform(-1, 1, (3, 3)) + 3 * np.eye(3)
        batch = rng.uniform(-1, 1, (2, 3, 3)) - 3 * np.eye(3)
        solve: Any = np.linalg.solve
        return [
            Sample([a, (3, 2)], lambda a, b: solve(np.tril(a), b)),
            Sample([batch, (2, 3, 2)], lambda a, b: solve(np.tril(a).swapaxes(1, 2), 2 * b), transpose=True, alpha=2),
            Sample([a, (2, 3)], lambda a, b: solve(np.triu(a).T, b.T).T, rightside=True, lower=False),
            Sample([batch, (2, 1, 3)],
                   lambda a, b: solve(np.tril(a), b.swapaxes(1, 2)).swapaxes(1, 2), rightside=True, transpose=True),
            Sample([a, (3, 2)], lambda a, b: solve(np.triu(a), b), lower=False),
            Sample([(2, 0, 0), (2, 0, 3)], lambda _, b: b),
        ]  # fmt: skip


def _solve_lower(a: Any, b: Any) -> Any:
    """X of A X = B for batches of lower triangular matrices: by substitution, and halves by matmuls."""
    n = a.shape[-1]
    if n > 16:
        half = n // 2
        first = _solve_lower(a[..., :half, :half], b[..., :half, :])
        rest = b[..., half:, :] - a[..., half:, :half] @ first
        return np.concatenate([first, _solve_lower(a[..., half:, half:], rest)], axis=-2)
    x = np.array(b)
    for i in range(n):
        x[..., i, :] -= (a[..., i : i + 1, :i] @ x[..., :i, :])[..., 0, :]
        x[..., i, :] /= a[..., i, i, None]
    return x
