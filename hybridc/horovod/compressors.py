"""Compression of gradients on their way between ranks."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.dtypes import is_float


class Compressor:
    """Makes an array smaller for the way to other ranks: the interface of those that users write."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        """What goes to the other ranks for ``tensor``, and what :meth:`decompress` needs to know."""
        raise NotImplementedError("a Compressor defines compress(tensor)")

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        """The array again.

        Parameters
        ----------
        tensor:
            The sum over ranks of what :meth:`compress` gave.
        ctx:
            What that gave besides.
        """
        raise NotImplementedError("a Compressor defines decompress(tensor, ctx)")


class NoneCompressor(Compressor):
    """Arrays go as they are."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        return tensor


class FP16Compressor(Compressor):
    """Floating point goes in half precision; it is summed in single precision, and rounded once after that."""

    @staticmethod
    def compress(tensor: NDArray) -> tuple[NDArray, Any]:
        return (tensor.astype("float16", copy=False) if is_float(np.dtype(tensor.dtype)) else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: NDArray, ctx: Any) -> NDArray:
        return tensor.astype(ctx, copy=False)


class Compression:
    """The compressions that there are."""

    none: ClassVar[type[Compressor]] = NoneCompressor
    fp16: ClassVar[type[Compressor]] = FP16Compressor
