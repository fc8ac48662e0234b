"""Singular values and eigenvalues of general matrices, by LAPACK: host calls. ``mx.np.linalg`` uses them.

The formulas of the gradients are those of Townsend, "Differentiating the singular value decomposition" (2016), and of
Giles, "An extended collection of matrix derivative results" (2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects.linalg.linalg_triangles import require_lapack_type, square_size
from hybridc.dialects.operator import Bad, Opaque, Sample, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError, ShapeError


def matrix_size(title: str, name: str, shape: Shape) -> tuple[int, int]:
    """The rows and columns of matrices of this shape."""
    if len(shape) < 2:
        raise ShapeError(f"{title}: {name} must hold matrices in its last two axes, got shape {shape}")
    return shape[-2], shape[-1]


class _Spectrum(Opaque):
    """An operator on matrices that LAPACK factors."""

    INPUTS = ("A",)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_lapack_type(self.title(), dtypes[0])
        return dtypes, [dtypes[0]] * self.num_outputs()

    def checked(self, arrays: tuple[Any, ...]) -> Any:
        """The input, if shape and dtype are right and LAPACK can factor it."""
        (a,) = arrays
        self.infer_shape([a.shape])
        self.infer_type([a.dtype])
        if not np.all(np.isfinite(a)):
            raise MXNetError(f"{self.title()}: A holds nan or infinity, and has no factors")
        return a


def apart(F: Any, values: Any) -> Any:
    """1 / (values[j] - values[i]) at row i and column j; 0 where they are equal, as vectors of these have no slope."""
    gap = F.broadcast_sub(F.expand_dims(values, axis=-2), F.expand_dims(values, axis=-1))
    equal = gap == 0
    return (1 - equal) / (gap + equal)


@register("hybrid._svd")
class Svd(_Spectrum):
    """The singular value decomposition of each matrix: U, L and V, where A = U diag(L) V

    The columns of U and the rows of V are orthonormal; L is in descending order. With k, the lesser of the rows and
    columns of A, there are k of each. Vectors of equal singular values, or of 0, have no derivative; it is 0 here.
    """

    def num_outputs(self) -> int:
        return 3

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        m, n = matrix_size("_svd", "A", shape)
        k = min(m, n)
        return shapes, [(*shape[:-1], k), (*shape[:-2], k), (*shape[:-2], k, n)]

    def eager(self, *arrays: Any) -> Any:
        factors: Any = np.linalg.svd(self.checked(arrays), full_matrices=False)
        return tuple(np.ascontiguousarray(x) for x in factors)

    def gradient(self, F: Any, *values: Any) -> Any:
        du, dl, dv, a, u, low, v = values
        if not low.shape[-1]:
            return F.zeros_like(a)
        column, row = F.expand_dims(low, axis=-1), F.expand_dims(low, axis=-2)
        between = apart(F, low * low)
        of_u = between * F.matmul(u, du, True, False)
        of_v = between * F.matmul(v, dv, False, True)
        middle = F.broadcast_mul(of_u + F.swapaxes(of_u, -1, -2), row)
        middle = middle + F.broadcast_mul(of_v + F.swapaxes(of_v, -1, -2), column) + F.linalg_makediag(dl)
        da = F.matmul(F.matmul(u, middle), v)
        zero = low == 0
        inverse = (1 - zero) / (low + zero)
        column, row = F.expand_dims(inverse, axis=-1), F.expand_dims(inverse, axis=-2)
        if u.shape[-2] > u.shape[-1]:  # what of the slopes is not along U
            rest = F.broadcast_mul(du - F.matmul(u, F.matmul(u, du, True, False)), row)
            da = da + F.matmul(rest, v)
        if v.shape[-1] > v.shape[-2]:
            rest = F.broadcast_mul(dv - F.matmul(F.matmul(dv, v, False, True), v), column)
            da = da + F.matmul(u, rest)
        return da

    @classmethod
    def samples(cls) -> list[Sample]:
        def by_eigenvectors(a: Any) -> Any:
            """From the eigenvectors of AᵀA or AAᵀ, whichever is smaller; LAPACK's signs."""
            m, n = a.shape[-2:]
            u, _, v = np.linalg.svd(a, full_matrices=False)
            squares, vectors = np.linalg.eigh(a @ a.swapaxes(-1, -2) if m <= n else a.swapaxes(-1, -2) @ a)
            low = np.sqrt(squares[..., ::-1])
            vectors = vectors[..., ::-1]
            if m <= n:
                vectors = vectors * np.sign((vectors * u).sum(-2, keepdims=True))
                return vectors, low, (a.swapaxes(-1, -2) @ vectors / low[..., None, :]).swapaxes(-1, -2)
            vectors = vectors * np.sign((vectors * v.swapaxes(-1, -2)).sum(-2, keepdims=True))
            return a @ vectors / low[..., None, :], low, vectors.swapaxes(-1, -2)

        rng = np.random.default_rng(6)
        square = rng.uniform(-1, 1, (3, 3)) + np.diag([3.0, 2.0, 1.0])
        return [
            Sample([square], by_eigenvectors),
            Sample([rng.uniform(-1, 1, (2, 2, 4))], by_eigenvectors),
            Sample([rng.uniform(-1, 1, (4, 2))], by_eigenvectors),
            Sample([(2, 0, 3)], lambda a: (np.zeros((2, 0, 0)), np.zeros((2, 0)), a)),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        infinite = "_svd: A holds nan or infinity, and has no factors"
        return [
            (((3,),), {}, "_svd: A must hold matrices in its last two axes, got shape (3,)"),
            ((np.full((2, 2), np.nan),), {}, infinite),
        ]


@register("hybrid._eig")
class Eig(_Spectrum):
    """The eigenvalues W of each square matrix, and its eigenvectors V as columns of length 1: A V = V diag(W)

    They are in LAPACK's order. A must have real eigenvalues; they must be distinct to have derivatives.
    """

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        square_size("_eig", "A", shape)
        return shapes, [shape[:-1], shape]

    def eager(self, *arrays: Any) -> Any:
        a = self.checked(arrays)
        found: Any = np.linalg.eig(a)
        values, vectors = found
        if np.iscomplexobj(values) and values.imag.any():
            raise MXNetError(
                "_eig: A has complex eigenvalues, and arrays are real; numpy.linalg.eig(x.asnumpy()) has them"
            )
        # Since 2.5 NumPy's are complex numbers, whatever they are.
        return np.ascontiguousarray(values.real), np.ascontiguousarray(vectors.real)

    def gradient(self, F: Any, *values: Any) -> Any:
        # COMPAT(mxnet): there the gradient is 0.
        dw, dv, a, w, v = values
        if not a.shape[-1]:
            return F.zeros_like(a)
        along = F.matmul(v, dv, True, False)
        diagonal = F.expand_dims(F.linalg_extractdiag(along), axis=-2)
        middle = (along - F.broadcast_mul(F.matmul(v, v, True, False), diagonal)) * apart(F, w)
        middle = middle + F.linalg_makediag(dw)
        return F.matmul(F.linalg_inverse(v), F.matmul(middle, v, False, True), True, False)

    @classmethod
    def samples(cls) -> list[Sample]:
        def of_triangle(a: Any) -> Any:
            """The eigenvalues of a triangular matrix are its diagonal."""
            vectors = np.zeros_like(a)
            for at in np.ndindex(*a.shape[:-2]):
                for i in range(a.shape[-1]):  # (A - w I) v = 0 where v[i] is 1 and what follows is 0
                    w, one = a[(*at, i, i)], np.eye(a.shape[-1])[i]
                    one[:i] = np.linalg.solve(a[at][:i, :i] - w * np.eye(i), -a[at][:i, i])
                    vectors[at][:, i] = one / np.sqrt((one**2).sum())
            return np.einsum("...ii->...i", a).copy(), vectors

        upper = np.triu(np.random.default_rng(7).uniform(-1, 1, (2, 3, 3)), 1) + np.diag([3.0, 1.0, -2.0])
        return [  # their gradient: tests/np/test_np_linalg.py, as a difference of a triangle need be none
            Sample([upper[0]], of_triangle, grad=False),
            Sample([upper], of_triangle, grad=False),
            Sample([(0, 2, 2)], lambda a: (a[..., 0], a), grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
        text = "_eig: A has complex eigenvalues, and arrays are real; numpy.linalg.eig(x.asnumpy()) has them"
        square = "_eig: A must hold square matrices in its last two axes, got shape (2, 3)"
        return [((turn,), {}, text), (((2, 3),), {}, square)]
