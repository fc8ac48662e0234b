"""How finely the loops of a function's operations must be cut so that the reshapes between them need no copies.

An axis of 1024 that one operation sees as 8 x 128 has a cut at 128. Axes that several operations walk together share
their cuts: a loop and the axes of what it reads and writes, an axis before and after a transpose. A reshape ties the
axis to the axes it stands for. What starts in contiguous memory (an argument, a call's result) can be seen in any
shape, so it ties nothing; and the summed loops of products are never cut.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from hybridc.ir.structured import VIEWS, groups_of, is_scaffold, loop_sizes, places_of, shape_of
from hybridc.transforms.fold_views_layout import Shape

KNOW_PLACES = (linalg.IndexOp.name, tensor.ExtractOp.name)  # operations of bodies whose loops must stay


@dataclass(frozen=True)
class Loops:
    """What the loops of an operation are: their sizes, and which of them each operand follows."""

    sizes: Shape
    places: tuple[tuple[int, ...], ...]  # of the inputs, then of the result
    summed: tuple[int, ...]  # those that the result does not follow
    product: bool  # whether it sums products of two arrays

    def cuttable(self, loop: int) -> bool:
        """Whether the loop may become several."""
        return not (self.product and loop in self.summed)


def loops_of(op: Operation) -> Loops | None:
    """The loops of an operation that can be cut and reordered; None of another."""
    if not isinstance(op, linalg.GenericOp | linalg.MatmulOp):
        return None
    start = op.outputs[0].owner
    if len(op.outputs) > 1 or not isinstance(start, Operation) or not is_scaffold(start):
        return None
    places = places_of(op)
    if places is None:
        return None
    sizes = loop_sizes(op, places)
    if any(n <= 1 for n in sizes) or any(inner.name in KNOW_PLACES for inner in op.body.block.ops):
        return None
    summed = tuple(i for i in range(len(sizes)) if i not in places[-1])
    return Loops(sizes, places, summed, bool(summed) and len(op.inputs) > 1)


class Cuts:
    """Axes, what ties them, and their cuts: the sizes of their inner parts.

    First come all axes and ties, then ``settle``, then ``factors``.
    """

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._sizes: list[int] = []
        self._cuts: list[set[int]] = []
        self._ties: list[list[tuple[int, list[int]]]] = []  # of each axis, or of all that are the same
        self._tied: list[tuple[int, list[int]]] = []
        self._slices: list[tuple[int, int, int]] = []
        self._work: dict[int, None] = {}  # whose cuts are to be passed on, each once and in order

    def axis(self, size: int) -> int:
        """A new axis."""
        self._parents.append(len(self._parents))
        self._sizes.append(size)
        self._cuts.append(set())
        self._ties.append([])
        return len(self._parents) - 1

    def size(self, axis: int) -> int:
        """The number of elements along an axis."""
        return self._sizes[axis]

    def _find(self, axis: int) -> int:
        while self._parents[axis] != axis:
            self._parents[axis] = axis = self._parents[self._parents[axis]]
        return axis

    def same(self, a: int, b: int) -> None:
        """Two axes share their cuts."""
        a, b = self._find(a), self._find(b)
        if a == b:
            return
        if len(self._ties[a]) < len(self._ties[b]):
            a, b = b, a
        self._parents[b] = a
        self._ties[a] += self._ties[b]

    def stands_for(self, axis: int, parts: list[int]) -> None:
        """An axis has one cut between each two neighbours of its parts, and theirs."""
        if len(parts) == 1:
            self.same(axis, parts[0])
            return
        tie = (axis, parts)
        for each in {self._find(i) for i in (axis, *parts)}:
            self._ties[each].append(tie)
        self._tied.append(tie)

    def part_of(self, part: int, axis: int, begin: int) -> None:
        """An axis is a run of another one's elements: it has those cuts at which it starts and ends."""
        self._slices.append((part, axis, begin))

    def _cut(self, axis: int, cut: int) -> None:
        """Cut an axis, unless that does not fit to its other cuts; then the reshape stays."""
        axis = self._find(axis)
        cuts, size = self._cuts[axis], self._sizes[axis]
        if cut in cuts or not 1 < cut < size:
            return
        if size % cut == 0 and all(cut % c == 0 or c % cut == 0 for c in cuts):
            cuts.add(cut)
            self._work[axis] = None

    def settle(self) -> None:
        """Pass on the cuts along all ties, which are all known by now."""
        for tie in self._tied:
            self._pass_on(*tie)
        self._slice()
        while self._work:
            while self._work:
                axis = next(iter(self._work))
                del self._work[axis]
                for tie in self._ties[axis]:
                    self._pass_on(*tie)
            self._slice()

    def _slice(self) -> None:
        for part, axis, begin in self._slices:
            for cut in tuple(self._cuts[self._find(axis)]):
                if begin % cut == 0 and self._sizes[part] % cut == 0:
                    self._cut(part, cut)

    def _pass_on(self, axis: int, parts: list[int]) -> None:
        inner = math.prod(self._sizes[p] for p in parts)
        known = tuple(self._cuts[self._find(axis)])
        for part in parts:
            size = self._sizes[part]
            inner //= size
            self._cut(axis, inner)
            for cut in tuple(self._cuts[self._find(part)]):
                self._cut(axis, cut * inner)
            for cut in known:
                if inner < cut < inner * size and cut % inner == 0:
                    self._cut(part, cut // inner)

    def factors(self, axis: int) -> Shape:
        """The sizes of what an axis is cut into."""
        ends = [self._sizes[axis], *sorted(self._cuts[self._find(axis)], reverse=True), 1]
        return tuple(a // b for a, b in itertools.pairwise(ends))


class Cutting:
    """The cuts of all loops of a block."""

    def __init__(self, block: Block, loops: dict[Operation, Loops]) -> None:
        self.loops = loops
        self.cuts = Cuts()
        self.axes: dict[SSAValue, Sequence[int]] = {}  # of a value that is not contiguous whatever happens
        self.of_loops: dict[Operation, list[int]] = {}
        self.read = self._read(block)
        for op in block.ops:
            self._tie(op)
        self.cuts.settle()

    def factors(self, op: Operation) -> list[Shape]:
        """The sizes of what each loop of an operation is cut into."""
        loops = self.loops[op]
        nodes = self.of_loops[op]
        return [self.cuts.factors(nodes[i]) if loops.cuttable(i) else (n,) for i, n in enumerate(loops.sizes)]

    def _read(self, block: Block) -> set[SSAValue]:
        """Values that loops read, directly or as a view."""
        found: set[SSAValue] = set()
        for op in reversed(list(block.ops)):
            if op in self.loops:
                found.update(op.operands)
            elif isinstance(op, VIEWS) and op.results[0] in found:
                found.add(op.operands[0])
        return found

    def _new(self, value: SSAValue) -> list[int]:
        return [self.cuts.axis(n) for n in shape_of(value)]

    def _tie(self, op: Operation) -> None:
        if op in self.loops:
            self._loops(op, self.loops[op])
            return
        if not isinstance(op, VIEWS):
            return
        source, result = op.operands[0], op.results[0]
        axes = self.axes.get(source)
        match op:
            case linalg.TransposeOp():
                order = op.permutation.get_values()
                self.axes[result] = self._new(result) if axes is None else [axes[i] for i in order]
            case tensor.ExtractSliceOp():
                self._slice(op, source, result)
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp() if axes is not None:
                self.axes[result] = new = self._new(result)
                collapse = isinstance(op, tensor.CollapseShapeOp)
                if collapse or result in self.read:
                    self._reshape(groups_of(op), *((new, axes) if collapse else (axes, new)))
            case _:  # a contiguous value in another shape
                pass

    def _loops(self, op: Operation, loops: Loops) -> None:
        nodes = [self.cuts.axis(n) for n in loops.sizes]
        self.of_loops[op] = nodes
        for value, places in zip(op.operands, loops.places[:-1], strict=False):
            axes = self.axes.get(value)
            for axis, loop in zip(axes or (), places, strict=False):
                if loops.cuttable(loop):
                    self.cuts.same(axis, nodes[loop])
        self.axes[op.results[0]] = [nodes[loop] for loop in loops.places[-1]]

    def _slice(self, op: tensor.ExtractSliceOp, source: SSAValue, result: SSAValue) -> None:
        old, new = shape_of(source), shape_of(result)
        axes = self.axes.get(source)
        rows = old[1:] == new[1:] and op.static_strides.get_values()[:1] == (1,)
        if axes is None and rows:  # some rows of a contiguous array are contiguous
            return
        fresh = self._new(result)
        offsets, steps = op.static_offsets.get_values(), op.static_strides.get_values()
        for i, axis in enumerate(axes or ()):
            if old[i] == new[i]:
                fresh[i] = axis
            elif steps[i] == 1:
                self.cuts.part_of(fresh[i], axis, offsets[i])
        self.axes[result] = fresh

    def _reshape(self, groups: list[list[int]], whole: Sequence[int], parts: Sequence[int]) -> None:
        for axis, group in zip(whole, groups, strict=True):
            wide = [parts[i] for i in group if self.cuts.size(parts[i]) != 1]
            if wide:
                self.cuts.stands_for(axis, wide)
