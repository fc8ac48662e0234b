"""Host calls in programs of a device: on copies of their arrays, or on the arrays of the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.ir.planned import HostCall, OperatorState, SlotView
from hybridc.runtime.devices.array import DeviceArray

if TYPE_CHECKING:
    from hybridc.runtime.devices.device import Device


def host_step(device: Device, call: HostCall) -> Callable[[Sequence[int], Any], None]:
    """A step that runs an operator on the host: on copies of its arrays, unless it takes those of the device."""
    if call.takes_device_arrays:
        return _on_device(device, call)

    def step(bases: Sequence[int], workspace: Any) -> None:
        outs = [_Copy(device, place, bases, workspace) for place in call.outs]
        ins = [_Copy(device, place, bases, workspace) for place in call.ins]
        call.on(tuple([x.array for x in ins]), tuple([x.array for x in outs]))
        for x in outs:
            x.give_back()

    return step


def _on_device(device: Device, call: HostCall) -> Callable[[Sequence[int], Any], None]:
    """A step of an operator that takes arrays of the device."""

    def array(place: SlotView | OperatorState, bases: Sequence[int], workspace: Any) -> DeviceArray:
        assert isinstance(place, SlotView)
        return DeviceArray(device, workspace.base, bases[place.slot], (), np.uint8).over(place)

    def step(bases: Sequence[int], workspace: Any) -> None:
        ins, outs = ([array(place, bases, workspace) for place in places] for places in (call.ins, call.outs))
        call.on(tuple(ins), tuple(outs))

    return step


class _Copy:
    """A host copy of a slot view or operator state."""

    def __init__(self, device: Device, place: SlotView | OperatorState, bases: Sequence[int], workspace: Any) -> None:
        self._device = device
        self._bytes: npt.NDArray[np.uint8] | None = None
        if isinstance(place, OperatorState):
            self.array: Any = place.of(workspace)
            return
        low, high = _reach(place)
        self._pointer = bases[place.slot] + place.offset + low
        self._bytes = np.empty(high - low, np.uint8)
        if self._bytes.nbytes:
            device.download(self._bytes, self._pointer)
        self.array = place._replace(offset=-low).over(self._bytes)

    def give_back(self) -> None:
        """Upload the values."""
        if self._bytes is not None and self._bytes.nbytes:
            self._device.upload(self._pointer, self._bytes)


def _reach(view: SlotView) -> tuple[int, int]:
    """The half-open range of bytes that a view covers, relative to its slot."""
    if 0 in view.shape:
        return 0, 0
    steps = [(n - 1) * s * view.dtype.itemsize for n, s in zip(view.shape, view.strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + view.dtype.itemsize
