"""Operations of ``arith`` and ``math`` as statements of Triton's language: one for each operation, on blocks.

Blocks broadcast with each other. Every value has one dtype in the source: that of its array, with its sign, or that of
its type; where an operation reads integers with another sign, its operands are cast. Half precision is rounded after
each operation, and functions of it are computed in single.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Attribute, Operation

from hybridc.dtypes import DType
from hybridc.ir.scalars import CASTS, combining, signed_as, signedness
from hybridc.ir.structured_builder import ELEMENT_TYPES, kind_dtype, operation_class, operation_name, signless
from hybridc.lower.mathlib import Formula
from hybridc.lower.mathlib.power import short_power
from hybridc.lower.mathlib.value import FORMATS, FormulaWriter, Value, Values
from hybridc.lower.triton.expressions import ops
from hybridc.lower.triton.expressions.formulas import FORMULAS
from hybridc.lower.triton.expressions.ops import BOOL, HALF, SINGLE, Term
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.triton_function import triton_type

INDEX = np.dtype("int64")  # of an index, which may be narrower where it comes from


def applied(op: str, operands: Sequence[Term], dtype: DType, narrowed: bool = False) -> str | None:
    """An operation on operands that have been cast, if it is written as a sign between them or as a call."""
    text = ops.text_of(op, dtype, narrowed)
    if not text or ops.is_formula(text):
        return None
    if "{" in text:
        beside = any(x.constant is None and x.dtype == dtype for x in operands)
        return text.format(*[x.argument(beside) for x in operands])
    first, second = operands
    text = f"{first.block if second.constant is not None else first.text} {text} {second.text}"
    return f"({text}).to({triton_type(HALF)})" if op == "arith.divf" and dtype == HALF else text


def compute(op: str, terms: Sequence[Term], kind: str, w: SourceWriter, narrowed: bool = False) -> Term:
    """Write an operation of ``arith`` or ``math`` whose result is of this kind; its value.

    A result is ``narrowed`` if it is rounded to half precision wherever it is used.
    """
    if op in CASTS or op in ("arith.index_cast", "arith.bitcast"):
        return _cast(op, terms[0], kind, w)
    dtype, target = _read_as(op, terms), kind_dtype(kind)
    operands = [x.as_dtype(dtype) for x in terms]
    result = dtype if target.kind == "i" else target
    if op == "arith.negf":
        return _let(op, f"{operands[0].block} * -1.0", result, w)
    function = op.startswith("math.")
    if dtype == HALF and op != "math.absf" and (function or operation_class(op) in FORMULAS):
        return _in_single(op, operands, narrowed, w)
    return _short_power(op, operands, kind, w) or _let(op, _expression(op, operands, dtype, narrowed, w), result, w)


def reduce(op: str, value: str, axis: int, dtype: DType, w: SourceWriter) -> str:
    """Write a block's reduction along a dimension, which keeps one element; the name of the result.

    Sums of half precision are added up in single, and rounded at the end.
    """
    kind = combining(op)
    own = triton_type(dtype)
    if kind == "add":
        wide = triton_type(SINGLE) if dtype == HALF else own
        total = f"tl.sum({value}, axis={axis}, keep_dims=True, dtype={wide})"
        return w.let("total", total if wide == own else f"{total}.to({own})")
    read = signed_as(dtype, signedness(op))
    a, b = Term("a", read), Term("b", read)
    name = f"combine_{op.partition('.')[2]}"
    w.helper(name, f"@triton.jit\ndef {name}(a, b):\n    return {applied(op, [a, b], read)}")
    block = Term(value, dtype).as_dtype(read).text
    reduced = f"tl.reduce({block}, {axis}, {name}, keep_dims=True)"
    hint = f"{kind}imum" if kind in ("max", "min") else kind
    return w.let(hint, reduced if read == dtype else f"{reduced}.to({own})")


def _expression(op: str, operands: Sequence[Term], dtype: DType, narrowed: bool, w: SourceWriter) -> str:
    text = applied(op, operands, dtype, narrowed)
    if text is not None:
        return text
    formula = FORMULAS.get(operation_class(op))
    if formula is None:
        raise ops.unsupported(op)
    name = helper(w, op.partition(".")[2], formula, [signless(dtype)] * len(operands))
    shape = "[1]" if all(x.constant is not None for x in operands) else "[]"  # a loop needs a block
    return f"{name}({', '.join(x.filled(shape) for x in operands)})"


def _in_single(op: str, operands: Sequence[Term], narrowed: bool, w: SourceWriter) -> Term:
    """A function of half precision: of single, rounded."""
    wide = [Term(w.let("wide", f"{x.block}.to({triton_type(SINGLE)})"), SINGLE) for x in operands]
    single = _let(op, _expression(op, wide, SINGLE, narrowed, w), SINGLE, w)
    return _let(op, f"{single.text}.to({triton_type(HALF)})", HALF, w)


def _short_power(op: str, operands: Sequence[Term], kind: str, w: SourceWriter) -> Term | None:
    """A power whose exponent is known, and simple."""
    if op != "math.powf" or operands[1].constant is None or (element := ELEMENT_TYPES[kind]) not in FORMATS:
        return None
    power = short_power(Value(TritonFormulas(w), operands[0], element), float(operands[1].constant))
    return None if power is None else power.value


def _let(op: str, text: str, dtype: DType, w: SourceWriter) -> Term:
    return Term(w.let(ops.hint(op), text), dtype)


def _read_as(op: str, terms: Sequence[Term]) -> DType:
    """The dtype in which an operation reads its operands; a condition is none of them."""
    values = terms[1:] if op == "arith.select" else terms
    named = [x for x in values if x.constant is None] or list(values)
    return signed_as(named[0].dtype, signedness(op))


def _cast(op: str, term: Term, kind: str, w: SourceWriter) -> Term:
    target = kind_dtype(kind)
    if op == "arith.bitcast":
        return _let(op, f"{term.block}.to({triton_type(target)}, bitcast=True)", target, w)
    if op == "arith.index_cast" and target == term.dtype and kind == "index":
        return term
    read = signed_as(term.dtype, signedness(op))
    target = signed_as(target, {"arith.fptoui": "u", "arith.fptosi": "i"}.get(op))
    if term.dtype == BOOL and op == "arith.extsi":
        raise ops.unsupported(op)
    return _let(op, f"{term.as_dtype(read).block}.to({triton_type(target)})", target, w)


# --- formulas ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(64)
def _kind(element: Attribute) -> str:
    return str(element)


class TritonFormulas(FormulaWriter):
    """Writes formulas as statements; values are terms."""

    def __init__(self, w: SourceWriter) -> None:
        super().__init__()
        self.w = w

    def write(
        self, cls: type[Operation], operands: Values, kind: Attribute, properties: dict[str, Attribute] | None = None
    ) -> Value:
        op = operation_name(cls, properties or {})
        return Value(self, compute(op, [x.value for x in operands], _kind(kind), self.w), kind)

    def constant(self, x: float, kind: Attribute) -> Value:
        return Value(self, ops.number(x, kind_dtype(_kind(kind))), kind)

    def repeat(self, starts: Values, condition: Callable[[Values], Value], body: Callable[[Values], Values]) -> Values:
        """A loop that goes on until the condition holds for no element; those that are done keep what they have."""
        w = self.w
        # A loop needs a block, which a value made of scalars alone is not.
        going = w.let("going", f"{condition(starts).value.block} & tl.full([1], 1, tl.int1)")
        texts = [x.value.block for x in starts]
        names = [w.let("value", f"tl.where({going}, {x}, {x})") for x in texts]
        carried = [Value(self, Term(n, x.value.dtype), x.kind) for n, x in zip(names, starts, strict=True)]
        w.line(f"while tl.max({going}.to(tl.int32)) > 0:")
        with w.indented():
            values = body(carried)
            further = condition(values).value
            for name, old, new in zip(names, carried, values, strict=True):
                w.line(f"{name} = tl.where({going}, {new.value.as_dtype(old.value.dtype).argument(True)}, {name})")
            w.line(f"{going} = {going} & {further.text}")
        return carried


def helper(w: SourceWriter, name: str, formula: Formula, kinds: Sequence[Attribute]) -> str:
    """The name of a function of the module that computes a formula for operands of these types."""
    full = f"{name}_{kinds[0]}"
    if full not in w.helpers:
        for symbol, source in _functions(full, formula, tuple(kinds)).items():
            w.helper(symbol, source)
    return full


@functools.lru_cache(256)
def _functions(name: str, formula: Formula, kinds: tuple[Attribute, ...]) -> dict[str, str]:
    """The source of the function of a formula, after those that it calls."""
    w = SourceWriter()
    formulas = TritonFormulas(w)
    arguments = [w.name(hint) for hint in ("x", "y", "z")[: len(kinds)]]
    w.line("@triton.jit")
    w.line(f"def {name}({', '.join(arguments)}):")
    with w.indented():
        w.line(f'"""{(formula.__doc__ or name).splitlines()[0]}"""')
        if len(arguments) > 1:
            w.line(f"{', '.join(arguments)} = tl.broadcast({', '.join(arguments)})")
        terms = [Term(a, kind_dtype(_kind(kind))) for a, kind in zip(arguments, kinds, strict=True)]
        result = formula(*[Value(formulas, x, kind) for x, kind in zip(terms, kinds, strict=True)])
        w.line(f"return {result.value.block}")
    return {**w.helpers, name: "\n".join(w.lines)}
