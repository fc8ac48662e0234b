"""CUDA code compiled at run time, ``mx.rtc``: not offered; :mod:`hybridc.op` is the way to kernels of your own."""

from __future__ import annotations

from typing import Any, NoReturn

from hybridc.errors import UnsupportedError

__all__ = ["CudaKernel", "CudaModule"]


def _refuse(name: str) -> NoReturn:
    raise UnsupportedError(
        f"mx.rtc.{name}: this version of hybridc does not compile CUDA code; write the operator once with mx.op (it is "
        "compiled for CPUs and GPUs), load a compiled one with mx.library.load, or use mx.operator.CustomOp"
    )


class CudaModule:
    """Raises: CUDA code is not compiled."""

    def __init__(self, source: str, options: Any = (), exports: Any = ()) -> None:
        _refuse("CudaModule")


class CudaKernel:
    """Raises: CUDA code is not compiled."""

    def __init__(self, handle: Any, name: str, is_ndarray: Any, dtypes: Any) -> None:
        _refuse("CudaKernel")
