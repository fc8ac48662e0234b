"""A planned program as a native plan: a table of steps for the executor, and what Python does before and after it."""

from __future__ import annotations

import struct
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.draws import DrawsUniform
from hybridc.dialects.hybrid import dtype_of, location_of, shape_of
from hybridc.dialects.hybrid_rt import (
    AliasOp,
    AllocOp,
    ArenaOp,
    CellOp,
    ConstantOp,
    CopyOp,
    DonatedOp,
    LaunchOp,
    ViewOp,
    aligned,
)
from hybridc.dialects.operator import Opaque, Operator
from hybridc.dialects.scatter import AddsRows
from hybridc.lower.host import numbers_of, operator_of
from hybridc.lower.llvm.kernel_code import Codes
from hybridc.lower.llvm.kernel_phases import KernelPhase, copy_phase, fill_phase
from hybridc.lower.llvm.native_source import ARENA, Cell, HostCall, NativeSource, View
from hybridc.lower.llvm.philox_loops import uniform_phase
from hybridc.lower.llvm.scatter_loops import row_sums_phase
from hybridc.lower.numbers import numbers_in
from hybridc.lower.poison import Bytes, Poison
from hybridc.lower.strides import row_major
from hybridc.lower.structured import is_host, kernels
from hybridc.options import OPTIONS
from hybridc.runtime.native.plan import Array, Host, Phase, Place
from hybridc.transforms.values import functions, volume


def emit(
    module: ModuleOp, name: str, threads: int, poison: bool = OPTIONS.poison, codes: Codes | None = None
) -> NativeSource:
    """The native plan of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``codes`` are those of the module's kernels, if they were asked for before.
    """
    return _Emitter(module, name, Codes(threads) if codes is None else codes, poison).run()


class _Emitter:
    def __init__(self, module: ModuleOp, name: str, codes: Codes, poison: bool) -> None:
        self.kernels = kernels(module)
        self.function = next(f for f in functions(module) if f.sym_name.data == name)
        live = self.function.attributes.get("hybrid.live")
        self.program = NativeSource(name, "", 0, live.value.data if isinstance(live, IntegerAttr) else 0)
        self.program.threads = codes.threads
        self.codes = codes
        self.views: dict[SSAValue, View] = {}
        self.cells: dict[SSAValue, int] = {}
        self.operators: dict[str, Operator] = {}
        self.allocs: list[SSAValue] = []
        self.constants: list[tuple[SSAValue, Any]] = []
        self.lines: list[str] = []
        self.work = 0.0
        self.poison = Poison(self.function, self.kernels) if poison else None

    def run(self) -> NativeSource:
        program, block = self.program, self.function.body.block
        for i, arg in enumerate(block.args):
            program.inputs.append(Array(shape_of(arg), dtype_of(arg)))
            self.views[arg] = _plain(1 + i, 0, arg)
        first = 1 + len(block.args)
        self.allocs = [op.array for op in block.ops if isinstance(op, AllocOp)]
        for i, array in enumerate(self.allocs):
            self.views[array] = _plain(first + i, 0, array)
            program.fresh.append(Array(shape_of(array), dtype_of(array)))
        for op in block.ops:
            if isinstance(op, ConstantOp):
                self.views[op.array] = _plain(first + len(self.allocs) + len(program.constants), 0, op.array)
                numbers = numbers_in(op.value, shape_of(op.array), dtype_of(op.array))
                program.constants.append(np.ascontiguousarray(numbers))
        if self.poison is not None:
            for array in self.allocs:
                self._fill(self.views[array].slot, (0, volume(shape_of(array)) * dtype_of(array).itemsize))
        for op in block.ops:
            self._operation(op)
        program.work = self.work
        head = (
            f"{program.name}: {len(program.inputs)} inputs, {len(program.fresh)} results, arena {program.arena} bytes"
        )
        program.source = "\n".join([head, *self.lines]) + "\n"
        return program

    def _operation(self, op: Operation) -> None:
        match op:
            case ArenaOp():
                self.program.arena = op.size
            case ViewOp():
                self.views[op.array] = _plain(ARENA, op.offset.value.data, op.array)
            case CellOp():
                self.cells[op.array] = len(self.cells)
            case DonatedOp():
                self.views[op.array] = self.views[op.argument]
                self.program.donated.add(self.views[op.argument].slot - 1)
            case AliasOp():
                self._alias(op)
            case CopyOp():
                self._copy(self.views[op.source], self.views[op.target])
            case LaunchOp():
                self._launch(op)
            case func.ReturnOp():
                self._results(list(op.arguments))
            case AllocOp() | ConstantOp():
                pass
            case _:
                raise TypeError(f"{op.name} in a planned program")

    # --- views ---------------------------------------------------------------------------------------------

    def _alias(self, op: AliasOp) -> None:
        view, shape = self.views[op.array], shape_of(op.result)
        match op.view.data:
            case "reshape":
                try:
                    moved = view.moved(lambda x: np.reshape(x, shape, copy=False))
                except ValueError:  # it takes memory of its own
                    moved = self._plain_copy(view).moved(lambda x: np.reshape(x, shape, copy=False))
            case "transpose":
                moved = view.moved(lambda x: x.transpose(op.numbers("order")))
            case "slice":
                begin, step = op.numbers("begin"), op.numbers("step")
                parts = tuple(_part(*each) for each in zip(begin, step, shape, strict=True))
                moved = view.moved(lambda x: x[parts])
            case other:
                raise TypeError(f"{other} is no movement that gives a view")
        self.views[op.result] = moved

    def _plain_copy(self, view: View) -> View:
        """A plain array with the elements of a view, in memory behind the planned arena."""
        offset = aligned(self.program.arena)
        size = volume(view.shape) * view.dtype.itemsize
        self.program.arena = offset + aligned(size)
        target = View(ARENA, offset, view.dtype, view.shape, row_major(view.shape))
        self._copy(view, target)
        return target

    def _copy(self, source: View, target: View) -> None:
        phase = copy_phase(source.dtype, source.shape, source.strides, 0, 1)
        self.lines.append("copy")
        self._phase(phase, [_place(source), _place(target)], None, 0, "copy")

    # --- steps ---------------------------------------------------------------------------------------------

    def _phase(self, phase: KernelPhase, buffers: list[Place], scratch: Place | None, each: int, name: str) -> None:
        if phase.extent <= 0:
            return
        numbers = b"".join(_cell(n) for n in phase.numbers)
        made = Phase(
            cast(Any, None), tuple(buffers), numbers, phase.extent, phase.grain, scratch, each, name, phase.least
        )
        self.program.steps.append((phase.function, made))
        self.work += phase.work
        places = ", ".join(f"{b.slot}+{b.offset}" for b in buffers)
        given = ", ".join(map(str, phase.numbers))
        self.lines.append(f"    [0, {phase.extent}) by {phase.grain}, buffers ({places}), numbers ({given})")

    def _fill(self, slot: int, place: Bytes) -> None:
        """Put ones into the bits of some memory."""
        begin, end = place
        phase = fill_phase(np.dtype(np.int8), end - begin, -1, 0)
        self.lines.append("poison")
        self._phase(phase, [Place(slot, begin)], None, 0, "poison")

    def _launch(self, op: LaunchOp) -> None:
        for place in self.poison.before(op) if self.poison is not None else ():
            self._fill(ARENA, place)
        line, step = len(self.lines), len(self.program.steps)
        self._run(op)
        functions = [s[0] for s in self.program.steps[step:] if isinstance(s, tuple)]
        self.program.calls.append(("\n".join(self.lines[line:]), functions))
        for place in self.poison.after(op) if self.poison is not None else ():
            self._fill(ARENA, place)

    def _run(self, op: LaunchOp) -> None:
        name = op.kernel.string_value()
        self.program.launches.append(name)
        function = self.kernels[name]
        if is_host(function):
            self._host(op, function)
            return
        self.program.functions[name] = name
        kernel = self.codes.kernel(function)
        ins, outs = [self.views[v] for v in op.ins], [self.views[v] for v in op.outs]
        strides = {i: [*ins, *outs][i].strides for i in numbers_of(function, "hybrid.strided")}
        over = [
            (i, j)
            for i, a in enumerate(ins)
            for j, b in enumerate(outs)
            if (a.slot, a.offset) == (b.slot, b.offset) and volume(a.shape)
        ]
        views = [i for i, v in enumerate([*ins, *outs]) if not v.is_plain and i not in strides]
        assert not views, f"{name} is given views as plain arrays: {views}"
        made = self.codes.of(kernel, strides, over)
        scratch = self.views[op.scratch] if op.scratch is not None else None
        each = aligned(made.scratch) * bool(made.scratch)
        places = [_place(v) for v in (*ins, *outs)]
        offset = 0 if scratch is None else scratch.offset + self.program.threads * each
        for size in made.locals:
            places.append(Place(ARENA, offset))
            offset += aligned(size)
        assert scratch is None or offset <= scratch.offset + volume(scratch.shape), f"{name} needs more scratch"
        where = None if scratch is None else Place(ARENA, scratch.offset)
        self.lines.append(f"{name}{_comment(*kernel.locations)}")
        for phase in made.phases:
            self._phase(phase, [places[i] for i in phase.buffers], where, each, name)

    def _host(self, op: LaunchOp, declaration: func.FuncOp) -> None:
        name = declaration.sym_name.data
        if name not in self.operators:
            self.operators[name] = operator_of(declaration)
        operator = self.operators[name]
        where = location_of(op) or location_of(declaration)
        phase = self._phase_of(op, operator)
        if phase is not None:
            self.lines.append(f"{name}{_comment(where)}")
            given = [view if view.is_plain else self._plain_copy(view) for view in (self.views[v] for v in op.ins)]
            self._phase(phase, [_place(v) for v in (*given, self.views[op.outs[0]])], None, 0, name)
            return
        if isinstance(operator, Opaque):
            self.program.host_calls.append(f"{operator!r}" + (f" at {where}" if where else ""))
            self.program.host_launches.append(len(self.program.launches) - 1)
        call = HostCall(
            operator,
            tuple(self._array(v) for v in op.ins),
            tuple(self._array(v) for v in op.outs),
            len(self.program.inputs),
            tuple(self.program.constants),
            str(where or ""),
        )
        self.program.steps.append(Host(call, name))
        self.lines.append(f"{name} on the host{_comment(where)}")

    def _phase_of(self, op: LaunchOp, operator: Operator) -> KernelPhase | None:
        """The native code of what has no loops of linalg; its buffers are the operator's inputs, then its result."""
        if isinstance(operator, AddsRows) and (sums := operator.row_sums()) is not None:
            data, indices = (self.views[v] for v in op.ins)
            return row_sums_phase(sums, volume(indices.shape), data.dtype, indices.dtype, self.program.threads)
        if isinstance(operator, DrawsUniform):
            out = self.views[op.outs[0]]
            return uniform_phase(volume(out.shape), out.dtype, operator.draw_number())
        return None

    def _array(self, value: SSAValue) -> View | Cell:
        """Where a value is."""
        return self.views[value] if value in self.views else Cell(self.cells[value], shape_of(value))

    # --- results -------------------------------------------------------------------------------------------

    def _results(self, results: list[SSAValue]) -> None:
        """Say where the results are, and which of them may be wanted in arrays of the caller's."""
        program = self.program
        program.outputs = [self._array(v) for v in results]
        program.takes_into = "hybrid.into" in self.function.attributes
        first = 1 + len(program.inputs)
        for i, array in enumerate(program.fresh):
            views = [(n, v) for n, v in enumerate(program.outputs) if isinstance(v, View)]
            whole = [(n, v) for n, v in views if v.slot == first + i and v.is_whole(array)]
            program.into.append(whole[0][0] if whole else None)
            if whole:  # made in the shape that the caller sees
                program.fresh[i] = Array(whole[0][1].shape, array.dtype)


def _comment(*locations: Any) -> str:
    """The user's lines, as they stand behind a line of the listing."""
    lines = ", ".join(str(where) for where in locations if where)
    return f"  # {lines}" if lines else ""


def _plain(slot: int, offset: int, value: SSAValue) -> View:
    shape = shape_of(value)
    return View(slot, offset, dtype_of(value), shape, row_major(shape))


def _place(view: View) -> Place:
    return Place(view.slot, view.offset)


def _cell(number: float) -> bytes:
    return struct.pack("<q", number) if isinstance(number, int) else struct.pack("<d", number)


def _part(begin: int, step: int, count: int) -> slice:
    end = begin + step * (count - 1) + (1 if step > 0 else -1)
    return slice(begin, None if end < 0 else end, step) if count else slice(0, 0)
