"""Systems of linear equations, by LAPACK: host calls. ``mx.np.linalg`` uses them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects.linalg.linalg_spectra import matrix_size
from hybridc.dialects.linalg.linalg_triangles import require_lapack_type, square_size
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError, ShapeError

# NumPy's types know no result of these.
_INVERSE: Any = np.linalg.inv
_SOLVE: Any = np.linalg.solve
_PINV: Any = np.linalg.pinv
_LSTSQ: Any = np.linalg.lstsq


class _Equations(Opaque):
    """An operator on the matrices of equations."""

    INPUTS = ("A", "B")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        require_lapack_type(self.title(), dtypes[0])
        return dtypes, [dtypes[0]] * self.num_outputs()

    def check_arrays(self, arrays: tuple[Any, ...]) -> None:
        """Raise unless shapes and dtypes are right."""
        self.infer_shape([a.shape for a in arrays])
        self.infer_type([a.dtype for a in arrays])


@register("hybrid._solve")
class Solve(_Equations):
    """The solution X of A X = B, for each square matrix A and matrix B."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        a, b = shapes
        n = square_size("_solve", "A", a)
        if len(a) != len(b) or a[:-2] != b[:-2] or b[-2] != n:
            raise ShapeError(f"_solve: B must have {n} rows, and a matrix for each of A {a}, got shape {b}")
        return shapes, [b]

    def eager(self, *arrays: Any) -> Any:
        self.check_arrays(arrays)
        try:
            return _SOLVE(*arrays)
        except np.linalg.LinAlgError:
            raise MXNetError("_solve: A is singular, so the equation has no solution, or many; use lstsq") from None

    def gradient(self, F: Any, *values: Any) -> Any:
        dx, a, _, x = values
        db = F._solve(F.swapaxes(a, -1, -2), dx)
        return lambda: F.matmul(db, x, False, True) * -1, db

    @classmethod
    def samples(cls) -> list[Sample]:
        def by_cramer(a: Any, b: Any) -> Any:
            (p, q), (r, s) = a[..., 0, :, None].swapaxes(0, -2)[..., 0], a[..., 1, :, None].swapaxes(0, -2)[..., 0]
            return np.stack([s * b[0] - q * b[1], p * b[1] - r * b[0]]) / (p * s - q * r)

        rng = np.random.default_rng(8)
        many = rng.uniform(-1, 1, (2, 3, 3)) + 3 * np.eye(3)
        return [
            Sample([rng.uniform(-1, 1, (2, 2)) + 2 * np.eye(2), (2, 3)], by_cramer),
            Sample([many, (2, 3, 1)], lambda a, b: _INVERSE(a) @ b),
            Sample([(2, 0, 0), (2, 0, 3)], lambda _, b: b),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        singular = "_solve: A is singular, so the equation has no solution, or many; use lstsq"
        rows = "_solve: B must have 2 rows, and a matrix for each of A (2, 2), got shape (3, 1)"
        return [
            ((np.ones((2, 2)), np.ones((2, 1))), {}, singular),
            (((2, 2), (3, 1)), {}, rows),
            (((2, 3), (2, 1)), {}, "_solve: A must hold square matrices in its last two axes, got shape (2, 3)"),
        ]


def pseudo_inverse_gradient(F: Any, g: Any, a: Any, p: Any) -> Any:
    """The gradient of A, of constant rank, from that of its pseudo-inverse P (Golub and Pereyra, 1973)."""
    # dP = -P dA P + P Pᵀ dAᵀ (1 - A P) + (1 - P A) dAᵀ Pᵀ P
    first = F.matmul(F.matmul(p, g, True, False), p, False, True)
    outer = F.matmul(F.matmul(g, p, True, False), p, False, True)  # Gᵀ P Pᵀ
    inner = F.matmul(F.matmul(p, p, True, False), g, False, True)  # Pᵀ P Gᵀ
    second = outer - F.matmul(a, F.matmul(p, outer))
    third = inner - F.matmul(F.matmul(inner, p), a)
    return second + third - first


@register("hybrid._pinv")
class Pinv(_Equations):
    """The pseudo-inverse of each matrix; singular values that are at most ``rcond`` times the largest count as 0."""

    INPUTS = ("A",)
    rcond: float = attribute(1e-15, "the share of the largest singular value up to which others count as 0")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        m, n = matrix_size("_pinv", "A", shape)
        return shapes, [(*shape[:-2], n, m)]

    def eager(self, *arrays: Any) -> Any:
        self.check_arrays(arrays)
        return np.ascontiguousarray(_PINV(arrays[0], self.rcond))

    def gradient(self, F: Any, *values: Any) -> Any:
        return pseudo_inverse_gradient(F, *values)

    @classmethod
    def samples(cls) -> list[Sample]:
        rng = np.random.default_rng(9)
        square = rng.uniform(-1, 1, (3, 3)) + 2 * np.eye(3)
        return [
            Sample([square], _INVERSE),
            Sample([rng.uniform(-1, 1, (2, 4, 2))], lambda a: _INVERSE(a.swapaxes(1, 2) @ a) @ a.swapaxes(1, 2)),
            Sample([rng.uniform(-1, 1, (2, 4))], lambda a: a.T @ _INVERSE(a @ a.T)),
            Sample([np.diag([2.0, 0.0])], lambda _: np.diag([0.5, 0.0]), grad=False),
            Sample([(2, 0, 3)], lambda a: a.swapaxes(1, 2)),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((3,),), {}, "_pinv: A must hold matrices in its last two axes, got shape (3,)")]


@register("hybrid._lstsq")
class Lstsq(_Equations):
    """The X of least norm for which that of A X - B is least, of two matrices; with what LAPACK says of A

    The other results are the squared norms of the columns of A X - B, if A has more rows than columns and full rank
    (else nan, or nothing), the rank of A, and its singular values. Only X has a gradient; the rank must be constant.
    """

    SAME_DTYPE = True

    rcond: float = attribute(-1.0, "the share of the largest singular value up to which others count as 0; or -1")

    def num_outputs(self) -> int:
        return 4

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        a, b = shapes
        if len(a) != 2 or len(b) != 2 or a[0] != b[0]:
            raise ShapeError(f"_lstsq: A and B must be matrices with equally many rows, got shapes {a} and {b}")
        (m, n), k = a, b[1]
        return shapes, [(n, k), (k if m > n else 0,), (), (min(m, n),)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        dtypes, results = super().infer_type(dtypes)
        return dtypes, [*results[:2], np.dtype(np.int32), results[3]]

    def eager(self, *arrays: Any) -> Any:
        self.check_arrays(arrays)
        a, b = arrays
        shape = self.infer_shape([a.shape, b.shape])[1][1]
        x, residuals, rank, low = _LSTSQ(a, b, None if self.rcond < 0 else self.rcond)
        if residuals.shape != shape:
            residuals = np.full(shape, np.nan, a.dtype)
        return x.astype(a.dtype), residuals.astype(a.dtype), np.asarray(rank, np.int32), low.astype(a.dtype)

    def gradient(self, F: Any, *values: Any) -> Any:
        dx, a, b = values[0], values[4], values[5]
        p = F._pinv(a, rcond=max(self.rcond, float(np.finfo(a.dtype).eps) * max(a.shape)))
        return (
            lambda: pseudo_inverse_gradient(F, F.matmul(dx, b, False, True), a, p),
            lambda: F.matmul(p, dx, True, False),
        )

    @classmethod
    def samples(cls) -> list[Sample]:
        def by_normal_equations(a: Any, b: Any) -> Any:
            x = _INVERSE(a.T @ a) @ a.T @ b
            low = np.sqrt(np.linalg.eigvalsh(a.T @ a)[::-1])
            return x, ((a @ x - b) ** 2).sum(0), np.asarray(a.shape[1]), low

        tall = np.random.default_rng(10).uniform(-1, 1, (5, 2))
        return [Sample([tall, (5, 3)], by_normal_equations, grad=False)]  # its gradient: tests/np/test_np_linalg.py

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "_lstsq: A and B must be matrices with equally many rows, got shapes (3, 2) and (2, 2)"
        return [(((3, 2), (2, 2)), {}, text)]
