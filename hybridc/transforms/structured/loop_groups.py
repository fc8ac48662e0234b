"""Fusion groups: which linalg ops share a loop nest, by greedily merging groups over a common iteration space.

A *domain* (iteration space) is a list of axes with their sizes. Every loop of every op of a group is one of its axes,
so that one walk over the domain computes them all, tile by tile along the first axis. A row reduction (not over the
first axis) is done within a tile, and its readers may be in the group (softmax, layer norm). A column reduction (over
the first axis) goes *across* tiles: its result exists after the last one, so its readers are in other groups. A small
domain is a single tile and has no such limit.

The target of an indirect access must be complete before: its producer is in another group.

Two groups merge where a value flows from one to the other, where a column reduction reads what the other reads, where
one reads nothing but what the other reads, or where both make parts of one concatenation; unless a path between them
leads through a third (the merged kernel would have to run before and after it), or their bodies together are longer
than ``LARGEST``: a long chain becomes kernels of equal length, which are one if they are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain, pairwise

from xdsl.dialects import func, tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import are_same, is_same
from hybridc.ir.concatenated import unshaped
from hybridc.ir.costs import LARGEST, ONE_TILE, body_size
from hybridc.ir.structured import (
    KNOW_PLACES,
    affine_operands,
    indirect_operands,
    is_loops,
    is_scaffold,
    loop_sizes,
    places_of,
)

# The most contractions whose results one group may read: of a longer sum of contractions each gets its own addition as
# epilogue, instead of all of them being live for one walk in the end.
PRODUCTS = 2

Axes = tuple[int, ...]


@dataclass(frozen=True)
class OperationLoops:
    """The loops of a linalg op: those that index each input, those of the result, all sizes.

    ``reads`` leaves out affine reads at sums of loops; ``several`` says whether there are two inputs at least.
    """

    op: Operation
    reads: tuple[tuple[SSAValue, Axes], ...]
    result: Axes
    sizes: Shape
    several: bool

    @property
    def reduced(self) -> Axes:
        """The reduction loops."""
        return tuple(i for i in range(len(self.sizes)) if i not in self.result)

    @property
    def walked(self) -> Axes:
        """All loops in the order of the domain: a reduction's in that of its input's memory, others in the result's."""
        if not self.reduced:
            return self.result
        first = max((place for _, place in self.reads), key=len, default=self.result)
        return (*first, *(i for i in range(len(self.sizes)) if i not in first))

    @property
    def is_contraction(self) -> bool:
        """Whether this is a contraction of two inputs."""
        return self.several and bool(self.reduced)


def operation_loops(op: Operation) -> OperationLoops | None:
    """The loops of an operation; None if it has none (a view, a call, an initial value)."""
    if not is_loops(op):
        return None
    places, affine = places_of(op), affine_operands(op)
    reads = [(v, p) for i, (v, p) in enumerate(zip(op.operands[:-1], places[:-1], strict=True)) if i not in affine]
    return OperationLoops(op, tuple(reads), places[-1], loop_sizes(op, places), len(op.operands) > 2)


def elementwise_loops(op: Operation) -> OperationLoops | None:
    """The loops of an elementwise operation whose body does not know its place; None for other operations."""
    if not isinstance(op, linalg.GenericOp) or affine_operands(op):
        return None
    loops = operation_loops(op)
    if loops is None or loops.reduced or loops.result != tuple(range(len(loops.sizes))):
        return None
    return None if any(inner.name in KNOW_PLACES for inner in op.body.block.ops) else loops


def is_contraction(op: Operation) -> bool:
    """Whether an op is a contraction that reads its operands at loops."""
    loops = operation_loops(op)
    return loops is not None and loops.is_contraction and not indirect_operands(op)


@dataclass(eq=False)
class LoopGroup:
    """Operations that will be one loop nest of a kernel; ``domain`` is None where nothing can merge.

    ``axes`` are the axes of each op's loops (-1 for reduction loops of contractions); ``read`` and ``written`` the
    values read and produced, with the axes that index them, ``indirect`` those that are accessed indirectly. ``across``
    are the column reductions. ``sources`` are the producers outside of the group, ``contractions`` those of them that
    are contractions; ``first`` and ``last`` are the positions of its operations in the function. ``size`` is that of
    all bodies (:func:`hybridc.ir.costs.body_size`).
    """

    ops: list[Operation]
    first: int
    last: int
    domain: Shape | None = None
    axes: dict[Operation, Axes] = field(default_factory=lambda: dict[Operation, Axes]())
    read: dict[SSAValue, list[Axes]] = field(default_factory=lambda: dict[SSAValue, list[Axes]]())
    written: dict[SSAValue, Axes] = field(default_factory=lambda: dict[SSAValue, Axes]())
    indirect: set[SSAValue] = field(default_factory=lambda: set[SSAValue]())
    across: list[Operation] = field(default_factory=lambda: list[Operation]())
    sources: set[Operation] = field(default_factory=lambda: set[Operation]())
    contractions: set[Operation] = field(default_factory=lambda: set[Operation]())
    contraction: Operation | None = None
    reduces: bool = False
    size: int = 0

    @property
    def volume(self) -> int:
        """The number of elements of the domain."""
        return math.prod(self.domain or ())

    def add(self, loops: OperationLoops, axes: Axes) -> None:
        """Add an operation's reads and results, with its loops as these axes."""
        op = loops.op
        self.size += body_size(op)
        self.axes[op] = axes
        for value, place in loops.reads:
            self.read.setdefault(value, []).append(tuple([axes[i] for i in place]))
        self.written[op.results[0]] = tuple([axes[i] for i in loops.result])
        self.indirect.update(indirect_operands(op))
        if self.contraction is not op:
            self.reduces |= bool(loops.reduced)
            if any(axes[i] == 0 for i in loops.reduced):
                self.across.append(op)

    def renamed(self, axes: dict[int, int]) -> None:
        """Renumber its axes to those of another domain."""
        if all(a == b for a, b in axes.items()):
            return
        self.axes = {op: tuple([axes[a] for a in own]) for op, own in self.axes.items()}
        self.read = {v: [tuple([axes[a] for a in place]) for place in places] for v, places in self.read.items()}
        self.written = {v: tuple([axes[a] for a in place]) for v, place in self.written.items()}
        self.across = [op for op in self.axes if op is not self.contraction and 0 in _reduced_axes(self, op)]

    def absorb(self, other: LoopGroup) -> None:
        """Merge a group of the same domain into this one."""
        self.ops += other.ops
        self.axes |= other.axes
        for value, places in other.read.items():
            self.read.setdefault(value, []).extend(places)
        self.written |= other.written
        self.indirect |= other.indirect
        self.across += other.across
        self.sources |= other.sources
        self.contractions |= other.contractions
        self.contraction = self.contraction or other.contraction
        self.reduces |= other.reduces
        self.size += other.size
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)


def _reduced_axes(group: LoopGroup, op: Operation) -> set[int]:
    """The axes that an operation reduces."""
    return set(group.axes[op]) - set(group.written[op.results[0]])


@dataclass(frozen=True)
class Merged:
    """The common domain of two groups, and the axes of each in it."""

    domain: Shape
    first: dict[int, int]
    second: dict[int, int]


def merge(source: LoopGroup, group: LoopGroup) -> Merged | None:
    """The common domain of two groups, if the axes of one are a subset of the other's; else None."""
    assert source.domain is not None
    assert group.domain is not None
    bound = _bound(source, group)
    if bound is None:
        return None
    _match_rest(source, group, bound)
    identity = {i: i for i in range(max(len(source.domain), len(group.domain)))} | {-1: -1}
    if len(bound) == len(group.domain):
        return Merged(source.domain, identity, bound | {-1: -1})
    if len(bound) == len(source.domain):
        return Merged(group.domain, {a: b for b, a in bound.items()} | {-1: -1}, identity)
    return None


def _bound(source: LoopGroup, group: LoopGroup) -> dict[int, int] | None:
    """Unify axes: which axis of ``group`` is which of ``source``, by values that one produces and the other reads.

    Common inputs decide only where that leaves a choice. None if one axis would be two.
    """
    bound: dict[int, int] = {}
    shared: list[SSAValue] = []
    for value, places in group.read.items():
        if value in source.written:
            for place in places:
                if not _bind(bound, place, source.written[value]):
                    return None
        elif value in source.read:
            shared.append(value)
    for value, places in source.read.items():
        if value in group.written and not all(_bind(bound, group.written[value], place) for place in places):
            return None
    for value in shared:
        attempt = dict(bound)
        if _bind(attempt, group.read[value][0], source.read[value][0]):
            bound = attempt
    return bound


def _bind(bound: dict[int, int], places: Axes, axes: Axes) -> bool:
    """Bind these axes to those; False on a conflict."""
    for place, axis in zip(places, axes, strict=True):
        if bound.setdefault(place, axis) != axis:
            return False
    return len(set(bound.values())) == len(bound)


def _match_rest(source: LoopGroup, group: LoopGroup, bound: dict[int, int]) -> None:
    """Bind the remaining axes by equal sizes, in order. Sizes that happen to be equal are not taken for one."""
    assert source.domain is not None
    assert group.domain is not None
    left = [a for a in range(len(source.domain)) if a not in bound.values()]
    for axis in range(len(group.domain)):
        if axis in bound:
            continue
        match = next((a for a in left if is_same(source.domain[a], group.domain[axis])), None)
        if match is not None:
            bound[axis] = match
            left.remove(match)


def _same_sizes(a: Shape, b: Shape) -> bool:
    """Whether two domains have the same sizes, in any order; symbolic ones are asked for equality alone."""
    left = list(b)
    for size in a:
        if size not in left:
            return False
        left.remove(size)
    return not left


class Partition:
    """The groups of a function, while its operations are added and groups merge, in order."""

    def __init__(self, function: func.FuncOp) -> None:
        end = function.body.block.last_op
        self.ops = [op for op in function.body.block.ops if op is not end and not is_scaffold(op)]
        self.order: dict[Operation, int] = {op: i for i, op in enumerate(self.ops)}
        self.group: dict[Operation, LoopGroup] = {}
        # For each position the next one, or itself, that no group spans: all groups lie before or after it.
        self._free = list(range(len(self.ops) + 1))
        for op in self.ops:
            self._place(op)
        for op in self.ops:
            if op in self.group[op].across:
                self._join_readers(op, reductions=False)
        for op in self.ops:
            if isinstance(op, tensor.ConcatOp):
                self._join_parts(op)
            else:
                self._join_reader_of_all(self.group[op])
        for op in self.ops:
            self._attach_epilogue(self.group[op])
        for group in dict.fromkeys(self.group[op] for op in self.ops):
            group.ops.sort(key=self.order.__getitem__)

    def _place(self, op: Operation) -> None:
        sources = self._sources(op)
        place = self.order[op]
        group = LoopGroup([op], place, place, sources=set(sources))
        self.group[op] = group
        loops = operation_loops(op)
        if loops is None:
            return
        kept = loops.result if loops.is_contraction else loops.walked
        group.domain = tuple(loops.sizes[i] for i in kept)
        group.contraction = op if loops.is_contraction else None
        group.add(loops, tuple(kept.index(i) if i in kept else -1 for i in range(len(loops.sizes))))
        if loops.is_contraction:
            return
        group.contractions = {s for s in sources if self.group[s].contraction is s}
        for source in sources:
            self._try(self.group[source], self.group[op])
        if op in self.group[op].across:
            self._join_readers(op, reductions=True)

    def _sources(self, op: Operation) -> dict[Operation, None]:
        """The producers of an operation's operands; in order, so that equal graphs give equal kernels."""
        owners = [v.owner for v in (*op.operands, *indirect_operands(op)) if isinstance(v.owner, Operation)]
        return dict.fromkeys(owner for owner in owners if owner in self.group)

    def _join_readers(self, op: Operation, reductions: bool) -> None:
        """Merge a column reduction with groups that read the same values: with reductions, or with any."""
        for value in op.operands[:-1]:
            for use in list(value.uses):
                other = self.group.get(use.operation)
                if other is not None and (other.across or not reductions):
                    self._try(other, self.group[op])

    def _join_reader_of_all(self, group: LoopGroup) -> None:
        """Merge an elementwise group with one of the same domain that reads all that it reads."""
        if group.domain is None or group.reduces or group.contraction is not None or not group.read:
            return
        for use in list(next(iter(group.read)).uses):
            other = self.group.get(use.operation)
            if other is None or other is group or other.domain != group.domain:
                continue
            if all(value in other.read for value in group.read):
                self._try(other, group)
                return

    def _join_parts(self, op: tensor.ConcatOp) -> None:
        """Merge groups of equal domains that make parts of one concatenation."""
        owners = [owner for part in op.inputs if isinstance(owner := unshaped(part).owner, Operation)]
        for first, second in pairwise(owner for owner in owners if owner in self.group):
            a, b = self.group[first], self.group[second]
            same = a.domain is not None and b.domain is not None and are_same(a.domain, b.domain)
            if same and not a.reduces and not b.reduces:
                self._try(a, b)

    def _try(self, source: LoopGroup, group: LoopGroup) -> None:
        """Merge two groups if that is allowed."""
        if source is group or source.domain is None or source.contraction is not None:
            return
        if group.domain is None or group.contraction is not None:
            return
        merged = merge(source, group)
        if merged is not None and self._allowed(source, group, merged) and not self._crossed(source, group):
            self._join(source, group, merged)

    def _allowed(self, source: LoopGroup, group: LoopGroup, merged: Merged) -> bool:
        """Whether one walk over the domain can compute both: a body not too long, few contractions to wait for."""
        if source.size + group.size > LARGEST or len(source.contractions | group.contractions) > PRODUCTS:
            return False
        return self._is_one_walk(source, group, merged) or math.prod(merged.domain) <= ONE_TILE

    def _is_one_walk(self, source: LoopGroup, group: LoopGroup, merged: Merged) -> bool:
        """Whether a walk tile by tile computes both once, and neither needs all of a reduction over the tiles."""
        both = (source, group)
        for part, axes in ((source, merged.first), (group, merged.second)):
            repeated = any(0 not in [axes[a] for a in own] for own in part.axes.values())
            if repeated and not (axes.get(0) == 0 and part.volume > ONE_TILE):
                return False  # every tile would recompute it
            for op in part.across if axes.get(0) == 0 else part.axes:
                reduced = {axes[a] for a in _reduced_axes(part, op)}
                if 0 in reduced and any(self.group.get(u.operation) in both for u in op.results[0].uses):
                    return False
        return True

    def _attach_epilogue(self, group: LoopGroup) -> None:
        """Merge elementwise groups that read a contraction into its group, as the epilogue."""
        op = group.contraction
        if op is None:
            return
        for use in list(op.results[0].uses):
            other = self.group.get(use.operation)
            if other is None or other is group or other.domain is None or other.contraction is not None:
                continue
            too_large = group.size + other.size > LARGEST
            merged = None if other.reduces or too_large else merge(group, other)
            if merged is None or not _same_sizes(merged.domain, group.domain or ()):
                continue
            if all(len(axes) == len(merged.domain) for axes in other.axes.values()) and not self._crossed(group, other):
                self._join(group, other, merged)
                group = self.group[op]

    def _crossed(self, a: LoopGroup, b: LoopGroup) -> bool:
        """Whether a group needs the complete result of the other, or a path between them leads through a third."""
        if not a.indirect.isdisjoint(b.written) or not b.indirect.isdisjoint(a.written):
            return True
        return self._depends(b, a) or self._depends(a, b)

    def _join(self, a: LoopGroup, b: LoopGroup, merged: Merged) -> None:
        a.renamed(merged.first)
        b.renamed(merged.second)
        small, large = sorted((a, b), key=lambda g: len(g.ops))
        large.domain = merged.domain
        large.absorb(small)
        for op in small.ops:
            self.group[op] = large
        large.sources = {s for s in large.sources if self.group[s] is not large}
        place = self._cut(large.first)
        while place < large.last:
            self._free[place] = place + 1
            place = self._cut(place)

    def _cut(self, place: int) -> int:
        """The first position from here on that no group spans."""
        free = self._free
        while free[place] != place:
            free[place] = free[free[place]]
            place = free[place]
        return place

    def _depends(self, group: LoopGroup, on: LoopGroup) -> bool:
        """Whether ``group`` depends on ``on`` through a third group: searches from both meet, or one ends."""
        # After a cut all that it needs lies before it: so compile time is linear in the graph.
        sources, readers = {group}, {on}
        back = self._search(sources, readers, on, self._before, lambda current: self._cut(current.last) < on.first)
        forth = self._search(
            readers, sources, group, self._after, lambda current: self._cut(group.last) < current.first
        )
        return any(chain.from_iterable(zip(back, forth)))

    def _search(
        self,
        seen: set[LoopGroup],
        seen_from_end: set[LoopGroup],
        end: LoopGroup,
        beside: Callable[[LoopGroup], Iterator[LoopGroup]],
        is_beyond: Callable[[LoopGroup], bool],
    ) -> Iterator[bool]:
        """For each step of a search whether it comes by way of a third group to the end, or where its search was."""
        stack = [beside(begin) for begin in seen]
        while stack:
            current = next(stack[-1], None)
            if current is None:
                stack.pop()
            elif current is end:
                yield len(stack) > 1
            elif current in seen_from_end:
                yield True
            elif current in seen or is_beyond(current):
                yield False
            else:
                seen.add(current)
                stack.append(beside(current))
                yield False

    def _before(self, group: LoopGroup) -> Iterator[LoopGroup]:
        """The groups that a group reads from."""
        return (self.group[source] for source in group.sources)

    def _after(self, group: LoopGroup) -> Iterator[LoopGroup]:
        """The groups that read from a group, itself too."""
        for op in group.ops:
            for use in (use for result in op.results for use in result.uses):
                reader: Operation | None = use.operation
                while reader is not None and reader not in self.group:  # an operation in a body
                    reader = reader.parent_op()
                if reader is not None:
                    yield self.group[reader]

    def add(self, op: Operation, group: LoopGroup, axes: Axes, like: Operation) -> None:
        """Add an op without reductions to a group, at the position of ``like``; its result has these axes."""
        loops = operation_loops(op)
        assert loops is not None
        group.add(loops, tuple(axes[loops.result.index(i)] for i in range(len(loops.sizes))))
        group.ops.insert(0, op)
        group.sources |= self._sources(op).keys()
        group.read.pop(like.results[0], None)
        group.sources.discard(like)
        self.group[op] = group
        self.order[op] = self.order[like]

    def remove(self, op: Operation) -> None:
        """Remove an operation without uses."""
        group = self.group.pop(op)
        group.ops.remove(op)
        del group.axes[op], group.written[op.results[0]]
        erase_op(op)

    def ordered(self) -> list[LoopGroup]:
        """The groups in topological order, ties in the order of their first operator."""
        groups = [g for g in dict.fromkeys(self.group[op] for op in self.ops if op in self.group) if g.ops]
        for group in groups:
            group.sources = {s for s in group.sources if s in self.group and self.group[s] is not group}
        return in_order(groups, self.group, self.order)


def in_order(
    groups: Iterable[LoopGroup], of: dict[Operation, LoopGroup], order: dict[Operation, int]
) -> list[LoopGroup]:
    """The groups in topological order."""

    def sources(group: LoopGroup) -> Sequence[LoopGroup]:
        return [of[s] for s in sorted(group.sources, key=order.__getitem__) if of[s] is not group]

    done: dict[LoopGroup, None] = {}
    for group in groups:
        stack = [] if group in done else [(group, iter(sources(group)))]
        while stack:
            current, rest = stack[-1]
            source = next((s for s in rest if s not in done), None)
            if source is not None:
                stack.append((source, iter(sources(source))))
                continue
            done.setdefault(current)
            stack.pop()
    return list(done)
