"""In which order the loops of an operation write its result, so that who reads it needs no copy.

Some need the elements in a row: who returns a transposed result from the function, and a product that sums over an
axis that several axes of the result were collapsed into. If all who read a result see it in that one order, its loops
run in it; an elementwise operation passes the wish on to those that it reads itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects import func, tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.ir.structured import VIEWS, shape_of
from hybridc.transforms.fold_views_cuts import Loops
from hybridc.transforms.fold_views_layout import Pieces, Shape, by_axis, merged, row_major, split

Order = tuple[int, ...]


def result_orders(loops: Mapping[Operation, Loops], factors: Mapping[Operation, list[Shape]]) -> dict[Operation, Order]:
    """For operations whose result should be written in another order: the order of its axes, cut."""
    orders: dict[Operation, Order] = {}
    for op in reversed(list(loops)):
        result = op.results[0]
        if any(isinstance(use.operation, VIEWS) or use.operation in orders for use in result.uses):
            sizes = [n for loop in loops[op].places[-1] for n in factors[op][loop]]
            wishes = _Wishes(loops, factors, orders)
            wishes.see(result, merged(row_major(sizes)), shape_of(result))
            order = wishes.granted(sizes)
            if order is not None:
                orders[op] = order
    return orders


@dataclass
class _Wishes:
    """The orders in which one result is seen: by those who need it so, and by those who read any order."""

    loops: Mapping[Operation, Loops]
    factors: Mapping[Operation, list[Shape]]
    orders: Mapping[Operation, Order]
    needed: set[Pieces] = field(default_factory=lambda: set[Pieces]())
    seen: set[Pieces] = field(default_factory=lambda: set[Pieces]())

    def see(self, value: SSAValue, pieces: Pieces, shape: Shape) -> None:
        """All uses of a value, which is the result or a view of it."""
        axes = by_axis(pieces, shape)
        for use in value.uses:
            user = use.operation
            match user:
                case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                    self.see(user.results[0], pieces, shape_of(user.results[0]))
                case linalg.TransposeOp() if axes is not None:
                    turned = [piece for i in user.permutation.get_values() for piece in axes[i]]
                    self.see(user.results[0], merged(turned), shape_of(user.results[0]))
                case func.ReturnOp():
                    self.needed.add(pieces)
                case tensor.ExtractSliceOp():  # of any order
                    pass
                case _ if user in self.loops:
                    self._by_loops(user, use.index, pieces, shape)
                case _:
                    if axes is None or any(len(axis) > 1 for axis in axes):
                        self.needed.add(pieces)

    def _by_loops(self, user: Operation, index: int, pieces: Pieces, shape: Shape) -> None:
        loops, factors = self.loops[user], self.factors[user]
        places = loops.places[index]
        parts = split(pieces, [n for loop in places for n in factors[loop]])
        if parts is None:  # it needs a copy, unless the elements come in a row
            self.needed.add(pieces)
            return
        order = self.orders.get(user)
        if order is None or loops.product:
            self.seen.add(pieces)
            return
        wanted = [(loop, i) for loop in loops.places[-1] for i in range(len(factors[loop]))]
        rank = {wanted[at]: number for number, at in enumerate(order)}
        atoms = [(loop, i) for loop in places for i in range(len(factors[loop]))]
        last = len(rank)
        turned = sorted(zip(atoms, parts, strict=True), key=lambda each: rank.get(each[0], last))
        self.needed.add(merged(piece for _, piece in turned))

    def granted(self, sizes: list[int]) -> Order | None:
        """The one order that is needed, if nobody sees another, as places in the result's own; None if it is that."""
        if len(self.needed) != 1 or not self.seen <= self.needed:
            return None
        (pieces,) = self.needed
        order: list[int] = []
        for size, stride in pieces:
            inside = [i for i, (_, s) in enumerate(row_major(sizes)) if stride <= s < stride * size]
            if math.prod(sizes[i] for i in inside) != size:
                return None
            order += inside
        return None if order == list(range(len(sizes))) else tuple(order)
