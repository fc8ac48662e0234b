"""Values of tiles that need be no more exact than half precision, as they are rounded to it wherever they are used."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from hybridc.dtypes import NARROW
from hybridc.ir.tiles.tile_program import (
    Statement,
    TileContract,
    TileInside,
    TileMap,
    TileReduce,
    TileStore,
    TileSweep,
    TileUpdate,
    operands_of,
)


def with_rough_maps(sweeps: Sequence[TileSweep], exact: Set[str] = frozenset()) -> tuple[TileSweep, ...]:
    """The sweeps of a program, whose maps are rough where they may be, but for those of the ``exact`` values."""
    rough = _rounded([s for sweep in sweeps for s in sweep.statements]) - exact
    return tuple(replace(sweep, statements=tuple(_roughly(s, rough) for s in sweep.statements)) for sweep in sweeps)


def _roughly(statement: Statement, rough: Set[str]) -> Statement:
    is_rough = isinstance(statement, TileMap) and statement.name in rough
    return replace(statement, rough=True) if is_rough else statement


def _rounded(statements: Sequence[Statement]) -> set[str]:
    """The values that are rounded to half precision wherever they are used."""
    rounded, other = set[str](), set[str]()
    for s in statements:
        match s:
            case TileMap(op="arith.truncf", kind=kind) if kind in NARROW:
                rounded.update(s.operands)
            case TileMap() | TileReduce() | TileStore() | TileUpdate() | TileInside() | TileContract():
                other.update(operands_of(s))
            case _:
                pass
    return rounded - other
