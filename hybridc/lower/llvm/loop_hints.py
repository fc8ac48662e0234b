"""How wide a loop's vectors are: said for loops over consecutive elements, left to LLVM for all others.

LLVM itself makes, for such a loop, code for several vectors at a time, then for one narrower vector, then for single
elements. One full vector at a time runs as fast (and faster where rows are short), and half the code is compiled in
half the time. A width that is said makes LLVM reorder what is carried around the loop, so it is not said where floats
are carried that must keep their order.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType
from xdsl.dialects.utils import FastMathAttrBase
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

_FEW = 64  # a loop of so few rounds may have a width that its length suggests
_SCALAR = frozenset({"arith", "math", "func", "memref", "scf"})
_GREATEST = (arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp)  # the same in any order

Steps = dict[SSAValue, int | None]  # how far an index goes in a round, None if it is none; 0 is not listed


def element_bits(loop: scf.ForOp) -> int | None:
    """The width of a loop's widest numbers, if each round works on the elements after those of the round before."""
    body = loop.body.block
    last = body.last_op
    if _constant(loop.step) != 1 or _is_short(loop) or last is None or not all(map(_may_reorder, last.operands)):
        return None
    counter, *carried = body.args
    steps: Steps = {counter: 1, **dict.fromkeys(carried)}
    widest = 0
    for op in body.ops:
        if op.regions or op.dialect_name() not in _SCALAR or not _is_consecutive(op, steps):
            return None
        step = _step(op, steps)
        for result in op.results:
            widest = max(widest, _bits(result.type))
            if step != 0:
                steps[result] = step
    return widest or None


def _is_consecutive(op: Operation, steps: Steps) -> bool:
    """Whether an operation reads the same or the next element, and writes the next one."""
    if isinstance(op, memref.LoadOp):
        return len(op.indices) == 1 and steps.get(op.indices[0], 0) in (0, 1)
    if isinstance(op, memref.StoreOp):
        return len(op.indices) == 1 and steps.get(op.indices[0], 0) == 1
    return True


def _step(op: Operation, steps: Steps) -> int | None:
    """How far the result goes in a round: 0 if it stays, None if that is no number of elements."""
    of = [steps.get(v, 0) for v in op.operands]
    if isinstance(op, arith.AddiOp) and of in ([0, 1], [1, 0]):
        return 1
    if isinstance(op, arith.SubiOp) and of == [1, 0]:
        return 1
    stays = op.dialect_name() in ("arith", "math") and not any(s != 0 for s in of)
    return 0 if stays else None


def _may_reorder(value: SSAValue) -> bool:
    """Whether what a loop carries may be computed in another order."""
    if not isinstance(value.type, AnyFloat):
        return True
    op = value.owner
    flags = op.properties.get("fastmath") if isinstance(op, Operation) else None
    return isinstance(op, _GREATEST) or (
        flags is not None and FastMathFlag.REASSOC in cast(FastMathAttrBase, flags).data
    )


def _is_short(loop: scf.ForOp) -> bool:
    first, end = _constant(loop.lb), _constant(loop.ub)
    return first is not None and end is not None and end - first < _FEW


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, IntegerAttr):
        return None
    return cast(IntegerAttr[Any], op.value).value.data


def _bits(kind: Attribute) -> int:
    """The width of a number in a vector; indices are no vectors."""
    if isinstance(kind, IndexType):
        return 0
    return max(8, cast(Any, kind).bitwidth) if isinstance(kind, (IntegerType, AnyFloat)) else 0
