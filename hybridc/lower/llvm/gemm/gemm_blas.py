"""Write calls of BLAS as a native function: one for all sizes, which calls gemm on tiles of rows or columns."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, f64, i8, i32

from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm import native_blas
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, region
from hybridc.transforms.schedules.schedule_blas import BlasCall

_ROW_MAJOR = 101  # a constant of CBLAS
# Fixed scalar arguments of the region, before those of the loops.
_FIXED = 15
Kind = tuple[bool, bool, bool]


def print_blas(call: BlasCall) -> NativeFunction:
    """The native function of calls of BLAS."""
    over = ",".join("".join(name for name, follows in zip("abc", kind, strict=True) if follows) for kind in call.over)
    key = f"matmul-blas {call.dtype.name} around {len(call.around)} over {over}"
    numbers = _FIXED + sum(1 + sum(kind) for kind in (*call.around, *call.over))
    # Arrays are bytes here, so that a tile can be passed to BLAS as a view at its offset.
    return NativeFunction(key, region([i8, i8, i8], numbers, lambda arguments: _BlasCode(arguments, call).write()))


class _BlasCode:
    """Writes the body of the region."""

    def __init__(self, arguments: Arguments, call: BlasCall) -> None:
        self.arguments, self.b, self.call = arguments, arguments.b, call
        self.element = f32 if call.dtype.itemsize == 4 else f64
        self.zero, self.one = (self.b.constant(FloatAttr(x, self.element), self.element) for x in (0.0, 1.0))
        self.orders = arguments.numbers[:2]
        # Each is a number, and a multiple of the tile's.
        self.rows, self.columns = arguments.numbers[2:4], arguments.numbers[4:6]
        self.terms, *self.leading = arguments.numbers[6:10]
        self.steps, (self.span, self.tile) = arguments.numbers[10:13], arguments.numbers[13:_FIXED]
        numbers = iter(arguments.numbers[_FIXED:])
        self.around, self.over = [_Loops.read(kinds, numbers) for kinds in (call.around, call.over)]

    def write(self) -> None:
        """The loop over tiles."""
        tiles = self.span.ceildiv(self.tile)

        def tile(point: Index, _: Sequence[LLVMValue]) -> None:
            first = point % tiles * self.tile
            count = (self.span - first).least(self.tile)
            begins = self.around.offsets(point // tiles)
            self._sum([x + first * step for x, step in zip(begins, self.steps, strict=True)], count)

        self.arguments.loop(self.arguments.lo, self.arguments.hi, tile)

    def _sum(self, at: Sequence[Index], count: Index) -> None:
        """The sum of the products of a tile, which begins at these offsets, over the further loops."""
        if not self.call.over:
            self._multiply(at, count, self.zero)
            return

        def term(i: Index, sofar: Sequence[LLVMValue]) -> Sequence[LLVMValue]:
            self._multiply([x + y for x, y in zip(at, self.over.offsets(i), strict=True)], count, sofar[0])
            return [self.one]  # beta is 1 after the first

        self.arguments.loop(0, functools.reduce(operator.mul, self.over.sizes), term, starts=[self.zero])

    def _multiply(self, at: Sequence[Index], count: Index, beta: LLVMValue) -> None:
        """One call of BLAS; each size is fixed, or the tile's."""
        b, width = self.b, self.call.dtype.itemsize
        arrays = [b.view(x, (i * width).value, self.element) for x, i in zip(self.arguments.arrays, at, strict=True)]
        m, n = [fixed + multiple * count for fixed, multiple in (self.rows, self.columns)]
        flags = [x.integer(i32) for x in (*self.orders, m, n, self.terms)]
        a_row, b_row, c_row = [x.integer(i32) for x in self.leading]
        order = b.constant(IntegerAttr(_ROW_MAJOR, i32), i32)
        operands = [order, *flags, self.one, arrays[0], a_row, arrays[1], b_row, beta, arrays[2], c_row]
        b.call_external(native_blas.GEMM[self.call.dtype], operands)


@dataclass(frozen=True)
class _Loops:
    """Loops as scalar arguments: for each its size, then the strides of the arrays that it indexes."""

    sizes: list[Index]
    strides: list[list[Index | None]]

    @staticmethod
    def read(kinds: Sequence[Kind], numbers: Iterator[Index]) -> _Loops:
        """The loops of the next arguments."""
        loops = [(next(numbers), [next(numbers) if follows else None for follows in kind]) for kind in kinds]
        return _Loops([size for size, _ in loops], [strides for _, strides in loops])

    def offsets(self, point: Index) -> list[Index]:
        """The offsets of the three arrays at a linear index, in elements; the last loop is the fastest."""
        offsets = [point.of(0)] * 3
        for i in reversed(range(len(self.sizes))):
            index = point % self.sizes[i] if i else point
            offsets = [x if s is None else x + index * s for x, s in zip(offsets, self.strides[i], strict=True)]
            point = point // self.sizes[i] if i else point
        return offsets
