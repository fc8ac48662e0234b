"""Arrays in the memory of a card."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.runtime.devices.device import Buffer

if TYPE_CHECKING:
    from hybridc.lower.planned import View
    from hybridc.runtime.devices.card import Card

DType = np.dtype[Any]


class DeviceArray:
    """Elements in C order from an address on; the buffer, which others may share, is kept alive."""

    __slots__ = ("__weakref__", "_buffer", "device", "dtype", "pointer", "shape")

    def __init__(self, device: Card, buffer: Buffer, pointer: int, shape: Sequence[int], dtype: DType) -> None:
        self.device = device
        self.pointer = pointer
        self.shape = tuple(shape)
        self.dtype = dtype
        self._buffer = buffer

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def numpy(self) -> npt.NDArray[Any]:
        """The values, copied to the host when they are there."""
        made = np.empty(self.shape, self.dtype)
        if made.nbytes:
            self.device.download(made, self.pointer)
        return made

    def copy(self) -> DeviceArray:
        """The same values in memory of their own."""
        made = self.device.empty(self.shape, self.dtype)
        made.write(self)
        return made

    def write(self, source: Any) -> None:
        """Take the values of an array of the same shape and element type, there or on the host."""
        if not self.nbytes:
            return
        if isinstance(source, DeviceArray):
            self.device.copy(self.pointer, source.pointer, self.nbytes)
        else:
            self.device.upload(self.pointer, np.ascontiguousarray(source, self.dtype))

    def reshape(self, shape: Sequence[int]) -> DeviceArray:
        """The same elements in another shape."""
        if math.prod(shape) != self.size:
            raise ValueError(f"{self.size} elements do not fit the shape {tuple(shape)}")
        return self.part(0, shape)

    def part(self, start: int, shape: Sequence[int]) -> DeviceArray:
        """Elements that follow each other, from the ``start``-th on, in a shape."""
        pointer = self.pointer + start * self.dtype.itemsize
        return DeviceArray(self.device, self._buffer, pointer, shape, self.dtype)

    def over(self, view: View) -> DeviceArray:
        """What a view shows of this memory; a copy, if its elements do not follow each other."""
        base = DeviceArray(self.device, self._buffer, self.pointer + view.offset, view.shape, view.dtype)
        return base if view.is_plain else self.device.gathered(base.pointer, view)

    def shares_memory(self, other: DeviceArray) -> bool:
        """Whether some byte belongs to both."""
        return self.pointer < other.pointer + other.nbytes and other.pointer < self.pointer + self.nbytes

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} at {self.pointer:#x} of {self.device!r}>"


class DeviceWorkspace(DeviceArray):
    """The arena of a program, and what its host steps keep."""

    __slots__ = ("cells",)

    def __init__(self, device: Card, arena: int) -> None:
        buffer = device.allocate(arena)
        super().__init__(device, buffer, buffer.pointer, (arena,), np.dtype(np.uint8))
        self.cells: dict[Any, Any] = {}
