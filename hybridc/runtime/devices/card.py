"""A device with memory of its own: its arrays, and calls of the host amid its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.lower.planned import Cell, HostCall, View
from hybridc.runtime.devices.array import DeviceArray, DeviceWorkspace
from hybridc.runtime.devices.device import Device
from hybridc.runtime.native.plan import Array


class Card(Device):
    """A device whose arrays are :class:`~hybridc.runtime.devices.array.DeviceArray`."""

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceArray:
        dtype = np.dtype(dtype)
        buffer = self.allocate(Array(tuple(shape), dtype).nbytes)
        return DeviceArray(self, buffer, buffer.pointer, shape, dtype)

    def put(self, array: npt.NDArray[Any]) -> DeviceArray:
        made = self.empty(array.shape, array.dtype)
        made.write(array)
        return made

    def address(self, array: Any) -> int:
        return array.pointer

    def fits(self, array: Any, spec: Array) -> bool:
        is_here = isinstance(array, DeviceArray) and array.device is self
        return is_here and array.shape == tuple(spec.shape) and array.dtype == spec.dtype

    def workspace(self, arena: int) -> DeviceWorkspace:
        return DeviceWorkspace(self, arena)

    def gathered(self, pointer: int, view: View) -> DeviceArray:
        """The elements that a view shows of memory that begins at an address, in C order."""
        from hybridc.lower.triton.texts import copy_phase

        made = self.empty(view.shape, view.dtype)
        phase = copy_phase(view.dtype, view.shape, view.strides, 0, 1)
        self.launch(phase.function, phase.configs[0], (pointer, made.pointer), phase.numbers)
        return made

    def host_step(self, call: Callable[..., None]) -> Callable[[Any, Any, Any, Any], None]:
        assert isinstance(call, HostCall)

        def step(bases: Sequence[int], workspace: Any, _arrays: Any, _results: Any) -> None:
            outs = [_Copy(self, place, bases, workspace) for place in call.outs]
            ins = [_Copy(self, place, bases, workspace) for place in call.ins]
            call.on(tuple([x.array for x in ins]), tuple([x.array for x in outs]))
            for x in outs:
                x.give_back()

        return step


class _Copy:
    """What a place of a program shows, on the host."""

    def __init__(self, card: Card, place: View | Cell, bases: Sequence[int], workspace: Any) -> None:
        self._card = card
        self._bytes: npt.NDArray[np.uint8] | None = None
        if isinstance(place, Cell):
            self.array: Any = place.of(workspace)
            return
        low, high = _reach(place)
        self._pointer = bases[place.slot] + place.offset + low
        self._bytes = np.empty(high - low, np.uint8)
        if self._bytes.nbytes:
            card.download(self._bytes, self._pointer)
        self.array = place._replace(offset=-low).over(self._bytes)

    def give_back(self) -> None:
        """Put the values where they are from."""
        if self._bytes is not None and self._bytes.nbytes:
            self._card.upload(self._pointer, self._bytes)


def _reach(view: View) -> tuple[int, int]:
    """The first byte that a view shows, and the one behind the last, counted from its beginning."""
    if 0 in view.shape:
        return 0, 0
    steps = [(n - 1) * s * view.dtype.itemsize for n, s in zip(view.shape, view.strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + view.dtype.itemsize
