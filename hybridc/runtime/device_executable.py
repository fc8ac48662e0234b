"""The executable of a planned program of Triton launches on a device."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.context import Context
from hybridc.errors import DeviceMemoryError
from hybridc.ground.events import RECORDER, now
from hybridc.lower.triton.launches import Launch, TritonProgram
from hybridc.lower.triton.triton_function import Config
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory, DeviceWorkspace
from hybridc.runtime.devices.choose import device
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.host_step import host_step
from hybridc.runtime.devices.replay import Recordings, Replay
from hybridc.runtime.devices.step import DeviceStep, Either
from hybridc.runtime.devices.step_times import StepTimes
from hybridc.runtime.devices.tuning import fastest, known
from hybridc.runtime.executable import KEPT
from hybridc.runtime.planned_executable import PlannedExecutable


class Copies(list[int]):
    """Addresses, some of them those of copies, whose memory it owns."""

    def __init__(self, bases: Sequence[int], copies: Mapping[int, DeviceMemory]) -> None:
        super().__init__(copies[slot].pointer if slot in copies else base for slot, base in enumerate(bases))
        self._copies = copies


def _let_go(device: Device, constants: list[DeviceArray], streams: set[int]) -> None:
    """Free constants: at once, if the stream order guarantees that no pending work reads them."""
    if len(streams) > 1:
        device.retire(constants.clear)


class Trials:
    """Chooses how functions are run on a device, by trying them on copies of a program's arrays."""

    def __init__(self, device: Device, sizes: Sequence[int]) -> None:
        """``sizes`` are those of the slots, in bytes."""
        self._device = device
        self._sizes = sizes

    def config(self, step: Launch, bases: Sequence[int]) -> Config:
        """The fastest configuration of a function on this GPU, tuned on copies of the arguments.

        What the GPU has no room for is not compiled. Copies, as a function may overwrite what it reads. Without memory
        for them, and on the interpreter, it is the configuration that is expected to be the fastest.
        """
        device = self._device
        configs = [c for c in step.configs if device.description.has_room(c.warps, c.shared)] or step.configs
        chosen = configs[0] if device.is_host else known(device, step.function, configs, step.numbers)
        if chosen is not None:
            return chosen
        copies = self.apart({slot for slot, _ in step.buffers}, bases)
        if copies is None:
            return configs[0]
        pointers = [copies[slot] + offset for slot, offset in step.buffers]
        return fastest(device, step.function, configs, pointers, step.numbers)

    def apart(self, slots: Iterable[int], bases: Sequence[int]) -> Copies | None:
        """The addresses of all slots, some of them copied; None if there is no memory for the copies."""
        try:
            copies = {slot: self._device.allocate(self._sizes[slot]) for slot in slots}
        except DeviceMemoryError:
            return None
        for slot, copy in copies.items():
            self._device.copy(copy.pointer, bases[slot], self._sizes[slot])
        return Copies(bases, copies)


def _all_steps(device: Device, program: TritonProgram, trials: Trials) -> list[DeviceStep]:
    """The steps; contractions try a library of the device, if it has one."""
    steps = [_step(device, step, trials) for step in program.steps]
    for alternative in reversed(program.alternatives):
        multiply = device.multiply(alternative.contraction)
        if multiply is not None:
            part = slice(alternative.start, alternative.start + alternative.steps)
            after = [_step(device, launch, trials) for launch in alternative.after]
            steps[part] = [Either(device, steps[part], alternative, multiply, after, trials.apart)]
    return steps


def _step(device: Device, step: Any, trials: Trials) -> DeviceStep:
    if not isinstance(step, Launch):
        return DeviceStep(host_step(device, step), step.name, launches=0)
    places, numbers = step.buffers, step.numbers
    run: Any = None

    def launch(bases: Sequence[int], _workspace: Any) -> None:
        nonlocal run
        if run is None:
            run = device.prepare(step.function, trials.config(step, bases))
        run([bases[slot] + offset for slot, offset in places], numbers)

    return DeviceStep(launch, step.name, frozenset(place.slot for place in places))


class DeviceExecutable(PlannedExecutable):
    """A program loaded on one device: constants uploaded, functions prepared; each workspace is an arena there.

    Arguments are arrays of the device; small NumPy arrays, such as random keys, are copied to it at each call. Results
    are arrays of the device, or NumPy arrays if the program ``serves_host``.

    Nothing here refers to this object: its memory on the device shall be free as soon as it is evicted.
    """

    def __init__(self, program: TritonProgram, on: Device | None = None) -> None:
        """``on`` is the device; None serves the host through the first device."""
        self.serves_host = on is None
        self.device = device(0) if on is None else on
        self._constants = [self.device.put(constant) for constant in program.constants]
        self._streams = {self.device.stream}
        if self._constants:  # any stream may read them from now on; a capturing one could not wait
            self.device.synchronise()
        weakref.finalize(self, _let_go, self.device, self._constants, self._streams).atexit = False
        super().__init__(program, self._constants)
        sizes = [program.arena, *(a.nbytes for a in (*program.inputs, *program.fresh, *self._constants))]
        self._steps = _all_steps(self.device, program, Trials(self.device, sizes))
        self._recordings: Recordings | None = None

    @staticmethod
    def of(program: TritonProgram, context: Context) -> DeviceExecutable:
        """The program loaded for arrays of a context."""
        return DeviceExecutable(program, device(context.device_id) if context.device_type == "gpu" else None)

    def make_workspace(self) -> Any:
        """The arena, with the replay state of its calls."""
        workspace = DeviceWorkspace(self.device, self.planned.arena)
        self._streams.add(self.device.stream)
        if self._recordings is not None and self.device.records:
            workspace.replay = Replay(self.device, self.planned, self._steps, self._constants, self._recordings)
        return workspace

    def repeat(self) -> bool:
        """Record and replay calls; not when serving the host, as the addresses change with every call."""
        if self._recordings is None and not self.serves_host:
            self._recordings = Recordings()
            self._free.clear()
        return self._recordings is not None and self.device.records

    def notes(self) -> list[str]:
        """A report of contractions that a library computes, and of launches that are and are not recorded."""
        report = [f"by a library: {s.name}" for s in self._steps if isinstance(s, Either) and s.by_library]
        if self._recordings is None:
            return report
        if not self.device.records:
            return [*report, f"not recorded: {self.device.name} cannot record launches"]
        return [*report, *self._recordings.report]

    def acquire(self) -> Any:
        """A workspace of the current stream: work on another stream may still use its own."""
        stream, others = self.device.stream, list[Any]()
        try:
            while (workspace := self._free.pop()).stream != stream:
                others.append(workspace)
            return workspace
        except IndexError:
            return self.make_workspace()
        finally:
            self._free += others

    def release(self, workspace: Any) -> None:
        """Return a workspace to the pool; beyond the limit the least recently used one is freed."""
        self._free.append(workspace)
        if len(self._free) > KEPT:
            del self._free[0]

    def run(self, workspace: Any, *arrays: Any) -> Any:
        """The results of one call."""
        return self._serve(workspace, *arrays) if self.serves_host else super().run(workspace, *arrays)

    def _make(self, workspace: Any, into: Any, *arrays: Any) -> Any:
        device, program = self.device, self.planned
        replay: Replay | None = workspace.replay
        inputs = self._here(arrays, replay)
        if not all(device.fits(array, spec) for array, spec in zip(inputs, program.inputs, strict=True)):
            return NotImplemented
        outputs = [None] * len(program.fresh) if into is None else into
        begin = now() if RECORDER.graphs else 0
        if replay is not None:
            results = replay.run(workspace, inputs, outputs)
            if begin:
                device.synchronise()
                RECORDER.add("graph", self.title, begin, {"steps": len(self._steps), "replayed": True})
            return results
        wanted = zip(outputs, program.fresh, strict=True)
        results = tuple([device.empty(spec.shape, spec.dtype) if x is None else x for x, spec in wanted])
        bases = [x.pointer for x in (workspace, *inputs, *results, *self._constants)]
        if begin:
            StepTimes(device, self.title, program.notes).run(self._steps, bases, workspace, begin)
            return results
        for step in self._steps:
            step.run(bases, workspace)
        return results

    def _here(self, arrays: Sequence[Any], replay: Replay | None) -> Sequence[DeviceArray]:
        """The arguments on the device; copies of host arrays have the same address in each replay."""
        strangers = [np.asarray(x, order="C") for x in arrays if not isinstance(x, DeviceArray)]
        if not strangers:
            return arrays
        put = iter(self.device.put_together(strangers, None if replay is None else replay.place_for(strangers)))
        return [x if isinstance(x, DeviceArray) else next(put) for x in arrays]

    def _serve(self, workspace: Any, *arrays: Any) -> Any:
        """A call with NumPy arrays, which are copied to the device and back, unless they share memory."""
        places: Sequence[Any] = ()
        if self._into is not None:
            places, *arrays = arrays  # pyright: ignore[reportAssignmentType]  (a list is as good)
        contiguous = [np.asarray(x, spec.dtype, order="C") for x, spec in zip(arrays, self.planned.inputs, strict=True)]
        inputs = self.device.put_together(contiguous)
        nowhere = () if self._into is None else ([None] * len(places),)
        outputs = super().run(workspace, *nowhere, *inputs)
        results = [x.host() if isinstance(x, DeviceArray) else x for x in outputs]
        for i in self._donated:
            if contiguous[i] is not arrays[i] or not self.device.is_host:
                np.copyto(arrays[i], inputs[i].host())
        for index, place in enumerate(places):
            if place is not None:
                np.copyto(place, results[index])
                results[index] = place
        return results
