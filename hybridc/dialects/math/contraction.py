"""Matrix multiplication: ``matmul`` is the primitive, the others decompose into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Contraction, Operator, Sample, attribute, invoke_bound, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.operator_registry import unrecorded
from hybridc.dialects.sparse.sparse_products import product, product_stype
from hybridc.dtypes import HALVES, is_float
from hybridc.errors import DTypeError, ShapeError
from hybridc.sparse_storage import converted, stype_of

_BLAS = (np.dtype("float32"), np.dtype("float64"))  # dtypes of BLAS

_STORAGE_TYPES = ("csr", "default", "row_sparse")


def matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool, out: Any = None) -> Any:
    """Matmul of matrices or of batches of them; half precision is multiplied in single."""
    if transpose_a:
        a = a.swapaxes(-1, -2)
    if transpose_b:
        b = b.swapaxes(-1, -2)
    if a.dtype not in HALVES:
        return np.matmul(_unit_stride(a), _unit_stride(b), out=out)
    product = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if out is None:
        return product
    np.copyto(out, product)
    return out


def _unit_stride(a: Any) -> Any:
    """The matrices as BLAS takes them, copied if need be: NumPy before 2.3 runs plain loops on others."""
    if a.dtype not in _BLAS or a.ndim < 2 or a.flags.c_contiguous:
        return a
    (m, n), (row, column), one = a.shape[-2:], a.strides[-2:], a.itemsize
    fits = (column == one and row >= n * one) or (row == one and column >= m * one)
    return a if fits and row % one == column % one == 0 else a.copy()


class Product(Operator):
    """A matmul of floating-point arrays."""

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        self.require_float(dtypes[0])
        return dtypes, [dtypes[0]]

    def require_float(self, dtype: DType) -> None:
        """Raise unless the inputs are floating-point numbers."""
        if not is_float(dtype):
            raise DTypeError(
                f"{self.title()}: inputs must be floating-point, got {dtype}; use .astype('float32') on them"
            )

    @unrecorded
    def on_stack(self, data: Shape) -> Operator | None:
        """The operator that does to a stack of first inputs, each of this shape, what this does to each; None if none.

        The other inputs are the same for all.
        """
        return None


class Transposable(Product):
    """A matmul with a transposition flag for each input."""

    transpose_a: bool = attribute(False, "whether the first input comes transposed")
    transpose_b: bool = attribute(False, "whether the second input comes transposed")

    def flags(self) -> str:
        """The flags as text, for errors."""
        return f"transpose_a={self.transpose_a}, transpose_b={self.transpose_b}"


def product_gradients(F: Any, dy: Any, a: Any, b: Any, ta: bool, tb: bool) -> tuple[Any, Any]:
    """Gradients of ``matmul(a, b, ta, tb)``, each one matmul without a transpose; lazily."""

    def da() -> Any:
        return F.matmul(b, dy, tb, True) if ta else F.matmul(dy, b, False, not tb)

    def db() -> Any:
        return F.matmul(dy, a, True, ta) if tb else F.matmul(a, dy, not ta, False)

    return da, db


# --- the primitive ----------------------------------------------------------------------------------------


@register("hybrid.matmul")
class Matmul(Transposable, Contraction):
    """lhs @ rhs for matrices, or for batches of them with equal leading axes"""

    INPUTS = ("lhs", "rhs")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        a, b = shapes
        if len(a) != len(b) or len(a) < 2 or a[:-2] != b[:-2]:
            raise ShapeError(
                f"{self.title()}: lhs {a} and rhs {b} must have the same number of axes, at least 2, "
                "and equal sizes in all but the last two; use expand_dims or broadcast_to"
            )
        rows, inner = (a[-1], a[-2]) if self.transpose_a else (a[-2], a[-1])
        other, columns = (b[-1], b[-2]) if self.transpose_b else (b[-2], b[-1])
        if inner != other:
            raise ShapeError(
                f"{self.title()}: lhs {a} has {inner} columns and rhs {b} has {other} rows "
                f"({self.flags()}); they must be equal"
            )
        return shapes, [(*a[:-2], rows, columns)]

    def loops(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        *lead, row, column = range(rank)
        inner = rank
        lhs = (inner, row) if self.transpose_a else (row, inner)
        rhs = (column, inner) if self.transpose_b else (inner, column)
        return (*lead, *lhs), (*lead, *rhs), (*lead, row, column)

    def eager(self, *arrays: Any) -> Any:
        a, b = arrays
        if (a.ndim != 2 or b.ndim != 2) and (a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]):
            self.infer_shape([a.shape, b.shape])
        if not is_float(a.dtype):
            self.require_float(a.dtype)
        return matmul(a, b, self.transpose_a, self.transpose_b)

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        a, b = arrays
        matmul(a, b, self.transpose_a, self.transpose_b, outs[0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, b, _ = values
        return product_gradients(F, dy, a, b, self.transpose_a, self.transpose_b)

    def sums_rows(self) -> bool:
        """One matmul of matrices that are longer along the contracted axis."""
        return True

    def summed(self, F: Any, *rows: Any) -> Any:
        a, b = rows
        if len(a.shape) != 3:
            return F.sum(invoke_bound(self, *rows), axis=0)
        ta, tb = self.transpose_a, not self.transpose_b
        a, b = (x if first else F.transpose(x, axes=(1, 0, 2)) for x, first in ((a, ta), (b, tb)))
        a, b = (
            reshaped(F, x, (math.prod(x.shape[:2]), x.shape[2]) if first else (x.shape[0], math.prod(x.shape[1:])))
            for x, first in ((a, ta), (b, tb))
        )
        return F.matmul(a, b, ta, not tb)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4), (4, 5)], lambda a, b: a @ b),
            Sample([(4, 3), (4, 5)], lambda a, b: a.T @ b, transpose_a=True),
            Sample([(3, 4), (5, 4)], lambda a, b: a @ b.T, transpose_b=True),
            Sample([(4, 3), (5, 4)], lambda a, b: a.T @ b.T, transpose_a=True, transpose_b=True),
            Sample([(2, 3, 4), (2, 4, 1)], lambda a, b: np.einsum("nij,njk->nik", a, b)),
            Sample([(2, 4, 3), (2, 5, 4)], _both_transposed, transpose_a=True, transpose_b=True),
            Sample([(0, 4), (4, 5)], lambda a, b: a @ b),
            Sample([(3, 0), (0, 2)], lambda a, b: a @ b),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [
            (
                ((2, 3), (4, 5)),
                {},
                "matmul: lhs (2, 3) has 3 columns and rhs (4, 5) has 4 rows "
                "(transpose_a=False, transpose_b=False); they must be equal",
            ),
            (
                ((2, 3), (1, 3, 5)),
                {},
                "matmul: lhs (2, 3) and rhs (1, 3, 5) must have the same number of axes, at least 2, "
                "and equal sizes in all but the last two; use expand_dims or broadcast_to",
            ),
        ]


def _ends(shape: Shape, first: bool) -> tuple[int, Shape]:
    """The first (or last) size, and the others."""
    return (shape[0], shape[1:]) if first else (shape[-1], shape[:-1])


def _both_transposed(a: Any, b: Any) -> Any:
    return np.einsum("nji,nkj->nik", a, b)


# --- dot, batch_dot ---------------------------------------------------------------------------------------


@register("hybrid.dot")
class Dot(Transposable, Composite):
    """The sum of products over the last axis of lhs and the first axis of rhs

    With ``transpose_a`` over the first axis of lhs, with ``transpose_b`` over the last axis of rhs; the
    other axes stay.
    """

    INPUTS = ("lhs", "rhs")
    forward_stype: str | None = attribute(
        None, "the storage type of the result, where one input is csr and there is a choice", enum=_STORAGE_TYPES
    )

    def matrices(self, a: Shape, b: Shape) -> tuple[Shape, Shape, Shape, Shape]:
        """The result's shape, then the shapes of lhs, rhs and result as matrices."""
        if min(len(a), len(b)) < 1:
            raise ShapeError(f"dot: inputs need at least one axis, got lhs {a} and rhs {b}")
        ta, tb = self.transpose_a and len(a) > 1, self.transpose_b and len(b) > 1
        inner, rows = _ends(a, ta)
        other, columns = _ends(b, not tb)
        if inner != other:
            raise ShapeError(
                f"dot: the axis of lhs {a} to be summed over has size {inner}, that of rhs {b} has {other} "
                f"({self.flags()}); they must be equal"
            )
        m, n = math.prod(rows), math.prod(columns)
        return (
            (*rows, *columns) or (1,),
            (inner, m) if ta else (m, inner),
            (n, inner) if tb else (inner, n),
            (m, n),
        )

    def on_stack(self, data: Shape) -> Operator | None:
        return self if len(data) == 2 and not self.transpose_a else None

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.matrices(*shapes)[0]]

    def transposes(self, a: Any, b: Any) -> tuple[bool, bool]:
        """Whether each input is transposed as a matrix; vectors are not."""
        return self.transpose_a and len(a.shape) > 1, self.transpose_b and len(b.shape) > 1

    def decompose(self, F: Any, *inputs: Any) -> Any:
        a, b = inputs
        out, as_a, as_b, _ = self.matrices(a.shape, b.shape)
        y = F.matmul(reshaped(F, a, as_a), reshaped(F, b, as_b), *self.transposes(a, b))
        return reshaped(F, y, out)

    def eager(self, *arrays: Any) -> Any:
        a, b = arrays
        if not is_float(a.dtype):
            self.require_float(a.dtype)
        if a.ndim == b.ndim == 2:
            return matmul(a, b, self.transpose_a, self.transpose_b)
        out, as_a, as_b, _ = self.matrices(a.shape, b.shape)
        return matmul(a.reshape(as_a), b.reshape(as_b), *self.transposes(a, b)).reshape(out)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        a, b = inputs
        found = product_stype(a, b, self.transpose_a, self.transpose_b, self.forward_stype)
        return None if found is None else (found,)

    def eager_sparse(self, *arrays: Any) -> Any:
        a, b = arrays
        self.infer_type([a.dtype, b.dtype])
        (stype,) = self.infer_storage_type(arrays) or ("default",)
        return product(a, b, self.transpose_a, self.transpose_b, stype)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, b, _ = values
        if a.stype == "csr" and not self.transpose_b:  # the weight's gradient is in rows where a has columns
            columns = [reshaped(F, x, (*x.shape, 1)) if len(x.shape) == 1 else x for x in (dy, b)]
            left, right = columns[::-1] if self.transpose_a else columns
            return (
                lambda: F.dot(left, right, transpose_b=True),
                lambda: F.dot(a, dy, transpose_a=not self.transpose_a),
            )
        _, as_a, as_b, as_y = self.matrices(a.shape, b.shape)
        da, db = product_gradients(
            F, reshaped(F, dy, as_y), reshaped(F, a, as_a), reshaped(F, b, as_b), *self.transposes(a, b)
        )
        return lambda: reshaped(F, da(), a.shape), lambda: reshaped(F, db(), b.shape)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4), (4, 5)], lambda a, b: np.einsum("ij,jk", a, b)),
            Sample([(4, 3), (5, 4)], lambda a, b: (b @ a).T, transpose_a=True, transpose_b=True),
            Sample([(5,), (5,)], lambda a, b: np.sum(a * b, keepdims=True)),
            Sample([(3, 5), (5,)], lambda a, b: np.einsum("ij,j", a, b)),
            Sample([(5,), (5, 3)], lambda a, b: np.einsum("j,jk", a, b)),
            Sample([(2, 3, 4), (4, 5)], lambda a, b: np.einsum("nij,jk->nik", a, b)),
            Sample([(2, 3), (3, 4, 5)], lambda a, b: np.einsum("ij,jkl", a, b)),
            Sample([(3, 2, 4), (3, 5)], lambda a, b: np.einsum("jmn,jk->mnk", a, b), transpose_a=True),
            Sample([(2, 3), (4, 5, 3)], lambda a, b: np.einsum("ij,mnj->imn", a, b), transpose_b=True),
            Sample([(2, 0), (0, 3)], lambda a, b: a @ b),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "dot: the axis of lhs (2, 3) to be summed over has size 3, that of rhs (4, 5) has 4 "
        return [(((2, 3), (4, 5)), {}, text + "(transpose_a=False, transpose_b=False); they must be equal")]


def reshaped(F: Any, x: Any, shape: Shape) -> Any:
    """``x`` reshaped; itself if it has the shape."""
    return x if x.shape == shape else F.reshape_to(x, shape=shape)


@register("hybrid.batch_dot")
class BatchDot(Matmul):
    """lhs @ rhs for batches of matrices with equal leading axes"""

    forward_stype: str | None = attribute(
        None, "accepted for MXNet's API, without effect: as there, the result is dense", enum=_STORAGE_TYPES
    )

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if min(map(len, shapes)) < 3:
            raise ShapeError(
                f"batch_dot: inputs must be stacks of matrices, with at least 3 axes, got lhs {shapes[0]} "
                f"and rhs {shapes[1]}; use dot for single matrices"
            )
        return super().infer_shape(shapes)

    def decomposes(self) -> bool:
        """It is ``matmul`` under another name."""
        return True

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.matmul(*inputs, self.transpose_a, self.transpose_b)

    def eager(self, *arrays: Any) -> Any:
        if arrays[0].ndim < 3:
            self.infer_shape([x.shape for x in arrays])
        return super().eager(*arrays)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(2, 3, 4), (2, 4, 5)], lambda a, b: np.einsum("nij,njk->nik", a, b)),
            Sample([(2, 4, 3), (2, 5, 4)], _both_transposed, transpose_a=True, transpose_b=True),
            Sample([(2, 2, 3, 1), (2, 2, 1, 5)], lambda a, b: a * b),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "batch_dot: inputs must be stacks of matrices, with at least 3 axes, got lhs (2, 3) "
        return [(((2, 3), (3, 4)), {}, text + "and rhs (3, 4); use dot for single matrices")]


# --- fully connected layer --------------------------------------------------------------------------------


@register("hybrid.fully_connected", "FullyConnected")
class FullyConnected(Product, Composite):
    """data @ weight.T + bias, with the data flattened to rows"""

    INFERS_PARTLY = True
    INPUTS = ("data", "weight", "bias")
    OPTIONAL = 1

    num_hidden: int = attribute(doc="the number of outputs", low=1)
    no_bias: bool = attribute(False, "leave the bias out")
    flatten: bool = attribute(True, "all axes but the first are one row; else the last axis alone is")

    def input_names(self) -> tuple[str, ...]:
        return self.INPUTS[:2] if self.no_bias else self.INPUTS

    def on_stack(self, data: Shape) -> Operator | None:
        return self.bind(**{**self.attrs, "flatten": False}) if len(data) == 2 or not self.flatten else None

    def rows(self, data: Shape) -> tuple[int, int]:
        """The shape of the data as a matrix."""
        split = 1 if self.flatten else len(data) - 1
        return math.prod(data[:split]), math.prod(data[split:])

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Beside data, the weight has the columns that the data needs; the data has the rows of the result."""
        wanted: list[Shape] = [(self.num_hidden, -1), (self.num_hidden,)]
        data, result = shapes[0], outputs[0]
        if data is None:
            return shapes
        if self.flatten and result and data[:1] == (-1,):
            data = (result[0], *data[1:])
        return [data, *[w if s is None else s for s, w in zip(shapes[1:], wanted, strict=False)]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        if not data:
            raise ShapeError("FullyConnected: data needs at least one axis, got shape ()")
        wanted = [data, (self.num_hidden, self.rows(data)[1]), (self.num_hidden,)][: len(shapes)]
        if -1 in data[1 if self.flatten else -1 :]:
            wanted[1] = (self.num_hidden, shapes[1][1] if len(shapes[1]) == 2 else -1)
        for name, shape, want in zip(self.input_names()[1:], shapes[1:], wanted[1:], strict=True):
            if len(shape) != len(want) or any(n not in (-1, m) for n, m in zip(shape, want, strict=True)):
                raise ShapeError(
                    f"FullyConnected: {self._misfit(data, shape, want)}{name} has shape {shape}, expected {want} for "
                    f"data of shape {data} with num_hidden={self.num_hidden}, flatten={self.flatten}"
                )
        lead = data[:1] if self.flatten else data[:-1]
        return wanted, [(*lead, self.num_hidden)]

    def _misfit(self, data: Shape, weight: Shape, want: Shape) -> str:
        """That the data has other features than the weight is for, if the weight is right but for that."""
        if len(want) != 2 or len(weight) != 2 or weight[0] not in (-1, want[0]):
            return ""
        features = weight[1]
        way = f"change the data, or make the layer anew for {want[1]} features"
        if self.flatten and len(data) > 2 and data[-1] == features:
            way = "to multiply the last axis alone, make the layer with flatten=False"
        return f"the data has {want[1]} features, the weight is for {features}; {way}: "

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, weight, *bias = inputs
        lead = data.shape[:1] if self.flatten else data.shape[:-1]
        y = F.matmul(reshaped(F, data, self.rows(data.shape)), weight, False, True)
        y = reshaped(F, y, (*lead, self.num_hidden))
        return y + bias[0] if bias else y  # after the reshape, so that it fuses with what follows

    def eager(self, *arrays: Any) -> Any:
        data, weight = arrays[0], arrays[1]
        if weight.ndim != 2 or weight.shape[0] != self.num_hidden or data.dtype not in _BLAS:
            self.infer_shape([x.shape for x in arrays])
            self.require_float(data.dtype)
        x = data if data.ndim == 2 else data.reshape(self.rows(data.shape))
        y = matmul(x, weight, False, True) if x.dtype in HALVES else np.matmul(x, weight.T)
        if not self.no_bias:
            bias = arrays[2]
            if bias.shape != (self.num_hidden,):  # it must not broadcast
                self.infer_shape([x.shape for x in arrays])
            y += bias
        return y if x is data or self.flatten else y.reshape(*data.shape[:-1], self.num_hidden)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        kinds = stype_of(inputs[0]), stype_of(inputs[1])
        return ("default",) if kinds in (("csr", "default"), ("default", "row_sparse")) else None

    def eager_sparse(self, *arrays: Any) -> Any:
        data, weight, *bias = arrays
        shape = self.infer_shape([x.shape for x in arrays])[1][0]
        self.infer_type([x.dtype for x in arrays])
        if stype_of(data) == "csr":
            y = product(data, np.ascontiguousarray(weight.T), False, False, "default")
        else:  # the stored rows are those of some units
            rows, columns = self.rows(data.shape)
            y = np.zeros((rows, self.num_hidden), data.dtype)
            y[:, weight.indices] = matmul(data.reshape(rows, columns), weight.data, False, True)
        return (y + converted(bias[0], "default") if bias else y).reshape(shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        # COMPAT(mxnet): a bias has its gradient, too, where none of the weight's is wanted; there it is left as it was.
        dy, data, weight = values[:3]
        rows, columns = self.rows(data.shape)
        dy = reshaped(F, dy, (rows, self.num_hidden))

        def ddata() -> Any:
            return reshaped(F, F.matmul(dy, weight), data.shape)

        def dweight() -> Any:
            return F.matmul(dy, reshaped(F, data, (rows, columns)), True, False)

        if self.no_bias:
            return ddata, dweight
        return ddata, dweight, lambda: F.sum(dy, 0)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 4), (5, 4), (5,)], lambda x, w, b: x @ w.T + b, num_hidden=5),
            Sample([(3, 4), (5, 4)], lambda x, w: x @ w.T, num_hidden=5, no_bias=True),
            Sample([(2, 3, 4), (5, 12), (5,)], lambda x, w, b: x.reshape(2, 12) @ w.T + b, num_hidden=5),
            Sample(
                [(2, 3, 4), (5, 4), (5,)],
                lambda x, w, b: np.einsum("nmk,hk->nmh", x, w) + b,
                num_hidden=5,
                flatten=False,
            ),
            Sample([(0, 4), (5, 4), (5,)], lambda x, w, b: x @ w.T + b, num_hidden=5),
            Sample([(4,), (5, 4), (5,)], lambda x, w, b: w @ x + b, num_hidden=5, flatten=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        head = "FullyConnected: {} expected {} for data of shape (2, 3) with num_hidden=4, flatten=True"
        return [
            (
                ((2, 3), (4, 2), (4,)),
                {"num_hidden": 4},
                "FullyConnected: the data has 3 features, the weight is for 2; change the data, or make the layer anew "
                "for 3 features: weight has shape (4, 2), expected (4, 3) for data of shape (2, 3) with num_hidden=4, "
                "flatten=True",
            ),
            (
                ((2, 3, 2), (4, 2), (4,)),
                {"num_hidden": 4},
                "FullyConnected: the data has 6 features, the weight is for 2; to multiply the last axis alone, make "
                "the layer with flatten=False: weight has shape (4, 2), expected (4, 6) for data of shape (2, 3, 2) "
                "with num_hidden=4, flatten=True",
            ),
            (((2, 3), (5, 3), (5,)), {"num_hidden": 4}, head.format("weight has shape (5, 3),", "(4, 3)")),
            (((2, 3), (4, 3), (1,)), {"num_hidden": 4}, head.format("bias has shape (1,),", "(4,)")),
        ]
