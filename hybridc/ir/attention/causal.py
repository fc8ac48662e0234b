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
from numpy.typing import NDArray
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


# What is known of a value in one place: a number, that it is of the size of scores, or nothing.
_SCORE = "score"
_Known = float | str | None
# The coefficients r, k and c of ``r * row + k * key + c``, a function of the indices of a row and a key.
_Line = NDArray[np.float64]


@dataclass(frozen=True)
class _Sides:
    """One value where ``key - row > by``, and one elsewhere; both are the same if there is no ``by``."""

    by: int | None
    beyond: _Known
    within: _Known


_Fact = _Line | _Sides
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
    """Facts about the values of a loop nest, derived from op to op."""

    def __init__(self, nest: LoopNest, rows: int, keys: int) -> None:
        self.nest, self.rows, self.keys = nest, rows, keys
        self.known: dict[SSAValue, _Fact] = {}
        self.alike: set[SSAValue] = set()  # arguments of bodies that are the same for all keys of a row
        for kernel_op in nest.ops:
            self.known[kernel_op.result] = self._kernel_op(kernel_op) if kernel_op.kind == "elementwise" else _UNKNOWN

    def of(self, value: SSAValue) -> _Fact:
        """What is known of a value of the nest."""
        number = number_of(value)
        return self.known.get(value, _UNKNOWN) if number is None else _Sides(None, float(number), float(number))

    def _kernel_op(self, kernel_op: KernelOp) -> _Fact:
        block = kernel_op.op.regions[0].block
        for argument, read in zip(block.args, kernel_op.reads, strict=False):
            contracted = isinstance(read.value.owner, Operation) and number_of(read.value) is None
            score = contracted and read.value not in self.known and self.keys in read.axes
            self.known[argument] = _Sides(None, _SCORE, _SCORE) if score else self.of(read.value)
            if self.keys not in read.axes and read.value not in kernel_op.indirect:
                self.alike.add(argument)
        axes = loop_axes(kernel_op)
        for op in block.ops:
            if isinstance(op, linalg.YieldOp):
                return self.of(op.operands[0])
            if isinstance(op, linalg.IndexOp):
                axis = axes[op.dim.value.data]
                known = axis in (self.rows, self.keys)
                self.known[op.results[0]] = np.array([axis == self.rows, axis == self.keys, 0.0]) if known else _UNKNOWN
            elif not isinstance(op, arith.ConstantOp):
                self.known[op.results[0]] = self._result(op, [self.of(v) for v in op.operands])
        return _UNKNOWN

    def _result(self, op: Operation, given: Sequence[_Fact]) -> _Fact:
        """What is known of the result of an operation."""
        steps = [f for f in given if isinstance(f, _Sides)]
        if len(steps) < len(given):
            lines = [line for f in given if (line := _line(f)) is not None]
            return self._of_lines(op, lines) if len(lines) == len(given) else _UNKNOWN
        sides = {f.by for f in steps if f.by is not None}
        beyond = _computed(op, [f.beyond for f in steps])
        # Less something that is the same for all keys of a row, what counts as minus infinity still does.
        if beyond is None and isinstance(op, arith.SubfOp) and op.rhs in self.alike and _is(steps[0], -math.inf):
            beyond = -math.inf
        within = _computed(op, [f.within for f in steps]) if len(sides) < 2 else None
        return _Sides(max(sides, default=None), beyond, within)

    def _of_lines(self, op: Operation, given: Sequence[_Line]) -> _Fact:
        """A function of indices made of others, or their comparison."""
        a, b = given[0], given[-1]
        if isinstance(op, _COMPARISONS):
            return _compared(_predicate(op), a - b)
        if isinstance(op, _PRODUCTS) and not (a[:2].any() and b[:2].any()):
            line = a * b[2] if a[:2].any() else a[2] * b
        elif isinstance(op, (arith.NegfOp, *_SUMS, *_DIFFERENCES)):
            line = _NUMBERS[type(op)](*given)
        elif op.name in CASTS or isinstance(op, arith.IndexCastOp):
            line = a
        else:
            return _UNKNOWN
        return line if self._is_exact(line, op) else _UNKNOWN

    def _is_exact(self, line: _Line, op: Operation) -> bool:
        """Whether numbers of the result's type are as exact as the indices that they are made of."""
        kind = op.results[0].type
        most = abs(line) @ [self.nest.domain[self.rows], self.nest.domain[self.keys], 1]
        return isinstance(kind, IndexType) or bool(most <= exact_integers(element_dtype(kind)))


def _line(fact: _Fact) -> _Line | None:
    """A number as a function of indices, too."""
    if not isinstance(fact, _Sides):
        return fact
    known = isinstance(fact.beyond, float) and fact.by is None and math.isfinite(fact.beyond)
    return np.array([0.0, 0.0, cast(float, fact.beyond)]) if known else None


def _compared(kind: str, line: _Line) -> _Sides:
    """Whether a function of indices is more, or less, than zero: ``slope * (key - row - limit)``."""
    row, slope, plus = map(float, line)
    if slope == 0 or row != -slope or kind not in ("gt", "ge", "lt", "le"):
        return _UNKNOWN
    limit = -plus / slope
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
    if isinstance(op, arith.SelectOp):
        return given[1 if x else 2] if isinstance(x, float) else y if y == given[2] else None
    if op.name in CASTS:
        return _cast(op, x)
    if y == -math.inf and isinstance(op, _DIFFERENCES):
        return None
    numbers = [v for v in given if isinstance(v, float)]
    if len(numbers) == len(given):
        return _of_numbers(op, numbers)
    number, scores = numbers[0] if numbers else None, _SCORE in given and None not in given
    if isinstance(op, (*_SUMS, *_DIFFERENCES)):
        return _shifted(-y if isinstance(y, float) and isinstance(op, _DIFFERENCES) else number, scores)
    if isinstance(op, arith.DivfOp):
        return 0.0 if x == 0.0 else _scaled(1 / y if isinstance(y, float) and y else None, scores)
    return _scaled(number, scores) if isinstance(op, _PRODUCTS) else None


def _cast(op: Operation, x: _Known) -> _Known:
    dtype = element_dtype(op.results[0].type)
    if not isinstance(x, float):
        return x
    return _number_of(dtype.type, x) if is_float(dtype) or math.isfinite(x) else None


def _of_numbers(op: Operation, numbers: Sequence[float]) -> _Known:
    """Constant folding of an operation; of integers only sums, products, and the logic of booleans."""
    if isinstance(op, _COMPARISONS):
        return _number_of(getattr(operator, _predicate(op)), *numbers)
    if type(op) not in _NUMBERS or (type(op) in _LOGIC and element_dtype(op.results[0].type).kind in "iu"):
        return None
    return _number_of(_NUMBERS[type(op)], *numbers)


def _number_of(compute: Callable[..., Any], *numbers: float) -> _Known:
    """The number that a function gives; None if it is none."""
    with np.errstate(all="ignore"):
        value = float(compute(*map(np.float64, numbers)))
    return None if math.isnan(value) else value


def _shifted(number: float | None, scores: bool) -> _Known:
    """A score, or what is unknown, plus a number or another score."""
    if number == -math.inf or not scores:
        return number if number == -math.inf else None
    if number is None or abs(number) < LARGE:
        return _SCORE
    return -math.inf if number < 0 else None


def _scaled(number: float | None, scores: bool) -> _Known:
    """A score, or what is unknown, times a number."""
    if number is None or number == 0:
        return number
    return _SCORE if scores and abs(number) <= 1 else None


_COMPARISONS = (arith.CmpfOp, arith.CmpiOp)
_SUMS = (arith.AddfOp, arith.AddiOp)
_DIFFERENCES = (arith.SubfOp, arith.SubiOp)
_PRODUCTS = (arith.MulfOp, arith.MuliOp)
_LOGIC = {arith.AndIOp: np.logical_and, arith.OrIOp: np.logical_or, arith.XOrIOp: np.logical_xor}
# What is computed of numbers alone.
_NUMBERS: dict[type[Operation], Callable[..., Any]] = {
    **dict.fromkeys(_SUMS, np.add),
    **dict.fromkeys(_DIFFERENCES, np.subtract),
    **dict.fromkeys(_PRODUCTS, np.multiply),
    **_LOGIC,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    functions.ExpOp: np.exp,
    functions.LogOp: np.log,
}
