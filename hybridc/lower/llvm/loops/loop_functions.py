"""Loops that several kinds of parallel regions share, and regions that are one such loop."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag

from hybridc.ir.costs import SQUARE
from hybridc.ir.kernel import KernelOp, number_of
from hybridc.ir.structured import dtype_of
from hybridc.ir.structured_builder import number_attribute, signless
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type

REORDER = arith.FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.NO_SIGNED_ZEROS, FastMathFlag.ALLOW_CONTRACT])


def emit_start(build: LoopBuilder, kernel_op: KernelOp) -> LLVMValue:
    """A reduction's initial value."""
    value = number_of(kernel_op.op.operands[-1])
    assert value is not None, "a reduction begins with a number"
    dtype = dtype_of(kernel_op.result)
    return build.constant(number_attribute(value, dtype), signless(dtype))


def emit_combine(build: LoopBuilder, kernel_op: KernelOp, a: LLVMValue, b: LLVMValue) -> LLVMValue:
    """Combine two partial results of a reduction."""
    op = kernel_op.combine
    assert op is not None
    properties = dict(op.properties)
    if "fastmath" in properties:
        properties["fastmath"] = REORDER
    return build.pure(type(op), [a, b], op.results[0].type, properties)


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


def combine_parts(kernel_op: KernelOp, module: ModuleText, symbol: str) -> None:
    """Write the function that combines partial results (first buffer, overwritten) into a result (second), pairwise.

    At each level the second half of them is combined with the first one, so that sums of many keep their
    precision. Scalars: partial results, levels (2 ** levels is as many or more), size of the result.
    """
    kind = array_type(signless(dtype_of(kernel_op.result)))
    b = LoopBuilder(module, [kind, kind, INDEX, INDEX, INDEX, INDEX, INDEX, BYTES])
    parts, result, count, levels, size, low, high, _ = b.arguments
    one = b.index(1)
    fill(b, result, low, high, emit_start(b, kernel_op))

    def add(into: LLVMValue, at: LLVMValue, part: LLVMValue) -> None:
        """Combine a partial result with the one at an index of a buffer."""
        first = b.times(part, size)

        def element(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            addend = b.load_element(parts, b.plus(first, index), b.depth)
            to = b.plus(at, index)
            b.store_element(emit_combine(b, kernel_op, b.load_element(into, to, b.depth), addend), into, to)
            return []

        b.loop(low, high, one, element)

    def level(_: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
        (left,) = carried
        half, _ = b.split(b.plus(left, one), b.index(2))

        def pair(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            add(parts, b.times(b.pure(arith.SubiOp, [index, half], INDEX), size), index)
            return []

        b.loop(half, left, one, pair)
        return [half]

    def whole(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        add(result, b.index(0), index)
        return []

    b.loop(b.index(0), levels, one, level, [count])
    b.loop(b.index(0), b.least(count, one), one, whole)
    b.write_region(symbol)
