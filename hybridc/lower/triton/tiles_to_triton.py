"""Tile programs as Triton functions: what a program of the GPU does, and how many of them are launched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.block_code import BlockCode, BlockCopy, BlockFill, BlockLaunch, PaddedCopy
from hybridc.ir.tiles.tile_program import LOOPS, Axes, TileConfig, TileDim, TileLaunch, on_of
from hybridc.lower.triton.expressions.ops import triton_literal
from hybridc.lower.triton.horizontal_fusion import call_block, fuse_horizontally
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import copy_launch, fill_launch, module, padded_copy_launch, title
from hybridc.lower.triton.tile_printer import Dim, TilePrinter, extent, factor_text, narrowed_in
from hybridc.lower.triton.triton_function import (
    Config,
    Elements,
    LibraryConfig,
    TritonFunction,
    TritonLaunch,
    TritonLaunches,
)

# Of the dimensions of blocks.
_NAMES = "ijklmnopq"


def print_block_code(code: BlockCode) -> TritonLaunches:
    """The launches of a kernel; equal ones are one where they may be."""
    numbers = {name: i for i, name in enumerate(code.buffers)}
    kernel_launches = [_launch(code.kernel, launch, numbers) for launch in code.launches]
    return TritonLaunches(fuse_horizontally(kernel_launches, _read_only(code.kernel)), code.locals, _library(code))


def _launch(kernel: Kernel, launch: BlockLaunch, numbers: Mapping[str, int]) -> TritonLaunch:
    """A launch; ``numbers`` are the indices of the kernel's buffers."""
    match launch:
        case TileLaunch():
            return _FunctionText(kernel, launch).kernel_launch(numbers)
        case BlockFill():
            scalar = triton_literal(launch.value, launch.dtype)
            return fill_launch(launch.dtype, launch.size, scalar, numbers[launch.target])
        case BlockCopy(dtype=dtype, shape=shape):
            return copy_launch(dtype, shape, row_major(shape), numbers[launch.source], numbers[launch.target])
        case PaddedCopy():
            return padded_copy_launch(f"{kernel.name}_filled", launch, numbers)


def _library(code: BlockCode) -> LibraryConfig | None:
    """A library's matmul, and the launches after it."""
    if code.library is None:
        return None
    after = code.library.after
    return LibraryConfig(code.library.matmul, tuple(print_block_code(after).kernel_launches) if after else ())


def _read_only(kernel: Kernel) -> set[int]:
    """The arguments that are no memory for any result, as none is like them."""
    results = {(v.shape, v.dtype) for v in kernel.results}
    return {i for i, v in enumerate(kernel.arguments) if (v.shape, v.dtype) not in results}


def _spread(tile: TileDim) -> Axes:
    """The axes of a dimension along which blocks have several elements: a loop may take one at a time."""
    return () if tile.walk in LOOPS and tile.block == 1 else tile.axes


class _FunctionText:
    """The function of a tile program."""

    def __init__(self, kernel: Kernel, launch: TileLaunch) -> None:
        self.kernel, self.launch, program = kernel, launch, launch.program
        self.w = SourceWriter()
        dtypes = {b.name: dtype for b, dtype in zip(program.buffers, launch.dtypes, strict=True)}
        dims = [
            Dim(name, _spread(tile), factor_text(extent(program.sizes, tile.axes)), str(tile.block), tile.masked)
            for name, tile in zip(_NAMES, program.tiles, strict=False)
        ]
        lie = [on for sweep in program.sweeps for s in sweep.statements if (on := on_of(s)) is not None]
        self.printer = TilePrinter(program.sizes, dims, dtypes, self.w, lie)
        self.loops = [i for i, tile in enumerate(program.tiles) if tile.walk in LOOPS]
        self.printer.loops = self.printer.between = frozenset(self.loops)
        self.grid = [i for i, tile in enumerate(program.tiles) if tile.walk == "grid"]
        tiled = {a for tile in program.tiles for a in tile.axes}
        self.points: Axes = tuple(a for a in program.parallel if a not in tiled and program.sizes[a] != 1)
        self.constants = tuple(tile.block for tile in program.tiles if isinstance(tile.block, str))
        self.constants += (program.group,) if program.group is not None else ()
        # How long a piece is, is written out if all sizes are.
        self.piece = "piece" if program.dynamic else str(launch.piece)
        # Each program has one block of elements that follow each other.
        self.flat = len(program.tiles) == len(self.grid) == 1 and not self.points
        self.tail = self.flat and launch.tail

    def kernel_launch(self, numbers: Mapping[str, int]) -> TritonLaunch:
        """The function and its arguments."""
        launch, program = self.launch, self.launch.program
        self._places()
        self._sweeps()
        dynamic = program.dynamic
        parameters = tuple(f"n{a}" for a in dynamic)
        arguments = tuple(launch.sizes[a] for a in dynamic)
        if launch.piece is not None and dynamic:
            parameters, arguments = (*parameters, self.piece), (*arguments, launch.piece)
        pointers = tuple(b.name for b in program.buffers)
        name, doc = self.kernel.name + launch.suffix, title(self.kernel, launch.what)
        if launch.what == "combine":
            parts, elements = launch.sizes
            name, doc = "combine", f"{parts} parts of {elements} elements are combined."
        block = self._elements(pointers, parameters, doc) if self.flat else None
        text = self.w
        if block is not None and self.tail:
            text = SourceWriter()
            text.line(f"program = {block.program}")
            call_block(name, block, text)
        source = module(name, pointers, parameters, self.constants, doc, text)
        kinds = ("i64" if launch.wide else "i32",) * len(parameters)
        function = TritonFunction(name, source, launch.dtypes, kinds, self.constants)
        configs = tuple(Config(c.blocks, self._programs(c), c.warps, c.stages, c.shared) for c in launch.configs)
        return TritonLaunch(function, tuple(numbers[b] for b in launch.buffers), arguments, configs, block)

    def _elements(self, pointers: tuple[str, ...], parameters: tuple[str, ...], doc: str) -> Elements:
        """Write what a program does with its block."""
        _, *lines = self.w.lines
        (dim,), (tile,) = self.printer.dims, self.launch.program.tiles
        count, helpers = self.launch.extent(tile.axes), tuple(self.w.helpers.items())
        return Elements(
            pointers, parameters, self._program(0), tuple(lines), helpers, dim.extent, count, self.tail, doc
        )

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

    def _program(self, axis: int) -> str:
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
            index = w.let("program", self._program(0)) if self.flat else self._program(0)
            printer.places(i, f"{index} * {printer.dims[i].block} + ")
            if self.tail:
                printer.valid = w.let("there", f"{printer.dims[i].name} < {printer.dims[i].extent} if TAIL else None")
        elif self.grid or self.points:
            self._places_in_grid(self.grid)
        if self.launch.piece is not None:
            w.line(f"piece_number = {self._program(1 if self.grid or self.points else 0)}")
            printer.partial = {b.name: "piece_number" for b in program.pieces}

    def _places_in_grid(self, grid: Sequence[int]) -> None:
        """Only a grid's first axis has many programs: they are counted as one, along the last dimension first."""
        w, printer, tiles = self.w, self.printer, self.launch.program.tiles
        program = w.let("program", self._program(0))
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
        program, printer = self.launch.program, self.printer
        narrowed = narrowed_in([s for sweep in program.sweeps for s in sweep.statements])
        for sweep in program.sweeps:
            if not sweep.axes:
                printer.statements(sweep.statements, narrowed)
                continue
            self._loop()
            with self.w.indented():
                printer.between = frozenset()
                printer.statements(sweep.statements, narrowed)
                printer.between = printer.loops

    def _loop(self) -> None:
        """Write the head of a loop over tiles, and the indices along their dimension."""
        w, printer, (i,) = self.w, self.printer, self.loops
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
