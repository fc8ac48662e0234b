"""Statements of tile programs in Triton's language: indices, masks, loads, elementwise ops, reductions, stores.

A value is a block with a dimension for each of the program's tiles; along those that it does not follow it has one
element, so that values broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from hybridc.ir.kernel import constant_as, neutral_of
from hybridc.ir.structured_builder import kind_dtype
from hybridc.ir.tile_program import (
    Address,
    Axes,
    Factor,
    Statement,
    TileCarry,
    TileConstant,
    TileContract,
    TileCount,
    TileGather,
    TileIndex,
    TileLoad,
    TileMap,
    TileReduce,
    TileStore,
    TileUpdate,
)
from hybridc.lower.triton.expressions import ops
from hybridc.lower.triton.expressions.ops import DType, Term, literal, triton_type
from hybridc.lower.triton.expressions.statements import INDEX, compute, reduce
from hybridc.lower.triton.source_writer import SourceWriter

Sizes = tuple[int | None, ...]


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
    """Writes statements about blocks over ``dims``; ``sizes`` are those of the axes, None where the code is given them.

    ``dtypes`` are those of the buffers, by the names of their pointers.
    """

    def __init__(self, sizes: Sizes, dims: Sequence[Dim], dtypes: Mapping[str, DType], w: SourceWriter) -> None:
        self.sizes, self.dtypes, self.w = sizes, dtypes, w
        # Along an axis of one element nothing is walked.
        self.dims = tuple(replace(d, axes=tuple(a for a in d.axes if sizes[a] != 1)) for d in dims)
        self.dim_of = {a: i for i, d in enumerate(self.dims) for a in d.axes}
        self.index: dict[int, str] = {}  # of axes
        self.first: dict[int, str] = {}  # where the blocks of dimensions begin
        self.shown: str | None = None  # the name of what says which elements there are, if it has one
        self.partial: dict[str, str] = {}  # where in its buffer this program's partial result is
        self.known: dict[str, Term] = {}
        self.follows: dict[str, frozenset[int]] = {}  # the dimensions that values follow

    # --- sizes and places ----------------------------------------------------------------------------------

    def size(self, axes: Iterable[int]) -> str:
        """How many elements axes have."""
        return factor_text(extent(self.sizes, axes))

    def shape(self, dims: Iterable[int]) -> str:
        """The shape of a block that follows these dimensions."""
        followed = {*dims}
        return f"[{', '.join(d.block if i in followed else '1' for i, d in enumerate(self.dims))}]"

    def places(self, number: int, first: str) -> None:
        """Write the index along a dimension, ``first`` and what is counted here, and that along each of its axes."""
        dim, w = self.dims[number], self.w
        self.first[number] = first.removesuffix(" + ")
        around = ", ".join(":" if i == number else "None" for i in range(len(self.dims)))
        spread = f"[{around}]" if len(self.dims) > 1 else ""
        w.line(f"{dim.name} = {first}tl.arange(0, {dim.block}){spread}")
        if len(dim.axes) == 1:
            self.index[dim.axes[0]] = dim.name
            return
        rest = dim.name
        for axis in reversed(dim.axes[1:]):
            self.index[axis] = w.let(f"{dim.name}_{axis}", f"{rest} % {self.size([axis])}")
            rest = w.let("rest", f"{rest} // {self.size([axis])}")
        if dim.axes:
            self.index[dim.axes[0]] = rest

    def point(self, axes: Axes, rest: str) -> None:
        """Write the index along each of some axes, of which each program has one: ``rest`` counts them."""
        for axis in reversed(axes[1:]):
            rest = self.w.let("rest", rest)
            self.index[axis] = self.w.let(f"at_{axis}", f"{rest} % {self.size([axis])}")
            rest = f"{rest} // {self.size([axis])}"
        if axes:
            self.index[axes[0]] = self.w.let(f"at_{axes[0]}", rest)

    def dims_of(self, axes: Iterable[int]) -> frozenset[int]:
        """The dimensions that axes lie along."""
        return frozenset(self.dim_of[a] for a in axes if a in self.dim_of)

    def mask(self, dims: Iterable[int]) -> str | None:
        """Which elements of a block that follows these dimensions there are; None if all are there."""
        masked = [self.dims[i] for i in sorted(dims) if self.dims[i].masked]
        return (self.shown or " & ".join(f"({d.name} < {d.extent})" for d in masked)) if masked else None

    def offset(self, address: Address) -> str:
        """The offset of a block of elements; nothing if it follows no axis."""
        left = [(a, f) for a, f in address.terms if self.sizes[a] != 1]
        terms: list[str] = []
        while left:
            dim = next((d for d in self.dims if self._is_whole(d, left)), None)
            (axis, factor), count = left[0], 1
            if dim is not None:
                count = len(dim.axes)
                factor = left[count - 1][1]
            index, left = self.at(axis) if dim is None else dim.name, left[count:]
            step = factor_text(factor)
            terms.append(index if step == "1" else f"{index} * {step}")
        return " + ".join([*terms, *map(factor_text, address.offset)])

    def _is_whole(self, dim: Dim, terms: Sequence[tuple[int, Factor]]) -> bool:
        """Whether elements follow each other along all of a dimension as its index counts them."""
        count = len(dim.axes)
        if not count or [a for a, _ in terms[:count]] != [*dim.axes]:
            return False
        _, last = terms[count - 1]
        steps = (times(last, extent(self.sizes, dim.axes[i + 1 :])) for i in range(count))
        return [f for _, f in terms[:count]] == [*steps]

    def at(self, axis: int) -> str:
        """The index along an axis."""
        return self.index[axis] if axis in self.index else self.origin()

    def origin(self) -> str:
        """An offset of zero, of a block with one element."""
        return f"tl.zeros({self.shape(())}, tl.int32)"

    # --- statements ----------------------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement], narrowed: Set[str]) -> None:
        """Write statements that follow each other; :func:`narrowed_in` says which values are ``narrowed``."""
        for s in statements:
            self._statement(s, narrowed)

    def _statement(self, s: Statement, narrowed: Set[str]) -> None:
        match s:
            case TileMap():
                made = compute(s.op, [self.known[v] for v in s.operands], s.kind, self.w, s.name in narrowed)
                self._know(s.name, made, *(self.follows[v] for v in s.operands))
            case TileLoad():
                dims = self.dims_of(s.address.axes)
                self._know(s.name, self._loaded(s.address.buffer, self.offset(s.address), dims), dims)
            case TileStore():
                self._store(s)
            case TileConstant():
                self._know(s.name, ops.number(s.number, kind_dtype(s.kind)))
            case TileIndex():
                self._know(s.name, Term(self.at(s.axis), INDEX), self.dims_of([s.axis]))
            case TileGather():
                dims = frozenset[int]().union(*(self.follows[v] for v, _ in s.terms))
                terms = [(self.known[v].text, factor_text(f)) for v, f in s.terms if f.number]
                offset = " + ".join(i if f == "1" else f"{i} * {f}" for i, f in terms)
                self._know(s.name, self._loaded(s.buffer, offset, dims), dims)
            case TileReduce():
                self._reduce(s)
            case TileCarry():
                dims, dtype = self.dims_of(s.axes), kind_dtype(s.kind)
                full = f"tl.full({self.shape(dims)}, {literal(s.number, dtype)}, {triton_type(dtype)})"
                self._know(s.name, Term(self.w.let("sum", full), dtype), dims)
            case TileUpdate():
                carried = self.known[s.name]
                self.w.line(f"{carried.text} = {self.known[s.value].as_dtype(carried.dtype).block}")
            case TileCount():
                self._know(s.name, Term(self.w.let("here", self._count(s)), INDEX))
            case TileContract():
                raise TypeError(f"contractions have kernels of their own: {s}")

    def _know(self, name: str, value: Term, *follows: frozenset[int]) -> None:
        self.known[name] = value
        self.follows[name] = frozenset[int]().union(*follows)

    def _loaded(self, pointer: str, offset: str, dims: Iterable[int]) -> Term:
        mask = self.mask(dims)
        text = f"tl.load({f'{pointer} + {offset}' if offset else pointer}{f', mask={mask}' if mask else ''})"
        return Term(self.w.let(f"{pointer}_block", text), self.dtypes[pointer])

    def _store(self, s: TileStore) -> None:
        """An offset that follows no axis is that of a block with one element."""
        buffer = s.address.buffer
        offset = self.offset(s.address) or self.origin()
        if buffer in self.partial:
            size = self.size(s.address.axes)
            offset = f"{self.partial[buffer]}{f' * {size}' if size != '1' else ''} + {offset}"
        value = self.known[s.value].as_dtype(self.dtypes[buffer])
        self.put(buffer, offset, value.block, self.mask(self.dims_of(s.address.axes)))

    def put(self, pointer: str, offset: str, name: str, mask: str | None) -> None:
        """Put a block into memory."""
        self.w.line(f"tl.store({pointer} + {offset}, {name}{f', mask={mask}' if mask else ''})")

    def _reduce(self, s: TileReduce) -> None:
        """What is not there along the dimensions that are reduced counts for nothing."""
        over, value = self.dims_of(s.over), self.known[s.operand]
        dims, dtype = over | self.follows[s.operand], value.dtype
        start, neutral = constant_as(s.start, dtype), neutral_of(s.op, dtype)
        name, mask = f"tl.broadcast_to({value.block}, {self.shape(dims)})", self.mask(over)
        if mask is not None:
            name = f"tl.where({mask}, {name}, {literal(neutral, dtype)})"
        name = self.w.let("part", name)
        for dim in sorted(over):
            name = reduce(s.op, name, dim, dtype, self.w)
        made = Term(name, dtype)
        if start != neutral:
            made = compute(s.op, [made, ops.number(start, dtype)], s.kind, self.w).as_dtype(dtype)
        self._know(s.name, made, dims - over)

    def _count(self, s: TileCount) -> str:
        dims = self.dims_of(s.axes)
        if not dims:
            return "tl.full([], 1, tl.int64)"
        (number,) = dims
        dim = self.dims[number]
        if not dim.masked:
            return f"tl.full([], {dim.block}, tl.int64)"
        return f"tl.minimum(tl.maximum({dim.extent} - ({self.first[number]}), 0), {dim.block})"


def narrowed_in(statements: Sequence[Statement]) -> set[str]:
    """The values that are rounded to half precision wherever they are used."""
    rounded, other = set[str](), set[str]()
    for s in statements:
        match s:
            case TileMap(op="arith.truncf", kind="f16" | "bf16"):
                rounded.update(s.operands)
            case TileMap():
                other.update(s.operands)
            case TileReduce():
                other.add(s.operand)
            case TileStore() | TileUpdate():
                other.add(s.value)
            case _:
                pass
    return rounded - other


def extent(sizes: Sizes, axes: Iterable[int]) -> Factor:
    """How many elements axes have."""
    axes = tuple(axes)
    known = math.prod(n for a in axes if (n := sizes[a]) is not None)
    return Factor(known, tuple(a for a in axes if sizes[a] is None))


def times(factor: Factor, count: Factor) -> Factor:
    """A factor times so many elements of axes before those that it is made of."""
    return Factor(factor.number * count.number, (*count.sizes, *factor.sizes), factor.stride)


def factor_text(factor: Factor) -> str:
    """A factor in source."""
    found = [str(factor.number)] if factor.number != 1 else []
    return " * ".join([*found, *(f"n{a}" for a in factor.sizes)]) or "1"
