"""All lines of tile programs are read as they are written, with and without what may be left out."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import get_args

import pytest

from hybridc.ir.tiles import tile_program as tiles
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_program import Address, Factor, TileProgram, TileSweep

FACTOR = Factor(-4, (1,), 0)
# Two values of each field, by its name or by its type; if it has a default, that is the first instead.
VALUES = {
    "op": ("arith.addf", "arith.cmpf ogt"),
    "int": (0, 4),
    "bool": (False, True),
    "str": ("v0", "w"),
    "Number": (True, float("-inf")),
    "Axes": ((), (0, 2)),
    "Dims": ((), (1, 0)),
    "Factor": (Factor(), FACTOR),
    "Address": (Address("b0"), Address("b1", ((0, Factor()), (12, FACTOR)), (Factor(7), Factor(1, (), 2)))),
    "int | str": (16, "n1*2"),
    "tuple[int, ...]": ((), (4096, 64)),
    "tuple[int | None, ...]": ((), (None, 7)),
    "tuple[str, ...]": ((), ("0", "v")),
    "tuple[str | None, str]": (None, (None, "v")),
    "tuple[tuple[int, ...], ...]": ((), ((12, 4), (1,))),
    "tuple[tuple[str, Factor], ...]": ((), (("v", Factor()), ("w", FACTOR))),
    "TileBound": (None, tiles.TileBound(0, -4, True)),
    "tuple[TileCarried, ...]": ((), (tiles.TileCarried(*"abcde"), tiles.TileCarried(*"fghij"))),
    "tuple[Statement, ...]": ((), (tiles.TileUpdate("v", "w"), tiles.TileLoop("i", "v", "w", (), ()))),
    "tuple[TileSweep, ...]": ((), (TileSweep((1,), (), sweeps=(TileSweep((), ()),)), TileSweep((), ()))),
    "tuple[TileBuffer, ...]": ((), (tiles.TileBuffer("b0", "f32"),)),
    "tuple[TileScratch, ...]": ((), (tiles.TileScratch("t0", "f32", ()),)),
    "tuple[TileDim, ...]": ((), (tiles.TileDim((), 1, "whole", False, bound=tiles.TileBound(1, 3, False)),)),
}
FIELDS = {tiles.TileBuffer: "buffers", tiles.TileScratch: "scratch", tiles.TileDim: "tiles", TileSweep: "sweeps"}


def samples(cls):
    """Objects of a class whose fields all have their first values, or one of them, or all but one, or none."""
    values = {f.name: VALUES.get(f.name) or VALUES[f.type.removesuffix(" | None")] for f in fields(cls)}
    first = {f.name: values[f.name][0] if f.default is MISSING else f.default for f in fields(cls)}
    second = {name: value for name, (_, value) in values.items()}
    for name in values:
        for chosen in (first, {**first, name: second[name]}, {**second, name: first[name]}, second):
            # Limits are those of dimensions, and what accumulates does so in memory.
            if (chosen.get("on") or not chosen.get("limits")) and (chosen.get("into") or not chosen.get("accumulates")):
                yield cls(**chosen)


@pytest.mark.parametrize("cls", [*get_args(tiles.Statement), *FIELDS, TileProgram], ids=lambda cls: cls.__name__)
def test_lines_are_read_as_they_are_written(cls):
    parts = tuple(samples(cls))
    programs = parts if cls is TileProgram else [TileProgram((), (), (), (TileSweep((), parts),))]
    if cls in FIELDS:
        programs = [replace(TileProgram((), (), (), ()), **{FIELDS[cls]: parts})]
    for program in programs:
        assert parse(str(program)) == program


LOOP = str(TileProgram((), (), (), (TileSweep((), (tiles.TileLoop("i", "v", "w", (), ()),)),)))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("      }\n", "", "a block of the tile program has no end, or two"),
        ("      }\n", "      }\n      }\n", "a block of the tile program has no end, or two"),
        ("      }\n", "        sweep {\n        }\n      }\n", "no part of a TileLoop: sweep {"),
        ("for %i", "for i", "no statement of a tile program: for i from %v to %w"),
    ],
)
def test_other_blocks_are_refused(before, after, message):
    assert LOOP.count(before) == 1
    with pytest.raises(ValueError, match=message):
        parse(LOOP.replace(before, after))
