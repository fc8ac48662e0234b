"""Products of linear algebra: gemm, gemm2, syrk, Khatri-Rao."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc.dialects.math.contraction import Product, matmul, product_gradients
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import is_float
from hybridc.errors import ShapeError


class Gemm(Product, Composite):
    """Base of gemm and gemm2: the rows of a matrix may lie along another axis than the last but one."""

    transpose_a: Any = False
    transpose_b: Any = False
    alpha: Any = 1.0
    axis: Any = -2

    def row_axis(self, shape: Shape) -> int:
        """The axis of the rows, counted from 0."""
        rank = len(shape)
        if rank < 2 or not -rank <= self.axis < rank or self.axis % rank == rank - 1:
            raise ShapeError(
                f"{self.title()}: axis={self.axis} cannot hold the rows of matrices in shape {shape}; "
                "it must be one of the axes before the last"
            )
        return self.axis % rank

    def contraction_shape(self, a: Shape, b: Shape) -> Shape:
        """The shape of A times B."""
        axis = self.row_axis(a)
        stacks = [tuple(n for i, n in enumerate(s[:-1]) if i != axis) for s in (a, b)]
        if len(a) != len(b) or stacks[0] != stacks[1]:
            raise ShapeError(
                f"{self.title()}: A {a} and B {b} must have equal sizes in all axes but the last and axis {self.axis}"
            )
        rows, inner = (a[-1], a[axis]) if self.transpose_a else (a[axis], a[-1])
        other, columns = (b[-1], b[axis]) if self.transpose_b else (b[axis], b[-1])
        if inner != other:
            raise ShapeError(
                f"{self.title()}: A {a} has {inner} columns and B {b} has {other} rows "
                f"(transpose_a={self.transpose_a}, transpose_b={self.transpose_b}); they must be equal"
            )
        return (*a[:axis], rows, *a[axis + 1 : -1], columns)

    def moved(self, F: Any, x: Any) -> Any:
        """Swap the row axis with the last axis but one; it is its own inverse."""
        axis = self.row_axis(x.shape)
        return x if axis == len(x.shape) - 2 else F.swapaxes(x, axis, len(x.shape) - 2)

    def product(self, F: Any, a: Any, b: Any) -> Any:
        """alpha times the product."""
        y = self.moved(F, F.matmul(self.moved(F, a), self.moved(F, b), self.transpose_a, self.transpose_b))
        return y if self.alpha == 1 else y * self.alpha

    def eager_product(self, a: Any, b: Any) -> Any:
        """alpha times the product, on NumPy arrays."""
        if not is_float(a.dtype):
            self.require_float(a.dtype)
        self.contraction_shape(a.shape, b.shape)
        axis = self.row_axis(a.shape)
        y = matmul(a.swapaxes(axis, -2), b.swapaxes(axis, -2), self.transpose_a, self.transpose_b)
        if self.alpha != 1:
            y *= self.alpha
        return y.swapaxes(axis, -2)

    def product_gradient(self, F: Any, dy: Any, a: Any, b: Any) -> tuple[Any, Any]:
        """Gradients of the product, computed where needed."""
        dy = self.moved(F, dy if self.alpha == 1 else dy * self.alpha)
        da, db = product_gradients(F, dy, self.moved(F, a), self.moved(F, b), self.transpose_a, self.transpose_b)
        return lambda: self.moved(F, da()), lambda: self.moved(F, db())


@register("hybrid.linalg_gemm2", "linalg.gemm2", "_linalg_gemm2")
class Gemm2(Gemm):
    """alpha * op(A) @ op(B), where op transposes or not"""

    INPUTS = ("A", "B")

    transpose_a: bool = attribute(False, "whether A comes transposed")
    transpose_b: bool = attribute(False, "whether B comes transposed")
    alpha: float = attribute(1.0, "factor of the product")
    axis: int = attribute(-2, "the axis that holds the rows of the matrices")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.contraction_shape(*shapes)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return self.product(F, *inputs)

    def eager(self, *arrays: Any) -> Any:
        return self.eager_product(*arrays)

    def gradient(self, F: Any, *values: Any) -> Any:
        return self.product_gradient(F, *values[:3])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4), (4, 5)], lambda a, b: a @ b),
            Sample([(2, 4, 3), (2, 4, 5)], lambda a, b: 0.5 * a.swapaxes(1, 2) @ b, transpose_a=True, alpha=0.5),
            Sample([(3, 2, 4), (4, 2, 5)], lambda a, b: np.einsum("inj,jnk->ink", a, b), axis=0),
            Sample([(3, 4), (5, 4)], lambda a, b: a @ b.T, transpose_b=True),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_gemm2: A (2, 3) has 3 columns and B (4, 5) has 4 rows "
        return [(((2, 3), (4, 5)), {}, text + "(transpose_a=False, transpose_b=False); they must be equal")]


@register("hybrid.linalg_gemm", "linalg.gemm", "_linalg_gemm")
class GemmAdd(Gemm):
    """alpha * op(A) @ op(B) + beta * C, where op transposes or not"""

    INPUTS = ("A", "B", "C")

    transpose_a: bool = attribute(False, "whether A comes transposed")
    transpose_b: bool = attribute(False, "whether B comes transposed")
    alpha: float = attribute(1.0, "factor of the product")
    beta: float = attribute(1.0, "factor of C")
    axis: int = attribute(-2, "the axis that holds the rows of the matrices")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        out = self.contraction_shape(shapes[0], shapes[1])
        if shapes[2] != out:
            raise ShapeError(f"linalg_gemm: C has shape {shapes[2]}, expected {out}, that of the product of A and B")
        return shapes, [out]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        a, b, c = inputs
        return self.product(F, a, b) + (c if self.beta == 1 else c * self.beta)

    def eager(self, *arrays: Any) -> Any:
        a, b, c = arrays
        y = self.eager_product(a, b)
        if c.shape != y.shape:
            self.infer_shape([a.shape, b.shape, c.shape])
        y += c if self.beta == 1 else c * self.beta
        return y

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, b = values[:3]
        return (*self.product_gradient(F, dy, a, b), lambda: dy * self.beta)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4), (4, 5), (3, 5)], lambda a, b, c: a @ b + c),
            Sample(
                [(2, 3, 4), (2, 5, 4), (2, 3, 5)],
                lambda a, b, c: 2 * a @ b.swapaxes(1, 2) + 0.5 * c,
                transpose_b=True,
                alpha=2.0,
                beta=0.5,
            ),
            Sample([(3, 2, 4), (4, 2, 5), (3, 2, 5)], lambda a, b, c: np.einsum("inj,jnk->ink", a, b) + c, axis=0),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "linalg_gemm: C has shape (5,), expected (2, 5), that of the product of A and B"
        return [(((2, 3), (3, 5), (5,)), {}, text)]


@register("hybrid.linalg_syrk", "linalg.syrk", "_linalg_syrk")
class Syrk(Product, Composite):
    """alpha * A @ A.T, or alpha * A.T @ A with ``transpose``"""

    INPUTS = ("A",)

    transpose: bool = attribute(False, "whether A comes transposed")
    alpha: float = attribute(1.0, "factor of the product")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (a,) = shapes
        if len(a) < 2:
            raise ShapeError(f"linalg_syrk: A must be a matrix or a stack of them, got shape {a}")
        n = a[-1] if self.transpose else a[-2]
        return shapes, [(*a[:-2], n, n)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (a,) = inputs
        return F.matmul(a, a, self.transpose, not self.transpose) * self.alpha

    def eager(self, *arrays: Any) -> Any:
        (a,) = arrays
        self.require_float(a.dtype)
        y = matmul(a, a, self.transpose, not self.transpose)
        return np.multiply(y, self.alpha, out=y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, _ = values
        dy = (dy + F.swapaxes(dy, -1, -2)) * self.alpha
        return F.matmul(a, dy) if self.transpose else F.matmul(dy, a)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4)], lambda a: 0.5 * a @ a.T, alpha=0.5),
            Sample([(2, 3, 4)], lambda a: np.einsum("nij,nik->njk", a, a), transpose=True),
        ]


@register("hybrid.khatri_rao")
class KhatriRao(Composite):
    """The Kronecker products of the columns of all matrices, which have equally many columns"""

    NNVM_COUNT = "num_args"
    INPUTS = ("args",)
    VARIADIC = True

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        columns = [s[1] if len(s) == 2 else -1 for s in shapes]
        if columns[0] == -1 or any(n != columns[0] for n in columns):
            raise ShapeError(
                "khatri_rao: inputs must be matrices with equally many columns, got shapes "
                + ", ".join(map(str, shapes))
            )
        return shapes, [(math.prod(s[0] for s in shapes), columns.pop())]

    def spread(self, F: Any, inputs: tuple[Any, ...]) -> list[Any]:
        """Each matrix with its rows along an axis of their own."""
        n = len(inputs)
        shapes = [(1,) * i + (x.shape[0],) + (1,) * (n - 1 - i) + x.shape[1:] for i, x in enumerate(inputs)]
        return [F.reshape_to(x, shape=s) for x, s in zip(inputs, shapes, strict=True)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        shape = self.infer_shape([x.shape for x in inputs])[1][0]
        first, *others = self.spread(F, inputs)
        for x in others:
            first = first * x
        return F.reshape_to(first * 1 if not others else first, shape=shape)

    def eager(self, *arrays: Any) -> Any:
        shape = self.infer_shape([x.shape for x in arrays])[1][0]
        product = arrays[0].copy()
        for x in arrays[1:]:
            product = (product[:, None] * x).reshape(-1, shape[1])
        return product

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *inputs, _ = values
        parts = self.spread(F, tuple(inputs))
        dy = F.reshape_to(dy, shape=(*(x.shape[0] for x in inputs), inputs[0].shape[1]))
        grads: list[Any] = []
        for i, (part, x) in enumerate(zip(parts, inputs, strict=True)):
            each = dy
            for j, other in enumerate(parts):
                each = each if i == j else each * other
            grads.append(F.reshape_to(F.sum_to(each, shape=part.shape), shape=x.shape))
        return grads

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(2, 3), (4, 3)], lambda x, y: np.einsum("ik,jk->ijk", x, y).reshape(8, 3)),
            Sample(
                [(2, 3), (1, 3), (3, 3)],
                lambda x, y, z: np.einsum("ik,jk,lk->ijlk", x, y, z).reshape(6, 3),
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "khatri_rao: inputs must be matrices with equally many columns, got shapes (2, 3), (2, 4)"
        return [(((2, 3), (2, 4)), {}, text)]
