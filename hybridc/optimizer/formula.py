"""Optimizer formulas, run in place: recorded once, they become a list of NumPy calls with ``out=``.

An optimizer states its mathematics once, in plain Python with ``+ - * /`` and :class:`Functions`::

    def formula(self, F, w, g, state, h):
        (mom,) = state
        g = F.clip(h.rescale * g, h.clip) + h.wd * w
        mom = h.momentum * mom - h.lr * g
        return w + mom, mom

Here it is recorded on symbols. What depends on numbers only is computed once per step in Python; the rest
becomes generated source, one ufunc call a line, run over tiles that fit the cache, without allocating.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.errors import MXNetError
from hybridc.options import OPTIONS
from hybridc.runtime.threads import parallel

Array = npt.NDArray[Any]
Number = float | int | None
# (F, weight, gradient, states, numbers) -> (new weight, new states …)
Formula = Callable[[Any, Any, Any, tuple[Any, ...], Any], tuple[Any, ...]]

# Elements of one tile: a handful of float32 buffers of this length stay in the caches, and the calls are few.
TILE = 32768
# From this many tiles on, several threads share them.
PARALLEL_TILES = 4


class Term:
    """A value inside a formula: a number known at each step (``scalar``) or an array."""

    __slots__ = ("args", "name", "op", "recorder", "scalar")

    def __init__(self, recorder: Recorder, op: str, args: tuple[Any, ...], scalar: bool) -> None:
        self.recorder = recorder
        self.op = op
        self.args = args
        self.scalar = scalar
        self.name = ""

    def __add__(self, other: Any) -> Any:
        return self.recorder.binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.recorder.binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.recorder.binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.recorder.binary("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.recorder.binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.recorder.binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.recorder.binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.recorder.binary("divide", other, self)

    def __neg__(self) -> Any:
        return self.recorder.unary("negative", self)


# How a function of numbers only is written in Python.
_SCALAR_TEXT = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "divide": "{} / {}",
    "negative": "-{}",
    "sqrt": "sqrt({})",
    "absolute": "abs({})",
    "square": "{0} * {0}",
    "maximum": "max({}, {})",
    "minimum": "min({}, {})",
    "sign": "float({0} > 0) - float({0} < 0)",
    "greater": "float({} > {})",
}


class Functions:
    """The ``F`` of a formula while it is recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def sqrt(self, x: Any) -> Any:
        """The square root."""
        return self._recorder.unary("sqrt", x)

    def square(self, x: Any) -> Any:
        """``x * x``"""
        return self._recorder.unary("square", x)

    def abs(self, x: Any) -> Any:
        """The absolute value."""
        return self._recorder.unary("absolute", x)

    def sign(self, x: Any) -> Any:
        """-1, 0 or 1."""
        return self._recorder.unary("sign", x)

    def maximum(self, x: Any, y: Any) -> Any:
        """The larger one; NaN if one is NaN."""
        return self._recorder.binary("maximum", x, y)

    def greater(self, x: Any, y: Any) -> Any:
        """1 where ``x > y``, else 0."""
        return self._recorder.binary("greater", x, y)

    def clip(self, x: Any, bound: Any) -> Any:
        """``x`` limited to ``[-bound, bound]``; all of ``x`` if the bound is None."""
        if bound is None:
            return x
        upper = self._recorder.binary("minimum", x, bound)
        return self._recorder.binary("maximum", upper, self._recorder.unary("negative", bound))


class Recorder:
    """Builds terms; equal ones are shared, and those that 0, 1 or None make trivial are simplified away."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Term] = {}

    def input(self, name: str, scalar: bool) -> Term:
        """An argument of the formula."""
        term = Term(self, "input", (), scalar)
        term.name = name
        return term

    def unary(self, op: str, x: Any) -> Any:
        """``op(x)``"""
        if not isinstance(x, Term):
            return float(getattr(np, op)(x))
        return self._make(op, (x,))

    def binary(self, op: str, x: Any, y: Any) -> Any:
        """``op(x, y)``, without what a 0 or a 1 makes superfluous."""
        if not isinstance(x, Term) and not isinstance(y, Term):
            return float(getattr(np, op)(x, y))
        if op == "multiply" and (_is(x, 0) or _is(y, 0)):
            return 0
        if op in ("add", "subtract") and _is(y, 0):
            return x
        if op == "add" and _is(x, 0):
            return y
        if op in ("multiply", "divide") and _is(y, 1):
            return x
        if op == "multiply" and _is(x, 1):
            return y
        if op == "multiply":
            return self._multiply(x, y)
        return self._make(op, (x, y))

    def result(self, x: Any, own: Term) -> Term:
        """What a formula returns for the array ``own``, as something computed, not just another input."""
        if x is own or (_is_array(x) and x.op != "input"):
            return x
        return Term(self, "positive", (x,), False)

    def _multiply(self, x: Any, y: Any) -> Any:
        # Numbers first, so that a * (b * array) becomes (a * b) * array: one pass over the array less.
        if _is_array(x) and not _is_array(y):
            x, y = y, x
        if not _is_array(x) and _is_array(y) and y.op == "multiply" and not _is_array(y.args[0]):
            return self._make("multiply", (self.binary("multiply", x, y.args[0]), y.args[1]))
        return self._make("multiply", (x, y))

    def _make(self, op: str, args: tuple[Any, ...]) -> Term:
        key = (op, *(id(a) if isinstance(a, Term) else a for a in args))
        if key not in self._known:
            self._known[key] = Term(self, op, args, not any(_is_array(a) for a in args))
        return self._known[key]


def _is(x: Any, number: int) -> bool:
    return not isinstance(x, Term) and x == number


def _is_array(x: Any) -> bool:
    return isinstance(x, Term) and not x.scalar


class Program:
    """A formula for one set of trivial numbers (0, 1, None): source for its numbers and for one tile."""

    def __init__(self, formula: Formula, numbers: dict[str, Number], states: int, title: str) -> None:
        recorder = Recorder()
        given = {n: v if is_trivial(v) else recorder.input(n, True) for n, v in numbers.items()}
        self._targets = ["w", *(f"s{i}" for i in range(states))]
        arrays = [recorder.input(name, False) for name in self._targets]
        gradient = recorder.input("g", False)
        results = formula(Functions(recorder), arrays[0], gradient, tuple(arrays[1:]), SimpleNamespace(**given))
        if len(results) != len(arrays):
            raise MXNetError(
                f"{title}.formula returned {len(results)} values; expected the new weight and {states} new states"
            )
        self._scalars: list[str] = []  # numbers that ``tile`` takes, in this order
        self._prelude: list[str] = []  # lines that compute them
        self._lines: list[str] = []  # the body of ``tile``
        self._free: list[str] = []
        self.scratch: list[str] = []
        self._emit(arrays, [recorder.result(r, own) for r, own in zip(results, arrays)])
        self.source = "\n".join(
            [
                f"# generated from {title}.formula",
                f"def numbers({', '.join(numbers)}):",
                *(f"    {line}" for line in self._prelude),
                f"    return ({''.join(f'{name}, ' for name in self._scalars)})",
                f"def tile({', '.join([*self._scalars, *self._targets, 'g', *self.scratch])}):",
                *(f"    {line}" for line in self._lines or ["pass"]),
                "",
            ]
        )
        space: dict[str, Any] = {"sqrt": math.sqrt}
        exec(compile(self.source, f"<{title}.formula>", "exec"), space)
        self.numbers: Callable[..., tuple[float, ...]] = space["numbers"]
        # ``numbers`` has Python's sqrt, ``tile`` NumPy's.
        ufuncs: dict[str, Any] = {op: getattr(np, op) for op in _UFUNCS}
        self.tile: Callable[..., None] = FunctionType(space["tile"].__code__, ufuncs)

    @property
    def scalar_count(self) -> int:
        """How many numbers ``tile`` takes, as arrays of no dimension."""
        return len(self._scalars)

    def _emit(self, arrays: list[Term], results: Sequence[Term]) -> None:
        """Order the terms, choose where each result goes, and write the lines."""
        order: list[Term] = []
        for result in results:
            _collect(result, order)
        for term in order:
            if term.scalar and term.op != "input":
                self._define(f"n{len(self._prelude)}", term)
        steps = [t for t in order if not t.scalar and t.op != "input"]
        last_use = {id(a): i for i, t in enumerate(steps) for a in t.args if isinstance(a, Term)}
        finals = {id(r): k for k, r in enumerate(results)}
        for i, term in enumerate(steps):
            operands = [self._operand(a) for a in term.args]
            # Operands whose last use this is may be overwritten: ufuncs work element by element.
            self._release(term, i, last_use, finals)
            k = finals.get(id(term))
            in_place = k is not None and last_use.get(id(arrays[k]), -1) <= i
            term.name = self._targets[k] if k is not None and in_place else self._take()
            self._lines.append(f"{term.op}({', '.join(operands)}, out={term.name})")
        for result, target in zip(results, self._targets):
            if result.name != target:
                self._lines.append(f"copyto({target}, {result.name})")

    def _define(self, name: str, term: Term) -> None:
        term.name = name
        self._prelude.append(f"{name} = {_SCALAR_TEXT[term.op].format(*map(_text, term.args))}")

    def _operand(self, x: Any) -> str:
        """The name of an operand of a ufunc.

        Numbers become arrays without dimensions: converting a float at each call costs half a microsecond.
        """
        if _is_array(x):
            return x.name
        name = x.name if isinstance(x, Term) else "c" + re.sub(r"\W", "_", _text(x))
        if name not in self._scalars:
            self._scalars.append(name)
            if not isinstance(x, Term):
                self._prelude.append(f"{name} = {_text(x)}")
        return name

    def _release(self, term: Term, i: int, last_use: dict[int, int], finals: dict[int, int]) -> None:
        for arg in {id(a): a for a in term.args if isinstance(a, Term)}.values():
            if last_use[id(arg)] == i and id(arg) not in finals and arg.name in self.scratch:
                self._free.append(arg.name)

    def _take(self) -> str:
        if not self._free:
            self.scratch.append(f"t{len(self.scratch)}")
            return self.scratch[-1]
        return self._free.pop()


_UFUNCS = (
    "absolute", "add", "copyto", "divide", "greater", "maximum", "minimum", "multiply", "negative",
    "positive", "sign", "sqrt", "square", "subtract",
)  # fmt: skip


def is_trivial(value: Number) -> bool:
    """Whether a number simplifies the formula, and so belongs to its text rather than to its arguments."""
    return value is None or value == 0 or value == 1


def _text(x: Any) -> str:
    return x.name if isinstance(x, Term) else repr(float(x))


def _collect(x: Any, order: list[Term]) -> None:
    """Arguments before what uses them."""
    if not isinstance(x, Term) or x in order:
        return
    for arg in x.args:
        _collect(arg, order)
    order.append(x)


class Scratch:
    """Buffers of one tile for each thread, shared by all weights of one dtype."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._threads: list[list[Array]] = [[] for _ in range(OPTIONS.num_threads)]

    def take(self, count: int) -> list[list[Array]]:
        """For each thread, ``count`` buffers."""
        for buffers in self._threads:
            buffers += [np.empty(TILE, self._dtype) for _ in range(count - len(buffers))]
        return [buffers[:count] for buffers in self._threads]


class Step:
    """A program bound to the arrays of one parameter: the weight, its states, and last its gradient."""

    def __init__(self, program: Program, arrays: Sequence[Array], scratch: Scratch) -> None:
        self._program = program
        weight, gradient = arrays[0], arrays[-1]
        # A gradient of another dtype (float16 beside a float32 master weight) is converted tile by tile.
        self._convert = gradient.dtype != weight.dtype
        self._scratch = scratch.take(len(program.scratch) + self._convert)
        self._scalars = [np.zeros((), weight.dtype) for _ in range(program.scalar_count)]
        self._last: tuple[float, ...] = ()
        self._tiles = [[a[i : i + TILE] for a in arrays] for i in range(0, weight.size, TILE)]
        # Small weights have their arguments ready: slicing buffers costs more than a ufunc on few numbers.
        self._ready = len(self._tiles) == 1 and not self._convert
        if self._ready:
            (views,) = self._tiles
            buffers = [t[: weight.size] for t in self._scratch[0]]
            self._arguments = [*self._scalars, *views, *buffers]

    def run(self, numbers: dict[str, Number]) -> None:
        """Do one update in place."""
        values = self._program.numbers(**numbers)
        if values != self._last:
            for array, value in zip(self._scalars, values):
                array[()] = value
            self._last = values
        # Infinities and NaN are the user's: they go into the weights without a warning, as in MXNet.
        with np.errstate(all="ignore"):
            if self._ready:
                self._program.tile(*self._arguments)
            elif len(self._tiles) < PARALLEL_TILES or len(self._scratch) == 1:
                self._run(0, len(self._tiles), self._scratch[0])
            else:
                parallel(self._run, len(self._tiles), 1, self._scratch)

    def _run(self, start: int, stop: int, scratch: list[Array]) -> None:
        tile, scalars = self._program.tile, self._scalars
        for views in self._tiles[start:stop]:
            size = views[0].size
            buffers = scratch if size == TILE else [t[:size] for t in scratch]
            if self._convert:
                *buffers, converted = buffers
                np.copyto(converted, views[-1])
                views = [*views[:-1], converted]
            tile(*scalars, *views, *buffers)
