"""A kernel with a grid as a Python function: at each tile of the grid one loop nest after the other.

What nests make for each other at a tile lies in scratch. Threads share each nest of a tile, as they share the nests of
other kernels; NumPy's own threads share its matmuls.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ir.kernels.grid_kernel import GridIndex, TileKernel, tile_kernels, tile_of
from hybridc.ir.kernels.kernel import Kernel, KernelValue
from hybridc.lower.numpy.emit_kernel import KernelEmitter, KernelSource, ScratchArray, View, tuple_of

# Bytes that loop nests make for each other at a tile. With smaller tiles, threads wait for each other more often than
# they save: half the size takes a tenth longer with two threads. A tile that is cut has at least so many rows.
MOST, FEWEST = 2**24, 64


class GridEmitter(KernelSource):
    """Writes a kernel with a grid, as :class:`~hybridc.lower.numpy.emit_kernel.KernelEmitter` writes others."""

    def __init__(self, kernel: Kernel, threads: int, strided: frozenset[int] = frozenset()) -> None:
        super().__init__(kernel)
        self.tile = tile_of(kernel, MOST, FEWEST, batch=MOST)
        self.sizes = [kernel.nests[0].domain[a] for a in kernel.grid[0]]
        self.counts = [size // n for size, n in zip(self.sizes, self.tile, strict=True)]
        values = [*kernel.arguments, *kernel.results]
        self.strided = {values[i] for i in strided}
        self.names: dict[KernelValue | GridIndex, str] = {v: f"y{i}" for i, v in enumerate(kernel.results)}
        self.names |= {v: f"x{i}" for i, v in enumerate(kernel.arguments)}
        self.inner: dict[KernelValue | GridIndex, ScratchArray] = {}  # what nests make for each other
        self.readers = Counter(v for nest in kernel.nests for v in {r.value for s in nest.ops for r in s.reads})
        self.parts = [self._part(part, threads) for part in tile_kernels(kernel, kernel.nests, self.tile)]
        self.own = self.bytes  # where the scratch begins that only one part uses
        self.bytes += max(aligned(emitter.bytes) for _, emitter in self.parts)

    @property
    def threads(self) -> int:
        return max(emitter.threads for _, emitter in self.parts)

    def inplace_pairs(self) -> list[tuple[int, int]]:
        return []

    # --- memory --------------------------------------------------------------------------------------------

    def _part(self, part: TileKernel, threads: int) -> tuple[TileKernel, KernelEmitter]:
        values = [*part.arguments, *part.results]
        strided = [i for i, (v, dims) in enumerate(zip(values, part.dims, strict=True)) if self._is_strided(v, dims)]
        emitter = KernelEmitter(part.kernel, threads, frozenset(strided))
        for index in part.arguments:
            if isinstance(index, GridIndex):
                self.names[index] = f"n{index.axis}"
        over = self._over(part, emitter)
        for value, result in zip(part.results, emitter.kernel.results, strict=True):
            if value in over:
                self.inner[value] = self.inner[over[value]]
            elif value not in self.names:
                self.inner[value] = ScratchArray(self.bytes, result.dtype, result.shape)
                self.bytes += aligned(result.bytes)
        return part, emitter

    def _over(self, part: TileKernel, emitter: KernelEmitter) -> dict[KernelValue, KernelValue | GridIndex]:
        """Results in scratch that lie over an argument which no later loop nest reads."""
        over: dict[KernelValue, KernelValue | GridIndex] = {}
        for i, j in emitter.inplace_pairs():
            argument, result = part.arguments[i], part.results[j]
            alone = argument in self.inner and isinstance(argument, KernelValue) and self.readers[argument] == 1
            if alone and result not in self.names and result not in over and argument not in over.values():
                over[result] = argument
        return over

    def _is_strided(self, value: KernelValue | GridIndex, dims: Sequence[int | None]) -> bool:
        """Whether a tile's part of an array of the kernel is not contiguous."""
        if isinstance(value, GridIndex) or value not in self.names:
            return False
        shape, last = [*value.shape], 0
        for d, n, count in zip(dims, self.tile, self.counts, strict=True):
            if d is not None:
                shape[d], last = n, last if count == 1 else max(last, d)
        return value in self.strided or math.prod(shape[:last]) != 1

    def scratch(self, view: View) -> str | None:
        """A tuple of the arrays that loop nests share, then of what each nest needs."""
        sources = [array.source(view) for array in self._arrays()]
        for _, emitter in self.parts:
            source = emitter.scratch(lambda offset, dtype, shape: view(self.own + offset, dtype, shape))
            sources += [] if source is None else [source]
        return tuple_of(sources) if sources else None

    def _arrays(self) -> list[ScratchArray]:
        return list(dict.fromkeys(self.inner.values()))

    # --- source --------------------------------------------------------------------------------------------

    def title(self) -> str:
        sizes, tile = ("x".join(map(str, extents)) or "1" for extents in (self.sizes, self.tile))
        return f"{len(self.parts)} loop nests over a grid of {sizes} in tiles of {tile}"

    def body(self) -> list[str]:
        indices = {v: name for v, name in self.names.items() if isinstance(v, GridIndex)}
        lines = [f"{name} = np.arange({index.size})" for index, name in indices.items()]
        for index, (_, emitter) in enumerate(self.parts, 1):
            lines += emitter.source(f"nest{index}").rstrip().split("\n")
        arrays = {array: f"t{i}" for i, array in enumerate(self._arrays())}
        scratch = [*arrays.values(), *(f"s{n}" for n, (_, emitter) in enumerate(self.parts, 1) if emitter.bytes)]
        unpacked = [f"({', '.join(scratch)},) = scratch"] if scratch else []
        loop = [f"for i in range({math.prod(self.counts)}):", *("    " + line for line in self._offsets())]
        for index, (part, emitter) in enumerate(self.parts, 1):
            values = zip((*part.arguments, *part.results), part.dims, strict=True)
            arguments = [arrays[self.inner[v]] if v in self.inner else self._slice(v, dims) for v, dims in values]
            arguments += [f"s{index}"] if emitter.bytes else []
            loop.append(f"    nest{index}({', '.join(arguments)})")
        return [*lines, *unpacked, *loop]

    def _offsets(self) -> list[str]:
        """Where a tile begins along each axis that is cut."""
        lines: list[str] = []
        for axis, (count, n) in enumerate(zip(self.counts, self.tile, strict=True)):
            outer, inner = math.prod(self.counts[:axis]), math.prod(self.counts[axis + 1 :])
            if count > 1:
                index = "i" if inner == 1 else f"i // {inner}"
                index = index if outer == 1 else f"{index} % {count}"
                lines.append(f"a{axis} = {index}" if n == 1 else f"a{axis} = {index} * {n}")
        return lines

    def _slice(self, value: KernelValue | GridIndex, dims: Sequence[int | None]) -> str:
        """A tile's part of an array of the kernel."""
        parts = [":"] * (1 if isinstance(value, GridIndex) else len(value.shape))
        for axis, (d, n, count) in enumerate(zip(dims, self.tile, self.counts, strict=True)):
            if d is not None and count > 1:
                parts[d] = f"a{axis} : a{axis} + {n}"
        while parts and parts[-1] == ":":
            parts.pop()
        return f"{self.names[value]}[{', '.join(parts)}]" if parts else self.names[value]


def kernel_emitter(
    kernel: Kernel, threads: int, strided: frozenset[int] = frozenset(), updates: Sequence[int] = ()
) -> KernelSource:
    """The emitter of a kernel; of the results ``updates`` some call gives what they hold so far."""
    if kernel.grid:
        return GridEmitter(kernel, threads, strided)
    return KernelEmitter(kernel, threads, strided, updates)
