"""The BLAS that native code calls by pointer: OpenBLAS with the public C interface, a copy of our own on one thread.

Our own threads share a product among them, so the library must not start threads. It is opened so that nobody else's
symbols become these: NumPy's and SciPy's copies keep their threads.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hybridc.dialects.attribute import DType

# The product of each dtype, in CBLAS's interface with 32-bit sizes.
GEMM: Mapping[DType, str] = {
    np.dtype(np.float32): "scipy_cblas_sgemm",
    np.dtype(np.float64): "scipy_cblas_dgemm",
}
# The largest size or leading dimension that fits the interface.
LARGEST = 2**31 - 1


@functools.cache
def addresses() -> Mapping[str, int]:
    """Where the routines of :data:`GEMM` are, by name; empty if there is no BLAS."""
    library = _library()
    if library is None:
        return {}
    return {name: ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in GEMM.values()}


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The library, on one thread."""
    path = _path()
    if path is None:
        return None
    try:
        library = ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)
        library.scipy_openblas_set_num_threads(1)
    except (OSError, AttributeError):
        return None
    return library


def _path() -> Path | None:
    """The library's file. The package is not imported: that would put its symbols in front of SciPy's."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    pattern = "*openblas*.dll" if sys.platform == "win32" else "libscipy_openblas*"
    return next(iter(sorted((Path(spec.origin).parent / "lib").glob(pattern))), None)
