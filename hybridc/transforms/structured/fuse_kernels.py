"""Fusion: outline groups of linalg ops as kernels, which a target runs one after the other.

:mod:`hybridc.transforms.structured.loop_groups` chooses the groups. A kernel is one group, or a contraction
with its epilogue, or several groups that do not depend on each other: the parts of one concatenation that are made of
nothing, as the border around an array, and, in a function that updates its arguments, updates, up to the size
``LARGEST``. From here on a kernel is data (:mod:`hybridc.ir.kernels.kernel`); in the module it prints as a private
function.

Small results are rematerialised where that is cheaper than a kernel of its own: an elementwise result of at most
``SMALL`` elements that a group over ``MANY`` times as many reads is computed in that group, together with its operands
as far as the same holds. So the tail of a reduction over everything (a mean from a sum) is no kernel.

Concatenations stay ``tensor.concat``, of results that kernels make for that alone.
Views and host calls stay between the kernels. Equal kernels are shared.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import DONATED, OPERATOR
from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.concatenated import RESHAPES, reshaped_strides, strides_in_whole, unshaped, whole_of
from hybridc.ir.costs import LARGEST, MANY, SMALL
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.kernels.kernel_module import KernelModule
from hybridc.ir.kernels.kernel_text import kernel_of_ops
from hybridc.ir.structured import (
    dtype_of,
    function_called,
    indirect_operands,
    is_host,
    is_scaffold,
    root,
    shape_of,
)
from hybridc.ir.structured_builder import Builder, Element, ScalarBuilder, Tensor, first
from hybridc.ir.values import functions, volume
from hybridc.trace.trace_to_graph import identifier
from hybridc.transforms.memory.hoist_preparation import prepared_values
from hybridc.transforms.structured.loop_groups import LoopGroup, Partition, operation_loops


@dataclass(frozen=True)
class FuseKernels(ModulePass):
    """See the module's docstring; a target that ``prepares`` what follows from parameters does not compute it again."""

    name = "fuse-kernels"

    prepares: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outliner = KernelOutliner(op)
        for function in [f for f in functions(op) if f.sym_visibility is None]:
            _make_values(function)
            _own_results(function)
            own_parts(function)
            partition = Partition(function)
            _compute_again(partition, prepared_values(function) if self.prepares else ())
            outliner.outline(function, partition)


# --- before: every value that is needed is made by an op with loops ------------------------------------


def _make_values(function: func.FuncOp) -> None:
    """Make linalg ops of fills that are more than the initial value of a reduction, of each part of a concatenation."""
    for op in list(function.body.block.ops):
        if isinstance(op, linalg.FillOp):
            uses = [u for u in op.results[0].uses if not _begins(u.operation, u.index)]
            for use in [u for u in uses if isinstance(u.operation, tensor.ConcatOp)]:
                use.operation.operands[use.index] = _copy(op.results[0], use.operation)
                uses.remove(use)
            if uses:
                copy = _copy(op.results[0], op)
                for use in uses:
                    use.operation.operands[use.index] = copy


def _begins(op: Operation, index: int) -> bool:
    """Whether an operand is a linalg op's initial value."""
    return isinstance(op, linalg.GenericOp | linalg.MatmulOp) and index == len(op.operands) - 1


def _own_results(function: func.FuncOp) -> None:
    """Copy results that would be views of an argument, of a constant, or of another result."""
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    seen: set[SSAValue] = set()
    for i, value in enumerate(end.arguments):
        base = root(value)
        if base in seen or not isinstance(base.owner, Operation) or is_scaffold(base.owner):
            end.operands[i] = _copy(value, end)
        seen.add(root(end.operands[i]))


def own_parts(function: func.FuncOp) -> None:
    """Every part of a concatenation lies in it, made by loops that can write there: copy the others.

    Its other readers read it where it lies.
    """
    whole = [op for op in function.body.block.ops if isinstance(op, tensor.ConcatOp)]
    placed: set[SSAValue] = set()
    for op in whole:  # a part of several lies in the first
        for i, value in enumerate(op.inputs):
            base = unshaped(value)
            if base in placed:
                _copy_part(op, i)
            placed.add(base)
    for op in reversed(whole):  # the outer one of two first: it may have a copy of the other
        for i, value in enumerate(op.inputs):
            base = unshaped(value)
            strides = strides_in_whole(base)
            if not _may_lie(base, strides) or (len(list(base.uses)) > 1 and not _may_be_read(base, strides)):
                _copy_part(op, i)


def _copy_part(op: tensor.ConcatOp, position: int) -> None:
    """Let an operand of a concatenation be a copy, made under its reshapes if its strides fit that."""
    base, views = op.inputs[position], list[Operation]()
    value = base
    while isinstance(base.owner, RESHAPES):
        views.append(base.owner)
        base = base.owner.operands[0]
    op.operands[position] = copy = _copy(base, op)
    for view in reversed(views):
        seen = view.clone({view.operands[0]: op.operands[position]})
        Rewriter.insert_op(seen, InsertPoint.before(op))
        op.operands[position] = seen.results[0]
    if strides_in_whole(copy) is None:
        op.operands[position] = _copy(value, op)


def _may_lie(value: SSAValue, strides: Shape | None) -> bool:
    """Whether the producer of a value can write it with these strides: loops without reductions can with any."""
    op = value.owner
    if strides is None or not isinstance(op, tensor.ConcatOp | linalg.GenericOp | linalg.MatmulOp | func.CallOp):
        return False
    if isinstance(op, func.CallOp):
        return not is_host(function_called(op))
    if isinstance(op, tensor.ConcatOp) or strides == row_major(shape_of(value)):
        return True
    loops = operation_loops(op)
    return loops is not None and not loops.reduced


def _may_be_read(value: SSAValue, strides: Shape | None) -> bool:
    """Whether all readers of a value take it with these strides, and find elements of its last axis side by side."""
    shape = shape_of(value)
    last = max((i for i, n in enumerate(shape) if n != 1), default=-1)
    if strides is None or (last >= 0 and strides[last] != 1):
        return False
    for use in value.uses:
        match op := use.operation:
            case func.ReturnOp():
                return False
            case func.CallOp() if is_host(function_called(op)):
                return False
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                seen = reshaped_strides(shape, strides, shape_of(op.results[0]))
                if seen is None or not _may_be_read(op.results[0], seen):
                    return False
            case tensor.ExtractSliceOp() | linalg.TransposeOp():
                return False
            case _:
                pass
    return True


def _copy(value: SSAValue, before: Operation) -> SSAValue:
    """A copy by an elementwise op before ``before``."""
    block = Block()
    builder = Builder(block)
    owner = value.owner
    filled = isinstance(owner, linalg.FillOp)
    builder.location = before.location
    builder.operator = _operator(before) if filled and isinstance(before, tensor.ConcatOp) else "copy"
    out = Tensor(shape_of(value), dtype_of(value), builder)
    if filled:
        copied = builder.generic([], out, functools.partial(_number, owner.operands[0]))
    else:
        copied = builder.generic([(value, tuple(range(len(out.shape))), out.dtype)], out, first)
    copy = copied.value
    ops = list(block.ops)
    for op in ops:
        op.detach()
    Rewriter.insert_op(ops, InsertPoint.before(before))
    return copy


def _number(constant: SSAValue, b: ScalarBuilder, x: Element) -> Element:
    """A body that yields one constant."""
    assert isinstance(constant.owner, Operation)
    return Element(b, b.add_op(arith.ConstantOp, [], constant.type, dict(constant.owner.properties)), x.dtype)


# --- rematerialising small results ------------------------------------------------------------------------


def _compute_again(partition: Partition, prepared: Collection[SSAValue]) -> None:
    """Rematerialise small results in the groups that read them; remove those without uses left.

    Those that are ``prepared`` stay what they are for groups that are not.
    """
    for group in reversed(partition.ordered()):
        if group.domain is None or group.contraction is not None:
            continue
        in_preparation = any(op.results[0] in prepared for op in group.ops)
        for value in list(group.read):
            if in_preparation or value not in prepared:
                _copy_into(partition, group, value)
    for op in sorted(partition.group, key=partition.order.__getitem__, reverse=True):  # the copies, too
        if partition.group[op].domain is not None and not op.results[0].uses:
            partition.remove(op)


def _copy_into(partition: Partition, group: LoopGroup, value: SSAValue) -> None:
    """Rematerialise a value inside a group that reads it, if it is small, and its operands likewise."""
    waiting = [value]
    while waiting:
        copy = _copied_into(partition, group, waiting.pop())
        if copy is not None:
            waiting += reversed(dict.fromkeys(copy.operands))


def _copied_into(partition: Partition, group: LoopGroup, value: SSAValue) -> Operation | None:
    """The operation that rematerialises a value inside a group that reads it; None if it is not small."""
    op = value.owner
    if value not in group.read or not isinstance(op, Operation) or partition.group.get(op, group) is group:
        return None
    places, loops, size = set(group.read[value]), operation_loops(op), volume(shape_of(value))
    if loops is None or loops.reduced or size > SMALL or size * MANY > group.volume or len(places) != 1:
        return None
    copy = op.clone()
    Rewriter.insert_op(copy, InsertPoint.after(op))
    for use in list(value.uses):
        if partition.group.get(use.operation) is group:
            use.operation.operands[use.index] = copy.results[0]
    partition.add(copy, group, *places, like=op)
    return copy


# --- outlining --------------------------------------------------------------------------------------------


class KernelOutliner:
    """Outlines groups as kernels and calls these instead."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = KernelModule(module)

    def outline(self, function: func.FuncOp, partition: Partition) -> None:
        end = function.body.block.last_op
        assert end is not None
        groups = partition.ordered()
        together = _independent(groups, partition) if DONATED.is_on(function) else []
        calls: dict[Any, list[LoopGroup]] = {}
        for group in groups:
            calls.setdefault(_bordered(group) or group, []).append(group)
        for nests in calls.values():
            if nests[0].domain is None:
                for op in nests[0].ops:
                    op.detach()
                    Rewriter.insert_op(op, InsertPoint.before(end))
            elif nests[0] not in together:
                self._call(nests, end)
        for nests in _in_kernels(together):
            self._call(nests, end)
        for op in reversed(list(function.body.block.ops)):
            if is_scaffold(op) and not op.results[0].uses:
                erase_op(op)

    def _call(self, nests: list[LoopGroup], end: Operation) -> None:
        """Outline groups as a kernel, and call it before ``end``."""
        ops = [op for nest in nests for op in nest.ops]
        inside = set[Any](ops)
        operands = (v for op in ops for v in (*op.operands[:-1], *indirect_operands(op)))
        inputs = list(dict.fromkeys(v for v in operands if v.owner not in inside))
        readers = {r: [u for u in r.uses if u.operation not in inside] for op in ops for r in op.results}
        outputs = [r for r, uses in readers.items() if uses]
        names = {kernel_name(nest.ops) for nest in nests}
        name = names.pop() if len(names) == 1 else kernel_name(ops)
        parts = [(nest.domain or (), {op: nest.axes[op] for op in nest.ops}) for nest in nests]
        kernel = self.module.shared(kernel_of_ops(name, parts, inputs, outputs))
        call = self.module.call(kernel, inputs, fused_location(ops))
        Rewriter.insert_op(call, InsertPoint.before(end))
        for old, new in zip(outputs, call.results, strict=True):
            new.name_hint = old.name_hint
            for use in readers[old]:
                use.operation.operands[use.index] = new
        for op in reversed(ops):
            erase_op(op, safe_erase=False)

    def call(
        self,
        kernel: Kernel,
        operands: Sequence[SSAValue],
        replaced: Sequence[SSAValue],
        block: Block,
    ) -> None:
        """Call a kernel, or an equal one, after its operands, and use its results in the place of others.

        Users of the results that stand before it come after it then.
        """
        shared = self.module.shared(kernel)
        call = self.module.call(shared, operands, self.module.location(shared))
        order = {id(op): position for position, op in enumerate(block.ops)}
        last = max((v.owner for v in operands if id(v.owner) in order), key=lambda op: order[id(op)], default=None)
        at = InsertPoint.at_start(block) if last is None else InsertPoint.after(cast(Operation, last))
        Rewriter.insert_op(call, at)
        early = False
        for old, new in zip(replaced, call.results, strict=True):
            new.name_hint = old.name_hint
            for use in list(old.uses):
                early |= order.get(id(use.operation), -1) < order.get(id(last), -1)
                use.operation.operands[use.index] = new
        if early:
            _sort(block)


def _sort(block: Block) -> None:
    """Put operations after those that they need, else in their order."""
    done: dict[Operation, None] = {}
    for op in block.ops:
        work = [op]
        while work:
            read = (v.owner for nested in work[-1].walk() for v in nested.operands)
            waits = [o for o in read if isinstance(o, Operation) and o.parent is block and o not in done]
            work += waits
            if not waits:
                done.setdefault(work.pop())
    for op in list(block.ops):
        op.detach()
    block.add_ops(done)


def depends_on(values: Iterable[SSAValue], on: set[Operation]) -> bool:
    """Whether a value depends on a result of these operations."""
    seen: set[int] = set()  # identities, which are hashed in less time than operations
    blocks = {op.parent for op in on}
    block = blocks.pop() if len(blocks) == 1 else None
    for op in () if block is None else block.ops:  # what stands before them depends on none: else time is quadratic
        if op in on:
            break
        seen.add(id(op))
    work = [v.owner for v in values]
    while work:
        op = work.pop()
        if id(op) in seen or not isinstance(op, Operation):
            continue
        if op in on:
            return True
        seen.add(id(op))
        work += [v.owner for v in (*op.operands, *indirect_operands(op))]
    return False


def _independent(groups: Iterable[LoopGroup], partition: Partition) -> list[LoopGroup]:
    """The elementwise groups that depend on nothing but host calls, and on which no group depends."""
    needed = {partition.group[s] for g in groups for s in g.sources}
    return [
        g
        for g in groups
        if g.domain is not None
        and g.contraction is None
        and not g.reduces
        and g not in needed
        and all(partition.group[s].domain is None for s in g.sources)
    ]


def _in_kernels(groups: Iterable[LoopGroup]) -> list[list[LoopGroup]]:
    """The groups in order, as many in each kernel as its size allows."""
    kernels: list[list[LoopGroup]] = []
    size = LARGEST
    for group in groups:
        size += group.size
        if size > LARGEST:
            kernels.append([])
            size = group.size
        kernels[-1].append(group)
    return kernels


def _bordered(group: LoopGroup) -> SSAValue | None:
    """The outermost concatenation of which a group computes a part without reading anything; None if it does not."""
    if group.domain is None or any((*op.operands[:-1], *indirect_operands(op)) for op in group.ops):
        return None
    whole = whole_of(group.ops[-1].results[0])
    return None if whole in group.written else whole


def kernel_name(ops: Sequence[Operation]) -> str:
    """The name of a kernel of these operations, made of the user's operators."""
    names = [identifier(_operator(op)) for op in ops]
    if len(names) == 1:
        return f"k_{names[0]}"
    listed = names if len(names) <= 6 else [*names[:5], f"{len(names) - 5}more"]
    return "fused_" + "_".join(listed)


def _operator(op: Operation) -> str:
    """The user's operator that an operation is of, or its own name."""
    name = OPERATOR.of(op)
    return op.name.partition(".")[2] if name is None else name.rpartition(".")[2]
