"""The order in which results are written: the loops of operations, strided pieces of memory, and what uses request.

Some uses need contiguous elements: the return of a transposed result, and a contraction over an axis that several
axes of the result were collapsed into. If all uses agree on one order, the result's loops
run in it; an elementwise operation propagates the request to its own operands. Reads at affine or computed indices
walk through memory in the order of their axes, or of the loops if these are reordered (pooling between convolutions),
and a part of a concatenation lies in its order: what a convolution reads is laid out as that wants it, channels last.
Where something is convolved, uses that can read any order, such as sums over all pixels, do not count: what feeds them
and, through elementwise operations, a convolution, is laid out for the convolution.
Where nothing is convolved, gathers and concatenations copy what lies in another order: there it is little.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

from xdsl.dialects import func, tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, is_same
from hybridc.ir.structured import (
    KNOW_PLACES,
    VIEWS,
    affine_operands,
    is_loops,
    is_scaffold,
    loop_sizes,
    loops_of_extracts,
    places_of,
    shape_of,
)


@dataclass(frozen=True)
class OperandLoops:
    """The loops of an operation: their sizes, and the loops that index each operand."""

    sizes: Shape
    places: tuple[tuple[int, ...], ...]  # for the inputs, then the result
    summed: tuple[int, ...]  # reduction loops
    contraction: bool  # whether it sums products of two arrays
    affine: Mapping[int, tuple[AffineIndex, ...]] = field(default_factory=dict[int, tuple[AffineIndex, ...]])
    knows_places: bool = False  # its body has indices: its loops can be reordered and not split

    def cuttable(self, loop: int) -> bool:
        """Whether the loop may be split; those of a convolution may not, as its code is for its own axes."""
        if self.knows_places:
            return False
        if any(loop == i for indices in self.affine.values() for index in indices for i, _ in index.terms):
            return False
        return not (self.contraction and (self.affine or loop in self.summed))


def operand_loops(op: Operation) -> OperandLoops | None:
    """The loops of an operation that can be split and reordered; None for other operations."""
    if not is_loops(op):
        return None
    start = op.outputs[0].owner
    if len(op.outputs) > 1 or not isinstance(start, Operation) or not is_scaffold(start):
        return None
    affine = affine_operands(op)
    places = places_of(op)
    sizes = loop_sizes(op, places)
    if any(n <= 1 for n in sizes):
        return None
    summed = tuple(i for i in range(len(sizes)) if i not in places[-1])
    contraction = bool(summed) and len(op.inputs) > 1
    knows_places = any(inner.name in KNOW_PLACES for inner in op.body.block.ops)
    return OperandLoops(sizes, places, summed, contraction, affine, knows_places)


# --- views as strided pieces ------------------------------------------------------------------------------------------
# A view by reshapes, transposes and slices is a list of pieces (size, stride), in its own row-major order: nested loops
# over them visit its elements in order. Pieces of size 1 are dropped and neighbouring pieces that are contiguous
# are coalesced, so equal views have equal pieces, and inverse reshapes or transposes cancel. A
# contiguous array is a single piece.

Piece = tuple[int, int]  # size, stride
Pieces = tuple[Piece, ...]


def merged(pieces: Iterable[Piece], cut: Container[int] = ()) -> Pieces:
    """Coalesce pieces, and drop those of size 1.

    Before one that was ``cut``, elements are missing but at some sizes: it is apart, unless it is known that none are.
    """
    coalesced: list[Piece] = []
    for i, (size, stride) in enumerate(pieces):
        if size == 1:
            continue
        follows = is_same if i in cut else operator.eq
        if coalesced and follows(coalesced[-1][1], stride * size):
            coalesced[-1] = (coalesced[-1][0] * size, stride)
        else:
            coalesced.append((size, stride))
    return tuple(coalesced)


def row_major(sizes: Sequence[int]) -> list[Piece]:
    """One piece for each axis of a contiguous array."""
    pieces: list[Piece] = []
    stride = 1
    for n in reversed(sizes):
        pieces.append((n, stride))
        stride *= n
    return pieces[::-1]


def split_pieces(pieces: Sequence[Piece], sizes: Iterable[int]) -> list[Piece] | None:
    """Split pieces into these sizes; None if a size straddles pieces."""
    parts: list[Piece] = []
    rest = iter(pieces)
    left, stride = 1, 1
    for size in sizes:
        if left == 1:
            left, stride = next(rest)
        if left % size:
            return None
        left //= size
        parts.append((size, stride * left))
    return parts


def by_axis(pieces: Sequence[Piece], shape: Sequence[int]) -> list[list[Piece]] | None:
    """The pieces of each axis of a view of this shape; None if an axis ends inside a piece unevenly."""
    axes: list[list[Piece]] = []
    rest = iter(pieces)
    left, stride = 1, 1
    for size in shape:
        group: list[Piece] = []
        while size > 1:
            if left == 1:
                left, stride = next(rest)
            part = min(left, size)
            if left % part or size % part:
                return None
            left //= part
            size //= part
            group.append((part, stride * left))
        axes.append(group)
    return axes


def in_memory(pieces: Iterable[Piece]) -> list[int]:
    """The pieces' indices sorted by stride, the outermost first."""
    return [i for i, _ in sorted(enumerate(pieces), key=lambda pair: -pair[1][1])]


# --- requests ---------------------------------------------------------------------------------------------------------

Order = tuple[int, ...]


def convolves(block: Block) -> bool:
    """Whether one of the operations is a contraction at affine indices."""
    generics = (op for op in block.ops if isinstance(op, linalg.GenericOp) and len(op.inputs) == 2)
    return any(affine_operands(op) and len(op.iterator_types.data) > len(shape_of(op.results[0])) for op in generics)


def result_orders(
    loops: Mapping[Operation, OperandLoops],
    factors: Mapping[Operation, list[Shape]],
    saved: Container[int] = (),
    convolved: bool = False,
) -> dict[Operation, Order]:
    """The requested memory order of results, where it is another: a permutation of the split axes.

    Results of the function that are ``saved`` request none. ``convolved``: there are convolutions. A contraction at
    affine indices keeps its order: its last axis is what vectors are of.
    """
    orders: dict[Operation, Order] = {}
    for op in reversed([op for op, walk in loops.items() if not (walk.affine and walk.contraction)]):
        result = op.results[0]
        users = [use.operation for use in result.uses]
        if any(isinstance(u, VIEWS) or (_around(u) if isinstance(u, tensor.ExtractOp) else u) in orders for u in users):
            sizes = [n for loop in loops[op].places[-1] for n in factors[op][loop]]
            wishes = _Wishes(loops, factors, orders, saved, convolved)
            wishes.see(result, merged(row_major(sizes)), shape_of(result))
            order = wishes.granted(sizes)
            if order is not None:
                orders[op] = order
    return orders


def unrequested(
    loops: Mapping[Operation, OperandLoops],
    factors: Mapping[Operation, list[Shape]],
    orders: Mapping[Operation, Order],
    saved: Container[int],
) -> set[Operation]:
    """The elementwise operations whose results all uses take in any order."""
    free: set[Operation] = set()
    for op, walk in loops.items():
        if op in orders or walk.summed or walk.affine:
            continue
        sizes = [n for loop in walk.places[-1] for n in factors[op][loop]]
        wishes = _Wishes(loops, factors, orders, saved, convolved=True)
        wishes.see(op.results[0], merged(row_major(sizes)), shape_of(op.results[0]))
        if not wishes.needed and not wishes.walked:
            free.add(op)
    return free


def _around(extract: Operation) -> Operation:
    """The operation whose body an operation is in."""
    op = extract.parent_op()
    assert op is not None
    return op


def _walk_of_extract(extract: tensor.ExtractOp) -> tuple[Operation, list[list[int]]]:
    """The operation around an extract, and the loops that each index depends on, where it is one."""
    op = _around(extract)
    loops = next(loops for other, loops in loops_of_extracts(op) if other is extract)
    return op, [[] if i is None else [i] for i in loops]


@dataclass
class _Wishes:
    """The orders in which the uses of one result see it: required ones, and those of users that take any.

    ``walked`` are those of reads at affine or computed indices.
    """

    loops: Mapping[Operation, OperandLoops]
    factors: Mapping[Operation, list[Shape]]
    orders: Mapping[Operation, Order]
    saved: Container[int]
    convolved: bool = False
    needed: set[Pieces] = field(default_factory=lambda: set[Pieces]())
    seen: set[Pieces] = field(default_factory=lambda: set[Pieces]())
    walked: set[Pieces] = field(default_factory=lambda: set[Pieces]())

    def see(self, value: SSAValue, pieces: Pieces, shape: Shape) -> None:
        """Collect the uses of a value, which is the result or a view of it."""
        axes = by_axis(pieces, shape)
        for use in value.uses:
            user = use.operation
            match user:
                case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                    self.see(user.results[0], pieces, shape_of(user.results[0]))
                case linalg.TransposeOp() if axes is not None:
                    transposed = [piece for i in integers_of(user.permutation) for piece in axes[i]]
                    self.see(user.results[0], merged(transposed), shape_of(user.results[0]))
                case func.ReturnOp() if use.index in self.saved:
                    pass
                case func.ReturnOp():
                    self.needed.add(pieces)
                case tensor.ExtractSliceOp():  # of any order
                    pass
                case tensor.ExtractOp() if self.convolved:
                    self._by_indices(pieces, axes, *_walk_of_extract(user))
                case tensor.ConcatOp() if self.convolved:
                    self.walked.add(pieces)
                case _ if use.index in (affine := affine_operands(user)):
                    loops = [[i for i, _ in index.terms] for index in affine[use.index]]
                    self._by_indices(pieces, axes, user, loops)
                case _ if user in self.loops:
                    self._by_loops(user, use.index, pieces, shape)
                case _:
                    if axes is None or any(len(axis) > 1 for axis in axes):
                        self.needed.add(pieces)

    def _by_loops(self, user: Operation, index: int, pieces: Pieces, shape: Shape) -> None:
        loops, factors = self.loops[user], self.factors[user]
        places = loops.places[index]
        parts = split_pieces(pieces, [n for loop in places for n in factors[loop]])
        if parts is None:  # it needs a contiguous copy
            self.needed.add(pieces)
            return
        order = self.orders.get(user)
        if order is None or loops.contraction:
            (self.needed if loops.contraction and loops.affine else self.seen).add(pieces)
            return
        wanted = [(loop, i) for loop in loops.places[-1] for i in range(len(factors[loop]))]
        rank = {wanted[at]: position for position, at in enumerate(order)}
        atoms = [(loop, i) for loop in places for i in range(len(factors[loop]))]
        last = len(rank)
        reordered = sorted(zip(atoms, parts, strict=True), key=lambda pair: rank.get(pair[0], last))
        self.needed.add(merged(piece for _, piece in reordered))

    def _by_indices(
        self, pieces: Pieces, axes: list[list[Piece]] | None, user: Operation, loops: Sequence[Sequence[int]]
    ) -> None:
        """A read at computed indices, each of which depends on some loops: it walks in the order of the loops."""
        order = self.orders.get(user)
        if order is not None and axes is not None:
            written = self.loops[user].places[-1]
            rank = {written[at]: position for position, at in enumerate(order)}
            first = [min((rank[i] for i in depends if i in rank), default=-1) for depends in loops]
            if -1 not in first:
                axis_order = sorted(range(len(axes)), key=first.__getitem__)
                pieces = merged(piece for i in axis_order for piece in axes[i])
        self.walked.add(pieces)

    def granted(self, sizes: list[int]) -> Order | None:
        """The required order, if all uses agree, as a permutation; None if it is the result's own."""
        needed = self.walked or self.needed
        if len(needed) != 1 or not (self.walked or self.convolved or self.seen <= needed):
            return None
        (pieces,) = needed
        order: list[int] = []
        for size, stride in pieces:
            inside = [i for i, (_, s) in enumerate(row_major(sizes)) if _is_inside(s, size, stride)]
            if math.prod(sizes[i] for i in inside) != size:
                return None
            order += inside
        return None if order == list(range(len(sizes))) else tuple(order)


def _is_inside(other: int, size: int, stride: int) -> bool:
    """Whether an axis with another stride is a part of a piece: the innermost one, even of a piece of one element."""
    return is_same(other, stride) or stride <= other < stride * size
