"""Expand math functions without an instruction: call a function whose body is a polynomial approximation.

``math.exp`` of f32 becomes ``func.call @exp_f32``; the formula is added to the module once. Half precision is computed
in single, and floats of eight bits are converted in place. Powers with common constant exponents (2, 3, 0.5, ...)
become products and roots in place. The logistic function 1 / (1 + exp(-x)) has a formula of its own, in which exp
cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import FloatAttr, IntegerType, ModuleOp, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from hybridc.dtypes import HALVES
from hybridc.ir.structured import element_dtype
from hybridc.lower.mathlib import FORMULAS, Formula
from hybridc.lower.mathlib.eight_bits import conversion
from hybridc.lower.mathlib.exponential import logistic
from hybridc.lower.mathlib.power import short_power
from hybridc.lower.mathlib.value import FORMATS, FormulaWriter, Value


@dataclass(frozen=True)
class ExpandMath(ModulePass):
    """Replace operations of ``math`` by calls of their expansions."""

    name = "expand-math"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        added: dict[str, func.FuncOp] = {}
        found = [o for o in op.walk() if isinstance(o, arith.DivfOp) or type(o) in FORMULAS or conversion(o)]
        for each in found:
            if isinstance(each, arith.DivfOp):
                _expand_logistic(each, added)
        for each in found:
            if (formula := conversion(each)) is not None:
                block = Block()
                _replace(each, block, formula(Value(FormulaWriter(block), each.operands[0])).ssa)
            elif type(each) in FORMULAS and each.parent is not None:  # not fused into a logistic function
                _expand(each, added)
        for function in added.values():
            op.body.block.add_op(function)


def _expand(op: Operation, added: dict[str, func.FuncOp]) -> None:
    block = Block()
    operands, kind = list(op.operands), op.results[0].type
    short = _short(op, FormulaWriter(block))
    if short is not None:
        result = short
    elif element_dtype(kind) in HALVES:
        operands = [_converted(block, arith.ExtFOp, x, f32) for x in operands]
        result = _converted(block, arith.TruncFOp, _called(block, op, operands, f32, added), kind)
    else:
        result = _called(block, op, operands, kind, added)
    _replace(op, block, result)


def _replace(op: Operation, block: Block, result: SSAValue) -> None:
    """Replace an operation by the operations of a block."""
    made = list(block.ops)
    for new in made:
        new.detach()
    Rewriter.replace_op(op, made, [result])


def _expand_logistic(op: arith.DivfOp, added: dict[str, func.FuncOp]) -> None:
    """Call the logistic function, if the division completes one."""
    total = op.rhs.owner
    if op.result.type not in FORMATS or not _is_one(op.lhs) or not isinstance(total, arith.AddfOp):
        return
    power = total.lhs.owner
    if not _is_one(total.rhs) or not isinstance(power, math.ExpOp) or not isinstance(power.operand.owner, arith.NegfOp):
        return
    negated = power.operand.owner
    block = Block()
    result = _call(block, "logistic", logistic, [negated.operand], op.result.type, added)
    _replace(op, block, result)
    for unused in (total, power, negated):
        if not any(r.uses for r in unused.results):
            Rewriter.erase_op(unused)


def _is_one(x: SSAValue) -> bool:
    owner = x.owner
    return isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr) and owner.value.value.data == 1.0


def _short(op: Operation, writer: FormulaWriter) -> SSAValue | None:
    """A power with a simple constant exponent, by products and roots."""
    if not isinstance(op, math.PowFOp) or op.results[0].type not in FORMATS:
        return None
    exponent = op.rhs.owner
    if not isinstance(exponent, arith.ConstantOp) or not isinstance(exponent.value, FloatAttr):
        return None
    made = short_power(Value(writer, op.lhs), exponent.value.value.data)
    return None if made is None else made.ssa


def _converted(block: Block, cls: type[Operation], x: SSAValue, kind: Attribute) -> SSAValue:
    op = cls.create(operands=[x], result_types=[kind])
    block.add_op(op)
    return op.results[0]


def _called(
    block: Block, op: Operation, operands: Sequence[SSAValue], kind: Attribute, added: dict[str, func.FuncOp]
) -> SSAValue:
    if kind not in FORMATS and type(kind) is not IntegerType:
        raise PassFailedException(f"{op.name} of {kind} cannot be expanded: formulas are of scalars, not of vectors")
    return _call(block, op.name.removeprefix("math."), FORMULAS[type(op)], operands, kind, added)


def _call(
    block: Block,
    name: str,
    formula: Formula,
    operands: Sequence[SSAValue],
    kind: Attribute,
    added: dict[str, func.FuncOp],
) -> SSAValue:
    """A call of the function that computes a formula for values of a type."""
    name = f"{name}_{kind}"
    if name not in added:
        added[name] = _function(name, formula, len(operands), kind)
    call = func.CallOp(name, operands, [kind])
    block.add_op(call)
    return call.results[0]


def _function(name: str, formula: Formula, count: int, kind: Attribute) -> func.FuncOp:
    kinds: list[Attribute] = [kind] * count
    block = Block(arg_types=kinds)
    writer = FormulaWriter(block)
    result = formula(*[Value(writer, x) for x in block.args])
    block.add_op(func.ReturnOp(result.ssa))
    return func.FuncOp(name, (kinds, [kind]), Region(block), visibility="private")
