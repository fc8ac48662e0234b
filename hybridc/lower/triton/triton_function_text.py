"""A tile program as a Triton function: what a program of the GPU does, and how many of them are launched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.tile_program import TileConfig, TileLaunch
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module, title
from hybridc.lower.triton.tile_printer import TilePrinter
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonLaunch


class TritonFunctionText:
    """The function of a tile program: its name, its parameters, and the lines of its body."""

    def __init__(self, kernel: Kernel, launch: TileLaunch) -> None:
        self.kernel, self.launch, program = kernel, launch, launch.program
        self.w = SourceWriter()
        dtypes = {b.name: dtype for b, dtype in zip(program.buffers, launch.dtypes, strict=True)}
        self.printer = TilePrinter(program, dtypes, self.w)
        self.grid = [i for i, tile in enumerate(program.tiles) if tile.walk == "grid"]
        self.points = program.points
        self.constants = tuple(tile.block for tile in program.tiles if isinstance(tile.block, str))
        self.constants += (program.group,) if program.group is not None else ()
        # How long a piece is, is written out if all sizes are.
        self.piece = "piece" if program.dynamic else str(launch.piece)
        self.tail = launch.tail and launch.flat
        self.name, self.doc = kernel.name + launch.suffix, title(kernel, launch.what)
        if launch.what == "combine":
            parts, elements = launch.sizes
            self.name, self.doc = "combine", f"{parts} parts of {elements} elements are combined."
        self.pointers = tuple(b.name for b in program.buffers)
        self.parameters = tuple(f"n{a}" for a in program.dynamic)
        self.parameters += (self.piece,) if launch.piece is not None and program.dynamic else ()
        self._places()
        self._sweeps()

    def kernel_launch(self, numbers: Mapping[str, int]) -> TritonLaunch:
        """The function and its arguments."""
        launch, text = self.launch, self.w
        if self.tail:
            text = SourceWriter()
            text.line(f"program = {self.program_id(0)}")
            self.call_block(text)
        source = module(self.name, self.pointers, self.parameters, self.constants, self.doc, text)
        function = TritonFunction(self.name, source, launch.dtypes, self.kinds, self.constants)
        configs = tuple(Config(c.blocks, self._programs(c), c.warps, c.stages, c.shared) for c in launch.configs)
        return TritonLaunch(function, tuple(numbers[b] for b in launch.buffers), self.arguments(launch), configs)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types of the parameters."""
        return ("i64" if self.launch.wide else "i32",) * len(self.parameters)

    def arguments(self, launch: TileLaunch) -> tuple[int, ...]:
        """The values of the parameters in a launch of the function."""
        sizes = tuple(launch.sizes[a] for a in launch.program.dynamic)
        return sizes if launch.piece is None or not sizes else (*sizes, launch.piece)

    def call_block(self, w: SourceWriter) -> None:
        """Write what makes the block of ``program``: calls of a function, which is one of the module from now on.

        Full blocks are moved by as many bytes at a time as can be, so that it has a constant for the tail.
        """
        parameters = [*self.pointers, *self.parameters, "program"]
        block, tail = f"{self.name}_block", ["TAIL: tl.constexpr"] if self.tail else []
        head = ["@triton.jit", f"def {block}({', '.join([*parameters, 'BLOCK: tl.constexpr', *tail])}):"]
        w.helpers |= self.w.helpers
        w.helper(block, "\n".join([*head, *(f"    {line}" for line in self.w.lines[1:])]))
        arguments = ", ".join([*parameters, "BLOCK"])
        if not self.tail:
            w.line(f"{block}({arguments})")
            return
        w.line(f"if (program + 1) * BLOCK <= {self.printer.dims[0].extent}:")
        with w.indented():
            w.line(f"{block}({arguments}, False)")
        w.line("else:")
        with w.indented():
            w.line(f"{block}({arguments}, True)")

    def _programs(self, config: TileConfig) -> tuple[int, int, int]:
        """How many programs there are."""
        launch, blocks = self.launch, dict(config.blocks)
        tiles = [launch.program.tiles[i] for i in self.grid]
        sizes = [tile.block if isinstance(tile.block, int) else blocks[tile.block] for tile in tiles]
        count = math.prod(-(-launch.extent(tile.axes) // n) for tile, n in zip(tiles, sizes, strict=True))
        count *= launch.extent(self.points)
        if launch.piece is None:
            return count, 1, 1
        return (count, launch.pieces, 1) if self.grid or self.points else (launch.pieces, 1, 1)

    # --- the text ------------------------------------------------------------------------------------------

    def program_id(self, axis: int) -> str:
        """The id of this program along an axis of the grid."""
        return f"tl.program_id({axis}){'.to(tl.int64)' if self.launch.wide else ''}"

    def _places(self) -> None:
        """Write the indices that a program has."""
        w, printer, program = self.w, self.printer, self.launch.program
        for i, tile in enumerate(program.tiles):
            if tile.walk == "whole":
                printer.places(i, "")
        if len(self.grid) == 1 and not self.points:
            (i,) = self.grid
            index = w.let("program", self.program_id(0)) if self.launch.flat else self.program_id(0)
            printer.places(i, f"{index} * {printer.dims[i].block} + ")
            if self.tail:
                printer.valid = w.let("there", f"{printer.dims[i].name} < {printer.dims[i].extent} if TAIL else None")
        elif self.grid or self.points:
            self._places_in_grid(self.grid)
        if self.launch.piece is not None:
            w.line(f"piece_number = {self.program_id(1 if self.grid or self.points else 0)}")
            printer.partial = {b.name: "piece_number" for b in program.pieces}

    def _places_in_grid(self, grid: Sequence[int]) -> None:
        """Only a grid's first axis has many programs: they are counted as one, along the last dimension first."""
        w, printer, tiles = self.w, self.printer, self.launch.program.tiles
        program = w.let("program", self.program_id(0))
        counts = [self._blocks(i) for i in grid]
        per_point = counts[0] if len(counts) == 1 else f"({' * '.join(counts) or 1})"
        if self.points:
            printer.point(self.points, f"{program} // {per_point}" if counts else program)
        numbers: list[str] = []
        if self.launch.program.group is not None:
            numbers = self._grouped(program, per_point, counts)
        for n in range(len(numbers), len(grid)):
            inner = counts[n + 1 :]
            block = program if not inner else f"{program} // {' // '.join(inner)}"
            outermost = n == 0 and not self.points
            numbers.append(block if outermost else f"{block} % {counts[n]}")
        bounding = {tile.bound.dim for tile in tiles if tile.bound is not None}
        for block, count, i in zip(numbers, counts, grid, strict=True):
            if tiles[i].backwards:
                block = f"({count} - 1 - {block})"
            first = f"{block} * {printer.dims[i].block}"
            printer.places(i, f"{w.let('first', first) if i in bounding else first} + ")

    def _blocks(self, i: int) -> str:
        """The name of how many tiles there are along a dimension, a constant if it can be."""
        dim, w = self.printer.dims[i], self.w
        if not dim.extent.isdigit():
            return w.let("blocks", f"tl.cdiv({dim.extent}, {dim.block})")
        name = w.name("blocks")
        w.line(f"{name}: tl.constexpr = ({dim.extent} + {dim.block} - 1) // {dim.block}")
        return name

    def _grouped(self, program: str, per_point: str, counts: Sequence[str]) -> list[str]:
        """Write which tile a program has along both dimensions of the grid.

        Programs that run at the same time should read the same: they go down ``group`` tiles before they go across.
        """
        w, (down, across) = self.w, counts
        tile = w.let("number", f"{program} % {per_point}") if self.points else program
        group = f"({self.launch.program.group} * {across})"
        above = w.let("above", f"{tile} // {group} * {self.launch.program.group}")
        height = w.let("height", f"tl.minimum({down} - {above}, {self.launch.program.group})")
        return [f"({above} + {tile} % {group} % {height})", f"{tile} % {group} // {height}"]

    def _sweeps(self) -> None:
        printer = self.printer
        for sweep in self.launch.program.sweeps:
            if sweep.axes:
                self._loop()
            printer.between = frozenset() if sweep.axes else printer.loops
            with self.w.indented(1 if sweep.axes else 0):
                for statement in sweep.statements:
                    printer.statement(statement)

    def _loop(self) -> None:
        """Write the head of a loop over tiles, and the indices along their dimension."""
        w, printer, (i,) = self.w, self.printer, self.printer.loops
        dim = printer.dims[i]
        begin, end = self._range(i)
        start = w.name("start")
        w.line(f"for {start} in range({begin}, {end}, {dim.block}):")
        with w.indented():
            first = f"tl.cast({start}, tl.int64)" if self.launch.wide else start
            if not dim.axes:
                printer.index |= dict.fromkeys(self.launch.program.tiles[i].axes, first)
            else:
                printer.places(i, f"{first} + ")

    def _range(self, i: int) -> tuple[str, str]:
        """The range of elements that a loop over tiles covers."""
        w, dim, bound = self.w, self.printer.dims[i], self.launch.program.tiles[i].bound
        if self.launch.program.tiles[i].walk == "piece":
            begin = w.let("begin", f"piece_number * {self.piece}")
            return begin, f"tl.minimum({begin} + {self.piece}, {dim.extent})"
        if bound is None:
            return "0", dim.extent
        other = self.printer.dims[bound.dim]
        first, by = self.printer.first[bound.dim], bound.by
        if bound.last:
            most = min(int(dim.extent), int(other.extent) + by)
            return "0", w.let("end", f"tl.minimum({first} + {other.block}{f' + {by}' * bool(by)}, {most})")
        least = w.let("begin", f"tl.maximum({first}{f' - {by}' * bool(by)}, 0) // {dim.block} * {dim.block}")
        return least, dim.extent
