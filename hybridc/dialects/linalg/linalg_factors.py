"""Factorizations, inverses and determinants of matrices, by LAPACK: host calls.

Matrices are the last two axes; the axes before them are a batch. Gradients are products and triangular equations, so
all of it can be differentiated again. The formulas are those of Seeger, Hetzel, Dai, Meissner and Lawrence,
"Auto-Differentiating Linear Algebra" (2017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc.dialects.linalg.linalg_triangles import lower_mirrored, require_lapack_type, square_size
from hybridc.dialects.operator import Bad, Opaque, Sample, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError, ShapeError

# NumPy's types know no result of these.
_INVERSE: Any = np.linalg.inv
_CHOLESKY: Any = np.linalg.cholesky
_SOLVE: Any = np.linalg.solve


class _OfMatrices(Opaque):
    """An operator on square matrices; the results are matrices like these."""

    INPUTS = ("A",)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        square_size(self.title(), "A", shapes[0])
        return shapes, list(shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_lapack_type(self.title(), dtypes[0])
        return dtypes, [dtypes[0]] * self.num_outputs()

    def checked(self, arrays: tuple[Any, ...]) -> Any:
        """The input, if shape and dtype are right."""
        (a,) = arrays
        self.infer_shape([a.shape])
        self.infer_type([a.dtype])
        return a

    def factored(self, factor: Callable[[Any], Any], a: Any, refused: str) -> Any:
        """``factor(a)``; if LAPACK refuses a matrix, an error that says which one."""
        try:
            return factor(a)
        except np.linalg.LinAlgError:
            for i in np.ndindex(*a.shape[:-2]):
                self._require(factor, a[i], f"A[{', '.join(map(str, i))}]" if i else "A", refused)
            raise MXNetError(f"{self.title()}: LAPACK refuses A; {refused}") from None

    def _require(self, factor: Callable[[Any], Any], a: Any, name: str, refused: str) -> None:
        try:
            factor(a)
        except np.linalg.LinAlgError:
            raise MXNetError(f"{self.title()}: {name} {refused}") from None

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = f"{cls.title()}: A must hold square matrices in its last two axes, got shape (2, 3)"
        types = f"{cls.title()}: inputs must be float32 or float64, got int32; use .astype('float32') on them"
        return [(((2, 3),), {}, text), ((np.ones((2, 2), np.int32),), {}, types)]


def _matrices(*shape: int) -> Any:
    """Fixed matrices that are far from singular."""
    return np.random.default_rng(4).uniform(-1, 1, shape) + 2 * np.eye(shape[-1])


def _positive(*shape: int) -> Any:
    """Fixed symmetric positive definite matrices."""
    a = _matrices(*shape)
    return a @ a.swapaxes(-1, -2)


@register("hybrid.linalg_potrf", "linalg.potrf", "_linalg_potrf")
class Potrf(_OfMatrices):
    """The Cholesky factor of each symmetric positive definite matrix: the lower triangular L with A = L Lᵀ

    Only the lower triangle of A is read; the gradient is that of a symmetric matrix.
    """

    NNVM_ONLY = ("lower=True",)

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        return self.factored(_cholesky, a, "is not positive definite, so it has no Cholesky factor")

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        middle = lower_mirrored(F, F.matmul(y, dy, True, False))
        left = F.linalg_trsm(y, middle, transpose=True)
        return F.linalg_trsm(y, left, rightside=True, alpha=0.5)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [  # their gradient: tests/ops/test_linalg.py, as differences know of no symmetry
            Sample([_positive(3, 3)], _cholesky_by_rows, grad=False),
            Sample([_positive(2, 2, 3, 3)], _cholesky_by_rows, grad=False),
            Sample([(2, 0, 0)], lambda a: a, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_potrf: A[1] is not positive definite, so it has no Cholesky factor"
        return [*super().bad_samples(), ((np.stack([np.eye(2), -np.eye(2)]),), {}, text)]


def _cholesky(a: Any) -> Any:
    """NumPy's; what is not a number has factors that are none."""
    unknown: Any = np.isnan(np.sum(np.tril(a), axis=(-2, -1)))
    if not np.any(unknown):
        return _CHOLESKY(a)
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    factors = _CHOLESKY(np.where(unknown[..., None, None], eye, a))
    factors[unknown] = np.tril(np.full_like(eye, np.nan))
    return factors


def _cholesky_by_rows(a: Any) -> Any:
    """The definition: a reference of the samples."""
    low = np.zeros_like(a)
    for i in range(a.shape[-1]):
        for j in range(i + 1):
            rest = a[..., i, j] - (low[..., i, :j] * low[..., j, :j]).sum(-1)
            low[..., i, j] = np.sqrt(rest) if i == j else rest / low[..., j, j]
    return low


@register("hybrid.linalg_potri", "linalg.potri", "_linalg_potri")
class Potri(_OfMatrices):
    """The inverse of L Lᵀ, given its Cholesky factor, the lower triangular L

    The upper triangle of L is not read.
    """

    NNVM_ONLY = ("lower=True",)

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        if np.any(np.einsum("...ii->...i", a) == 0):
            raise MXNetError("linalg_potri: A has a zero on its diagonal, so it is no factor of linalg_potrf")
        inverse = _INVERSE(np.tril(a))
        return inverse.swapaxes(-1, -2) @ inverse

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, y = values
        both = F.matmul(y, dy + F.swapaxes(dy, -1, -2))
        return F._triangle(F.linalg_trsm(a, both, rightside=True, transpose=True, alpha=-1))

    @classmethod
    def samples(cls) -> list[Sample]:
        def inverse(a: Any) -> Any:
            return _INVERSE(np.tril(a) @ np.tril(a).swapaxes(-1, -2))

        return [Sample([_matrices(3, 3)], inverse), Sample([_matrices(2, 2, 3, 3)], inverse)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_potri: A has a zero on its diagonal, so it is no factor of linalg_potrf"
        return [*super().bad_samples(), ((np.ones((2, 2)) - np.eye(2),), {}, text)]


@register("hybrid.linalg_gelqf", "linalg.gelqf", "_linalg_gelqf")
class Gelqf(_OfMatrices):
    """The LQ factorization of each matrix with at least as many columns as rows: Q and L, where A = L Q

    The rows of Q are orthonormal, L is lower triangular. A must have full rank to be differentiated.
    """

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) < 2 or shape[-2] > shape[-1] != -1:
            raise ShapeError(
                f"linalg_gelqf: A must hold matrices with at least as many columns as rows in its last two axes, got "
                f"shape {shape}"
            )
        return shapes, [shape, (*shape[:-1], shape[-2])]

    def eager(self, *arrays: Any) -> Any:
        q, r = np.linalg.qr(self.checked(arrays).swapaxes(-1, -2))
        return np.ascontiguousarray(q.swapaxes(-1, -2)), np.ascontiguousarray(r.swapaxes(-1, -2))

    def gradient(self, F: Any, *values: Any) -> Any:
        dq, dl, _, q, low = values
        middle = F.matmul(low, dl, True, False) - F.matmul(dq, q, False, True)
        return F.linalg_trsm(low, dq + F.matmul(lower_mirrored(F, middle), q), transpose=True)

    @classmethod
    def samples(cls) -> list[Sample]:
        def by_rows(a: Any) -> Any:
            """Gram and Schmidt's way, with LAPACK's signs."""
            q, low = np.zeros_like(a), np.zeros((*a.shape[:-1], a.shape[-2]))
            for i in range(a.shape[-2]):
                low[..., i, :i] = (q[..., :i, :] * a[..., i : i + 1, :]).sum(-1)
                rest = a[..., i, :] - (low[..., i, :i, None] * q[..., :i, :]).sum(-2)
                # A reflection turns the row away from its first element that is left.
                low[..., i, i] = np.sqrt((rest**2).sum(-1))
                q[..., i, :] = rest / low[..., i, i, None]
            signs = _signs(a)
            return q * signs[..., None], low * signs[..., None, :]

        def _signs(a: Any) -> Any:
            flat = a.reshape(-1, *a.shape[-2:])
            found = [np.sign(np.diag(np.linalg.qr(m.T, "r"))) for m in flat]
            return np.reshape(found, a.shape[:-1])

        return [Sample([_matrices(3, 3)[:2]], by_rows), Sample([_matrices(2, 3, 3)], by_rows)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_gelqf: A must hold matrices with at least as many columns as rows in its last two axes, got "
        return [(((3, 2),), {}, text + "shape (3, 2)"), super().bad_samples()[1]]


@register("hybrid.linalg_syevd", "linalg.syevd", "_linalg_syevd")
class Syevd(_OfMatrices):
    """The eigenvectors of each symmetric matrix, as the rows of U, and its eigenvalues, in ascending order

    U A = diag(L) U. The largest component of an eigenvector is positive. Only the lower triangle of A is read; the
    gradient is that of a symmetric matrix with distinct eigenvalues.
    """

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        square_size("linalg_syevd", "A", shapes[0])
        return shapes, [shapes[0], shapes[0][:-1]]

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        values, vectors = self.factored(_eigenpairs, a, "has no eigenvalues: it holds nan or infinity")
        rows = vectors.swapaxes(-1, -2)
        if rows.size:
            largest = np.argmax(np.abs(rows), -1)[..., None]
            rows = rows * np.where(np.take_along_axis(rows, largest, -1) < 0, -1, 1).astype(rows.dtype)
        return np.ascontiguousarray(rows), values

    def gradient(self, F: Any, *values: Any) -> Any:
        du, dl, a, u, eigenvalues = values
        n = a.shape[-1]
        column, row = (F.expand_dims(eigenvalues, axis=axis) for axis in (-1, -2))
        gap = F.broadcast_sub(column, row)
        # COMPAT(mxnet): vectors of equal eigenvalues have no derivative; it is 0 here, and about 1e100 there.
        equal = gap == 0
        slopes = F.matmul(du, u, False, True) * ((1 - equal) / (gap + equal))
        middle = slopes + F.linalg_makediag(dl)
        middle = (middle + F.swapaxes(middle, -1, -2)) * 0.5 if n else middle
        return F.matmul(u, F.matmul(middle, u), True, False)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(a: Any) -> Any:
            found: Any = np.linalg.eig(a)  # of a general matrix: another routine
            values, vectors = (part.real for part in found)
            order = np.argsort(values)
            rows = vectors[:, order].T
            largest = rows[np.arange(len(rows)), np.argmax(np.abs(rows), 1)]
            return rows * np.sign(largest)[:, None], values[order]

        def of_both(a: Any) -> Any:
            pairs = [reference(one) for one in a]
            return np.stack([u for u, _ in pairs]), np.stack([w for _, w in pairs])

        return [  # their gradient: tests/ops/test_linalg.py
            Sample([_positive(3, 3)], reference, grad=False),
            Sample([_positive(2, 3, 3)], of_both, grad=False),
            Sample([(0, 2, 2)], lambda a: (a, a[..., 0]), grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_syevd: A has no eigenvalues: it holds nan or infinity"
        return [*super().bad_samples(), ((np.full((2, 2), np.nan),), {}, text)]


def _eigenpairs(a: Any) -> Any:
    """NumPy's, for which LAPACK does not say whether it failed on what is not finite."""
    if not np.all(np.isfinite(np.tril(a))):
        raise np.linalg.LinAlgError
    return np.linalg.eigh(a)


class _Inverse(_OfMatrices):
    """An inverse, and the gradient of one."""

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return F.matmul(F.matmul(y, dy, True, False), y, False, True) * -1


@register("hybrid.linalg_inverse", "linalg.inverse", "_linalg_inverse")
class Inverse(_Inverse):
    """The inverse of each square matrix"""

    def eager(self, *arrays: Any) -> Any:
        return self.factored(_INVERSE, self.checked(arrays), "is singular, so it has no inverse")

    @classmethod
    def samples(cls) -> list[Sample]:
        def by_adjugate(a: Any) -> Any:
            (p, q), (r, s) = a[..., 0, :].T, a[..., 1, :].T
            return (np.array([[s, -q], [-r, p]]) / (p * s - q * r)).T.swapaxes(-1, -2)

        return [
            Sample([_matrices(2, 2)], by_adjugate),
            Sample([_matrices(4, 2, 2)], by_adjugate),
            Sample([_matrices(3, 3)], lambda a: _SOLVE(a, np.eye(3))),
            Sample([(2, 0, 0)], lambda a: a),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_inverse: A[0, 1] is singular, so it has no inverse"
        return [*super().bad_samples(), ((np.stack([[np.eye(2), np.ones((2, 2))]]),), {}, text)]


@register("hybrid._inverse_or_zero")
class InverseOrZero(_Inverse):
    """The inverse of each square matrix, and 0 for what is singular: the gradient of determinants"""

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        singular: Any = np.linalg.slogdet(a)[0] == 0
        inverse = _INVERSE(np.where(singular[..., None, None], np.eye(a.shape[-1], dtype=a.dtype), a))
        inverse[singular] = 0
        return inverse

    @classmethod
    def samples(cls) -> list[Sample]:
        singular = np.stack([np.eye(2) * 2, np.ones((2, 2))])
        return [
            Sample([_matrices(3, 3)], lambda a: _SOLVE(a, np.eye(3))),
            Sample([singular], lambda _: np.stack([np.eye(2) / 2, np.zeros((2, 2))]), grad=False),
        ]


class _Determinant(_OfMatrices):
    """A number for each matrix."""

    OUTPUTS = ("output0", "output1")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        square_size(self.title(), "A", shape)
        return shapes, [shape[:-2] or (1,)] * self.num_outputs()

    def nnvm_outputs(self) -> int:
        """The LU factorization and its pivots are hidden outputs there."""
        return self.num_outputs() + 2

    def spread(self, F: Any, x: Any, a: Any) -> Any:
        """A number for each matrix, to broadcast to the matrices."""
        return F.reshape_to(x, shape=(*a.shape[:-2], 1, 1))


@register("hybrid.linalg_det", "linalg.det", "_linalg_det")
class Det(_Determinant):
    """The determinant of each square matrix; the gradient of a singular one is 0"""

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        # NumPy multiplies by the logarithms of the pivots, which needs more digits than the result has.
        found = np.linalg.det(a.astype(np.float64, copy=False))
        return np.asarray(found).astype(a.dtype).reshape(self.infer_shape([a.shape])[1][0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, y = values
        return F.swapaxes(F._inverse_or_zero(a), -1, -2) * self.spread(F, dy * y, a)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([_matrices(2, 2)], lambda a: np.array([a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]])),
            Sample([_matrices(2, 3, 3)], lambda a: (np.cross(a[:, 0], a[:, 1]) * a[:, 2]).sum(1)),
            Sample([np.ones((2, 2))], lambda _: np.zeros(1), grad=False),
            Sample([(2, 0, 0)], lambda _: np.ones(2)),
        ]


@register("hybrid.linalg_slogdet", "linalg.slogdet", "_linalg_slogdet")
class SLogDet(_Determinant):
    """The sign of each square matrix's determinant, and the logarithm of its absolute value

    They are 0 and -inf for a singular matrix, whose gradient is 0. The sign has no gradient.
    """

    def num_outputs(self) -> int:
        return 2

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        shape = self.infer_shape([a.shape])[1][0]
        sign, logarithm = np.linalg.slogdet(a)
        return np.reshape(sign, shape), np.reshape(logarithm, shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        _, dy, a, _, _ = values
        return F.swapaxes(F._inverse_or_zero(a), -1, -2) * self.spread(F, dy, a)

    @classmethod
    def samples(cls) -> list[Sample]:
        def by_product(a: Any) -> Any:
            found = (np.cross(a[:, 0], a[:, 1]) * a[:, 2]).sum(1)
            return np.sign(found), np.log(np.abs(found))

        return [
            Sample([_matrices(2, 3, 3) * np.array([1.0, -1.0])[:, None, None]], by_product),
            Sample([np.ones((2, 2))], lambda _: (np.zeros(1), np.full(1, -np.inf)), grad=False),
        ]
