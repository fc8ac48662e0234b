"""Matmuls by cuBLAS, if the library is there: with PyTorch, with CuPy, or with CUDA itself."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from hybridc.dtypes import wide
from hybridc.errors import DeviceError
from hybridc.ir.library_matmul import LibraryMatmul
from hybridc.runtime.devices.nvidia.library_files import loaded

if TYPE_CHECKING:
    from hybridc.runtime.devices.nvidia.cuda import Cuda

_VERSIONS = (13, 12, 11)  # of the library's file, in the order in which they are tried
_MATRIX = (c_void_p, c_int, c_int, c_int64)  # address, data type, leading dimension, batch stride
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (ctypes.POINTER(c_void_p),),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, c_size_t),
    "cublasSetMathMode": (c_void_p, c_int),
    "cublasGemmStridedBatchedEx": (
        *(c_void_p, c_int, c_int, c_int, c_int, c_int),  # handle, transpositions, m, n, k
        *(c_void_p, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX),  # alpha, A, B, beta, C
        *(c_int, c_int, c_int),  # batch count, compute type, algorithm
    ),
}
# Constants of library_types.h and cublas_api.h.
KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
SINGLE, DOUBLE, TF32 = 68, 70, 77
# No reduced-precision accumulation of half-precision sums.
WHOLE_SUMS = 16
DEFAULT = -1
# Workspace of matmuls in a recording, as cuBLAS itself takes: on Hopper and later, on older GPUs.
WORKSPACE, OLD_WORKSPACE = 32 << 20, 4 << 20


class Cublas:
    """cuBLAS on one GPU: a handle for each stream, as a handle's workspace serves one matmul at a time.

    Nothing may be allocated while capturing: the current stream's handle is used on the recorder's
    stream, with a workspace that the recording owns.
    """

    def __init__(self, gpu: Cuda, library: Any) -> None:
        self._card = gpu
        self._functions: dict[str, Any] = {}
        for name, types in FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = types
            function.restype = c_int
            self._functions[name] = function
        self._handles: dict[int, c_void_p] = {}
        self._using = threading.Lock()

    def prepare(self, product: LibraryMatmul) -> Callable[[Sequence[int]], None] | None:
        """The matmul as a function of the addresses of its matrices; None if cuBLAS does not have it."""
        factors, result = product.dtypes
        names = [dtype.name for dtype in product.dtypes]
        if names[0] not in KINDS or result not in (factors, wide(factors)):
            return None
        kinds = [KINDS[names[0]], KINDS[names[0]], KINDS[names[1]]]
        double = names[0] == "float64"
        scalar = c_double if double else c_float
        one, zero = scalar(1), scalar(0)
        single = TF32 if product.tf32 and names[0] == "float32" else SINGLE
        a, b, c = [(kind, m.apart, m.batch) for kind, m in zip(kinds, product.matrices, strict=True)]
        transposed = [int(m.transposed) for m in product.matrices[:2]]
        sizes = (product.m, product.n, product.k)
        last = (product.batches, DOUBLE if double else single, DEFAULT)
        named = f"a product of {product.batches} times {product.m}x{product.n}, {product.k} terms, by NVIDIA's BLAS"

        def run(pointers: Sequence[int]) -> None:
            first, second, result = pointers
            operands = (byref(one), first, *a, second, *b, byref(zero), result, *c)
            with self._card.current, self._using, self._lent() as handle:
                self._call("cublasGemmStridedBatchedEx", handle, *transposed, *sizes, *operands, *last)
            self._card.asked.of[self._card.order].append(named)

        return run

    @contextmanager
    def _lent(self) -> Generator[c_void_p]:
        """The current stream's handle, set to the stream that launches go to now."""
        gpu, handle = self._card, self._handle()
        stream, order = gpu.stream, gpu.order
        if order == stream:
            yield handle
            return
        memory = gpu.recorded_memory(WORKSPACE if gpu.capability >= (9, 0) else OLD_WORKSPACE)
        self._call("cublasSetStream_v2", handle, order)
        try:
            self._call("cublasSetWorkspace_v2", handle, memory.pointer, memory.nbytes)
            yield handle
        finally:
            self._call("cublasSetStream_v2", handle, stream)  # which also restores the library's own workspace

    def _handle(self) -> c_void_p:
        """The current stream's handle."""
        stream = self._card.stream
        handle = self._handles.get(stream)
        if handle is None:
            handle = c_void_p()
            self._call("cublasCreate_v2", byref(handle))
            self._call("cublasSetStream_v2", handle, stream)
            self._call("cublasSetMathMode", handle, WHOLE_SUMS)
            self._handles[stream] = handle
        return handle

    def _call(self, name: str, *arguments: Any) -> None:
        error = self._functions[name](*arguments)
        if error:
            raise DeviceError(f"{name} of cuBLAS failed with error {error}")


@functools.cache
def cublas_library() -> Any:
    """The cuBLAS library; None if there is none."""
    return loaded([f"libcublas.so.{version}" for version in _VERSIONS], FUNCTIONS)
