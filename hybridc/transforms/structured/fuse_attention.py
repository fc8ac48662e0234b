"""Make one kernel of an attention, and one of its backward, before other operations become kernels.

An attention is a contraction (the scores), elementwise operations and row reductions of it, and a contraction of what
these make (the weights) along the axis that they reduce. The kernel of all that is data: one loop nest for each
contraction, one for what is between them, over a grid of batches and rows that targets walk tile by tile
(:mod:`hybridc.ir.grid_kernel`). Only what can be computed in blocks of rows and keys is fused
(:mod:`hybridc.ir.attention.attention_kernel`). No operation is asked for its name.

What is between the contractions may read arrays, such as masks. A mask that elementwise operations make from much less
(from the indices along two axes, say) is computed again in each kernel that reads it, so layers may share one.

The backward of an attention reads the weights. Either the forward's kernel returns them: then the backward's kernel is
the gradient of weights, what is made of it, and the contractions of that, over a grid of batches. Or it computes them
again from the scores' operands, and from the maximum and the sum of each row, which the forward returns instead. The
one sum of a row there, of weights times their gradients, is the result's times its own gradient: so long as both
multiply the same factors. Forward and backward may be two functions or one, as in a compiled training step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.ir.attention.attention_kernel import Attention, attention_backward_of, attention_of
from hybridc.ir.concatenated import RESHAPES, unshaped
from hybridc.ir.costs import PARTS
from hybridc.ir.kernel import FLOAT_CASTS, byte_count
from hybridc.ir.structured import indirect_operands, shape_of
from hybridc.ir.values import functions, volume
from hybridc.transforms.structured.axis_labels import AxisLabels, Factors
from hybridc.transforms.structured.contraction_chains import (
    contractions_behind,
    epilogue_of,
    in_block_order,
    reduces,
    steps_of,
)
from hybridc.transforms.structured.fuse_kernels import KernelOutliner, depends_on
from hybridc.transforms.structured.loop_groups import is_contraction, loops_of
from hybridc.transforms.structured.outlined_kernel import OutlinedKernel, erase_unused, row_sum
from hybridc.transforms.structured.recompute import KernelCopies, itself
from hybridc.transforms.structured.saved_values import SavedValues


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """See the module's docstring."""

    name = "fuse-attention"

    # The defaults are a GPU's: a program can hold many queries, or rows of values, of so many bytes; and weights are
    # computed again in less time than they are read in. ``saved`` is how many bytes of them a forward may save.
    row: int = 512
    saved: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outliner = KernelOutliner(op)
        public = [f for f in functions(op) if f.sym_visibility is None]
        named = {f.sym_name.data: f for f in public}
        forward = named.get("forward")
        backward = named.get("backward", forward)
        if forward is not None and backward is not None and not _is_linked(forward, backward):
            backward = None
        for function in public:
            paired = backward if function is forward else None
            for last in [op for op in function.body.block.ops if is_contraction(op)]:
                if last.parent is not None:  # what an attention was made of is gone
                    self._fuse(outliner, function, paired, last)

    def _fuse(
        self, outliner: KernelOutliner, function: func.FuncOp, backward: func.FuncOp | None, last: Operation
    ) -> None:
        """Fuse the attention that ends with a contraction, if there is one."""
        for found in _attentions(last):
            shown = list(found.used_elsewhere())
            large = sum(map(byte_count, shown)) > self.saved
            ways = ((True, large and backward is not None), (False, not shown or self.saved > 0))
            for again in [again for again, possible in ways if possible]:
                kernel = self._kernels(outliner, _ForwardKernel(found), function, backward, again)
                if kernel is not None:
                    kernel.call(outliner, function)
                    erase_unused(function)
                    return

    def _kernels(
        self,
        outliner: KernelOutliner,
        forward: _ForwardKernel,
        function: func.FuncOp,
        backward: func.FuncOp | None,
        again: bool,
    ) -> OutlinedKernel | None:
        """The kernel of an attention, after its backward is fused, which computes weights again or is given them."""
        shown = list(forward.found.used_elsewhere())
        kernel = forward.build([forward.output, *forward.rows] if again else [])
        if kernel is None or not self._fits(attention_of(kernel.analysis)):
            return None
        if shown and not again:
            kernel = forward.build(shown)
        made = not again
        if shown and backward is not None:
            made |= self._fuse_backward(outliner, forward, SavedValues(function, backward), again)
        return kernel if made else None

    def _fuse_backward(
        self, outliner: KernelOutliner, forward: _ForwardKernel, saved: SavedValues, again: bool
    ) -> bool:
        """Fuse the backward of an attention; whether that was possible."""
        copies = KernelCopies(saved.get if again else itself)
        kernel = _BackwardKernel(forward, saved, again).build(copies)
        copies.drop()
        if kernel is not None and again:
            fits = self._fits(attention_backward_of(kernel.analysis))
        else:  # each point takes one thread
            fits = kernel is not None and kernel.analysis.grid_size >= PARTS
        if kernel is not None and fits:
            kernel.call(outliner, saved.backward)
        erase_unused(saved.backward)
        saved.note()
        return fits

    def _fits(self, known: Attention | None) -> bool:
        return known is not None and known.row <= self.row


def _is_linked(forward: func.FuncOp, backward: func.FuncOp) -> bool:
    """Whether a backward is given what a forward saves, or is a part of it."""
    return forward is backward or "hybrid.saved" in backward.attributes


# --- what belongs to an attention ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Attention:
    """Two contractions and what is between them, in order; ``weights`` are what the last one sums by."""

    scores: Operation
    middle: tuple[Operation, ...]
    last: Operation
    weights: SSAValue

    @property
    def inside(self) -> set[Operation]:
        """All operations but masks."""
        return {self.scores, *self.middle, self.last}

    def used_elsewhere(self) -> Iterable[SSAValue]:
        """Scores, or what is made of them, that others use, too."""
        made = [op.results[0] for op in (self.scores, *self.middle)]
        return (v for v in made if any(use.operation not in self.inside for use in v.uses))


def _attentions(last: Operation) -> Iterable[_Attention]:
    """What may be an attention that ends with a contraction."""
    for weights in last.operands[:2]:
        for scores, middle in contractions_behind(weights, reductions=True):
            if last.operands[0] is not last.operands[1]:
                yield _Attention(scores, tuple(middle), last, weights)


class _ForwardKernel:
    """The kernel of an attention; ``output`` is the sum by weights, rounded if nothing else is done with it."""

    def __init__(self, found: _Attention) -> None:
        self.found = found
        self.epilogue = epilogue_of(found.last, ())
        follows = self.epilogue[:1]
        plain = [op for op in follows if all(isinstance(s, FLOAT_CASTS) for s in steps_of(op))]
        self.output = (*plain, found.last)[0].results[0]
        self.rows: list[SSAValue] = [op.results[0] for op in found.middle if reduces(op)]

    def build(self, more: Sequence[SSAValue]) -> OutlinedKernel | None:
        """The kernel; its last results are ``more`` of the values that it makes."""
        found, copies = self.found, KernelCopies()
        first, middle, last = list[Operation](), list[Operation](), list[Operation]()
        copies.add(found.scores, first)
        for op in found.middle:
            copies.add(op, middle)
        for op in (found.last, *self.epilogue):
            copies.add(op, last)
        own = {found.last, *self.epilogue}
        made: list[SSAValue] = [op.results[0] for op in (found.last, *self.epilogue)]
        replaced = [v for v in made if any(use.operation not in own for use in v.uses)]
        results: list[SSAValue] = [*replaced, *(v for v in more if v not in replaced)]
        axes = AxisLabels([*first, *middle, *last])
        whole = cast(Operation, copies.of[found.weights].owner)
        nests = [(first, first[0]), (middle, whole), (last, cast(Operation, copies.of[found.last.results[0]].owner))]
        name = "fused_attention_kept" if more else "fused_attention"
        kernel = OutlinedKernel.of(name, axes, nests, [copies.of[v] for v in results], results, found.inside | own)
        copies.drop()
        return kernel


class _BackwardKernel:
    """The kernel of an attention's backward."""

    def __init__(self, forward: _ForwardKernel, saved: SavedValues, again: bool) -> None:
        self.forward, self.found, self.saved, self.again = forward, forward.found, saved, again
        self.ours = self.found.inside if saved.together else set[Operation]()

    def build(self, copies: KernelCopies) -> OutlinedKernel | None:
        """The kernel, if all that reads weights, or what is made of them, belongs to it."""
        shown = self._shown()
        region = self._region(shown) if shown else None
        if shown is None or region is None:
            return None
        if self.again and any(indirect_operands(op) for op in self.found.middle):
            return None
        gradient, between, total, outputs = region
        if not self.again:  # what weights are multiplied with that are given is another kernel
            outputs = [op for op in outputs if depends_on(op.operands[:2], {gradient})]
        chains = [[op, *epilogue_of(op, outputs)] for op in outputs]
        scores, grads, maps = list[Operation](), list[Operation](), list[Operation]()
        result: list[Operation] = []  # the forward's, of which only the axes are of use
        if self.again:
            self._copy_forward(copies, scores, maps)
            for op in self._of_output():
                copies.add(op, result)
            copies.leaf = itself
            copies.of |= {value: copies.of[own] for value, own in shown.items()}
        copies.add(gradient, grads)
        for op in between:
            copies.add(op, maps)
        made = [list[Operation]() for _ in chains]
        for chain, nest in zip(chains, made, strict=True):
            for op in chain:
                copies.add(op, nest)
        first = [cast(Operation, copies.of[chain[0].results[0]].owner) for chain in chains]
        axes = AxisLabels(op for op in copies.block.ops if loops_of(op) is not None)
        row = cast(Operation, copies.of[total.results[0]].owner)
        order = _order(axes, first, row) if self.again else [*range(len(first))]
        if order is None:
            return None
        nests = [(grads, grads[0])]
        if self.again:
            delta = self._delta(copies, axes, grads[0], result, row)
            if delta is None:
                return None
            axes.add(delta)
            row.results[0].replace_all_uses_with(delta.results[0])
            for op in reversed(result):
                Rewriter.erase_op(op)
            nests = [([delta], delta), (scores, scores[0]), *nests]
        whole = next((v.owner for i in order for v in first[i].operands[:2] if v.owner in maps), None)
        if not isinstance(whole, Operation):
            return None
        nests += [(maps, whole), *((made[i], first[i]) for i in order)]
        inside = {op for i in order for op in chains[i]}
        replaced = [r for i in order for op in chains[i] if _is_used(r := op.results[0], inside)]
        return OutlinedKernel.of(
            "fused_attention_backward", axes, nests, [copies.of[v] for v in replaced], replaced, inside
        )

    # --- what belongs to it --------------------------------------------------------------------------------

    def _shown(self) -> dict[SSAValue, SSAValue] | None:
        """What the backward reads of what the forward makes between contractions.

        None if it shall compute that again although anybody else reads it.
        """
        made = [op.results[0] for op in (self.found.scores, *self.found.middle)]
        if self.saved.together:
            return {v: v for v in self.found.used_elsewhere()}
        if self.again and not all(map(self._is_for_backward, self.found.used_elsewhere())):
            return None
        found: dict[SSAValue, SSAValue] = {}
        for arg, value in self.saved.source.items():
            own, work = unshaped(value), [arg]
            while work and own in made:
                each = work.pop()
                users = [use.operation for use in each.uses]
                work += [op.results[0] for op in users if isinstance(op, RESHAPES)]
                if any(not isinstance(op, RESHAPES) for op in users):
                    found[each] = own
        return found if all(v.type == own.type for v, own in found.items()) else None

    def _is_for_backward(self, value: SSAValue) -> bool:
        """Whether the forward only returns what others use of a value, in any shape, and for the backward."""
        for use in value.uses:
            op = use.operation
            if isinstance(op, RESHAPES) and self._is_for_backward(op.results[0]):
                continue
            if op not in self.found.inside and (op is not self.saved.end or use.index < self.saved.visible):
                return False
        return True

    def _region(
        self, shown: Mapping[SSAValue, SSAValue]
    ) -> tuple[Operation, list[Operation], Operation, list[Operation]] | None:
        """What reads these values, or what is made of them; None if it is anything else than this.

        A contraction that it reads, too; elementwise operations, and the one sum among them; three contractions last.
        """
        size = volume(shape_of(self.found.weights))
        between: dict[Operation, None] = {}
        grads: dict[Operation, None] = {}
        outputs: dict[Operation, None] = {}
        known = dict.fromkeys(shown)
        work = [*shown]

        def include(op: Operation) -> None:
            between[op] = known[op.results[0]] = None
            work.append(op.results[0])

        while work:
            value = work.pop()
            for op in [use.operation for use in value.uses if use.operation not in self.ours]:
                loops = loops_of(op)
                if loops is None or indirect_operands(op):
                    return None
                if loops.is_contraction:
                    outputs[op] = None
                    continue
                include(op)
                for other in [v for v in op.operands[:-1] if v not in known]:
                    found = contractions_behind(other, known=known) if volume(shape_of(other)) == size else []
                    for contraction, made in found:
                        grads[contraction] = known[contraction.results[0]] = None
                        work.append(contraction.results[0])
                        for each in made:
                            include(each)
        sums = [op for op in between if reduces(op)]
        plain = all(isinstance(s, (arith.AddfOp, *FLOAT_CASTS)) for op in sums for s in steps_of(op))
        if len(grads) != 1 or len(sums) != 1 or len(outputs) != 3 or not plain or outputs.keys() & grads.keys():
            return None
        return next(iter(grads)), in_block_order(between), sums[0], in_block_order(outputs)

    # --- what is made for it -------------------------------------------------------------------------------

    def _copy_forward(self, copies: KernelCopies, scores: list[Operation], maps: list[Operation]) -> None:
        """Copy scores, and what makes weights of them and of the maximum and the sum of each row."""
        copies.of |= {v: self.saved.get(v) for v in self.forward.rows}
        copies.add(self.found.scores, scores)
        for op in self.found.middle:
            if not reduces(op):
                copies.add(op, maps)

    def _of_output(self) -> list[Operation]:
        """The operations that make the forward's result of weights."""
        rounds = self.forward.epilogue[:1] if self.forward.output is not self.found.last.results[0] else []
        return [self.found.last, *rounds]

    def _delta(
        self, copies: KernelCopies, axes: AxisLabels, grads: Operation, result: Sequence[Operation], row: Operation
    ) -> Operation | None:
        """The sum of each row of the result times its gradient, if ``row`` sums weights times their gradients."""
        factors = Factors(axes)
        want = factors.of(copies.of[self.found.weights]) + Counter([(grads.results[0], axes.result(grads))])
        last = result[0]
        weights = list(last.operands[:2]).index(copies.of[self.found.weights])
        values = last.operands[1 - weights]
        if factors.of(row.operands[0]) != want or values not in grads.operands[:2]:
            return None
        number = list(grads.operands[:2]).index(values)
        axes.tie((grads, axes.loops[grads].reads[number][1]), (last, axes.loops[last].reads[1 - weights][1]))
        output, gradient = self.saved.get(self.forward.output), grads.operands[1 - number]
        of_output, of_gradient = axes.result(result[-1]), axes.reads(grads, 1 - number)
        if {*of_output} != {*of_gradient} or not {*axes.result(row)} <= {*of_output}:
            return None
        return row_sum(copies.block, [(gradient, of_gradient), (output, of_output)], axes.result(row), row)


def _order(axes: AxisLabels, made: Sequence[Operation], row: Operation) -> list[int] | None:
    """Which contractions give gradients of values, of queries, which alone sum what ``row`` does, and of keys."""
    along = [bool(axes.reduced(op) & axes.reduced(row)) for op in made]
    if along.count(True) != 1:
        return None
    queries = along.index(True)
    left = set(made[queries].operands[:2])
    others = [i for i in range(3) if i != queries]
    keys = [i for i in others if any(v in left and v.owner in axes.loops for v in made[i].operands[:2])]
    return [i for i in others if i not in keys] + [queries, *keys] if len(keys) == 1 else None


def _is_used(value: SSAValue, inside: set[Operation]) -> bool:
    """Whether others use a value."""
    return any(use.operation not in inside for use in value.uses)
