"""Rows added to the places that indices name: each thread owns some places, and looks at all indices.

So nothing is written twice, and sums do not depend on how threads share the work: rows are added in their order.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import UNKNOWN_LOC, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, SSAValue

from hybridc.dialects.interfaces import RowSums
from hybridc.dialects.movement import bounded_index
from hybridc.dtypes import FLOAT32, STORED
from hybridc.ir.scalar_builder import Element, ScalarBuilder, number_attribute, signless
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.loops.kernel_phases import BYTE_NS, GRAIN_NS, SIMPLE_NS, KernelPhase
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.loops.loop_functions import fill, phase_module
from hybridc.version import __version__

DType = np.dtype[Any]

# Chunks of places for each thread: some places have more rows than others, but every chunk looks at all indices.
CHUNKS = 4
# Nanoseconds to look at an index.
INDEX_NS = 1.0


def row_sums_phase(sums: RowSums, count: int, data: DType, index: DType, threads: int) -> KernelPhase:
    """The phase that computes it for ``count`` indices; its buffers: data, indices, result."""
    key = ("row sums", __version__, sums.rows, sums.mode, data.name, index.name)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()
    function = NativeFunction(digest, lambda: row_sums_module(sums.rows, sums.mode, data, index))
    elements = sums.outer * sums.inner * (sums.rows + 2 * count)
    work = elements * (BYTE_NS * data.itemsize + SIMPLE_NS) + count * INDEX_NS
    chunks = max(1, min(CHUNKS * threads, int(work / (GRAIN_NS + count * INDEX_NS))))
    grain = max(1, math.ceil(sums.rows / chunks))
    return KernelPhase(function, (0, 1, 2), (sums.outer, sums.inner, count), sums.rows, grain, 0, work)


def row_sums_module(rows: int, mode: str, data: DType, index: DType) -> ModuleOp:
    """The function: buffers data, indices, result; numbers outer, inner and the count of indices; a range of places."""
    kind = array_type(signless(data))
    block = Block(arg_types=[kind, array_type(signless(index)), kind, *[INDEX] * 3, INDEX, INDEX, BYTES])
    values, indices, out, outer, inner, count, low, high, _ = block.args
    b = LoopBuilder(block)
    one, zero = b.index(1), b.index(0)
    all_rows = b.index(rows)

    def clear(number: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        first = b.times(number, all_rows)
        begin, end = (b.times(b.plus(first, at), inner) for at in (low, high))
        fill(b, out, begin, end, b.constant(number_attribute(0, data), signless(data)))
        return []

    def row(number: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        place = _place(b, b.load(indices, number), rows, mode, index)
        inside = b.pure(arith.AndIOp, [_less(b, low, place, or_equal=True), _less(b, place, high)], _bit())
        often = b.pure(arith.SelectOp, [inside, outer, zero], INDEX)  # another's place: nothing is done

        def part(which: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            source = b.times(b.plus(b.times(which, count), number), inner)
            target = b.times(b.plus(b.times(which, all_rows), place), inner)

            def element(i: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
                held = b.load(out, b.plus(target, i), b.depth)
                b.store(_add(b, held, b.load(values, b.plus(source, i)), data), out, b.plus(target, i))
                return []

            return b.loop(zero, inner, one, element)

        return b.loop(zero, often, one, part)

    b.loop(zero, outer, one, clear)
    b.loop(zero, count, one, row)
    return phase_module(block)


def _bit() -> Any:
    return signless(np.dtype(bool))


def _less(b: LoopBuilder, x: SSAValue, y: SSAValue, or_equal: bool = False) -> SSAValue:
    predicate = arith.CMPI_COMPARISON_OPERATIONS.index("sle" if or_equal else "slt")
    return b.pure(arith.CmpiOp, [x, y], _bit(), {"predicate": IntegerAttr(predicate, i64)})


def _add(b: LoopBuilder, x: SSAValue, y: SSAValue, dtype: DType) -> SSAValue:
    if dtype in STORED:
        single: list[SSAValue] = [b.pure(arith.ExtFOp, [v], signless(FLOAT32)) for v in (x, y)]
        return b.pure(arith.TruncFOp, [_add(b, single[0], single[1], FLOAT32)], x.type)
    if dtype.kind == "f":
        return b.pure(arith.AddfOp, [x, y], x.type, {"fastmath": arith.FastMathFlagsAttr("none")})
    if dtype.kind == "b":
        return b.pure(arith.OrIOp, [x, y], x.type)
    return b.pure(arith.AddiOp, [x, y], x.type)


def _place(b: LoopBuilder, value: SSAValue, rows: int, mode: str, dtype: DType) -> SSAValue:
    """The place that an element of the indices names."""
    block = Block(arg_types=[value.type])
    place = bounded_index(ScalarBuilder(block, UNKNOWN_LOC), Element(block.args[0], dtype), rows, mode)
    known: dict[SSAValue, SSAValue] = {block.args[0]: value}
    for op in block.ops:
        kind = op.results[0].type
        if isinstance(op, arith.ConstantOp):
            known[op.results[0]] = b.constant(op.value, kind)
        else:
            known[op.results[0]] = b.pure(type(op), [known[v] for v in op.operands], kind, dict(op.properties))
    return b.pure(arith.IndexCastOp, [known[place.value]], INDEX)
