"""The roles of the axes of a matmul's tile program, and the scratch that its code needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hybridc.ir.structured_builder import kind_dtype
from hybridc.ir.tiles.tile_program import TileContract, TileProgram, axes_of_values

# The name of the sums of a contraction in the statements that follow it.
TOTAL = "total"
# Rows and terms of the squares that interleaving transposes.
SQUARE = 4


def matmul_scratch_bytes(program: TileProgram, sizes: Sequence[int]) -> int:
    """The scratch of a program's code, if its axes have these sizes."""
    shape = MatmulShape(program)
    elements = [math.prod(shape.held(axis, sizes) for axis in {*scratch.axes}) for scratch in program.scratch]
    return (shape.spill + sum(elements)) * kind_dtype(program.buffers[0].kind).itemsize


class MatmulShape:
    """The roles of the axes of a program, and the sizes of what is worked on at a time."""

    def __init__(self, program: TileProgram) -> None:
        statements = [s for sweep in program.sweeps for s in sweep.statements]
        (contract,) = (s for s in statements if isinstance(s, TileContract))
        self.dims = {axis: dim for dim in program.tiles for axis in dim.axes}
        follows = axes_of_values(statements)
        left, right = ({a for a in follows[v] if a in self.dims} for v in (contract.left, contract.right))
        *self.segments, self.terms = contract.over
        # The dimension of lines has parts of one line, where there are lines.
        self.lines = next((dim for dim in program.tiles if dim.walk == "range" and dim.parts == ((1,),)), None)
        (self.rows,) = left - right - {*(self.lines.axes if self.lines is not None else ())}
        (self.columns,) = right - left
        self.width = known_block(self.dims[self.columns].block)
        # Of dot products terms are taken by the vector, else columns.
        self.step = self.dims[self.terms].parts[-1][0]
        self.dots = self.step > 1
        self.lanes = self.step if self.dots else self.dims[self.columns].parts[-1][0]
        self.heights = self.dims[self.rows].parts[-1]

    @property
    def spill(self) -> int:
        """The elements of a tile of registers, if it may reach beyond the last column."""
        if self.dots or len(self.dims[self.rows].parts) > 1 or not self.dims[self.columns].masked:
            return self.lanes if self.dots else 0
        return self.heights[0] * self.width

    def held(self, axis: int, sizes: Sequence[int]) -> int:
        """How many elements scratch holds along an axis, whose size is given where that counts."""
        dim = self.dims[axis]
        if dim.walk == "whole":
            return sizes[axis]
        *larger, smallest = dim.parts
        size = larger[0][0] if larger else known_block(dim.block)
        if dim.walk == "range":
            size = min(size, sizes[axis])
        # Low tiles may reach beyond the last row.
        return size + (smallest[-1] - 1 if len(smallest) > 1 else 0)


def known_block(block: int | str) -> int:
    """The size of a tile, which is known."""
    assert isinstance(block, int), f"a tile of {block} elements"
    return block
