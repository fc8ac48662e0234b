"""What a nest is known to give where keys are beyond rows: scores that a causal mask hides, and what is made of them.

A mask is known by its formula: indices along two axes, perhaps plus whole numbers, are compared, and the result chooses
minus infinity. What is hidden so is followed through the maps of the nest: less anything it stays minus infinity, its
exponential is zero, and so is that times anything. All other numbers are taken for finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.dtypes import exact_integers
from hybridc.ir.kernel import Nest, Stage, number_of
from hybridc.ir.nest_plan import loop_axes
from hybridc.ir.structured import element_dtype

_CASTS = (arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.UIToFPOp, arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp)
_SWAPPED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


@dataclass(frozen=True)
class _Number:
    """A number everywhere."""

    value: float


@dataclass(frozen=True)
class _Place:
    """The index along an axis, plus a whole number."""

    axis: int
    plus: int


@dataclass(frozen=True)
class _Beyond:
    """Whether key - row > ``by``; the opposite, if ``negated``."""

    by: int
    negated: bool


@dataclass(frozen=True)
class _Hidden:
    """Zero, or minus infinity, wherever key - row > ``by``; unknown elsewhere."""

    by: int
    value: float


_Fact = _Number | _Place | _Beyond | _Hidden | None


def hidden_beyond(nest: Nest, rows: int, keys: int, values: Iterable[SSAValue], value: float) -> int | None:
    """By how much a key must be beyond a row for all these values to be this number, zero or minus infinity, there.

    None if that is not known, or the first row would see no key.
    """
    found = _Facts(nest, rows, keys).of(values)
    by = [f.by for f in found if isinstance(f, _Hidden) and f.value == value]
    return max(by) if by and len(by) == len(found) and max(by) >= 0 else None


class _Facts:
    def __init__(self, nest: Nest, rows: int, keys: int) -> None:
        self.nest, self.rows, self.keys = nest, rows, keys
        self.known: dict[SSAValue, _Fact] = {}

    def of(self, values: Iterable[SSAValue]) -> list[_Fact]:
        """What is known of values that stages of the nest make."""
        for stage in self.nest.stages:
            if stage.kind == "map":
                self.known[stage.result] = self._stage(stage)
        return [self.known.get(v) for v in values]

    def _stage(self, stage: Stage) -> _Fact:
        block = stage.op.regions[0].block
        for argument, read in zip(block.args, stage.reads, strict=False):
            number = number_of(read.value)
            self.known[argument] = self.known.get(read.value) if number is None else _Number(float(number))
        axes = loop_axes(stage)
        for op in block.ops:
            if isinstance(op, linalg.YieldOp):
                return self._fact(op.operands[0])
            if isinstance(op, linalg.IndexOp):
                self.known[op.results[0]] = _Place(axes[op.dim.value.data], 0)
            else:
                self.known[op.results[0]] = self._result(op)
        return None

    def _fact(self, value: SSAValue) -> _Fact:
        number = number_of(value)
        return self.known.get(value) if number is None else _Number(float(number))

    def _result(self, op: Operation) -> _Fact:
        """What is known of the result of an operation."""
        given = [self._fact(v) for v in op.operands]
        match op:
            case _ if isinstance(op, _CASTS):
                return self._cast(op, given[0])
            case arith.CmpfOp() | arith.CmpiOp():
                return self._compared(cast(Any, op), *given)
            case arith.SelectOp():
                return _chosen(*given)
            case arith.AddfOp() | arith.AddiOp():
                return _sum(given[0], given[1])
            case arith.SubfOp() | arith.SubiOp():
                other = given[1]
                return _sum(given[0], _Number(-other.value) if isinstance(other, _Number) else _negative(other))
            case arith.MulfOp() | arith.DivfOp():
                return _product(op, *given)
            case functions.ExpOp():
                one = given[0]
                return _Hidden(one.by, 0.0) if isinstance(one, _Hidden) and one.value < 0 else None
            case _:
                return None

    def _cast(self, op: Operation, given: _Fact) -> _Fact:
        """The same, unless an index is rounded."""
        kind = op.results[0].type
        if isinstance(given, _Place) and not isinstance(op, arith.IndexCastOp):
            size = self.nest.domain[given.axis] + abs(given.plus)
            return given if size <= exact_integers(element_dtype(kind)) else None
        return given

    def _compared(self, op: arith.CmpfOp | arith.CmpiOp, left: _Fact, right: _Fact) -> _Fact:
        """Places that are compared, or whether the truth is zero."""
        names: Any = (
            arith.CMPF_COMPARISON_OPERATIONS if isinstance(op, arith.CmpfOp) else arith.CMPI_COMPARISON_OPERATIONS
        )
        kind = names[op.predicate.value.data].lstrip("ous") or "ne"
        if isinstance(left, _Beyond) and isinstance(right, _Number) and right.value == 0 and kind in ("ne", "eq"):
            return _Beyond(left.by, left.negated != (kind == "eq"))
        if not isinstance(left, _Place) or not isinstance(right, _Place) or kind not in _SWAPPED:
            return None
        if (left.axis, right.axis) == (self.rows, self.keys):
            left, right, kind = right, left, _SWAPPED[kind]
        if (left.axis, right.axis) != (self.keys, self.rows):
            return None
        by = right.plus - left.plus  # key + left.plus > row + right.plus
        if kind in ("gt", "le"):
            return _Beyond(by, kind == "le")
        return _Beyond(by - 1, kind == "lt")


def _chosen(condition: _Fact, one: _Fact, other: _Fact) -> _Fact:
    """What a condition chooses where keys are beyond rows."""
    if not isinstance(condition, _Beyond):
        return None
    value = other if condition.negated else one
    if isinstance(value, _Number) and value.value in (0.0, -math.inf):
        return _Hidden(condition.by, value.value)
    return _Hidden(max(condition.by, value.by), value.value) if isinstance(value, _Hidden) else None


def _negative(given: _Fact) -> _Fact:
    """The negative of what is hidden: of zero only; nothing is known of a difference from minus infinity."""
    return given if isinstance(given, _Hidden) and given.value == 0 else None


def _sum(one: _Fact, other: _Fact) -> _Fact:
    """A sum; minus infinity plus what may be anything finite is minus infinity."""
    for place, number in ((one, other), (other, one)):
        if isinstance(place, _Place) and isinstance(number, _Number):
            return _Place(place.axis, place.plus + int(number.value)) if number.value.is_integer() else None
    if isinstance(one, _Hidden) and isinstance(other, _Hidden) and one.value == other.value:
        return _Hidden(max(one.by, other.by), one.value)
    return next((f for f in (one, other) if isinstance(f, _Hidden) and f.value < 0), None)


def _product(op: Operation, one: _Fact, other: _Fact) -> _Fact:
    """A product, or a quotient."""
    if isinstance(one, _Hidden) and one.value == 0:
        return one
    if isinstance(op, arith.MulfOp) and isinstance(other, _Hidden) and other.value == 0:
        return other
    positive = isinstance(other, _Number) and 0 < other.value < math.inf
    return one if isinstance(one, _Hidden) and positive else None
