"""Loops of native programs: the rows of a loop's arrays as slots of the program of a step."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.dialects.control.loop_steps import LoopSteps
from hybridc.ground.buffers import ALIGNMENT
from hybridc.ir.planned import HostCall, PlainArray, SlotView
from hybridc.runtime.native.native_library import library
from hybridc.runtime.native.structures import CopyRecord, LoopRecord, PositionRecord

if TYPE_CHECKING:
    from hybridc.runtime.native_executable import NativeExecutable


def run_steps(executable: NativeExecutable, steps: LoopSteps) -> int | None:
    """Run the program of a step for each row; the number of steps, or None, without effect, if it cannot be done here.

    The program has to consist of native steps alone, and to give views in C order.
    """
    if not _is_native(executable) or not (steps.condition is None or _is_native(steps.condition)):
        return None
    run = _Run(executable, steps)
    try:
        if not run.bind() or not run.bind_condition():
            return None
        library().steps(ctypes.byref(run.record))
        ran = run.record.ran
        for state, (before, after) in zip(steps.last, run.buffers, strict=True):
            np.copyto(state, (before, after)[ran % 2])
        return ran
    finally:
        run.release()


def _is_native(executable: Any) -> bool:
    program = executable.program
    return (
        not program.donated
        and not any(isinstance(s, HostCall) for s in program.steps)
        and all(isinstance(v, SlotView) and v.is_plain for v in program.outputs)
    )


class _Run:
    """One run of a loop: its record, and the memory that this points to."""

    def __init__(self, executable: NativeExecutable, steps: LoopSteps) -> None:
        self.executable = executable
        self.steps = steps
        self.record = LoopRecord()
        self.buffers: list[tuple[Any, Any]] = []  # of each state: that of even steps, and of odd ones
        self._keep: list[Any] = []
        self._taken: list[tuple[Any, Any]] = []  # executables and their workspaces
        self._slots: list[int] = []
        self._advances: list[tuple[int, int]] = []

    def release(self) -> None:
        """Return the workspaces."""
        for executable, workspace in self._taken:
            executable.release(workspace)

    def bind(self) -> bool:
        """Point slots to the arrays; False if some array is not as the program wants it."""
        steps, program, tables = self.steps, self.executable.program, self.executable.native.tables
        first = steps.count - 1 if steps.backwards else 0
        data = len(steps.data)
        self.buffers = [(np.array(s, order="C"), np.empty(s.shape, s.dtype)) for s in steps.states]
        keys = steps.keys(first)
        given = [*steps.data, *[b for b, _ in self.buffers], *steps.read, *keys]
        plain = [np.asarray(x, order="C") for x in given]
        for i, (x, spec) in enumerate(zip(plain, program.inputs, strict=True)):
            if not _is(x, spec, i < data):
                return False
        self._slots = [self._arena(self.executable)]
        self._slots += [self._row(x, first) if i < data else x.ctypes.data for i, x in enumerate(plain)]
        self._keep += plain
        for i, x in enumerate(plain[:data]):
            self._advance(1 + i, x)
        begin = len(self._slots)
        self._slots += [0] * len(program.fresh)
        self._slots += [*[c.ctypes.data for c in program.constants], self._memory(program.kept)]
        before: list[CopyRecord] = []
        after: list[CopyRecord] = []
        swaps: list[PositionRecord] = []
        for number, view in enumerate(program.outputs):
            assert isinstance(view, SlotView), "other results are no views of slots"
            at = view.slot - begin
            direct = 0 <= at < len(program.fresh) and view.is_whole(program.fresh[at]) and not self._slots[view.slot]
            size = int(np.prod(view.shape, dtype=np.int64)) * view.dtype.itemsize
            if number < len(steps.outputs):
                rows = steps.outputs[number]
                if not rows.flags.c_contiguous or rows.dtype != view.dtype:
                    return False
                place = self._place(view.slot if direct else None, self._row(rows, first))
                self._advance(place, rows)
            else:
                state = number - len(steps.outputs)
                place = self._place(view.slot if direct else None, self.buffers[state][1].ctypes.data)
                swaps.append(PositionRecord(1 + data + state, place))
            if not direct:
                after.append(CopyRecord(view.slot, view.offset, place, size))
        for state, rows in enumerate(steps.saved):
            if not rows.flags.c_contiguous:
                return False
            place = self._place(None, self._row(rows, first))
            self._advance(place, rows)
            before.append(CopyRecord(1 + data + state, 0, place, self.buffers[state][0].nbytes))
        for i, spec in enumerate(program.fresh):  # of what is no whole result
            if not self._slots[begin + i]:
                self._slots[begin + i] = self._memory(spec.nbytes)
        record = self.record
        record.program = ctypes.addressof(tables.program)
        record.slots = self._table(ctypes.c_void_p, self._slots)
        record.count = steps.count
        record.before, record.before_count = self._table(CopyRecord, before), len(before)
        record.after, record.after_count = self._table(CopyRecord, after), len(after)
        record.swaps, record.swap_count = self._table(PositionRecord, swaps), len(swaps)
        moves = [PositionRecord(*each) for each in self._advances]
        record.advances, record.advance_count = self._table(PositionRecord, moves), len(moves)
        for key in keys:
            record.counter = key.ctypes.data + key.itemsize
            record.counter_step = -steps.key_step if steps.backwards else steps.key_step
        return True

    def bind_condition(self) -> bool:
        """Point the slots of the condition's program to the same arrays."""
        steps, executable = self.steps, self.steps.condition
        if executable is None:
            return True
        program = executable.program
        (view,) = program.outputs
        states = len(steps.states)
        given = self._keep[len(steps.data) :]  # states, and what every step reads
        inputs = [x.ctypes.data for x in given[: len(program.inputs)]]
        slots = [self._arena(executable), *inputs]
        slots += [self._memory(spec.nbytes) for spec in program.fresh]
        slots += [*[c.ctypes.data for c in program.constants], self._memory(program.kept)]
        if 1 <= view.slot <= states or view.dtype != np.float32:
            return False  # a state moves
        links = [PositionRecord(1 + i, 1 + len(steps.data) + i) for i in range(states)]
        record = self.record
        record.condition = ctypes.addressof(executable.native.tables.program)
        record.condition_slots = self._table(ctypes.c_void_p, slots)
        record.links, record.link_count = self._table(PositionRecord, links), len(links)
        record.answer = slots[view.slot] + view.offset
        return True

    # --- memory --------------------------------------------------------------------------------------------

    def _arena(self, executable: Any) -> int:
        workspace = executable.acquire()
        self._taken.append((executable, workspace))
        return workspace.ctypes.data

    def _row(self, rows: Any, index: int) -> int:
        """The address of a row."""
        return rows.ctypes.data + index * _row_bytes(rows)

    def _advance(self, slot: int, rows: Any) -> None:
        """Let a slot move from row to row."""
        self._advances.append((slot, _row_bytes(rows) * (-1 if self.steps.backwards else 1)))

    def _place(self, slot: int | None, address: int) -> int:
        """A slot with this address, a new one if none is given."""
        if slot is None:
            self._slots.append(address)
            return len(self._slots) - 1
        self._slots[slot] = address
        return slot

    def _memory(self, size: int) -> int:
        """The address of so many bytes."""
        made = np.empty(size + ALIGNMENT, np.uint8)
        self._keep.append(made)
        return -(-made.ctypes.data // ALIGNMENT) * ALIGNMENT

    def _table(self, kind: Any, items: Sequence[Any]) -> int:
        """The address of a C array."""
        table = (kind * max(len(items), 1))(*items)
        self._keep.append(table)
        return ctypes.addressof(table)


def _row_bytes(rows: Any) -> int:
    return rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))


def _is(array: Any, spec: PlainArray, has_rows: bool) -> bool:
    """Whether an array, or a row of it, is as a program wants it."""
    shape = array.shape[1:] if has_rows else array.shape
    return bool(shape == tuple(spec.shape) and array.dtype == spec.dtype and array.flags.aligned)
