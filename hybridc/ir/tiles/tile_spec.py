"""The specification of tile programs: what targets rely on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field

from hybridc.dtypes import NARROW
from hybridc.errors import VerifyError
from hybridc.ground.records import dataclass
from hybridc.ir.scalars import CASTS
from hybridc.ir.tiles import tile_program as tiles
from hybridc.ir.tiles.tile_program import LOOPS, Statement, TileProgram, TileSweep, addresses_of, on_of, operands_of


def verify(program: TileProgram) -> None:
    """Raise if something is wrong with a program: a bug of what scheduled it."""
    wrong = faults(program)
    if wrong:
        raise VerifyError(f"after schedule-kernels: {wrong[0]}\n{program}")


def faults(program: TileProgram) -> list[str]:
    """The faults of a program; none if targets can print it."""
    return list(_Specification(program).faults())


@dataclass(eq=False)
class _Specification:
    """What a program must keep to; ``after`` are the kinds of values that are known after their sweep."""

    program: TileProgram
    after: dict[str, str] = field(default_factory=dict[str, str])
    names: set[str] = field(default_factory=set[str])
    carried: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.kinds = {b.name: b.kind for b in (*self.program.buffers, *self.program.scratch)}
        self.reducible = {a for tile in self.program.tiles if tile.walk != "grid" for a in tile.axes}

    def faults(self) -> Iterator[str]:
        """All that is wrong."""
        program = self.program
        if len(self.kinds) != len(program.buffers) + len(program.scratch):
            yield "two buffers have one name"
        if not {*program.parallel} <= {*range(len(program.sizes))} or {*program.parallel} & {*program.inner}:
            yield "the parallel axes are no axes, or inner ones"
        yield from _tile_faults(program)
        for sweep in program.sweeps:
            yield from self._sweep(sweep, {**self.after}, {*program.looped(sweep)})

    def _sweep(self, sweep: TileSweep, known: dict[str, str], walked: set[int]) -> Iterator[str]:
        """What is wrong in a sweep; ``known`` are the kinds of values, ``walked`` the axes that have an index."""
        if sweep.blocks and (not sweep.axes or any(n % m for n, m in itertools.pairwise(sweep.blocks))):
            yield f"a loop does not run in blocks of {sweep.blocks}"
        bounds = [v for v in sweep.bounds or () if v is not None]
        if bounds and (not sweep.axes or any(known.get(v) != "index" for v in bounds)):
            yield f"a loop does not run between {', '.join(f'%{v}' for v in bounds)}"
        kinds = [type(s) for s in sweep.statements]
        if sweep.squares and (len(sweep.axes) != 2 or kinds != [tiles.TileLoad, tiles.TileStore] or sweep.sweeps):
            yield "squares are of two axes, along which a load and a store move elements"
        for s in sweep.statements:
            yield from self._statement(s, sweep, known, walked)
            if isinstance(s, tiles.Effect):
                continue
            whole = isinstance(s, tiles.TileReduce) and not s.accumulates and {*sweep.axes} <= {*s.over}
            if not sweep.axes or whole or self.program.tiled is not None:
                self.after[s.name] = s.kind
        for inner in sweep.sweeps:
            yield from self._sweep(inner, {**known}, {*walked, *inner.axes})

    def _statement(self, s: Statement, sweep: TileSweep, known: dict[str, str], walked: set[int]) -> Iterator[str]:
        """What is wrong with a statement, whose values are ``known`` from now on."""
        yield from self._reads(s, known, walked)
        yield from self._operands(s, sweep, known)
        yield from _side_faults(self.program, s)
        if isinstance(s, tiles.TileLoop):
            yield from self._loop(s, sweep, known, walked)
        if isinstance(s, tiles.Effect):
            return
        if isinstance(s, tiles.TileCarry):
            self.carried.add(s.name)
        yield from self._define(s.name, s.kind, known)

    def _loop(self, s: tiles.TileLoop, sweep: TileSweep, known: dict[str, str], walked: set[int]) -> Iterator[str]:
        """What is wrong in a loop."""
        if (known.get(s.low), known.get(s.high)) != ("index", "index"):
            yield f"a loop does not run between %{s.low}, %{s.high}"
        inside = {**known}
        yield from self._define(s.index, "index", inside)
        for c in s.carried:
            yield from self._define(c.name, c.kind, inside)
        for inner in s.statements:
            yield from self._statement(inner, sweep, inside, walked)
        for c in s.carried:
            if not known.get(c.start) == inside.get(c.next) == c.kind:
                yield f"a loop does not carry it so: {c}"
            yield from self._define(c.result, c.kind, known)

    def _define(self, name: str, kind: str, known: dict[str, str]) -> Iterator[str]:
        """Let a value be known, whose name is its own."""
        if name in self.names:
            yield f"%{name} is made twice"
        self.names.add(name)
        known[name] = kind

    def _reads(self, s: Statement, known: Mapping[str, str], walked: set[int]) -> Iterator[str]:
        """What is wrong with the values and the memory that a statement names."""
        for used in operands_of(s):
            if used not in known:
                yield f"%{used} is not known: {s}"
        for address in addresses_of(s):
            kind = s.kind if isinstance(s, tiles.TileLoad | tiles.TileReduce) else known.get(operands_of(s)[0])
            if address.buffer not in self.kinds:
                yield f"{address.buffer} is no buffer: {s}"
            elif self.kinds[address.buffer] != kind:
                yield f"{address.buffer} holds {self.kinds[address.buffer]}: {s}"
            if not {*address.axes} <= walked:
                yield f"an address of axes that the sweep does not walk: {s}"

    def _operands(self, s: Statement, sweep: TileSweep, known: Mapping[str, str]) -> Iterator[str]:
        """What is wrong with the kinds of a statement's operands, and with what it reduces."""
        if isinstance(s, tiles.TileMap) and not _agrees(s, [known.get(v, "") for v in s.operands]):
            yield f"operands of other kinds: {s}"
        if isinstance(s, tiles.TileInside) and known.get(s.value) != s.kind:
            yield f"operands of other kinds: {s}"
        if isinstance(s, tiles.TileCombine) and {self.kinds.get(s.parts), self.kinds.get(s.into)} != {s.kind}:
            yield f"buffers of other kinds: {s}"
        if isinstance(s, tiles.TileScatter) and self.kinds.get(s.buffer) != known.get(s.value):
            yield f"{s.buffer} holds {self.kinds.get(s.buffer)}: {s}"
        if isinstance(s, tiles.TileUpdate) and not (
            s.name in self.carried and sweep.axes and known.get(s.value) == known[s.name]
        ):
            yield f"no loop carries it so: {s}"
        if isinstance(s, tiles.TileReduce | tiles.TileContract) and self.program.tiles and not self._has_terms(s):
            yield f"a reduction of what other tiles have: {s}"
        if isinstance(s, tiles.TileContract) and (
            known.get(s.left) != known.get(s.right) or not _accumulates(s, known)
        ):
            yield f"operands of other kinds: {s}"

    def _has_terms(self, s: tiles.TileReduce | tiles.TileContract) -> bool:
        """Whether a tile has all terms of a result, or the result is a partial one."""
        if {*s.over} <= self.reducible:
            return True
        return s.into is not None if isinstance(s, tiles.TileReduce) else self._is_partial(s)

    def _is_partial(self, contract: tiles.TileContract) -> bool:
        """Whether a sum over the tiles of the first parallel axes goes to partial results, and nowhere else."""
        program, pieces = self.program, {b.name for b in self.program.pieces}
        parted = [a for a in program.parallel if a in contract.over]
        readers = [s for sweep in program.sweeps for s in sweep.walk() if contract.name in operands_of(s)]
        stored = [isinstance(s, tiles.TileStore) and s.address.buffer in pieces for s in readers]
        return bool(stored) and all(stored) and parted == [*program.parallel[: len(parted)]]


def _accumulates(s: tiles.TileContract, kinds: Mapping[str, str]) -> bool:
    """Whether a contraction adds up in the kind of its accumulator, or of its factors."""
    return kinds.get(s.left if s.accumulator is None else s.accumulator) == s.kind or (
        s.accumulator is None and kinds.get(s.left) in NARROW and s.kind == "f32"
    )


def _side_faults(program: TileProgram, s: Statement) -> Iterator[str]:
    on = on_of(s)
    if not on or not isinstance(s, tiles.TileLoad | tiles.TileIndex | tiles.TileCarry | tiles.TileStore):
        return
    axes = (s.axis,) if isinstance(s, tiles.TileIndex) else s.axes if isinstance(s, tiles.TileCarry) else s.address.axes
    if not {*on} <= {*range(len(program.tiles))} or len({*on}) < len(on):
        yield f"a tile on no dimensions, or on one twice: {s}"
    elif any({*axes} & {*tile.axes} for i, tile in enumerate(program.tiles) if i not in on and tile.block != 1):
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
        if tile.lanes > 1 and any(size % tile.lanes for size in (tile.parts or ((1,),))[-1]):
            yield f"parts that are no whole vectors: {str(tile).strip()}"
        shared = {*tile.axes} & {*program.parallel}
        if shared if tile.walk in ("whole", "loop") else shared != {*tile.axes}:
            yield f"tiles share what each has, or do not share the others: {str(tile).strip()}"
        bound = tile.bound
        if bound is not None and (tile.walk != "loop" or program.tiles[bound.dim].walk != "grid"):
            yield f"what is left out does not depend on a tile of the grid: {str(tile).strip()}"
    if program.group is not None and sum(tile.walk == "grid" for tile in program.tiles) != 2:
        yield "groups are of tiles along two dimensions of the grid"
    if sum(tile.lanes > 1 for tile in program.tiles) > 1:
        yield "vectors lie along two dimensions"
    pieces = [tile.axes for tile in program.tiles if tile.walk in LOOPS]
    loops = [sweep.axes for sweep in program.sweeps if {*sweep.axes} & {*counted}]
    if len(pieces) > 1 or any(axes not in pieces for axes in loops):
        yield "loops are over the tiles of one piece"


def _agrees(statement: tiles.TileMap, kinds: list[str]) -> bool:
    """Whether operands of these kinds give what a map says."""
    name = statement.op.partition(" ")[0]
    if name in CASTS or name == "arith.index_cast":
        return len(kinds) == 1
    if name in ("arith.cmpf", "arith.cmpi"):
        return statement.kind == "i1" and len(kinds) == 2 and kinds[0] == kinds[1]
    return {*kinds[1:]} == {statement.kind} if name == "arith.select" else {*kinds} == {statement.kind}
