"""Record and replay (CUDA graphs) of the calls of a program.

A recording has fixed addresses. Arguments that are at the same address in every call, such as parameters,
are used in place; a small argument that moves is copied into memory of the recording; small
results are made in such memory and copied into fresh arrays, which no later call overwrites. Launches that
use something large at changing addresses, and host calls, run between recordings.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy.typing as npt

from hybridc.errors import DeviceError, DeviceMemoryError, MXNetError
from hybridc.ground.machine import GPU
from hybridc.ir.planned import PlannedProgram
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory
from hybridc.runtime.devices.device import Device, packed_size
from hybridc.runtime.devices.step import DeviceStep, Run

# Up to so many bytes an argument or result is copied rather than left out of a recording: less than a launch's time.
_SMALL = 1 << 20
# Address changes of an argument before it counts as one that moves at each call.
_PATIENCE = 1
# After so many replays addresses are tried again: parameters are replaced now and then.
_LONG = 16


class Recordings:
    """State of all replays of a program: whether recording failed, and lines for ``net.explain()``."""

    def __init__(self) -> None:
        self.refused = ""
        self.report: list[str] = ["recorded when it is called again with the same addresses"]

    def refuse(self, name: str, error: MXNetError) -> None:
        """Stop recording."""
        self.refused = str(error)
        self.report = [f"not recorded: {error}"]
        warnings.warn(
            f"static_alloc: the device did not record {name}, whose launches are made one by one: {error}", stacklevel=2
        )


class Replay:
    """The recorded calls of a program in one workspace, which owns this; one call at a time."""

    def __init__(
        self,
        device: Device,
        program: PlannedProgram,
        steps: Sequence[DeviceStep],
        constants: Sequence[DeviceArray],
        shared: Recordings,
    ) -> None:
        self._device = device
        self._program = program
        self._steps = steps
        self._constants = [x.pointer for x in constants]
        self._shared = shared
        self._first = 1 + len(program.inputs)  # the slot of the first result array
        self._packed: DeviceMemory | None = None
        self._absent: tuple[bool, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._loose: dict[int, str] = {}  # slots with changing addresses, and why they are not copied
        self._copied: dict[int, DeviceArray] = {}  # slots of copied arguments, and their copies
        self._moves: Counter[int] = Counter()
        self._seen: Any = None
        self._bases: list[int] = []
        self._parts: list[Run] = []
        self._is_recorded = False
        self._replays = 0
        self._last: list[int] = []  # the addresses of the last call

    def place_for(self, arrays: Sequence[npt.NDArray[Any]]) -> DeviceMemory:
        """Memory for small host arguments, at the same address in all calls."""
        if self._packed is None:
            self._packed = self._device.allocate(packed_size(arrays))
        return self._packed

    def run(self, workspace: DeviceArray, inputs: Sequence[DeviceArray], outputs: Sequence[Any]) -> tuple[Any, ...]:
        """The result arrays of a call; ``outputs`` are the caller's output buffers, or None for each."""
        absent = tuple([x is None for x in outputs])
        if not self._bases or absent != self._absent:
            self._absent = absent
            self._forget()
            self._settle_results()
        pointers = [workspace.pointer, *[x.pointer for x in inputs], *[0 if x is None else x.pointer for x in outputs]]
        moved = self._watched(pointers) != self._seen
        if moved:
            self._move(pointers)
        results = list(outputs)
        bases = self._bases.copy()
        for slot in self._loose:
            if pointers[slot] == 0:
                spec = self._program.fresh[slot - self._first]
                result = results[slot - self._first] = self._device.empty(spec.shape, spec.dtype)
                pointers[slot] = result.pointer
            bases[slot] = pointers[slot]
        for slot, copy in self._copied.items():
            self._device.copy(copy.pointer, pointers[slot], copy.nbytes)
        for part in self._parts:
            part(bases, workspace)
        self._give(results)
        self._replays += 1
        if not moved and not self._is_recorded:
            self._record(bases)
        return tuple(results)

    # --- places --------------------------------------------------------------------------------------------

    def _settle_results(self) -> None:
        """Choose the memory of each result for which the caller gives no buffer."""
        size = 0
        self._own: dict[int, int] = {}  # slots of small results, and their offsets in the block
        for i, spec in enumerate(self._program.fresh):
            if not self._absent[i]:
                continue
            if spec.nbytes > _SMALL:
                self._loose[self._first + i] = f"result {i} has {spec.nbytes} bytes, too many to be copied"
                continue
            self._own[self._first + i] = size
            size += -(-spec.nbytes // GPU.alignment) * GPU.alignment
        self._block = self._device.allocate(size)
        self._watch()

    def _watch(self) -> None:
        """Collect the slots whose addresses must not change."""
        count = self._first + len(self._program.fresh)
        self._fixed = [s for s in range(count) if s not in self._loose and s not in self._copied and s not in self._own]
        self._watched: Callable[[Sequence[int]], Any] = itemgetter(*self._fixed)  # the arena's is one at least

    def _move(self, pointers: list[int]) -> None:
        """Update changed addresses; slots that changed too often are no longer fixed."""
        if self._replays >= _LONG:
            self._moves.clear()
        for slot in self._fixed if self._last else ():
            if pointers[slot] != self._last[slot]:
                self._moves[slot] += 1
        for slot, count in self._moves.items():
            if count > _PATIENCE and slot in self._fixed:
                self._let_go(slot)
        self._watch()
        self._last, self._seen = pointers, self._watched(pointers)
        self._bases = [*pointers, *self._constants]
        for slot, copy in self._copied.items():
            self._bases[slot] = copy.pointer
        for slot, start in self._own.items():
            self._bases[slot] = self._block.pointer + start
        self._parts, self._is_recorded, self._replays = [step.run for step in self._steps], False, 0

    def _let_go(self, slot: int) -> None:
        """Copy an argument at each call from now on, or exclude its launches from recordings."""
        index = slot - self._first
        if index >= 0:
            self._loose[slot] = f"result {index} is put at another address at each call"
            return
        spec = self._program.inputs[slot - 1]
        if slot - 1 in self._program.donated or spec.nbytes > _SMALL:
            self._loose[slot] = f"argument {slot - 1} ({spec.nbytes} bytes) is at another address at each call"
            return
        self._copied[slot] = self._device.empty(spec.shape, spec.dtype)

    def _give(self, results: list[Any]) -> None:
        """Copy the small results out of the recording's memory: in one copy, into a buffer that they share."""
        if not self._own:
            return
        out = self._device.allocate(self._block.nbytes)
        if self._block.nbytes:
            self._device.copy(out.pointer, self._block.pointer, self._block.nbytes)
        for slot, start in self._own.items():
            spec = self._program.fresh[slot - self._first]
            results[slot - self._first] = DeviceArray(self._device, out, out.pointer + start, spec.shape, spec.dtype)

    # --- recordings ----------------------------------------------------------------------------------------

    def _record(self, bases: Sequence[int]) -> None:
        """Record the launches that have just run at these addresses, so that all they need is loaded."""
        self._is_recorded = True
        if self._shared.refused:
            return
        alone = {step: self._why_alone(step) for step in self._steps}
        parts: list[Run] = []
        lengths: list[int] = []
        try:
            for together, group in itertools.groupby(self._steps, lambda step: not alone[step]):
                steps = list(group)
                launches = sum(step.launches for step in steps)
                if together and launches > 1:
                    parts.append(self._recorded(steps, bases))
                    lengths.append(launches)
                else:
                    parts += [step.run for step in steps]
        except (DeviceError, DeviceMemoryError) as error:
            self._shared.refuse(self._program.name, error)
            return
        self._parts = parts
        self._shared.report = [*self._summary(lengths), *dict.fromkeys(text for text in alone.values() if text)]

    def _recorded(self, steps: Sequence[DeviceStep], bases: Sequence[int]) -> Run:
        def work() -> None:
            for step in steps:
                step.run(bases, None)  # launches use the workspace by its address alone

        replay = self._device.record(work)
        return lambda _bases, _workspace: replay()

    def _why_alone(self, step: DeviceStep) -> str:
        """Why a step cannot be recorded; empty if it can."""
        reasons = ", ".join(self._loose[slot] for slot in sorted(step.slots) if slot in self._loose)
        reason = step.alone() or (f"{step.name}: {reasons}" if reasons else "")
        return f"  between recordings: {reason}" if reason else ""

    def _summary(self, lengths: Sequence[int]) -> list[str]:
        """The recorded launches, as lines for ``net.explain()``."""
        counts = ", ".join(f"{n} launches" for n in lengths)
        head = f"replayed: {len(lengths)} recording{'s' * (len(lengths) != 1)}{f' of {counts}' if counts else ''}"
        arguments = [f"argument {slot - 1}" for slot in self._copied]
        results = [f"result {slot - self._first}" for slot in self._own]
        copied = ", ".join([*arguments, *results])
        return [head, *([f"  copied at each call: {copied}"] if copied else [])]
