"""A builder of tile programs all of whose sizes and strides are arguments: one function serves many arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Factor,
    Number,
    Statement,
    TileBuffer,
    TileConstant,
    TileIndex,
    TileLoad,
    TileMap,
    TileNumber,
    TileProgram,
    TileStore,
    TileSweep,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS


class ProgramBuilder:
    """Appends statements to a list, from which sweeps are made; counts names, axes and arguments."""

    def __init__(self, buffers: Sequence[TileBuffer], rank: int) -> None:
        self.buffers, self.rank = tuple(buffers), rank
        self.statements: list[Statement] = []
        self.arguments = 0  # beside the sizes of axes
        self._names = 0
        self._known: dict[Any, str] = {}  # the values that statements of the list make

    # --- values --------------------------------------------------------------------------------------------

    def argument(self) -> Factor:
        """The next argument of the code: a stride, or another number."""
        self.arguments += 1
        return Factor(stride=self.arguments - 1)

    def name(self) -> str:
        """A name for a value."""
        self._names += 1
        return str(self._names - 1)

    def number(self, factor: Factor, kind: str = "index") -> str:
        """An argument, or the size of an axis, as a value."""
        return self._add(TileNumber, factor, kind)

    def size(self, axis: int) -> str:
        """The size of an axis as a value."""
        return self.number(Factor(sizes=(axis,)))

    def constant(self, value: Number, kind: str = "index") -> str:
        """A constant."""
        return self._add(TileConstant, value, kind)

    def position(self, axis: int) -> str:
        """The index along an axis as a value."""
        return self._add(TileIndex, axis)

    def map(self, op: str, *operands: str, kind: str = "index") -> str:
        """An operation of arith or math on values."""
        return self._add(TileMap, op, operands, kind)

    def load(self, address: Address, kind: str) -> str:
        """An element of a buffer."""
        name = self.name()
        self.statements.append(TileLoad(name, address, kind))
        return name

    def store(self, value: str, address: Address) -> None:
        """Put an element into a buffer."""
        self.statements.append(TileStore(value, address))

    def _add(self, cls: Any, *fields: Any) -> str:
        """The value of a pure statement, which is appended once."""
        key = (cls, *fields)
        if key not in self._known:
            name = self._known[key] = self.name()
            self.statements.append(cls(name, *fields))
        return self._known[key]

    # --- arithmetic on indices -----------------------------------------------------------------------------

    def plus(self, a: str, b: str) -> str:
        """The sum of two indices."""
        return self.map("arith.addi", a, b)

    def minus(self, a: str, b: str) -> str:
        """The difference of two indices."""
        return self.map("arith.subi", a, b)

    def times(self, a: str, b: str) -> str:
        """The product of two indices."""
        return self.map("arith.muli", a, b)

    def least(self, a: str, b: str) -> str:
        """The minimum of two indices."""
        return self.map("arith.minsi", a, b)

    def most(self, a: str, b: str) -> str:
        """The maximum of two indices."""
        return self.map("arith.maxsi", a, b)

    def select(self, condition: str, a: str, b: str) -> str:
        """One of two indices."""
        return self.map("arith.select", condition, a, b)

    def offset(self, terms: Sequence[tuple[int, Factor]]) -> str:
        """The sum of indices along axes times factors."""
        products = [self.times(self.position(axis), self.number(factor)) for axis, factor in terms]
        total, *others = products
        for product in others:
            total = self.plus(total, product)
        return total

    def within(self, bounds: Sequence[tuple[int, Factor, Factor]]) -> str:
        """Whether the index along each axis is at least the first factor and less than the second."""
        flags: list[str] = []
        for axis, low, high in bounds:
            first = self.number(low)
            inside = self.minus(self.position(axis), first), self.minus(self.number(high), first)
            flags.append(self.map("arith.cmpi ult", *inside, kind="i1"))
        condition, *others = flags
        for flag in others:
            condition = self.map("arith.andi", condition, flag, kind="i1")
        return condition

    # --- sweeps --------------------------------------------------------------------------------------------

    def take(self) -> tuple[Statement, ...]:
        """The statements so far, which now belong to a sweep."""
        statements, self.statements = self.statements, []
        self._known.clear()
        return tuple(statements)

    def program(self, parallel: Axes, sweeps: Sequence[TileSweep], **options: Any) -> TileProgram:
        """The program; ``options`` are more fields of it."""
        inner = tuple(axis for axis in range(self.rank) if axis not in parallel)
        program = TileProgram(
            self.buffers,
            (None,) * self.rank,
            parallel,
            tuple(sweeps),
            strides=self.arguments,
            inner=inner,
            **options,
        )
        if OPTIONS.verify:
            verify(program)
        return program
