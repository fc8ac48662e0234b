"""What a tile program with a contraction means, element by element, in double precision: of a printer this has nothing.

Sizes of tiles, parts and vectors do not count, but the pieces that sums are cut into: these are different results.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from hybridc.ir.tiles.tile_program import TileConstant, TileContract, TileLoad, TileMap, TileStore
from tests.lower.evaluate import ORDERED, SCALAR


class Meaning:
    """Runs a program of one sweep, given the numbers that its code is given."""

    def __init__(self, program, numbers):
        self.program, numbers = program, iter(numbers)
        self.sizes = [next(numbers) if n is None else n for n in program.sizes]
        self.strides = [next(numbers) for _ in range(program.strides)]
        self.piece = next(numbers) if program.pieces else None
        assert list(numbers) == []
        (sweep,) = program.sweeps
        assert not sweep.axes
        self.statements = sweep.statements
        (self.over,) = (s.over for s in self.statements if isinstance(s, TileContract))

    def run(self, arrays):
        """Write the results into arrays of the program's buffers; how many elements of each are written."""
        buffers = {b.name: a.ravel() for b, a in zip(self.program.buffers, arrays, strict=True)}
        written = {name: np.zeros(a.size, int) for name, a in buffers.items()}
        values = {}
        for s in self.statements:
            match s:
                case TileLoad():
                    values[s.name] = buffers[s.address.buffer].astype("float64")[self.at(s.address)]
                case TileContract():
                    values[s.name] = self.sums(values[s.left] * values[s.right])
                case TileConstant():
                    values[s.name] = np.float64(s.constant)
                case TileMap():
                    values[s.name] = mapped(s.op, [values[v] for v in s.operands])
                case TileStore():
                    for place, value in self.stored(s, values[s.value]):
                        buffers[s.address.buffer][place] = value
                        np.add.at(written[s.address.buffer], place, 1)
                case _:
                    raise AssertionError(f"no meaning: {s}")
        return written

    def index(self, axis):
        """The index along an axis, in an array that has all of them."""
        shape = [1] * len(self.sizes)
        shape[axis] = self.sizes[axis]
        return np.arange(self.sizes[axis]).reshape(shape)

    def factor(self, factor):
        sizes = math.prod(self.sizes[a] for a in factor.sizes)
        return factor.constant * sizes * (1 if factor.stride is None else self.strides[factor.stride])

    def at(self, address):
        """The element at each index."""
        terms = [self.index(axis) * self.factor(f) for axis, f in address.terms]
        return sum(terms, sum(map(self.factor, address.offset)))

    def sums(self, terms):
        """One sum for each index along the other axes, or for each piece."""
        terms = np.broadcast_to(terms, self.sizes)
        parted = [a for a in self.program.parallel if a in self.over]
        if not parted:
            return terms.sum(self.over, keepdims=True)
        (dim,) = (dim for dim in self.program.tiles if {*dim.axes} & {*parted})
        assert dim.axes == tuple(parted) == self.program.parallel[: len(parted)]
        whole = terms.sum(tuple(a for a in self.over if a not in parted), keepdims=True)
        rows = list(itertools.product(*(range(self.sizes[a]) for a in parted)))
        pieces = []
        for first in range(0, len(rows), self.piece):
            total = 0.0
            for row in rows[first : first + self.piece]:
                total = total + whole[slices(len(self.sizes), dict(zip(parted, row, strict=True)))]
            pieces.append(total)
        return pieces

    def stored(self, store, value):
        """Where values are put: partial results one after the other."""
        place = self.at(store.address)
        if not isinstance(value, list):
            assert all(n == 1 or self.sizes[a] == n for a, n in enumerate(np.shape(value)))
            yield np.broadcast_arrays(place, value)
            return
        size = math.prod(self.sizes[a] for a in store.address.axes)
        for number, part in enumerate(value):
            yield np.broadcast_arrays(place + number * size, part)


def slices(rank, index):
    """One index along some of the axes, and all along the others."""
    return tuple(slice(index[a], index[a] + 1) if a in index else slice(None) for a in range(rank))


def mapped(op, operands):
    """An operation of arith or math in double precision."""
    name, _, predicate = op.partition(" ")
    if name in ("arith.extf", "arith.truncf"):
        return operands[0]
    if name == "arith.cmpf":
        assert predicate[0] == "o" or predicate == "une"
        return ORDERED[predicate[1:]](*operands)
    if name == "math.fma":
        return operands[0] * operands[1] + operands[2]
    return SCALAR[name](*operands)
