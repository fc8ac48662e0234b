"""Attention becomes one kernel: the product that scores, the softmax of the scores, the product of the weights.

A target that goes along the keys in blocks then keeps the scores to itself. Three kernels become one of three nests if
nobody else wants what the first two give, and if together they are attention, as
:mod:`~hybridc.lower.attention` sees it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.lower.attention import attention_of
from hybridc.lower.kernel import analyse
from hybridc.lower.structured import is_host, is_scaffold, kernels
from hybridc.transforms.values import functions


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """See the module's docstring."""

    name = "fuse-attention"

    row: int = 512  # bytes of a query, and of a row of values, up to which a program can hold many of them

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuser = _Fuser(op, self.row)
        for function in functions(op):
            if function.sym_visibility is None:
                for call in [c for c in function.body.block.ops if isinstance(c, func.CallOp)]:
                    fuser.fuse(call)
        called = {c.callee.string_value() for f in functions(op) for c in f.walk() if isinstance(c, func.CallOp)}
        for name in fuser.replaced - called:
            Rewriter.erase_op(fuser.kernels[name])


class _Fuser:
    """Makes the kernels; equal ones are one."""

    def __init__(self, module: ModuleOp, row: int) -> None:
        self.module, self.row = module, row
        self.kernels = kernels(module)
        self.made: dict[Any, func.FuncOp | None] = {}
        self.replaced: set[str] = set()

    def fuse(self, last: func.CallOp) -> None:
        """Replace a call, and two before it, by one, if these are attention."""
        for second in self._feeding(last):
            for first in self._feeding(second):
                chain = (first, second, last)
                kernel = self._kernel(chain)
                if kernel is None:
                    continue
                outside = _outside(chain)
                call = func.CallOp(kernel.sym_name.data, outside, kernel.function_type.outputs.data)
                call.location = last.location
                Rewriter.replace_op(last, call)
                for each in (second, first):
                    Rewriter.erase_op(each)
                self.replaced |= {c.callee.string_value() for c in chain}
                return

    def _feeding(self, call: func.CallOp) -> list[func.CallOp]:
        """The calls of kernels whose only result is given to this call alone."""
        found = [v.owner for v in dict.fromkeys(call.arguments)]
        calls = [c for c in found if isinstance(c, func.CallOp) and len(c.results) == 1]
        return [
            c
            for c in calls
            if not is_host(self.kernels[c.callee.string_value()])
            and {use.operation for use in c.results[0].uses} == {call}
            and list(call.arguments).count(c.results[0]) == 1
        ]

    def _kernel(self, chain: Sequence[func.CallOp]) -> func.FuncOp | None:
        """The kernel that does what three calls do, if it is attention."""
        outside = _outside(chain)
        inside: dict[SSAValue, int] = {c.results[0]: -1 - i for i, c in enumerate(chain)}
        wiring = tuple(tuple(inside[v] if v in inside else outside.index(v) for v in c.arguments) for c in chain)
        key = (tuple(c.callee.string_value() for c in chain), wiring)
        if key not in self.made:
            self.made[key] = self._attention(chain, outside)
        return self.made[key]

    def _attention(self, chain: Sequence[func.CallOp], outside: Sequence[SSAValue]) -> func.FuncOp | None:
        parts = [self.kernels[c.callee.string_value()] for c in chain]
        if any(len(cast("ArrayAttr[Any]", p.attributes["hybrid.domains"])) != 1 for p in parts):
            return None
        if any("hybrid.dtypes" in p.attributes for p in parts):
            return None
        made = self._merged(chain, parts, outside)
        found = attention_of(analyse(made))
        if found is None:
            return None
        widest = max(found.width * found.sums.dtype.itemsize, math.prod(found.term_sizes) * found.scores.dtype.itemsize)
        if widest > self.row:
            return None
        self.module.body.block.add_op(made)
        return made

    def _merged(
        self, chain: Sequence[func.CallOp], parts: Sequence[func.FuncOp], outside: Sequence[SSAValue]
    ) -> func.FuncOp:
        """One function of three nests, with the operations of three."""
        block = Block(arg_types=[v.type for v in outside])
        known: dict[SSAValue, SSAValue] = dict(zip(outside, block.args, strict=True))
        results: list[SSAValue] = []
        for number, (call, part) in enumerate(zip(chain, parts, strict=True)):
            values: dict[SSAValue, SSAValue] = {
                a: known[v] for a, v in zip(part.body.block.args, call.arguments, strict=True)
            }
            for op in part.body.block.ops:
                if isinstance(op, func.ReturnOp):
                    results = [values[v] for v in op.arguments]
                    continue
                copy = op.clone(values)
                if not is_scaffold(op):
                    copy.attributes["hybrid.nest"] = IntegerAttr(number, i64)
                block.add_op(copy)
            known.update(zip(call.results, results, strict=True))
        block.add_op(func.ReturnOp(*results))
        kind = FunctionType.from_lists([v.type for v in outside], [v.type for v in results])
        made = func.FuncOp(self._name(), kind, Region(block), visibility="private")
        domains = [cast("ArrayAttr[DenseArrayBase[Any]]", p.attributes["hybrid.domains"]).data[0] for p in parts]
        made.attributes["hybrid.domains"] = ArrayAttr(domains)
        made.location = chain[-1].location
        return made

    def _name(self) -> str:
        taken = {f.sym_name.data for f in functions(self.module)}
        names = ("fused_attention", *(f"fused_attention_{i}" for i in range(1, len(taken) + 1)))
        return next(n for n in names if n not in taken)


def _outside(chain: Sequence[func.CallOp]) -> list[SSAValue]:
    """What calls are given, each value once, without what they give each other."""
    inside = {c.results[0] for c in chain[:-1]}
    return [v for v in dict.fromkeys(v for c in chain for v in c.arguments) if v not in inside]
