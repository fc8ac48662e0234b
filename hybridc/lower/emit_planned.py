"""A planned function as a program, for any target.

A :class:`ProgramEmitter` notes what all programs have. A :class:`PlanEmitter` writes a planned program: views of slots,
a step for each launch, results; what a step is, the target says. :func:`check_launch` holds launches to their kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.error_context import located, raise_in_context, user_frames
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.mlir.graph_notes import INTO, LIVE, PREPARATION
from hybridc.dialects.mlir.hybrid import hybrid_dtype, hybrid_shape, location_of, locations_of
from hybridc.dialects.mlir.hybrid_rt import (
    AliasOp,
    AllocOp,
    ArenaOp,
    ConstantOp,
    CopyOp,
    DonatedOp,
    KeptOp,
    LaunchOp,
    StateOp,
    ViewOp,
    aliased,
    aligned,
)
from hybridc.dialects.operator import Movement, Opaque, Operator
from hybridc.errors import CustomOpError, VerifyError
from hybridc.ground.quoting import one_line
from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.kernels.kernel_notes import STRIDED
from hybridc.ir.planned import (
    ARENA,
    HostCall,
    LaunchNote,
    OperatorState,
    PlainArray,
    PlannedProgram,
    Position,
    PreparedValue,
    Program,
    SlotView,
    reshaped_view,
)
from hybridc.ir.structured import (
    arrays_of,
    handwritten_kernel,
    is_handwritten,
    kernels,
    numbers_in,
    operator_of,
)
from hybridc.ir.values import functions, volume
from hybridc.lower.poison import Bytes, Poison

if TYPE_CHECKING:
    from hybridc.ground.location import Location
    from hybridc.transforms.code.choose_code import KernelCacheInterface


class ProgramEmitter(ABC):
    """Writes ``program`` from the planned function of its name; with ``poison``, memory without use holds NaN.

    What all programs have is noted here: their launches, the operators that the host runs, and what is poisoned.
    """

    def __init__(self, module: ModuleOp, program: Program, poison: bool) -> None:
        self.kernels = kernels(module)
        self.function = next(f for f in functions(module) if f.sym_name.data == program.name)
        self.noted = program
        program.live = LIVE.of(self.function)
        self.poison = Poison(self.function, self.kernels) if poison else None
        self._operators: dict[str, Operator] = {}
        self.hoisted = 0  # steps that were put before those that were there
        self.loop_flops: int | None = None  # of a loop that was just written

    @abstractmethod
    def kernel(self, op: LaunchOp, function: KernelFunction) -> None:
        """Write a kernel's launch."""

    @abstractmethod
    def host(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> None:
        """Write a call of the host."""

    @abstractmethod
    def by_hand(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> None:
        """Write the launch of a kernel that is written by hand."""

    def loop(self, _op: LaunchOp, _name: str, _operator: Operator, _where: Location | None) -> bool:
        """Write all steps of a loop as one launch, if the operator is a loop, and the target can."""
        return False

    @abstractmethod
    def poisoned(self, place: Bytes) -> None:
        """Write that ones are put into the bits of some memory of the arena."""

    def launch(self, op: LaunchOp) -> None:
        """Write a launch, and the poisoning of memory around it."""
        for place in self.poison.before(op) if self.poison is not None else ():
            self.poisoned(place)
        name = op.kernel.string_value()
        first = self.step_count() - self.hoisted
        self.noted.launches.append(name)
        function = self.kernels[name]
        if isinstance(function, KernelFunction):
            self.kernel(op, function)
        else:
            self._host(op, name, function)
        self._note(op, function, first + self.hoisted)
        for place in self.poison.after(op) if self.poison is not None else ():
            self.poisoned(place)

    def step_count(self) -> int:
        """The number of steps, or of launches, so far."""
        return len(self.noted.launches)

    def _note(self, op: LaunchOp, function: func.FuncOp, first: int) -> None:
        """Note what a launch is, for reports of a run."""
        name = self.noted.launches[-1]
        flops: int | None = None
        if isinstance(function, KernelFunction):
            operators, flops = function.kernel.operators, function.kernel.flops
        else:
            operator = self._operators[function.sym_name.data]
            operators, flops = [operator.title()], 0 if isinstance(operator, Movement) else self.loop_flops
        self.loop_flops = None
        lines = [one_line(where) for where in locations_of(op) or locations_of(function)]
        reads, writes = [
            tuple([PlainArray(a.shape, a.dtype) for a in arrays_of(values) if a.dtype.kind != "O"])
            for values in (op.ins, op.outs)
        ]
        count = self.step_count() - first
        note = LaunchNote(first, count, name, tuple(operators), tuple(lines), reads, writes, flops)
        self.noted.notes.append(note)

    def _host(self, op: LaunchOp, name: str, declaration: func.FuncOp) -> None:
        if name not in self._operators:
            self._operators[name] = operator_of(declaration)
        operator = self._operators[name]
        where = location_of(op) or location_of(declaration)
        if is_handwritten(declaration):
            self.by_hand(op, name, operator, where)
            return
        if self.loop(op, name, operator, where):
            return
        self.host(op, name, operator, where)
        if isinstance(operator, Opaque):
            self.noted.host_calls.append(f"{operator!r}" + (f" at {where}" if where else ""))
            self.noted.host_launches.append(len(self.noted.launches) - 1)


class PlanEmitter(ProgramEmitter):
    """Writes a program of steps over memory in slots."""

    def __init__(
        self, module: ModuleOp, program: PlannedProgram, kernel_cache: KernelCacheInterface, poison: bool
    ) -> None:
        super().__init__(module, program, poison)
        self.planned = program
        self._codes = kernel_cache
        self.views: dict[SSAValue, SlotView] = {}
        self.states: dict[SSAValue, int] = {}
        self.lines: list[str] = []

    # --- what the target says ------------------------------------------------------------------------------

    @abstractmethod
    def run(self, code: Any, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        """Add the steps of a kernel; ``places`` are the positions of arguments, results, then locals."""

    TARGET: ClassVar[str]  # as operators know it

    @abstractmethod
    def described(self, kernel: Any, arrays: Sequence[ArraySpec]) -> Any:
        """The code of a handwritten kernel, given its inputs and results."""

    @abstractmethod
    def copy(self, source: SlotView) -> Any:
        """The code that copies a view into a contiguous array."""

    @abstractmethod
    def fill(self, size: int) -> Any:
        """The code that sets all bits of so many bytes."""

    @abstractmethod
    def launched(self, lines: int, steps: int) -> None:
        """Note the lines and steps of a launch; there were so many before it."""

    def step_count(self) -> int:
        return len(self.planned.steps)

    # --- the walk ------------------------------------------------------------------------------------------

    def walk(self) -> None:
        """Write the whole program."""
        program, block = self.planned, self.function.body.block
        for i, arg in enumerate(block.args):
            program.inputs.append(PlainArray(hybrid_shape(arg), hybrid_dtype(arg)))
            self.views[arg] = _plain(1 + i, 0, arg)
        first = 1 + len(block.args)
        allocs = [op.array for op in block.ops if isinstance(op, AllocOp)]
        for i, array in enumerate(allocs):
            self.views[array] = _plain(first + i, 0, array)
            program.fresh.append(PlainArray(hybrid_shape(array), hybrid_dtype(array)))
        for op in block.ops:
            if isinstance(op, ConstantOp):
                self.views[op.array] = _plain(first + len(allocs) + len(program.constants), 0, op.array)
                numbers = numbers_in(op.value, hybrid_shape(op.array), hybrid_dtype(op.array))
                program.constants.append(np.ascontiguousarray(numbers))
        self.kept_slot = first + len(allocs) + len(program.constants)
        begin = block.first_op
        for op in block.ops:
            if PREPARATION.of(op):
                begin = op.next_op
        for op in block.ops:
            if op is begin:
                self._every_call(allocs)
            self._operation(op)
        head = (
            f"{program.name}: {len(program.inputs)} inputs, {len(program.fresh)} results, arena {program.arena} bytes"
        )
        program.source = "\n".join([head, *self.lines]) + "\n"

    def _every_call(self, allocs: Sequence[SSAValue]) -> None:
        """Note that the preparation ends: what follows runs in every call."""
        self.planned.preparation = len(self.planned.steps)
        if self.poison is not None:
            for array in allocs:
                self._fill(self.views[array].slot, (0, volume(hybrid_shape(array)) * hybrid_dtype(array).itemsize))

    def _operation(self, op: Operation) -> None:
        match op:  # the most frequent first
            case AliasOp():
                self._alias(op)
            case LaunchOp():
                self.launch(op)
            case ViewOp():
                if isinstance(op.memory.owner, ArenaOp):
                    self.views[op.array] = _plain(ARENA, op.offset.value.data, op.array)
                else:
                    self._kept(op.array)
            case AllocOp() | ConstantOp() | KeptOp():
                pass
            case ArenaOp():
                self.planned.arena = op.size
            case StateOp():
                self.states[op.array] = len(self.states)
                self.planned.is_stateful = True
            case DonatedOp():
                self.views[op.array] = self.views[op.argument]
                self.planned.donated.add(self.views[op.argument].slot - 1)
            case CopyOp():
                self.copied(self.views[op.source], self.views[op.target])
            case func.ReturnOp():
                self._results(list(op.arguments))
            case _:
                raise TypeError(f"{op.name} is not an operation of a planned program")

    def _kept(self, array: SSAValue) -> None:
        """A prepared value: memory of its own, which programs share; what computes it is said when that is written."""
        view = self.views[array] = _plain(self.kept_slot + len(self.planned.kept), 0, array)
        size = aligned(volume(view.shape) * view.dtype.itemsize)
        self.planned.kept.append(PreparedValue("", (), size, ()))

    # --- views ---------------------------------------------------------------------------------------------

    def _alias(self, op: AliasOp) -> None:
        (array,), (result,) = op.operands, op.results
        view, shape = self.views[array], hybrid_shape(result)
        match op.view.data:
            case "reshape" if view.is_plain:
                moved = view._replace(shape=shape, strides=row_major(shape))
            case "reshape":
                try:
                    moved = view.moved(lambda x: reshaped_view(x, shape))
                except ValueError:  # it takes memory of its own
                    moved = self._plain_copy(view).moved(lambda x: reshaped_view(x, shape))
            case "transpose":
                moved = view.moved(lambda x: x.transpose(op.numbers("order")))
            case "slice":
                begin, step = op.numbers("begin"), op.numbers("step")
                parts = tuple(_part(*bounds) for bounds in zip(begin, step, shape, strict=True))
                moved = view.moved(lambda x: x[(*parts, ...)])  # of no axes, too, a view
            case other:
                raise TypeError(f"alias {other!r} is not a view; expected reshape, transpose or slice")
        self.views[result] = moved

    def _plain_copy(self, view: SlotView) -> SlotView:
        """A plain array with the elements of a view."""
        target = self.plain_like(view)
        self.copied(view, target)
        return target

    def plain_like(self, view: SlotView) -> SlotView:
        """A plain array for the elements of a view, in memory behind the planned arena."""
        place = self.memory(volume(view.shape) * view.dtype.itemsize)
        return SlotView(*place, view.dtype, view.shape, row_major(view.shape))

    def memory(self, size: int) -> Position:
        """So many bytes behind the planned arena."""
        offset = aligned(self.planned.arena)
        self.planned.arena = offset + aligned(size)
        return Position(ARENA, offset)

    def copied(self, source: SlotView, target: SlotView) -> None:
        """Add the step that copies a view into another."""
        self.lines.append("copy")
        self.run(self.copy(source), [place_of(source), place_of(target)], None, "copy")

    # --- steps ---------------------------------------------------------------------------------------------

    def poisoned(self, place: Bytes) -> None:
        self._fill(ARENA, place)

    def _fill(self, slot: int, place: Bytes) -> None:
        begin, end = place
        self.lines.append("poison")
        self.run(self.fill(end - begin), [Position(slot, begin)], None, "poison")

    def kernel(self, op: LaunchOp, function: KernelFunction) -> None:
        line, step = len(self.lines), len(self.planned.steps)
        kernel = function.kernel
        self.planned.functions[kernel.name] = kernel.name
        reads, writes, memory = op.groups
        ins, outs = [self.views[v] for v in reads], [self.views[v] for v in writes]
        arrays = [*ins, *outs]
        strides = {i: arrays[i].strides for i in STRIDED.of(function)}
        views = [i for i, v in enumerate(arrays) if not v.is_plain and i not in strides]
        assert not views, f"{kernel.name} is given views as plain arrays: {views}"
        written: dict[tuple[int, int], list[int]] = {}
        for j, b in enumerate(outs):
            written.setdefault((b.slot, b.offset), []).append(j)
        over = [(i, j) for i, a in enumerate(ins) if volume(a.shape) for j in written.get((a.slot, a.offset), ())]
        code = self._codes.of(kernel, strides, over)
        scratch = None if memory is None else self.views[memory]
        begin = 0 if scratch is None else scratch.offset
        places = [place_of(v) for v in arrays]
        end = begin + code.scratch_of(self._codes.threads)
        for size in code.locals:
            places.append(Position(ARENA, end))
            end += aligned(size)
        given_bytes = 0 if scratch is None else volume(scratch.shape)
        check_launch(kernel.name, given_bytes, end - begin, over, lambda: self._codes.inplace(kernel, sorted(strides)))
        self.lines.append(f"{kernel.name}{comment(*kernel.locations)}")
        self.run(code, places, None if scratch is None else place_of(scratch), kernel.name)
        self.launched(line, step)

    def host(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> None:
        line, step = len(self.lines), len(self.planned.steps)
        ins, outs = (tuple(map(self._array, values)) for values in (op.ins, op.outs))
        self.planned.steps.append(HostCall(operator, ins, outs, str(where or ""), name))
        self.lines.append(f"{name} on the host{comment(where)}")
        self.launched(line, step)

    def by_hand(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> None:
        line, step = len(self.lines), len(self.planned.steps)
        self.lines.append(f"{name}{comment(where)}")
        places = [place_of(v) for v in (*self.plain(op.ins), *(self.views[v] for v in op.outs))]
        self.run(self._described(op, operator, where), places, None, name)
        self.launched(line, step)

    def plain(self, values: Sequence[SSAValue]) -> list[SlotView]:
        """Values as plain arrays, which are copies of other views."""
        return [view if view.is_plain else self._plain_copy(view) for view in (self.views[v] for v in values)]

    def _described(self, op: LaunchOp, operator: Operator, where: Location | None) -> Any:
        """The parallel regions or launches of a handwritten kernel; its faults are errors of the operator's author."""
        ins, outs = arrays_of(op.ins), arrays_of(op.outs)
        try:
            return self.described(handwritten_kernel(operator, self.TARGET, ins, outs), [*ins, *outs])
        except CustomOpError as error:
            raise located(error.restated(f"operator {operator.NAME}: {error}"), where) from error
        except Exception as error:
            if user_frames(error):
                raise_in_context(operator, "kernel", error)
            raise

    def _array(self, value: SSAValue) -> SlotView | OperatorState:
        """The position of a value."""
        return self.views[value] if value in self.views else OperatorState(self.states[value], hybrid_shape(value))

    # --- results -------------------------------------------------------------------------------------------

    def _results(self, results: list[SSAValue]) -> None:
        """Say where the results are, and which of them may be wanted in arrays of the caller's."""
        program = self.planned
        program.outputs = [self._array(v) for v in results]
        program.takes_into = INTO.of(self.function)
        first = 1 + len(program.inputs)
        views: dict[int, list[tuple[int, SlotView]]] = {}
        for n, view in enumerate(program.outputs):
            if isinstance(view, SlotView):
                views.setdefault(view.slot, []).append((n, view))
        for i, array in enumerate(program.fresh):
            whole = [(n, v) for n, v in views.get(first + i, ()) if v.is_whole(array)]
            program.into.append(whole[0][0] if whole else None)
            if whole:  # made in the shape that the caller sees
                program.fresh[i] = PlainArray(whole[0][1].shape, array.dtype)


def comment(*locations: Any) -> str:
    """The user's lines, as they stand behind a line of the listing."""
    lines = ", ".join(one_line(where) for where in locations if where)
    return f"  # {lines}" if lines else ""


def place_of(view: SlotView) -> Position:
    """The position at which a view begins."""
    return Position(view.slot, view.offset)


def _plain(slot: int, offset: int, value: SSAValue) -> SlotView:
    shape = hybrid_shape(value)
    return SlotView(slot, offset, hybrid_dtype(value), shape, row_major(shape))


def _part(begin: int, step: int, count: int) -> slice:
    end = begin + step * (count - 1) + (1 if step > 0 else -1)
    return slice(begin, None if end < 0 else end, step) if count else slice(0, 0)


# --- launches against what the code of kernels needs ------------------------------------------------------------------


Pairs = Collection[tuple[int, int]]


def check_launch(name: str, available: int, needed: int, over: Pairs, allowed: Callable[[], Pairs]) -> None:
    """Raise VerifyError unless a launch gives a kernel the scratch and the in-place pairs that its code allows.

    ``available`` and ``needed`` are bytes of scratch; ``over`` are the pairs of an argument and the result that
    overwrites it, ``allowed()`` those in which the code has read the argument by then.
    """
    if available < needed:
        raise VerifyError(f"memory plan: @{name} needs {needed} bytes of scratch, got {available}")
    if not over:
        return
    wrong = sorted(set(over) - set(allowed()))
    if wrong:
        argument, result = wrong[0]
        raise VerifyError(
            f"memory plan: @{name} overwrites argument {argument} with result {result}, but its code reads it later"
        )


def written_over(ins: Sequence[SSAValue], outs: Sequence[SSAValue]) -> list[tuple[int, int]]:
    """Pairs of an argument and a result with the same address; two parts of an array are apart."""
    at: dict[object, list[tuple[int, SSAValue]]] = {}
    for i, read in enumerate(ins):
        at.setdefault(_address(read), []).append((i, read))
    return [
        (i, j)
        for j, value in enumerate(outs)
        for i, read in at.get(_address(value), ())
        if not (isinstance(value.owner, AliasOp) and aliased(read) is aliased(value)) and volume(hybrid_shape(value))
    ]


def _address(value: SSAValue) -> object:
    array = aliased(value)
    match array.owner:
        case ViewOp():
            return array.owner.offset.value.data
        case DonatedOp():
            return array.owner.argument
        case _:
            return array
