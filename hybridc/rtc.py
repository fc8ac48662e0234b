"""``mx.rtc``: kernels in CUDA, which this version cannot compile; operators of your own are written otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.errors import UnsupportedError

__all__ = ["CudaKernel", "CudaModule"]


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"mx.rtc.{what}: this version of hybridc does not compile kernels in CUDA; an operator of mx.op runs on GPUs, "
        "mx.operator.CustomOp calls Python, and mx.library.load loads a compiled library"
    )


class CudaModule:
    """``CudaModule(source, options, exports)``: kernels in CUDA; making one raises, and says what to use instead."""

    def __init__(self, source: str, options: str | Sequence[str] = (), exports: str | Sequence[str] = ()) -> None:
        raise _unsupported("CudaModule")


class CudaKernel:
    """``CudaKernel(handle, name, is_ndarray, dtypes)``: of a CudaModule; making one raises, and says what to use."""

    def __init__(self, handle: Any, name: str, is_ndarray: Sequence[bool], dtypes: Sequence[Any]) -> None:
        raise _unsupported("CudaKernel")
