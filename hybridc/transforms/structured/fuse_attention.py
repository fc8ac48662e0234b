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

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, StringAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.ir.attention.attention_kernel import attention_backward_of, attention_of
from hybridc.ir.joined import RESHAPES
from hybridc.ir.kernel import analyse, number_of
from hybridc.ir.structured import VIEWS, dtype_of, is_scaffold, reads_anywhere, shape_of
from hybridc.ir.tensor_builder import Builder, Tensor
from hybridc.ir.values import functions, volume
from hybridc.transforms.structured.fuse_kernels import KernelOutliner, kernel_of
from hybridc.transforms.structured.loop_groups import LoopGroup, OperationLoops, loops_of
from hybridc.transforms.structured.saved_values import SavedValues, unshaped

# A mask is computed again if it has so many times the elements of what it is made of.
MANY = 16
_CASTS = (arith.ExtFOp, arith.TruncFOp)
_Labels = tuple[Hashable, ...]


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
            for last in [op for op in function.body.block.ops if _is_contraction(op)]:
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
            copies = _Copies(saved.get)
            gradients = _BackwardKernel(forward, saved).build(copies)
            copies.drop()
            known = None if gradients is None else attention_backward_of(analyse(gradients.function))
            fits = gradients is not None and known is not None and known.row <= row
            if fits:
                _put(outliner, cast(_Kernel, gradients), backward)
            _clean(backward)
            saved.note()
            if not fits:
                continue
        _put(outliner, kernel, function)
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
            if _is_contraction(loops.op) and volume(shape_of(each)) == volume(shape_of(value)):
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


def _is_contraction(op: Operation) -> bool:
    loops = loops_of(op)
    return loops is not None and loops.is_contraction and not reads_anywhere(op)


def _ordered(ops: Iterable[Operation]) -> list[Operation]:
    """Operations of one block in its order."""
    ops = set(ops)
    block = next((op.parent for op in ops), None)
    return [] if block is None else [op for op in block.ops if op in ops]


def _depends(values: Iterable[SSAValue], on: set[Operation]) -> bool:
    """Whether a value is made of what one of these operations makes."""
    seen: set[SSAValue] = set()
    work = list(values)
    while work:
        value = work.pop()
        if value in seen or not isinstance(value.owner, Operation):
            continue
        if value.owner in on:
            return True
        seen.add(value)
        work += [*value.owner.operands, *reads_anywhere(value.owner)]
    return False


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
        if _depends(beside, {*found, *others}):
            return found[1:]
        found.append(maps[0])


def _continues(op: Operation, value: SSAValue) -> bool:
    """Whether an operation makes each element of its result of that of a value, at the same indices."""
    loops = loops_of(op)
    if loops is None or loops.reduced or reads_anywhere(op):
        return False
    places = {place for read, place in loops.reads if read is value}
    return len(places) == 1 and sorted(places.pop()) == sorted(loops.result) == list(range(len(loops.sizes)))


# --- kernels -------------------------------------------------------------------------------------------------------


class _Copies:
    """Copies of operations that will be a kernel. ``of`` says what is read in the place of a value."""

    def __init__(self, leaf: Callable[[SSAValue], SSAValue]) -> None:
        self.block = Block()
        self.of: dict[SSAValue, SSAValue] = {}
        self.leaf = leaf  # what is read in the place of what is not copied

    def add(self, op: Operation, nest: list[Operation]) -> Operation:
        """Copy an operation into a nest, after elementwise ones that it reads and that are rather computed there.

        Those of one dimension are copied for each that reads them: it may be another axis.
        """
        apart: dict[int, SSAValue] = {}
        anywhere = {v: self.leaf(v) for v in reads_anywhere(op)}
        for index, value in enumerate(op.operands[:-1]):
            if value in self.of or value in anywhere or number_of(value) is not None:
                continue
            start = None if _is_contraction(op) else counted_from(value)
            if start is not None:
                apart[index] = self._counter(value, start, nest)
            elif not _is_contraction(op) and _is_computed_again(value):
                known = dict(self.of)
                copy = self.add(cast(Operation, value.owner), nest)
                if len(shape_of(value)) == 1:
                    self.of, apart[index] = known, copy.results[0]
            else:
                self.of[value] = self.leaf(value)
        copy = op.clone(self.of | anywhere)
        copy.location = op.location
        self.of.update(zip(op.results, copy.results, strict=True))
        for index, value in apart.items():
            copy.operands[index] = value
        self.block.add_op(copy)
        nest.append(copy)
        return copy

    def drop(self) -> None:
        """Erase the copies that are in no kernel."""
        for op in reversed(list(self.block.ops)):
            Rewriter.erase_op(op)

    def _counter(self, like: SSAValue, start: int, nest: list[Operation]) -> SSAValue:
        """The whole numbers from ``start`` on, as an operation of its own for each that reads them."""
        builder = Builder(self.block)
        builder.operator = "arange"
        made = builder.generic([], Tensor(shape_of(like), dtype_of(like), builder), functools.partial(_count, start))
        nest.append(cast(Operation, made.value.owner))
        return made.value

    def row_sum(self, factors: Sequence[tuple[SSAValue, _Labels]], kept: _Labels, like: Operation) -> Operation:
        """The sums of the products of two arrays' elements along all axes but ``kept``, of the dtype of another sum."""
        labels = list(dict.fromkeys([*kept, *(a for _, axes in factors for a in axes)]))
        dtype = dtype_of(like.results[0])
        builder = Builder(self.block)
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


def _count(start: int, b: Any, sofar: Any) -> Any:
    """The body of a counter."""
    index = b.index_of(0)
    return b.convert(index if start == 0 else b.add(index, b.constant(start, index.dtype)), sofar.dtype)


def counted_from(value: SSAValue) -> int | None:
    """The whole number from which a constant of one dimension counts; None if it is no such array."""
    op, shape = value.owner, shape_of(value)
    if not isinstance(op, arith.ConstantOp) or len(shape) != 1 or shape[0] < 2:
        return None
    found = op.value
    if not isinstance(found, DenseIntOrFPElementsAttr) or found.is_splat():
        return None
    numbers: list[Any] = list(found.get_values())
    start = int(numbers[0]) if abs(numbers[0]) < 2**31 else 0
    return start if numbers == list(range(start, start + shape[0])) else None


def _is_computed_again(value: SSAValue) -> bool:
    """Whether a kernel computes what it reads: elementwise, for it alone and of no more, or of much less."""
    op = value.owner
    loops = loops_of(op) if isinstance(op, Operation) else None
    if loops is None or loops.reduced or reads_anywhere(loops.op):
        return False
    read = sum(volume(shape_of(v)) for v, _ in loops.reads if number_of(v) is None and counted_from(v) is None)
    size = volume(shape_of(value))
    return (value.has_one_use() and read <= size) or _leaves(value) * MANY <= size


def _leaves(value: SSAValue) -> int:
    """How many elements there are of all arrays that elementwise operations make a value of; what counts is none."""
    found: dict[SSAValue, int] = {}
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        each = work.pop()
        if each in seen:
            continue
        seen.add(each)
        op = each.owner
        loops = loops_of(op) if isinstance(op, Operation) else None
        if loops is not None and not loops.reduced and not reads_anywhere(loops.op):
            work += [v for v, _ in loops.reads]
        elif number_of(each) is None and counted_from(each) is None:
            found[each] = volume(shape_of(each))
    return sum(found.values())


class _Axes:
    """Which loops of operations are one axis: those that follow the same dimension of what one makes, others read."""

    def __init__(self, ops: Iterable[Operation]) -> None:
        self.loops: dict[Operation, OperationLoops] = {}
        self.other: dict[Hashable, Hashable] = {}
        for op in ops:
            self.add(op)

    def add(self, op: Operation) -> None:
        """An operation that comes after those of which it reads results."""
        loops = loops_of(op)
        assert loops is not None
        self.loops[op] = loops
        for value, places in loops.reads:
            if value.owner in self.loops:
                maker = cast(Operation, value.owner)
                self.tie((op, places), (maker, self.loops[maker].result))

    def tie(self, one: tuple[Operation, Sequence[int]], other: tuple[Operation, Sequence[int]]) -> None:
        """Let loops of an operation be those of another."""
        for a, b in zip(self.labels(*one), self.labels(*other), strict=True):
            if a != b:
                self.other[a] = b

    def labels(self, op: Operation, places: Iterable[int]) -> _Labels:
        """What the axes of these loops are called."""
        return tuple(self._label((op, i)) for i in places)

    def result(self, op: Operation) -> _Labels:
        """What the axes of an operation's result are called."""
        return self.labels(op, self.loops[op].result)

    def reads(self, op: Operation, index: int) -> _Labels:
        """What the axes of an operand are called."""
        return self.labels(op, self.loops[op].reads[index][1])

    def reduced(self, op: Operation) -> set[Hashable]:
        """What the axes that an operation sums are called."""
        return {*self.labels(op, self.loops[op].reduced)}

    def nest(self, ops: Sequence[Operation], whole: Operation) -> LoopGroup | None:
        """Operations as a nest over the axes of what one of them makes; None if another has more."""
        labels = self.result(whole)
        domain = tuple(self.loops[whole].sizes[i] for i in self.loops[whole].result)
        group = LoopGroup([*ops], 0, 0, domain)
        for op in ops:
            own = self.labels(op, range(len(self.loops[op].sizes)))
            if any(a not in labels for a in own) and not self.loops[op].is_contraction:
                return None
            group.axes[op] = tuple(labels.index(a) if a in labels else -1 for a in own)
        return group if len({*labels}) == len(labels) else None

    def _label(self, loop: Hashable) -> Hashable:
        while loop in self.other:
            loop = self.other[loop]
        return loop


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A kernel, what it is given, and the values that its first results replace."""

    function: func.FuncOp
    given: Sequence[SSAValue]
    replaced: Sequence[SSAValue]


def _kernel(
    name: str,
    axes: _Axes,
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
    read = (v for ops, _ in nests for op in ops for v in (*op.operands[:-1], *reads_anywhere(op)))
    given = [v for v in dict.fromkeys(read) if v.owner not in copies and number_of(v) is None]
    if _depends(given, inside):
        return None
    location = fused_location([op for ops, _ in nests for op in ops])
    function = kernel_of(found, given, results, [dtype_of(v) for v in (*given, *results)])
    function.sym_name = StringAttr(name)
    function.location = location
    return _Kernel(function, given, replaced)


def _put(outliner: KernelOutliner, kernel: _Kernel, function: func.FuncOp) -> None:
    """Call a kernel in a function, and use its results; everything still comes after what it needs."""
    shared = outliner.shared(kernel.function)
    call = func.CallOp(shared.sym_name.data, list(kernel.given), shared.function_type.outputs.data)
    call.location = kernel.function.location
    block = function.body.block
    order: dict[Any, int] = {op: number for number, op in enumerate(block.ops)}
    made = max((v.owner for v in kernel.given if v.owner in order), key=order.__getitem__, default=None)
    Rewriter.insert_op(call, InsertPoint.at_start(block) if made is None else InsertPoint.after(cast(Operation, made)))
    early = False
    for old, new in zip(kernel.replaced, call.results, strict=True):
        new.name_hint = old.name_hint
        for use in list(old.uses):
            early |= order.get(use.operation, -1) < order.get(made, -1)
            use.operation.operands[use.index] = new
    if early:
        _sort(block)


def _sort(block: Block) -> None:
    """Put operations after those that they need, else in their order."""
    done: dict[Operation, None] = {}
    for op in block.ops:
        work = [op]
        while work:
            read = (v.owner for each in work[-1].walk() for v in each.operands)
            waits = [o for o in read if isinstance(o, Operation) and o.parent is block and o not in done]
            work += waits
            if not waits:
                done.setdefault(work.pop())
    for op in list(block.ops):
        op.detach()
    block.add_ops(done)


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
        plain = [op for op in follows if all(isinstance(s, _CASTS) for s in _steps(op))]
        self.output = (*plain, found.last)[0].results[0]
        self.rows: list[SSAValue] = [op.results[0] for op in found.middle if _reduces(op)]

    def build(self, alone: bool) -> _Kernel | None:
        """The kernel; if it is not for the forward ``alone``, its last results are the output, maxima and sums."""
        found, copies = self.found, _Copies(_itself)
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
        axes = _Axes([*first, *middle, *last])
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

    def build(self, copies: _Copies) -> _Kernel | None:
        """The kernel, if all that reads weights, or what is made of them, belongs to it."""
        shown = self._shown()
        region = self._region(shown) if shown else None
        if shown is None or region is None or any(reads_anywhere(op) for op in self.found.middle):
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
        axes = _Axes(op for op in copies.block.ops if loops_of(op) is not None)
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
                if loops is None or reads_anywhere(op):
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
        plain = all(isinstance(s, (arith.AddfOp, *_CASTS)) for op in sums for s in _steps(op))
        if len(grads) != 1 or len(sums) != 1 or len(outputs) != 3 or not plain or outputs.keys() & grads.keys():
            return None
        return next(iter(grads)), _ordered(between), sums[0], _ordered(outputs)

    # --- what is made for it -------------------------------------------------------------------------------

    def _copy_forward(self, copies: _Copies, scores: list[Operation], maps: list[Operation]) -> None:
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
        self, copies: _Copies, axes: _Axes, grads: Operation, result: Sequence[Operation], row: Operation
    ) -> Operation | None:
        """The sum of each row of the result times its gradient, if ``row`` sums weights times their gradients."""
        factors = _Factors(axes)
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
        return copies.row_sum([(gradient, of_gradient), (output, of_output)], axes.result(row), row)


def _order(axes: _Axes, made: Sequence[Operation], row: Operation) -> list[int] | None:
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


class _Factors:
    """What values are products of, through operations and casts; two such are equal if the same is multiplied."""

    def __init__(self, axes: _Axes) -> None:
        self.axes = axes
        self.known: dict[SSAValue, Counter[Hashable]] = {}

    def of(self, value: SSAValue) -> Counter[Hashable]:
        """What is multiplied for a value that an elementwise operation makes, each as often as it is."""
        if value not in self.known:
            op = cast(Operation, value.owner)
            end = op.regions[0].block.last_op
            assert end is not None
            self.known[value] = self._inner(op, end.operands[0])
        return self.known[value]

    def _inner(self, op: Operation, value: SSAValue) -> Counter[Hashable]:
        number, maker = number_of(value), value.owner
        if number is not None:
            return Counter([("number", number)])
        if isinstance(maker, Block):
            index = list(maker.args).index(cast(Any, value))
            read = op.operands[index]
            loops = self.axes.loops.get(cast(Operation, read.owner))
            if loops is not None and not loops.reduced:
                return self.of(read)
            return Counter([(read, self.axes.reads(op, index))])
        if isinstance(maker, linalg.IndexOp):
            return Counter([("index", self.axes.labels(op, [maker.dim.value.data]))])
        if isinstance(maker, _CASTS):
            return self._inner(op, maker.operands[0])
        if isinstance(maker, arith.MulfOp):
            return self._inner(op, maker.operands[0]) + self._inner(op, maker.operands[1])
        operands = tuple(frozenset(self._inner(op, v).items()) for v in maker.operands)
        properties = tuple(sorted((name, str(p)) for name, p in maker.properties.items() if name != "fastmath"))
        return Counter([(maker.name, properties, str(value.type), operands)])
