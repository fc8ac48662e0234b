"""Rows added to the places that indices name: each program owns some places, and looks at all indices.

So nothing is written twice, and sums do not depend on how programs share the work: rows are added in their order.
"""

from __future__ import annotations

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Block

from hybridc.dialects.attribute import DType
from hybridc.dialects.interfaces import RowSums
from hybridc.dialects.movement import bounded_index
from hybridc.dtypes import computed
from hybridc.ir.scalar_builder import Element, ScalarBuilder, signless
from hybridc.lower.triton.blocks import NARROW
from hybridc.lower.triton.expressions.linalg_body import triton_type
from hybridc.lower.triton.expressions.ops import Term
from hybridc.lower.triton.expressions.statements import Statements
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonPhase, power_of_two

# Places and elements of a row that a program owns, and how many indices it looks at in one go.
PLACES, ELEMENTS, CHUNK = 32, 128, 256


def row_sums_phase(sums: RowSums, count: int, data: DType, index: DType) -> TritonPhase:
    """The phase that computes it for ``count`` indices; its buffers: data, indices, result."""
    block = min(ELEMENTS, power_of_two(sums.inner))
    w = SourceWriter()
    w.line("program = tl.program_id(0)")
    w.line(f"down: tl.constexpr = ({sums.rows} + PLACES - 1) // PLACES")
    w.line(f"across: tl.constexpr = ({sums.inner} + ELEMENTS - 1) // ELEMENTS")
    w.line("first = program % down * PLACES")
    w.line("place = first + tl.arange(0, PLACES)[:, None]")
    w.line("i = program // down % across * ELEMENTS + tl.arange(0, ELEMENTS)[None, :]")
    w.line("part = (program // (down * across)).to(tl.int64)")
    w.line(f"sum = tl.zeros([PLACES, ELEMENTS], {triton_type(computed(data))})")
    w.line(f"for start in range(0, count, {CHUNK}):")
    with w.indented():
        w.line(f"number = start + tl.arange(0, {CHUNK})")
        here = _place(w, w.let("here", "tl.load(x1 + number, mask=number < count)"), sums, index)
        w.line(f"own = (number < count) & ({here} >= first) & ({here} < first + PLACES)")
        w.line("if tl.max(own.to(tl.int32), axis=0) > 0:")
        with w.indented():
            w.line(f"for n in range(start, tl.minimum(start + {CHUNK}, count)):")
            with w.indented():
                at = _place(w, w.let("at", "tl.load(x1 + n)"), sums, index)
                w.line(f"if ({at} >= first) & ({at} < first + PLACES):")
                with w.indented():
                    w.line(f"row = tl.load(x0 + (part * count + n) * {sums.inner} + i, mask=i < {sums.inner})")
                    w.line(f"sum {'|' if data.kind == 'b' else '+'}= tl.where(place == {at}, row, 0).to(sum.dtype)")
    where = f"y0 + (part * {sums.rows} + place) * {sums.inner} + i"
    w.line(f"tl.store({where}, sum, mask=(place < {sums.rows}) & (i < {sums.inner}))")
    doc = f"rows are added to those of {sums.rows} that indices name."
    text = module("row_sums", ("x0", "x1", "y0"), ("count",), ("PLACES", "ELEMENTS"), doc, w)
    kind = "i64" if count >= NARROW else "i32"
    function = TritonFunction("row_sums", text, (data, index, data), (kind,), ("PLACES", "ELEMENTS"))
    programs = -(-sums.rows // PLACES) * -(-sums.inner // block) * sums.outer
    config = Config((("PLACES", PLACES), ("ELEMENTS", block)), (programs, 1, 1))
    return TritonPhase(function, (0, 1, 2), (count,), (config,))


def _place(w: SourceWriter, name: str, sums: RowSums, dtype: DType) -> str:
    """The name of the place that an element of the indices names."""
    block = Block(arg_types=[signless(dtype)])
    place = bounded_index(ScalarBuilder(block, UNKNOWN_LOC), Element(block.args[0], dtype), sums.rows, sums.mode)
    statements = Statements(w, {block.args[0]: Term(name, dtype)})
    statements.write(block, [place.value])
    return statements.term(place.value).text
