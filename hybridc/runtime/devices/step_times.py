"""The steps of a program on a device, recorded: how long the device took for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.ground.events import RECORDER, now
from hybridc.ir.planned import LaunchNote
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.step import DeviceStep

# Threads of a device in traces: below all identities of threads.
_FIRST = 1
_MILLISECOND = 1_000_000  # nanoseconds


class StepTimes:
    """Runs the steps of calls between events of the device; a call waits for its end, so calls do not overlap.

    The times are the device's own, on a track of its own; the host's enqueuing is the span of the call.
    """

    def __init__(self, device: Device, title: str, notes: Sequence[LaunchNote]) -> None:
        self._device = device
        self._title = title
        self._notes = {note.name: note for note in notes}

    def run(self, steps: Sequence[DeviceStep], bases: Sequence[int], workspace: Any, begin: int) -> None:
        """Run the steps of a call that began at a time, and record it."""
        device, thread = self._device, _FIRST + self._device.index
        RECORDER.threads[thread] = f"{device.name} (gpu {device.index})"
        device.synchronise()
        start, first = now(), device.event()
        first.record()
        events = [first]
        for step in steps:
            step.run(bases, workspace)
            events.append(device.event())
            events[-1].record()
        device.synchronise()
        ends = [start + round(event.since(first) * _MILLISECOND) for event in events]
        for index, step in enumerate(steps):
            note = self._notes.get(step.name)
            facts = {"graph": self._title, "step": index, **({} if note is None else note.facts())}
            category = "kernel" if step.launches else "host"
            RECORDER.extend([(category, step.name, ends[index], ends[index + 1], thread, facts)])
        RECORDER.add("graph", self._title, begin, {"steps": len(steps)})
