"""Operators that exist for sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.gather import as_index
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import ArgumentTypeError, ShapeError
from hybridc.sparse_storage import INT64, CsrStorage, RowSparseStorage


@register("hybrid.sparse_retain", "_sparse_retain")
class SparseRetain(Opaque):
    """Some rows of an array, by their numbers; the other rows are zero"""

    NNVM = "_sparse_retain"
    INPUTS = ("data", "indices")
    SAME_DTYPE = False

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [shapes[0]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        rows = np.zeros(len(data), bool)
        rows[as_index(indices, len(data), "raise")] = True
        made = np.zeros_like(data)
        made[rows] = data[rows]
        return made

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("row_sparse",) if isinstance(inputs[0], RowSparseStorage) else None

    def eager_sparse(self, *arrays: Any) -> Any:
        data, indices = arrays
        return data.retain(as_index(np.asarray(indices), len(data), "raise").ravel())

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, indices, _ = values
        return F.sparse_retain(dy, indices), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        kept = np.array([[1.0], [0], [1], [0]])
        return [Sample([(4, 3), np.array([2, 0], np.int64)], lambda x, _: x * kept)]


@register("hybrid.getnnz", "contrib.getnnz", "_contrib_getnnz")
class GetNnz(Opaque):
    """The number of stored values of a csr matrix, or of those in each column"""

    NNVM = "_contrib_getnnz"
    gradient = no_gradient
    axis: int | None = attribute(None, "0 for each column; None for all")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) != 2 or self.axis not in (None, 0, 1):
            raise ShapeError(f"getnnz: a csr matrix and axis=0, 1 or None are needed, got {shape}, axis={self.axis}")
        return shapes, [(1,) if self.axis is None else (shape[1 - self.axis],)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [INT64]

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([a.shape for a in arrays])
        return self.eager_sparse(CsrStorage.of(*arrays))

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        if not isinstance(inputs[0], CsrStorage):
            raise ArgumentTypeError(f"getnnz: the input must be csr, got {inputs[0].stype}")
        return ("default",)

    def eager_sparse(self, *arrays: Any) -> Any:
        (x,) = arrays
        if self.axis is None:
            return np.array([len(x.data)], np.int64)
        return np.diff(x.indptr) if self.axis else np.bincount(x.indices, minlength=x.shape[1]).astype(np.int64)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([np.array([[1.0, 0], [0, 0], [2, 3]])], lambda _: np.array([2, 1]), grad=False, axis=0)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((2,),), {}, "getnnz: a csr matrix and axis=0, 1 or None are needed, got (2,), axis=None")]
