"""Memory planning: give each buffer an offset in the arena of a call, or memory that the caller will own.

By liveness: two buffers share bytes only if their lifetimes do not overlap. A kernel may overwrite an
argument only where it declares that pair and the argument is dead afterwards. Inputs are never written, except
those that the caller donates (``hybrid.donated``: pairs of an argument and the result that goes into its memory). What
the backward will need (results after the visible ones) stays in the arena until the end. What the preparation
(``hoist-preparation``) computes for other calls goes into memory that is kept.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.graph_notes import DONATED, DTYPES, LIVE, PREPARATION
from hybridc.dialects.mlir.hybrid import element_type, hybrid_element_dtype
from hybridc.dialects.mlir.hybrid_rt import (
    AliasOp,
    AllocOp,
    ArenaOp,
    ConstantOp,
    CopyOp,
    DonatedOp,
    KeptOp,
    LaunchOp,
    SizeOp,
    StateOp,
    ViewOp,
    aligned,
)
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ir import structured
from hybridc.ir.concatenated import PartOf, begins_of, part_of, unshaped, whole_of
from hybridc.ir.kernels.kernel_notes import INPLACE, SCRATCH
from hybridc.ir.structured import (
    declared_inplace_pairs,
    dtype_of,
    give_type,
    is_host,
    kernels,
    root,
    shape_of,
)
from hybridc.ir.structured_builder import constant_array
from hybridc.ir.values import functions, result_count, volume
from hybridc.transforms.memory.hoist_preparation import calls_of

Memory = MemRefType[Any]
Reads = Counter[SSAValue]  # by how many operands a call reads each array


@dataclass(frozen=True)
class PlanMemory(ModulePass):
    """See the module's docstring. Sets ``hybrid.live`` to the bytes of the largest live set.

    ``planners`` of functions are reused when the same functions have other sizes.
    """

    name = "plan-memory"

    planners: dict[func.FuncOp, _Planner] | None = field(default=None, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        called = kernels(op)
        for declaration in filter(is_host, called.values()):
            INPLACE.put(declaration, declared_inplace_pairs(declaration))
        facts = {name: _facts(kernel) for name, kernel in called.items()}
        known = {} if self.planners is None else self.planners
        for function in functions(op):
            if function.sym_visibility is not None:
                continue
            planner = known.get(function)
            if planner is None or not planner.fits(facts):
                planner = known[function] = _Planner(function, called, facts)
            op.body.block.insert_op_before(planner.plan(), function)
            function.detach()


def _facts(kernel: func.FuncOp) -> tuple[Any, ...]:
    """The facts of a kernel on which a plan depends, besides sizes: in-place pairs, and whether it needs scratch."""
    return (INPLACE.of(kernel), SCRATCH.of(kernel) > 0)


@functools.lru_cache(4096)
def _memref(shape: Shape, dtype: DType) -> Memory:
    sizes = ArrayAttr([IntAttr(n) for n in shape])
    return MemRefType.new([sizes, element_type(dtype), NoneAttr(), NoneAttr()])  # its constructor is slow


def _elements_of(op: arith.ConstantOp | SizeOp) -> Attribute:
    """The elements of a constant array, or of the array that a size is."""
    return constant_array(op.size.data, (), dtype_of(op.scalar)) if isinstance(op, SizeOp) else op.value


def _memory(size: int) -> Memory:
    """A buffer of ``size`` bytes."""
    return _memref((size,), np.dtype(np.int8))


def _types(kernel: func.FuncOp) -> list[Memory]:
    """The types of the buffers that a kernel writes."""
    ins, outs = kernel.function_type.inputs.data, kernel.function_type.outputs.data
    dtypes = (DTYPES.of(kernel) or [structured.element_dtype(t) for t in (*ins, *outs)])[len(ins) :]
    shapes = [tuple(cast(TensorType[Any], t).get_shape()) for t in outs]
    return [_memref(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


def _is_cell(kind: Memory) -> bool:
    """Whether a buffer is operator state, which stays from call to call."""
    return hybrid_element_dtype(kind.element_type).kind == "O"


class _Planner:
    """Plans a function; for other sizes, with the same ``facts`` about kernels, updates the plan in place."""

    def __init__(
        self, function: func.FuncOp, called: Mapping[str, func.FuncOp], facts: Mapping[str, tuple[Any, ...]]
    ) -> None:
        self.function = function
        self.called = called
        self.facts = facts
        self.types = {name: _types(kernel) for name, kernel in called.items()}
        self.ops = list(function.body.block.ops)
        self.block = Block()  # the planned one
        end = self.ops[-1]
        assert isinstance(end, func.ReturnOp)
        self.results = list(end.arguments)
        visible = result_count(function)
        donated = {out: i for i, out in DONATED.of(function)}
        self.donors = {self.results[out]: i for out, i in donated.items()}  # results in donated memory
        self.result_of = {unshaped(result): result for result in [*self.donors][::-1]}  # by what it reshapes
        self.visible = {root(v) for out, v in enumerate(self.results[:visible]) if out not in donated}
        self.last = self._last_uses()
        self.buffers: dict[SSAValue, Buffer] = {}
        self.shared: KeptOp | None = None  # the memory of prepared values
        self.scratch: dict[Operation, Buffer] = {}
        self.parts: set[Operation] = set()  # views between a part and its whole
        self.copies: dict[int, list[SSAValue]] = {}  # results to be copied into donated memory after an operation
        self.donated: dict[SSAValue, SSAValue] = {}  # results written into donated memory
        self.measured: list[tuple[Buffer, SSAValue, int]] = []  # a buffer's value and element size
        self.shaped: list[tuple[SSAValue, SSAValue, DType]] = []  # planned values, and whose shapes they have
        self.begins: dict[tensor.ConcatOp, list[Shape]] = {}  # where the parts of a concatenation begin, for its sizes
        self.changes: list[Callable[[], None]] = []  # other updates for new sizes
        self.same: list[tuple[SSAValue, SSAValue, bool]] = []  # values, and whether they have the same shape
        self.planned: func.FuncOp | None = None
        self.size = self.live = self.kept = 0

    def fits(self, facts: Mapping[str, tuple[Any, ...]]) -> bool:
        """Whether the plan is still right but for sizes and offsets."""
        return facts == self.facts and all((shape_of(a) == shape_of(b)) is same for a, b, same in self.same)

    def plan(self) -> func.FuncOp:
        """The planned function."""
        if self.planned is None:
            self._decide()
            self.planned = self._write()
        self._place_all()
        self.begins = {}
        for value, like, dtype in self.shaped:
            give_type(value, _memref(shape_of(like), dtype))
        for change in self.changes:
            change()
        return self.planned

    def _decide(self) -> None:
        """Assign a buffer to every value."""
        for position, op in enumerate(self.ops):
            if isinstance(op, func.CallOp):
                self._place(position, op)
        numbers = {op: position for position, op in enumerate(self.ops)}
        for result in self.donors:
            self._copy_later(result, numbers.get(cast(Operation, result.owner), 0))

    def _place_all(self) -> None:
        """Compute the size and the offset of every buffer."""
        for buffer, value, itemsize in self.measured:
            buffer.size = aligned(volume(shape_of(value)) * itemsize)
        for call, buffer in self.scratch.items():
            buffer.size = aligned(SCRATCH.of(self.called[cast(func.CallOp, call).callee.string_value()]))
        every = {id(b): b for b in (*self.buffers.values(), *self.scratch.values())}.values()
        self.kept = 0
        for buffer in every:
            if buffer.kept:
                buffer.offset, self.kept = self.kept, self.kept + buffer.size
        arena = [b for b in every if not b.owned and not b.kept and b.donor is None]
        self.size, self.live = assign_offsets(arena), largest_live_set(arena)

    def _buffer(
        self, value: SSAValue, dtype: DType, position: int, end: int, owned: bool = False, kept: bool = False
    ) -> Buffer:
        """A buffer for a value that is live from operation ``position`` to ``end``."""
        buffer = Buffer(0, position, end, owned, kept, values=[value])
        self.measured.append((buffer, value, dtype.itemsize))
        return buffer

    def _last_uses(self) -> dict[SSAValue, int]:
        last: dict[SSAValue, int] = {}
        wholes: dict[SSAValue, SSAValue] = {}
        for position, op in enumerate(self.ops):
            for value in op.operands:
                base = root(value)
                if base not in wholes:
                    wholes[base] = whole_of(base)
                last[base] = last[wholes[base]] = position
        return last

    def _place(self, position: int, call: func.CallOp) -> None:
        kernel = self.called[call.callee.string_value()]
        reads = Counter(map(root, call.operands))
        overwritten: dict[int, list[SSAValue]] = {}  # by each result, the operands that it may overwrite
        for operand, out in INPLACE.of(kernel):
            overwritten.setdefault(out, []).append(call.operands[operand])
        assigned: set[int] = set()
        for index, (result, kind) in enumerate(zip(call.results, self.types[kernel.sym_name.data], strict=True)):
            if _is_cell(kind):
                continue
            end, dtype = self.last.get(result, position), hybrid_element_dtype(kind.element_type)
            if (whole := whole_of(result)) is not result:
                self._place_whole(position, whole)
                continue
            operands = overwritten.get(index, [])
            if result in self.visible:
                self.buffers[result] = self._buffer(result, dtype, position, end, owned=True)
            elif PREPARATION.of(call) and not all(map(PREPARATION.of, calls_of(result))):
                self.buffers[result] = self._buffer(result, dtype, position, end, kept=True)
            elif self._may_donate(position, reads, result, operands):
                self.buffers[result] = Buffer(0, position, end, donor=self.donors[self.result_of[result]])
            elif (reused := self._reusable(position, reads, operands, assigned)) is not None:
                reused.end = end
                reused.values.append(result)
                self.buffers[result] = reused
            else:
                self.buffers[result] = self._buffer(result, dtype, position, end)
            assigned.add(id(self.buffers[result]))
        if SCRATCH.of(kernel):
            self.scratch[call] = Buffer(0, position, position)

    def _place_whole(self, position: int, whole: SSAValue) -> None:
        """Allocate the result of a concatenation when its first part is produced."""
        if whole not in self.buffers:
            end, owned = self.last.get(whole, position), whole in self.visible
            self.buffers[whole] = self._buffer(whole, dtype_of(whole), position, end, owned)

    def _may_donate(self, position: int, reads: Reads, result: SSAValue, operands: list[SSAValue]) -> bool:
        """Whether the kernel may write this result straight into the argument that is donated for it."""
        if result not in self.result_of:
            return False
        argument = self.function.body.block.args[self.donors[self.result_of[result]]]
        if argument in map(unshaped, operands):
            return self._dies_here(position, reads, argument)
        return self.last.get(argument, -1) < position  # not read here either

    def _dies_here(self, position: int, reads: Reads, value: SSAValue) -> bool:
        """Whether the call with these ``reads`` reads the value last, and by one operand alone."""
        return self.last[value] == position and reads[value] == 1

    def _reusable(self, position: int, reads: Reads, operands: list[SSAValue], assigned: set[int]) -> Buffer | None:
        """The buffer of an argument that the kernel may overwrite with a result, if it is dead afterwards.

        Buffers that are ``assigned`` are those of other results.
        """
        for value in operands:
            buffer = self.buffers.get(value)
            if buffer is None or buffer.owned or buffer.kept or buffer.donor is not None or id(buffer) in assigned:
                continue
            if buffer.end == position and buffer.values[-1] is value and self._dies_here(position, reads, value):
                return buffer
        return None

    def _copy_later(self, result: SSAValue, producer: int) -> None:
        """Copy the result of operation ``producer`` into its donated memory, where it could not be written directly."""
        buffer = self.buffers.get(root(result))
        if buffer is not None and buffer.donor is not None and self.result_of.get(root(result)) is result:
            return
        argument = self.function.body.block.args[self.donors[result]]
        position = max(producer, min(self.last.get(argument, 0), len(self.ops) - 2))
        self.copies.setdefault(position, []).append(result)
        if buffer is not None:
            buffer.end = max(buffer.end, position)

    # --- the planned function ------------------------------------------------------------------------------

    def _like(self, value: SSAValue, other: SSAValue, dtype: DType) -> None:
        """Give a planned value the shape of another, now and for new sizes."""
        self.shaped.append((value, other, dtype))

    def _always(self, change: Callable[[], None]) -> None:
        """Apply a change that follows from sizes, now and for new sizes."""
        self.changes.append(change)

    def _write(self) -> func.FuncOp:
        """The planned function, with sizes and offsets still to be filled in."""
        old = self.function.body.block
        block = self.block = Block(arg_types=[_memref(shape_of(a), dtype_of(a)) for a in old.args])
        values: dict[SSAValue, SSAValue] = {}
        for before, after in zip(old.args, block.args, strict=True):
            after.name_hint = before.name_hint
            values[before] = after
            self._like(after, before, dtype_of(before))
        arena = ArenaOp(0)
        block.add_op(arena)
        self._always(lambda: give_type(arena.memory, _memory(self.size)))
        if any(buffer.kept for buffer in self.buffers.values()):
            self.shared = kept = KeptOp(0)
            block.add_op(kept)
            self._always(lambda: give_type(kept.memory, _memory(self.kept)))
        for position, op in enumerate(self.ops[:-1]):
            ops = self._rewrite(op, values, arena.memory)
            for result in self.copies.get(position, ()):
                donor = old.args[self.donors[result]]
                into = DonatedOp(values[donor])
                self._like(into.array, donor, dtype_of(donor))
                self.donated[result] = into.array
                ops += [into, CopyOp(values[result], into.array)]
            for new in ops:
                new.location = op.location
            block.add_ops(ops)
        results = [self.donated.get(v, values[v]) for v in self.results]
        block.add_op(func.ReturnOp(*results))
        planned = func.FuncOp(self.function.sym_name.data, FunctionType.from_lists([], []), Region(block))
        self._always(lambda: self._head(planned))
        return planned

    def _head(self, planned: func.FuncOp) -> None:
        """Write the attributes of the planned function."""
        block = planned.body.block
        end = cast(func.ReturnOp, block.last_op)
        planned.function_type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in end.arguments])
        planned.attributes |= {k: a for k, a in self.function.attributes.items() if k != DTYPES.name}
        LIVE.put(planned, self.live)

    def _rewrite(self, op: Operation, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        match op:
            case func.CallOp():
                return self._launch(op, values, arena)
            case arith.ConstantOp() | SizeOp() if isinstance(op.results[0].type, TensorType):
                result: SSAValue = op.results[0]
                constant = ConstantOp(_elements_of(op), _memref(shape_of(result), dtype_of(result)))
                self._like(constant.array, result, dtype_of(result))
                self._always(lambda: constant.properties.update(value=_elements_of(op)))
                values[result] = constant.array
                return [constant]
            case tensor.EmptyOp() | arith.ConstantOp() | tensor.ConcatOp():
                return []  # unused views, and concatenations whose parts are in place
            case _ if op in self.parts:
                return []
            case _:
                return [self._alias(op, values)]

    def _alias(self, op: Operation, values: dict[SSAValue, SSAValue]) -> AliasOp:
        source, result = op.operands[0], op.results[0]
        array = values[source]
        kind = _memref(shape_of(result), hybrid_element_dtype(cast(Memory, array.type).element_type))
        match op:
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                alias = AliasOp("reshape", array, {}, kind)
            case tensor.ExtractSliceOp():
                alias = AliasOp("slice", array, {}, kind)
                self._always(lambda: alias.attributes.update(begin=op.static_offsets, step=op.static_strides))
            case linalg.TransposeOp():
                alias = AliasOp("transpose", array, {"order": op.permutation}, kind)
            case _:
                raise TypeError(f"{op.name} is not a view; expected a reshape, a transpose or a slice")
        alias.result.name_hint = result.name_hint
        self._like(alias.result, result, hybrid_element_dtype(kind.element_type))
        values[result] = alias.result
        return alias

    def _launch(self, op: func.CallOp, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        ops: list[Operation] = []
        name = op.callee.string_value()
        for result, kind in zip(op.results, self.types[name], strict=True):
            if whole_of(result) is not result:
                ops += self._part(result, values, arena)
                continue
            new = self._memory(result, kind, arena)
            ops.append(new)
            if isinstance(new, DonatedOp):
                self.donated[self.result_of[result]] = new.array
                ops += self._reshaped(new.array, self.result_of[result], result, kind)
            values[result] = ops[-1].results[0]
            values[result].name_hint = result.name_hint
        scratch = None
        if op in self.scratch:
            buffer = self.scratch[op]
            view = self._view(arena, buffer, _memory(0))
            self._always(lambda: give_type(view.array, _memory(buffer.size)))
            ops.append(view)
            scratch = view.array
        launch = LaunchOp(name, [values[v] for v in op.operands], [values[r] for r in op.results], scratch)
        PREPARATION.copy(op, launch)
        return [*ops, launch]

    def _part(self, value: SSAValue, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        """The buffer of a value, or its slice of a concatenation, with the operations that make the slice."""
        if value in values:
            return []
        part = part_of(value)
        kind = _memref(shape_of(value), dtype_of(value))
        if part is None:
            memory = self._memory(value, kind, arena)
            values[value] = memory.results[0]
            return [memory]
        ops = self._part(part.whole.result, values, arena)
        slice_ = AliasOp("slice", values[part.whole.result], {}, kind)
        self._like(slice_.result, part.views[-1].results[0] if part.views else value, dtype_of(value))
        self._always(lambda: slice_.attributes.update(self._box(part)))
        ops.append(slice_)
        for view in reversed(part.views):
            values[view.results[0]] = ops[-1].results[0]
            reshape = AliasOp("reshape", ops[-1].results[0], {}, kind)
            self._like(reshape.result, view.operands[0], dtype_of(value))
            ops.append(reshape)
            self.parts.add(view)
        values[value] = ops[-1].results[0]
        return ops

    def _box(self, part: PartOf) -> dict[str, Attribute]:
        """Offsets and steps of a part in its whole, as attributes."""
        if part.whole not in self.begins:
            self.begins[part.whole] = begins_of(part.whole)
        begin = self.begins[part.whole][part.position]
        return {
            "begin": DenseArrayBase.from_list(i64, begin),
            "step": DenseArrayBase.from_list(i64, [1] * len(begin)),
        }

    def _memory(self, result: SSAValue, kind: Memory, arena: SSAValue) -> Operation:
        """The memory of a result: fresh, donated, or a view of the arena or of kept memory."""
        buffer = None if _is_cell(kind) else self.buffers[result]
        if buffer is not None and buffer.donor is not None:
            memory = DonatedOp(self.block.args[buffer.donor])
            argument = self.function.body.block.args[buffer.donor]
            self._like(memory.array, argument, dtype_of(argument))
            return memory
        if buffer is None:
            memory = StateOp(kind)
        else:
            memory = AllocOp(kind) if buffer.owned else self._view(arena, buffer, kind)
        self._like(memory.array, result, hybrid_element_dtype(kind.element_type))
        return memory

    def _view(self, arena: SSAValue, buffer: Buffer, kind: Memory) -> ViewOp:
        """The view of a buffer in the arena, or in kept memory."""
        if buffer.kept:
            assert self.shared is not None
            arena = self.shared.memory
        view = ViewOp(arena, 0, kind)
        self._always(lambda: view.properties.update(offset=IntegerAttr.new([IntAttr(buffer.offset), i64])))
        return view

    def _reshaped(self, donated: SSAValue, returned: SSAValue, result: SSAValue, kind: Memory) -> list[AliasOp]:
        """Aliases that reshape donated memory for the value that is produced in it."""
        self.same.append((returned, result, donated.type == kind))
        if donated.type == kind:
            return []
        dtype = dtype_of(result)
        flat = AliasOp("reshape", donated, {}, kind)
        self._always(lambda: give_type(flat.result, _memref((volume(shape_of(result)),), dtype)))
        reshape = AliasOp("reshape", flat.result, {}, kind)
        self._like(reshape.result, result, dtype)
        return [flat, reshape]


# --- offset assignment ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Buffer:
    """Memory for one value, or for several that are updated in place one after the other."""

    size: int
    start: int
    end: int
    owned: bool = False
    kept: bool = False
    offset: int = 0
    values: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())
    donor: int | None = None  # the argument in whose memory it is


def largest_live_set(buffers: list[Buffer]) -> int:
    """The bytes of the largest live set, a lower bound of the arena."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.start] = changes.get(buffer.start, 0) + buffer.size
        changes[buffer.end + 1] = changes.get(buffer.end + 1, 0) - buffer.size
    most = now = 0
    for moment in sorted(changes):
        now += changes[moment]
        most = max(most, now)
    return most


ENOUGH = 1.02  # times the largest live set
ROUNDS, EFFORT = 24, 6000  # the most attempts per order, and placements

_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.start),
    lambda b: (-b.size * (b.end - b.start + 1), b.start),
    lambda b: (b.start - b.end, -b.size),
    lambda b: (b.start, -b.end, -b.size),
)


def assign_offsets(buffers: list[Buffer]) -> int:
    """Assign offsets and return the size of the arena: the best of several orders, each by first fit.

    Largest first is nearly always close to the minimum. Where it is not, the buffer that ends the arena is
    placed first in the next attempt; then come other orders.
    """
    bound = largest_live_set(buffers)
    rounds = max(1, min(ROUNDS, EFFORT // max(1, len(buffers))))
    best: list[int] = []
    least = -1
    for order in _ORDERS:
        waiting = sorted(buffers, key=order)
        for _ in range(rounds):
            size = _first_fit(waiting)
            if least < 0 or size < least:
                least, best = size, [b.offset for b in buffers]
            if least <= bound * ENOUGH:
                break
            last = max(waiting, key=lambda b: b.offset + b.size)
            waiting.remove(last)
            waiting.insert(0, last)
        if least <= bound * ENOUGH:
            break
    for buffer, offset in zip(buffers, best, strict=True):
        buffer.offset = offset
    return least


def _first_fit(buffers: list[Buffer]) -> int:
    """First fit in this order: each at the lowest offset without conflict with overlapping lifetimes."""
    alive: dict[int, list[Buffer]] = {}  # placed so far, by time
    starting: dict[int, list[Buffer]] = {}
    size = 0
    for buffer in buffers:
        beside = list(alive.get(buffer.start, ()))
        for moment in range(buffer.start + 1, buffer.end + 1):
            beside += starting.get(moment, ())
        offset = 0
        for other in sorted(beside, key=lambda b: b.offset):
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        buffer.offset = offset
        size = max(size, offset + buffer.size)
        starting.setdefault(buffer.start, []).append(buffer)
        for moment in range(buffer.start, buffer.end + 1):
            alive.setdefault(moment, []).append(buffer)
    return size
