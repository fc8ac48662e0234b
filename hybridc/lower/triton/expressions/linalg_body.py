"""The bodies of linalg operations in Triton's language, and what reductions need beside them."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from hybridc.ir.kernel import Stage, number_of, sign, signed_as
from hybridc.ir.structured import dtype_of
from hybridc.lower.triton.expressions import ops
from hybridc.lower.triton.expressions.ops import HALF, SINGLE, DType, Term, literal, neutral, triton_type
from hybridc.lower.triton.expressions.statements import Index, Load, Statements, applied
from hybridc.lower.triton.source_writer import SourceWriter

__all__ = ["SourceWriter", "combine", "literal", "neutral", "reduce", "triton_type", "write_body"]


def write_body(stage: Stage, given: Mapping[SSAValue, str], w: SourceWriter, index: Index, load: Load) -> str:
    """Write a statement for each operation of a stage's body; the name of what it yields.

    For a reduction that is the element which is combined into the result. ``given`` names the block's arguments that
    are no numbers; ``index`` names the indices along a loop, ``load`` what is read at computed indices. The name
    is of a value that has the dtype of the stage's result, unless it is one of those given.
    """
    block = stage.op.regions[0].block
    out, dtype = block.args[-1], dtype_of(stage.result)
    outside = [v for op in block.ops for v in op.operands if _is_outside(v, block)]
    values = {v: v for v in (*given, *outside)} | {a: r.value for a, r in zip(block.args, stage.reads, strict=False)}
    known: dict[SSAValue, Term] = {}
    for value, source in values.items():
        number = number_of(source)
        if number is not None:
            known[value] = ops.number(number, dtype_of(source))
        elif value in given:
            known[value] = Term(given[value], dtype_of(source))
    start = number_of(stage.op.operands[-1])
    if out in given:
        known[out] = Term(given[out], dtype)
    elif start is not None:  # a reduction of nothing begins and ends with it
        known[out] = ops.number(start, dtype)
    end = block.last_op
    assert end is not None
    wanted = end.operands[0] if stage.combine is None else _combined(stage.combine, out)
    statements = Statements(w, known, index, load)
    statements.write(block, [wanted])
    found = statements.term(wanted).as_dtype(dtype)
    return found.text if found.text.isidentifier() and found.number is None else w.let("result", found.block)


def combine(op: Operation, a: str, b: str, dtype: DType) -> str:
    """Two partial results of a reduction as one, as an expression; of names, or numbers in source."""
    operands = [ops.parsed(text, dtype).as_dtype(signed_as(dtype, sign(op))) for text in (a, b)]
    text = applied(op, operands, operands[0].dtype)
    if text is None:
        raise ops.unsupported(op)
    return text if operands[0].dtype == dtype else f"({text}).to({triton_type(dtype)})"


def reduce(op: Operation, value: str, axis: int, dtype: DType, w: SourceWriter) -> str:
    """The name of a block reduced along an axis, where one element is left of it.

    Sums of half precision are added up in single, and rounded at the end.
    """
    kind = ops.combining(op)
    own = triton_type(dtype)
    if kind == "add":
        wide = triton_type(SINGLE) if dtype == HALF else own
        total = f"tl.sum({value}, axis={axis}, keep_dims=True, dtype={wide})"
        return w.let("total", total if wide == own else f"{total}.to({own})")
    read = signed_as(dtype, sign(op))
    a, b = Term("a", read), Term("b", read)
    name = f"combine_{op.name.partition('.')[2]}"
    w.helper(name, f"@triton.jit\ndef {name}(a, b):\n    return {applied(op, [a, b], read)}")
    given = Term(value, dtype).as_dtype(read).text
    reduced = f"tl.reduce({given}, {axis}, {name}, keep_dims=True)"
    return w.let(
        f"{kind}imum" if kind in ("max", "min") else kind, reduced if read == dtype else f"{reduced}.to({own})"
    )


def _is_outside(value: SSAValue, block: Block) -> bool:
    """Whether a value is a number that is made before a body."""
    return isinstance(value.owner, arith.ConstantOp) and value.owner.parent is not block


def _combined(op: Operation, out: SSAValue) -> SSAValue:
    """The operand that is not the result so far."""
    (element,) = [v for v in op.operands if v is not out]
    return element
