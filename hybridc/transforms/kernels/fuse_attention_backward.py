"""Make one kernel of an attention's backward, of which the forward then keeps a few numbers a row, not the weights.

The forward is three kernels: scores, weights, sums by weights; what it sums is returned, and so are the weights, for
the backward. That is five: the gradient of weights (the result's by values), the gradient of scores (maps of both, and
of the sum of each row of their product), and three products, of weights and of the gradient of scores. The sum of a row
of weights times their gradients is that of the result times its own, as the one is a product with the other's weights:
so it needs no row of weights. Everything else needs a row and a key at a time.

Forward and backward are two functions, or parts of one: a training step. So the forward becomes one kernel, which also
gives each row's greatest score and sum of powers, and the backward becomes one kernel,
:mod:`hybridc.ir.attention_kernel`, which computes weights again from those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.ir.attention_kernel import CASTS, Attention, attention_backward_of, attention_of
from hybridc.ir.joined import RESHAPES
from hybridc.ir.kernel import Axes, Kernel, Stage, analyse
from hybridc.ir.structured import dtype_of, note_dtypes
from hybridc.ir.values import functions, put
from hybridc.transforms.kernels.attention_backward_kernel import (
    OUTPUT,
    PEAK,
    TOTAL,
    Backward,
    Forward,
    Join,
    axes_of,
    kernel_of,
)
from hybridc.transforms.kernels.attention_calls import call_instead, erase_unused, has_one_nest, joined, masks_of
from hybridc.transforms.kernels.factors import Factors, Products
from hybridc.transforms.kernels.kept_values import KeptValues, unshaped
from hybridc.transforms.kernels.split_calls import untangle


def fuse_backward(module: ModuleOp, row: int) -> None:
    """Fuse the attentions of ``@forward`` and ``@backward`` whose rows have at most so many bytes."""
    named = {f.sym_name.data: f for f in functions(module)}
    forward = named.get("forward")
    backward = named.get("backward", forward)
    if forward is None or backward is None or (backward is not forward and "hybrid.saved" not in backward.attributes):
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
    for middle in _makers(last.arguments):
        if not _is_for_backward(middle, last, kept):
            continue
        for first in _makers(middle.arguments):
            if len(first.results) > 1 or not first.results[0].has_one_use():
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


def _makers(values: Sequence[SSAValue]) -> list[func.CallOp]:
    """The calls of kernels with one nest that make one of these values."""
    owners = dict.fromkeys(v.owner for v in values)
    return [op for op in owners if isinstance(op, func.CallOp) and has_one_nest(op)]


def _is_for_backward(middle: func.CallOp, last: func.CallOp, kept: KeptValues) -> bool:
    """Whether only a call uses what another makes, and the forward returns it, for the backward alone.

    Where both are one function, whether anybody else uses it.
    """
    if kept.together:
        return any(use.operation is not last for v in middle.results for use in v.uses)
    uses = [_uses(v, last, kept) for v in middle.results]
    return None not in uses and any(uses)


def _uses(value: SSAValue, last: func.CallOp, kept: KeptValues) -> int | None:
    """How often the forward returns a value for the backward, in any shape; None if anyone but a call uses it, too."""
    found = 0
    for use in value.uses:
        if use.operation is last:
            continue
        if isinstance(use.operation, RESHAPES):
            shaped = _uses(use.operation.results[0], last, kept)
            if not shaped:
                return None
            found += shaped
        elif use.operation is not kept.end or use.index < kept.visible:
            return None
        else:
            found += 1
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
    dtypes = [dtype_of(v) for v in (*block.args, *results)]
    kernel.function_type = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])
    note_dtypes(kernel, dtypes)
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
        wanted = [cast(SSAValue, news.get(v, v)) for v in cast("Sequence[Any]", given)]
        values = [v if _belongs(v, self.backward) else kept.again(v, at) for v in wanted]
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
        """The calls of the backward that use weights, and what they make, if they are those of an attention."""
        shown = self._shown()
        users = self._users(shown or ())
        if not shown or users is None:
            return None
        by_sum = [c for c in users if _row_sum(kernel_of(c)) is not None]
        before = [c for c in users if all(s.kind == "map" for s in kernel_of(c).stages)]
        known = [*shown, *(r for c in before for r in c.results)]
        users = self._users(known)
        products = [c for c in users or () if kernel_of(c).nests[0].product is not None]
        if len(by_sum) != 1 or len(products) != 1 or {*(users or ())} != {*by_sum, *products, *before}:
            return None
        (scores,), (values,) = by_sum, products
        total = _row_sum(kernel_of(scores))
        if total is None or any(len(c.results) != 1 for c in (scores, *before)):
            return None
        grads = self._grads(scores, total, shown)
        both = self._users(scores.results)
        if grads is None or both is None or len(both) != 2:
            return None
        queries, keys = both
        if not self._sums_keys(scores, queries):
            queries, keys = keys, queries
        return Backward(shown, tuple(before), grads, scores, values, queries, keys, total, masks_of(scores))

    def _users(self, values: Iterable[SSAValue]) -> list[func.CallOp] | None:
        """The calls of the backward that use some values, if nothing but calls of kernels with one nest does."""
        users = list(dict.fromkeys(use.operation for v in values for use in v.uses))
        users = [u for u in users if u is not self.found.calls[2]]
        calls = [u for u in users if isinstance(u, func.CallOp) and has_one_nest(u)]
        return calls if len(calls) == len(users) else None

    def _shown(self) -> dict[SSAValue, int] | None:
        """What the backward is given of what the softmax made, in the shapes in which that made it; None if it is not.

        The numbers are those of the softmax's results.
        """
        found: dict[SSAValue, int] = {}
        for number, made in enumerate(self.found.made):
            work: list[SSAValue] = [a for a, v in self.kept.source.items() if unshaped(v) is made]
            work += [made] if self.kept.together else []
            while work:
                value = work.pop()
                users = [use.operation for use in value.uses if use.operation is not self.found.calls[2]]
                if any(not isinstance(u, RESHAPES) for u in users):
                    found[value] = number
                work += [u.results[0] for u in users if isinstance(u, RESHAPES)]
        return found if all(self.kept.same(self.found.made[n], v) for v, n in found.items()) else None

    def _grads(self, scores: func.CallOp, total: Stage, shown: Mapping[SSAValue, int]) -> func.CallOp | None:
        """The call that makes the gradients of what is multiplied with values, if ``total`` sums the products of both.

        Then that is the sum of the result times its own gradient, whatever weights were multiplied with before.
        """
        middle, kernel = kernel_of(self.found.calls[1]), kernel_of(scores)
        axes = axes_of(middle, scores, shown)
        if axes is None:
            return None
        theirs = dict(zip(middle.arguments, self.found.calls[1].arguments, strict=True))
        products = Products(middle.nests[0], lambda v: Counter([(theirs.get(v, v), _read(middle, v))]))
        ours = dict(zip(kernel.arguments, scores.arguments, strict=True))

        def given(argument: SSAValue) -> Factors:
            value = ours.get(argument, argument)
            if value in shown:
                return products.of(middle.results[shown[value]])
            source = self.kept.copied(value)
            return Counter([(value if source is None else source, _read(kernel, argument, axes))])

        have = Products(kernel.nests[0], given).of(total.reads[0].value)
        want = products.of(middle.results[self.found.weights])
        rest = have - want
        alone = [v for a, v in ours.items() if rest == Counter([(v, _read(kernel, a, axes))])]
        made = _makers(alone)
        if want - have or len(made) != 1:
            return None
        (call,) = made
        if len(call.results) != 1 or not call.results[0].has_one_use():
            return None
        return call if kernel_of(call).nests[0].product is not None else None

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


def _belongs(value: SSAValue, function: func.FuncOp) -> bool:
    """Whether a value is one of a function."""
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


def _read(kernel: Kernel, value: SSAValue, axes: Mapping[int, int] | None = None) -> frozenset[Axes]:
    """How a kernel reads a value, its axes called as ``axes`` says."""
    found = (r.axes for s in kernel.stages for r in s.reads if r.value is value)
    return frozenset(tuple(a if axes is None else axes[a] for a in each) for each in found)
