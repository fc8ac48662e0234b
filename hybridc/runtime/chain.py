"""Native programs end to end: one native call runs several, and results of one are inputs of the next.

A native plan is a table of steps over places in memory, so the plan of a chain is the steps of its parts with their
places moved: no compiler is asked, and results are those of the parts to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.lower.planned import View
from hybridc.runtime.native.plan import Array, NativePlan, Phase, Place
from hybridc.runtime.native.program import NativeProgram
from hybridc.runtime.native_executable import NativeExecutable

# Which inputs of a part are results of parts before it: the number of the input → the numbers of part and result.
Wires = Mapping[int, tuple[int, int]]


class Chain:
    """Programs that run one after the other, in memory of their own, by one native call."""

    def __init__(self, parts: Sequence[NativeExecutable], wires: Sequence[Wires]) -> None:
        """The parts must be what :func:`chained` asks for."""
        plans = [part.native.plan for part in parts]
        self.parts = parts
        self._wires = wires
        self._counts = [len(plan.results) for plan in plans]
        inputs = _inputs(plans, wires)
        result = 1 + len(inputs)
        constant = result + sum(self._counts)
        given = iter(range(1, result))
        steps: list[Phase] = []
        slots: list[list[Place]] = []  # of each part, where its slots are in the chain
        for plan, wired in zip(plans, wires, strict=True):
            own = [Place(next(given))]
            for number in range(len(plan.inputs)):
                source = wired.get(number)
                own.append(Place(next(given)) if source is None else _place_of(parts, slots, *source))
            own += [Place(result + i) for i in range(len(plan.results))]
            own += [Place(constant + i) for i in range(len(plan.constants))]
            result, constant = result + len(plan.results), constant + len(plan.constants)
            steps += [_moved(step, own) for step in plan.steps if isinstance(step, Phase)]
            slots.append(own)
        self._program = NativeProgram(
            NativePlan(
                inputs,
                [array for plan in plans for array in plan.results],
                steps,
                [array for plan in plans for array in plan.constants],
                work=sum(plan.work for plan in plans),
                threads=min(plan.threads for plan in plans),
            )
        )
        self._workspace = self._program.workspace()  # of no bytes: each part brings its own

    def gives_away(self, part: int, number: int) -> bool:
        """Whether a result of a part shows one of its inputs."""
        return any(isinstance(v, View) and v.slot == 1 + number for v in self.parts[part].program.outputs)

    def run(self, workspaces: Sequence[Any], arrays: Sequence[Sequence[Any]]) -> list[Sequence[Any]] | None:
        """The results of each part, for its workspace and those of its inputs that are not wired.

        None, and nothing was done, where arrays are not as a part wants them.
        """
        given: list[Any] = []
        for workspace, free in zip(workspaces, arrays, strict=True):
            given.append(_arena(workspace))
            given += free
        fresh = self._program.entry(self._workspace, None, *given)
        if fresh is NotImplemented:
            return None
        results: list[Sequence[Any]] = []
        start = 0
        for number, (part, count) in enumerate(zip(self.parts, self._counts, strict=True)):
            inputs = _arguments(arrays[number], self._wires[number], results)
            results.append(part.results(workspaces[number], inputs, fresh[start : start + count]))
            start += count
        return results


def chained(parts: Sequence[Any], wires: Sequence[Wires]) -> Chain | None:
    """The chain; None if there is none: a part calls Python or writes its inputs, or its results lie scattered."""
    natives = [part for part in parts if isinstance(part, NativeExecutable) and part.is_phases]
    if len(natives) < len(parts):
        return None
    for part, wired in zip(natives, wires, strict=True):
        for number, (source, result) in wired.items():
            view, wanted = natives[source].program.outputs[result], part.native.plan.inputs[number]
            if not isinstance(view, View) or not view.is_plain:
                return None
            if view.dtype != wanted.dtype or view.shape != wanted.shape:
                return None
    return Chain(natives, wires)


def _inputs(plans: Sequence[NativePlan], wires: Sequence[Wires]) -> list[Array]:
    """What a chain is given: for each part its arena and the inputs that are not wired."""
    inputs: list[Array] = []
    for plan, wired in zip(plans, wires, strict=True):
        inputs.append(Array((plan.arena,), np.uint8))
        inputs += [array for number, array in enumerate(plan.inputs) if number not in wired]
    return inputs


def _arena(workspace: Any) -> Any:
    """The bytes of a workspace as a plain array, which can be an argument."""
    found = workspace.cells.get("arena")
    if found is None:
        found = workspace.cells["arena"] = workspace.view(np.ndarray)
    return found


def _place_of(parts: Sequence[NativeExecutable], slots: Sequence[Sequence[Place]], part: int, result: int) -> Place:
    """Where a result of an earlier part is."""
    view = parts[part].program.outputs[result]
    assert isinstance(view, View)
    return _shifted(slots[part][view.slot], view.offset)


def _moved(step: Phase, slots: Sequence[Place]) -> Phase:
    """The step in the chain."""
    buffers = tuple([_shifted(slots[p.slot], p.offset) for p in step.buffers])
    scratch = None if step.scratch is None else _shifted(slots[step.scratch.slot], step.scratch.offset)
    return replace(step, buffers=buffers, scratch=scratch)


def _shifted(place: Place, offset: int) -> Place:
    return Place(place.slot, place.offset + offset)


def _arguments(free: Sequence[Any], wired: Wires, results: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """All inputs of a part, in order."""
    if not wired:
        return free
    rest = iter(free)
    numbers = range(len(free) + len(wired))
    return [results[wired[n][0]][wired[n][1]] if n in wired else next(rest) for n in numbers]
