"""A kernel with a grid as a Python function: at each tile of the grid one loop nest after the other.

NumPy's own threads share its matmuls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hybridc.ir.kernels.grid_kernel import GridIndex
from hybridc.ir.kernels.kernel import KernelValue
from hybridc.lower.numpy.kernel_printer import KernelPrinter, NestsPrinter, View, scratch_source, tuple_of
from hybridc.transforms.code.array_code import ArrayCode, GridCode, KernelArrays, ScratchArray


class GridPrinter(KernelPrinter):
    """Writes a kernel with a grid; each part is a function inside."""

    def __init__(self, code: GridCode) -> None:
        super().__init__(code)
        self.grid = code
        self.parts = [(part, NestsPrinter(own)) for part, own in code.parts]

    def scratch(self, view: View) -> str | None:
        """A tuple of the arrays that loop nests share, then of what each nest needs."""
        sources = [scratch_source(array, view) for array in self._arrays()]
        for _, printer in self.parts:
            source = printer.scratch(lambda offset, dtype, shape: view(self.grid.own + offset, dtype, shape))
            sources += [] if source is None else [source]
        return tuple_of(sources) if sources else None

    def _arrays(self) -> list[ScratchArray]:
        return list(dict.fromkeys(self.grid.inner.values()))

    # --- source --------------------------------------------------------------------------------------------

    def title(self) -> str:
        sizes, tile = ("x".join(map(str, extents)) or "1" for extents in (self.grid.sizes, self.grid.tile))
        return f"{len(self.parts)} loop nests over a grid of {sizes} in tiles of {tile}"

    def body(self) -> list[str]:
        indices = {v: name for v, name in self.grid.names.items() if isinstance(v, GridIndex)}
        lines = [f"{name} = np.arange({index.size})" for index, name in indices.items()]
        for index, (_, printer) in enumerate(self.parts, 1):
            lines += printer.source(f"nest{index}").rstrip().split("\n")
        arrays = {array: f"t{i}" for i, array in enumerate(self._arrays())}
        scratch = [*arrays.values(), *(f"s{n}" for n, (_, printer) in enumerate(self.parts, 1) if printer.code.bytes)]
        unpacked = [f"({', '.join(scratch)},) = scratch"] if scratch else []
        loop = [f"for i in range({math.prod(self.grid.counts)}):", *("    " + line for line in self._offsets())]
        for index, (part, printer) in enumerate(self.parts, 1):
            values = zip((*part.arguments, *part.results), part.dims, strict=True)
            arguments = [
                arrays[self.grid.inner[v]] if v in self.grid.inner else self._slice(v, dims) for v, dims in values
            ]
            arguments += [f"s{index}"] if printer.code.bytes else []
            loop.append(f"    nest{index}({', '.join(arguments)})")
        return [*lines, *unpacked, *loop]

    def _offsets(self) -> list[str]:
        """Where a tile begins along each axis that is cut."""
        lines: list[str] = []
        for axis, (count, n) in enumerate(zip(self.grid.counts, self.grid.tile, strict=True)):
            outer, inner = math.prod(self.grid.counts[:axis]), math.prod(self.grid.counts[axis + 1 :])
            if count > 1:
                index = "i" if inner == 1 else f"i // {inner}"
                index = index if outer == 1 else f"{index} % {count}"
                lines.append(f"a{axis} = {index}" if n == 1 else f"a{axis} = {index} * {n}")
        return lines

    def _slice(self, value: KernelValue | GridIndex, dims: Sequence[int | None]) -> str:
        """A tile's part of an array of the kernel."""
        parts = [":"] * (1 if isinstance(value, GridIndex) else len(value.shape))
        for axis, (d, n, count) in enumerate(zip(dims, self.grid.tile, self.grid.counts, strict=True)):
            if d is not None and count > 1:
                parts[d] = f"a{axis} : a{axis} + {n}"
        while parts and parts[-1] == ":":
            parts.pop()
        return f"{self.grid.names[value]}[{', '.join(parts)}]" if parts else self.grid.names[value]


def printer_of(code: KernelArrays) -> KernelPrinter:
    """The printer of a kernel's code."""
    if isinstance(code, GridCode):
        return GridPrinter(code)
    assert isinstance(code, ArrayCode)
    return NestsPrinter(code)
