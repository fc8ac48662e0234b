"""Make one kernel of an attention, and one of its backward, before other operations become kernels.

An attention is a contraction (the scores), elementwise operations and row reductions of it, and a contraction of what
these make (the weights) along the axis that they reduce. The kernel of all that is data: one loop nest for each
contraction, one for what is between them; :mod:`hybridc.ir.attention.attention_kernel` says which kernels a target can
compute without an array of scores in memory, and only those are made. No operation is asked for its name.

What is between the contractions may read arrays, such as masks. A mask that elementwise operations make from much less
(from the indices along two axes, say) is computed again in each kernel that reads it, so layers may share one.

The backward of an attention reads the weights. Instead the forward returns the maximum and the sum of each row, and the
backward's kernel computes weights again from these, and from the scores' operands. Its loop nests are the contractions
that give scores and the gradients of weights, the elementwise operations of these, and three contractions of what they
make. The one sum of a row there, of weights times their gradients, is the result's times its own gradient: so long as
both multiply the same factors. Forward and backward may be two functions or one, as in a compiled training step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.ir.attention.attention_kernel import attention_backward_of, attention_of
from hybridc.ir.concatenated import RESHAPES, unshaped
from hybridc.ir.kernel import FLOAT_CASTS, analyse, number_of
from hybridc.ir.structured import VIEWS, dtype_of, indirect_operands, is_scaffold, shape_of
from hybridc.ir.structured_builder import Builder, Tensor
from hybridc.ir.values import functions, volume
from hybridc.transforms.structured.axis_labels import AxisLabels, Factors, Labels
from hybridc.transforms.structured.fuse_kernels import KernelOutliner, depends_on, kernel_of
from hybridc.transforms.structured.loop_groups import is_contraction, loops_of
from hybridc.transforms.structured.recompute import KernelCopies
from hybridc.transforms.structured.saved_values import SavedValues


@dataclass(frozen=True)
class FuseAttention(ModulePass):
    """See the module's docstring."""

    name = "fuse-attention"

    row: int = 512  # bytes of a query, and of a row of values, up to which a program can hold many of them

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
                    _fuse(outliner, function, paired, last, self.row)


def _is_linked(forward: func.FuncOp, backward: func.FuncOp) -> bool:
    """Whether a backward is given what a forward saves, or is a part of it."""
    return forward is backward or "hybrid.saved" in backward.attributes


def _fuse(
    outliner: KernelOutliner, function: func.FuncOp, backward: func.FuncOp | None, last: Operation, row: int
) -> None:
    """Fuse the attention that ends with a contraction, if there is one."""
    for found in _attentions(last):
        alone = not any(True for _ in found.used_elsewhere())
        if not alone and backward is None:
            continue
        forward = _ForwardKernel(found)
        kernel = forward.build(alone)
        attention = None if kernel is None else attention_of(analyse(kernel.function))
        if kernel is None or attention is None or attention.row > row:
            continue
        if not alone:
            assert backward is not None
            saved = SavedValues(function, backward)
            copies = KernelCopies(saved.get)
            gradients = _BackwardKernel(forward, saved).build(copies)
            copies.drop()
            known = None if gradients is None else attention_backward_of(analyse(gradients.function))
            fits = gradients is not None and known is not None and known.row <= row
            if fits:
                cast(_Kernel, gradients).call(outliner, backward)
            _clean(backward)
            saved.note()
            if not fits:
                continue
        kernel.call(outliner, function)
        _clean(function)
        return


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
        for scores, middle in _made_of_contraction(weights, reductions=True):
            if last.operands[0] is not last.operands[1]:
                yield _Attention(scores, tuple(middle), last, weights)


def _made_of_contraction(
    value: SSAValue, reductions: bool = False, known: Iterable[SSAValue] = ()
) -> list[tuple[Operation, list[Operation]]]:
    """The contractions of which elementwise operations make a value of the same size, and these, each in order.

    ``reductions`` may be among them. What is ``known`` is not looked at.
    """
    seen: dict[Operation, None] = {}
    contractions: dict[Operation, None] = {}
    work, stop = [value], set(known)
    while work:
        each = work.pop()
        op = each.owner
        loops = loops_of(op) if isinstance(op, Operation) and each not in stop else None
        if loops is None or loops.op in seen:
            continue
        if loops.is_contraction:
            if is_contraction(loops.op) and volume(shape_of(each)) == volume(shape_of(value)):
                contractions[loops.op] = None
        elif reductions or not loops.reduced:
            seen[loops.op] = None
            work += [*loops.op.operands[:-1]]
    found: list[tuple[Operation, list[Operation]]] = []
    order = _ordered(seen) if contractions else []
    for contraction in contractions:
        made, middle = {contraction.results[0]}, list[Operation]()
        for op in order:
            if any(v in made for v in op.operands):
                made.add(op.results[0])
                middle.append(op)
        found.append((contraction, middle))
    return found


def _ordered(ops: Iterable[Operation]) -> list[Operation]:
    """Operations of one block in its order."""
    ops = set(ops)
    block = next((op.parent for op in ops), None)
    return [] if block is None else [op for op in block.ops if op in ops]


def _epilogue(last: Operation, others: Iterable[Operation]) -> list[Operation]:
    """The elementwise operations that follow a contraction one by one and need nothing else that the kernel makes."""
    found = [last]
    while True:
        value = found[-1].results[0]
        users = dict.fromkeys(use.operation for use in value.uses)
        maps = [op for op in users if (loops := loops_of(op)) is not None and not loops.is_contraction]
        if len(maps) != 1 or not _continues(maps[0], value):
            return found[1:]
        beside = [v for v in maps[0].operands[:-1] if v is not value]
        if depends_on(beside, {*found, *others}):
            return found[1:]
        found.append(maps[0])


def _continues(op: Operation, value: SSAValue) -> bool:
    """Whether an operation makes each element of its result of that of a value, at the same indices."""
    loops = loops_of(op)
    if loops is None or loops.reduced or indirect_operands(op):
        return False
    places = {place for read, place in loops.reads if read is value}
    return len(places) == 1 and sorted(places.pop()) == sorted(loops.result) == list(range(len(loops.sizes)))


# --- kernels -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A kernel, what it is given, and the values that its first results replace."""

    function: func.FuncOp
    given: Sequence[SSAValue]
    replaced: Sequence[SSAValue]

    def call(self, outliner: KernelOutliner, function: func.FuncOp) -> None:
        """Call it in a function."""
        outliner.call(self.function, self.given, self.replaced, function.body.block)


def _kernel(
    name: str,
    axes: AxisLabels,
    nests: Sequence[tuple[list[Operation], Operation]],
    results: Sequence[SSAValue],
    replaced: Sequence[SSAValue],
    inside: set[Operation],
) -> _Kernel | None:
    """A kernel of nests, each over the axes of what an operation makes, with these results.

    None if a nest has more axes, or what it reads needs what the operations ``inside`` make.
    """
    for ops, _ in reversed(nests):
        for op in reversed(list(ops)):
            if not op.results[0].uses and op.results[0] not in results:
                ops.remove(op)
                Rewriter.erase_op(op)
    groups = [axes.nest(ops, whole) for ops, whole in nests]
    found = [group for group in groups if group is not None]
    if len(found) < len(groups):
        return None
    copies = {op for ops, _ in nests for op in ops}
    read = (v for ops, _ in nests for op in ops for v in (*op.operands[:-1], *indirect_operands(op)))
    given = [v for v in dict.fromkeys(read) if v.owner not in copies and number_of(v) is None]
    if depends_on(given, inside):
        return None
    location = fused_location([op for ops, _ in nests for op in ops])
    function = kernel_of(found, given, results, [dtype_of(v) for v in (*given, *results)])
    function.sym_name = StringAttr(name)
    function.location = location
    return _Kernel(function, given, replaced)


def _clean(function: func.FuncOp) -> None:
    """Erase operations of a function that nobody needs."""
    for op in reversed(list(function.body.block.ops)):
        unused = bool(op.results) and not any(r.uses for r in op.results)
        if unused and (is_scaffold(op) or isinstance(op, (linalg.GenericOp, linalg.MatmulOp, *VIEWS))):
            Rewriter.erase_op(op)


class _ForwardKernel:
    """The kernel of an attention; ``output`` is the sum by weights, rounded if nothing else is done with it."""

    def __init__(self, found: _Attention) -> None:
        self.found = found
        self.epilogue = _epilogue(found.last, ())
        follows = self.epilogue[:1]
        plain = [op for op in follows if all(isinstance(s, FLOAT_CASTS) for s in _steps(op))]
        self.output = (*plain, found.last)[0].results[0]
        self.rows: list[SSAValue] = [op.results[0] for op in found.middle if _reduces(op)]

    def build(self, alone: bool) -> _Kernel | None:
        """The kernel; if it is not for the forward ``alone``, its last results are the output, maxima and sums."""
        found, copies = self.found, KernelCopies(_itself)
        first, middle, last = list[Operation](), list[Operation](), list[Operation]()
        copies.add(found.scores, first)
        for op in found.middle:
            copies.add(op, middle)
        for op in (found.last, *self.epilogue):
            copies.add(op, last)
        own = {found.last, *self.epilogue}
        made: list[SSAValue] = [op.results[0] for op in (found.last, *self.epilogue)]
        replaced = [v for v in made if any(use.operation not in own for use in v.uses)]
        more: list[SSAValue] = [] if alone else [self.output, *self.rows]
        results: list[SSAValue] = [*replaced, *(v for v in more if v not in replaced)]
        axes = AxisLabels([*first, *middle, *last])
        whole = cast(Operation, copies.of[found.weights].owner)
        nests = [(first, first[0]), (middle, whole), (last, cast(Operation, copies.of[found.last.results[0]].owner))]
        name = "fused_attention" if alone else "fused_attention_kept"
        kernel = _kernel(name, axes, nests, [copies.of[v] for v in results], results, own)
        copies.drop()
        return kernel


def _itself(value: SSAValue) -> SSAValue:
    return value


def _steps(op: Operation) -> list[Operation]:
    """The operations of a body that compute."""
    return [s for s in op.regions[0].block.ops if not isinstance(s, arith.ConstantOp | linalg.YieldOp)]


def _reduces(op: Operation) -> bool:
    loops = loops_of(op)
    return loops is not None and bool(loops.reduced)


class _BackwardKernel:
    """The kernel of an attention's backward."""

    def __init__(self, forward: _ForwardKernel, saved: SavedValues) -> None:
        self.forward, self.found, self.saved = forward, forward.found, saved
        self.ours = self.found.inside if saved.together else set[Operation]()

    def build(self, copies: KernelCopies) -> _Kernel | None:
        """The kernel, if all that reads weights, or what is made of them, belongs to it."""
        shown = self._shown()
        region = self._region(shown) if shown else None
        if shown is None or region is None or any(indirect_operands(op) for op in self.found.middle):
            return None
        gradient, between, total, outputs = region
        chains = [[op, *_epilogue(op, outputs)] for op in outputs]
        scores, grads, maps = list[Operation](), list[Operation](), list[Operation]()
        self._copy_forward(copies, scores, maps)
        result: list[Operation] = []  # the forward's, of which only the axes are of use
        for op in self._of_output():
            copies.add(op, result)
        copies.leaf = _itself
        copies.of |= {value: copies.of[own] for value, own in shown.items()}
        for op in [gradient]:
            copies.add(op, grads)
        for op in between:
            copies.add(op, maps)
        made = [list[Operation]() for _ in chains]
        for chain, nest in zip(chains, made, strict=True):
            for op in chain:
                copies.add(op, nest)
        first = [cast(Operation, copies.of[chain[0].results[0]].owner) for chain in chains]
        axes = AxisLabels(op for op in copies.block.ops if loops_of(op) is not None)
        row = cast(Operation, copies.of[total.results[0]].owner)
        delta = self._delta(copies, axes, grads[0], result, row)
        if delta is None:
            return None
        axes.add(delta)
        row.results[0].replace_all_uses_with(delta.results[0])
        for op in reversed(result):
            Rewriter.erase_op(op)
        order = _order(axes, first, row)
        if order is None:
            return None
        whole = next(cast(Operation, v.owner) for v in first[order[0]].operands[:2] if v.owner in maps)
        nests = [([delta], delta), (scores, scores[0]), (grads, grads[0]), (maps, whole)]
        nests += [(made[i], first[i]) for i in order]
        inside = {op for chain in chains for op in chain}
        replaced = [r for i in order for op in chains[i] if _is_used(r := op.results[0], inside)]
        return _kernel("fused_attention_backward", axes, nests, [copies.of[v] for v in replaced], replaced, inside)

    # --- what belongs to it --------------------------------------------------------------------------------

    def _shown(self) -> dict[SSAValue, SSAValue] | None:
        """What the backward reads of what the forward makes between contractions; None if anybody else reads it."""
        made = [op.results[0] for op in (self.found.scores, *self.found.middle)]
        if self.saved.together:
            return {v: v for v in self.found.used_elsewhere()}
        if not all(map(self._is_for_backward, self.found.used_elsewhere())):
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
                    found = _made_of_contraction(other, known=known) if volume(shape_of(other)) == size else []
                    for contraction, made in found:
                        grads[contraction] = known[contraction.results[0]] = None
                        work.append(contraction.results[0])
                        for each in made:
                            include(each)
        sums = [op for op in between if _reduces(op)]
        plain = all(isinstance(s, (arith.AddfOp, *FLOAT_CASTS)) for op in sums for s in _steps(op))
        if len(grads) != 1 or len(sums) != 1 or len(outputs) != 3 or not plain or outputs.keys() & grads.keys():
            return None
        return next(iter(grads)), _ordered(between), sums[0], _ordered(outputs)

    # --- what is made for it -------------------------------------------------------------------------------

    def _copy_forward(self, copies: KernelCopies, scores: list[Operation], maps: list[Operation]) -> None:
        """Copy scores, and what makes weights of them and of the maximum and the sum of each row."""
        copies.of |= {v: self.saved.get(v) for v in self.forward.rows}
        copies.add(self.found.scores, scores)
        for op in self.found.middle:
            if not _reduces(op):
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
        return _row_sum(copies.block, [(gradient, of_gradient), (output, of_output)], axes.result(row), row)


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


def _row_sum(block: Block, factors: Sequence[tuple[SSAValue, Labels]], kept: Labels, like: Operation) -> Operation:
    """The sums of the products of two arrays' elements along all axes but ``kept``, of the dtype of another sum."""
    labels = list(dict.fromkeys([*kept, *(a for _, axes in factors for a in axes)]))
    dtype = dtype_of(like.results[0])
    builder = Builder(block)
    builder.location = like.location
    builder.operator = cast(StringAttr, like.attributes["hybrid.operator"]).data
    given = [(v, tuple(labels.index(a) for a in axes), dtype_of(v)) for v, axes in factors]
    shape = shape_of(like.results[0])

    def body(b: Any, x: Any, y: Any, sofar: Any) -> Any:
        return b.add(sofar, b.mul(b.convert(x, dtype), b.convert(y, dtype)))

    out = Tensor(shape, dtype, builder)
    start = builder.start(shape, dtype, 0.0)
    made = builder.generic(given, out, body, len(labels), tuple(range(len(kept))), start)
    return cast(Operation, made.value.owner)
