"""Tile programs: the schedule of a loop nest as data, which targets print.

    axes i0 < n0, i1 < 1024
    parallel i0 {
      sweep i1 {
        %0 = load b0[i0*1024 + i1] : f32
        %1 = reduce arith.maximumf %0 from -inf over i1 : f32
      }
      sweep i1 {
        %2 = load b0[i0*1024 + i1] : f32
        %3 = map arith.subf %2, %1 : f32
        store %3, b1[i0*1024 + i1]
      }
    }

Threads share the *parallel* axes. At each of their indices the *sweeps* run one after the other: each is one loop nest
over its own axes, whose statements are about one element: of memory through an affine address, of memory at computed
indices, an operation of ``arith`` or ``math``, a reduction over some of the axes. What is recomputed, what lies in
scratch and how reductions are split is decided: a target prints statements and analyses nothing. A program prints
(:func:`str`) and is parsed again (:mod:`~hybridc.ir.tiles.tile_parser`), both as the templates of its classes say
(:mod:`~hybridc.ir.tiles.tile_text`); :mod:`~hybridc.ir.tiles.tile_spec` says what is valid.

Where a statement of the target is about a whole *tile* of elements, the program says what a tile is (:class:`TileDim`):

    axes i0 < n0, i1 < 1000
    tile i0 by ROWS grid masked
    tile i1 by 1024 whole masked
    parallel i0 {
      sweep {
        %0 = load x0[i0*1000 + i1] : f32
        %1 = reduce arith.maximumf %0 from -inf over i1 : f32
        ...

A value is a tile of the dimensions that it follows, and values broadcast. Code runs the program once for each tile of
the *grid*; a sweep over axes is a *loop* over tiles, of all of them or of a *piece*, from one to the next of which
values are carried. A reduction may also go over what other tiles of the grid have: into memory where all of them add,
or into partial results, one for each tile (or, if several tiles of the grid are run for one index of the first axis,
for that).

A contraction is of two-dimensional tiles, and adds up in a third. Its statements say *on* which dimensions their tile
lies, in this order, as some are in no order that all could have:

    axes i0 < 1024, i1 < 768, i2 < 1000
    tile i0 by bm grid
    tile i1 by bn grid
    tile i2 by bk loop masked
    group group
    parallel i0, i1 {
      sweep {
        %0 = carry 0.0 over i0, i1 on t0, t1 : f32
      }
      sweep i2 {
        %1 = load x0[i0*1000 + i2] on t0, t2 < 1000 else 0.0 : f16
        %2 = load x1[i2*768 + i1] on t2 < 1000, t1 else 0.0 : f16
        %3 = contract %1, %2 over i2 onto %0 : f32
        update %0, %3
      }
      ...

A tile may be worked on in *parts*, of which registers hold the last: here 12 rows by 2 vectors of 16 columns, for one
term after the other; of the rows that are left 4. Packing them in scratch is a load and a store:

    tile i2 by n2 whole in 12, 4
    tile i3 by 32 grid masked in 16
    tile i4 by n4 whole in 1
    parallel i0, i1, i3 {
      sweep {
        %0 = load b1[i0*s3 + i1*s4 + i3*s5 + i4*s6] : f32
        store %0, t0[i4 + i3]
      }
      sweep {
        %1 = load b0[i0*s0 + i1*s1 + i2*s2 + i4*s7] : f32
        %2 = load t0[i4 + i3] : f32
        %3 = contract %1, %2 over i4 : f32
        ...

Without a contraction that shares factors between its rows and columns, as that of a convolution channel by channel, a
vector holds what follows the same axes in all arrays. Here each iteration has 28 columns of an image, of all channels,
16 at a time; three terms of each row of a filter are in straight-line code:

    axes i0 < n0, i1 < n1, i2 < n2, i3 < 3, i4 < n4
    tile i2 by n2 whole in 16 in vectors of 16
    tile i1 by 28 grid
    tile i0 by 1 grid
    tile i3 by 3 whole
    tile i4 by n4 whole in 1
    parallel i0, i1 {
      sweep {
        %0 = load b0[i0*s0 + i1*s1 + i2 + i3*s1 + i4*s0] : f32
        %1 = load b1[i2 + i3*s2 + i4*s3] : f32
        %2 = contract %0, %1 over i4, i3 : f32
        ...

A value that a sweep makes is known in the rest of it, and afterwards if it is one for all: made in a sweep without
axes, or reduced over all of them. Where the walk is *tiled*, all sweeps are about one element, and know all values.

A sweep may stand in another one: it runs at each of that one's indices. Its innermost loop may have computed bounds.
Here rows of an array move into the inside of a larger one, whose border is filled:

    parallel i0 {
      sweep {
        %0 = number s0 : i32
        ...
      }
      sweep i1 from 0 to %5 {
        store %0, b1[i0*s2 + i1]
      }
      sweep i1 from %5 to %6 {
        %7 = load b0[i0*s1 + i1] : i32
        store %7, b1[i0*s2 + i1]
      }
      ...
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import ClassVar, dataclass_transform

from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ir.tiles.tile_text import FORMS, Form, Template, sequence

Axes = tuple[int, ...]
Dims = tuple[int, ...]
# How loops walk a dimension of tiles.
LOOPS = ("loop", "piece")
Number = int | float | bool


@dataclass(frozen=True)
class Factor:
    """A product of an integer, of sizes of axes that only the run time knows, and of a stride that is an argument."""

    constant: int = 1
    sizes: Axes = ()
    stride: int | None = None

    def __str__(self) -> str:
        if not self.sizes and self.stride is None:
            return str(self.constant)
        names = [f"n{a}" for a in self.sizes] + ([f"s{self.stride}"] if self.stride is not None else [])
        return "*".join([str(self.constant), *names] if self.constant != 1 else names)

    @staticmethod
    def read(text: str) -> Factor:
        """The factor that has a text: one if that is empty."""
        terms = [term for term in text.split("*") if term]
        constant = math.prod(int(term) for term in terms if term[0] not in "ns")
        stride = next((int(term[1:]) for term in terms if term[0] == "s"), None)
        return Factor(constant, tuple(int(term[1:]) for term in terms if term[0] == "n"), stride)


@dataclass(frozen=True)
class Address:
    """An element of a buffer: the sum of indices of axes times factors, and of more factors."""

    buffer: str
    terms: tuple[tuple[int, Factor], ...] = ()
    offset: tuple[Factor, ...] = ()

    @property
    def axes(self) -> Axes:
        """The axes that it depends on."""
        return tuple(a for a, _ in self.terms)

    def __str__(self) -> str:
        return f"{self.buffer}[{_write_terms('i', self.terms, self.offset)}]"

    @staticmethod
    def read(text: str) -> Address:
        """The address that has a text."""
        buffer, _, index = text[:-1].partition("[")
        terms, offset = _read_terms("i", index)
        return Address(buffer, tuple((int(axis), factor) for axis, factor in terms), offset)


def _write_terms(mark: str, terms: Iterable[tuple[object, Factor]], offset: Iterable[Factor] = ()) -> str:
    """The sum of indices, behind a mark, times factors, and of more factors."""
    products = [f"{mark}{i}" if (factor := str(f)) == "1" else f"{mark}{i}*{factor}" for i, f in terms]
    return " + ".join([*products, *map(str, offset)]) or "0"


def _read_terms(mark: str, text: str) -> tuple[tuple[tuple[str, Factor], ...], tuple[Factor, ...]]:
    terms = [term.partition("*") for term in text.split(" + ") if term != "0"]
    products = tuple((index[1:], Factor.read(factor)) for index, _, factor in terms if index[0] == mark)
    return products, tuple(Factor.read("".join(term)) for term in terms if term[0][0] != mark)


_FORMS = {
    **FORMS,
    "factor": Form(r"[\w*-]+", read=Factor.read),
    "address": Form(r"\w+\[.*?\]", read=Address.read),
    "terms": Form(r".*?", lambda terms: _write_terms("%", terms), lambda text: _read_terms("%", text)[0]),
    "carried": sequence(Form(r"%[^,]+", read=lambda text: TileCarried(**TileCarried.template.read(text)))),
    "bound": Form(r"\w+ t\d+ [+-] -?\d+", read=lambda text: TileBound(**TileBound.template.read(text))),
}


@dataclass_transform(frozen_default=True)
class Printed:
    """A frozen dataclass whose objects are written as its ``text`` says, a template in the forms above."""

    template: ClassVar[Template]

    def __init_subclass__(cls, text: str) -> None:
        cls.template = Template(dataclass(frozen=True)(cls), text, _FORMS)

    def __str__(self) -> str:
        return self.template.write(self)


def _block(head: str, parts: Iterable[object]) -> str:
    """The text of a line and of the block that it begins."""
    inside = "".join([f"\n{part}" for part in parts]).replace("\n", "\n  ")
    return f"{head} {{{inside}\n}}"


# --- statements -----------------------------------------------------------------------------------------------------


class TileConstant(Printed, text="%{name} = constant {constant:number} : {kind}"):
    """A constant."""

    name: str
    constant: Number
    kind: str


class TileNumber(Printed, text="%{name} = number {factor} : {kind}"):
    """A number that the code is given: the size of an axis, or what stands among the strides, as a value."""

    name: str
    factor: Factor
    kind: str = "index"


class TileRange(Printed, text="%{name} = range {end:begin|end} : {kind}"):
    """Where the range of the thread begins, or ``end``s."""

    name: str
    end: bool
    kind: str = "index"


class TileIndex(Printed, text="%{name} = position i{axis:int}( on {on})? : {kind}"):
    """The index along an axis, in a tile ``on`` some dimensions, or on all."""

    name: str
    axis: int
    kind: str = "index"
    on: Dims = ()


class TileLoad(Printed, text="%{name} = load {address}( on {on, limits})?( else {other:number})? : {kind}"):
    """An element of a buffer, in a tile ``on`` some dimensions, or on all.

    With ``other``, that is what a tile has where there are no elements: from the ``limits`` along its dimensions on;
    where there is none, it has no others.
    """

    name: str
    address: Address
    kind: str
    on: Dims = ()
    limits: tuple[int | None, ...] = ()
    other: Number | None = None


class TileGather(Printed, text="%{name} = gather {buffer}[{terms}] : {kind}"):
    """An element of a buffer at computed indices, each times its factor."""

    name: str
    buffer: str
    terms: tuple[tuple[str, Factor], ...]
    kind: str


class TileMap(Printed, text="%{name} = map {op} {operands:values}( rough)? : {kind}"):
    """An operation of the dialects arith or math; the predicate of a comparison follows its name.

    A ``rough`` one need be no more exact than half precision.
    """

    name: str
    op: str
    operands: tuple[str, ...]
    kind: str
    rough: bool = False


class TileInside(Printed, text="%{name} = inside %{value} else {other:number} over {axes} : {kind}"):
    """A value where tiles have elements along axes, and ``other`` beyond them."""

    name: str
    value: str
    other: Number
    axes: Axes
    kind: str


class TileReduce(
    Printed,
    text="%{name} = reduce {op} %{operand} from {start:number} over {over:axes}( carried {carried:int})?"
    "( {accumulates:into|accumulating} {into:address})?( ordered)?( filled)? : {kind}",
):
    """A reduction: elements combined over axes, beginning with a scalar.

    Along the innermost ``carried`` loops of the sweep the result so far is a scalar. ``into`` is where it goes; if it
    ``accumulates`` there, memory holds a partial result, which begins with ``start`` at each index of the parallel
    axes, or in each piece if the buffer holds partial results. The terms of an ``ordered`` one are added in order. What
    the operand of a ``filled`` one has beyond the last elements counts for nothing by itself.
    """

    name: str
    op: str
    operand: str
    start: Number
    over: Axes
    kind: str
    carried: int
    into: Address | None = None
    accumulates: bool = False
    ordered: bool = False
    filled: bool = False


class TileContract(
    Printed, text="%{name} = contract %{left}, %{right} over {over:axes}( onto %{accumulator})?( rounded)? : {kind}"
):
    """A contraction: products of two values, summed over axes that both have, and added to an ``accumulator``, if any.

    Where registers hold vectors of sums, the terms are added one by one, in row-major order of these axes. If other
    tiles of the grid have more of them, a sum is a partial result. Where a tile has no elements along these axes, the
    values are zero. ``rounded`` says that factors of single precision may lose what tensor cores do not multiply.
    """

    name: str
    left: str
    right: str
    over: Axes
    kind: str
    accumulator: str | None = None
    rounded: bool = False


class TileCombine(Printed, text="combine {op} %{count} of {parts:word} into {into} from {start:number} : {kind}"):
    """Partial results combined pairwise into a buffer, which begins with ``start``, at the indices of the only axis.

    There are as many as ``count`` says, one after the other in the buffer of ``parts``, each with an element for each
    index. The second half of them is combined with the first, in place, until one is left, so that sums of many keep
    their precision.
    """

    op: str
    parts: str
    count: str
    into: str
    start: Number
    kind: str


class TileStore(Printed, text="store %{value}, {address}( on {on})?"):
    """An element put into a buffer, of a tile ``on`` some dimensions, or on all."""

    value: str
    address: Address
    on: Dims = ()


class TileScatter(Printed, text="scatter %{value}, {buffer}[{terms}]"):
    """An element put into a buffer at computed indices, each times its factor."""

    value: str
    buffer: str
    terms: tuple[tuple[str, Factor], ...]


class TileCarried(Printed, text="%{name} = %{start} next %{next} as %{result} : {kind}"):
    """A value that a loop carries: its ``name`` inside, what it is at the ``start`` and after an iteration (``next``).

    After the loop its value is ``result``.
    """

    name: str
    start: str
    next: str
    result: str
    kind: str


class TileLoop(Printed, text="for %{index} from %{low} to %{high}( carrying {carried})?"):
    """A loop over an ``index`` between two values, whose statements read and write memory in their order."""

    index: str
    low: str
    high: str
    carried: tuple[TileCarried, ...]
    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return _block(super().__str__(), self.statements)

    def walk(self) -> Iterator[Statement]:
        """All statements, those of inner loops too."""
        return _walk(self.statements)


class TileCount(Printed, text="%{name} = count {axes} : {kind}"):
    """How many elements a tile has along axes, of those that there are."""

    name: str
    axes: Axes
    kind: str = "index"


class TileCarry(Printed, text="%{name} = carry {start:number} over {axes}( on {on})? : {kind}"):
    """A value that the loop which follows carries from tile to tile: initially a scalar, broadcast along axes.

    Of axes that the loop walks, it has an element for each index of a tile.
    """

    name: str
    start: Number
    axes: Axes
    kind: str
    on: Dims = ()


class TileUpdate(Printed, text="update %{name}, %{value}"):
    """The new value of a carried value."""

    name: str
    value: str


Statement = (
    TileConstant | TileNumber | TileRange | TileIndex | TileLoad | TileGather | TileMap | TileInside | TileReduce
    | TileContract | TileCombine | TileStore | TileScatter | TileLoop | TileCount | TileCarry | TileUpdate
)  # fmt: skip
# Those that make no value.
Effect = TileStore | TileUpdate | TileCombine | TileScatter | TileLoop


class TileSweep(
    Printed,
    text="sweep( {axes})?( from {bounds})?( in blocks of {blocks})?( in vectors of {lanes:int})?"
    "( in squares of {squares:int})?",
):
    """Statements in one loop nest over ``axes``; without any they are done once at each index of the parallel axes.

    The innermost loop adds up in ``blocks`` of so many indices, the larger first: a block's reductions begin anew, and
    its results are combined with those of the blocks before (pairwise summation). It may run between two values, its
    ``bounds``, or from the beginning to the second. Inner ``sweeps`` follow the statements at each index. Statements of
    more than one of the ``lanes`` are about so many elements along the innermost axis, whose size is a multiple.

    Two axes may be walked in ``squares`` of so many elements each, which a load and a store transpose: the load is
    contiguous along the second, the store along the first. The last squares end with the axes, and may repeat elements.
    """

    axes: Axes
    statements: tuple[Statement, ...]
    blocks: tuple[int, ...] = ()
    bounds: tuple[str | None, str] | None = None
    sweeps: tuple[TileSweep, ...] = ()
    lanes: int = 1
    squares: int = 0

    def __str__(self) -> str:
        return _block(super().__str__(), (*self.statements, *self.sweeps))

    def walk(self) -> Iterator[Statement]:
        """All statements, those of inner sweeps too."""
        yield from _walk(self.statements)
        for sweep in self.sweeps:
            yield from sweep.walk()


def _walk(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Statements, and those of their loops."""
    for s in statements:
        yield s
        if isinstance(s, TileLoop):
            yield from s.walk()


class TileBuffer(Printed, text="{pieces:buffer|pieces} {name} : {kind}"):
    """Memory that is an argument of the code; with ``pieces``, a partial result for each piece of the parallel axes.

    If statements are about tiles, pieces are the tiles, or indices, along the first axis.
    """

    name: str
    kind: str
    pieces: bool = False


class TileScratch(Printed, text="scratch {name} over {axes} : {kind}"):
    """Memory of one index of the parallel axes: an element for each index of some of the others, in row-major order.

    Of tiles it holds what is worked on at a time; an address names the axes, in any order. Along an axis that stands
    there twice there are first the parts, and then what is in each.
    """

    name: str
    kind: str
    axes: Axes


class TileBound(Printed, text="{last:from|until} t{dim:int} {last:-|+} {by:int}"):
    """A loop leaves out what is more than ``by`` elements beyond (``last``), or before, a tile along ``dim``."""

    dim: int
    by: int
    last: bool


class TileDim(
    Printed,
    text="tile( {axes})? by {block} {walk}( masked)?( backwards)?( {bound})?( in {parts})?"
    "( in vectors of {lanes:int})?",
):
    """A dimension of tiles: elements of the index space of some axes, in row-major order.

    A tile has ``block`` of them, an integer or a parameter of the code. ``walk`` says where the
    others are: in other tiles of the grid (``"grid"``), of which those of a ``"range"`` begin where a thread's range
    does; nowhere, as the tile has all (``"whole"``); in a loop over all tiles that a ``bound`` does not leave out
    (``"loop"``), or over the tiles of one of several pieces (``"piece"``). If ``masked``, tiles may reach beyond the
    last element. Tiles of the grid that are taken ``backwards`` begin with the last.

    A tile is worked on in ``parts``, the larger ones first: as many as there are of the first of these sizes, and then
    of the next. If it is not masked, the last part ends with the last element, and shares some with the one before.
    If it lies in vectors of more than one of the ``lanes``, the last parts are whole vectors; along dimensions without
    parts all of a tile is then in registers, and in straight-line code.
    """

    axes: Axes
    block: int | str
    walk: str
    masked: bool
    backwards: bool = False
    bound: TileBound | None = None
    parts: tuple[tuple[int, ...], ...] = ()
    lanes: int = 1


class TileProgram(Printed, text="parallel( {parallel:axes})?( shared)?( tiled i{tiled:int})?( apart)?( exact)?"):
    """The schedule of one loop nest.

    ``sizes`` are those of its axes, None where the code is given them. ``strides`` says how many strides it is given.
    Threads share ``parallel``; if ``shared``, they share the only axis of all sweeps instead. Sweeps that are ``apart``
    run at all indices, one after the other. In an ``exact`` one each operation rounds; in others a product and a sum
    may be contracted. ``tiled`` is the last of the parallel axes, if it is walked in square tiles together with the
    innermost one. If statements are about ``tiles``, each tile has one index of the parallel axes that are none of its
    dimensions. Those of the grid may be taken in groups, as many along the first dimension as the parameter ``group``
    says before the next along the second.
    """

    buffers: tuple[TileBuffer, ...]
    sizes: tuple[int | None, ...]
    parallel: Axes
    sweeps: tuple[TileSweep, ...]
    scratch: tuple[TileScratch, ...] = ()
    strides: int = 0
    shared: bool = False
    tiled: int | None = None
    inner: Axes = field(default=())
    tiles: tuple[TileDim, ...] = ()
    group: str | None = None
    apart: bool = False
    exact: bool = False

    @property
    def dynamic(self) -> Axes:
        """The axes whose sizes are arguments of the code."""
        return tuple(a for a, n in enumerate(self.sizes) if n is None)

    @property
    def pieces(self) -> tuple[TileBuffer, ...]:
        """The buffers of partial results."""
        return tuple(b for b in self.buffers if b.pieces)

    @property
    def reductions(self) -> list[TileReduce]:
        """All reductions."""
        return [s for sweep in self.sweeps for s in sweep.walk() if isinstance(s, TileReduce)]

    @property
    def points(self) -> Axes:
        """The parallel axes, but for those of one element, that no tiles are along: code has one index of each."""
        tiled = {a for tile in self.tiles for a in tile.axes}
        return tuple(a for a in self.parallel if a not in tiled and self.sizes[a] != 1)

    def looped(self, sweep: TileSweep) -> Axes:
        """The axes along which a sweep's statements have an index."""
        if not self.tiles:
            return (*self.parallel, *sweep.axes)
        loop = {a for tile in self.tiles if tile.walk in LOOPS for a in tile.axes} - {*sweep.axes}
        return tuple(a for a in range(len(self.sizes)) if a not in loop)

    @property
    def for_all_sizes(self) -> bool:
        """Whether the code is independent of array sizes: an axis has an argument, or a register tile's extent."""
        whole = {tile.axes for tile in self.tiles if tile.walk == "whole" and not isinstance(tile.block, str)}
        return all(n is None or (axis,) in whole for axis, n in enumerate(self.sizes))

    @property
    def known_sizes(self) -> Axes:
        """The sizes of the axes that are no arguments of the code."""
        return tuple(n for n in self.sizes if n is not None)

    def extent(self, axes: Iterable[int]) -> int | None:
        """How many elements some axes have; None if that is not known."""
        sizes = [self.sizes[a] for a in axes]
        return None if None in sizes else math.prod(n for n in sizes if n is not None)

    def row_major(self, buffer: str, axes: Axes) -> Address:
        """The element of a contiguous array whose dimensions are these axes, one after the other."""
        terms: list[tuple[int, Factor]] = []
        for i, axis in enumerate(axes):
            behind = axes[i + 1 :]
            known = math.prod(n for a in behind if (n := self.sizes[a]) is not None)
            terms.append((axis, Factor(known, tuple(a for a in behind if self.sizes[a] is None))))
        return Address(buffer, tuple(terms))

    def __str__(self) -> str:
        strides, axes, inner, group = (template.write(self) for template in PROGRAM_LINES)
        walk = _block(super().__str__(), self.sweeps)
        lines = (*self.buffers, *self.scratch, strides, axes, inner, *self.tiles, group, walk)
        return _block("tile_program", filter(None, map(str, lines))) + "\n"


# The lines about the whole of a program before that of its parallel axes.
PROGRAM_LINES = [
    Template(TileProgram, text, _FORMS)
    for text in ("(strides {strides:int})?", "(axes {sizes})?", "(inner {inner:axes})?", "(group {group})?")
]


# --- analyses ---------------------------------------------------------------------------------------------------------


def needed(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements without those that make what nobody reads."""
    kept: list[Statement] = []
    read: set[str] = set()
    for s in reversed(statements):
        partial = isinstance(s, TileReduce) and s.into is not None
        if isinstance(s, Effect) or partial or s.name in read:
            kept.append(s)
            read.update(operands_of(s))
    return tuple(reversed(kept))


def axes_of_values(statements: Iterable[Statement]) -> dict[str, set[int]]:
    """For each value the axes along which its elements differ."""
    axes_of: dict[str, set[int]] = {}
    for s in statements:
        match s:
            case TileStore() | TileUpdate() | TileCombine() | TileScatter() | TileLoop():
                continue
            case TileLoad():
                axes = {*s.address.axes}
            case TileIndex():
                axes = {s.axis}
            case TileCarry():
                axes = {*s.axes}
            case _:
                axes = {a for v in operands_of(s) for a in axes_of[v]}
                axes -= {*s.over} if isinstance(s, TileReduce | TileContract) else set()
        axes_of[s.name] = axes
    return axes_of


def operands_of(statement: Statement) -> tuple[str, ...]:
    """The values that a statement is about."""
    match statement:
        case TileMap():
            return statement.operands
        case TileGather():
            return tuple(v for v, _ in statement.terms)
        case TileReduce():
            return (statement.operand,)
        case TileContract(accumulator=sofar):
            return (statement.left, statement.right) if sofar is None else (statement.left, statement.right, sofar)
        case TileStore() | TileUpdate() | TileInside():
            return (statement.value,)
        case TileCombine():
            return (statement.count,)
        case TileScatter():
            return (statement.value, *(v for v, _ in statement.terms))
        case TileLoop():
            return (statement.low, statement.high, *(c.start for c in statement.carried))
        case _:
            return ()


def on_of(statement: Statement) -> Dims | None:
    """The dimensions that a statement's tile lies on, none of them if it is on all; None if it does not say."""
    return statement.on if isinstance(statement, TileLoad | TileIndex | TileCarry | TileStore) else None


def buffers_of(statement: Statement) -> tuple[str, ...]:
    """The buffers that a statement reads or writes."""
    gathered = (statement.buffer,) if isinstance(statement, TileGather | TileScatter) else ()
    return (*gathered, *(a.buffer for a in addresses_of(statement)))


def addresses_of(statement: Statement) -> tuple[Address, ...]:
    """The elements of buffers that a statement reads or writes at indices of axes."""
    match statement:
        case TileLoad(address=address) | TileStore(address=address) | TileReduce(into=Address() as address):
            return (address,)
        case _:
            return ()


# --- launches of tile programs on whole tiles -------------------------------------------------------------------------


@dataclass(frozen=True)
class TileConfig:
    """A launch config of a tile program: the sizes of its blocks, by their parameters, and the warps of a program.

    ``stages`` of loops overlap; ``shared`` are the bytes of shared memory that this is expected to take, if that is
    much.
    """

    blocks: tuple[tuple[str, int], ...]
    warps: int
    stages: int = 2
    shared: int = 0


@dataclass(frozen=True, eq=False)
class TileLaunch:
    """A tile program with its arguments.

    ``buffers`` are the kernel's names of what the program's buffers are: ``x`` and a number for an argument, ``y`` for
    a result, ``w`` for local memory; ``dtypes`` are theirs. ``sizes`` are those of its axes, ``piece`` is how many
    elements along the dimension that is walked in pieces each has. Of ``configs``, at most four, the first is expected
    to be the fastest. Offsets are ``wide`` if they need 64 bits. ``suffix`` ends the name of one of several functions.
    With a ``tail``, blocks that are not full are a case of their own: others are moved without asking what is there.
    """

    what: str
    program: TileProgram
    buffers: tuple[str, ...]
    dtypes: tuple[DType, ...]
    sizes: tuple[int, ...]
    configs: tuple[TileConfig, ...]
    piece: int | None = None
    wide: bool = False
    suffix: str = ""
    tail: bool = False

    @property
    def flat(self) -> bool:
        """Whether each program computes one block of contiguous elements."""
        return [tile.walk for tile in self.program.tiles] == ["grid"] and not self.program.points

    def has_code_of(self, other: TileLaunch) -> bool:
        """Whether both launch the same function, whose arguments are sizes and buffers."""
        same = all(getattr(self, name) == getattr(other, name) for name in ("what", "dtypes", "wide", "suffix", "tail"))
        return same and self.program == other.program

    def extent(self, axes: tuple[int, ...]) -> int:
        """How many elements axes have."""
        return math.prod(self.sizes[a] for a in axes)

    @property
    def pieces(self) -> int:
        """How many programs share a dimension that is walked in pieces."""
        assert self.piece is not None
        (walked,) = (tile.axes for tile in self.program.tiles if tile.walk == "piece")
        return max(1, -(-self.extent(walked) // self.piece))
