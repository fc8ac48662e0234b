"""Verify a memory plan independently of the planner: interpret the program, tracking which array each byte holds.

Nothing is shared with :mod:`hybridc.transforms.memory.plan_memory`. A launch stamps the bytes that it writes; every
later read must find the stamp of its own array on all of its bytes. So a wrong offset, an array that is overwritten
too early, a read of uninitialised memory, an undeclared in-place write: each is found where it does harm.
An array may be written part by part, each element once, before it is read.
Arguments are written only where the function says that its caller donates them. The preparation is
skipped by most calls: what it leaves in the arena, later launches do not find.

Attributes are claims. That a kernel may write a result in place is derived from its loops, as far as these decide
it for all targets; a target's emitter checks the rest, and the scratch, against its code. That the backward
gets the values that it asks for is derived from the types and names of both functions.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NoReturn

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.graph_notes import DONATED, DTYPES, LASTING, OUTPUTS, PREPARATION, ROLES, SAVED
from hybridc.dialects.mlir.hybrid import hybrid_element_dtype
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
)
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import VerifyError
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir import structured
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.kernels.kernel_notes import INPLACE, SCRATCH
from hybridc.ir.planned import reshaped_view
from hybridc.ir.structured import declared_inplace_pairs, is_host
from hybridc.ir.values import functions


@dataclass(frozen=True)
class VerifyPlan(ModulePass):
    """Raises :class:`~hybridc.errors.VerifyError` at the first operation that breaks the plan."""

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {f.sym_name.data: f for f in functions(op) if f.sym_visibility is not None}
        planned = {f.sym_name.data: f for f in functions(op) if f.sym_visibility is None}
        for function in planned.values():
            _Checker(function, kernels).run()
        if "forward" in planned and "backward" in planned:
            _check_saved(planned["forward"], planned["backward"])


@dataclass(frozen=True)
class Span:
    """Bytes ``[start, stop)`` of one allocation: the arena, a fresh array, an argument or a constant."""

    memory: SSAValue
    start: int
    stop: int

    def meets(self, other: Span) -> bool:
        """Whether two spans overlap."""
        return self.memory is other.memory and self.start < other.stop and other.start < self.stop


class _Checker:
    def __init__(self, function: func.FuncOp, kernels: dict[str, func.FuncOp]) -> None:
        self.function = function
        self.kernels = kernels
        self.spans: dict[SSAValue, Span] = {}
        # Shadow memory: disjoint spans with the array (never an alias) that was written there last.
        self.stamps: dict[SSAValue, list[tuple[Span, SSAValue]]] = {}
        self.parts: dict[SSAValue, Any] = {}  # of partly written arrays: which elements are written
        self.arena: ArenaOp | None = None
        self.kept: KeptOp | None = None
        self.prepares = True  # until the first launch that every call runs
        self.strides: dict[SSAValue, Shape] = {}  # of aliases, in elements; all others are row-major
        self.donors = {out: argument for argument, out in DONATED.of(function)}  # the donated argument of each result

    def run(self) -> None:
        for argument in self.function.body.block.args:
            self._own(argument)
            self._stamp(argument)
        for op in self.function.body.block.ops:
            match op:
                case ArenaOp():
                    if self.arena is not None:
                        _fail(op, "there is a second arena")
                    self.arena = op
                case KeptOp():
                    if self.kept is not None:
                        _fail(op, "there is a second kept memory")
                    self.kept = op
                case ViewOp():
                    self._view(op)
                case AllocOp() | StateOp():
                    self._own(op.array)
                case ConstantOp():
                    self._own(op.array)
                    self._stamp(op.array)
                case DonatedOp():
                    self._donated(op)
                case AliasOp():
                    self._alias(op)
                case CopyOp():
                    self._copy(op)
                case LaunchOp():
                    self._launch(op)
                case func.ReturnOp():
                    self._returned(op)
                case _:
                    _fail(op, f"{op.name} is not an operation of a planned program")

    # --- memory ---------------------------------------------------------------------------------------------

    def _own(self, value: SSAValue) -> None:
        self.spans[value] = Span(value, 0, _size(value))

    def _span(self, op: Operation, value: SSAValue) -> Span:
        if value not in self.spans:
            _fail(op, f"{_name(value)} is not an array of this program")
        return self.spans[value]

    def _view(self, op: ViewOp) -> None:
        arena = op.memory.owner
        if not isinstance(arena, ArenaOp | KeptOp) or arena not in (self.arena, self.kept):
            _fail(op, "the operand of a view must be the arena or the kept memory")
        start = op.offset.value.data
        stop = start + _size(op.array)
        if start < 0 or stop > arena.size:
            what = "arena" if arena is self.arena else "kept memory"
            _fail(op, f"bytes {start} to {stop} lie outside the {what} of {arena.size} bytes")
        self.spans[op.array] = Span(arena.memory, start, stop)

    def _donated(self, op: DonatedOp) -> None:
        argument = op.argument
        if not isinstance(argument, BlockArgument) or argument.index not in self.donors.values():
            _fail(op, f"{_name(argument)} is not donated by the caller")
        self.spans[op.array] = self._span(op, argument)

    def _alias(self, op: AliasOp) -> None:
        """An alias counts as all bytes of its source, though it may show some."""
        self.spans[op.result] = self._span(op, op.array)
        shape, strides = _content(op.array.type)[1], self.strides.get(op.array)
        seen = op.strides(shape, row_major(shape) if strides is None else strides)
        if seen is None:
            _fail(op, f"{op.view.data} of {_name(op.array)} does not give a view of type {op.result.type}")
        self.strides[op.result] = seen

    def _stamp(self, value: SSAValue) -> None:
        """Record a write of ``value``: its bytes hold it and nothing else; a part counts for its array."""
        if isinstance(value.owner, AliasOp):
            value = aliased(value)
            if value in self.parts:
                return
            self.parts[value] = np.zeros(_content(value.type)[1], bool)
        new = self.spans[value]
        kept: list[tuple[Span, SSAValue]] = []
        for span, holder in self.stamps.get(new.memory, []):
            if not span.meets(new):
                kept.append((span, holder))
                continue
            if span.start < new.start:
                kept.append((Span(span.memory, span.start, new.start), holder))
            if new.stop < span.stop:
                kept.append((Span(span.memory, new.stop, span.stop), holder))
        self.stamps[new.memory] = [*kept, (new, value)]

    def _check_read(self, op: Operation, value: SSAValue) -> None:
        """Check that all bytes of ``value`` were last written as ``value``."""
        array = aliased(value)
        if array in self.parts and not self._elements(value).all():
            _fail(op, f"reads {_name(array)}, of which parts are not written")
        span = self._span(op, array)
        covered = 0
        for other, holder in self.stamps.get(span.memory, []):
            if not other.meets(span):
                continue
            if holder is not array:
                _fail(op, f"reads {_name(array)}, whose memory {_name(holder)} has overwritten")
            covered += min(other.stop, span.stop) - max(other.start, span.start)
        if covered < span.stop - span.start:
            _fail(op, f"reads {_name(array)} before it is written")

    # --- operations -----------------------------------------------------------------------------------------

    def _launch(self, op: LaunchOp) -> None:
        kernel = self.kernels.get(op.kernel.string_value())
        if kernel is None:
            _fail(op, f"kernel @{op.kernel.string_value()} does not exist")
        self._check_signature(op, kernel)
        self._check_preparation(op)
        for value in op.ins:
            self._check_read(op, value)
        outs = list(op.outs)
        for index, value in enumerate(outs):
            self._check_written(op, kernel, index, value)
        if op.scratch is not None:
            scratch = self._span(op, op.scratch)
            if not isinstance(op.scratch.owner, ViewOp):
                _fail(op, "scratch is not a view of the arena")
            for value in (*op.ins, *outs):
                if scratch.meets(self._span(op, value)):
                    _fail(op, f"scratch shares memory with {_name(value)}")
            self._stamp(op.scratch)
        for value in outs:
            self._stamp(value)
            if isinstance(value.owner, AliasOp):
                self._write_part(op, value)

    def _check_preparation(self, op: LaunchOp) -> None:
        """Check that a launch of the preparation comes first, and that no other writes what it keeps."""
        if not PREPARATION.of(op):
            if self.prepares and self.arena is not None:
                self.stamps.pop(self.arena.memory, None)
            self.prepares = False
            for value in op.outs:
                if self.kept is not None and self._span(op, value).memory is self.kept.memory:
                    _fail(op, f"writes {_name(value)} in kept memory, but is not part of the preparation")
            return
        if not self.prepares:
            _fail(op, "is part of the preparation, but comes after launches that are not")
        for value in op.outs:
            memory = self._span(op, value).memory
            if memory not in [m.memory for m in (self.arena, self.kept) if m is not None]:
                _fail(op, f"writes {_name(value)}, which the preparation cannot keep")
        roles = ROLES.of(self.function)
        for value in map(aliased, op.ins):
            if isinstance(value, BlockArgument) and roles and roles[value.index] not in LASTING:
                _fail(op, f"is part of the preparation, but reads {_name(value)}, which may be another at each call")

    def _write_part(self, op: LaunchOp, value: SSAValue) -> None:
        """Record a write of some elements of an array, none of them a second time."""
        part = self._elements(value)
        if part.any():
            _fail(op, f"writes elements of {_name(aliased(value))} once more")
        part[...] = True

    def _elements(self, value: SSAValue) -> Any:
        """The mask of written elements, seen through an alias: a view of the mask of its array."""
        if not isinstance(value.owner, AliasOp):
            return self.parts[value]
        written, shape = self._elements(value.owner.array), _content(value.type)[1]
        match value.owner.view.data:
            case "slice":
                begin, step = value.owner.numbers("begin"), value.owner.numbers("step")
                box = zip(begin, step, shape, strict=True)
                return written[tuple(slice(b, b + s * n, s) for b, s, n in box)]
            case "transpose":
                return written.transpose(value.owner.numbers("order"))
            case _:
                return reshaped_view(written, shape)

    def _copy(self, op: CopyOp) -> None:
        if op.source.type != op.target.type:
            _fail(op, f"copies {op.source.type} into {op.target.type}")
        self._check_read(op, op.source)
        self._check_place(op, op.target)
        if self._span(op, op.target).meets(self._span(op, op.source)):
            _fail(op, f"copies {_name(op.source)} over itself")
        self._stamp(op.target)

    def _check_place(self, op: Operation, value: SSAValue) -> None:
        if not isinstance(value.owner, ViewOp | AllocOp | StateOp | DonatedOp):
            _fail(op, f"writes {_name(value)}, which is no view of the arena, no fresh array and not donated")

    def _check_signature(self, op: LaunchOp, kernel: func.FuncOp) -> None:
        kinds = [*kernel.function_type.inputs.data, *kernel.function_type.outputs.data]
        dtypes = DTYPES.of(kernel) or [structured.element_dtype(t) for t in kinds]
        contents = [(d, _content(t)[1]) for t, d in zip(kinds, dtypes, strict=True)]
        count = len(kernel.function_type.inputs)
        for what, arrays, wanted in (("ins", op.ins, contents[:count]), ("outs", op.outs, contents[count:])):
            if [(hybrid_element_dtype(e), s) for e, s in (_content(v.type) for v in arrays)] != wanted:
                _fail(op, f"{what} do not fit the signature of @{kernel.sym_name.data}")
        size = SCRATCH.of(kernel)
        if (0 if op.scratch is None else _size(op.scratch)) < size:
            _fail(op, f"@{kernel.sym_name.data} needs {size} bytes of scratch")

    def _check_written(self, op: LaunchOp, kernel: func.FuncOp, index: int, value: SSAValue) -> None:
        self._check_place(op, aliased(value))
        span = self._span(op, value)
        for other in list(op.outs)[:index]:
            if aliased(value) is not aliased(other) and span.meets(self._span(op, other)):
                _fail(op, f"writes {_name(value)} and {_name(other)} to the same memory")
        pairs = {*INPLACE.of(kernel)}
        for position, read in enumerate(op.ins):
            if not span.meets(self._span(op, read)):
                continue
            if isinstance(value.owner, AliasOp) and aliased(value) is aliased(read):
                continue  # another part: what is read is written, what is written was not (_write_part)
            over = f"writes {_name(value)} over its argument {_name(read)}"
            if (position, index) not in pairs:
                _fail(op, f"{over}, which @{kernel.sym_name.data} does not declare")
            same = span == self._span(op, read) and read.type == value.type
            if not same or not self._fills(span, read) or not self._fills(span, value):
                _fail(op, f"{over}, but not exactly over the same array")
            why = _keeps(kernel, position, index)
            if why is not None:
                _fail(op, f"{over}, which @{kernel.sym_name.data} declares, but {why}")

    def _fills(self, span: Span, value: SSAValue) -> bool:
        """Whether an array covers all of its memory contiguously."""
        strides = self.strides.get(value)
        shape = _content(value.type)[1]
        # The stride of an axis of one element is of no matter.
        plain = strides is None or all(
            n == 1 or s == t for n, s, t in zip(shape, strides, row_major(shape), strict=True)
        )
        return plain and _size(value) == span.stop - span.start

    def _returned(self, op: func.ReturnOp) -> None:
        visible = OUTPUTS.of(self.function)
        count = len(op.arguments) if visible is None else visible
        owned: set[SSAValue] = set()
        for position, value in enumerate(op.arguments):
            self._check_read(op, value)
            if position >= count:
                continue
            memory = self._span(op, value).memory
            if position in self.donors:
                self._check_donated(op, position, value)
            elif not isinstance(memory.owner, AllocOp):
                _fail(op, f"result {position} is not a fresh array that the caller may own")
            if memory in owned:
                _fail(op, f"result {position} shares memory with a result before it")
            owned.add(memory)

    def _check_donated(self, op: func.ReturnOp, position: int, value: SSAValue) -> None:
        argument = self.function.body.block.args[self.donors[position]]
        if not isinstance(value.owner, DonatedOp) or value.owner.argument is not argument:
            _fail(op, f"result {position} is not in the memory of {_name(argument)}, which is donated for it")


# --- kernels ------------------------------------------------------------------------------------------------


def _keeps(function: func.FuncOp, position: int, index: int) -> str | None:
    """Why a result must not overwrite an argument, on any target; None if no reason is known."""
    if is_host(function):
        pairs = declared_inplace_pairs(function)
        return None if (position, index) in pairs else f"its operator allows {pairs or 'none'}"
    if not isinstance(function, KernelFunction):
        return None  # a body without loop nests, as a text may have
    kernel = function.kernel
    argument, result = kernel.arguments[position], kernel.results[index]
    if argument in kernel.results:
        return "it returns that, too"
    ops = [(nest, op) for nest in kernel.nests for op in nest.ops]
    after = list(itertools.dropwhile(lambda pair: pair[1].result != result, ops))
    if not after:
        return None  # it is a constant
    own, writer = after[0]
    if writer.kind != "elementwise":
        return "it sums into the result while it reads"
    for nest, op in after:
        reads = [r for r in op.reads if r.value == argument]
        if argument in op.tables or (reads and nest is not own):
            return "it reads other elements of it afterwards"
        if any(r.places != writer.axes for r in reads):
            return "it reads other elements of it than it writes"
    return None


# --- the backward -------------------------------------------------------------------------------------------


def _check_saved(forward: func.FuncOp, backward: func.FuncOp) -> None:
    """Check that the backward's first arguments are the forward's values that ``hybrid.saved`` lists.

    Indices count the arguments of the forward first, then its results.
    """
    end = forward.body.block.last_op
    assert end is not None
    values = [*forward.body.block.args, *end.operands]
    numbers, wanted = SAVED.of(backward), list(backward.body.block.args)
    if len(numbers) > len(wanted):
        _fail_saved(f"hybrid.saved lists {len(numbers)} values for {len(wanted)} arguments")
    for index, argument in zip(numbers, wanted, strict=False):
        if not 0 <= index < len(values):
            _fail_saved(f"{_name(argument)} is value {index} of the forward, which has {len(values)}")
        if values[index].type != argument.type:
            _fail_saved(f"{_name(argument)} of type {argument.type} is given {_name(values[index])}")
    names = [_hint(values[n]) for n in numbers]
    for index, (argument, name) in enumerate(zip(wanted, names, strict=False)):
        meant = _hint(argument)
        if meant == name or meant is None or names.count(meant) != 1:
            continue
        other = names.index(meant)
        if _hint(wanted[other]) == name and other != index:
            _fail_saved(f"arguments {index} and {other}, {meant} and {name}, are given each other's values")


def _hint(value: SSAValue) -> str | None:
    return value.name_hint


def _fail_saved(what: str) -> NoReturn:
    raise VerifyError(f"memory plan of @backward: {what}")


# --- shapes and names ---------------------------------------------------------------------------------------


def _content(kind: Attribute) -> tuple[Any, tuple[int, ...]]:
    """Element type and shape of a tensor or of a buffer."""
    shaped: Any = kind
    return shaped.get_element_type(), shaped.get_shape()


def _size(value: SSAValue) -> int:
    """The size of an array in bytes."""
    element, shape = _content(value.type)
    return math.prod(shape) * hybrid_element_dtype(element).itemsize


def _name(value: SSAValue) -> str:
    """The value's name for a message."""
    if isinstance(value, BlockArgument):
        return f"argument {value.index}" + (f" ({value.name_hint})" if value.name_hint else "")
    owner = value.owner
    assert isinstance(owner, Operation)
    hint = f" ({value.name_hint})" if value.name_hint else ""
    where = f" at {owner.offset.value.data}" if isinstance(owner, ViewOp) else ""
    return f"the {owner.name.rpartition('.')[2]}{where}{hint} of type {value.type}"


def _fail(op: Operation, what: str) -> NoReturn:
    parent = op.parent_op()
    name = parent.sym_name.data if isinstance(parent, func.FuncOp) else "?"
    block = op.parent_block()
    position = block.get_operation_index(op) if block is not None else 0
    raise VerifyError(f"memory plan of @{name}, operation {position} ({op.name}): {what}")
