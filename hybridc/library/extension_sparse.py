"""Calls of an operator of a library with sparse arrays: it gets values and indices, and asks for those of outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, c_int, c_int64, c_void_p, cast
from typing import Any

import numpy as np

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.library.extension_call import Call
from hybridc.library.extension_compute import CallFrame
from hybridc.sparse_storage import STORAGE_TYPES, CsrStorage, RowSparseStorage, SparseStorage

_Pointers = POINTER(c_void_p)
_Malloc = CFUNCTYPE(None, c_void_p, c_int, c_int, c_int, _Pointers, _Pointers, _Pointers)


class _Outputs:
    """The outputs of a call: dense ones are arrays from the start, sparse ones are made when the library asks."""

    def __init__(self, shapes: Sequence[Shape], dtypes: Sequence[DType], stypes: Sequence[str]) -> None:
        self.shapes, self.dtypes, self.stypes = shapes, dtypes, stypes
        self.found: list[Any] = [
            np.empty(shape if stype == "default" else 0, dtype)
            for shape, dtype, stype in zip(shapes, dtypes, stypes, strict=True)
        ]

    def allocate(self, index: int, count: int, ends: int) -> tuple[int, int, int]:
        """The addresses of new values and indices, and, of a csr matrix, of the ends of its rows, for an output."""
        shape, dtype, stype = self.shapes[index], self.dtypes[index], self.stypes[index]
        indices = np.zeros(count, np.int64)
        if stype == "csr":
            self.found[index] = made = CsrStorage(shape, np.zeros(count, dtype), indices, np.zeros(ends, np.int64))
            return made.data.ctypes.data, indices.ctypes.data, made.indptr.ctypes.data
        values = np.zeros((count, *shape[1:]), dtype)
        self.found[index] = RowSparseStorage(shape, values, indices)
        return values.ctypes.data, indices.ctypes.data, 0


def run(
    call: Call, buffers: Sequence[Any], shapes: Sequence[Shape], dtypes: Sequence[DType], stypes: Sequence[str]
) -> list[Any]:
    """The outputs of an operator, of these shapes, dtypes and storage types, for dense and sparse inputs."""
    outputs = _Outputs(shapes, dtypes, stypes)
    ins = tuple([(x.shape, x.dtype) for x in buffers])
    frame = CallFrame(call, call.for_cpu(call.op.forward), ins, tuple(zip(shapes, dtypes, strict=True)))
    given = [_values(x) for x in buffers]
    keep: list[Any] = [given]
    for i, x in enumerate(buffers):
        if isinstance(x, SparseStorage):
            keep.append(_enter(frame.inputs.arrays, i, x))
    for i, stype in enumerate(stypes):
        frame.outputs.arrays["storage_types"][i] = STORAGE_TYPES.index(stype)
    failed: list[Exception] = []

    def malloc(_: Any, index: int, count: int, ends: int, data: Any, indices: Any, indptr: Any) -> None:
        try:
            addresses = outputs.allocate(index, count, ends)
        except Exception as error:
            failed.append(error)
            return
        for pointer, address in zip((data, indices, indptr), addresses, strict=True):
            if pointer and address:
                pointer[0] = address

    callback = _Malloc(malloc)
    frame.give_sparse_memory(cast(callback, c_void_p).value)
    done = frame.run(given, [x.data if isinstance(x, SparseStorage) else x for x in outputs.found])
    if failed:
        raise MXNetError(f"custom operator '{call.name}': a sparse output cannot be made: {failed[0]}") from failed[0]
    call.check(done, "FCompute")
    for i, (x, stype) in enumerate(zip(outputs.found, stypes, strict=True)):
        if stype != "default" and isinstance(x, np.ndarray):
            raise MXNetError(
                f"custom operator '{call.name}': it did not ask for memory of output {i}, which is {stype}; call "
                "OpResource::alloc_sparse"
            )
        if isinstance(x, SparseStorage):
            x.check(False)
    return outputs.found


def _values(x: Any) -> Any:
    values = x.data if isinstance(x, SparseStorage) else x
    return values if values.flags.carray else np.array(values, order="C")


def _enter(arrays: dict[str, Any], i: int, x: SparseStorage) -> list[Any]:
    """Put the indices of a sparse input into the C arrays of a call; the result must live as long."""
    indices = np.ascontiguousarray(x.indices, np.int64)
    arrays["storage_types"][i] = STORAGE_TYPES.index(x.stype)
    arrays["indices"][i] = indices.ctypes.data
    arrays["indices_lengths"][i] = c_int64(math.prod(indices.shape)).value
    if not isinstance(x, CsrStorage):
        return [indices]
    ends = np.ascontiguousarray(x.indptr, np.int64)
    arrays["indptr"][i] = ends.ctypes.data
    arrays["indptr_lengths"][i] = len(ends)
    return [indices, ends]
