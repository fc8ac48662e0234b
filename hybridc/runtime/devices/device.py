"""The device interface: memory, streams, and launches of Triton functions."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.errors import DeviceError
from hybridc.ground.machine import GPU, Gpu
from hybridc.lower.triton.texts import copy_launch, fill_launch
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory

if TYPE_CHECKING:
    from hybridc.communication.communicator import Begun, Communicator, Pending
    from hybridc.ir.library_matmul import LibraryMatmul
    from hybridc.ir.planned import PlainArray, SlotView

# Arrays up to so many bytes are uploaded together in one copy.
_SMALL = 4096

#: Launches a prepared function, given the addresses of its buffers and its scalar arguments.
Launch = Callable[[Sequence[int], Sequence[int]], None]


class StreamEvent(ABC):
    """A point in a stream's work."""

    @abstractmethod
    def record(self) -> None:
        """Record the work that was enqueued so far."""

    @abstractmethod
    def since(self, earlier: StreamEvent) -> float:
        """Milliseconds since an earlier event; waits for this one."""


def packed_size(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """The bytes of small arrays packed into one buffer."""
    return sum(_padded(x.nbytes) for x in arrays if x.nbytes <= _SMALL)


def _padded(nbytes: int) -> int:
    return -(-nbytes // GPU.access) * GPU.access


class Device(ABC):
    """A device with in-order, asynchronous streams.

    ``capability`` is the compute capability, as (9, 0). ``description`` is what its driver says; the nominal GPU, if
    there is no driver.
    """

    #: Whether its memory is the host's and its work synchronous, so that NumPy can use its arrays.
    is_host: bool = False
    #: Whether it supports ``record``.
    records: bool = False

    name: str
    index: int
    capability: tuple[int, int]
    description: Gpu = GPU

    # --- memory --------------------------------------------------------------------------------------------

    @abstractmethod
    def allocate(self, nbytes: int) -> DeviceMemory:
        """Uninitialised memory, aligned as the description says.

        Raises:
            DeviceMemoryError: there is not enough.
        """

    @abstractmethod
    def upload(self, target: int, source: npt.NDArray[Any]) -> None:
        """Copy a contiguous host array to the device; the array may be reused afterwards."""

    @abstractmethod
    def download(self, target: npt.NDArray[Any], source: int) -> None:
        """Copy from the device into a contiguous host array; synchronous."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Free and total bytes of memory; what a pool caches is not free."""

    def fill(self, target: int, dtype: Any, size: int, value: int) -> None:
        """Fill ``size`` elements with 0 or 1."""
        kernel_launch = fill_launch(np.dtype(dtype), size, str(value), 0)
        self.launch(kernel_launch.function, kernel_launch.configs[0], (target,), kernel_launch.numbers)

    # --- order ---------------------------------------------------------------------------------------------

    @abstractmethod
    def synchronise(self) -> None:
        """Wait for the current stream.

        Raises:
            DeviceError: some of it failed.
        """

    def finish(self) -> None:
        """Wait for all streams.

        Raises:
            DeviceError: some of it failed.
        """
        self.synchronise()

    @property
    @abstractmethod
    def stream(self) -> int:
        """The handle of the current stream; 0 is the default one."""

    @abstractmethod
    def event(self) -> StreamEvent:
        """A new event."""

    def retire(self, let_go: Callable[[], None]) -> None:
        """Call ``let_go`` once all work enqueued so far is done, perhaps later."""
        let_go()

    # --- functions -----------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, function: TritonFunction, config: Config) -> Launch:
        """The function ready to be launched with a configuration."""

    def launch(self, function: TritonFunction, config: Config, pointers: Sequence[int], numbers: Sequence[int]) -> None:
        """Launch a function once."""
        self.prepare(function, config)(pointers, numbers)

    def multiply(self, product: LibraryMatmul) -> Callable[[Sequence[int]], None] | None:
        """A contraction by a library, as a function of the addresses of its three matrices; None if there is none."""
        return None

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record the launches of ``work`` with their order and addresses, without running them now.

        Raises:
            DeviceError: the device cannot record.
        """
        raise DeviceError(f"{self.name} cannot record launches")

    # --- ranks ---------------------------------------------------------------------------------------------

    def begin_collective(
        self, ranks: Communicator, array: DeviceArray, collective: Callable[[Communicator, Any], Any]
    ) -> Begun:
        """Begin a collective on an array of this device; here, in the memory of the host, by a copy if need be.

        The array is the collective's until it was waited for. All ranks call this in the same order.
        """
        values = array.host()
        begun = ranks.start(lambda: collective(ranks, values))
        return begun if self.is_host else _CopiedBack(begun, array, values)

    # --- arrays --------------------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: Any) -> DeviceArray:
        """An uninitialised array."""
        buffer = self.allocate(math.prod(shape) * np.dtype(dtype).itemsize)
        return DeviceArray(self, buffer, buffer.pointer, shape, dtype)

    def zeros(self, size: int, dtype: Any) -> DeviceArray:
        """An array of zeros of one dimension."""
        array = self.empty((size,), dtype)
        array.fill(0)
        return array

    def put(self, array: npt.NDArray[Any]) -> DeviceArray:
        """A contiguous NumPy array as a device array; a view, if the memory is the device's."""
        copy = self.empty(array.shape, array.dtype)
        copy.write(array)
        return copy

    def put_together(self, arrays: Sequence[npt.NDArray[Any]], into: DeviceMemory | None = None) -> list[DeviceArray]:
        """Contiguous NumPy arrays as device arrays: small ones, such as an optimizer's scalars, by one copy.

        They are packed into ``into``, if that is large enough.
        """
        small = [x for x in arrays if x.nbytes <= _SMALL]
        starts = list(itertools.accumulate((_padded(x.nbytes) for x in small), initial=0))
        bytes_ = np.zeros(starts[-1], np.uint8)
        for x, start in zip(small, starts, strict=False):
            bytes_[start : start + x.nbytes] = x.reshape(-1).view(np.uint8)
        buffer = self.allocate(starts[-1]) if into is None or into.nbytes < starts[-1] else into
        self.upload(buffer.pointer, bytes_)
        places = iter(starts)
        return [
            DeviceArray(self, buffer, buffer.pointer + next(places), x.shape, x.dtype)
            if x.nbytes <= _SMALL
            else self.put(x)
            for x in arrays
        ]

    def fits(self, array: DeviceArray, spec: PlainArray) -> bool:
        """Whether this is an array of this device, of the spec's shape and dtype."""
        return array.device is self and array.shape == tuple(spec.shape) and array.dtype == spec.dtype

    def gathered(self, pointer: int, view: SlotView) -> DeviceArray:
        """A contiguous array of the elements of a view of memory at an address."""
        array = self.empty(view.shape, view.dtype)
        kernel_launch = copy_launch(view.dtype, view.shape, view.strides, 0, 1)
        self.launch(kernel_launch.function, kernel_launch.configs[0], (pointer, array.pointer), kernel_launch.numbers)
        return array

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.index}: {self.name}>"


class _CopiedBack:
    """A collective on a copy of an array; who waits for it writes the result into the array."""

    def __init__(self, begun: Pending, array: DeviceArray, values: npt.NDArray[Any]) -> None:
        self._begun, self._array, self._values = begun, array, values

    @property
    def seconds(self) -> float:
        return self._begun.seconds

    def wait(self) -> None:
        self._begun.wait()
        self._array.write(self._values)
