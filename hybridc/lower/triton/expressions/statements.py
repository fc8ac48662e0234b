"""Operations of ``arith`` and ``math`` as statements of Triton's language: one for each operation, on blocks.

Blocks broadcast with each other. Every value has one dtype in the source: that of its tensor, with its sign, or that
of its type; where an operation reads integers with another sign, its operands are cast. Half precision is rounded
after each operation, and functions of it are computed in single.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith, math, scf, tensor
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hybridc.ir.kernel import CASTS, number_of, sign, signed_as
from hybridc.ir.scalar_builder import signless
from hybridc.ir.structured import dtype_of, element_dtype
from hybridc.lower.mathlib import Formula
from hybridc.lower.mathlib.power import short_power
from hybridc.lower.mathlib.value import FORMATS, Value
from hybridc.lower.mathlib.value import FormulaWriter as FormulaWriter
from hybridc.lower.triton.expressions import ops
from hybridc.lower.triton.expressions.formulas import FORMULAS
from hybridc.lower.triton.expressions.ops import BOOL, HALF, SINGLE, DType, Term, triton_type
from hybridc.lower.triton.source_writer import SourceWriter

Index = Callable[[int], str]
Load = Callable[[tensor.ExtractOp, Sequence[str]], str]

PLACE = np.dtype("int64")  # of an index, which may be narrower where it comes from


def applied(op: Operation, operands: Sequence[Term], dtype: DType) -> str | None:
    """An operation on operands that have been cast, if it is written as a sign between them or as a call."""
    call = ops.function(op, dtype)
    if call is not None:
        beside = any(x.number is None and x.dtype == dtype for x in operands)
        return call.format(*[x.argument(beside) for x in operands])
    between = ops.sign(op)
    if between is None:
        return None
    first, second = operands
    text = f"{first.block if second.number is not None else first.text} {between} {second.text}"
    return f"({text}).to({triton_type(HALF)})" if isinstance(op, arith.DivfOp) and dtype == HALF else text


def helper(w: SourceWriter, name: str, formula: Formula, kinds: Sequence[Attribute]) -> str:
    """The name of a function of the module that computes a formula for numbers of these types."""
    full = f"{name}_{kinds[0]}"
    if full not in w.helpers:
        for each, source in _functions(full, formula, tuple(kinds)).items():
            w.helper(each, source)
    return full


@functools.lru_cache(256)
def _functions(name: str, formula: Formula, kinds: tuple[Attribute, ...]) -> dict[str, str]:
    """The source of the function of a formula, after those that it calls."""
    block = Block(arg_types=kinds)
    result = formula(*[Value(FormulaWriter(block), x) for x in block.args]).ssa
    w = SourceWriter()
    arguments = [w.name(hint) for hint in ("x", "y", "z")[: len(kinds)]]
    w.line("@triton.jit")
    w.line(f"def {name}({', '.join(arguments)}):")
    with w.indented():
        w.line(f'"""{(formula.__doc__ or name).splitlines()[0]}"""')
        if len(arguments) > 1:
            w.line(f"{', '.join(arguments)} = tl.broadcast({', '.join(arguments)})")
        known: dict[SSAValue, Term] = {
            v: Term(a, element_dtype(v.type)) for v, a in zip(block.args, arguments, strict=True)
        }
        statements = Statements(w, known)
        statements.write(block, [result])
        w.line(f"return {statements.term(result).block}")
    return {**w.helpers, name: "\n".join(w.lines)}


def _dtype(kind: Attribute) -> DType:
    return PLACE if isinstance(kind, IndexType) else element_dtype(kind)


def _nowhere(*_: object) -> str:
    raise AssertionError("a formula has no loops and reads nothing")


class Statements:
    """Writes the operations of a block; ``known`` are the values that have a name or are a number."""

    def __init__(
        self, w: SourceWriter, known: dict[SSAValue, Term], index: Index = _nowhere, load: Load = _nowhere
    ) -> None:
        self.w = w
        self.known = known
        self.index = index
        self.load = load

    def term(self, value: SSAValue) -> Term:
        """A value in source."""
        if value not in self.known:
            number = number_of(value)
            assert number is not None, f"{value} is no number"
            self.known[value] = ops.number(number, _dtype(value.type))
        return self.known[value]

    def write(self, block: Block, wanted: Sequence[SSAValue]) -> None:
        """Write what the wanted values are made of, in the order of the block."""
        needed = set(wanted)
        found: list[Operation] = []
        for op in reversed(list(block.ops)):
            if needed.isdisjoint(op.results) or isinstance(op, arith.ConstantOp):
                continue
            if all(v in self.known for v in op.results):
                continue
            found.append(op)
            needed.update(v for inner in op.walk() for v in inner.operands)
        for op in reversed(found):
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        result = op.results[0]
        match op:
            case linalg.IndexOp():
                self.known[result] = Term(self.index(op.dim.value.data), PLACE)
            case tensor.ExtractOp():
                places = [self.term(v).text for v in op.indices]
                self.known[result] = Term(self.load(op, places), dtype_of(op.tensor))
            case scf.WhileOp():
                self._while(op)
            case _:
                self.known[result] = self._computed(op)

    def _computed(self, op: Operation) -> Term:
        """The value of an operation of ``arith`` or ``math``."""
        given = [self.term(v) for v in op.operands]
        if op.name in CASTS or isinstance(op, arith.IndexCastOp | arith.BitcastOp):
            return self._cast(op, given[0])
        dtype, kind = self._reads(op, given), _dtype(op.results[0].type)
        operands = [x.as_dtype(dtype) for x in given]
        result = dtype if kind.kind == "i" else kind
        if isinstance(op, arith.NegfOp):
            return self._let(op, f"{operands[0].block} * -1.0", result)
        if dtype == HALF and not isinstance(op, math.AbsFOp) and (type(op) in FORMULAS or op.name.startswith("math.")):
            return self._in_single(op, operands)
        return self._short_power(op, operands) or self._let(op, self._expression(op, operands, dtype), result)

    def _expression(self, op: Operation, operands: Sequence[Term], dtype: DType) -> str:
        text = applied(op, operands, dtype)
        if text is not None:
            return text
        if type(op) not in FORMULAS:
            raise ops.unsupported(op)
        kinds = [signless(dtype)] * len(operands)
        name = helper(self.w, op.name.partition(".")[2], FORMULAS[type(op)], kinds)
        shape = "[1]" if all(x.number is not None for x in operands) else "[]"  # a loop needs a block
        return f"{name}({', '.join(x.filled(shape) for x in operands)})"

    def _in_single(self, op: Operation, operands: Sequence[Term]) -> Term:
        """A function of half precision: of single, rounded."""
        wide = [Term(self.w.let("wide", f"{x.block}.to({triton_type(SINGLE)})"), SINGLE) for x in operands]
        found = self._let(op, self._expression(op, wide, SINGLE), SINGLE)
        return self._let(op, f"{found.text}.to({triton_type(HALF)})", HALF)

    def _short_power(self, op: Operation, operands: Sequence[Term]) -> Term | None:
        """A power whose exponent is a number that is known, and simple."""
        kind = op.results[0].type
        if not isinstance(op, math.PowFOp) or kind not in FORMATS or operands[1].number is None:
            return None
        block = Block(arg_types=[kind])
        made = short_power(Value(FormulaWriter(block), block.args[0]), float(operands[1].number))
        if made is None:
            return None
        self.known[block.args[0]] = operands[0]
        self.write(block, [made.ssa])
        return self.term(made.ssa)

    def _let(self, op: Operation, text: str, dtype: DType) -> Term:
        return Term(self.w.let(ops.hint(op), text), dtype)

    def _reads(self, op: Operation, given: Sequence[Term]) -> DType:
        """The dtype in which an operation reads its operands; a condition is none of them."""
        values = given[1:] if isinstance(op, arith.SelectOp) else given
        named = [x for x in values if x.number is None] or list(values)
        return signed_as(named[0].dtype, sign(op))

    def _cast(self, op: Operation, given: Term) -> Term:
        target = _dtype(op.results[0].type)
        if isinstance(op, arith.BitcastOp):
            return self._let(op, f"{given.block}.to({triton_type(target)}, bitcast=True)", target)
        if isinstance(op, arith.IndexCastOp) and target == given.dtype and isinstance(op.results[0].type, IndexType):
            return given
        read = signed_as(given.dtype, sign(op))
        target = signed_as(target, {"arith.fptoui": "u", "arith.fptosi": "i"}.get(op.name))
        if given.dtype == BOOL and op.name == "arith.extsi":
            raise ops.unsupported(op)
        return self._let(op, f"{given.as_dtype(read).block}.to({triton_type(target)})", target)

    def _while(self, op: scf.WhileOp) -> None:
        """A loop that goes on until the condition holds for no element; those that are done keep what they have."""
        before, after = op.before_region.block, op.after_region.block
        going, passed = self._condition(before, [self.term(v) for v in op.arguments])
        # A loop needs a block, which what is made of numbers alone is not.
        going = self.w.let("going", f"{going.block} & tl.full([1], 1, tl.int1)")
        names = [self.w.let("value", f"tl.where({going}, {x.block}, {x.block})") for x in passed]
        carried = [Term(name, x.dtype) for name, x in zip(names, passed, strict=True)]
        self.w.line(f"while tl.max({going}.to(tl.int32)) > 0:")
        with self.w.indented():
            made = self._inside(after, carried)
            further, passed = self._condition(before, made)
            for held, x in zip(carried, passed, strict=True):
                self.w.line(f"{held.text} = tl.where({going}, {x.as_dtype(held.dtype).argument(True)}, {held.text})")
            self.w.line(f"{going} = {going} & {further.text}")
        self.known.update(zip(op.results, carried, strict=True))

    def _condition(self, block: Block, given: Sequence[Term]) -> tuple[Term, list[Term]]:
        """Whether a loop goes on, and with what."""
        condition, *passed = self._inside(block, given)
        return condition, passed

    def _inside(self, block: Block, given: Sequence[Term]) -> list[Term]:
        """What the last operation of a block is given, for these arguments."""
        end = block.last_op
        assert end is not None
        inner = Statements(self.w, {**self.known, **dict(zip(block.args, given, strict=True))})
        inner.write(block, list(end.operands))
        return [inner.term(v) for v in end.operands]
