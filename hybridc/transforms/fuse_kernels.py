"""Partition a function into kernels: elementwise operators and row reductions over one domain become one kernel.

A *domain* is the shape that a kernel iterates over. An elementwise operator whose result has that shape belongs to
it; so does a reduction over its trailing axes (the leading ones are then the *rows* of the kernel), and every
elementwise operator on row results. A reduction over all axes (no rows) ends its kernel, since its result exists
after the last tile only; several such reductions of one value share a pass over it. Two kernels over one domain join
where a value flows from one to the other, unless a path between them leads through a third (then a joined kernel
would have to run before and after it). Views stay outside: they cost nothing.

Afterwards the function calls private kernel functions; equal kernels are shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.hybrid import HybridOp, fused_location, shape_of
from hybridc.transforms.splice import Splicer
from hybridc.transforms.values import (
    constant_value,
    functions,
    hybrid_ops,
    is_constant,
    is_state,
    is_view,
    loop_domain,
    root,
    volume,
)

Shape = tuple[int, ...]


@dataclass(eq=False)
class Group:
    """Operations that will be one kernel; ``domain`` is None where nothing can join.

    ``sources`` are the operations outside whose results it needs; ``first`` and ``last`` are the places of its
    operations in the function.
    """

    ops: list[HybridOp]
    first: int
    last: int
    domain: Shape | None = None
    rows: int | None = None
    sources: set[Operation] = field(default_factory=lambda: set[Operation]())

    def row_shape(self) -> Shape | None:
        """The shape of a value that there is once a row."""
        if self.domain is None or self.rows is None:
            return None
        return self.domain[: self.rows] + (1,) * (len(self.domain) - self.rows)


@dataclass(frozen=True)
class FuseKernels(ModulePass):
    """See the module's docstring."""

    name = "fuse-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels: dict[Any, func.FuncOp] = {}
        for function in functions(op):
            _copy_returned_inputs(function)
            _outline(op, function, _Partition(function).ordered(), kernels)


def _copy_returned_inputs(function: func.FuncOp) -> None:
    """A result must own its memory: copy what would be a view of an input, of a constant, or of another result."""
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    seen: set[SSAValue] = set()
    for i, value in enumerate(end.arguments):
        base = root(value)
        foreign = not isinstance(base.owner, Operation) or constant_value(base) is not None
        if base in seen or foreign or _overlaps_itself(value):
            splicer = Splicer()
            from hybridc import symbol as F

            with splicer.trace.active():
                copy = F.identity(splicer.symbol(value))
            splicer.splice(end)
            end.operands[i] = splicer.value(copy)
        seen.add(root(end.operands[i]))


def _overlaps_itself(value: SSAValue) -> bool:
    """Whether a view shows one element in several places, as a broadcast does."""
    while isinstance(value.owner, HybridOp) and value.owner.operands and is_view(value.owner):
        source = value.owner.operands[0]
        if volume(shape_of(value)) > volume(shape_of(source)):
            return True
        value = source
    return False


class _Partition:
    """The groups of a function while operators join them one by one, in order."""

    def __init__(self, function: func.FuncOp) -> None:
        self.ops = [op for op in hybrid_ops(function) if not is_constant(op)]
        self.order: dict[Operation, int] = {op: i for i, op in enumerate(self.ops)}
        self.group: dict[Operation, Group] = {}
        # For each place the next one, or itself, that no group reaches over: all groups lie before or behind it.
        self._free = list(range(len(self.ops) + 1))
        for op in self.ops:
            self._place(op)
        for group in {id(g): g for g in self.group.values()}.values():
            group.ops.sort(key=self.order.__getitem__)

    def _place(self, op: HybridOp) -> None:
        owners = [v.owner for v in op.operands if isinstance(v.owner, Operation) and v.owner in self.group]
        sources = dict.fromkeys(owners)  # in order, so that equal graphs give equal kernels
        domain, rows = loop_domain(op)
        place = self.order[op]
        self.group[op] = Group([op], place, place, domain, rows, set(sources))
        if domain is None:
            return
        for source in sources:
            candidate = self.group[source]
            if candidate is not self.group[op] and _compatible(candidate, self.group[op]):
                self._join(candidate, self.group[op])
        if rows == 0:
            self._join_siblings(op)

    def _join_siblings(self, op: HybridOp) -> None:
        """Let full reductions of one value share a pass over it."""
        for use in op.operands[0].uses:
            other = self.group.get(use.operation)
            own = self.group[op]
            if other is None or other is own or other.rows != 0 or other.domain != own.domain:
                continue
            if not self._depends(own, other, direct=True):
                self._join(other, own)

    def _join(self, a: Group, b: Group) -> None:
        if self._depends(b, a, direct=False) or self._depends(a, b, direct=False):
            return
        rows = a.rows if a.rows is not None else b.rows
        domain = max((d for d in (a.domain, b.domain) if d is not None), key=volume)
        small, large = sorted((a, b), key=lambda g: len(g.ops))
        large.domain, large.rows = domain, rows
        large.ops += small.ops
        for op in small.ops:
            self.group[op] = large
        large.sources = {s for s in large.sources | small.sources if self.group[s] is not large}
        large.first, large.last = min(a.first, b.first), max(a.last, b.last)
        place = self._cut(large.first)
        while place < large.last:
            self._free[place] = place + 1
            place = self._cut(place)

    def _cut(self, place: int) -> int:
        """The first place from here on between which and the next no group has operations on both sides."""
        free = self._free
        while free[place] != place:
            free[place] = free[free[place]]
            place = free[place]
        return place

    def _depends(self, group: Group, on: Group, direct: bool) -> bool:
        """Whether ``group`` needs a result of ``on``, through a third group unless ``direct`` counts too."""
        seen: set[int] = set()
        stack = [self.group[s] for s in group.sources]
        if not direct:
            stack = [g for g in stack if g is not on]
        while stack:
            current = stack.pop()
            if current is on:
                return True
            # Behind a cut it and all that it needs lie before it: so compiling takes time in proportion to the graph.
            if id(current) in seen or current is group or self._cut(current.last) < on.first:
                continue
            seen.add(id(current))
            stack += [self.group[s] for s in current.sources]
        return False

    def ordered(self) -> list[Group]:
        """The groups so that each comes after those it depends on, otherwise in the order of their first operator."""
        done: dict[int, Group] = {}

        def visit(group: Group) -> None:
            stack = [(group, iter(self._sources(group)))]
            while stack:
                current, rest = stack[-1]
                source = next((s for s in rest if id(s) not in done), None)
                if source is not None:
                    stack.append((source, iter(self._sources(source))))
                    continue
                done.setdefault(id(current), current)
                stack.pop()

        for op in self.ops:
            if id(self.group[op]) not in done:
                visit(self.group[op])
        return list(done.values())

    def _sources(self, group: Group) -> list[Group]:
        return [self.group[s] for s in sorted(group.sources, key=self.order.__getitem__) if self.group[s] is not group]


def _compatible(source: Group, group: Group) -> bool:
    """Whether a group may be one kernel with the group that feeds it."""
    if source.domain is None or group.domain is None or (source.rows == 0 and group.rows != 0):
        return False
    if source.rows is not None and group.rows is not None and source.rows != group.rows:
        return False
    if source.domain == group.domain:
        return True
    return len(group.ops) == 1 and group.rows is None and group.domain == source.row_shape()


# --- outlining --------------------------------------------------------------------------------------------


def _outline(module: ModuleOp, function: func.FuncOp, groups: Iterable[Group], kernels: dict[Any, func.FuncOp]) -> None:
    block = function.body.block
    end = block.last_op
    assert end is not None
    for group in groups:
        if len(group.ops) == 1 and is_view(group.ops[0]):
            group.ops[0].detach()
            Rewriter.insert_op(group.ops[0], InsertPoint.before(end))
            continue
        _call(module, group, end, kernels)
    for op in hybrid_ops(function):
        if is_constant(op) and not op.results[0].uses:
            Rewriter.erase_op(op)


def _call(module: ModuleOp, group: Group, end: Operation, kernels: dict[Any, func.FuncOp]) -> None:
    """Put a group's operations into a kernel and call it in front of ``end``."""
    inside = set[Operation](group.ops)
    inputs: list[SSAValue] = []
    for op in group.ops:
        for value in op.operands:
            if value.owner not in inside and value not in inputs and constant_value(value) is None:
                inputs.append(value)
    outputs: list[SSAValue] = [
        r for op in group.ops for r in op.results if is_state(r) or any(u.operation not in inside for u in r.uses)
    ]
    if not outputs:  # only a host call's effects are wanted
        outputs = list(group.ops[-1].results)
    kernel = _kernel(group, inputs, outputs)
    key = _structure(kernel)
    if key not in kernels:
        taken = {f.sym_name.data for f in functions(module)}
        name, number = kernel.sym_name.data, 1
        while kernel.sym_name.data in taken:
            kernel.sym_name = StringAttr(f"{name}_{number}")
            number += 1
        module.body.block.add_op(kernel)
        kernels[key] = kernel
    call = func.CallOp(kernels[key].sym_name.data, inputs, [o.type for o in outputs])
    call.location = fused_location(group.ops)
    Rewriter.insert_op(call, InsertPoint.before(end))
    for old, new in zip(outputs, call.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in reversed(group.ops):
        op.detach()
        op.erase(safe_erase=False)


def _kernel(group: Group, inputs: list[SSAValue], outputs: list[SSAValue]) -> func.FuncOp:
    block = Block(arg_types=[v.type for v in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for op in group.ops:
        for value in op.operands:
            if value not in values and constant_value(value) is not None:
                assert isinstance(value.owner, Operation)
                copy = value.owner.clone()
                block.add_op(copy)
                values[value] = copy.results[0]
        copy = op.clone(values)
        block.add_op(copy)
    results = [values[v] for v in outputs]
    block.add_op(func.ReturnOp(*results))
    kind = FunctionType.from_lists([v.type for v in inputs], [v.type for v in outputs])
    return func.FuncOp(_name(group), kind, Region(block), visibility="private")


def _name(group: Group) -> str:
    names = [op.name.rpartition(".")[2] for op in group.ops]
    if len(names) == 1:
        return f"k_{names[0]}"
    shown = names if len(names) <= 6 else [*names[:5], f"{len(names) - 5}more"]
    return "fused_" + "_".join(shown)


def _structure(kernel: func.FuncOp) -> Any:
    """What two kernels must share to be one: operators, attributes, types and wiring, but not locations."""
    block = kernel.body.block
    number: dict[SSAValue, int] = {v: i for i, v in enumerate(block.args)}
    rows: list[Any] = [tuple(a.type for a in block.args)]
    for op in block.ops:
        for result in op.results:
            number[result] = len(number)
        attributes = tuple(sorted(op.attributes.items(), key=lambda item: item[0]))
        rows.append((op.name, attributes, tuple(number[v] for v in op.operands), tuple(r.type for r in op.results)))
    return tuple(rows)
