"""Loops that several sweeps have in common: over tiles, and of fills."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag

from hybridc.ir.costs import SQUARE
from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.loops.loop_builder import LoopBuilder

REORDER = arith.FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.NO_SIGNED_ZEROS, FastMathFlag.ALLOW_CONTRACT])


def first_and_last(b: LoopBuilder, point: LLVMValue, size: LLVMValue) -> tuple[LLVMValue, LLVMValue, LLVMValue]:
    """For a range that counts tiles along an axis: the index of the outer axes, and the tile's first and last row."""
    count, _ = b.split(b.plus(size, b.index(SQUARE - 1)), b.index(SQUARE))
    rest, tile = b.split(point, count)
    first = b.times(tile, b.index(SQUARE))
    return rest, first, b.least(b.plus(first, b.index(SQUARE)), size)


def walk_tile(
    b: LoopBuilder,
    first: LLVMValue,
    last: LLVMValue,
    columns: LLVMValue,
    element: Callable[[LLVMValue, LLVMValue], None],
) -> None:
    """Rows from ``first`` to ``last``, all columns, in tiles: ``element`` gets the indices of each element."""
    whole = b.times(b.split(columns, b.index(SQUARE))[0], b.index(SQUARE))

    def rows(start: LLVMValue | None) -> None:
        def row(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            def column(at: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                element(index, at if start is None else b.plus(start, at))
                return []

            low, high = (whole, columns) if start is None else (b.index(0), b.index(SQUARE))
            return b.loop(low, high, b.index(1), column)

        b.loop(first, last, b.index(1), row)

    def tile(start: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        rows(start)
        return []

    b.loop(b.index(0), whole, b.index(SQUARE), tile)
    rows(None)


def fill(build: LoopBuilder, buffer: LLVMValue, low: LLVMValue, high: LLVMValue, value: LLVMValue) -> None:
    """Fill a range of a buffer with a constant."""

    def body(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        build.store_element(value, buffer, index)
        return []

    build.loop(low, high, build.index(1), body)
