"""Make one kernel of an attention, and one of its backward, before other operations become kernels.

An attention is a contraction (the scores), elementwise operations and row reductions of it, and a contraction of what
these make (the weights) along the axis that they reduce. The kernel of all that is data: one loop nest for each
contraction, one for what is between them, over a grid of batches and rows that targets walk tile by tile
(:mod:`hybridc.ir.kernels.grid_kernel`). Only what can be computed in blocks of rows and keys is fused
(:mod:`hybridc.ir.attention`). No operation is asked for its name.

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
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import SAVED
from hybridc.ground.cached import cached_property
from hybridc.ground.records import dataclass
from hybridc.ir.attention import attention_of
from hybridc.ir.concatenated import RESHAPES, unshaped
from hybridc.ir.costs import PARTS
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.scalars import FLOAT_CASTS
from hybridc.ir.structured import byte_count, indirect_operands, shape_of
from hybridc.ir.values import functions, volume
from hybridc.transforms.structured.axis_labels import AxisLabels, Factors
from hybridc.transforms.structured.contraction_chains import (
    contractions_behind,
    in_block_order,
    operations_after,
    reduces,
    steps_of,
)
from hybridc.transforms.structured.fuse_kernels import KernelOutliner, depends_on
from hybridc.transforms.structured.loop_groups import is_contraction, operation_loops
from hybridc.transforms.structured.outlined_kernel import OutlinedKernel, erase_unused, row_sum
from hybridc.transforms.structured.recompute import KernelCopies, itself
from hybridc.transforms.structured.saved_values import SavedValues


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """See the module's docstring."""

    name = "fuse-attention"
    needs: ClassVar[Needs] = frozenset((Fact.SOFTMAX,))

    # The defaults are a GPU's: a program can hold many queries, or rows of values, of so many bytes; and weights are
    # computed again in less time than they are read in. ``saved`` is how many bytes of them a forward may save.
    row: int = 512
    saved: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outliner = KernelOutliner(op)
        public = {f.sym_name.data: f for f in functions(op) if f.sym_visibility is None}
        forward = public.get("forward")
        backward = public.get("backward", forward)
        if backward is not forward and backward is not None and not SAVED.is_on(backward):
            backward = None  # it is given nothing that the forward saves
        for function in public.values():
            if not any(len(op.operands) == 2 and reduces(op) for op in function.body.block.ops):
                continue  # without a softmax there is no attention
            paired = backward if function is forward else None
            for last in [op for op in function.body.block.ops if is_contraction(op)]:
                if last.parent is not None:  # what an attention was made of is gone
                    self._fuse(outliner, function, paired, last)

    def _fuse(
        self, outliner: KernelOutliner, function: func.FuncOp, backward: func.FuncOp | None, last: Operation
    ) -> None:
        """Fuse the attention that ends with a contraction, if there is one, and its backward.

        A backward computes large weights again; it is passed the others.
        """
        for attention in _attentions(last):
            used = attention.used_elsewhere()
            large = sum(map(byte_count, used)) > self.saved
            ways = ((True, large and backward is not None), (False, not used or self.saved > 0))
            for recomputes in [way for way, possible in ways if possible]:
                kernel = attention.kernel(attention.statistics if recomputes else [])
                if kernel is None or not self._fits(kernel):
                    continue
                if used and not recomputes:
                    kernel = attention.kernel(used)
                saved = SavedValues(function, backward) if used and backward is not None else None
                fused = saved is not None and self._fuse_backward(outliner, attention, saved, recomputes)
                if kernel is not None and (fused or not recomputes):
                    kernel.call(outliner, function)
                    erase_unused(function)
                    return

    def _fuse_backward(
        self, outliner: KernelOutliner, attention: _Attention, saved: SavedValues, recomputes: bool
    ) -> bool:
        """Fuse the backward of an attention; whether that was possible."""
        copies = KernelCopies(saved.get if recomputes else itself)
        kernel = _BackwardKernel(attention, saved, recomputes).build(copies)
        copies.drop()
        # Of weights that are given each point of the grid takes one thread.
        if kernel is not None and not (self._fits(kernel) if recomputes else kernel.kernel.grid_size >= PARTS):
            kernel = None
        if kernel is not None:
            kernel.call(outliner, saved.backward)
        erase_unused(saved.backward)
        saved.note()
        return kernel is not None

    def _fits(self, kernel: OutlinedKernel) -> bool:
        known = attention_of(kernel.kernel)
        return known is not None and known.row <= self.row


# --- the forward ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Attention:
    """Two contractions and what is between them, in order; ``weights`` are what the last one sums by."""

    scores: Operation
    middle: tuple[Operation, ...]
    last: Operation
    weights: SSAValue

    @property
    def inside(self) -> set[Operation]:
        """All operations but masks and the epilogue."""
        return {self.scores, *self.middle, self.last}

    @property
    def intermediates(self) -> list[SSAValue]:
        """The scores, and the values computed from them before the last contraction."""
        return [op.results[0] for op in (self.scores, *self.middle)]

    @property
    def rows(self) -> list[SSAValue]:
        """The reductions among these."""
        return [op.results[0] for op in self.middle if reduces(op)]

    @cached_property
    def epilogue(self) -> list[Operation]:
        """What follows in the kernel."""
        return operations_after(self.last, ())

    @property
    def to_output(self) -> list[Operation]:
        """The operations that make the result of weights: the sum by them, and its rounding, if that is next."""
        return [self.last, *(op for op in self.epilogue[:1] if all(s.name in FLOAT_CASTS for s in steps_of(op)))]

    @property
    def statistics(self) -> list[SSAValue]:
        """What is returned for a backward that makes weights again: the result of weights, maximum and sum of rows."""
        return [self.to_output[-1].results[0], *self.rows]

    def used_elsewhere(self) -> list[SSAValue]:
        """Those intermediates that other operations read, too."""
        return [v for v in self.intermediates if _is_used(v, self.inside)]

    def kernel(self, more: Sequence[SSAValue]) -> OutlinedKernel | None:
        """The kernel; its last results are ``more`` of the values that it makes."""
        own, copies = [self.last, *self.epilogue], KernelCopies()
        first, middle, last = (copies.nest(ops) for ops in ([self.scores], self.middle, own))
        replaced = [op.results[0] for op in own if _is_used(op.results[0], {*own})]
        results = [*replaced, *(v for v in more if v not in replaced)]
        whole = copies.made(self.weights)
        nests = [(first, first[0]), (middle, whole), (last, last[0])]
        name = "fused_attention_kept" if more else "fused_attention"
        axes, inside = AxisLabels([*first, *middle, *last]), self.inside | {*own}
        kernel = OutlinedKernel.of(name, axes, nests, [copies.of[v] for v in results], results, inside)
        copies.drop()
        if kernel is not None and {*more} <= {*self.statistics}:
            keys = axes.reduced(last[0])
            follow_keys = [r for i in (0, 1) if keys & {*axes.result(first[0])} <= {*(r := axes.reads(first[0], i))}]
            values = axes.reads(last[0], 1 - [*self.last.operands].index(self.weights))
            rows = {*axes.result(whole)} - {*keys, *follow_keys[0], *values} if follow_keys else set[Hashable]()
            kernel = _noted(kernel, axes, whole, rows, keys)
        return kernel


def _attentions(last: Operation) -> Iterable[_Attention]:
    """What may be an attention that ends with a contraction."""
    for weights in last.operands[:2]:
        for scores, middle in contractions_behind(weights, reductions=True):
            if last.operands[0] is not last.operands[1] and any(map(_takes_maximum, middle)):
                yield _Attention(scores, tuple(middle), last, weights)


def _takes_maximum(op: Operation) -> bool:
    """Whether an operation reduces to a maximum, as each softmax does."""
    return any(step.name == "arith.maximumf" for step in op.regions[0].block.ops) and reduces(op)


def _noted(kernel: OutlinedKernel, axes: AxisLabels, whole: Operation, *sides: set[Hashable]) -> OutlinedKernel:
    """The kernel as an attention: it says which axes of an operation's result are rows, and which are keys."""
    labels = axes.result(whole)
    return kernel.of_attention(tuple([tuple(i for i, a in enumerate(labels) if a in side) for side in sides]))


def _is_used(value: SSAValue, inside: set[Operation]) -> bool:
    """Whether others use a value."""
    return any(use.operation not in inside for use in value.uses)


# --- the backward -----------------------------------------------------------------------------------------------------


class _BackwardKernel:
    """The kernel of an attention's backward."""

    def __init__(self, attention: _Attention, saved: SavedValues, recomputes: bool) -> None:
        self.attention, self.saved, self.recomputes = attention, saved, recomputes
        self.ours = attention.inside if saved.together else set[Operation]()

    def build(self, copies: KernelCopies) -> OutlinedKernel | None:
        """The kernel; None if operations outside of it read the weights, or values computed from them."""
        attention, read = self.attention, self._read()
        region = self._region(read) if read else None
        if read is None or region is None or (self.recomputes and any(map(indirect_operands, attention.middle))):
            return None
        gradient, between, total, outputs = region
        if not self.recomputes:  # the product with saved weights is another kernel
            outputs = [op for op in outputs if depends_on(op.operands[:2], {gradient})]
        chains = [[op, *operations_after(op, outputs)] for op in outputs]
        inside = {op for chain in chains for op in chain}
        scores, maps, result = list[Operation](), list[Operation](), list[Operation]()
        if self.recomputes:  # of the result only the axes are of use
            copies.of |= {v: self.saved.get(v) for v in attention.rows}
            scores = copies.nest([attention.scores])
            maps = copies.nest(op for op in attention.middle if not reduces(op))
            result = copies.nest(attention.to_output)
            copies.leaf = itself
            copies.of |= {value: copies.of[own] for value, own in read.items()}
        grads = copies.nest([gradient])
        maps += copies.nest(between)
        copied = [(chain, copies.nest(chain)) for chain in chains]
        axes, nests = AxisLabels(op for op in copies.block.ops if operation_loops(op) is not None), [(grads, grads[0])]
        reads = {nest[0]: next((v for v in nest[0].operands[:2] if v.owner in maps), None) for _, nest in copied}
        if self.recomputes:
            row = copies.made(total.results[0])
            delta = self._delta(copies, axes, grads[0], result, row)
            if delta is None:
                return None
            axes.add(delta)
            row.results[0].replace_all_uses_with(delta.results[0])
            for op in reversed(result):
                erase_op(op)
            nests = [([delta], delta), (scores, scores[0]), *nests]
            # The gradients of values, of queries, which sums what ``row`` does, and of keys, of the same as this.
            shared = Counter(reads.values())
            order = {op: (shared[v] > 1, not axes.reduced(op) & axes.reduced(row)) for op, v in reads.items()}
            copied.sort(key=lambda gradient: order[gradient[1][0]])
        whole = next((v.owner for _, nest in copied if (v := reads[nest[0]]) is not None), None)
        if not isinstance(whole, Operation):
            return None
        nests += [(maps, whole), *((nest, nest[0]) for _, nest in copied)]
        replaced = [op.results[0] for chain, _ in copied for op in chain if _is_used(op.results[0], inside)]
        results = [copies.of[v] for v in replaced]
        kernel = OutlinedKernel.of("fused_attention_backward", axes, nests, results, replaced, inside)
        if kernel is not None and self.recomputes:
            kernel = _noted(kernel, axes, whole, *(axes.reduced(nest[0]) for _, nest in copied[:2]))
        return kernel

    # --- what belongs to it --------------------------------------------------------------------------------

    def _read(self) -> dict[SSAValue, SSAValue] | None:
        """The backward's values that are intermediates of the forward, and which they are.

        None if it shall recompute them although other operations read them, too.
        """
        intermediates, used = self.attention.intermediates, self.attention.used_elsewhere()
        if self.saved.together:
            return {v: v for v in used}
        if self.recomputes and not all(map(self._is_for_backward, used)):
            return None
        read: dict[SSAValue, SSAValue] = {}
        for arg, value in self.saved.source.items():
            own, work = unshaped(value), [arg]
            while work and own in intermediates:
                view = work.pop()
                users = [use.operation for use in view.uses]
                work += [op.results[0] for op in users if isinstance(op, RESHAPES)]
                if any(not isinstance(op, RESHAPES) for op in users):
                    read[view] = own
        return read if all(v.type == own.type for v, own in read.items()) else None

    def _is_for_backward(self, value: SSAValue) -> bool:
        """Whether the forward only returns what others use of a value, in any shape, and for the backward."""
        for use in value.uses:
            op = use.operation
            if isinstance(op, RESHAPES) and self._is_for_backward(op.results[0]):
                continue
            if op not in self.attention.inside and (op is not self.saved.end or use.index < self.saved.visible):
                return False
        return True

    def _region(
        self, read: Mapping[SSAValue, SSAValue]
    ) -> tuple[Operation, list[Operation], Operation, list[Operation]] | None:
        """The operations that read these values, or values computed from them; None if they do not have this form.

        They are elementwise, with one sum among them, which is returned after them; they read the result of one
        contraction, which is returned first; three contractions read theirs, and are returned last.
        """
        size = volume(shape_of(self.attention.weights))
        between, grads, outputs = dict[Operation, None](), dict[Operation, None](), dict[Operation, None]()
        known, work = dict.fromkeys(read), [*read]

        def include(ops: Iterable[Operation], kind: dict[Operation, None]) -> None:
            for op in ops:
                kind[op] = known[op.results[0]] = None
                work.append(op.results[0])

        while work:
            value = work.pop()
            for op in [use.operation for use in value.uses if use.operation not in self.ours]:
                loops = operation_loops(op)
                if loops is None or indirect_operands(op):
                    return None
                if loops.is_contraction:
                    outputs[op] = None
                    continue
                include([op], between)
                for other in [v for v in op.operands[:-1] if v not in known]:
                    chains = contractions_behind(other, known=known) if volume(shape_of(other)) == size else []
                    for contraction, middle in chains:
                        include([contraction], grads)
                        include(middle, between)
        sums = [op for op in between if reduces(op)]
        plain = all(s.name in ("arith.addf", *FLOAT_CASTS) for op in sums for s in steps_of(op))
        if len(grads) != 1 or len(sums) != 1 or len(outputs) != 3 or not plain or outputs.keys() & grads.keys():
            return None
        return next(iter(grads)), in_block_order(between), sums[0], in_block_order(outputs)

    # --- what is made for it -------------------------------------------------------------------------------

    def _delta(
        self, copies: KernelCopies, axes: AxisLabels, grads: Operation, result: Sequence[Operation], row: Operation
    ) -> Operation | None:
        """The sum of each row of the result times its gradient, if ``row`` sums weights times their gradients."""
        factors, last, weights = Factors(axes), result[0], copies.of[self.attention.weights]
        want = factors.of(weights) + Counter([(grads.results[0], axes.result(grads))])
        place = [v is not weights for v in last.operands[:2]].index(True)
        values = last.operands[place]
        if factors.of(row.operands[0]) != want or values not in grads.operands[:2]:
            return None
        position = list(grads.operands[:2]).index(values)
        axes.tie((grads, axes.loops[grads].reads[position][1]), (last, axes.loops[last].reads[place][1]))
        output, gradient = self.saved.get(self.attention.to_output[-1].results[0]), grads.operands[1 - position]
        of_output, of_gradient = axes.result(result[-1]), axes.reads(grads, 1 - position)
        if not {*axes.result(row)} <= {*of_output} == {*of_gradient}:
            return None
        return row_sum(copies.block, [(gradient, of_gradient), (output, of_output)], axes.result(row), row)
