"""Calls of an operator of a library with sparse arrays: it gets values and indices, and asks for those of outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, c_int, c_int64, c_void_p, cast
from typing import Any

import numpy as np

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.library.extension_call import Call, ExtensionState
from hybridc.library.extension_compute import CallFrame
from hybridc.sparse_storage import (
    STORAGE_TYPES,
    CsrStorage,
    RowSparseStorage,
    SparseStorage,
    converted,
    stype_of,
    zeros,
)

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


def forward(call: Call, buffers: Sequence[Any], state: ExtensionState | None = None) -> list[Any]:
    """The outputs of an operator for dense and sparse inputs, which its InferSType takes."""
    if call.mutated:
        raise MXNetError(f"custom operator '{call.name}': one that writes into inputs takes dense arrays alone")
    stypes = call.infer_storage([stype_of(x) for x in buffers])
    assert stypes is not None, "asked for before"
    shapes = [s or () for s in call.infer_shape([x.shape for x in buffers])[1]]
    outputs = _Outputs(shapes, call.known_types([x.dtype for x in buffers])[1], stypes)
    if state is None:
        _run(call, call.for_cpu(call.op.forward), buffers, outputs)
    else:
        _run(call, None, buffers, outputs, state.forward, state.pointer)
    for i, (x, stype) in enumerate(zip(outputs.found, stypes, strict=True)):
        if stype != "default" and isinstance(x, np.ndarray):
            raise MXNetError(
                f"custom operator '{call.name}': it did not ask for memory of output {i}, which is {stype}; call "
                "OpResource::alloc_sparse"
            )
    return outputs.found


def backward(
    call: Call,
    ograds: Sequence[Any],
    inputs: Sequence[Any],
    results: Sequence[Any],
    state: ExtensionState | None = None,
) -> list[Any]:
    """The gradients of all inputs, in the storage types that InferSType says of gradients, inputs and results.

    Gradients of sparse results are sparse, too. A sparse gradient for which the library asks no memory is zero.
    """
    ograds = [converted(g, stype_of(y)) for g, y in zip(ograds, results, strict=True)]
    buffers = [*ograds, *inputs, *results]
    stypes = call.infer_storage([stype_of(x) for x in buffers], len(inputs))
    if stypes is None:
        raise MXNetError(f"custom operator '{call.name}': its InferSType takes none of these storage types backwards")
    outputs = _Outputs([x.shape for x in inputs], [x.dtype for x in inputs], stypes)
    if state is None:
        _run(call, call.for_cpu(call.op.backward), buffers, outputs)
    else:
        _run(call, None, buffers, outputs, state.backward, state.pointer)
    return [
        zeros(stype, like.shape, like.dtype) if stype != "default" and isinstance(x, np.ndarray) else x
        for x, like, stype in zip(outputs.found, inputs, stypes, strict=True)
    ]


def _run(call: Call, function: int | None, buffers: Sequence[Any], outputs: _Outputs, *state: Any) -> None:
    """Call a function of an operator, or of its state, which computes the outputs."""
    ins = tuple([(x.shape, x.dtype) for x in buffers])
    frame = CallFrame(call, function, ins, tuple(zip(outputs.shapes, outputs.dtypes, strict=True)))
    given = [_values(x) for x in buffers]
    keep: list[Any] = [given]
    for i, x in enumerate(buffers):
        if isinstance(x, SparseStorage):
            keep.append(_enter(frame.inputs.arrays, i, x))
    for i, stype in enumerate(outputs.stypes):
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
    done = frame.run(given, [x.data if isinstance(x, SparseStorage) else x for x in outputs.found], *state)
    if failed:
        raise MXNetError(f"custom operator '{call.name}': a sparse output cannot be made: {failed[0]}") from failed[0]
    call.check(done, "FStatefulCompute" if state else "FCompute")
    for x in outputs.found:
        if isinstance(x, SparseStorage):
            x.check(False)


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
