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
(:func:`str`) and is parsed again (:func:`parse`); :func:`faults` is its specification.

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

A value that a sweep makes is known in the rest of it, and afterwards if it is one for all: made in a sweep without
axes, or reduced over all of them. Where the walk is *tiled*, all sweeps are about one element, and know all values.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hybridc.dtypes import NARROW, DType
from hybridc.errors import VerifyError
from hybridc.ir.kernel import CASTS

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
        terms = [f"n{a}" for a in self.sizes] + ([f"s{self.stride}"] if self.stride is not None else [])
        return "*".join([str(self.constant), *terms] if self.constant != 1 or not terms else terms)


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
        terms = [f"i{a}" if str(f) == "1" else f"i{a}*{f}" for a, f in self.terms]
        terms += [str(f) for f in self.offset]
        return f"{self.buffer}[{' + '.join(terms) or 0}]"


# --- statements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TileConstant:
    """A constant."""

    name: str
    constant: Number
    kind: str

    def __str__(self) -> str:
        return f"%{self.name} = constant {_number(self.constant)} : {self.kind}"


@dataclass(frozen=True)
class TileIndex:
    """The index along an axis, in a tile ``on`` some dimensions, or on all."""

    name: str
    axis: int
    kind: str = "index"
    on: Dims = ()

    def __str__(self) -> str:
        return f"%{self.name} = position i{self.axis}{_on(self.on)} : {self.kind}"


@dataclass(frozen=True)
class TileLoad:
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

    def __str__(self) -> str:
        other = "" if self.other is None else f" else {_number(self.other)}"
        return f"%{self.name} = load {self.address}{_on(self.on, self.limits)}{other} : {self.kind}"


@dataclass(frozen=True)
class TileGather:
    """An element of a buffer at computed indices, each times its factor."""

    name: str
    buffer: str
    terms: tuple[tuple[str, Factor], ...]
    kind: str

    def __str__(self) -> str:
        terms = [f"%{v}" if str(f) == "1" else f"%{v}*{f}" for v, f in self.terms]
        return f"%{self.name} = gather {self.buffer}[{' + '.join(terms) or 0}] : {self.kind}"


@dataclass(frozen=True)
class TileMap:
    """An operation of the dialects arith or math; the predicate of a comparison follows its name.

    A ``rough`` one need be no more exact than half precision.
    """

    name: str
    op: str
    operands: tuple[str, ...]
    kind: str
    rough: bool = False

    def __str__(self) -> str:
        operands = ", ".join(f"%{v}" for v in self.operands)
        return f"%{self.name} = map {self.op} {operands}{' rough' if self.rough else ''} : {self.kind}"


@dataclass(frozen=True)
class TileInside:
    """A value where tiles have elements along axes, and ``other`` beyond them."""

    name: str
    value: str
    other: Number
    axes: Axes
    kind: str

    def __str__(self) -> str:
        return f"%{self.name} = inside %{self.value} else {_number(self.other)} over {_axes(self.axes)} : {self.kind}"


@dataclass(frozen=True)
class TileReduce:
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

    def __str__(self) -> str:
        text = f"%{self.name} = reduce {self.op} %{self.operand} from {_number(self.start)} over {_axes(self.over)}"
        text += f" carried {self.carried}" if self.carried else ""
        if self.into is not None:
            text += f" {'accumulating' if self.accumulates else 'into'} {self.into}"
        return f"{text}{' ordered' if self.ordered else ''}{' filled' if self.filled else ''} : {self.kind}"


@dataclass(frozen=True)
class TileContract:
    """A contraction: products of two values, summed over axes that both have, and added to an ``accumulator``, if any.

    Where a tile has no elements along these axes, the values are zero. ``rounded`` says that factors of single
    precision may lose what tensor cores do not multiply.
    """

    name: str
    left: str
    right: str
    over: Axes
    kind: str
    accumulator: str | None = None
    rounded: bool = False

    def __str__(self) -> str:
        text = f"%{self.name} = contract %{self.left}, %{self.right} over {_axes(self.over)}"
        text += "" if self.accumulator is None else f" onto %{self.accumulator}"
        return f"{text}{' rounded' if self.rounded else ''} : {self.kind}"


@dataclass(frozen=True)
class TileStore:
    """An element put into a buffer, of a tile ``on`` some dimensions, or on all."""

    value: str
    address: Address
    on: Dims = ()

    def __str__(self) -> str:
        return f"store %{self.value}, {self.address}{_on(self.on)}"


@dataclass(frozen=True)
class TileCount:
    """How many elements a tile has along axes, of those that there are."""

    name: str
    axes: Axes
    kind: str = "index"

    def __str__(self) -> str:
        return f"%{self.name} = count {_axes(self.axes)} : {self.kind}"


@dataclass(frozen=True)
class TileCarry:
    """A value that the loop which follows carries from tile to tile: initially a scalar, broadcast along axes.

    Of axes that the loop walks, it has an element for each index of a tile.
    """

    name: str
    start: Number
    axes: Axes
    kind: str
    on: Dims = ()

    def __str__(self) -> str:
        where = f"over {_axes(self.axes)}{_on(self.on)}"
        return f"%{self.name} = carry {_number(self.start)} {where} : {self.kind}"


@dataclass(frozen=True)
class TileUpdate:
    """The new value of a carried value."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"update %{self.name}, %{self.value}"


Statement = (
    TileConstant | TileIndex | TileLoad | TileGather | TileMap | TileInside | TileReduce | TileContract | TileStore
    | TileCount | TileCarry | TileUpdate
)  # fmt: skip


@dataclass(frozen=True)
class TileSweep:
    """Statements in one loop nest over ``axes``; without any they are done once at each index of the parallel axes.

    The innermost loop adds up in ``blocks`` of so many indices, the larger first: a block's reductions begin anew, and
    its results are combined with those of the blocks before (pairwise summation).
    """

    axes: Axes
    statements: tuple[Statement, ...]
    blocks: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = "".join(f"      {s}\n" for s in self.statements)
        blocks = f" in blocks of {', '.join(map(str, self.blocks))}" if self.blocks else ""
        return f"    sweep{' ' if self.axes else ''}{_axes(self.axes)}{blocks} {{\n{lines}    }}\n"


@dataclass(frozen=True)
class TileBuffer:
    """Memory that is an argument of the code; with ``pieces``, a partial result for each piece of the parallel axes.

    If statements are about tiles, pieces are the tiles, or indices, along the first axis.
    """

    name: str
    kind: str
    pieces: bool = False

    def __str__(self) -> str:
        return f"  {'pieces' if self.pieces else 'buffer'} {self.name} : {self.kind}\n"


@dataclass(frozen=True)
class TileScratch:
    """Memory of one index of the parallel axes: an element for each index of some of the others, in row-major order.

    Of tiles it holds what is worked on at a time; an address names the axes, in any order. Along an axis that stands
    there twice there are first the parts, and then what is in each.
    """

    name: str
    kind: str
    axes: Axes

    def __str__(self) -> str:
        return f"  scratch {self.name} over {_axes(self.axes)} : {self.kind}\n"


@dataclass(frozen=True)
class TileBound:
    """A loop leaves out what is more than ``by`` elements beyond (``last``), or before, a tile along ``dim``."""

    dim: int
    by: int
    last: bool

    def __str__(self) -> str:
        return f" {'until' if self.last else 'from'} t{self.dim} {'+' if self.last else '-'} {self.by}"


@dataclass(frozen=True)
class TileDim:
    """A dimension of tiles: elements of the index space of some axes, in row-major order.

    A tile has ``block`` of them, an integer or a parameter of the code. ``walk`` says where the
    others are: in other tiles of the grid (``"grid"``), of which those of a ``"range"`` begin where a thread's range
    does; nowhere, as the tile has all (``"whole"``); in a loop over all tiles that a ``bound`` does not leave out
    (``"loop"``), or over the tiles of one of several pieces (``"piece"``). If ``masked``, tiles may reach beyond the
    last element. Tiles of the grid that are taken ``backwards`` begin with the last.

    A tile is worked on in ``parts``, the larger ones first: as many as there are of the first of these sizes, and then
    of the next. If it is not masked, the last part ends with the last element, and shares some with the one before.
    """

    axes: Axes
    block: int | str
    walk: str
    masked: bool
    backwards: bool = False
    bound: TileBound | None = None
    parts: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        axes = f" {_axes(self.axes)}" if self.axes else ""
        how = f"{' masked' if self.masked else ''}{' backwards' if self.backwards else ''}{self.bound or ''}"
        parts = "".join(f" in {', '.join(map(str, sizes))}" for sizes in self.parts)
        return f"  tile{axes} by {self.block} {self.walk}{how}{parts}\n"


@dataclass(frozen=True)
class TileProgram:
    """The schedule of one loop nest.

    ``sizes`` are those of its axes, None where the code is given them. ``strides`` says how many strides it is given.
    Threads share ``parallel``; if ``shared``, they share the only axis of all sweeps instead. ``tiled`` is the last of
    the parallel axes, if it is walked in square tiles together with the innermost one. If statements are about
    ``tiles``, each tile has one index of the parallel axes that are none of its dimensions. Those of the grid may be
    taken in groups, as many along the first dimension as the parameter ``group`` says before the next along the second.
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
        return [s for sweep in self.sweeps for s in sweep.statements if isinstance(s, TileReduce)]

    def looped(self, sweep: TileSweep) -> Axes:
        """The axes along which a sweep's statements have an index."""
        if not self.tiles:
            return (*self.parallel, *sweep.axes)
        loop = {a for tile in self.tiles if tile.walk in LOOPS for a in tile.axes} - {*sweep.axes}
        return tuple(a for a in range(len(self.sizes)) if a not in loop)

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
        axes = ", ".join(f"i{a} < {f'n{a}' if n is None else n}" for a, n in enumerate(self.sizes))
        how = " shared" if self.shared else f" tiled i{self.tiled}" if self.tiled is not None else ""
        head = "".join(map(str, (*self.buffers, *self.scratch)))
        head += f"  strides {self.strides}\n" if self.strides else ""
        head += f"  axes {axes}\n" if axes else ""
        head += f"  inner {_axes(self.inner)}\n" if self.inner else ""
        head += "".join(map(str, self.tiles))
        head += f"  group {self.group}\n" if self.group else ""
        walk = f"  parallel{' ' if self.parallel else ''}{_axes(self.parallel)}{how} {{\n"
        return f"tile_program {{\n{head}{walk}{''.join(map(str, self.sweeps))}  }}\n}}\n"


def _axes(axes: Iterable[int]) -> str:
    return ", ".join(f"i{a}" for a in axes)


def _on(dims: Dims, limits: tuple[int | None, ...] = ()) -> str:
    ends = limits or (None,) * len(dims)
    names = [f"t{d}" if end is None else f"t{d} < {end}" for d, end in zip(dims, ends, strict=True)]
    return f" on {', '.join(names)}" if names else ""


def _number(constant: Number) -> str:
    return str(constant).lower() if isinstance(constant, bool) else repr(constant)


# --- analyses ---------------------------------------------------------------------------------------------------------


def needed(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements without those that make what nobody reads."""
    kept: list[Statement] = []
    read: set[str] = set()
    for s in reversed(statements):
        partial = isinstance(s, TileReduce) and s.into is not None
        if isinstance(s, TileStore | TileUpdate) or partial or s.name in read:
            kept.append(s)
            read.update(operands_of(s))
    return tuple(reversed(kept))


def axes_of_values(statements: Iterable[Statement]) -> dict[str, set[int]]:
    """For each value the axes along which its elements differ."""
    axes_of: dict[str, set[int]] = {}
    for s in statements:
        match s:
            case TileStore() | TileUpdate():
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


# --- parsing --------------------------------------------------------------------------------------------------------

_NAME = r"([\w.]+)"
_ON = r"(?: on ([t\d, <]*?))?"
_LINES = {
    "head": re.compile(rf"(buffer|pieces) {_NAME} : (\w+)"),
    "scratch": re.compile(rf"scratch {_NAME} over ([i\d, ]*) : (\w+)"),
    "constant": re.compile(rf"%{_NAME} = constant (\S+) : (\w+)"),
    "position": re.compile(rf"%{_NAME} = position i(\d+){_ON} : (\w+)"),
    "load": re.compile(rf"%{_NAME} = load (\w+\[.*?\]){_ON}(?: else (\S+))? : (\w+)"),
    "gather": re.compile(rf"%{_NAME} = gather (\w+)\[(.*?)\] : (\w+)"),
    "map": re.compile(rf"%{_NAME} = map (\w+\.\w+(?: \w+)?) (%.*?|)( rough)? ?: (\w+)"),
    "inside": re.compile(rf"%{_NAME} = inside %{_NAME} else (\S+) over ([i\d, ]*) : (\w+)"),
    "count": re.compile(rf"%{_NAME} = count ([i\d, ]*) : (\w+)"),
    "carry": re.compile(rf"%{_NAME} = carry (\S+) over ([i\d, ]*?){_ON} : (\w+)"),
    "update": re.compile(rf"update %{_NAME}, %{_NAME}"),
    "reduce": re.compile(
        rf"%{_NAME} = reduce (\S+) %{_NAME} from (\S+) over ([i\d, ]*?)(?: carried (\d+))?"
        r"(?: (accumulating|into) (\w+\[.*?\]))?( ordered)?( filled)? : (\w+)"
    ),
    "contract": re.compile(
        rf"%{_NAME} = contract %{_NAME}, %{_NAME} over ([i\d, ]*?)(?: onto %{_NAME})?( rounded)? : (\w+)"
    ),
    "store": re.compile(rf"store %{_NAME}, (\w+\[.*?\]){_ON}"),
}


def parse(text: str) -> TileProgram:
    """The program that a text says; ValueError if it says none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or lines[0] != "tile_program {" or lines[-2:] != ["}", "}"]:
        raise ValueError("a tile program begins with 'tile_program {' and ends with two lines '}'")
    program = TileProgram((), (), (), ())
    sweeps: list[TileSweep] = []
    for line in lines[1:-2]:
        word = re.split(r"[ ]", line)[0]
        if match := _LINES["head"].fullmatch(line):
            program = replace(program, buffers=(*program.buffers, TileBuffer(match[2], match[3], match[1] == "pieces")))
        elif match := _LINES["scratch"].fullmatch(line):
            program = replace(program, scratch=(*program.scratch, TileScratch(match[1], match[3], _numbers(match[2]))))
        elif word == "strides":
            program = replace(program, strides=int(line.split()[1]))
        elif word == "axes":
            sizes = [part.split("<")[1].strip() for part in line[5:].split(",")]
            program = replace(program, sizes=tuple(int(n) if n.isdigit() else None for n in sizes))
        elif word == "inner":
            program = replace(program, inner=_numbers(line[6:]))
        elif word == "tile":
            program = replace(program, tiles=(*program.tiles, _tile(line)))
        elif word == "group":
            program = replace(program, group=line.split()[1])
        elif word == "parallel":
            axes, _, tiled = line[8:-1].replace("shared", "").partition("tiled")
            program = replace(program, parallel=_numbers(axes), shared="shared" in line)
            program = replace(program, tiled=_numbers(tiled)[0] if tiled else None)
        elif word == "sweep":
            axes, _, blocks = line[5:-1].partition("in blocks of")
            sweeps.append(TileSweep(_numbers(axes), (), tuple(map(int, re.findall(r"\d+", blocks)))))
        elif line != "}":
            if not sweeps:
                raise ValueError(f"a statement outside of a sweep: {line}")
            sweeps[-1] = replace(sweeps[-1], statements=(*sweeps[-1].statements, _statement(line)))
    return replace(program, sweeps=tuple(sweeps))


def _tile(line: str) -> TileDim:
    axes, _, rest = line[4:].partition(" by ")
    rest, *inside = rest.split(" in ")
    block, walk, *how = rest.split()
    parts = tuple(tuple(int(n) for n in sizes.split(",")) for sizes in inside)
    bound = re.search(r"(until|from) t(\d+) [+-] (-?\d+)", rest)
    limit = None if bound is None else TileBound(int(bound[2]), int(bound[3]), bound[1] == "until")
    size = int(block) if block.isdigit() else block
    return TileDim(_numbers(axes), size, walk, "masked" in how, "backwards" in how, limit, parts)


def _statement(line: str) -> Statement:
    for kind, pattern in itertools.islice(_LINES.items(), 2, None):
        m = pattern.fullmatch(line)
        if m is None:
            continue
        match kind:
            case "constant":
                return TileConstant(m[1], _value(m[2]), m[3])
            case "position":
                return TileIndex(m[1], int(m[2]), m[4], _sides(m[3])[0])
            case "load":
                other = None if m[4] is None else _value(m[4])
                return TileLoad(m[1], _address(m[2]), m[5], *_sides(m[3]), other)
            case "gather":
                terms = [t.strip().partition("*") for t in m[3].split("+") if t.strip() != "0"]
                return TileGather(m[1], m[2], tuple((v[1:], _factor(f)) for v, _, f in terms), m[4])
            case "map":
                operands = tuple(v.strip()[1:] for v in m[3].split(",") if v.strip())
                return TileMap(m[1], m[2], operands, m[5], m[4] is not None)
            case "inside":
                return TileInside(m[1], m[2], _value(m[3]), _numbers(m[4]), m[5])
            case "count":
                return TileCount(m[1], _numbers(m[2]), m[3])
            case "carry":
                return TileCarry(m[1], _value(m[2]), _numbers(m[3]), m[5], _sides(m[4])[0])
            case "update":
                return TileUpdate(m[1], m[2])
            case "reduce":
                into = None if m[8] is None else _address(m[8])
                rest = (int(m[6] or 0), into, m[7] == "accumulating", m[9] is not None, m[10] is not None)
                return TileReduce(m[1], m[2], m[3], _value(m[4]), _numbers(m[5]), m[11], *rest)
            case "contract":
                return TileContract(m[1], m[2], m[3], _numbers(m[4]), m[7], m[5], m[6] is not None)
            case _:
                return TileStore(m[1], _address(m[2]), _sides(m[3])[0])
    raise ValueError(f"no statement of a tile program: {line}")


def _numbers(text: str) -> Axes:
    return tuple(int(n) for n in re.findall(r"i(\d+)", text))


def _sides(text: str | None) -> tuple[Dims, tuple[int | None, ...]]:
    """The dimensions that a tile lies on, and its limits along them, if there are any."""
    sides = re.findall(r"t(\d+)(?: < (\d+))?", text or "")
    limits = tuple(int(end) if end else None for _, end in sides)
    return tuple(int(dim) for dim, _ in sides), limits if any(end is not None for end in limits) else ()


def _value(text: str) -> Number:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _factor(text: str) -> Factor:
    parts = [p for p in text.split("*") if p]
    constant = math.prod(int(p) for p in parts if p.lstrip("-").isdigit())
    stride = next((int(p[1:]) for p in parts if p[0] == "s"), None)
    return Factor(constant, tuple(int(p[1:]) for p in parts if p[0] == "n"), stride)


def _address(text: str) -> Address:
    buffer, _, rest = text[:-1].partition("[")
    terms: list[tuple[int, Factor]] = []
    offset: list[Factor] = []
    for term in rest.split(" + "):
        if term.startswith("i"):
            axis, _, factor = term[1:].partition("*")
            terms.append((int(axis), _factor(factor)))
        elif term != "0":
            offset.append(_factor(term))
    return Address(buffer, tuple(terms), tuple(offset))


# --- specification --------------------------------------------------------------------------------------------------


def verify(program: TileProgram) -> None:
    """Raise if a program has a fault: that is a bug of its scheduler."""
    wrong = faults(program)
    if wrong:
        raise VerifyError(f"after schedule-kernels: {wrong[0]}\n{program}")


def faults(program: TileProgram) -> list[str]:
    """The faults of a program; none if targets can print it."""
    return list(_faults(program))


def _faults(program: TileProgram) -> Iterator[str]:
    kinds = {b.name: b.kind for b in (*program.buffers, *program.scratch)}
    axes = range(len(program.sizes))
    if len(kinds) != len(program.buffers) + len(program.scratch):
        yield "two buffers have one name"
    if not {*program.parallel} <= {*axes} or {*program.parallel} & {*program.inner}:
        yield "the parallel axes are no axes, or inner ones"
    yield from _tile_faults(program)
    everywhere: dict[str, str] = {}  # the kinds of values that are known after their sweep
    names: set[str] = set()
    carried: set[str] = set()
    reducible = {a for tile in program.tiles if tile.walk != "grid" for a in tile.axes}
    for sweep in program.sweeps:
        known = dict(everywhere)
        walked = {*program.looped(sweep)}
        if sweep.blocks and (not sweep.axes or any(n % m for n, m in itertools.pairwise(sweep.blocks))):
            yield f"a loop does not run in blocks of {sweep.blocks}"
        for s in sweep.statements:
            for used in operands_of(s):
                if used not in known:
                    yield f"%{used} is not known: {s}"
            for address in _addresses(s):
                if address.buffer not in kinds:
                    yield f"{address.buffer} is no buffer: {s}"
                elif kinds[address.buffer] != (known.get(s.value) if isinstance(s, TileStore | TileUpdate) else s.kind):
                    yield f"{address.buffer} holds {kinds[address.buffer]}: {s}"
                if not {*address.axes} <= walked:
                    yield f"an address of axes that the sweep does not walk: {s}"
            if isinstance(s, TileMap) and not _agrees(s, [known.get(v, "") for v in s.operands]):
                yield f"operands of other kinds: {s}"
            if isinstance(s, TileInside) and known.get(s.value) != s.kind:
                yield f"operands of other kinds: {s}"
            if isinstance(s, TileUpdate) and not (
                s.name in carried and sweep.axes and known.get(s.value) == known[s.name]
            ):
                yield f"no loop carries it so: {s}"
            partial = isinstance(s, TileReduce) and s.into is not None
            if isinstance(s, TileReduce | TileContract) and program.tiles and not (partial or {*s.over} <= reducible):
                yield f"a reduction of what other tiles have: {s}"
            if isinstance(s, TileContract) and (known.get(s.left) != known.get(s.right) or not _accumulates(s, known)):
                yield f"operands of other kinds: {s}"
            yield from _side_faults(program, s)
            if isinstance(s, TileStore | TileUpdate):
                continue
            if isinstance(s, TileCarry):
                carried.add(s.name)
            if s.name in names:
                yield f"%{s.name} is made twice"
            names.add(s.name)
            known[s.name] = s.kind
            whole = isinstance(s, TileReduce) and not s.accumulates and {*sweep.axes} <= {*s.over}
            if not sweep.axes or whole or program.tiled is not None:
                everywhere[s.name] = s.kind


def _accumulates(s: TileContract, kinds: Mapping[str, str]) -> bool:
    """Whether a contraction adds up in the kind of its accumulator, or of its factors."""
    return kinds.get(s.left if s.accumulator is None else s.accumulator) == s.kind or (
        s.accumulator is None and kinds.get(s.left) in NARROW and s.kind == "f32"
    )


def _side_faults(program: TileProgram, s: Statement) -> Iterator[str]:
    on = on_of(s)
    if not on or not isinstance(s, TileLoad | TileIndex | TileCarry | TileStore):
        return
    axes = {*s.axes} if isinstance(s, TileCarry) else {s.axis} if isinstance(s, TileIndex) else {*s.address.axes}
    if not {*on} <= {*range(len(program.tiles))} or len({*on}) < len(on):
        yield f"a tile on no dimensions, or on one twice: {s}"
    elif any(axes & {*tile.axes} for i, tile in enumerate(program.tiles) if i not in on and tile.block != 1):
        yield f"a tile that follows what it does not lie on: {s}"


def _tile_faults(program: TileProgram) -> Iterator[str]:
    counted = [a for tile in program.tiles for a in tile.axes]
    if len({*counted}) < len(counted) or not {*counted} <= {*range(len(program.sizes))}:
        yield "an axis lies along two dimensions of tiles, or is none"
    for tile in program.tiles:
        if tile.walk not in ("grid", "range", "whole", *LOOPS):
            yield f"tiles are not walked so: {tile.walk}"
        if any(max(inner) > min(outer) for outer, inner in itertools.pairwise(tile.parts)):
            yield f"a part is larger than what it is of: {str(tile).strip()}"
        shared = {*tile.axes} & {*program.parallel}
        if shared if tile.walk in ("whole", "loop") else shared != {*tile.axes}:
            yield f"tiles share what each has, or do not share the others: {str(tile).strip()}"
        bound = tile.bound
        if bound is not None and (tile.walk != "loop" or program.tiles[bound.dim].walk != "grid"):
            yield f"what is left out does not depend on a tile of the grid: {str(tile).strip()}"
    if program.group is not None and sum(tile.walk == "grid" for tile in program.tiles) != 2:
        yield "groups are of tiles along two dimensions of the grid"
    pieces = [tile.axes for tile in program.tiles if tile.walk in LOOPS]
    loops = [sweep.axes for sweep in program.sweeps if {*sweep.axes} & {*counted}]
    if len(pieces) > 1 or any(axes not in pieces for axes in loops):
        yield "loops are over the tiles of one piece"


def _agrees(statement: TileMap, kinds: list[str]) -> bool:
    """Whether operands of these kinds give what a map says."""
    name = statement.op.partition(" ")[0]
    if name in CASTS or name == "arith.index_cast":
        return len(kinds) == 1
    if name in ("arith.cmpf", "arith.cmpi"):
        return statement.kind == "i1" and len(kinds) == 2 and kinds[0] == kinds[1]
    return {*kinds[1:]} == {statement.kind} if name == "arith.select" else {*kinds} == {statement.kind}


def operands_of(statement: Statement) -> tuple[str, ...]:
    """The values that a statement is about."""
    match statement:
        case TileMap():
            return statement.operands
        case TileGather():
            return tuple(v for v, _ in statement.terms)
        case TileReduce():
            return (statement.operand,)
        case TileContract(accumulator=None):
            return (statement.left, statement.right)
        case TileContract(accumulator=str(sofar)):
            return (statement.left, statement.right, sofar)
        case TileStore() | TileUpdate() | TileInside():
            return (statement.value,)
        case _:
            return ()


def on_of(statement: Statement) -> Dims | None:
    """The dimensions that a statement's tile lies on, none of them if it is on all; None if it does not say."""
    return statement.on if isinstance(statement, TileLoad | TileIndex | TileCarry | TileStore) else None


def buffers_of(statement: Statement) -> tuple[str, ...]:
    """The buffers that a statement reads or writes."""
    gathered = (statement.buffer,) if isinstance(statement, TileGather) else ()
    return (*gathered, *(a.buffer for a in _addresses(statement)))


def _addresses(statement: Statement) -> tuple[Address, ...]:
    match statement:
        case TileLoad() | TileStore():
            return (statement.address,)
        case TileReduce():
            return () if statement.into is None else (statement.into,)
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

    def extent(self, axes: tuple[int, ...]) -> int:
        """How many elements axes have."""
        return math.prod(self.sizes[a] for a in axes)

    @property
    def pieces(self) -> int:
        """How many programs share a dimension that is walked in pieces."""
        assert self.piece is not None
        (walked,) = (tile.axes for tile in self.program.tiles if tile.walk == "piece")
        return max(1, -(-self.extent(walked) // self.piece))
