"""Device memory, and arrays in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.dtypes import DType
from hybridc.errors import UnsupportedError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.records import dataclass

if TYPE_CHECKING:
    from hybridc.ir.planned import SlotView
    from hybridc.runtime.devices.device import Device
    from hybridc.runtime.devices.replay import Replay


@dataclass(frozen=True, eq=False)
class DeviceMemory:
    """A buffer of a device, which is freed with this object."""

    pointer: int
    nbytes: int
    owner: Any = None


class Flags:
    """NumPy's ``numpy.ndarray.flags`` of a contiguous array."""

    c_contiguous = aligned = writeable = True


class DeviceArray:
    """A contiguous array in C order at a device address; it keeps the buffer alive, which others may share.

    It supports NumPy's functions that move values without arithmetic: ``numpy.copyto``, ``numpy.zeros_like``, …
    """

    __slots__ = ("__weakref__", "_buffer", "device", "dtype", "pointer", "shape")
    flags = Flags()

    def __init__(self, device: Device, buffer: DeviceMemory, pointer: int, shape: Sequence[int], dtype: Any) -> None:
        self.device = device
        self.pointer = pointer
        self.shape = tuple(shape)
        self.dtype: DType = np.dtype(dtype)
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

    @property
    def base(self) -> DeviceMemory:
        """The owner of the memory."""
        return self._buffer

    def __len__(self) -> int:
        return self.shape[0]

    # --- values --------------------------------------------------------------------------------------------

    def host(self) -> npt.NDArray[Any]:
        """The values as a NumPy array: a view if the memory is the host's, else a copy, after synchronising."""
        if self.device.is_host:
            return np.asarray(_HostMemory(self)).view(self.dtype)  # the interface cannot name some dtypes
        values = np.empty(self.shape, self.dtype)
        if values.nbytes:
            self.device.download(values, self.pointer)
        return values

    def memory(self) -> npt.NDArray[Any]:
        """A NumPy view; the memory must be the host's."""
        if not self.device.is_host:
            raise UnsupportedError(
                f"this needs the memory of an array on gpu({self.device.index}), which only the device can reach; "
                "use x.asnumpy() or x.as_in_context(mx.cpu()) for a copy of its values"
            )
        return self.host()

    def copy(self, order: str = "C") -> DeviceArray:
        """A contiguous copy, whatever the order."""
        copy = self.device.empty(self.shape, self.dtype)
        copy.write(self)
        return copy

    def write(self, source: Any) -> None:
        """Copy the values of an array that broadcasts, or a scalar; from the device or the host."""
        if not self.nbytes:
            return
        if isinstance(source, DeviceArray) and source.device is self.device and self._is_like(source):
            self.device.copy(self.pointer, source.pointer, self.nbytes)
            return
        if not isinstance(source, DeviceArray) and np.ndim(source) == 0 and source in (0, 1):
            self.device.fill(self.pointer, self.dtype, self.size, int(source))
            return
        values = source.host() if isinstance(source, DeviceArray) else np.asarray(source)
        if values.shape != self.shape or values.dtype != self.dtype or not values.flags.c_contiguous:
            plain = np.empty(self.shape, self.dtype)
            plain[...] = values
            values = plain
        self.device.upload(self.pointer, values)

    def _is_like(self, source: DeviceArray) -> bool:
        """Whether another array's bytes are those that this one gets of it: none is cast or repeated."""
        lead = source.ndim - self.ndim
        return source.dtype == self.dtype and source.shape == (1,) * lead + self.shape

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not Ellipsis:
            raise UnsupportedError("elements of an array on a GPU are set through its NDArray")
        self.write(value)

    def fill(self, value: Any) -> None:
        """Fill with a constant."""
        self.write(value)

    # --- views ---------------------------------------------------------------------------------------------

    def reshape(self, shape: Sequence[int]) -> DeviceArray:
        """A view in another shape."""
        if math.prod(shape) != self.size:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {tuple(shape)}")
        return self.part(0, shape)

    def part(self, start: int, shape: Sequence[int]) -> DeviceArray:
        """A view of consecutive elements from the ``start``-th on, in a shape."""
        pointer = self.pointer + start * self.dtype.itemsize
        return DeviceArray(self.device, self._buffer, pointer, shape, self.dtype)

    def over(self, view: SlotView) -> DeviceArray:
        """The elements of a slot view; a copy, if they are not contiguous."""
        base = DeviceArray(self.device, self._buffer, self.pointer + view.offset, view.shape, view.dtype)
        return base if view.is_plain else self.device.gathered(base.pointer, view)

    def shares_memory(self, other: Any) -> bool:
        """Whether the memory of two arrays overlaps."""
        if not isinstance(other, DeviceArray) or other.device is not self.device:
            return False
        return self.pointer < other.pointer + other.nbytes and other.pointer < self.pointer + self.nbytes

    # --- NumPy's functions ---------------------------------------------------------------------------------

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        served = _SERVED.get(function)
        return NotImplemented if served is None else served(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        return HOOKS.on_device().calculate(ufunc, inputs, None if out is None else out[0])

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise UnsupportedError(
            f"NumPy cannot read the memory of gpu({self.device.index}); use x.asnumpy() for a copy of the values"
        )

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} at {self.pointer:#x} of {self.device!r}>"


class DeviceWorkspace(DeviceArray):
    """A program's arena, with the operator states of host steps and the replay of calls, if there is one.

    It belongs to one ``stream``: on another, pending work may still use it.
    """

    __slots__ = ("_kept_views", "replay", "states", "stream")

    def __init__(self, device: Device, arena: int) -> None:
        buffer = device.allocate(arena)
        super().__init__(device, buffer, buffer.pointer, (arena,), np.uint8)
        self.states: dict[Any, Any] = {}
        self._kept_views: dict[Any, Any] = {}
        self.replay: Replay | None = None
        self.stream = device.stream

    def views(self, _owner: Any) -> dict[Any, Any]:
        """The views of the arena that its program keeps from call to call."""
        return self._kept_views


class _HostMemory:
    """The array interface of host memory; keeps the array alive."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.pointer, False),
        }


def _copyto(target: Any, source: Any, casting: str = "same_kind") -> None:
    if isinstance(target, DeviceArray):
        target.write(source)
    else:
        np.copyto(target, source.host(), casting=casting)  # pyright: ignore[reportArgumentType]


def _full_like(value: int) -> Callable[..., DeviceArray]:
    def make(array: DeviceArray, dtype: Any = None, order: str = "C") -> DeviceArray:  # noqa: ARG001  (always C)
        filled = array.device.empty(array.shape, array.dtype if dtype is None else np.dtype(dtype))
        filled.write(value)
        return filled

    return make


def _may_share_memory(a: Any, b: Any, *_: Any) -> bool:
    return a.shares_memory(b) if isinstance(a, DeviceArray) else b.shares_memory(a)


_SERVED: dict[Any, Callable[..., Any]] = {
    np.copyto: _copyto,
    np.zeros_like: _full_like(0),
    np.ones_like: _full_like(1),
    np.may_share_memory: _may_share_memory,
    np.shares_memory: _may_share_memory,
}
