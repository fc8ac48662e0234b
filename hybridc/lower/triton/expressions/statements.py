"""Operations of ``arith`` and ``math`` as statements of Triton's language: one for each operation, on blocks.

Blocks broadcast with each other. Every value has one dtype in the source: that of its array, with its sign, or that of
its type; where an operation reads integers with another sign, its operands are cast. Half precision is rounded after
each operation, and functions of it are computed in single.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hybridc.dialects.mlir.new_op import new_op
from hybridc.dtypes import HALVES, DType
from hybridc.ir.scalars import CASTS, combining, signed_as, signedness
from hybridc.ir.structured import element_dtype, number_of
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
    call = ops.function(op, dtype, narrowed)
    if call is not None:
        beside = any(x.constant is None and x.dtype == dtype for x in operands)
        return call.format(*[x.argument(beside) for x in operands])
    between = ops.infix(op)
    if between is None:
        return None
    first, second = operands
    text = f"{first.block if second.constant is not None else first.text} {between} {second.text}"
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


def combine_expression(op: str, a: str, b: str, dtype: DType) -> str:
    """Two partial results of a reduction as one, as an expression; of names."""
    operands = [Term(text, dtype).as_dtype(signed_as(dtype, signedness(op))) for text in (a, b)]
    text = applied(op, operands, operands[0].dtype)
    if text is None:
        raise ops.unsupported(op)
    return text if operands[0].dtype == dtype else f"({text}).to({triton_type(dtype)})"


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
    formula = FormulaBlock([element])
    (x,) = formula.arguments
    power = short_power(x, float(operands[1].constant))
    if power is None:
        return None
    statements = Statements(w, {x.value: operands[0]})
    statements.write(formula.block, [power.value])
    return statements.term(power.value)


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


class FormulaBlock(FormulaWriter):
    """Writes a formula into a block, from which :class:`Statements` takes what is needed."""

    def __init__(self, kinds: Sequence[Attribute]) -> None:
        super().__init__()
        self.block = Block(arg_types=kinds)
        self.arguments = [Value(self, x, x.type) for x in self.block.args]

    def write(
        self, cls: type[Operation], operands: Values, kind: Attribute, properties: dict[str, Attribute] | None = None
    ) -> Value:
        op = new_op(cls, [x.value for x in operands], [kind], properties)
        self.block.add_op(op)
        return Value(self, op.results[0], kind)

    def repeat(self, starts: Values, condition: Callable[[Values], Value], body: Callable[[Values], Values]) -> Values:
        kinds = [x.kind for x in starts]
        before = self._inner(kinds, scf.ConditionOp, lambda values: [condition(values), *values])
        regions = [Region(before), Region(self._inner(kinds, scf.YieldOp, body))]
        loop = scf.WhileOp.create(operands=[x.value for x in starts], result_types=kinds, regions=regions)
        self.block.add_op(loop)
        return [Value(self, x, x.type) for x in loop.results]

    def _inner(self, kinds: Sequence[Attribute], end: type[Operation], write: Callable[[Values], Values]) -> Block:
        """A block inside, which makes numbers of its own."""
        outside, constants = self.block, dict(self.constants)
        self.block = inner = Block(arg_types=kinds)
        values = write([Value(self, x, x.type) for x in inner.args])
        inner.add_op(end.create(operands=[x.value for x in values]))
        self.block, self.constants = outside, constants
        return inner


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
    written = FormulaBlock(kinds)
    result: SSAValue = formula(*written.arguments).value
    w = SourceWriter()
    arguments = [w.name(hint) for hint in ("x", "y", "z")[: len(kinds)]]
    w.line("@triton.jit")
    w.line(f"def {name}({', '.join(arguments)}):")
    with w.indented():
        w.line(f'"""{(formula.__doc__ or name).splitlines()[0]}"""')
        if len(arguments) > 1:
            w.line(f"{', '.join(arguments)} = tl.broadcast({', '.join(arguments)})")
        known: dict[SSAValue, Term] = {
            v.value: Term(a, kind_dtype(_kind(v.kind))) for v, a in zip(written.arguments, arguments, strict=True)
        }
        statements = Statements(w, known)
        statements.write(written.block, [result])
        w.line(f"return {statements.term(result).block}")
    return {**w.helpers, name: "\n".join(w.lines)}


@functools.lru_cache(64)
def _kind(element: Attribute) -> str:
    return str(element)


def _is_narrowed(op: Operation) -> bool:
    """Whether a result is rounded to half precision wherever it is used."""
    users = [use.operation for use in op.results[0].uses]
    return bool(users) and all(isinstance(u, arith.TruncFOp) and element_dtype(u.result.type) in HALVES for u in users)


class Statements:
    """Writes the operations of a formula's block; ``known`` are the values that have a name or are a scalar."""

    def __init__(self, w: SourceWriter, known: Mapping[SSAValue, Term]) -> None:
        self.w = w
        self.known = dict(known)

    def term(self, value: SSAValue) -> Term:
        """A value in source."""
        if value not in self.known:
            scalar = number_of(value)
            assert scalar is not None, f"{value} is no scalar"
            self.known[value] = ops.number(scalar, kind_dtype(_kind(value.type)))
        return self.known[value]

    def write(self, block: Block, wanted: Sequence[SSAValue]) -> None:
        """Write what the wanted values are made of, in the order of the block."""
        needed = set(wanted)
        operations: list[Operation] = []
        for op in reversed(list(block.ops)):
            if needed.isdisjoint(op.results) or isinstance(op, arith.ConstantOp):
                continue
            if all(v in self.known for v in op.results):
                continue
            operations.append(op)
            needed.update(v for inner in op.walk() for v in inner.operands)
        for op in reversed(operations):
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        if isinstance(op, scf.WhileOp):
            self._while(op)
            return
        terms, (result,) = [self.term(v) for v in op.operands], op.results
        name = operation_name(op)
        self.known[result] = compute(name, terms, _kind(result.type), self.w, _is_narrowed(op))

    def _while(self, op: scf.WhileOp) -> None:
        """A loop that goes on until the condition holds for no element; those that are done keep what they have."""
        before, after = op.before_region.block, op.after_region.block
        going, passed = self._condition(before, [self.term(v) for v in op.arguments])
        # A loop needs a block, which a value made of scalars alone is not.
        going = self.w.let("going", f"{going.block} & tl.full([1], 1, tl.int1)")
        names = [self.w.let("value", f"tl.where({going}, {x.block}, {x.block})") for x in passed]
        carried = [Term(name, x.dtype) for name, x in zip(names, passed, strict=True)]
        self.w.line(f"while tl.max({going}.to(tl.int32)) > 0:")
        with self.w.indented():
            outputs = self._inside(after, carried)
            further, passed = self._condition(before, outputs)
            for variable, x in zip(carried, passed, strict=True):
                self.w.line(
                    f"{variable.text} = tl.where({going}, {x.as_dtype(variable.dtype).argument(True)}, {variable.text})"
                )
            self.w.line(f"{going} = {going} & {further.text}")
        self.known.update(zip(op.results, carried, strict=True))

    def _condition(self, block: Block, arguments: Sequence[Term]) -> tuple[Term, list[Term]]:
        """Whether a loop goes on, and with what."""
        condition, *passed = self._inside(block, arguments)
        return condition, passed

    def _inside(self, block: Block, arguments: Sequence[Term]) -> list[Term]:
        """The operands of the last operation of a block, for these arguments."""
        end = block.last_op
        assert end is not None
        inner = Statements(self.w, {**self.known, **dict(zip(block.args, arguments, strict=True))})
        inner.write(block, list(end.operands))
        return [inner.term(v) for v in end.operands]
