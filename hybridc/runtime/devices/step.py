"""Steps of a program on a device: launches, host calls, and contractions that a library may compute instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybridc.lower.triton.launches import Alternative
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.tuning import library_wins

# Runs a step of a call, given the addresses of all slots, and the workspace.
Run = Callable[[Sequence[int], Any], None]


class DeviceStep:
    """A callable step of a program: the slots that it uses, and its number of launches."""

    run: Any

    def __init__(self, run: Run | None, name: str, slots: Iterable[int] = (), launches: int = 1) -> None:
        """``run`` is None where the class has it."""
        if run is not None:
            self.run = run
        self.name = name
        self.slots = frozenset(slots)
        self.launches = launches

    def alone(self) -> str:
        """Why it cannot be recorded, known once it has run; empty if it can."""
        return "" if self.launches else f"host call {self.name}"


class Either(DeviceStep):
    """A contraction by generated kernels or by a library, whichever is faster on this GPU.

    ``multiply`` takes the addresses of the three matrices; the steps ``after`` are the epilogue for the library;
    ``apart`` gives addresses with some slots copied, or None.
    """

    def __init__(
        self,
        device: Device,
        own: Sequence[DeviceStep],
        alternative: Alternative,
        multiply: Callable[[Sequence[int]], None],
        after: Sequence[DeviceStep],
        apart: Callable[[Iterable[int], Sequence[int]], Sequence[int] | None],
    ) -> None:
        slots = {slot for step in own for slot in step.slots}
        super().__init__(None, own[-1].name, slots, sum(step.launches for step in own))
        self._device = device
        self._own = own
        self._alternative = alternative
        self._multiply = multiply
        self._after = after
        self._apart = apart
        #: Whether the library is faster; None before the first call.
        self.by_library: bool | None = None

    def run(self, bases: Sequence[int], workspace: Any) -> None:
        """By whichever is faster, which the first call finds out."""
        if self.by_library is None:
            self.by_library = self._choose(bases)
            self.launches = 1 + len(self._after) if self.by_library else self.launches
        if self.by_library:
            self._by_library(bases)
        else:
            self._by_launches(bases)

    def _by_launches(self, bases: Sequence[int]) -> None:
        for step in self._own:
            step.run(bases, None)

    def _by_library(self, bases: Sequence[int]) -> None:
        self._multiply([bases[slot] + offset for slot, offset in self._alternative.places])
        for step in self._after:
            step.run(bases, None)

    def _choose(self, bases: Sequence[int]) -> bool:
        """Time both on copies, unless it is known; without memory for copies, the expected choice."""
        copies = self._apart(self.slots, bases)
        if copies is None:
            return False
        contraction, after = self._alternative.contraction, [launch.function for launch in self._alternative.after]
        own, library = (lambda: self._by_launches(copies)), (lambda: self._by_library(copies))
        return library_wins(self._device, contraction, after, own, library)
