"""Runs an optimizer's formula on weights: binds compiled updates to their arrays, and keeps both."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.ground.watches import written
from hybridc.optimizer.binding import Array, Fill, Known, Row, advance, check_row, kind_of, overlap, states_of
from hybridc.optimizer.compiled_update import CompiledUpdate, trace_update
from hybridc.optimizer.formula import Kind, Values
from hybridc.optimizer.row_updates import is_of_rows, update_rows, with_dense_gradient

if TYPE_CHECKING:
    from hybridc.optimizer.base_optimizer import Optimizer
    from hybridc.optimizer.compiled_update import CompiledUpdate

# One program updates all weights if it has up to so many operators, which take about a second to compile: 140
# weights with SGD's momentum, 66 with Adam. Beyond that, weights of one kind share a program that updates one of them.
TOGETHER = 1000
# Compiled updates, and sets of weights bound to them, that are kept; the least recently used go first.
_KEPT = 1024


class Runner:
    """The compiled updates of one optimizer, and the arrays to which they are bound."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[tuple[Kind, ...], CompiledUpdate] = OrderedDict()
        self._bound: OrderedDict[tuple[Any, ...], _Bound] = OrderedDict()

    def run(self, optimizer: Optimizer, rows: Sequence[Row]) -> None:
        """One update of each weight, in place."""
        if not rows:
            return
        if any(row[2].stype != "default" for row in rows):
            self._run_sparse(optimizer, rows)
            return
        key = tuple([row[0] for row in rows])
        bound = self._bound.get(key)
        if bound is not None and not bound.holds(rows):
            bound = None
        if bound is None:
            for row in rows:
                check_row(type(optimizer).__name__, row)
        numbers = advance(optimizer, key)
        if bound is not None and bound.accepts(numbers):
            self._bound.move_to_end(key)
            bound.run(numbers)
        else:
            self._run(optimizer, rows, numbers)

    def _run_sparse(self, optimizer: Optimizer, rows: Sequence[Row]) -> None:
        """As :meth:`run`, where gradients are sparse: by rows if the optimizer has such updates, else made dense."""
        of_rows = [row for row in rows if is_of_rows(optimizer, row)]
        self.run(optimizer, [with_dense_gradient(row) for row in rows if row not in of_rows])
        for row in of_rows:
            check_row(type(optimizer).__name__, row)
            (values,) = advance(optimizer, row[:1])
            update_rows(optimizer.formula, row, values)

    def explain(self) -> list[str]:
        """The kernels and the memory of every compiled update."""
        lines: list[str] = []
        for kinds, compiled in self._compiled.items():
            lines.append(f"update of {len(kinds)} weight{'s' * (len(kinds) != 1)}")
            lines += ["  " + line for line in compiled.graph.summary()]
        return lines

    def _run(self, optimizer: Optimizer, rows: Sequence[Row], numbers: Sequence[Values]) -> None:
        """As :meth:`run`, for arrays or numbers that are new."""
        if len(rows) > 1 and overlap([a for row in rows for a in _donated(row)], [row[2]._data for row in rows]):
            for row, values in zip(rows, numbers, strict=True):  # one weight twice: one update after the other
                self._run(optimizer, [row], [values])
            return
        bound = self._bind(optimizer, rows, numbers)
        bound.run(numbers)
        for original, copy in bound.copies:
            np.copyto(original, copy)
            written(original)
        if bound.copies:  # which do not follow what happens to the originals
            return
        self._bound[tuple([row[0] for row in rows])] = bound
        if len(self._bound) > _KEPT:
            self._bound.popitem(last=False)

    def _bind(self, optimizer: Optimizer, rows: Sequence[Row], numbers: Sequence[Values]) -> _Bound:
        kinds = [kind_of(row, values) for row, values in zip(rows, numbers, strict=True)]
        groups = [range(len(rows))]
        if len(kinds) > 1 and tuple(kinds) not in self._compiled:
            traced, _ = trace_update(optimizer.formula, kinds[:1], type(optimizer).__name__)
            if len(traced.trace.nodes) * len(kinds) > TOGETHER:
                groups = [range(i, i + 1) for i in range(len(rows))]
        bound = _Bound(rows, kinds)
        for group in groups:
            compiled = self._compile(optimizer, tuple([kinds[i] for i in group]))
            bound.add(compiled, group, [rows[i] for i in group])
        return bound

    def _compile(self, optimizer: Optimizer, kinds: tuple[Kind, ...]) -> CompiledUpdate:
        if kinds not in self._compiled:
            self._compiled[kinds] = CompiledUpdate(optimizer.formula, kinds, type(optimizer).__name__)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(kinds)
        return self._compiled[kinds]


class _Bound:
    """Compiled updates with their arguments, made once for many steps."""

    def __init__(self, rows: Sequence[Row], kinds: Sequence[Kind]) -> None:
        self.copies: list[tuple[Array, Array]] = []  # of arrays that a program cannot write to
        self._rows = [(w._data, g, s, None if h is None else h._data) for _, w, g, s, h in rows]
        self._known = Known(kinds)
        # Each with its arguments, but for the gradients: backward may give them other memory at each step.
        self._programs: list[tuple[CompiledUpdate, list[Any], list[tuple[int, Any]]]] = []
        self._fills: list[Fill] = []

    def add(self, compiled: CompiledUpdate, places: Sequence[int], rows: Sequence[Row]) -> None:
        """Bind one compiled update to the rows at these places."""
        arguments: list[Any] = [None] * compiled.size
        arrays = list(zip(compiled.arrays, [each for row in rows for each in _arrays(row)], strict=True))
        for number, (array, _) in arrays:
            arguments[number] = array._data
        for number in self._unfit(compiled, arguments):
            original, copy = arguments[number], arguments[number].copy(order="C")
            arguments[number] = copy
            self.copies.append((original, copy))
        used = [i for i, argument in enumerate(arguments) if argument is None]
        for dtype in dict.fromkeys(d for d, _, _ in compiled.numbers):
            fill = Fill(dtype)
            for number, (d, place, compute) in zip(used, compiled.numbers, strict=True):
                if d == dtype:
                    fill.add(number, places[place], compute)
            fill.give(arguments)
            self._fills.append(fill)
        grads = [(number, array) for number, (array, is_gradient) in arrays if is_gradient]
        for number, _ in grads:
            arguments[number] = None
        self._programs.append((compiled, arguments, grads))

    def holds(self, rows: Sequence[Row]) -> bool:
        """Whether these are the same arrays still."""
        for (_, weight, grad, state, half), (w, g, s, h) in zip(rows, self._rows, strict=True):
            if weight._data is not w or grad is not g or state is not s:
                return False
            if (None if half is None else half._data) is not h:
                return False
        return True

    def accepts(self, numbers: Sequence[Values]) -> bool:
        """Whether the numbers that the programs know, and those that are absent, are as before."""
        return self._known.accepts(numbers)

    def run(self, numbers: Sequence[Values]) -> None:
        """Do one update of all weights."""
        for fill in self._fills:
            fill.run(numbers)
        # Infinities and NaN are the user's: they go into the weights without a warning, as in MXNet.
        with np.errstate(all="ignore"):
            for compiled, arguments, grads in self._programs:
                given = arguments.copy()
                for number, grad in grads:
                    given[number] = grad._data
                compiled.run(given)

    def _unfit(self, compiled: CompiledUpdate, arguments: Sequence[Any]) -> list[int]:
        """The arguments that cannot be written to: strided views, and memory that another argument has, too."""
        written = [i for i in compiled.donated if arguments[i] is not None]
        others = [i for i in compiled.arrays if i not in written]
        if overlap([arguments[i] for i in written], [arguments[i] for i in others]):
            return written
        return [i for i in written if not arguments[i].flags.c_contiguous]


def _donated(row: Row) -> list[Array]:
    """The arrays that an update writes."""
    _, weight, _, state, half = row
    return [x._data for x in (half, weight, *states_of(state)) if x is not None]


def _arrays(row: Row) -> list[tuple[Any, bool]]:
    """The arrays of a row in the order of a program's arguments, each with whether it is the gradient."""
    _, weight, grad, state, half = row
    before, after = (half, weight), states_of(state)
    return [(x, i == len(before)) for i, x in enumerate((*before, grad, *after)) if x is not None]
