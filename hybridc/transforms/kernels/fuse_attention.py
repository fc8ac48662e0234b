"""Make one kernel of an attention: of scores, weights and sums, where scores and weights are used nowhere else.

They are three kernels: a product, a softmax of its rows, and a product of that with values. Together they are a kernel
of three nests, which :mod:`hybridc.ir.attention_kernel` recognises, and a target may compute without scores or weights
in memory. Where a view or another use is between them, as where a backward reads the weights, they stay three.

A mask that the softmax reads is computed again in its nest, if a kernel of maps makes it from arrays that are much
smaller, such as indices: rather than to read it for each batch. Random numbers, of a dropout, are drawn there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.ir.attention_kernel import attention_of
from hybridc.ir.kernel import analyse
from hybridc.ir.structured import kernels
from hybridc.ir.values import functions, put
from hybridc.transforms.kernels.attention_calls import (
    AxisMap,
    call_instead,
    erase_unused,
    given_to,
    has_one_nest,
    joined,
    masks_of,
    start_of,
)
from hybridc.transforms.kernels.attention_draws import erase_draws, give_keys, key_of
from hybridc.transforms.kernels.fuse_attention_backward import fuse_backward

# What two attentions must share to be one kernel: the functions that they call, and which arguments are the same.
_Key = tuple[tuple[str, ...], tuple[object, ...]]


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """See the module's docstring."""

    name = "fuse-attention"

    row: int = 512  # bytes of a query, and of a row of values, up to which a program can hold many of them

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        idle = kernels(op).keys() - _called(op)
        give_keys(op)
        fuse_backward(op, self.row)
        made: dict[_Key, func.FuncOp | None] = {}
        for function in [f for f in functions(op) if f.sym_visibility is None]:
            for last in [c for c in function.body.block.ops if isinstance(c, func.CallOp)]:
                for calls in _chains(last):
                    masks = masks_of(calls[1])
                    kernel = self._kernel(op, calls, masks, made)
                    if kernel is not None:
                        call_instead(calls, masks, kernel)
                        erase_unused([*masks, *calls])
                        break
        erase_draws(op)
        for constant in [c for f in functions(op) for c in f.walk() if isinstance(c, arith.ConstantOp)]:
            if not constant.result.uses:
                Rewriter.erase_op(constant)
        left = kernels(op).keys() - _called(op) - idle
        for name, function in kernels(op).items():
            if name in left:
                Rewriter.erase_op(function)

    def _kernel(
        self,
        module: ModuleOp,
        calls: Sequence[func.CallOp],
        masks: Mapping[func.CallOp, AxisMap],
        made: dict[_Key, func.FuncOp | None],
    ) -> func.FuncOp | None:
        """The kernel that does what these calls do, if it is an attention with rows that are short enough."""
        together = [*masks, *calls]
        given = given_to(together)
        number = {v: i for i, v in enumerate([*given, *(r for c in together[:-1] for r in c.results)])}
        names = tuple(c.callee.string_value() for c in together)
        made_there = {v: (start_of(v), number.get(key_of(v) or v)) for c in together for v in c.arguments}
        key = (names, tuple(number.get(v, made_there[v]) for c in together for v in c.arguments))
        if key not in made:
            kernel = joined(calls, masks)
            attention = attention_of(analyse(kernel))
            made[key] = kernel if attention is not None and attention.row <= self.row else None
            if made[key] is kernel:
                put(module, kernel)
        return made[key]


def _called(module: ModuleOp) -> set[str]:
    """The names of all functions that are called."""
    return {c.callee.string_value() for f in functions(module) for c in f.walk() if isinstance(c, func.CallOp)}


def _chains(last: func.CallOp) -> list[list[func.CallOp]]:
    """Calls of three kernels with one nest, of which the last is this one, and each needs the one before alone."""
    if not has_one_nest(last):
        return []
    return [[first, middle, last] for middle in _makers(last) for first in _makers(middle)]


def _makers(call: func.CallOp) -> list[func.CallOp]:
    """The calls that make an argument of a call, and nothing else."""
    owners = [v.owner for v in call.arguments]
    makers = [op for op in owners if isinstance(op, func.CallOp) and len(op.results) == 1 and has_one_nest(op)]
    return [op for op in makers if op.results[0].has_one_use()]
