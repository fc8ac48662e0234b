"""Loops as native regions: where the slots of the program of a step are, from step to step."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.dialects.control.loop_steps import CompiledLoop
from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.dialects.operator_attribute import DType
from hybridc.dtypes import is_float
from hybridc.ir.planned import (
    HostCall,
    InnerSteps,
    MovingKey,
    NativeRegion,
    PlainArray,
    PlannedProgram,
    Position,
    PreparedValue,
    SlotCopy,
    SlotView,
    StepLoop,
    ZeroTest,
)
from hybridc.lower.llvm.codegen.function_text import ModuleText
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.native_source import NativeSource

# The bytes of a random key: a seed and a counter.
_KEY = 16


def is_native(loop: CompiledLoop) -> bool:
    """Whether a loop can run without Python: its steps are native, and their results are whole arrays."""
    if not all(isinstance(program, NativeSource) and _is_native(program) for program in loop.programs):
        return False
    (_, *condition) = loop.programs
    return not condition or condition[0].outputs[0].dtype == np.float32


def _is_native(program: PlannedProgram) -> bool:
    fresh = dict(enumerate(program.fresh, 1 + len(program.inputs)))
    views = [v for v in program.outputs if isinstance(v, SlotView) and v.slot in fresh and v.is_whole(fresh[v.slot])]
    distinct = len({v.slot for v in views}) == len(program.outputs)
    return distinct and not program.donated and not any(isinstance(s, HostCall) for s in program.steps)


class NativeLoop:
    """The region of a loop whose steps are native.

    It is over these buffers: memory of ``size`` bytes, the inputs, the results, and the ``kept`` values that the
    preparation of a step writes.
    """

    def __init__(self, loop: CompiledLoop, ins: Sequence[PlainArray], outs: Sequence[PlainArray]) -> None:
        self._loop, self._ins, self._outs = loop, ins, outs
        self.size = 0
        programs: list[NativeSource] = loop.programs
        self.functions = [function for graph in loop.graphs for function in _functions(graph)]
        self.about = f"{loop.count} steps" if loop.chosen is None else f"if {'not ' * (not loop.chosen)}chosen"
        self.sources = [program.source for program in programs]  # for people
        self.work = loop.count * sum(program.work for program in programs)
        counts = [note.flops for program in programs for note in program.notes]
        is_known = loop.chosen is None and loop.condition is None and not loop.counted and None not in counts
        #: Arithmetic operations; None if how many steps there are depends on values.
        self.flops = loop.count * sum(filter(None, counts)) if is_known else None
        self._slots: list[Position] = []
        self._constants: list[bytes] = []
        self.kept = programs[0].kept
        self._first_kept = 1 + len(ins) + len(outs)
        self._buffers = self._first_kept + len(self.kept)
        self.loop = self._made()

    def _made(self) -> StepLoop:
        loop, program = self._loop, self._loop.programs[0]
        data, states, rows = loop.data, loop.states, loop.outputs
        first = data + states
        ins = len(self._ins) - loop.keyed
        before = [self._memory(x.nbytes) for x in self._ins[data:first]]
        key = self._memory(_KEY if loop.keyed else 0)
        starts = [self._input(i) for i in range(data)] + before + [self._input(i) for i in range(first, ins)]
        self._slots = [self._memory(program.arena), *starts, *[key] * loop.keyed]
        results = {view.slot: index for index, view in enumerate(program.outputs) if isinstance(view, SlotView)}
        for spec in program.fresh:
            index = results.get(len(self._slots), rows)
            self._slots.append(self._result(index) if index < rows else self._memory(spec.nbytes))
        self._slots += [*self._of_constants(program), *map(Position, range(self._first_kept, self._buffers))]
        swaps: list[tuple[int, int]] = []
        advances = [(1 + i, _row(x)) for i, x in enumerate(self._ins[:data])]
        for slot, index in results.items():
            if index < rows:
                advances.append((slot, _row(self._outs[index])))
            else:
                swaps.append((1 + data + index - rows, slot))
        copied: list[SlotCopy] = []
        for state, index in enumerate(range(rows + states, rows + states + loop.saved)):
            place = self._slot(self._result(index))
            advances.append((place, _row(self._outs[index])))
            copied.append(SlotCopy(1 + data + state, 0, place, self._ins[data + state].nbytes))
        numbers = range(states)
        starting = [self._slot(self._input(data + i)) for i in numbers]
        ending = [self._slot(self._result(rows + i)) for i in numbers]
        sizes = [self._ins[data + i].nbytes for i in numbers]
        sign = -1 if loop.backwards else 1
        links, answer, condition = self._condition()
        stacked = [*range(rows), *range(rows + states, rows + states + loop.saved)] if loop.stops_early else []
        return StepLoop(
            count=loop.count,
            counted=ins if loop.counted else None,
            backwards=loop.backwards,
            begin=tuple([SlotCopy(starting[i], 0, 1 + data + i, sizes[i]) for i in numbers]),
            before=tuple(copied),
            end=tuple([SlotCopy(1 + data + i, 0, ending[i], sizes[i]) for i in numbers]),
            swaps=tuple(swaps),
            advances=tuple([(slot, sign * size) for slot, size in advances]),
            key=MovingKey(1 + ins, self._slot(self._input(ins)), loop.draw, loop.key_step) if loop.keyed else None,
            links=links,
            answer=answer,
            zeros=tuple([(self._slot(self._result(i)), _row(self._outs[i])) for i in stacked]),
            ran=self._slot(self._result(len(self._outs) - 1)) if loop.counts else None,
            choice=None if loop.chosen is None else _choice(1, self._ins[0].dtype, not loop.chosen),
            step=self._inner(program, self._slots),  # now there are all slots
            condition=condition,
            constants=tuple(self._constants),
        )

    def _condition(self) -> tuple[tuple[tuple[int, int], ...], Position | None, InnerSteps | None]:
        """The slots of the condition that follow those of the step, its answer, and its steps."""
        if self._loop.condition is None:
            return (), None, None
        program: NativeSource = self._loop.programs[1]
        first = 1 + self._loop.data
        slots = [self._memory(program.arena), *self._slots[first:][: len(program.inputs)]]
        slots += [self._memory(spec.nbytes) for spec in program.fresh]
        slots += [*self._of_constants(program), *[self._memory(value.size) for value in program.kept]]
        (view,) = program.outputs
        assert isinstance(view, SlotView), "a condition without a result in memory"
        links = tuple([(1 + i, first + i) for i in range(self._loop.states)])
        return links, Position(view.slot, view.offset), self._inner(program, slots)

    def _inner(self, program: NativeSource, slots: Sequence[Position]) -> InnerSteps:
        regions = [step[1] for step in program.steps if isinstance(step, tuple)]
        notes = tuple([replace(note, lines=()) for note in program.notes])
        return InnerSteps(tuple(slots), tuple(regions), program.preparation, program.threads, notes)

    def hoist(self, places: Sequence[Position], lasting: Container[int]) -> list[tuple[tuple[Any, ...], NativeRegion]]:
        """Take out the preparation of a step, if it follows from slots that last from call to call; its steps.

        ``places`` are those of the buffers, in the program around the loop.
        """
        step, count = self.loop.step, self.loop.step.preparation
        regions = [_moved(region, step.slots, places) for region in step.regions[:count]]
        used = {step.slots[p.slot].slot for region in step.regions[:count] for p in region.buffers}
        own = {0, *range(self._first_kept, self._buffers)}
        if not count or not all(i in own or (i < self._buffers and places[i].slot in lasting) for i in used):
            return []
        self.loop = replace(self.loop, step=step.hoisted())
        functions = iter(self.functions)
        hoisted = [(tuple(itertools.islice(functions, region.code_count)), region) for region in regions]
        self.functions = [*functions]
        return hoisted

    def prepared(self, places: Sequence[Position], first: int) -> list[PreparedValue]:
        """The kept values, as the program around the loop computes them by its steps from ``first`` on."""
        values: list[PreparedValue] = []
        for value in self.kept:
            inside = [self.loop.step.slots[1 + i] for i in value.inputs]
            inputs = [places[at.slot]._replace(offset=places[at.slot].offset + at.offset) for at in inside]
            key = hashlib.sha256(repr((value.key, [at.offset for at in inputs])).encode()).hexdigest()
            steps = tuple([first + step for step in value.steps])
            values.append(PreparedValue(key, tuple([at.slot - 1 for at in inputs]), value.size, steps))
        return values

    # --- places --------------------------------------------------------------------------------------------

    def _input(self, index: int) -> Position:
        return Position(1 + index)

    def _result(self, index: int) -> Position:
        return Position(1 + len(self._ins) + index)

    def _memory(self, size: int) -> Position:
        """So many bytes of memory."""
        begin = self.size
        self.size += aligned(size)
        return Position(0, begin)

    def _slot(self, place: Position) -> int:
        """Append a slot; its index."""
        self._slots.append(place)
        return len(self._slots) - 1

    def _of_constants(self, program: PlannedProgram) -> list[Position]:
        first = self._buffers + len(self._constants)
        self._constants += [c.tobytes() for c in program.constants]
        return [Position(i) for i in range(first, self._buffers + len(self._constants))]


def _functions(graph: Any) -> list[NativeFunction]:
    """The native functions of a compiled graph; listings build their IR again."""

    @functools.cache
    def again() -> dict[str, NativeFunction]:
        called = graph.traced.lowered_again().programs["forward"].functions_called()
        return {f.key: f for f in called}

    def build(key: str, module: ModuleText, symbol: str) -> None:
        if key not in again():
            raise LookupError("the IR of a function in a loop is not known: it serves several sizes")
        again()[key].build(module, symbol)

    return [NativeFunction(f.key, functools.partial(build, f.key)) for f in graph.forward.program.functions_called()]


def _moved(region: NativeRegion, slots: Sequence[Position], places: Sequence[Position]) -> NativeRegion:
    """A region over the slots of a step in the program around the loop; constants have no place there."""

    def place(inside: Position) -> Position:
        at = slots[inside.slot]
        slot, offset = places[at.slot] if at.slot < len(places) else Position(0)
        return Position(slot, offset + at.offset + inside.offset)

    scratch = None if region.scratch is None else place(region.scratch)
    return replace(region, buffers=tuple(map(place, region.buffers)), scratch=scratch)


def _choice(slot: int, dtype: DType, zero: bool) -> ZeroTest:
    return ZeroTest(slot, dtype.itemsize, is_float(dtype), zero)


def _row(array: PlainArray) -> int:
    """The bytes of a row."""
    return PlainArray(array.shape[1:], array.dtype).nbytes
