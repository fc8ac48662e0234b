"""Make one kernel of an attention: of scores, weights and sums, where scores and weights are used nowhere else.

They are three kernels: a product, a softmax of its rows, and a product of that with values. Together they are a kernel
of three nests, which :mod:`hybridc.lower.attention` recognises, and a target may compute without scores or weights in
memory. Where a view or another use is between them, as where a backward reads the weights, they stay three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.hybrid import fused_location
from hybridc.lower.attention import attention_of
from hybridc.lower.kernel import analyse
from hybridc.lower.structured import dtype_of, function_called, is_host, kernels, note_dtypes
from hybridc.transforms.values import functions

# What two attentions must share to be one kernel: the functions that they call, and which arguments are the same.
_Key = tuple[tuple[str, ...], tuple[int, ...]]


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
                    kernel = self._kernel(op, calls, made)
                    if kernel is not None:
                        _replace(calls, kernel)
                        break
        called = {c.callee.string_value() for f in functions(op) for c in f.walk() if isinstance(c, func.CallOp)}
        joined = {name for key, kernel in made.items() if kernel is not None for name in key[0]}
        for name, function in kernels(op).items():
            if name in joined - called:
                Rewriter.erase_op(function)

    def _kernel(
        self, module: ModuleOp, calls: Sequence[func.CallOp], made: dict[_Key, func.FuncOp | None]
    ) -> func.FuncOp | None:
        """The kernel that does what these calls do, if it is an attention with rows that are short enough."""
        given = _given(calls)
        number = {v: i for i, v in enumerate([*given, *(r for c in calls[:-1] for r in c.results)])}
        names = tuple(c.callee.string_value() for c in calls)
        key = (names, tuple(number[v] for c in calls for v in c.arguments))
        if key not in made:
            kernel = _joined(calls, given)
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


def _given(calls: Sequence[func.CallOp]) -> list[SSAValue]:
    """What calls are given that they do not make themselves, each once."""
    made = {r for c in calls for r in c.results}
    return list(dict.fromkeys(v for c in calls for v in c.arguments if v not in made))


def _replace(calls: Sequence[func.CallOp], kernel: func.FuncOp) -> None:
    """Call one kernel in the place of several, of which only the last makes what others need."""
    last = calls[-1]
    call = func.CallOp(kernel.sym_name.data, _given(calls), [r.type for r in last.results])
    call.location = fused_location(calls)
    Rewriter.insert_op(call, InsertPoint.before(last))
    for old, new in zip(last.results, call.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for each in reversed(calls):
        Rewriter.erase_op(each)


def _joined(calls: Sequence[func.CallOp], given: Sequence[SSAValue]) -> func.FuncOp:
    """The kernel that does what these calls do: a nest for each."""
    bodies = [function_called(c) for c in calls]
    block = Block(arg_types=[v.type for v in given])
    values: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
    for number, (call, body) in enumerate(zip(calls, bodies, strict=True)):
        results = _copy(body, [values[v] for v in call.arguments], number, block)
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


def _copy(body: func.FuncOp, arguments: Sequence[SSAValue], number: int, block: Block) -> Sequence[SSAValue]:
    """The operations of a kernel as the nest with this number, at the end of a block; what they return."""
    values: dict[SSAValue, SSAValue] = dict(zip(body.body.block.args, arguments, strict=True))
    for op in body.body.block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[v] for v in op.arguments]
        copy = op.clone(values)
        copy.location = op.location
        if number and "hybrid.axes" in op.attributes:
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
