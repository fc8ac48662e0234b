"""Write calls of BLAS as a native function: one for all sizes, which calls gemm on tiles of rows or columns."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import f32, f64, i8, i32

from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm import native_blas
from hybridc.lower.llvm.loops.loop_builder import Index, LoopBuilder
from hybridc.transforms.schedules.schedule_blas import BlasCall

_ROW_MAJOR = 101  # a constant of CBLAS
# Fixed scalar arguments of the region, before those of the loops.
_FIXED = 15
# For each of the three arrays whether a loop indexes it.
Kind = tuple[bool, bool, bool]
# The size of a loop, and the strides of the arrays that it indexes.
Loop = tuple[Index, list[Index | None]]


def print_blas(call: BlasCall) -> NativeFunction:
    """The native function of calls of BLAS."""
    over = ",".join("".join(name for name, follows in zip("abc", kind, strict=True) if follows) for kind in call.over)
    key = f"matmul-blas {call.dtype.name} around {len(call.around)} over {over}"
    return NativeFunction(key, lambda module, symbol: _BlasCode(module, call).write(symbol))


class _BlasCode:
    """Writes the function."""

    def __init__(self, module: ModuleText, call: BlasCall) -> None:
        count = _FIXED + sum(1 + sum(kind) for kind in (*call.around, *call.over))
        # Arrays are bytes here, so that a tile can be passed to BLAS as a view at its offset.
        self.b, self.call = LoopBuilder(module, [i8, i8, i8], count), call
        self.element = f32 if call.dtype.itemsize == 4 else f64
        self.zero, self.one = (self.b.number(x, self.element) for x in (0.0, 1.0))
        scalars = self.b.scalars
        self.orders = scalars[:2]
        # Each is a number, and a multiple of the tile's.
        self.rows, self.columns = scalars[2:4], scalars[4:6]
        self.terms, *self.leading = scalars[6:10]
        self.steps, (self.span, self.tile) = scalars[10:13], scalars[13:_FIXED]
        others = iter(scalars[_FIXED:])
        self.around, self.over = [_loops(kinds, others) for kinds in (call.around, call.over)]

    def write(self, symbol: str) -> None:
        """The loop over tiles."""
        tiles = self.span.ceildiv(self.tile)
        with self.b.count(self.b.low, self.b.high) as point:
            first = point % tiles * self.tile
            count = (self.span - first).least(self.tile)
            begins = _offsets(self.around, point // tiles)
            self._sum([x + first * step for x, step in zip(begins, self.steps, strict=True)], count)
        self.b.write_region(symbol)

    def _sum(self, at: Sequence[Index], count: Index) -> None:
        """The sum of the products of a tile, which begins at these offsets, over the further loops."""
        if not self.call.over:
            self._multiply(at, count, self.zero)
            return
        with self.b.carry(0, functools.reduce(operator.mul, [size for size, _ in self.over]), [self.zero]) as (i, loop):
            begins = [x + y for x, y in zip(at, _offsets(self.over, i), strict=True)]
            self._multiply(begins, count, loop.carried[0])
            loop.next = [self.one]  # beta is 1 after the first

    def _multiply(self, at: Sequence[Index], count: Index, beta: LLVMValue) -> None:
        """One call of BLAS; each size is fixed, or the tile's."""
        b, width = self.b, self.call.dtype.itemsize
        arrays = [b.view(i * width, self.element, x) for x, i in zip(b.arrays, at, strict=True)]
        m, n = [fixed + multiple * count for fixed, multiple in (self.rows, self.columns)]
        flags = [x.integer(i32) for x in (*self.orders, m, n, self.terms)]
        a_row, b_row, c_row = [x.integer(i32) for x in self.leading]
        operands = [*flags, self.one, arrays[0], a_row, arrays[1], b_row, beta, arrays[2], c_row]
        b.call_external(native_blas.GEMM[self.call.dtype], [b.number(_ROW_MAJOR, i32), *operands])


def _loops(kinds: Sequence[Kind], scalars: Iterator[Index]) -> list[Loop]:
    """The loops of the next arguments."""
    return [(next(scalars), [next(scalars) if follows else None for follows in kind]) for kind in kinds]


def _offsets(loops: Sequence[Loop], point: Index) -> list[Index]:
    """The offsets of the three arrays at a linear index, in elements; the last loop is the fastest."""
    offsets = [point.b.index(0)] * 3
    for i, (size, strides) in reversed([*enumerate(loops)]):
        index = point % size if i else point
        offsets = [x if s is None else x + index * s for x, s in zip(offsets, strides, strict=True)]
        point = point // size if i else point
    return offsets
