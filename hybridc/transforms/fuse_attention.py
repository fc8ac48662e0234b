"""Make one kernel of an attention: of scores, weights and sums, where scores and weights are used nowhere else.

They are three kernels: a product, a softmax of its rows, and a product of that with values. Together they are a kernel
of three nests, which :mod:`hybridc.lower.attention` recognises, and a target may compute without scores or weights in
memory. Where a view or another use is between them, as where a backward reads the weights, they stay three.

A mask that the softmax reads is computed again in its nest, if a kernel of maps makes it from arrays that are much
smaller, such as indices: rather than to read it for each batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.hybrid import fused_location
from hybridc.lower.attention import attention_of
from hybridc.lower.kernel import analyse
from hybridc.lower.structured import dtype_of, function_called, is_host, kernels, note_dtypes, shape_of
from hybridc.transforms.values import functions

# What two attentions must share to be one kernel: the functions that they call, and which arguments are the same.
_Key = tuple[tuple[str, ...], tuple[int, ...]]
# What each axis of a kernel is in another.
_Axes = dict[int, int]
# A mask is computed again if it has so many times the elements of what it is made of.
MANY = 16


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """See the module's docstring."""

    name = "fuse-attention"

    row: int = 512  # bytes of a query, and of a row of values, up to which a program can hold many of them

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made: dict[_Key, func.FuncOp | None] = {}
        for function in [f for f in functions(op) if f.sym_visibility is None]:
            for last in [c for c in function.body.block.ops if isinstance(c, func.CallOp)]:
                for calls in _chains(last):
                    masks = _masks(calls[1])
                    kernel = self._kernel(op, calls, masks, made)
                    if kernel is not None:
                        _replace(calls, masks, kernel)
                        break
        called = {c.callee.string_value() for f in functions(op) for c in f.walk() if isinstance(c, func.CallOp)}
        joined = {name for key, kernel in made.items() if kernel is not None for name in key[0]}
        for name, function in kernels(op).items():
            if name in joined - called:
                Rewriter.erase_op(function)

    def _kernel(
        self,
        module: ModuleOp,
        calls: Sequence[func.CallOp],
        masks: Mapping[func.CallOp, _Axes],
        made: dict[_Key, func.FuncOp | None],
    ) -> func.FuncOp | None:
        """The kernel that does what these calls do, if it is an attention with rows that are short enough."""
        together = [*masks, *calls]
        given = _given(together)
        number = {v: i for i, v in enumerate([*given, *(r for c in together[:-1] for r in c.results)])}
        names = tuple(c.callee.string_value() for c in together)
        key = (names, tuple(number[v] for c in together for v in c.arguments))
        if key not in made:
            kernel = _joined(calls, masks, given)
            attention = attention_of(analyse(kernel))
            made[key] = kernel if attention is not None and attention.row <= self.row else None
            if made[key] is kernel:
                _put(module, kernel)
        return made[key]


def _chains(last: func.CallOp) -> list[list[func.CallOp]]:
    """Calls of three kernels with one nest, of which the last is this one, and each needs the one before alone."""
    if not _has_one_nest(last):
        return []
    return [[first, middle, last] for middle in _makers(last) for first in _makers(middle)]


def _makers(call: func.CallOp) -> list[func.CallOp]:
    """The calls that make an argument of a call, and nothing else."""
    owners = [v.owner for v in call.arguments]
    makers = [op for op in owners if isinstance(op, func.CallOp) and len(op.results) == 1 and _has_one_nest(op)]
    return [op for op in makers if op.results[0].has_one_use()]


def _has_one_nest(call: func.CallOp) -> bool:
    callee = function_called(call)
    return not is_host(callee) and len(cast("ArrayAttr[Any]", callee.attributes["hybrid.domains"])) == 1


def _masks(softmax: func.CallOp) -> dict[func.CallOp, _Axes]:
    """The calls that make arguments from little, with what each of their axes is in the kernel that reads them."""
    reads = analyse(function_called(softmax))
    found: dict[func.CallOp, _Axes] = {}
    for value, argument in zip(softmax.arguments, reads.arguments, strict=True):
        call = value.owner
        if not isinstance(call, func.CallOp) or len(call.results) != 1 or not _has_one_nest(call):
            continue
        kernel = analyse(function_called(call))
        followed = {r.axes for s in reads.stages for r in s.reads if r.value is argument}
        given = sum(math.prod(shape_of(v)) for v in call.arguments)
        if kernel.fills or len(followed) != 1 or any(argument in s.anywhere for s in reads.stages):
            continue
        if any(s.kind != "map" or s.anywhere for s in kernel.stages) or given * MANY > math.prod(shape_of(value)):
            continue
        axes = dict(zip(kernel.stages[-1].axes, followed.pop(), strict=True))
        if kernel.stages[-1].result is kernel.results[0] and all(a in axes for s in kernel.stages for a in s.axes):
            found[call] = axes
    return found


def _given(calls: Sequence[func.CallOp]) -> list[SSAValue]:
    """What calls are given that they do not make themselves, each once."""
    made = {r for c in calls for r in c.results}
    return list(dict.fromkeys(v for c in calls for v in c.arguments if v not in made))


def _replace(calls: Sequence[func.CallOp], masks: Mapping[func.CallOp, _Axes], kernel: func.FuncOp) -> None:
    """Call one kernel in the place of several, of which only the last makes what others need, but for masks."""
    last = calls[-1]
    call = func.CallOp(kernel.sym_name.data, _given([*masks, *calls]), [r.type for r in last.results])
    call.location = fused_location(calls)
    Rewriter.insert_op(call, InsertPoint.before(last))
    for old, new in zip(last.results, call.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for each in reversed(calls):
        Rewriter.erase_op(each)
    for each in masks:
        if not each.results[0].uses:
            Rewriter.erase_op(each)


def _joined(calls: Sequence[func.CallOp], masks: Mapping[func.CallOp, _Axes], given: Sequence[SSAValue]) -> func.FuncOp:
    """The kernel that does what these calls do: a nest for each, with masks in that of the softmax."""
    bodies = [function_called(c) for c in calls]
    block = Block(arg_types=[v.type for v in given])
    values: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
    parts = [*((m, 1) for m in masks), *((c, number) for number, c in enumerate(calls))]
    for call, number in parts:
        arguments = [values[v] for v in call.arguments]
        results = _copy(function_called(call), arguments, number, masks.get(call), block)
        values.update(zip(call.results, results, strict=True))
    outputs = [values[r] for r in calls[-1].results]
    block.add_op(func.ReturnOp(*outputs))
    kind = FunctionType.from_lists([v.type for v in given], [v.type for v in outputs])
    made = func.FuncOp("fused_attention", kind, Region(block), visibility="private")
    domains = [d for f in bodies for d in cast("ArrayAttr[Any]", f.attributes["hybrid.domains"])]
    made.attributes["hybrid.domains"] = ArrayAttr(domains)
    made.location = fused_location(bodies)
    note_dtypes(made, [dtype_of(v) for v in (*given, *calls[-1].results)])
    return made


def _copy(
    body: func.FuncOp, arguments: Sequence[SSAValue], number: int, axes: _Axes | None, block: Block
) -> Sequence[SSAValue]:
    """The operations of a kernel in the nest with this number, at the end of a block; what they return."""
    values: dict[SSAValue, SSAValue] = dict(zip(body.body.block.args, arguments, strict=True))
    for op in body.body.block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[v] for v in op.arguments]
        copy = op.clone(values)
        copy.location = op.location
        if "hybrid.axes" in op.attributes:
            loops = cast("DenseArrayBase[Any]", op.attributes["hybrid.axes"]).get_values()
            if axes is not None:
                copy.attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, [axes[a] for a in loops])
            if number:
                copy.attributes["hybrid.nest"] = IntegerAttr(number, i64)
        block.add_op(copy)
    raise AssertionError("a kernel ends by returning")


def _put(module: ModuleOp, kernel: func.FuncOp) -> None:
    """Put a kernel into a module, under a name that no other function has."""
    taken = {f.sym_name.data for f in functions(module)}
    first = kernel.sym_name.data
    names = (first, *(f"{first}_{i}" for i in range(1, len(taken) + 1)))
    kernel.sym_name = StringAttr(next(n for n in names if n not in taken))
    module.body.block.add_op(kernel)
