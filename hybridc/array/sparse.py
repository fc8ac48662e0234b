"""Sparse arrays, and the application of operators to them: on their storage, or on dense copies with a warning."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.array.dispatch import as_ndarray, check_out, in_context, ran
from hybridc.array.ndarray import NDArray, check_unrecorded, plain, recorded_copy
from hybridc.array.numpy_array import legacy
from hybridc.autograd import record_operator
from hybridc.context import Context, check_device
from hybridc.errors import (
    MXNetError,
    NotSupportedForSparseNDArray,
    ShapeError,
    UnsupportedError,
)
from hybridc.ground.display.arguments_text import typed
from hybridc.ground.events import RECORDER, now
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_location
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE
from hybridc.ground.watches import written
from hybridc.sparse_storage import SparseStorage, converted, stype_of, zeros

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator

_WARNED: set[tuple[str, tuple[str, ...]]] = set()  # the fallbacks that were told


class BaseSparseNDArray(NDArray):
    """The base of sparse arrays, whose buffer is a :class:`SparseStorage`.

    Parameters
    ----------
    data:
        The storage; :func:`hybridc.nd.sparse.csr_matrix` and the like make arrays.
    """

    __slots__ = ()
    _data: Any

    def __init__(self, data: Any) -> None:
        super().__init__(data)

    @property
    def stype(self) -> str:
        """The storage type, ``'csr'`` or ``'row_sparse'``."""
        return self._data.stype

    @property
    def data(self) -> NDArray:
        """A copy of the stored values."""
        return NDArray(self._data.data.copy())

    @property
    def indices(self) -> NDArray:
        """A copy of the indices: the column of each value, or the numbers of the stored rows."""
        return NDArray(self._data.indices.copy())

    @property
    def _num_aux(self) -> int:
        return len(self._data.auxiliary)

    @property
    def _aux_types(self) -> list[Any]:
        return [a.dtype.type for a in self._data.auxiliary]

    def _aux_data(self, i: int) -> NDArray:
        return NDArray(self._data.auxiliary[i].copy())

    @property
    def writable(self) -> bool:
        """True: values can be assigned, by ``x[:] = y``."""
        return True

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n<{type(self).__name__} {shape} @{self.context}>"

    def _repr_html_(self) -> str:
        """What is stored; the elements are not made dense for a look."""
        from hybridc.ground.display.html import line

        stored = f"{self._data.data.size:,} of {self.size:,} elements stored"
        return line(f"{type(self).__name__} {typed(self.dtype, self.shape)} @{self.context}, {stored}")

    def _numbers(self) -> Any:
        if STATE.trace is not None and STATE.reading is not None:
            STATE.reading.numbers(self)
        return self._data.dense()

    def asnative(self) -> Any:
        """A dense NumPy copy of the values: there is no buffer of them."""
        return self._numbers()

    def as_np_ndarray(self) -> Any:
        """Raises: arrays of ``mx.np`` are dense."""
        raise NotSupportedForSparseNDArray(self.as_np_ndarray, None)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Raises: sparse arrays have no other shape."""
        raise NotSupportedForSparseNDArray(self.reshape, None, *shape)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """The values in another dtype, at the same places.

        Parameters
        ----------
        dtype:
            The element type.
        copy:
            If False, the array itself where it has the dtype.
        """
        if not copy and np.dtype(dtype) == self._data.dtype:
            return self
        return recorded_copy(self, wrap_sparse(self._data.astype(dtype)))

    def copy(self) -> NDArray:
        """An array with the same values in memory of its own."""
        return recorded_copy(self, self._like(self._data.copy()))

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy the values into another array, dense or of this storage type, or to a device."""
        if isinstance(other, Context):
            if check_device(other).device_type == "gpu":
                raise UnsupportedError(f"{type(self).__name__}: sparse arrays are on the CPU alone")
            return self.copy()
        return super().copyto(other)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError unless indices and values fit together.

        Parameters
        ----------
        full_check:
            Look at all indices, not at their number alone.
        """
        self._data.check(full_check)

    def _inplace(self, name: str, ufunc: Any, other: Any) -> NDArray:
        check_unrecorded(self)
        result = HOOKS.function(name)(self, other)
        if result.stype != self.stype:
            raise MXNetError(f"{name} in place: the result is dense, and the array is {self.stype}; write x = …")
        assign(result._data, self)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """``x[:] = value``: of an array of this storage type, a dense one, or what ``mx.nd.array`` takes."""
        if key not in (slice(None), ...):
            raise ValueError(f"{type(self).__name__}: only x[:] can be assigned")
        check_unrecorded(self)
        if isinstance(value, bool | int | float | np.generic):
            if not value:
                self._data = zeros(self.stype, self.shape, self._data.dtype)
                return
            value = np.full(self.shape, value, self._data.dtype)
        if not isinstance(value, NDArray):
            value = NDArray(np.asarray(value))
        if value.shape != self.shape:
            raise ShapeError(f"an array of shape {value.shape} is assigned to one of shape {self.shape}")
        assign(value._data, self)

    def _zeros(self, stype: str) -> NDArray:
        return wrapped(zeros(stype, self.shape, self._data.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap_sparse, (self._data.copy(),)


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed rows: ``data`` are its values, ``indices`` their columns, ``indptr`` where rows end."""

    __slots__ = ()

    @property
    def indptr(self) -> NDArray:
        """A copy of the ends of rows: those of row i are from ``indptr[i]`` to ``indptr[i + 1]``."""
        return NDArray(self._data.indptr.copy())

    def asscipy(self) -> Any:
        """The matrix as one of SciPy, with values of its own."""
        return self._data.copy().matrix()

    def __getitem__(self, key: Any) -> Any:
        """Rows: ``x[i]`` is a matrix of one row, ``x[i:j]`` of several."""
        rows = self.shape[0]
        if isinstance(key, tuple):
            raise ValueError("CSRNDArray: rows alone can be chosen, as x[i] or x[i:j]")
        if isinstance(key, slice):
            begin, end, step = key.indices(rows)
            if step != 1:
                raise ValueError("CSRNDArray: rows can be chosen one after the other alone, x[i:j]")
            return self if key == slice(None) else HOOKS.function("slice")(self, begin=(begin,), end=(max(begin, end),))
        if not isinstance(key, int | np.integer):
            raise ValueError(f"CSRNDArray: rows are chosen by numbers, as x[i] or x[i:j], got {key!r}")
        key = int(key)  # pyright: ignore[reportUnknownArgumentType]
        if not -rows <= key < rows:
            raise IndexError(f"index {key} is out of range for an array of {rows} rows")
        return HOOKS.function("slice")(self, begin=(key % rows,), end=(key % rows + 1,))


class RowSparseNDArray(BaseSparseNDArray):
    """An array most of whose rows are zero: ``data`` are the other rows, ``indices`` their numbers, which rise."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        """``x[:]``; single rows cannot be chosen."""
        if key not in (slice(None), ...):
            raise ValueError("RowSparseNDArray: only x[:] can be read; x.retain(rows) keeps some rows")
        return self

    def retain(self, indices: NDArray) -> NDArray:
        """These rows alone; others are zero.

        Parameters
        ----------
        indices:
            The numbers of the rows, of one axis.

        Examples
        --------
        >>> x = mx.nd.sparse.row_sparse_array(([[1], [2]], [0, 3]), shape=(4, 1))
        >>> x.retain(mx.nd.array([3, 1])).indices.tolist()
        [1, 3]
        """
        return HOOKS.function("sparse_retain")(self, indices)


_CLASSES = {"csr": CSRNDArray, "row_sparse": RowSparseNDArray}


def wrap_sparse(storage: SparseStorage) -> BaseSparseNDArray:
    """The array of a sparse storage."""
    return _CLASSES[storage.stype](storage)  # pyright: ignore[reportArgumentType]


def wrapped(buffer: Any) -> NDArray:
    """The array of a buffer, dense or sparse."""
    return wrap_sparse(buffer) if isinstance(buffer, SparseStorage) else NDArray(np.asarray(buffer))


def assign(buffer: Any, target: NDArray) -> None:
    """Give an array the values of a buffer, in its own storage type and dtype."""
    if isinstance(target, BaseSparseNDArray):
        values = converted(buffer, target.stype)
        same = values.dtype == target._data.dtype
        target._data = values.copy() if same else values.astype(target._data.dtype)
        return
    np.copyto(target._data, converted(buffer, "default"), casting="unsafe")
    written(target._data)


def assign_gradient(leaf: Any, grad: NDArray | None) -> None:
    """Put a gradient into the buffer of a variable, or add it there: None is zero."""
    if grad is None:
        if leaf.req == "write":
            assign(zeros(leaf.grad.stype, leaf.grad.shape, leaf.grad.dtype), leaf.grad)
        return
    with HOOKS.autograd().pause():
        assign((grad if leaf.req == "write" else leaf.grad + grad)._data, leaf.grad)


def cast_storage(x: NDArray, stype: str) -> NDArray:
    """An array in another storage type."""
    return HOOKS.function("cast_storage")(x, stype=stype)


# --- operators --------------------------------------------------------------------------------------------------------


def invoke_sparse(op: Operator, inputs: Sequence[Any], out: Any = None) -> Any:
    """Apply an operator to inputs of which some are sparse: on their storage if it can, else on dense copies."""
    first = next(x for x in inputs if isinstance(x, BaseSparseNDArray))
    arrays = [as_ndarray(op, plain(legacy(x)) if isinstance(x, NDArray) else x, first._data.dtype) for x in inputs]
    for x in arrays:
        if type(x) is not NDArray and not isinstance(x, BaseSparseNDArray):
            raise UnsupportedError(f"{op.title()}: sparse arrays are on the CPU alone, and an input is on {x.context}")
    op, arrays, _ = in_context(op, arrays)
    buffers = [x._data for x in arrays]
    stypes = op.infer_storage_type(buffers)
    outs = [] if out is None else [out] if isinstance(out, NDArray) else list(out)
    if outs and STATE.recording:
        check_out(arrays, outs)
    if stypes is None:
        warn_fallback(op, buffers)
        return _on_dense(op, arrays, outs, out)
    op.infer_shape([b.shape for b in buffers])
    begin = now() if RECORDER.operators else 0
    result: Any = op.eager_sparse(*buffers)
    if begin:
        ran(op, buffers, begin, result)
    results: tuple[Any, ...] = result if result.__class__ is tuple else (result,)
    for i, value in zip(op.mutated, results[len(results) - len(op.mutated) :], strict=True):
        if value is not buffers[i]:
            assign(value, arrays[i])
    ys = [wrapped(r) for r in results]
    visible = op.num_visible_outputs()
    for y, target in zip(ys[:visible], outs, strict=False):
        assign(y._data, target)
    if STATE.recording:
        record_operator(op, arrays, buffers, ys)
        for y, target in zip(ys, outs, strict=False):
            recorded_copy(y, target)
    return out if outs else ys[0] if visible == 1 else ys[:visible]


def _on_dense(op: Operator, arrays: Sequence[NDArray], outs: Sequence[NDArray], out: Any) -> Any:
    """Apply an operator to dense copies of sparse inputs."""
    dense: list[NDArray] = []
    for x in arrays:
        y = NDArray(x._data.dense()) if isinstance(x, BaseSparseNDArray) else x
        y._tape = x._tape
        dense.append(y)
    result: Any = HOOKS.invoke(op, dense[: len(dense) - op.DRAWS])
    for i in op.mutated:
        if dense[i] is not arrays[i]:
            assign(dense[i]._data, arrays[i])
    for x, y in zip(arrays, dense, strict=True):
        x._tape = y._tape
    if not outs:
        return result
    for y, target in zip(as_list(result), outs, strict=False):
        assign(y._data, target)
        recorded_copy(y, target)
    return out


def warn_fallback(op: Operator, buffers: Sequence[Any]) -> None:
    """Tell once, of each operator and its storage types, that it computes on dense copies."""
    stypes = tuple(map(stype_of, buffers))
    if (op.title(), stypes) in _WARNED or os.environ.get("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "1") in ("0", ""):
        return
    _WARNED.add((op.title(), stypes))
    where = user_location()
    text = (
        f"{op.title()} computes on dense copies of sparse arrays here, and its results are dense: its inputs are "
        f"{', '.join(stypes)}; MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 silences this"
    )
    warnings.warn_explicit(text, UserWarning, where.file, where.line)


HOOKS.register(assign_gradient=assign_gradient, assign_sparse=assign, cast_storage=cast_storage)
HOOKS.register(invoke_sparse=invoke_sparse, wrap_sparse=wrap_sparse)
