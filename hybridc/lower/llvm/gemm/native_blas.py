"""The BLAS that native code calls by pointer: a private, single-threaded copy of OpenBLAS, through CBLAS.

Our own threads share a matmul, so the library must not start threads. It is loaded with local symbols:
NumPy's and SciPy's copies keep their threads.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hybridc.dialects.operator_attribute import DType
from hybridc.ground import limits
from hybridc.ground.locks import ForkLock

# The gemm routine of each dtype, in CBLAS with 32-bit sizes.
GEMM: Mapping[DType, str] = {
    np.dtype(np.float32): "scipy_cblas_sgemm",
    np.dtype(np.float64): "scipy_cblas_dgemm",
}
# Address space for the library and its buffers: without it OpenBLAS ends the process.
_ADDRESSES = 128 << 20


def addresses() -> Mapping[str, int]:
    """Addresses of the routines of :data:`GEMM` by name; empty if there is no BLAS."""
    with _LOCK.current:  # to load it changes the environment for a moment
        return _addresses()


_LOCK = ForkLock()


@functools.cache
def _addresses() -> Mapping[str, int]:
    library = _library()
    if library is None:
        return {}
    return {name: ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in GEMM.values()}


def is_there() -> bool:
    """Whether there is a BLAS to call."""
    return bool(addresses())


def _library() -> ctypes.CDLL | None:
    """The library, set to one thread."""
    path, left = _path(), limits.address_space_left()
    if path is None or (left is not None and left < _ADDRESSES):
        return None
    try:
        with limits.one_thread_of_blas():
            library = ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)
        library.scipy_openblas_set_num_threads(1)
    except (OSError, AttributeError):
        return None
    return library


def _path() -> Path | None:
    """The library's path. The package is not imported: that would load its symbols globally, before SciPy's."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    pattern = "*openblas*.dll" if sys.platform == "win32" else "libscipy_openblas*"
    return next(iter(sorted((Path(spec.origin).parent / "lib").glob(pattern))), None)
