"""What a loop nest is known to compute where keys are beyond rows: scores that a causal mask hides, and the like.

Indices along two axes are followed through the bodies of a nest: as an affine function of both, until two such are
compared; from there on as two values, one for all places where ``key - row > by`` and one for all others. Such a value
is a number, or a score (what a contraction gives: finite, and less than half of :data:`LARGE` in size), or unknown, but
finite. So it makes no difference how a mask is spelt: chosen, added or multiplied; of floats, integers or booleans.

A score to which a number of at least :data:`LARGE` is added counts as minus infinity if that is negative. Where another
mask, of data, takes part, nothing is known of scores, and only minus infinity hides them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.dtypes import exact_integers, is_float
from hybridc.ir.kernel import CASTS, KernelOp, LoopNest, number_of
from hybridc.ir.loop_nest_plan import loop_axes
from hybridc.ir.structured import element_dtype

# Numbers that masks use in the place of infinity, the smallest of them: what half precision can hold.
LARGE = 1e4


class _Score:
    """A number of the size of scores."""


_SCORE = _Score()
_Known = float | _Score | None


@dataclass(frozen=True)
class _Affine:
    """``row * i + key * j + plus``, of the indices of a row and a key."""

    row: float
    key: float
    plus: float


@dataclass(frozen=True)
class _Sides:
    """One value where ``key - row > by``, and one elsewhere; both are the same if there is no ``by``."""

    by: int | None
    beyond: _Known
    within: _Known


_Fact = _Affine | _Sides
_UNKNOWN = _Sides(None, None, None)


def hidden_beyond(nest: LoopNest, rows: int, keys: int, values: Iterable[SSAValue], value: float) -> int | None:
    """By how much a key must be beyond a row for all these values to be this number, zero or minus infinity, there.

    None if that is not known, or the first row would see no key.
    """
    facts = _Facts(nest, rows, keys)
    by = [f.by if isinstance(f, _Sides) and _is(f, value) else None for f in map(facts.of, values)]
    found = [b for b in by if b is not None]
    return max(found) if found and len(found) == len(by) and max(found) >= 0 else None


def _is(step: _Sides, value: float) -> bool:
    """Whether what is beyond is this number, or, where it is minus infinity, as good as that."""
    if step.beyond == value:
        return True
    return value < 0 and isinstance(step.beyond, float) and step.beyond <= -LARGE and step.within is _SCORE


class _Facts:
    def __init__(self, nest: LoopNest, rows: int, keys: int) -> None:
        self.nest, self.rows, self.keys = nest, rows, keys
        self.known: dict[SSAValue, _Fact] = {}
        for kernel_op in nest.ops:
            self.known[kernel_op.result] = self._kernel_op(kernel_op) if kernel_op.kind == "elementwise" else _UNKNOWN

    def of(self, value: SSAValue) -> _Fact:
        """What is known of a value of the nest."""
        number = number_of(value)
        return self.known.get(value, _UNKNOWN) if number is None else _number(float(number))

    def _kernel_op(self, kernel_op: KernelOp) -> _Fact:
        block = kernel_op.op.regions[0].block
        for argument, read in zip(block.args, kernel_op.reads, strict=False):
            contracted = isinstance(read.value.owner, Operation) and number_of(read.value) is None
            score = contracted and read.value not in self.known and self.keys in read.axes
            self.known[argument] = _Sides(None, _SCORE, _SCORE) if score else self.of(read.value)
        axes = loop_axes(kernel_op)
        for op in block.ops:
            if isinstance(op, linalg.YieldOp):
                return self.of(op.operands[0])
            if isinstance(op, linalg.IndexOp):
                axis = axes[op.dim.value.data]
                known = axis in (self.rows, self.keys)
                self.known[op.results[0]] = _Affine(axis == self.rows, axis == self.keys, 0) if known else _UNKNOWN
            elif not isinstance(op, arith.ConstantOp):
                self.known[op.results[0]] = self._result(op, [self.of(v) for v in op.operands])
        return _UNKNOWN

    def _result(self, op: Operation, given: Sequence[_Fact]) -> _Fact:
        """What is known of the result of an operation."""
        if any(isinstance(f, _Affine) for f in given):
            lines = [line for f in given if (line := _line(f)) is not None]
            made = _of_lines(op, lines) if len(lines) == len(given) else _UNKNOWN
            return made if isinstance(made, _Sides) or self._is_exact(made, op) else _UNKNOWN
        steps = [f for f in given if isinstance(f, _Sides)]
        sides = {f.by for f in steps if f.by is not None}
        beyond = _computed(op, [f.beyond for f in steps])
        if beyond is None and _is(steps[0], -math.inf) and self._is_row_less(op):
            beyond = -math.inf
        within = _computed(op, [f.within for f in steps]) if len(sides) < 2 else None
        return _Sides(max(sides, default=None), beyond, within)

    def _is_row_less(self, op: Operation) -> bool:
        """Whether an operation is a difference from something that is the same for all keys of a row."""
        if not isinstance(op, arith.SubfOp):
            return False
        kernel_ops = [s for s in self.nest.ops if s.op.regions[0].block is op.parent]
        reads = [
            r for s in kernel_ops for a, r in zip(s.op.regions[0].block.args, s.reads, strict=False) if a is op.rhs
        ]
        return any(self.keys not in r.axes and all(r.value not in s.indirect for s in kernel_ops) for r in reads)

    def _is_exact(self, line: _Affine, op: Operation) -> bool:
        """Whether numbers of the result's type are as exact as the indices that they are made of."""
        kind = op.results[0].type
        sizes = [self.nest.domain[a] for a in (self.rows, self.keys)]
        most = abs(line.row) * sizes[0] + abs(line.key) * sizes[1] + abs(line.plus)
        return isinstance(kind, IndexType) or most <= exact_integers(element_dtype(kind))


def _number(value: float) -> _Sides:
    return _Sides(None, value, value)


def _line(fact: _Fact) -> _Affine | None:
    """A number as a function of indices, too."""
    if isinstance(fact, _Affine):
        return fact
    known = isinstance(fact.beyond, float) and fact.by is None and math.isfinite(fact.beyond)
    return _Affine(0, 0, cast(float, fact.beyond)) if known else None


def _of_lines(op: Operation, given: Sequence[_Affine]) -> _Fact:
    """A function of indices made of others, or their comparison."""
    a, b = given[0], given[-1]
    match op:
        case arith.AddfOp() | arith.AddiOp():
            return _Affine(a.row + b.row, a.key + b.key, a.plus + b.plus)
        case arith.SubfOp() | arith.SubiOp():
            return _Affine(a.row - b.row, a.key - b.key, a.plus - b.plus)
        case arith.MulfOp() | arith.MuliOp():
            if a.row or a.key:
                a, b = b, a
            return _UNKNOWN if a.row or a.key else _Affine(a.plus * b.row, a.plus * b.key, a.plus * b.plus)
        case arith.NegfOp():
            return _Affine(-a.row, -a.key, -a.plus)
        case arith.CmpfOp() | arith.CmpiOp():
            return _compared(_predicate(op), _Affine(a.row - b.row, a.key - b.key, a.plus - b.plus))
        case _:
            return a if op.name in CASTS or isinstance(op, arith.IndexCastOp) else _UNKNOWN


def _compared(kind: str, line: _Affine) -> _Sides:
    """Whether a function of indices is more, or less, than zero: ``slope * (key - row - limit)``."""
    slope = line.key
    if slope == 0 or line.row != -slope or kind not in ("gt", "ge", "lt", "le"):
        return _UNKNOWN
    limit = -line.plus / slope
    # It changes where key - row > limit, or >= limit; for whole numbers both are key - row > by.
    by = math.floor(limit) if kind in (("gt", "le") if slope > 0 else ("lt", "ge")) else math.ceil(limit) - 1
    beyond = (kind in ("gt", "ge")) == (slope > 0)
    return _Sides(by, float(beyond), float(not beyond))


def _predicate(op: arith.CmpfOp | arith.CmpiOp) -> str:
    """The name of a comparison, whatever it says of signs and of what is no number."""
    names: Any = arith.CMPF_COMPARISON_OPERATIONS if isinstance(op, arith.CmpfOp) else arith.CMPI_COMPARISON_OPERATIONS
    return names[cast(Any, op.predicate).value.data].lstrip("ous") or "ne"


# --- numbers, scores and what is unknown ------------------------------------------------------------------------------


def _computed(op: Operation, given: Sequence[_Known]) -> _Known:
    """What an operation makes of values."""
    x, y = (*given, None, None)[:2]
    numbers = [v for v in given if isinstance(v, float)]
    if op.name in CASTS:
        return _cast(op, x)
    match op:
        case arith.AddfOp() | arith.AddiOp():
            return _sum(x, y)
        case arith.SubfOp() | arith.SubiOp():
            return None if y == -math.inf else _sum(x, -y if isinstance(y, float) else y)
        case arith.MulfOp() | arith.MuliOp():
            return _product(x, y)
        case arith.DivfOp():
            return x if x == 0 != y else _product(x, _number_of(np.divide, 1.0, y)) if isinstance(y, float) else None
        case arith.SelectOp():
            return given[1 if x else 2] if isinstance(x, float) else y if y == given[2] else None
        case arith.CmpfOp() | arith.CmpiOp() if len(numbers) == 2:
            return _number_of(getattr(operator, _predicate(op)), *numbers)
        case _ if type(op) in _NUMBERS and len(numbers) == len(given):
            dtype = element_dtype(op.results[0].type)
            return None if dtype.kind in "iu" else _number_of(_NUMBERS[type(op)], *numbers)
        case _:
            return None


def _cast(op: Operation, x: _Known) -> _Known:
    dtype = element_dtype(op.results[0].type)
    if not isinstance(x, float):
        return x
    return _number_of(dtype.type, x) if is_float(dtype) or math.isfinite(x) else None


def _number_of(compute: Callable[..., Any], *numbers: float) -> _Known:
    """The number that a function gives; None if it is none."""
    with np.errstate(all="ignore"):
        value = float(compute(*map(np.float64, numbers)))
    return None if math.isnan(value) else value


def _sum(x: _Known, y: _Known) -> _Known:
    if isinstance(x, float) and isinstance(y, float):
        return _number_of(np.add, x, y)
    number = x if isinstance(x, float) else y
    if number == -math.inf:
        return number
    if _SCORE not in (x, y) or None in (x, y):
        return None
    if not isinstance(number, float) or abs(number) < LARGE:
        return _SCORE
    return -math.inf if number < 0 else None


def _product(x: _Known, y: _Known) -> _Known:
    if isinstance(x, float) and isinstance(y, float):
        return _number_of(np.multiply, x, y)
    if 0.0 in (x, y):
        return 0.0
    number = x if isinstance(x, float) else y
    return _SCORE if _SCORE in (x, y) and isinstance(number, float) and abs(number) <= 1 else None


# What is computed of numbers alone; of integers only where they are truths.
_NUMBERS: dict[type[Operation], Callable[..., Any]] = {
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.AndIOp: np.logical_and,
    arith.OrIOp: np.logical_or,
    arith.XOrIOp: np.logical_xor,
    functions.ExpOp: np.exp,
    functions.LogOp: np.log,
}
