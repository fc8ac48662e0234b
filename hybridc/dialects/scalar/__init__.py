"""The vocabulary of scalar bodies (``b``), with its NumPy implementation.

A scalar body is arithmetic (:class:`Arithmetic`) and calls of a builder ``b`` whose methods are named as in MLIR's
``arith`` and ``math`` dialects. Run on :data:`NUMPY` it is the eager operator; run on a recording builder
(:class:`Recorder`) it becomes a list of steps which a target turns into ufunc calls, LLVM instructions or Triton
expressions. Python scalars may be operands; comparisons give booleans for ``select`` and the logical operators.

``div`` divides integers as floats. ``quotient`` divides them exactly and truncates; by 0 it is 0.
``pow`` of integers is exact modulo their range, and truncated where the exponent is negative.
``logistic`` is ``1 / (1 + exp(-x))``, in single precision for half precision, where ``exp`` would overflow.
``like(x, number)`` is a constant in the dtype of ``x``, saturated to its range.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from hybridc.dialects import special
from hybridc.dialects.error_context import defined, raise_in_context
from hybridc.dialects.scalar.table import STEPS, ScalarStep
from hybridc.dtypes import wide
from hybridc.errors import CustomOpError, TraceError
from hybridc.ground.records import dataclass

BOOL = np.dtype(bool)


def _numpy_function(name: str) -> Any:
    """A function of NumPy, or of hybridc.dialects.special."""
    module, _, function = name.partition(".")
    return getattr(np if module == "np" else special, function)


def _select(condition: Any, a: Any, b: Any) -> Any:
    where: Any = np.where
    return where(condition, a, b)


def _cast(x: Any, dtype: npt.DTypeLike) -> Any:
    return x.astype(dtype) if hasattr(x, "astype") else np.dtype(dtype).type(x)


def number_like(value: float, dtype: np.dtype[Any]) -> Any:
    """A Python scalar in a dtype: truncated and saturated for integers; nan is 0."""
    if dtype.kind not in "iu":
        return dtype.type(value)
    if math.isnan(value):
        return dtype.type(0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if value <= limits.min else limits.max if value >= limits.max else int(value))


def _like(x: Any, value: float) -> Any:
    return number_like(value, x.dtype)


def _quotient(x: Any, y: Any) -> Any:
    dtype = np.result_type(x, y)
    if dtype.kind == "b":
        return np.logical_and(x, y)
    if dtype.kind not in "iu":
        return np.divide(x, y)
    with np.errstate(all="ignore"):
        return special.quotient(x, y)


def _logistic(x: Any) -> Any:
    dtype = np.exp.resolve_dtypes((x.dtype, None))[1]
    # In half precision exp overflows where the result is not yet 0.
    x = x.astype(wide(dtype), copy=False)
    return np.divide(1.0, np.add(np.exp(np.negative(x)), 1.0)).astype(dtype, copy=False)


def _rint(x: Any) -> Any:
    return x if np.asarray(x).dtype.kind in "iub" else np.rint(x)


def _power(x: Any, y: Any) -> Any:
    dtype = np.result_type(x, y)
    if dtype.kind not in "iu":
        return special.power(x, y)
    with np.errstate(all="ignore"):
        power: Any = np.power(x, max(y, 0) if isinstance(y, int) else np.maximum(y, 0), dtype=dtype)
        if dtype.kind == "u" or np.min(y, initial=0) >= 0:
            return power
        sign: Any = np.where(np.bitwise_and(y, 1) == 1, x, 1)
        return np.where(np.less(y, 0), np.where(np.abs(x) == 1, sign, 0), power).astype(dtype)


class NumPyScalar:
    """The scalar vocabulary on NumPy arrays: each step of the table by its function, or by one of these."""

    pow = staticmethod(_power)
    quotient = staticmethod(_quotient)
    logistic = staticmethod(_logistic)
    rint = staticmethod(_rint)
    select = staticmethod(_select)
    cast = staticmethod(_cast)
    like = staticmethod(_like)

    if TYPE_CHECKING:

        def __getattr__(self, step: str) -> Any: ...


NUMPY = NumPyScalar()


def _numpy_step_function(step: ScalarStep) -> Any:
    """The function of NumPy for a step, or its composition of other steps."""
    if step.function:
        return _numpy_function(step.function)
    assert step.composed is not None, "a step without a function is composed"
    return functools.partial(special.by_blocks, step.composed, NUMPY)


for _step in STEPS.values():
    if _step.name not in vars(NumPyScalar):
        setattr(NumPyScalar, _step.name, staticmethod(_numpy_step_function(_step)))

# Steps with boolean results, whatever their operands are.
PREDICATES = frozenset(step.name for step in STEPS.values() if step.predicate)


@functools.lru_cache(4096)
def loop_dtypes(step: str, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """NumPy's loop dtypes of a step: those of the operands, then that of the result.

    ``kinds`` are the operands' dtypes, or ``float``, ``int`` or ``bool`` for Python scalars, which adapt to the others.
    """
    row = STEPS[step]
    if not row.loops and not row.function.startswith("np."):
        single = np.result_type(np.float32, *[np.dtype(k) for k in kinds])
        return (single,) * (len(kinds) + 1)
    ufunc: Any = _numpy_function(row.loops or row.function)
    dtypes: tuple[np.dtype[Any], ...] = ufunc.resolve_dtypes((*[BOOL if k is bool else k for k in kinds], None))
    return dtypes


_Value = TypeVar("_Value", bound="Arithmetic")


def _binary(step: str) -> Callable[[_Value, Any], _Value]:
    def apply(x: _Value, y: Any) -> _Value:
        return x.builder.step(step, x, y)

    return apply


def _reflected(step: str) -> Callable[[_Value, Any], _Value]:
    def apply(x: _Value, y: Any) -> _Value:
        return x.builder.step(step, y, x)

    return apply


def _unary(step: str) -> Callable[[_Value], _Value]:
    def apply(x: _Value) -> _Value:
        return x.builder.step(step, x)

    return apply


def _logical(sign: str, step: str) -> Callable[..., Any]:
    def apply(x: _Value, *more: Any) -> _Value:
        for operand in (x, *more):
            if not (operand.is_predicate if isinstance(operand, Arithmetic) else isinstance(operand, bool | np.bool)):
                raise TraceError(f"{sign} of a scalar body takes conditions, such as x > 0; write x != 0, or b.{step}")
        return x.builder.step(step, x, *more)

    return apply


class Arithmetic:
    """Python's operators on the values of a ``builder``: ``x * y + 1`` is ``b.add(b.mul(x, y), 1)``.

    ``&``, ``|`` and ``~`` are the logical operators of conditions. ``==`` is a step, too; hashes are by identity.
    """

    __slots__ = ()
    builder: Any

    @property
    def is_predicate(self) -> bool:
        """Whether it is a boolean."""
        raise NotImplementedError

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    __mod__, __rmod__ = _binary("rem"), _reflected("rem")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __neg__, __abs__ = _unary("neg"), _unary("abs")
    __lt__, __le__, __gt__, __ge__ = map(_binary, ("lt", "le", "gt", "ge"))
    __hash__ = object.__hash__
    __and__ = __rand__ = _logical("&", "logical_and")
    __or__ = __ror__ = _logical("|", "logical_or")
    __invert__ = _logical("~", "logical_not")

    def __eq__(self, other: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]  (a step, not a bool)
        return self.builder.step("eq", self, other)

    def __ne__(self, other: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.builder.step("ne", self, other)

    # Python's branches and numbers, and NumPy, see no value here.

    def __bool__(self) -> bool:
        raise _no_value("Python's if, and, or, not", "b.select(condition, a, b) and b.logical_and, …")

    def __float__(self) -> float:
        raise _no_value("a function of Python numbers", "the builder's: b.exp(x), b.max(x, y), …")

    __int__ = __index__ = __float__  # pyright: ignore[reportAssignmentType]  (all of them raise)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **_: Any) -> Any:
        """Arithmetic with a NumPy scalar on the left; no other ufunc."""
        if ufunc not in _SIGNED or method != "__call__":
            raise _no_value(f"np.{ufunc.__name__}", "the builder's: b.exp(x), b.max(x, y), …")
        return self.builder.step(_SIGNED[ufunc], *operands)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise _no_value(f"np.{function.__name__}", "the builder's: b.select(condition, a, b), b.max(x, y), …")


# The ufuncs of NumPy's own operators.
_SIGNED: dict[Any, str] = {
    np.power: "pow",
    **{getattr(NUMPY, s): s for s in ("add", "sub", "mul", "div", "rem", "lt", "le", "gt", "ge", "eq", "ne")},
}


def _no_value(what: str, instead: str) -> TraceError:
    return TraceError(
        f"{what} cannot be used on the values of a scalar body, which is recorded once for all elements; use {instead}"
    )


@dataclass(frozen=True, eq=False)
class Scalar(Arithmetic):
    """An SSA value of a recorded scalar body: an argument (``step is None``) or the result of a step.

    ``operands`` are values or numbers of Python, ``index`` is the number of the argument or of the step, and
    ``builder`` what recorded it.
    """

    step: str | None
    operands: tuple[Any, ...]
    index: int
    builder: Recorder = field(repr=False)

    @property
    def is_predicate(self) -> bool:
        """Whether it is a boolean."""
        return self.step in PREDICATES


_NUMBERS: Any = (int, float, np.number)


def record(op: Any, count: int) -> tuple[list[Scalar], list[Scalar], Any]:
    """The scalar body of an operator with ``count`` inputs: arguments, steps, and the result or a constant."""
    recorder = Recorder()
    arguments = recorder.arguments(count)
    try:
        result: Any = op.scalar(recorder, *arguments)
    except Exception as error:
        raise_in_context(op, "scalar", error, recorder, *arguments)
        raise
    if result.__class__ is not Scalar and not isinstance(result, _NUMBERS):
        raise CustomOpError(
            f"operator {op.NAME}: scalar returned {result!r}; it must return one value, made by its builder"
            f"{defined(op, 'scalar')}"
        )
    steps, recorder.steps = recorder.steps, []  # the steps refer to the recorder: their memory is free at once
    return arguments, steps, result


def depends_on_all(arguments: Sequence[Scalar], result: Any) -> bool:
    """Whether the result of a recorded body uses each of its arguments."""
    seen: dict[int, Scalar] = {}
    work = [result] if isinstance(result, Scalar) and result.step is not None else []
    while work:
        found = work.pop()
        if id(found) not in seen:
            seen[id(found)] = found
            work += [x for x in found.operands if isinstance(x, Scalar)]
    return all(id(a) in seen for a in arguments)


class Recorder:
    """A builder ``b`` that records a scalar body, one :class:`Scalar` a step."""

    def __init__(self) -> None:
        self.steps: list[Scalar] = []

    def arguments(self, count: int) -> list[Scalar]:
        """The arguments of a body."""
        return [Scalar(None, (), i, self) for i in range(count)]

    def step(self, step: str, *operands: Any) -> Scalar:
        """The result of a step; NumPy's numbers are operands as Python's."""
        operands = tuple([x.item() if isinstance(x, np.number) else x for x in operands])
        self.steps.append(Scalar(step, operands, len(self.steps), self))
        return self.steps[-1]

    def __getattr__(self, name: str) -> Any:
        if name not in STEPS:
            near = difflib.get_close_matches(name, sorted(STEPS), n=3, cutoff=0.5)
            meant = f"; did you mean {', '.join(near)}?" if near else "; see hybridc.dialects.scalar"
            raise AttributeError(f"scalar bodies have no step {name!r}{meant}")
        return functools.partial(self.step, name)


def replay(steps: Sequence[Scalar], result: Any, inputs: Sequence[Any], step: Callable[..., Any]) -> Any:
    """The result of a recorded body on other values: ``step(name, *operands)`` computes each of its steps."""
    results: list[Any] = []

    def value(x: Any) -> Any:
        return x if not isinstance(x, Scalar) else inputs[x.index] if x.step is None else results[x.index]

    for recorded in steps:
        results.append(step(recorded.step, *map(value, recorded.operands)))
    return value(result)


def numpy_step(step: str, *operands: Any) -> Any:
    """A step on NumPy arrays."""
    return getattr(NUMPY, step)(*operands)
