"""Give every buffer a place: an offset in the one arena of a call, or an allocation that the caller will own.

Liveness decides: two buffers share bytes only if none is needed while the other is. A kernel may write over an
argument only where it declares that pair and the argument is not needed afterwards. Inputs are never written, except
those that the caller donates (``hybrid.donated``: pairs of an argument and the result that goes into its memory). What
the backward will need (results after the visible ones) stays in the arena until the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

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
    i8,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.dialects.hybrid import element_dtype, element_type
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
from hybridc.lower import structured
from hybridc.lower.host import inplace_pairs, pairs_of
from hybridc.lower.joined import part_of
from hybridc.lower.structured import DType, Shape, declared_dtypes, dtype_of, is_host, kernels, root, shape_of
from hybridc.transforms.values import functions, result_count, volume

Memory = MemRefType[Any]


@dataclass(eq=False)
class Buffer:
    """Memory for one value or for several that follow each other in place."""

    size: int
    start: int
    end: int
    owned: bool = False
    offset: int = 0
    values: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())
    donor: int | None = None  # the argument whose memory it is


@dataclass(frozen=True)
class PlanMemory(ModulePass):
    """See the module's docstring. Notes in ``hybrid.live`` the most bytes that must lie in the arena at one time."""

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        called = kernels(op)
        for declaration in filter(is_host, called.values()):
            pairs = [number for pair in inplace_pairs(declaration) for number in pair]
            declaration.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, pairs)
        types = {name: _types(kernel) for name, kernel in called.items()}
        for function in functions(op):
            if function.sym_visibility is None:
                Rewriter.replace_op(function, _Planner(function, called, types).plan(), [])


@functools.lru_cache(4096)
def _memref(shape: Shape, dtype: DType) -> Memory:
    sizes = ArrayAttr([IntAttr(n) for n in shape])
    return MemRefType.new([sizes, element_type(dtype), NoneAttr(), NoneAttr()])  # its constructor takes its time


def _types(kernel: func.FuncOp) -> list[Memory]:
    """The buffers that a kernel writes."""
    ins, outs = kernel.function_type.inputs.data, kernel.function_type.outputs.data
    dtypes = (declared_dtypes(kernel) or [structured.element_dtype(t) for t in (*ins, *outs)])[len(ins) :]
    shapes = [tuple(cast(TensorType[Any], t).get_shape()) for t in outs]
    return [_memref(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


def _is_cell(kind: Memory) -> bool:
    """Whether a buffer is the state of an operator, which stays from call to call."""
    return element_dtype(kind.element_type).kind == "O"


def _bytes(kind: Memory) -> int:
    return aligned(volume(kind.get_shape()) * element_dtype(kind.element_type).itemsize)


class _Planner:
    def __init__(self, function: func.FuncOp, called: dict[str, func.FuncOp], types: dict[str, list[Memory]]) -> None:
        self.function = function
        self.called = called
        self.types = types
        self.ops = list(function.body.block.ops)
        self.block = Block()  # the planned one
        end = self.ops[-1]
        assert isinstance(end, func.ReturnOp)
        self.results = list(end.arguments)
        visible = result_count(function)
        donated = {out: i for i, out in pairs_of(function, "hybrid.donated")}
        self.donors = {self.results[out]: i for out, i in donated.items()}  # results that go into an argument's memory
        self.shown = {unshaped(result): result for result in [*self.donors][::-1]}  # of what is made, the result it is
        self.visible = {root(v) for out, v in enumerate(self.results[:visible]) if out not in donated}
        self.kept = {root(v) for v in self.results[visible:]}
        self.last = self._last_uses()
        self.buffers: dict[SSAValue, Buffer] = {}
        self.scratch: dict[Operation, Buffer] = {}
        self.parts: set[Operation] = set()  # the views that lead from parts to what they are parts of
        self.copies: dict[int, list[SSAValue]] = {}  # results to be copied into donated memory after an operation
        self.given: dict[SSAValue, SSAValue] = {}  # results that are in donated memory

    def plan(self) -> func.FuncOp:
        for number, op in enumerate(self.ops):
            if isinstance(op, func.CallOp):
                self._place(number, op)
        for result in self.donors:
            self._copy_later(result)
        every = {id(b): b for b in (*self.buffers.values(), *self.scratch.values())}.values()
        arena = [b for b in every if not b.owned and b.donor is None]
        return self._write(assign_offsets(arena), largest_live_set(arena))

    def _last_uses(self) -> dict[SSAValue, int]:
        last: dict[SSAValue, int] = {}
        for number, op in enumerate(self.ops):
            for value in op.operands:
                last[root(value)] = number
        for value in self.kept:
            last[value] = len(self.ops)
        return last

    def _place(self, number: int, call: func.CallOp) -> None:
        kernel = self.called[call.callee.string_value()]
        pairs = pairs_of(kernel, "hybrid.inplace")
        for index, (result, kind) in enumerate(zip(call.results, self.types[kernel.sym_name.data], strict=True)):
            if _is_cell(kind):
                continue
            end = self.last.get(result, number)
            if (whole := whole_of(result)) is not result:
                self._place_whole(number, whole)
                continue
            operands = [call.operands[i] for i, out in pairs if out == index]
            if result in self.visible:
                self.buffers[result] = Buffer(_bytes(kind), number, end, owned=True, values=[result])
            elif self._may_donate(number, call, result, operands):
                self.buffers[result] = Buffer(_bytes(kind), number, end, donor=self.donors[self.shown[result]])
            elif (reused := self._reusable(number, call, operands)) is not None:
                reused.end = end
                reused.values.append(result)
                self.buffers[result] = reused
            else:
                self.buffers[result] = Buffer(_bytes(kind), number, end, values=[result])
        scratch = kernel.attributes.get("hybrid.scratch")
        if isinstance(scratch, IntegerAttr) and scratch.value.data:
            self.scratch[call] = Buffer(aligned(scratch.value.data), number, number)

    def _place_whole(self, number: int, whole: SSAValue) -> None:
        """Give an array that is put together memory when the first of its parts is made."""
        if whole not in self.buffers:
            kind = _memref(shape_of(whole), dtype_of(whole))
            end, owned = self.last.get(whole, number), whole in self.visible
            self.buffers[whole] = Buffer(_bytes(kind), number, end, owned, values=[whole])

    def _may_donate(self, number: int, call: func.CallOp, result: SSAValue, operands: list[SSAValue]) -> bool:
        """Whether the kernel may write this result straight into the memory of the argument that is donated for it."""
        if result not in self.shown:
            return False
        argument = self.function.body.block.args[self.donors[self.shown[result]]]
        if argument in map(unshaped, operands):
            return self._dies_here(number, call, argument)
        return self.last.get(argument, -1) < number  # it is not even read here

    def _dies_here(self, number: int, call: func.CallOp, value: SSAValue) -> bool:
        """Whether this call alone, by one operand, is the last to read a value."""
        return self.last[value] == number and [root(v) for v in call.operands].count(value) == 1

    def _reusable(self, number: int, call: func.CallOp, operands: list[SSAValue]) -> Buffer | None:
        """The buffer of an argument that the kernel may overwrite with a result, if nobody needs it any more."""
        taken = {id(self.buffers[r]) for r in call.results if r in self.buffers}
        for value in operands:
            buffer = self.buffers.get(value)
            if buffer is None or buffer.owned or buffer.donor is not None or id(buffer) in taken:
                continue
            if buffer.end == number and buffer.values[-1] is value and self._dies_here(number, call, value):
                return buffer
        return None

    def _copy_later(self, result: SSAValue) -> None:
        """A result that could not be written into its donated memory is copied there when both are ready."""
        buffer = self.buffers.get(root(result))
        if buffer is not None and buffer.donor is not None and self.shown.get(root(result)) is result:
            return
        argument = self.function.body.block.args[self.donors[result]]
        made = self.ops.index(result.owner) if isinstance(result.owner, Operation) else 0
        number = max(made, min(self.last.get(argument, 0), len(self.ops) - 2))
        self.copies.setdefault(number, []).append(result)
        if buffer is not None:
            buffer.end = max(buffer.end, number)

    # --- the planned function ------------------------------------------------------------------------------

    def _write(self, size: int, live: int) -> func.FuncOp:
        old = self.function.body.block
        block = self.block = Block(arg_types=[_memref(shape_of(a), dtype_of(a)) for a in old.args])
        values: dict[SSAValue, SSAValue] = {}
        for before, after in zip(old.args, block.args, strict=True):
            after.name_hint = before.name_hint
            values[before] = after
        arena = ArenaOp(size)
        block.add_op(arena)
        for number, op in enumerate(self.ops[:-1]):
            made = self._rewrite(op, values, arena.memory)
            for result in self.copies.get(number, ()):
                into = DonatedOp(block.args[self.donors[result]])
                self.given[result] = into.array
                made += [into, CopyOp(values[result], into.array)]
            for new in made:
                new.location = op.location
            block.add_ops(made)
        results = [self.given.get(v, values[v]) for v in self.results]
        block.add_op(func.ReturnOp(*results))
        kind = FunctionType.from_lists([a.type for a in block.args], [v.type for v in results])
        made = func.FuncOp(self.function.sym_name.data, kind, Region(block))
        made.attributes |= {k: a for k, a in self.function.attributes.items() if k != "hybrid.dtypes"}
        made.attributes["hybrid.live"] = IntegerAttr(live, i64)
        return made

    def _rewrite(self, op: Operation, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        match op:
            case func.CallOp():
                return self._launch(op, values, arena)
            case arith.ConstantOp() if isinstance(op.results[0].type, TensorType):
                result: SSAValue = op.results[0]
                made = ConstantOp(op.value, _memref(shape_of(result), dtype_of(result)))
                values[result] = made.array
                return [made]
            case tensor.EmptyOp() | arith.ConstantOp() | tensor.ConcatOp():
                return []  # of a transpose, or nothing, or made of parts that are in their places
            case _ if op in self.parts:
                return []
            case _:
                return [self._alias(op, values)]

    def _alias(self, op: Operation, values: dict[SSAValue, SSAValue]) -> AliasOp:
        source, result = op.operands[0], op.results[0]
        array = values[source]
        kind = _memref(shape_of(result), element_dtype(cast(Memory, array.type).element_type))
        match op:
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                alias = AliasOp("reshape", array, {}, kind)
            case tensor.ExtractSliceOp():
                alias = AliasOp("slice", array, {"begin": op.static_offsets, "step": op.static_strides}, kind)
            case linalg.TransposeOp():
                alias = AliasOp("transpose", array, {"order": op.permutation}, kind)
            case _:
                raise TypeError(f"{op.name} is no view")
        alias.result.name_hint = result.name_hint
        values[result] = alias.result
        return alias

    def _launch(self, op: func.CallOp, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        made: list[Operation] = []
        name = op.callee.string_value()
        for result, kind in zip(op.results, self.types[name], strict=True):
            if whole_of(result) is not result:
                made += self._part(result, values, arena)
                continue
            new = self._memory(result, kind, arena)
            made.append(new)
            if isinstance(new, DonatedOp):
                self.given[self.shown[result]] = new.array
                flat = _memref((volume(kind.get_shape()),), dtype_of(result))
                for shown in (flat, kind) if new.array.type != kind else ():
                    made.append(AliasOp("reshape", made[-1].results[0], {}, shown))
            values[result] = made[-1].results[0]
            values[result].name_hint = result.name_hint
        scratch = None
        if op in self.scratch:
            view = ViewOp(arena, self.scratch[op].offset, MemRefType(i8, [self.scratch[op].size]))
            made.append(view)
            scratch = view.array
        ins = [values[v] for v in op.operands]
        return [*made, LaunchOp(name, ins, [values[r] for r in op.results], scratch)]

    def _part(self, value: SSAValue, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        """The place of a value, or of what it is a part of, with the operations that lead there."""
        if value in values:
            return []
        part = part_of(value)
        kind = _memref(shape_of(value), dtype_of(value))
        if part is None:
            memory = self._memory(value, kind, arena)
            values[value] = memory.results[0]
            return [memory]
        made = self._part(part.whole.result, values, arena)
        ones = DenseArrayBase.from_list(i64, [1] * len(part.begin))
        box: dict[str, Attribute] = {"begin": DenseArrayBase.from_list(i64, part.begin), "step": ones}
        made.append(AliasOp("slice", values[part.whole.result], box, _memref(part.shape, dtype_of(value))))
        for view in reversed(part.views):
            seen = _memref(shape_of(view.operands[0]), dtype_of(value))
            made.append(AliasOp("reshape", made[-1].results[0], {}, seen))
            self.parts.add(view)
        values[value] = made[-1].results[0]
        return made

    def _memory(self, result: SSAValue, kind: Memory, arena: SSAValue) -> Operation:
        """Where a result will be."""
        if _is_cell(kind):
            return CellOp(kind)
        buffer = self.buffers[result]
        if buffer.donor is not None:
            return DonatedOp(self.block.args[buffer.donor])
        return AllocOp(kind) if buffer.owned else ViewOp(arena, buffer.offset, kind)


def unshaped(value: SSAValue) -> SSAValue:
    """The value with the same elements in the same order that was made, perhaps in another shape."""
    while isinstance(value.owner, tensor.CollapseShapeOp | tensor.ExpandShapeOp):
        value = value.owner.operands[0]
    return value


def whole_of(value: SSAValue) -> SSAValue:
    """What a value is a part of in the end, perhaps itself."""
    while (part := part_of(value)) is not None:
        value = part.whole.result
    return value


# --- offsets ----------------------------------------------------------------------------------------------


def largest_live_set(buffers: list[Buffer]) -> int:
    """The most bytes that are needed at one time: no arena can be smaller."""
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
ROUNDS, EFFORT = 24, 6000  # with each order at most so many attempts, and so many placements

_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.start),
    lambda b: (-b.size * (b.end - b.start + 1), b.start),
    lambda b: (b.start - b.end, -b.size),
    lambda b: (b.start, -b.end, -b.size),
)


def assign_offsets(buffers: list[Buffer]) -> int:
    """Place the buffers and return the size of their arena: the best of several orders, each first fit.

    Largest first is nearly always as small as can be, or nearly so. Where it is not, the buffer that ends the arena is
    placed first of all in the next attempt; then come other orders.
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
    """Place buffers in this order, each at the lowest offset where it meets none that is alive at the same time."""
    alive: dict[int, list[Buffer]] = {}  # at each moment, those placed so far
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
