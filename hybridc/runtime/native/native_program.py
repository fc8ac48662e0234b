"""A native plan ready to run: its tables packed for native code, and the function that Python calls."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.ground.buffers import ALIGNMENT, SMALLEST
from hybridc.ground.machine import machine
from hybridc.ir.planned import (
    Grid,
    Host,
    InnerSteps,
    LaunchNote,
    NativePlan,
    NativeRegion,
    PlainArray,
    Position,
    StepLoop,
)
from hybridc.lower.llvm.executor.structures import (
    ArrayRecord,
    CopyRecord,
    GridCell,
    GridPartCell,
    InnerCell,
    LoopCell,
    NativeTable,
    PositionRecord,
    StepRecord,
)
from hybridc.runtime.native.builtin_functions import builtin
from hybridc.runtime.native.fallback import python_entry
from hybridc.runtime.native.native_events import NATIVE_EVENTS
from hybridc.runtime.native.native_library import native_runtime
from hybridc.runtime.native.prepared_values import PreparedValues
from hybridc.runtime.native.probe import objects_are_as_declared
from hybridc.runtime.workspace import Workspace, workspace


class NativeProgram:
    """A native plan, ready to run.

    ``entry(workspace, into, *arrays)`` returns a tuple of results; ``into`` is None or a tuple with an output buffer or
    None for each. It returns NotImplemented if an array is not as declared in the plan (type, dtype, shape, C order),
    or if the plan prepares ``values`` and these do not hold for the arrays.
    Several threads may call it at a time, each with its own workspace.
    """

    def __init__(self, plan: NativePlan) -> None:
        check_plan(plan)
        self.plan = plan
        self.tables = Tables(plan)
        make = native_entry if objects_are_as_declared() else python_entry
        self.entry: Callable[..., Any] = make(self.tables)
        self.values = PreparedValues(self.tables) if plan.kept else None

    def workspace(self) -> Workspace:
        """Memory for calls, one at a time."""
        return workspace(self.plan.arena)


def num_threads() -> int:
    """The number of threads of native kernels, the calling one included."""
    return native_runtime().threads.count


def set_num_threads(count: int) -> None:
    """Set the number of threads of native kernels; programs compiled for fewer keep theirs."""
    if count < 1:
        raise ValueError(f"set_num_threads: expected at least 1, the calling thread, got {count}")
    native_runtime().threads.set_count(count)


class Tables:
    """A plan as C structures; owns everything that they point to."""

    def __init__(self, plan: NativePlan) -> None:
        self.plan = plan
        self._keep: list[Any] = []
        #: The steps at the addresses of tables, its own and those of its loops, with their notes.
        self.steps: dict[int, tuple[Sequence[NativeRegion | Host], Sequence[LaunchNote]]] = {}
        steps = self._steps(plan.steps, plan.notes)
        self.read = (ctypes.c_void_p * len(plan.inputs))()
        #: The addresses of the prepared values while all are valid, and the identities of the arrays they follow from.
        self.prepared: tuple[Any, dict[int, int]] | None = None
        self.program = NativeTable(
            outside=ctypes.addressof(native_runtime().outside),
            input_count=len(plan.inputs),
            result_count=len(plan.results),
            constant_count=len(plan.constants),
            step_count=len(plan.steps),
            slot_count=1 + len(plan.inputs) + len(plan.results) + len(plan.constants) + len(plan.kept),
            buffer_count=max((len(s.buffers) for s in plan.steps if isinstance(s, NativeRegion)), default=0),
            inputs=self._arrays(plan.inputs),
            results=self._arrays(plan.results),
            constants=self._table(ctypes.c_void_p, [c.ctypes.data for c in plan.constants]),
            steps=steps,
            first=plan.preparation,
            kept=len(plan.kept),
            read=ctypes.addressof(self.read),
            arena=plan.arena,
            release=int(plan.work > machine().released),
            threads=plan.threads,
        )
        NATIVE_EVENTS.know(self)

    def anchor(self) -> Any:
        """An array over the program structure, which keeps all tables alive."""
        return anchor_of(self.program, self)

    def prepared_of(self, arrays: Sequence[Any]) -> Any | None:
        """The addresses of the values that are prepared of these arrays; None if there are none."""
        prepared = self.prepared
        if prepared is None or any(id(arrays[i]) != identity for i, identity in prepared[1].items()):
            return None
        return prepared[0]

    def _steps(self, steps: Sequence[NativeRegion | Host], notes: Sequence[LaunchNote]) -> int:
        states: list[StepRecord] = []
        next_host = len(steps)
        for index in reversed(range(len(steps))):
            step = steps[index]
            if isinstance(step, Host):
                next_host = index
                states.append(StepRecord(host=id(step.call), next_host=index))
            else:
                states.append(self._region(step, next_host))
        address = self._table(StepRecord, states[::-1])
        self.steps[address] = steps, notes
        return address

    def _region(self, region: NativeRegion, next_host: int) -> StepRecord:
        if region.loop is not None:
            code, numbers = native_runtime().loop, self._loop(region.loop, len(region.buffers))
        elif region.grid is not None:
            code, numbers = native_runtime().grid, self._grid(region.grid)
        else:
            code, numbers = region.code.address, self._words(array("q", region.numbers))
        return StepRecord(
            next_host=next_host,
            code=code,
            buffers=self._table(PositionRecord, [_place(p) for p in region.buffers]),
            buffer_count=len(region.buffers),
            numbers=numbers,
            extent=region.extent,
            grain=region.grain,
            alone=max(region.grain, region.least - 1),
            scratch=_place(region.scratch or Position(0)),
            scratch_stride=region.scratch_stride,
        )

    def _grid(self, grid: Grid) -> int:
        parts = [
            GridPartCell(
                code=part.code.address,
                buffers=self._table(PositionRecord, [_place(p) for p in part.buffers]),
                buffer_count=len(part.buffers),
                numbers=self._words(array("q", part.numbers)),
                extent=part.extent,
                scratch=part.scratch,
            )
            for part in grid.parts
        ]
        cell = GridCell(
            axis_count=len(grid.sizes),
            sizes=self._words(array("q", grid.sizes)),
            buffer_count=len(grid.steps),
            steps=self._words(array("q", [n for along in zip(*grid.steps, strict=True) for n in along])),
            part_count=len(parts),
            parts=self._table(GridPartCell, parts),
            widest=max(part.buffer_count for part in parts),
        )
        return self._table(GridCell, [cell])

    def _loop(self, loop: StepLoop, buffers: int) -> int:
        constants = [self._constant(constant) for constant in loop.constants]
        copies = {name: getattr(loop, name) for name in ("begin", "before", "end")}
        pairs = {"swap": loop.swaps, "advance": loop.advances, "link": loop.links, "zero": loop.zeros}
        key, choice = loop.key, loop.choice
        cell = LoopCell(
            step=self._inner(loop.step),
            buffer_count=buffers,
            constants=self._table(ctypes.c_void_p, constants),
            constant_count=len(constants),
            count=loop.count,
            counted=_slot(loop.counted),
            backwards=loop.backwards,
            key=-1 if key is None else key.slot,
            answer=_place(loop.answer or Position(0)),
            ran=_slot(loop.ran),
            choice=-1 if choice is None else choice.slot,
            **{name: self._table(CopyRecord, [CopyRecord(*c) for c in rows]) for name, rows in copies.items()},
            **{f"{name}_count": len(rows) for name, rows in copies.items()},
            **{f"{n}s": self._table(PositionRecord, [PositionRecord(*p) for p in rows]) for n, rows in pairs.items()},
            **{f"{name}_count": len(rows) for name, rows in pairs.items()},
        )
        if key is not None:
            cell.key_source, cell.draw, cell.key_step = key.source, key.draw, key.step
        if choice is not None:
            cell.choice_size, cell.choice_bits = choice.size, 0x7F if choice.signed else 0xFF
            cell.choice_zero = choice.zero
        if loop.condition is not None:
            cell.condition = self._inner(loop.condition)
        return self._table(LoopCell, [cell])

    def _inner(self, inner: InnerSteps) -> InnerCell:
        table = NativeTable(
            outside=ctypes.addressof(native_runtime().outside),
            step_count=len(inner.regions),
            buffer_count=max((len(r.buffers) for r in inner.regions), default=0),
            steps=self._steps(inner.regions, inner.notes),
            first=inner.preparation,
            threads=inner.threads,
        )
        slots = self._table(PositionRecord, [_place(p) for p in inner.slots])
        return InnerCell(self._table(NativeTable, [table]), len(inner.slots), slots)

    def _constant(self, data: bytes) -> int:
        """The address of a constant."""
        memory = np.empty(len(data) + ALIGNMENT, np.uint8)
        self._keep.append(memory)
        begin = -memory.ctypes.data % ALIGNMENT
        memory[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        return memory.ctypes.data + begin

    def _arrays(self, arrays: Sequence[PlainArray]) -> int:
        states: list[ArrayRecord] = []
        for spec in arrays:
            dtype = np.dtype(spec.dtype)
            size = spec.nbytes
            self._keep += [dtype, size]
            states.append(
                ArrayRecord(
                    rank=len(spec.shape),
                    type_num=dtype.num,
                    descr=id(dtype),
                    shape=self._words(array("q", spec.shape)),
                    size=id(size) if size >= SMALLEST else None,
                )
            )
        return self._table(ArrayRecord, states)

    def _words(self, words: array[int]) -> int:
        """The address of an array of 8-byte words."""
        self._keep.append(words)
        return words.buffer_info()[0]

    def _table(self, type_: Any, items: Any) -> int:
        """The address of a C array."""
        table = (type_ * len(items))(*items)
        self._keep.append(table)
        return ctypes.addressof(table)


class _Anchor(np.ndarray[Any, Any]):
    keep: Any


def anchor_of(structure: ctypes.Structure, keep: Any) -> Any:
    """An array over a structure, for native code; it keeps an object alive."""
    memory: Any = structure
    anchor = np.frombuffer(memory, np.uint8).view(_Anchor)
    anchor.keep = keep
    return anchor


def native_entry(tables: Tables) -> Callable[..., Any]:
    """The builtin function that runs a plan."""
    return builtin(native_runtime().entry, tables.anchor())


def _slot(slot: int | None) -> int:
    return -1 if slot is None else slot


def _place(place: Position) -> PositionRecord:
    return PositionRecord(place.slot, place.offset)


def check_plan(plan: NativePlan) -> None:
    """Raise ValueError if a plan breaks an assumption of native code."""
    slots = 1 + len(plan.inputs) + len(plan.results) + len(plan.constants) + len(plan.kept)
    sizes = [
        plan.arena,
        *(a.nbytes for a in [*plan.inputs, *plan.results]),
        *(c.nbytes for c in plan.constants),
        *(value.size for value in plan.kept),
    ]
    for constant in plan.constants:
        if not constant.flags.c_contiguous:
            raise ValueError(f"native plan: a constant of shape {constant.shape} is not C-contiguous")
    if any(isinstance(step, Host) for step in plan.steps[: plan.preparation]):
        raise ValueError("native plan: the preparation calls the host, which every call must do")
    for index, step in enumerate(plan.steps):
        if isinstance(step, Host):
            continue
        if step.grain < 1 or step.extent < 0:
            raise ValueError(
                f"native plan: step {index} has extent {step.extent} and grain {step.grain}; expected at least 0 and 1"
            )
        if len(step.numbers) % 8:
            raise ValueError(f"native plan: step {index} has {len(step.numbers)} bytes of scalars, no multiple of 8")
        for place in [*step.buffers, *([step.scratch] if step.scratch else [])]:
            if not 0 <= place.slot < slots or not 0 <= place.offset <= sizes[place.slot]:
                raise ValueError(
                    f"native plan: step {index} uses {place}, outside the plan's {slots} slots of {sizes} bytes"
                )
