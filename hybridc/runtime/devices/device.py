"""What hybridc asks of a device: memory, copies, an order of work, and launches of Triton functions."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.errors import DeviceError
from hybridc.lower.triton.texts import copy_phase, fill_phase
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory

if TYPE_CHECKING:
    from hybridc.ir.native_plan import PlainArray
    from hybridc.ir.planned import SlotView
    from hybridc.lower.triton.launches import LibraryProduct

# Bytes of an array up to which it is copied to a device with others, and to which their beginnings are aligned.
_SMALL = 4096
_APART = 16

#: Runs a prepared function, given the addresses of its buffers and its numbers.
Launch = Callable[[Sequence[int], Sequence[int]], None]


class Event(ABC):
    """A moment in a device's work."""

    @abstractmethod
    def record(self) -> None:
        """This moment is when all work that was asked for so far is done."""

    @abstractmethod
    def since(self, earlier: Event) -> float:
        """Milliseconds from an earlier event to this one, for which it waits."""


def packed_size(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """The bytes that small arrays take, where they are put together."""
    return sum(_padded(x.nbytes) for x in arrays if x.nbytes <= _SMALL)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _APART) * _APART


class Device(ABC):
    """A device: its work is done in the order in which it was asked for, and perhaps later than the call returns.

    ``capability`` is the version of its instructions, as (9, 0); of ``multiprocessors`` each runs programs of its own.
    """

    #: Whether its memory is the host's, and its work done when a call returns, so that NumPy can work on its arrays.
    is_host: bool = False
    #: Whether it can ``record``.
    records: bool = False

    name: str
    index: int
    capability: tuple[int, int]
    multiprocessors: int

    # --- memory --------------------------------------------------------------------------------------------

    @abstractmethod
    def allocate(self, nbytes: int) -> DeviceMemory:
        """Uninitialised memory whose address is divisible by 256.

        Raises:
            DeviceMemoryError: there is not as much.
        """

    @abstractmethod
    def upload(self, target: int, source: npt.NDArray[Any]) -> None:
        """Copy a contiguous array to an address of the device; the array may be changed afterwards."""

    @abstractmethod
    def download(self, target: npt.NDArray[Any], source: int) -> None:
        """Copy from an address of the device into a contiguous array, which then is complete."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """The bytes of its memory that nobody has, and all; what a pool keeps for the next arrays, somebody has."""

    def fill(self, target: int, dtype: Any, size: int, number: int) -> None:
        """Put 0 or 1 into so many elements."""
        phase = fill_phase(np.dtype(dtype), size, str(number), 0)
        self.launch(phase.function, phase.configs[0], (target,), phase.numbers)

    # --- order ---------------------------------------------------------------------------------------------

    @abstractmethod
    def synchronise(self) -> None:
        """Return when all work of the current stream is done.

        Raises:
            DeviceError: some of it failed.
        """

    def finish(self) -> None:
        """Return when all work of all streams is done.

        Raises:
            DeviceError: some of it failed.
        """
        self.synchronise()

    @property
    @abstractmethod
    def stream(self) -> int:
        """The device's handle of the order of work; 0 is its default."""

    @abstractmethod
    def event(self) -> Event:
        """A new event."""

    def retire(self, let_go: Callable[[], None]) -> None:
        """Call something once all work that was asked for so far is done; if there may be some, that is later."""
        let_go()

    # --- functions -----------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, function: TritonFunction, config: Config) -> Launch:
        """The function made ready to run in this way."""

    def launch(self, function: TritonFunction, config: Config, pointers: Sequence[int], numbers: Sequence[int]) -> None:
        """Run a function once."""
        self.prepare(function, config)(pointers, numbers)

    def multiply(self, product: LibraryProduct) -> Callable[[Sequence[int]], None] | None:
        """A product by a library, as a function of the addresses of its three matrices; None if there is none."""
        return None

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Make one of what ``work`` launches, in its order and at its addresses, without running it now.

        Raises:
            DeviceError: the device does not do that.
        """
        raise DeviceError(f"{self.name} runs each launch when it is asked for")

    # --- arrays --------------------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: Any) -> DeviceArray:
        """An array whose values are whatever was in its memory."""
        buffer = self.allocate(math.prod(shape) * np.dtype(dtype).itemsize)
        return DeviceArray(self, buffer, buffer.pointer, shape, dtype)

    def put(self, array: npt.NDArray[Any]) -> DeviceArray:
        """A contiguous array of NumPy's as one of the device; the same memory, if that is the device's."""
        made = self.empty(array.shape, array.dtype)
        made.write(array)
        return made

    def put_together(self, arrays: Sequence[npt.NDArray[Any]], into: DeviceMemory | None = None) -> list[DeviceArray]:
        """Contiguous arrays of NumPy's as arrays of the device: small ones, as an optimizer's numbers, by one copy.

        It goes into memory that is given, if that is large enough.
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
        """Whether this is an array of the device, of a shape and an element type."""
        return array.device is self and array.shape == tuple(spec.shape) and array.dtype == spec.dtype

    def gathered(self, pointer: int, view: SlotView) -> DeviceArray:
        """The elements that a view shows of memory that begins at an address, in C order."""
        made = self.empty(view.shape, view.dtype)
        phase = copy_phase(view.dtype, view.shape, view.strides, 0, 1)
        self.launch(phase.function, phase.configs[0], (pointer, made.pointer), phase.numbers)
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.index}: {self.name}>"
