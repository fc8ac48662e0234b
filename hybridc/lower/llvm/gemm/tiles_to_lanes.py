"""Lower a tile program whose vectors follow the same axes in all arrays to loops over vectors.

Its contraction is one of :mod:`~hybridc.transforms.schedules.schedule_lanes`. One dimension lies in vectors. Along the
others of the result, all of a tile is in registers; terms are in straight-line code where their dimension has no parts,
and in loops elsewhere. What an operand's vector is follows from its address: contiguous elements; one element for all
lanes; or, of an operand that does not follow the innermost axis of the lanes, elements of several groups, each for all
lanes of its group.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.structured_builder import ELEMENT_TYPES
from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Factor,
    TileContract,
    TileDim,
    TileLoad,
    TileProgram,
    addresses_of,
)
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.gemm.vector_registers import Vectors
from hybridc.lower.llvm.loops.loop_builder import Index
from hybridc.lower.llvm.loops.program_writer import PIECE, Place, ProgramWriter
from hybridc.transforms.schedules.matmul_shape import TOTAL

# The offset of an element in straight-line code: for strides that the code is given, how many times each is in it.
Multiples = tuple[tuple[int, int], ...]
# What stands for no stride, but a number: before all strides, as constants are added first.
_NO_STRIDE = -1
# The offsets of the first elements of what is worked on, by their addresses.
Places = Mapping[Address, Index]


class _OperandLanes(NamedTuple):
    """An operand's address, and how its lanes lie.

    They hold one of ``size`` elements for each group, which the ``axis`` chooses, if there are several; None if they
    are contiguous, and 0 if all lanes are of one group.
    """

    address: Address
    size: int | None
    axis: int | None


@dataclass(frozen=True)
class _Unrolled:
    """An axis of which straight-line code has ``count`` indices, each a ``step`` after the one before."""

    axis: int
    count: int
    step: int = 1


class _LaneShape:
    """The roles of a program's axes and dimensions."""

    def __init__(self, program: TileProgram) -> None:
        self.sizes = program.sizes
        statements = program.sweeps[0].statements
        (contract,) = (s for s in statements if isinstance(s, TileContract))
        self.contract, self.after = contract, statements[statements.index(contract) + 1 :]
        self.vectors = next(dim for dim in program.tiles if dim.lanes > 1)
        self.lanes, self.part = self.vectors.lanes, self.vectors.parts[-1][0]
        self.group, *inner = self.vectors.axes
        self.width = math.prod(_known(program.sizes[a]) for a in inner)
        self.groups = self.lanes // self.width
        loads = {s.name: s.address for s in statements if isinstance(s, TileLoad)}
        self.operands = [self._operand(loads[name]) for name in (contract.left, contract.right)]
        dim_of = {axis: dim for dim in program.tiles for axis in dim.axes}
        beside = [_Unrolled(self.group, self.part // self.lanes, self.lanes)]
        results = [dim for dim in program.tiles if dim is not self.vectors and not {*dim.axes} & {*contract.over}]
        self.results = [x for x in (*beside, *map(self._at_once, results)) if x.count > 1]
        self.around = [(a, self._at_once(dim_of[a]).count) for a in program.parallel if a not in contract.over]
        # Terms in straight-line code, innermost first; of the loops the innermost may have several indices in it, too.
        self.whole = [self._at_once(dim_of[a]) for a in reversed(contract.over) if not dim_of[a].parts]
        loops = list(dict.fromkeys([dim_of[a] for a in contract.over if dim_of[a].parts]))
        self.inner = loops.pop() if loops and loops[-1].walk == "whole" and len(loops[-1].axes) == 1 else None
        self.outer = loops.pop() if loops else None

    def _at_once(self, dim: TileDim) -> _Unrolled:
        (axis,) = dim.axes
        assert isinstance(dim.block, int), f"all of {dim.block} elements in straight-line code"
        return _Unrolled(axis, dim.block)

    def _operand(self, address: Address) -> _OperandLanes:
        """How the lanes of an operand lie."""
        size = self.group_size(address)
        chosen = [a for a, f in address.terms if f == Factor() and a not in self.vectors.axes] if size else []
        return _OperandLanes(address, size, chosen[0] if chosen else None)

    def group_size(self, address: Address) -> int | None:
        """How many elements of a group there are at an address, one of which all lanes hold; None if they have each."""
        steps = {a: f.constant for a, f in address.terms if a in self.vectors.axes}
        if len(steps) == len(self.vectors.axes):
            sizes = [1, *(_known(self.sizes[a]) for a in self.vectors.axes[1:])]
            assert tuple(steps.values()) == row_major(tuple(sizes)), f"lanes that are not contiguous: {address}"
            return None
        return steps.get(self.group, 0)


def _known(size: int | None) -> int:
    assert size is not None, "a vector of as many elements as code is given"
    return size


class LaneWriter(ProgramWriter):
    """Writes a tile program whose vectors follow the same axes in all arrays."""

    def __init__(self, program: TileProgram, module: ModuleText) -> None:
        super().__init__(program, module)
        self.shape = _LaneShape(program)
        self.lanes, self.element = self.shape.lanes, ELEMENT_TYPES[program.buffers[0].kind]
        self.v = Vectors(self.b, self.element, self.lanes)
        self.partial = {b.name for b in program.pieces}
        self.addresses = [a for s in program.sweeps[0].statements for a in addresses_of(s)]
        self.points = _indices(self.shape.results)

    def write_body(self) -> None:
        with self.b.count(self.b.low, self.b.high) as point:
            self._iteration(point)

    def _iteration(self, point: Index) -> None:
        """The tile of the grid with an index; along the first axes there are pieces of terms."""
        at: Places = dict.fromkeys(self.addresses, self.b.index(0))
        for axis, block in reversed(self.shape.around):
            tiles = self.sizes[axis].ceildiv(block) if block > 1 else self.sizes[axis]
            index = point % tiles
            index = (index * block).least(self.sizes[axis] - block) if block > 1 else index
            at, point = self._along(at, axis, index), point // tiles
        rows = self._rows(point)
        at = {a: x + point * self._elements(a) if a.buffer in self.partial else x for a, x in at.items()}
        step, size = self.shape.part // self.shape.width, self.sizes[self.shape.group]
        with self.b.count(0, size, step) as group:
            self._results(self._along(at, self.shape.group, group.least(size - step)), rows)

    def _rows(self, piece: Index) -> tuple[Index, Index]:
        """The indices of the outer loops over terms, counted as one."""
        axes = () if self.shape.outer is None else self.shape.outer.axes
        whole = (
            functools.reduce(lambda x, a: x * self.sizes[a], axes[1:], self.sizes[axes[0]]) if axes else self.b.index(1)
        )
        if PIECE not in self.blocks:
            return self.b.index(0), whole
        size = self.blocks[PIECE]
        first = piece * size
        return first, (first + size).least(whole)

    def _elements(self, address: Address) -> Index:
        """The elements of a partial result."""
        first, *others = [self.sizes[a] for a in address.axes]
        return functools.reduce(lambda x, size: x * size, others, first)

    # --- places --------------------------------------------------------------------------------------------

    def _along(self, at: Places, axis: int, index: Index) -> Places:
        """The places at an index along an axis."""
        return {a: self._moved(x, [f for of, f in a.terms if of == axis], index) for a, x in at.items()}

    def _moved(self, place: Index, factors: Sequence[Factor], index: Index) -> Index:
        for factor in factors:
            stride = self.b.index(1) if factor.stride is None else self.strides[factor.stride]
            place = place + index * (stride * factor.constant)
        return place

    def _multiples(self, address: Address, indices: Mapping[int, int], without: int | None = None) -> Multiples:
        """How far an element is from the first one at these indices, but that along one of the axes."""
        multiples: dict[int, int] = {}
        for axis, factor in address.terms:
            if axis != without and axis in indices:
                stride = _NO_STRIDE if factor.stride is None else factor.stride
                multiples[stride] = multiples.get(stride, 0) + factor.constant * indices[axis]
        return tuple(sorted((stride, count) for stride, count in multiples.items() if count))

    def _place(self, at: Index, multiples: Multiples) -> Index:
        for stride, count in multiples:
            at = at + (count if stride == _NO_STRIDE else self.strides[stride] * count)
        return at

    # --- sums ----------------------------------------------------------------------------------------------

    def _results(self, at: Places, rows: tuple[Index, Index]) -> None:
        """One vector of each result in registers, over the rows of terms."""
        sums = [self.v.zero] * len(self.points)
        if self.shape.outer is None:
            sums = self._inner_loop(at, sums)
        else:
            with self.b.carry(*rows, sums) as (row, loop):
                loop.next = self._row(at, self.shape.outer.axes, row, loop.carried)
            sums = loop.carried
        for indices, value in zip(self.points, sums, strict=True):
            place = functools.partial(self._element, at, indices)
            self.write_epilogue(self.shape.after, TOTAL, value, self.shape.vectors.axes, place)

    def _element(self, at: Places, indices: Mapping[int, int], address: Address) -> Place:
        return self.arrays[address.buffer], self._place(at[address], self._multiples(address, indices))

    def _row(self, at: Places, axes: Axes, index: Index, sums: Sequence[LLVMValue]) -> list[LLVMValue]:
        """Add the terms at an index of the outer loops."""
        for axis in reversed(axes):
            own = index if axis == axes[0] else index % self.sizes[axis]
            at, index = self._along(at, axis, own), index if axis == axes[0] else index // self.sizes[axis]
        return self._inner_loop(at, sums)

    def _inner_loop(self, at: Places, sums: Sequence[LLVMValue]) -> list[LLVMValue]:
        """Add the terms along the innermost loop: several at a time, then those that are left."""
        whole, inner = self.shape.whole, self.shape.inner
        if inner is None:
            return self._straight(at, sums, whole)
        (axis,), (some, *rest) = inner.axes, inner.parts[-1]
        size = self.sizes[axis]

        done = size - size % some if rest else size
        terms = [*whole, _Unrolled(axis, some)] if rest else whole
        with self.b.carry(0, done, sums, some if rest else 1) as (index, loop):
            loop.next = self._straight(self._along(at, axis, index), loop.carried, terms)
        if rest:
            with self.b.carry(done, size, loop.carried) as (index, loop):
                loop.next = self._straight(self._along(at, axis, index), loop.carried, whole)
        return loop.carried

    def _straight(self, at: Places, sums: Sequence[LLVMValue], terms: Sequence[_Unrolled]) -> list[LLVMValue]:
        """Add all terms that are unrolled; what was loaded serves all sums that read it."""
        loaded: dict[object, LLVMValue] = {}
        sums = list(sums)
        for term in _indices(terms[::-1]):
            for i, point in enumerate(self.points):
                x, y = [self._operand(operand, at, {**point, **term}, loaded) for operand in self.shape.operands]
                sums[i] = self.v.fma(x, y, sums[i])
        return sums

    def _operand(
        self, operand: _OperandLanes, at: Places, indices: Mapping[int, int], loaded: dict[object, LLVMValue]
    ) -> LLVMValue:
        """An operand's vector: contiguous, or elements of the groups for all of their lanes."""
        multiples = self._multiples(operand.address, indices, operand.axis)
        chosen = 0 if operand.axis is None else indices[operand.axis]
        key = (operand.address, multiples, chosen)
        if key not in loaded:
            place = self._place(at[operand.address], multiples)
            loaded[key] = self._load(operand, place, chosen, loaded, (operand.address, multiples))
        return loaded[key]

    def _load(
        self, operand: _OperandLanes, place: Index, chosen: int, loaded: dict[object, LLVMValue], groups: object
    ) -> LLVMValue:
        """A vector that was not loaded; elements of all ``groups`` may have been."""
        array, shape = self.arrays[operand.address.buffer], self.shape
        if operand.size is None:
            return self.v.load(array, place)
        if shape.groups == 1 or operand.size == 0:
            return self.v.everywhere(self.b.load_at(array, place + chosen))
        if groups not in loaded:
            loaded[groups] = Vectors(self.b, self.element, shape.groups * operand.size).load(array, place)
        lanes = [i // shape.width * operand.size + chosen for i in range(shape.lanes)]
        return self.v.shuffle(loaded[groups], loaded[groups], lanes)


def _indices(unrolled: Sequence[_Unrolled]) -> list[dict[int, int]]:
    """The index along each of these axes, for all that straight-line code has."""
    return [
        {axis.axis: index * axis.step for axis, index in zip(unrolled, point, strict=True)}
        for point in np.ndindex(*(axis.count for axis in unrolled))
    ]
