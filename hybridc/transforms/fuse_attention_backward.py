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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.hybrid import fused_location
from hybridc.lower.attention import CASTS, Attention, attention_of
from hybridc.lower.attention_backward import GRADS, KEYS, MAPS, QUERIES, SCORES, VALUES, attention_backward_of
from hybridc.lower.joined import RESHAPES
from hybridc.lower.kernel import Kernel, Read, Stage, analyse
from hybridc.lower.sources import Sources
from hybridc.lower.structured import function_called, shape_of
from hybridc.transforms.attention_calls import (
    AxisMap,
    Body,
    call_instead,
    erase_unused,
    given_to,
    has_one_nest,
    joined,
    masks_of,
    put,
)
from hybridc.transforms.kept_values import KeptValues
from hybridc.transforms.values import functions


class _Place:
    """What the forward will give that it does not yet."""


OUTPUT, PEAK, TOTAL = _Place(), _Place(), _Place()


@dataclass(frozen=True, eq=False)
class _Forward:
    """An attention of the forward: its three calls, masks made for it, and the kernel that they will be.

    The kernel's results are those of the last call, then ``output``, if that is none of them, peaks and totals.
    """

    calls: tuple[func.CallOp, func.CallOp, func.CallOp]
    masks: dict[func.CallOp, AxisMap]
    kernel: func.FuncOp
    attention: Attention
    output: int  # the number of the result that is the sum by weights

    @property
    def weights(self) -> SSAValue:
        """What it returns for the backward until now."""
        return self.calls[1].results[0]


@dataclass(frozen=True, eq=False)
class _Backward:
    """The calls of a backward that will be one, by what they make."""

    grads: func.CallOp
    scores: func.CallOp
    values: func.CallOp
    queries: func.CallOp
    keys: func.CallOp
    weights: SSAValue
    total: Stage  # the sum of a row of weights by their gradients
    masks: dict[func.CallOp, AxisMap]

    @property
    def calls(self) -> list[func.CallOp]:
        """All of them, and masks."""
        return [self.grads, self.scores, self.values, self.queries, self.keys]


def fuse_backward(module: ModuleOp, row: int) -> set[str]:
    """Fuse attentions of ``@forward`` and ``@backward``, with rows of at most so many bytes; what they replaced."""
    named = {f.sym_name.data: f for f in functions(module)}
    forward, backward = named.get("forward"), named.get("backward")
    if forward is None or backward is None or "hybrid.saved" not in backward.attributes:
        return set()
    if any("hybrid.dtypes" in f.attributes for f in (forward, backward)):
        return set()
    left: set[str] = set()
    made: dict[Any, func.FuncOp] = {}
    for last in [c for c in forward.body.block.ops if isinstance(c, func.CallOp)]:
        found = _forward(last, KeptValues(forward, backward), row)
        if found is not None:
            left |= _Fusion(module, forward, backward, found, row, made).apply()
    return left


# --- the forward -------------------------------------------------------------------------------------------


def _forward(last: func.CallOp, kept: KeptValues, row: int) -> _Forward | None:
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
                return None if found is None else _Forward((first, middle, last), masks, kernel, found, output)
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
        found: _Forward,
        row: int,
        made: dict[Any, func.FuncOp],
    ) -> None:
        self.module, self.forward, self.backward = module, forward, backward
        self.found, self.row, self.made = found, row, made
        self.kept = KeptValues(forward, backward)

    def apply(self) -> set[str]:
        """Fuse both, if the backward is that of this attention; the names of kernels that were called."""
        calls = self._calls()
        if calls is None:
            return set()
        order = list(self.backward.body.block.ops)
        at = max(calls.calls, key=order.index)
        later = self._later(calls, order[: order.index(at)])
        new = _Join(self.found, calls, self.kept).run()
        attention = None if new is None else attention_backward_of(analyse(new[0]))
        if new is None or later is None or attention is None or attention.row > self.row:
            return set()
        kernel, given, results = new
        names = [c.callee.string_value() for c in (*self.found.calls, *self.found.masks, *calls.calls, *calls.masks)]
        number = {v: i for i, v in enumerate(given)}
        values = [*(v for c in self.found.calls for v in c.arguments), *(v for c in calls.calls for v in c.arguments)]
        key = (*names, *(number.get(v, -1) for v in values))
        stored = [self._stored((key, n), f) for n, f in enumerate((self.found.kernel, kernel))]
        self._replace(stored, given, calls, results, at, later)
        return set(names)

    def _stored(self, key: Any, kernel: func.FuncOp) -> func.FuncOp:
        """The kernel in the module, or one that was made of the same."""
        if key not in self.made:
            put(self.module, kernel)
            self.made[key] = kernel
        return self.made[key]

    def _replace(
        self,
        kernels: Sequence[func.FuncOp],
        given: Sequence[SSAValue],
        calls: _Backward,
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

    def _later(self, calls: _Backward, before: Sequence[Operation]) -> list[Operation] | None:
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

    def _calls(self) -> _Backward | None:
        """The calls of the backward that use the weights, and what they make, if they are those of an attention."""
        weights = self._weights()
        if weights is None:
            return None
        users = list(dict.fromkeys(use.operation for use in weights.uses))
        if len(users) != 2 or any(not isinstance(u, func.CallOp) or not has_one_nest(u) for u in users):
            return None
        by_product = [cast(func.CallOp, u) for u in users]
        by_product.sort(key=lambda c: _kernel(c).nests[0].product is None)
        values, scores = by_product
        total = _row_sum(_kernel(scores))
        if _kernel(values).nests[0].product is None or total is None or len(scores.results) != 1:
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
        return _Backward(grads, scores, values, queries, keys, weights, total, masks_of(scores))

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
        kernel = _kernel(scores)
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
        return call if len(call.results) == 1 and _kernel(call).nests[0].product is not None else None

    def _sums_keys(self, scores: func.CallOp, product: func.CallOp) -> bool:
        """Whether a product sums the same axes of the gradients of scores as the maps before it."""
        kernel, maps = _kernel(product), _kernel(scores)
        total, stage = _row_sum(maps), kernel.nests[0].product
        given = dict(zip(kernel.arguments, product.arguments, strict=True))
        if total is None or stage is None:
            return False
        read = next((r for r in stage.reads if given.get(r.value) is scores.results[0]), None)
        made = next((s for s in maps.stages if s.result is maps.results[0]), None)
        if read is None or made is None:
            return False
        return {m for m, a in zip(made.axes, read.axes, strict=True) if a in stage.reduced} == {*total.reduced}


def _kernel(call: func.CallOp) -> Kernel:
    return analyse(function_called(call))


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


# --- the kernel --------------------------------------------------------------------------------------------


class _Join:
    """Makes the kernel of a backward.

    What it is given is known by values: those of the backward where there are some, else those of the forward.
    """

    def __init__(self, found: _Forward, calls: _Backward, kept: KeptValues) -> None:
        self.found, self.calls, self.kept = found, calls, kept
        self.first, self.middle, self.last = (_kernel(c) for c in found.calls)
        self.grads, self.scores = _kernel(calls.grads), _kernel(calls.scores)
        self.body = Body()

    def run(self) -> tuple[func.FuncOp, list[Any], list[SSAValue]] | None:
        """The kernel, what it is given, and the values that it makes instead of others."""
        found, calls = self.found, self.calls
        remap = self._axes_of_maps()
        delta = None if remap is None else self._delta(remap)
        if remap is None or delta is None:
            return None
        first, middle = found.calls[0], found.calls[1]
        results = self._copy(first, SCORES)
        known = {first.results[0]: results[0]} | self._masks(found.masks, {}, theirs=True)
        attention = _attention_parts(self.middle)
        rows = {p: self.body.given(n, p.type) for p, n in zip(attention, (PEAK, TOTAL), strict=True)}
        weights = self.body.copy(self.middle.function, self._given(middle, known, True), MAPS, None, rows)
        gradients = self._copy(calls.grads, GRADS)
        known = {calls.grads.results[0]: gradients[0], calls.weights: weights[0]}
        known |= self._masks(calls.masks, remap, theirs=False)
        given = self._given(calls.scores, known, False)
        scores = self.body.copy(self.scores.function, given, MAPS, remap, {calls.total.result: delta})
        known = {calls.weights: weights[0], calls.scores.results[0]: scores[0]}
        outputs: list[SSAValue] = []
        for call, nest in ((calls.values, VALUES), (calls.queries, QUERIES), (calls.keys, KEYS)):
            outputs += self.body.copy(function_called(call), self._given(call, known, False), nest, None, {})
        nests = [self.first, self.grads, self.middle, *(_kernel(c) for c in calls.calls[2:])]
        domains = [shape_of(delta), *(k.nests[0].domain for k in nests)]
        kernel = self.body.function("fused_attention_backward", outputs, domains)
        kernel.location = fused_location([function_called(c) for c in (*found.calls, *calls.calls)])
        made: list[SSAValue] = [r for c in (calls.values, calls.queries, calls.keys) for r in c.results]
        return kernel, self.body.keys, made

    def _copy(self, call: func.CallOp, nest: int) -> Sequence[SSAValue]:
        theirs = call is self.found.calls[0]
        return self.body.copy(function_called(call), self._given(call, {}, theirs), nest, None, {})

    def _masks(
        self, masks: Mapping[func.CallOp, dict[int, int]], remap: Mapping[int, int], theirs: bool
    ) -> dict[SSAValue, SSAValue]:
        """Copy what makes masks into the nest of maps."""
        made: dict[SSAValue, SSAValue] = {}
        for call, axes in masks.items():
            given = self._given(call, {}, theirs)
            into = {a: remap.get(m, m) for a, m in axes.items()}
            made[call.results[0]] = self.body.copy(function_called(call), given, MAPS, into, {})[0]
        return made

    def _given(self, call: func.CallOp, known: Mapping[SSAValue, SSAValue], theirs: bool) -> list[SSAValue]:
        """What a copy of a call is given: what was made already, else arguments of the kernel."""
        found: list[SSAValue] = []
        for value in call.arguments:
            if value in known:
                found.append(known[value])
                continue
            own = self.kept.find(value, self.calls.grads) if theirs else value
            found.append(self.body.given(value if own is None else own, value.type))
        return found

    def _axes_of_maps(self) -> dict[int, int] | None:
        """What each axis of the backward's maps is in the forward's: both follow the weights."""
        made = next(s for s in self.middle.stages if s.result is self.middle.results[0])
        arguments = dict(zip(self.calls.scores.arguments, self.scores.arguments, strict=True))
        weights = arguments[self.calls.weights]
        reads = {r.axes for s in self.scores.stages for r in s.reads if r.value is weights}
        if len(reads) != 1 or any(s.anywhere for s in self.scores.stages):
            return None
        remap = dict(zip(reads.pop(), made.axes, strict=True))
        used = {a for s in self.scores.stages for axes in (s.axes, s.reduced, *(r.axes for r in s.reads)) for a in axes}
        keys = {remap.get(a) for a in self.calls.total.reduced}
        return remap if used <= {*remap} and keys == {*self.found.attention.peak.reduced} else None

    def _gradient(self) -> tuple[Read, dict[int, int]] | None:
        """How gradients are read where they are multiplied with values, and these axes in the forward.

        None if it is not the values that they are multiplied with.
        """
        values = self.found.attention.sums.right
        arguments: dict[SSAValue, SSAValue] = dict(
            zip(self.found.kernel.body.block.args, given_to([*self.found.masks, *self.found.calls]), strict=True)
        )
        theirs = arguments[values.value]
        stage = self.grads.nests[0].product
        given = dict(zip(self.grads.arguments, self.calls.grads.arguments, strict=True))
        if stage is None or len(self.grads.stages) != 1:
            return None
        for read, other in (stage.reads, stage.reads[::-1]):
            if self.kept.same(theirs, given[read.value]):
                return other, dict(zip(read.axes, values.axes, strict=True))
        return None

    def _delta(self, remap: Mapping[int, int]) -> SSAValue | None:
        """Write the sum of each row of the result times its gradient; None if they are not of the same axes."""
        attention, stage, found = self.found.attention, self.grads.nests[0].product, self._gradient()
        arguments = dict(zip(self.calls.scores.arguments, self.scores.arguments, strict=True))
        product = arguments[self.calls.grads.results[0]]
        reads = {r.axes for s in self.scores.stages for r in s.reads if r.value is product}
        if stage is None or found is None or len(reads) != 1:
            return None
        gradient, columns = found
        # Axes of the product of gradients and values, in the one of weights and values.
        axes = {g: attention.in_sums[remap[m]] for g, m in zip(stage.axes, reads.pop(), strict=True)}
        if any(axes.get(g, to) != to for g, to in columns.items()) or any(g not in columns for g in stage.reduced):
            return None
        axes |= columns
        output = self._output()
        made = next(s for s in attention.kernel.stages if s.result is output)
        rows = tuple(attention.in_sums[remap[a]] for a in self.calls.total.axes)
        value = dict(zip(self.grads.arguments, self.calls.grads.arguments, strict=True))[gradient.value]
        factors = self.body.given(value, value.type), self.body.given(OUTPUT, output.type)
        places = (tuple(axes[a] for a in gradient.axes), made.axes, rows)
        return self.body.row_sum(factors, places, self.calls.total)

    def _output(self) -> SSAValue:
        end = self.found.kernel.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        return end.arguments[self.found.output]


def _attention_parts(kernel: Kernel) -> tuple[SSAValue, SSAValue]:
    """The maximum and the sum of a softmax."""
    peak, total = (s.result for s in kernel.stages if s.combine is not None)
    return peak, total
