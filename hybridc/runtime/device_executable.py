"""A planned program of Triton launches made callable on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.lower.triton.program import Launch, TritonProgram
from hybridc.runtime.devices.choose import device
from hybridc.runtime.devices.device import Device
from hybridc.runtime.planned_executable import PlannedExecutable

# A step of a call: it is given the addresses of all slots, the workspace, the arguments and the fresh arrays.
Step = Callable[[Sequence[int], Any, tuple[Any, ...], tuple[Any, ...]], None]


class DeviceExecutable(PlannedExecutable):
    """A program on one device: its constants are there, its functions ready; each workspace is an arena there."""

    def __init__(self, program: TritonProgram, on: Device | None = None) -> None:
        self.device = device() if on is None else on
        self._constants = [self.device.put(constant) for constant in program.constants]
        super().__init__(program, self._call, self._constants)
        self._steps = [self._step(step) for step in program.steps]

    def make_workspace(self) -> Any:
        """The arena."""
        return self.device.workspace(self.planned.arena)

    def _step(self, step: Any) -> Step:
        if not isinstance(step, Launch):
            return self.device.host_step(step.call)
        run = self.device.prepare(step.function, step.configs[0])
        places, numbers = step.buffers, step.numbers

        def launch(bases: Sequence[int], _workspace: Any, _arrays: Any, _results: Any) -> None:
            run([bases[slot] + offset for slot, offset in places], numbers)

        return launch

    def _call(self, workspace: Any, into: Any, *arrays: Any) -> Any:
        device, program = self.device, self.planned
        if not all(device.fits(array, spec) for array, spec in zip(arrays, program.inputs, strict=True)):
            return NotImplemented
        given = [None] * len(program.fresh) if into is None else into
        wanted = zip(given, program.fresh, strict=True)
        results = tuple([device.empty(spec.shape, spec.dtype) if x is None else x for x, spec in wanted])
        bases = [device.address(x) for x in (workspace, *arrays, *results, *self._constants)]
        for step in self._steps:
            step(bases, workspace, arrays, results)
        return results
