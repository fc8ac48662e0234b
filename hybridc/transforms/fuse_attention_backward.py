"""Make one kernel of an attention's backward, of which the forward then keeps a few numbers a row, not the weights.

The forward is three kernels: scores, weights, sums by weights; what it sums is returned, and so are the weights, for
the backward. That is five: the gradient of weights (the result's by values), the gradient of scores (maps of both, and
of the sum of each row of their product), and three products, of weights and of the gradient of scores. The sum of a row
of weights times their gradients is that of the result times its own, as the one is a product with the other's weights:
so it needs no row of weights. Everything else needs a row and a key at a time.

So the forward becomes one kernel, which also returns each row's greatest score and sum of powers, and the backward
becomes one kernel, :mod:`hybridc.lower.attention_backward`, which computes weights again from those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.hybrid import fused_location
from hybridc.lower.attention import CASTS, Attention, attention_of
from hybridc.lower.attention_backward import attention_backward_of
from hybridc.lower.joined import RESHAPES
from hybridc.lower.kernel import Kernel, Stage, analyse
from hybridc.lower.sources import Sources
from hybridc.transforms.attention_backward_kernel import OUTPUT, PEAK, TOTAL, Backward, Forward, Join, kernel_of
from hybridc.transforms.attention_calls import call_instead, erase_unused, has_one_nest, joined, masks_of, put
from hybridc.transforms.kept_values import KeptValues
from hybridc.transforms.split_calls import untangle
from hybridc.transforms.values import functions


def fuse_backward(module: ModuleOp, row: int) -> None:
    """Fuse the attentions of ``@forward`` and ``@backward`` whose rows have at most so many bytes."""
    named = {f.sym_name.data: f for f in functions(module)}
    forward, backward = named.get("forward"), named.get("backward")
    if forward is None or backward is None or "hybrid.saved" not in backward.attributes:
        return
    if any("hybrid.dtypes" in f.attributes for f in (forward, backward)):
        return
    made: dict[str, func.FuncOp] = {}
    for last in [c for c in forward.body.block.ops if isinstance(c, func.CallOp)]:
        found = _forward(last, KeptValues(forward, backward), row)
        if found is not None:
            _Fusion(module, forward, backward, found, row, made).apply()


# --- the forward -------------------------------------------------------------------------------------------


def _forward(last: func.CallOp, kept: KeptValues, row: int) -> Forward | None:
    """The attention that ends with this call, if its weights are needed by the backward and nowhere else."""
    if last.parent is None or not has_one_nest(last):
        return None
    for middle in _single(last.arguments):
        if not _is_returned(middle.results[0], last, kept):
            continue
        for first in _single(middle.arguments):
            if not first.results[0].has_one_use():
                continue
            masks = masks_of(middle)
            kernel = joined([first, middle, last], masks)
            attention = attention_of(analyse(kernel))
            if attention is not None and attention.row <= row:
                kernel.sym_name = StringAttr("fused_attention_kept")
                output = _return_more(kernel, attention)
                found = attention_of(analyse(kernel))
                return None if found is None else Forward((first, middle, last), masks, kernel, found, output)
    return None


def _single(values: Sequence[SSAValue]) -> list[func.CallOp]:
    """The calls of kernels with one nest that make one of these values, and nothing else."""
    owners = dict.fromkeys(v.owner for v in values)
    return [op for op in owners if isinstance(op, func.CallOp) and len(op.results) == 1 and has_one_nest(op)]


def _is_returned(weights: SSAValue, last: func.CallOp, kept: KeptValues) -> bool:
    """Whether only a call uses these weights, and the forward returns them, for the backward alone, in any shape."""
    found = False
    for use in weights.uses:
        if use.operation is last:
            continue
        if isinstance(use.operation, RESHAPES):
            if not _is_returned(use.operation.results[0], last, kept):
                return False
        elif use.operation is not kept.end or use.index < kept.visible:
            return False
        found = True
    return found


def _return_more(kernel: func.FuncOp, attention: Attention) -> int:
    """Let the kernel of an attention return peaks and totals, too; which result is the sum by weights."""
    end = kernel.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    output = attention.sums.stage.result
    for stage in attention.epilogue:  # as it is rounded, if that is all that is done with it
        if len(stage.reads) == 1 and stage.reads[0].value is output and all(isinstance(s, CASTS) for s in stage.steps):
            output = stage.result
    results = list(dict.fromkeys([*end.arguments, output, attention.peak.result, attention.total.result]))
    Rewriter.replace_op(end, func.ReturnOp(*results))
    block = kernel.body.block
    kernel.function_type = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])
    return results.index(output)


# --- the backward ------------------------------------------------------------------------------------------


class _Fusion:
    """One attention of the forward with its backward."""

    def __init__(
        self,
        module: ModuleOp,
        forward: func.FuncOp,
        backward: func.FuncOp,
        found: Forward,
        row: int,
        made: dict[str, func.FuncOp],
    ) -> None:
        self.module, self.forward, self.backward = module, forward, backward
        self.found, self.row, self.made = found, row, made
        self.kept = KeptValues(forward, backward)

    def apply(self) -> None:
        """Fuse both, if the backward is that of this attention."""
        calls = self._calls()
        block = self.backward.body.block
        if calls is not None and untangle(block.ops, calls.grads.results[0], calls.calls, self._stored):
            calls = self._calls()
        if calls is None:
            return
        order = list(self.backward.body.block.ops)
        at = max(calls.calls, key=order.index)
        later = self._later(calls, order[: order.index(at)])
        new = Join(self.found, calls, self.kept, at).run()
        attention = None if new is None else attention_backward_of(analyse(new[0]))
        if new is None or later is None or attention is None or attention.row > self.row:
            return
        kernel, given, results = new
        stored = [self._stored(f) for f in (self.found.kernel, kernel)]
        self._replace(stored, given, calls, results, at, later)

    def _stored(self, kernel: func.FuncOp) -> func.FuncOp:
        """The kernel in the module, or one before that does the same."""
        key = str(kernel)
        if key not in self.made:
            put(self.module, kernel)
            self.made[key] = kernel
        return self.made[key]

    def _replace(
        self,
        kernels: Sequence[func.FuncOp],
        given: Sequence[SSAValue],
        calls: Backward,
        results: Sequence[SSAValue],
        at: Operation,
        later: Sequence[Operation],
    ) -> None:
        """Call the two kernels in the place of what they were made of."""
        old = self.found.calls[2].results
        ours = call_instead(self.found.calls, self.found.masks, kernels[0])
        news: dict[Any, SSAValue] = {
            **dict(zip(old, ours.results, strict=False)),
            OUTPUT: ours.results[self.found.output],
            PEAK: ours.results[-2],
            TOTAL: ours.results[-1],
        }
        kept = KeptValues(self.forward, self.backward)
        values = [
            v if _belongs(v, self.backward) else kept.again(cast(SSAValue, news.get(v, v)), at)
            for v in cast("Sequence[Any]", given)
        ]
        call = func.CallOp(kernels[1].sym_name.data, values, [r.type for r in results])
        call.location = fused_location(calls.calls)
        Rewriter.insert_op(call, InsertPoint.before(at))
        for value, new in zip(results, call.results, strict=True):
            new.name_hint = value.name_hint
            value.replace_all_uses_with(new)
        block = self.backward.body.block
        for op in later:
            op.detach()
            block.insert_op_before(op, at)
        erase_unused([*calls.masks, *calls.calls])
        for op in list(block.ops):
            if isinstance(op, RESHAPES) and not op.results[0].uses:
                Rewriter.erase_op(op)
        kept.note()
        erase_unused([*self.found.masks, *self.found.calls])

    def _later(self, calls: Backward, before: Sequence[Operation]) -> list[Operation] | None:
        """What needs the fused results before all of them were there: it comes later; None if they need it."""
        known: set[SSAValue] = {r for c in (calls.values, calls.queries, calls.keys) for r in c.results}
        later: list[Operation] = []
        for op in before:
            if any(v in known for v in op.operands):
                if op in calls.calls:
                    return None
                later.append(op)
                known |= {*op.results}
        last = next(c for c in calls.calls if c not in before)
        return None if any(v in known for v in last.operands) else later

    def _calls(self) -> Backward | None:
        """The calls of the backward that use the weights, and what they make, if they are those of an attention."""
        weights = self._weights()
        if weights is None:
            return None
        users = list(dict.fromkeys(use.operation for use in weights.uses))
        if len(users) != 2 or any(not isinstance(u, func.CallOp) or not has_one_nest(u) for u in users):
            return None
        by_product = [cast(func.CallOp, u) for u in users]
        by_product.sort(key=lambda c: kernel_of(c).nests[0].product is None)
        values, scores = by_product
        total = _row_sum(kernel_of(scores))
        if kernel_of(values).nests[0].product is None or total is None or len(scores.results) != 1:
            return None
        grads = self._grads(scores, weights, total)
        products = list(dict.fromkeys(use.operation for use in scores.results[0].uses))
        if grads is None or len(products) != 2:
            return None
        if any(not isinstance(p, func.CallOp) or not has_one_nest(p) for p in products):
            return None
        queries, keys = (cast(func.CallOp, p) for p in products)
        if not self._sums_keys(scores, queries):
            queries, keys = keys, queries
        return Backward(grads, scores, values, queries, keys, weights, total, masks_of(scores))

    def _weights(self) -> SSAValue | None:
        """The weights in the backward, in the shape that the forward made, if nothing needs them in another."""
        found: set[SSAValue] = set()
        work: list[SSAValue] = [a for a, v in self.kept.source.items() if self._shows_weights(v)]
        while work:
            value = work.pop()
            users = [use.operation for use in value.uses]
            if any(not isinstance(u, RESHAPES) for u in users):
                found.add(value)
            work += [u.results[0] for u in users if isinstance(u, RESHAPES)]
        value = found.pop() if len(found) == 1 else None
        return value if value is not None and self.kept.same(self.found.weights, value) else None

    def _shows_weights(self, value: SSAValue) -> bool:
        while isinstance(value.owner, RESHAPES):
            value = value.owner.operands[0]
        return value is self.found.weights

    def _grads(self, scores: func.CallOp, weights: SSAValue, total: Stage) -> func.CallOp | None:
        """The call that makes the gradients of weights, which are multiplied with weights and summed."""
        kernel = kernel_of(scores)
        steps = Sources(kernel.nests[0])
        product = _uncast(steps, total.reads[0].value).owner
        if not isinstance(product, arith.MulfOp):
            return None
        given = dict(zip(kernel.arguments, scores.arguments, strict=True))
        factors = [given.get(_uncast(steps, v)) for v in product.operands]
        if weights not in factors:
            return None
        other = factors[1 - factors.index(weights)]
        call = None if other is None else other.owner
        if not isinstance(call, func.CallOp) or not has_one_nest(call) or not call.results[0].has_one_use():
            return None
        return call if len(call.results) == 1 and kernel_of(call).nests[0].product is not None else None

    def _sums_keys(self, scores: func.CallOp, product: func.CallOp) -> bool:
        """Whether a product sums the same axes of the gradients of scores as the maps before it."""
        kernel, maps = kernel_of(product), kernel_of(scores)
        total, stage = _row_sum(maps), kernel.nests[0].product
        given = dict(zip(kernel.arguments, product.arguments, strict=True))
        if total is None or stage is None:
            return False
        read = next((r for r in stage.reads if given.get(r.value) is scores.results[0]), None)
        made = next((s for s in maps.stages if s.result is maps.results[0]), None)
        if read is None or made is None:
            return False
        return {m for m, a in zip(made.axes, read.axes, strict=True) if a in stage.reduced} == {*total.reduced}


def _belongs(value: Any, function: func.FuncOp) -> bool:
    """Whether a value is one of a function."""
    if not isinstance(value, SSAValue):
        return False
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return block is function.body.block


def _row_sum(kernel: Kernel) -> Stage | None:
    """The one sum of a kernel of maps."""
    sums = [s for s in kernel.stages if s.kind != "map"]
    if len(sums) != 1 or not isinstance(sums[0].combine, arith.AddfOp) or len(sums[0].reads) != 1:
        return None
    plain = all(isinstance(s, (arith.AddfOp, *CASTS)) for s in sums[0].steps)
    return sums[0] if plain and sums[0].kind == "row" else None


def _uncast(steps: Sources, value: SSAValue) -> SSAValue:
    """Where a value comes from, through casts."""
    value = steps.source(value)
    while isinstance(value.owner, CASTS):
        value = steps.source(value.owner.operands[0])
    return value
