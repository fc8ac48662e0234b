"""Write the code of tile programs: what all kinds of them have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute

from hybridc.errors import UnsupportedError
from hybridc.ir.structured_builder import ELEMENT_TYPES, operation_class, operation_properties
from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Factor,
    Statement,
    TileConstant,
    TileLoad,
    TileMap,
    TileProgram,
    TileStore,
)
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.loops.loop_builder import Index, LoopBuilder, vector_type

# Fast-math: a*b + c may be contracted. Differences are rounded: those of equal values are zero.
CONTRACT = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
_CONTRACTED = ("arith.addf", "arith.mulf")

# The block that is a piece of the parallel indices, each of which has partial results of its own.
PIECE = "PIECE"
# Where an element is, or the first lane of a vector: the array, and the offset.
Place = tuple[LLVMValue, Index]


@functools.cache
def _properties(op: str, exact: bool) -> Mapping[str, Attribute]:
    """The properties of an operation on elements, in a program whose results are exact or not."""
    contracted = op in _CONTRACTED and not exact
    return {**operation_properties(op), **({"fastmath": CONTRACT} if contracted else {})}


@functools.cache
def _type(kind: str, lanes: int) -> Attribute:
    return ELEMENT_TYPES[kind] if lanes == 1 else vector_type(ELEMENT_TYPES[kind], lanes)


class ProgramWriter(ABC):
    """Writes the function of a tile program, which computes a range of the indices of the parallel axes.

    Statements about elements are about as many at a time as a vector has ``lanes``.
    """

    def __init__(self, program: TileProgram, module: ModuleText) -> None:
        self.program = program
        sizes = {f"n{a}" for a in program.dynamic}
        blocks = [tile.block for tile in program.tiles if isinstance(tile.block, str) and tile.block.isidentifier()]
        blocks = [block for block in blocks if block not in sizes]
        if program.pieces and PIECE not in blocks:
            blocks.append(PIECE)
        count = len(program.dynamic) + program.strides + len(blocks)
        self.b = b = LoopBuilder(module, [ELEMENT_TYPES[buffer.kind] for buffer in program.buffers], count)
        scalars = iter(b.scalars)
        self.sizes = [next(scalars) if n is None else b.index(n) for n in program.sizes]
        self.strides = [next(scalars) for _ in range(program.strides)]
        self.blocks = {name: next(scalars) for name in blocks}  # the sizes of tiles that are no axes', and of a piece
        self.arrays = {buffer.name: array for buffer, array in zip(program.buffers, b.arrays, strict=True)}
        self.known: dict[str, LLVMValue] = {}  # the values of statements
        self.lanes = 1
        self._loaded: dict[tuple[LLVMValue, LLVMValue, int], LLVMValue] = {}

    def write(self, symbol: str) -> None:
        """Write the function into the module, under a symbol."""
        self.write_body()
        self.b.write_region(symbol)

    @abstractmethod
    def write_body(self) -> None:
        """Write all iterations."""

    def kind(self, kind: str) -> Attribute:
        """The type of a statement's value."""
        return _type(kind, self.lanes)

    def factor(self, factor: Factor) -> Index:
        """A product of sizes and strides."""
        strides = [self.strides[factor.stride]] if factor.stride is not None else []
        return self.b.times(factor.constant, *[self.sizes[a] for a in factor.sizes], *strides)

    def write_element(self, s: Statement, place: Callable[[Address], Place]) -> None:
        """A statement about elements, each of which is at a place."""
        b = self.b
        match s:
            case TileMap():
                properties = _properties(s.op, self.program.exact)
                operands, name = [self.known[v] for v in s.operands], (s.op, s.kind, self.lanes)
                self.known[s.name] = b.pure(operation_class(s.op), operands, self.kind(s.kind), properties, name)
            case TileConstant():
                self.known[s.name] = b.number(s.constant, self.kind(s.kind))
            case TileStore():
                b.store_at(self.known[s.value], *place(s.address))
            case _:
                raise UnsupportedError(f"{type(s).__name__} is a statement on whole tiles, not on elements")

    def write_epilogue(
        self,
        statements: Sequence[Statement],
        name: str,
        sums: LLVMValue,
        along: Axes,
        place: Callable[[Address], Place],
    ) -> None:
        """Statements about sums of this name, whose lanes lie along these axes.

        What follows not all of the axes is the same in all lanes; what one epilogue has loaded no other one loads.
        """
        self.known = {name: sums}
        for s in statements:
            if not isinstance(s, TileLoad):
                self.write_element(s, place)
                continue
            array, at = place(s.address)
            key = (array, at.value, self.lanes)
            if key not in self._loaded:
                same = self.lanes > 1 and not {*along} <= {*s.address.axes}
                kind = ELEMENT_TYPES[s.kind] if same else self.kind(s.kind)
                vector = self.b.load_at(array, at, kind)
                self._loaded[key] = self.b.everywhere(vector, self.kind(s.kind)) if same else vector
            self.known[s.name] = self._loaded[key]
