"""Give every buffer a place: an offset in the one arena of a call, or an allocation that the caller will own.

Liveness decides: two buffers share bytes only if none is needed while the other is. A kernel may write over an
argument only where it declares that pair and the argument is not needed afterwards; inputs are never written. What
the backward will need (results after the visible ones) stays in the arena until the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i8,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.dialects.hybrid import HybridOp, dtype_of, element_type, shape_of
from hybridc.dialects.hybrid_rt import AliasOp, AllocOp, ArenaOp, CellOp, ConstantOp, LaunchOp, ViewOp
from hybridc.transforms.tile_kernels import aligned
from hybridc.transforms.values import byte_size, constant_value, functions, is_state, result_count, root


@dataclass(eq=False)
class Buffer:
    """Memory for one value or for several that follow each other in place."""

    size: int
    start: int
    end: int
    owned: bool = False
    offset: int = 0
    values: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())


@dataclass(frozen=True)
class PlanMemory(ModulePass):
    """See the module's docstring."""

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {f.sym_name.data: f for f in functions(op) if f.sym_visibility is not None}
        for function in functions(op):
            if function.sym_visibility is None:
                Rewriter.replace_op(function, _Planner(function, kernels).plan(), [])


def memref(value: SSAValue) -> Attribute:
    """The buffer type of a tensor value."""
    return MemRefType(element_type(dtype_of(value)), list(shape_of(value)))


def _bytes(value: SSAValue) -> int:
    return aligned(byte_size(value))


class _Planner:
    def __init__(self, function: func.FuncOp, kernels: dict[str, func.FuncOp]) -> None:
        self.function = function
        self.kernels = kernels
        self.ops = list(function.body.block.ops)
        end = self.ops[-1]
        assert isinstance(end, func.ReturnOp)
        self.results = list(end.arguments)
        visible = result_count(function)
        self.visible = [root(v) for v in self.results[:visible]]
        self.kept = [root(v) for v in self.results[visible:]]
        self.buffers: dict[SSAValue, Buffer] = {}
        self.scratch: dict[Operation, Buffer] = {}

    def plan(self) -> func.FuncOp:
        last = self._last_uses()
        for number, op in enumerate(self.ops):
            if isinstance(op, func.CallOp):
                self._place(number, op, last)
        arena = [
            b for b in {id(b): b for b in (*self.buffers.values(), *self.scratch.values())}.values() if not b.owned
        ]
        return self._write(_assign_offsets(arena))

    def _last_uses(self) -> dict[SSAValue, int]:
        last: dict[SSAValue, int] = {}
        for number, op in enumerate(self.ops):
            for value in op.operands:
                last[root(value)] = number
        for value in self.kept:
            last[value] = len(self.ops)
        return last

    def _place(self, number: int, call: func.CallOp, last: dict[SSAValue, int]) -> None:
        kernel = self.kernels[call.callee.string_value()]
        for index, result in enumerate(call.results):
            end = last.get(result, number)
            if is_state(result):
                continue
            if result in self.visible:
                self.buffers[result] = Buffer(_bytes(result), number, end, owned=True, values=[result])
                continue
            reused = self._reusable(number, call, kernel, index, last)
            if reused is not None:
                reused.end = end
                reused.values.append(result)
                self.buffers[result] = reused
            else:
                self.buffers[result] = Buffer(_bytes(result), number, end, values=[result])
        scratch = kernel.attributes.get("hybrid.scratch")
        if isinstance(scratch, IntegerAttr) and scratch.value.data:
            self.scratch[call] = Buffer(scratch.value.data, number, number)

    def _reusable(
        self, number: int, call: func.CallOp, kernel: func.FuncOp, index: int, last: dict[SSAValue, int]
    ) -> Buffer | None:
        """The buffer of an argument that the kernel may overwrite with this result, if nobody needs it any more."""
        pairs = kernel.attributes.get("hybrid.inplace")
        numbers = list(pairs.get_values()) if isinstance(pairs, DenseArrayBase) else []
        taken = {id(self.buffers[r]) for r in call.results if r in self.buffers}
        for arg, out in zip(numbers[::2], numbers[1::2], strict=True):
            value = call.operands[arg]
            buffer = self.buffers.get(value)
            if out != index or buffer is None or buffer.owned or id(buffer) in taken or buffer.end != number:
                continue
            others = [root(v) for i, v in enumerate(call.operands) if i != arg]
            if last[value] == number and value not in others and buffer.values[-1] is value:
                return buffer
        return None

    def _write(self, size: int) -> func.FuncOp:
        """The planned function."""
        old = self.function.body.block
        block = Block(arg_types=[memref(a) for a in old.args])
        values: dict[SSAValue, SSAValue] = {}
        for before, after in zip(old.args, block.args, strict=True):
            after.name_hint = before.name_hint
            values[before] = after
        arena = ArenaOp(size)
        block.add_op(arena)
        for op in self.ops[:-1]:
            for new in self._rewrite(op, values, arena.memory):
                new.location = op.location
                block.add_op(new)
        block.add_op(func.ReturnOp(*[values[v] for v in self.results]))
        kind = FunctionType.from_lists([a.type for a in block.args], [memref(v) for v in self.results])
        made = func.FuncOp(self.function.sym_name.data, kind, Region(block))
        made.attributes.update(self.function.attributes)
        return made

    def _rewrite(self, op: Operation, values: dict[SSAValue, SSAValue], arena: SSAValue) -> list[Operation]:
        if isinstance(op, HybridOp) and constant_value(op.results[0]) is not None:
            made = ConstantOp(op.attributes["value"], memref(op.results[0]))
            values[op.results[0]] = made.array
            return [made]
        if isinstance(op, HybridOp):
            alias = AliasOp(op.name, values[op.operands[0]], dict(op.attributes), memref(op.results[0]))
            values[op.results[0]] = alias.result
            return [alias]
        assert isinstance(op, func.CallOp)
        made_ops: list[Operation] = []
        for result in op.results:
            new = self._memory(result, arena)
            values[result] = new.array
            new.array.name_hint = result.name_hint
            made_ops.append(new)
        scratch = None
        if op in self.scratch:
            view = ViewOp(arena, self.scratch[op].offset, MemRefType(i8, [self.scratch[op].size]))
            made_ops.append(view)
            scratch = view.array
        ins = [values[v] for v in op.operands]
        made_ops.append(LaunchOp(op.callee.string_value(), ins, [values[r] for r in op.results], scratch))
        return made_ops

    def _memory(self, result: SSAValue, arena: SSAValue) -> AllocOp | CellOp | ViewOp:
        """Where a result will be."""
        if is_state(result):
            return CellOp(memref(result))
        buffer = self.buffers[result]
        return AllocOp(memref(result)) if buffer.owned else ViewOp(arena, buffer.offset, memref(result))


def _assign_offsets(buffers: list[Buffer]) -> int:
    """Place the buffers, largest first, each at the lowest offset where it meets no buffer alive at the same time."""
    placed: list[Buffer] = []
    size = 0
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.start)):
        offset = 0
        for other in sorted(
            (p for p in placed if p.start <= buffer.end and buffer.start <= p.end), key=lambda p: p.offset
        ):
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        buffer.offset = offset
        size = max(size, offset + buffer.size)
        placed.append(buffer)
    return size
