"""``mx.util``: which semantics arrays have. Only MXNet's legacy ``nd`` semantics exist here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hybridc.context import num_gpus
from hybridc.errors import UnsupportedError

T = TypeVar("T", bound=Callable[..., Any])

__all__ = [
    "get_gpu_count",
    "is_np_array",
    "is_np_default_dtype",
    "is_np_shape",
    "reset_np",
    "set_np",
    "use_np",
]


def is_np_array() -> bool:
    """Whether ``mx.np`` arrays are used: no."""
    return False


def is_np_shape() -> bool:
    """Whether 0 in a shape is a size and not unknown: no."""
    return False


def is_np_default_dtype() -> bool:
    """Whether float64 is the default dtype: no, float32 is."""
    return False


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Not offered: ``mx.np`` does not exist in this version; use ``mx.nd``."""
    if shape or array or dtype:
        raise UnsupportedError("set_np: mx.np arrays are not supported by this version; use mx.nd")


def reset_np() -> None:
    """Nothing to reset: legacy semantics are the only ones."""


def use_np(func: T) -> T:
    """Not offered, see :func:`set_np`."""
    raise UnsupportedError(f"use_np on {func!r}: mx.np arrays are not supported by this version; use mx.nd")


def get_gpu_count() -> int:
    """Number of GPUs on which arrays can be."""
    return num_gpus()
