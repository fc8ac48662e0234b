"""Statements of tile programs in Triton's language: indices, masks, loads, elementwise ops, reductions, stores.

A value is a block with a dimension for each of the program's tiles, or for those that its tile lies on; along what it
does not follow it has one element, so that values broadcast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from hybridc.dtypes import DType
from hybridc.errors import UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.ir.scalars import constant_as, neutral_of
from hybridc.ir.structured_builder import kind_dtype
from hybridc.ir.tiles.tile_program import (
    LOOPS,
    Address,
    Axes,
    Factor,
    Statement,
    TileCarry,
    TileConstant,
    TileContract,
    TileCount,
    TileDim,
    TileGather,
    TileIndex,
    TileInside,
    TileLoad,
    TileMap,
    TileProgram,
    TileReduce,
    TileStore,
    TileUpdate,
    on_of,
)
from hybridc.lower.triton.expressions import ops
from hybridc.lower.triton.expressions.ops import Term, triton_literal
from hybridc.lower.triton.expressions.statements import INDEX, compute, reduce
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.triton_function import triton_type

Sizes = tuple[int | None, ...]
# The dimensions of a block: which of the program's each is, None where it has one element.
Sides = tuple[int | None, ...]
_SINGLE = np.dtype(np.float32)


@dataclass(frozen=True)
class Dim:
    """A dimension of blocks: its index runs over axes, in row-major order.

    ``block`` is how many elements a block has along it, a constant of the kernel or a literal; where that does not
    divide the ``extent``, it is ``masked``.
    """

    name: str
    axes: Axes
    extent: str
    block: str
    masked: bool


class TilePrinter:
    """Writes the statements of a program, on blocks that have a dimension for each of its tiles, called by ``names``.

    ``dtypes`` are those of the buffers, by the names of their pointers. Along dimensions that only ``loops`` walk, a
    block that is at hand ``between`` them has been carried, and all its elements are there.
    """

    def __init__(
        self, program: TileProgram, dtypes: Mapping[str, DType], w: SourceWriter, names: Sequence[str] = "ijklmnopq"
    ) -> None:
        self.sizes, self.dtypes, self.w = program.sizes, dtypes, w
        self.dims = tuple(self._dim(name, tile) for name, tile in zip(names, program.tiles, strict=False))
        self.dim_of = {a: i for i, d in enumerate(self.dims) for a in d.axes}
        self.every: Sides = tuple(range(len(self.dims)))
        orders = (on_of(s) for sweep in program.sweeps for s in sweep.statements)
        self.lie = list(dict.fromkeys(on or self.every for on in orders if on is not None)) or [self.every]
        self.loops = self.between = frozenset(i for i, tile in enumerate(program.tiles) if tile.walk in LOOPS)
        self.index: dict[int, str] = {}  # of axes that lie along no dimension
        self.spread: dict[tuple[int, str], str] = {}  # of the others, as it is spread along a side of blocks
        self.names: dict[tuple[int, str], str] = {}  # and of dimensions
        self.first: dict[int, str] = {}  # where the blocks of dimensions begin
        self.valid: str | None = None  # the name of what says which elements there are, if it has one
        self.partial: dict[str, str] = {}  # where in its buffer this program's partial result is
        self.known: dict[str, Term] = {}
        self.sides: dict[str, Sides] = {}  # of values

    def _dim(self, name: str, tile: TileDim) -> Dim:
        """Along an axis of one element nothing is walked, but in blocks of more; a loop may take one at a time."""
        axes = () if tile.walk in LOOPS and tile.block == 1 else tile.axes
        walked = tuple(a for a in axes if self.sizes[a] != 1) or (axes if tile.masked else ())
        return Dim(name, walked, self.size(tile.axes), str(tile.block), tile.masked)

    # --- sizes and indices ---------------------------------------------------------------------------------

    def size(self, axes: Iterable[int]) -> str:
        """How many elements axes have."""
        return factor_text(extent(self.sizes, axes))

    def shape(self, sides: Sides) -> str:
        """The shape of a block with these sides."""
        return f"[{', '.join('1' if i is None else self.dims[i].block for i in sides)}]"

    def places(self, position: int, first: str) -> None:
        """Write the index along a dimension, ``first`` and what is counted here, and that along each of its axes."""
        dim, w = self.dims[position], self.w
        self.first[position] = first.removesuffix(" + ")
        spreads = dict.fromkeys(_spread(position, on) for on in self.lie if position in on)
        for i, spread in enumerate(spreads or [_spread(position, self.every)]):
            name = dim.name if i == 0 else f"{dim.name}_down" if spread.startswith("[:") else f"{dim.name}_across"
            self.names[position, spread] = name
            w.line(f"{name} = {first}tl.arange(0, {dim.block}){spread}")
            rest = name
            for axis in reversed(dim.axes[1:]):
                self.spread[axis, spread] = w.let(f"{name}_{axis}", f"{rest} % {self.size([axis])}")
                rest = w.let("rest", f"{rest} // {self.size([axis])}")
            if dim.axes:
                self.spread[dim.axes[0], spread] = rest

    def point(self, axes: Axes, rest: str) -> None:
        """Write the index along each of some axes: each program has one index of each, which ``rest`` counts."""
        for axis in reversed(axes[1:]):
            rest = self.w.let("rest", rest)
            self.index[axis] = self.w.let(f"at_{axis}", f"{rest} % {self.size([axis])}")
            rest = f"{rest} // {self.size([axis])}"
        if axes:
            self.index[axes[0]] = self.w.let(f"at_{axes[0]}", rest)

    def dims_of(self, axes: Iterable[int]) -> frozenset[int]:
        """The dimensions that axes lie along."""
        return frozenset(self.dim_of[a] for a in axes if a in self.dim_of)

    def sides_of(self, dims: Set[int], on: Sides = ()) -> Sides:
        """The sides of a block that follows dimensions."""
        return tuple(i if i in dims else None for i in on or self.every)

    def mask(self, dims: Iterable[int], on: Sides = ()) -> str | None:
        """Which elements of a block that follows these dimensions there are; None if all are there."""
        masked = [i for i in sorted({*dims} - self.between) if self.dims[i].masked]
        if not masked:
            return None
        return self.valid or " & ".join(f"({self.place(i, on)} < {self.dims[i].extent})" for i in masked)

    def place(self, dim: int, on: Sides = ()) -> str:
        """The index along a dimension."""
        return self.names.get((dim, _spread(dim, on or self.every)), self.dims[dim].name)

    def at(self, axis: int, on: Sides = ()) -> str:
        """The index along an axis."""
        key = (axis, _spread(self.dim_of[axis], on or self.every)) if axis in self.dim_of else None
        return self.spread[key] if key in self.spread else self.index.get(axis) or self.origin(on)

    def offset(self, address: Address, on: Sides = ()) -> str:
        """The offset of a block of elements; nothing if it follows no axis. What loops do not change comes first."""
        left = [(a, f) for a, f in address.terms if self.sizes[a] != 1 or a in self.dim_of]
        terms: list[tuple[bool, str]] = []
        while left:
            dim = next((i for i, d in enumerate(self.dims) if self._is_whole(d, left)), None)
            (axis, factor), count = left[0], 1
            if dim is not None:
                count = len(self.dims[dim].axes)
                factor = left[count - 1][1]
            index, left = self.at(axis, on) if dim is None else self.place(dim, on), left[count:]
            step = factor_text(factor)
            terms.append((self.dim_of.get(axis) in self.loops, index if step == "1" else f"{index} * {step}"))
        terms.sort(key=lambda term: term[0])
        return " + ".join([*(text for _, text in terms), *map(factor_text, address.offset)])

    def _is_whole(self, dim: Dim, terms: Sequence[tuple[int, Factor]]) -> bool:
        """Whether elements follow each other along all of a dimension as its index counts them."""
        count = len(dim.axes)
        if not count or [a for a, _ in terms[:count]] != [*dim.axes]:
            return False
        _, last = terms[count - 1]
        steps = (times(last, extent(self.sizes, dim.axes[i + 1 :])) for i in range(count))
        return [f for _, f in terms[:count]] == [*steps]

    def origin(self, on: Sides = ()) -> str:
        """An offset of zero, of a block with one element."""
        return f"tl.zeros({self.shape((None,) * len(on or self.every))}, tl.int32)"

    # --- statements ----------------------------------------------------------------------------------------

    def statement(self, s: Statement) -> None:
        """Write a statement."""
        match s:
            case TileMap():
                value = compute(s.op, [self.known[v] for v in s.operands], s.kind, self.w, s.rough)
                self._know(s.name, value, *(self.sides[v] for v in s.operands))
            case TileLoad():
                self._load(s)
            case TileStore():
                self._store(s)
            case TileConstant():
                self._know(s.name, ops.number(s.constant, kind_dtype(s.kind)))
            case TileIndex():
                self._know(s.name, Term(self.at(s.axis, s.on), INDEX), self.sides_of(self.dims_of([s.axis]), s.on))
            case TileGather():
                terms = [(self.known[v].text, factor_text(f)) for v, f in s.terms if f.constant]
                offset = " + ".join(i if f == "1" else f"{i} * {f}" for i, f in terms)
                sides = joined_sides(self.sides[v] for v, _ in s.terms)
                self._know(s.name, self._loaded(s.buffer, offset, self.mask(_followed(sides), sides)), sides)
            case TileReduce():
                self._reduce(s)
            case TileInside():
                self._inside(s)
            case TileContract():
                self._contract(s)
            case TileCarry():
                sides, dtype = self.sides_of(self.dims_of(s.axes), s.on), kind_dtype(s.kind)
                full = f"tl.full({self.shape(sides)}, {triton_literal(s.start, dtype)}, {triton_type(dtype)})"
                self._know(s.name, Term(self.w.let("total", full), dtype), sides)
            case TileUpdate():
                carried = self.known[s.name]
                self.w.line(f"{carried.text} = {self.known[s.value].as_dtype(carried.dtype).block}")
            case TileCount():
                self._know(s.name, Term(self.w.let("here", self._count(s)), INDEX))
            case _:
                raise UnsupportedError(f"triton: {type(s).__name__} is about elements, not about whole tiles")

    def _know(self, name: str, value: Term, *sides: Sides) -> None:
        self.known[name] = value
        self.sides[name] = joined_sides(sides)

    # --- memory --------------------------------------------------------------------------------------------

    def _load(self, s: TileLoad) -> None:
        sides, buffer = self.sides_of(self.dims_of(s.address.axes), s.on), s.address.buffer
        if s.other is None:
            block = self._loaded(buffer, self.offset(s.address, s.on), self.mask(_followed(sides), sides))
        else:
            ends = zip(s.on, s.limits, strict=True) if s.limits else ()
            masks = [f"({self.place(i, s.on)} < {end})" for i, end in ends if end is not None and i in sides]
            other = f", other={triton_literal(s.other, self.dtypes[buffer])}" if masks else ""
            block = self._loaded(buffer, self.offset(s.address, s.on), " & ".join(masks), other)
        self._know(s.name, block, sides)

    def _loaded(self, pointer: str, offset: str, mask: str | None, other: str = "") -> Term:
        where = f"{pointer} + {offset}" if offset else pointer
        text = f"tl.load({where}{f', mask={mask}' if mask else ''}{other})"
        return Term(self.w.let(f"{pointer}_block", text), self.dtypes[pointer])

    def _store(self, s: TileStore) -> None:
        """An offset that follows no dimension is that of a block with one element."""
        buffer, dims = s.address.buffer, self.dims_of(s.address.axes)
        offset = self.offset(s.address, s.on)
        if not dims:
            offset = f"{offset} + {self.origin(s.on)}" if offset else self.origin(s.on)
        if buffer in self.partial:
            size = self.size(s.address.axes)
            offset = f"{self.partial[buffer]}{f' * {size}' if size != '1' else ''} + {offset}"
        value = self.known[s.value].as_dtype(self.dtypes[buffer])
        mask = self.mask(dims, s.on)
        self.w.line(f"tl.store({buffer} + {offset}, {value.block}{f', mask={mask}' if mask else ''})")

    # --- reductions and contractions -----------------------------------------------------------------------

    def _reduce(self, s: TileReduce) -> None:
        """Write a reduction, in which what is masked counts as the identity."""
        over, value, sides = self.dims_of(s.over), self.known[s.operand], self.sides[s.operand]
        if not over <= {*sides}:
            sides = self.sides_of(over | _followed(sides))
        dtype = value.dtype
        start, neutral = constant_as(s.start, dtype), neutral_of(s.op, dtype)
        name, mask = f"tl.broadcast_to({value.block}, {self.shape(sides)})", self.mask(over, sides)
        if mask is not None and not s.filled:
            name = f"tl.where({mask}, {name}, {triton_literal(neutral, dtype)})"
        name = self.w.let("part", name)
        for dim in sorted(over):
            name = reduce(s.op, name, sides.index(dim), dtype, self.w)
        total = Term(name, dtype)
        if start != neutral:
            total = compute(s.op, [total, ops.number(start, dtype)], s.kind, self.w).as_dtype(dtype)
        self._know(s.name, total, tuple(None if i in over else i for i in sides))

    def _inside(self, s: TileInside) -> None:
        value, sides = self.known[s.value], self.sides[s.value]
        mask = self.mask(self.dims_of(s.axes), sides)
        if mask is not None:
            other = ops.number(s.other, value.dtype).argument(True)
            value = Term(self.w.let("shown", f"tl.where({mask}, {value.block}, {other})"), value.dtype)
            sides = joined_sides([sides, self.sides_of(self.dims_of(s.axes), sides)])
        self._know(s.name, value, sides)

    def _contract(self, s: TileContract) -> None:
        """The dimension that is summed is the second of the left operand, and the first of the right one."""
        (over,) = self.dims_of(s.over)
        sides = [self.sides[s.left], self.sides[s.right]]
        kept = [next(i for i in of if i not in (over, None)) for of in sides]
        a, b = (
            self.known[v].text if of.index(over) == at else f"tl.trans({self.known[v].text})"
            for v, of, at in zip((s.left, s.right), sides, (1, 0), strict=True)
        )
        arguments = [a, b] + ([] if s.accumulator is None else [self.known[s.accumulator].text])
        if self.known[s.left].dtype == _SINGLE:
            arguments.append(f'input_precision="{"tf32" if s.rounded else "ieee"}"')
        dtype = kind_dtype(s.kind)
        text = f"tl.dot({', '.join(arguments)}, out_dtype={triton_type(dtype)})"
        self._know(s.name, Term(self.w.let("product", text), dtype), tuple(kept))

    def _count(self, s: TileCount) -> str:
        dims = self.dims_of(s.axes)
        if not dims:
            return "tl.full([], 1, tl.int64)"
        (position,) = dims
        dim = self.dims[position]
        if not dim.masked:
            return f"tl.full([], {dim.block}, tl.int64)"
        return f"tl.minimum(tl.maximum({dim.extent} - ({self.first[position]}), 0), {dim.block})"


def _spread(dim: int, on: Sides) -> str:
    """How the index along a dimension is spread in a block that lies on some."""
    around = ", ".join(":" if i == dim else "None" for i in on)
    return f"[{around}]" if len(on) > 1 else ""


def _followed(sides: Sides) -> set[int]:
    return {i for i in sides if i is not None}


def joined_sides(sides: Iterable[Sides]) -> Sides:
    """The sides of an operation's result: each operand has all of these sides or, as a scalar, none."""
    return tuple(next((i for i in dims if i is not None), None) for dims in itertools.zip_longest(*sides))


def extent(sizes: Sizes, axes: Iterable[int]) -> Factor:
    """How many elements axes have."""
    axes = tuple(axes)
    known = math.prod(n for a in axes if (n := sizes[a]) is not None)
    return Factor(known, tuple(a for a in axes if sizes[a] is None))


def times(factor: Factor, count: Factor) -> Factor:
    """A factor times so many elements of axes before those that it is made of."""
    return Factor(factor.constant * count.constant, (*count.sizes, *factor.sizes), factor.stride)


def factor_text(factor: Factor) -> str:
    """A factor in source."""
    factors = [str(factor.constant)] if factor.constant != 1 else []
    return " * ".join([*factors, *(f"n{a}" for a in factor.sizes)]) or "1"
