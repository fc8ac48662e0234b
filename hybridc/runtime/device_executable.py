"""A planned program of Triton launches made callable on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.errors import DeviceMemoryError
from hybridc.lower.triton.functions import Config
from hybridc.lower.triton.program import Launch, TritonProgram
from hybridc.runtime.devices.array import DeviceArray
from hybridc.runtime.devices.choose import device
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.tuning import fastest, known
from hybridc.runtime.planned_executable import PlannedExecutable

# A step of a call: it is given the addresses of all slots, and the workspace.
Step = Callable[[Sequence[int], Any], None]


class DeviceExecutable(PlannedExecutable):
    """A program on one device: its constants are there, its functions ready; each workspace is an arena there.

    Arguments are arrays of the device; small ones of NumPy's, as random keys, are copied there at each call. Results
    are arrays of the device, or of NumPy's if the program ``serves_host``.
    """

    def __init__(self, program: TritonProgram, on: Device | None = None) -> None:
        """``on`` is the device; without one the program serves the host by way of the first."""
        self.serves_host = on is None
        self.device = device() if on is None else on
        self._constants = [self.device.put(constant) for constant in program.constants]
        super().__init__(program, self._call, self._constants)
        self._steps = [self._step(step) for step in program.steps]
        if self.serves_host:
            self.run = self._serve

    def make_workspace(self) -> Any:
        """The arena."""
        return self.device.workspace(self.planned.arena)

    def _step(self, step: Any) -> Step:
        if not isinstance(step, Launch):
            return self.device.host_step(step.call)
        prepare, places, numbers = self.device.prepare, step.buffers, step.numbers
        run: Any = None

        def launch(bases: Sequence[int], _workspace: Any) -> None:
            nonlocal run
            if run is None:
                run = prepare(step.function, self._config(step, bases))
            run([bases[slot] + offset for slot, offset in places], numbers)

        return launch

    def _config(self, step: Launch, bases: Sequence[int]) -> Config:
        """The way to run a function that is the fastest on this card, tried on copies of what it is given.

        So what a function reads and writes may be the same memory. Without memory for copies, and on the interpreter,
        it is the one that is expected to be the fastest.
        """
        device, program = self.device, self.planned
        found = step.configs[0] if device.is_host else known(device, step.function, step.configs, step.numbers)
        if found is not None:
            return found
        sizes = [program.arena, *(a.nbytes for a in (*program.inputs, *program.fresh, *self._constants))]
        try:
            copies = {slot: device.allocate(sizes[slot]) for slot, _ in step.buffers}
        except DeviceMemoryError:
            return step.configs[0]
        for slot, copy in copies.items():
            device.copy(copy.pointer, bases[slot], sizes[slot])
        pointers = [copies[slot].pointer + offset for slot, offset in step.buffers]
        return fastest(device, step.function, step.configs, pointers, step.numbers)

    def _call(self, workspace: Any, into: Any, *arrays: Any) -> Any:
        device, program = self.device, self.planned
        here = self._here(arrays)
        if not all(device.fits(array, spec) for array, spec in zip(here, program.inputs, strict=True)):
            return NotImplemented
        given = [None] * len(program.fresh) if into is None else into
        wanted = zip(given, program.fresh, strict=True)
        results = tuple([device.empty(spec.shape, spec.dtype) if x is None else x for x, spec in wanted])
        bases = [x.pointer for x in (workspace, *here, *results, *self._constants)]
        for step in self._steps:
            step(bases, workspace)
        return results

    def _here(self, arrays: Sequence[Any]) -> Sequence[DeviceArray]:
        """The arguments on the device."""
        strangers = [np.asarray(x, order="C") for x in arrays if not isinstance(x, DeviceArray)]
        if not strangers:
            return arrays
        put = iter(self.device.put_together(strangers))
        return [x if isinstance(x, DeviceArray) else next(put) for x in arrays]

    def _serve(self, workspace: Any, *arrays: Any) -> Any:
        """A call with arrays of NumPy's, which are copied to the device and back, unless its memory is theirs."""
        places: Sequence[Any] = ()
        if self._into is not None:
            places, *arrays = arrays  # pyright: ignore[reportAssignmentType]  (a list is as good)
        given = [np.asarray(x, spec.dtype, order="C") for x, spec in zip(arrays, self.planned.inputs, strict=True)]
        here = self.device.put_together(given)
        nowhere = () if self._into is None else ([None] * len(places),)
        made = super().run(workspace, *nowhere, *here)
        results = [x.host() if isinstance(x, DeviceArray) else x for x in made]
        for i in self._donated:
            if given[i] is not arrays[i] or not self.device.is_host:
                np.copyto(arrays[i], here[i].host())
        for number, place in enumerate(places):
            if place is not None:
                np.copyto(place, results[number])
                results[number] = place
        return results
