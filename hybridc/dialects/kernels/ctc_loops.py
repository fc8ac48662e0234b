"""Native loops of connectionist temporal classification: one iteration is one sequence.

Blanks and labels of a step are two rows, of :func:`padded` size; index j of the labels' row is the j-th label, counted
from 1, so that index 0 stands for no label. Inner loops are over a row; all but gathers, scatters and reductions are
vectorized: no two rows that a loop writes and reads are a distance apart that vectors do not divide.
"""

# The builder of loops is untyped, and so is what it is given.
# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel, LoopKernel
from hybridc.ground.machine import machine
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import value_of

# The logarithm of probabilities that are 0; finite, so that differences of two are defined.
NONE = -1e30
# Losses above it stand for infinite ones.
INFINITE = 1e29
# Time steps after which rows are brought back to a largest element of 0.
RESCALED = 8

# Rows are of multiples of that many elements.
GRANULE = 16

INT64, FLOAT64 = np.dtype("int64"), np.dtype("float64")


def padded(most: int) -> int:
    """The size of a row, for sequences of at most so many labels."""
    return -(-(most + 1) // GRANULE) * GRANULE


def paths(target: str, logs: ArraySpec, label: ArraySpec, blank: int) -> Kernel | None:
    """The kernel of losses and forward variables."""
    classes = logs.shape[2]
    return _kernel(target, PathsLoops(label.shape[1], classes, blank), logs, 2)


def occupancy(target: str, logs: ArraySpec, label: ArraySpec, blank: int) -> Kernel | None:
    """The kernel of the losses' gradient, given the forward variables."""
    classes = logs.shape[2]
    return _kernel(target, OccupancyLoops(label.shape[1], classes, blank), logs, 3)


def _kernel(target: str, body: PathsLoops | OccupancyLoops, logs: ArraySpec, rounds: int) -> Kernel | None:
    if target != "llvm":
        return None
    costs = machine().costs
    steps, batch, _ = logs.shape
    most, classes = value_of(body.most), value_of(body.classes)
    step = (most + 1) * rounds * 2 * (costs.function + costs.indirect) + classes * costs.operation
    return LoopKernel(body, batch, (steps, batch), flat=True, work=value_of(batch * steps) * step)


@dataclass(frozen=True)
class _CTCLoops:
    """The sizes that the kernels of the loss and of its gradient are written for."""

    most: int
    classes: int
    blank: int

    @property
    def width(self) -> int:
        """The size of a row."""
        return padded(self.most)


class PathsLoops(_CTCLoops):
    """The loss of a sequence, and of each step the logarithms of its prefixes' probabilities.

    The blanks' row lacks the blank's own probability of its step.
    """

    def __call__(self, b: Any, low: Any, high: Any, *arrays: Any) -> None:
        logs, label, data_length, label_length, loss, blanks, labels, steps, batch = arrays

        def sequence(n: Any) -> None:
            inputs = _Inputs(self, b, n, logs, label, data_length, label_length, steps, batch)
            _Paths(inputs, loss, blanks, labels).write()

        b.loop(low, high, sequence)


class OccupancyLoops(_CTCLoops):
    """-scale times the probability that a step of a sequence emits a class, given its labels; scratch of four rows"""

    def __call__(self, b: Any, low: Any, high: Any, *arrays: Any) -> None:
        scale, logs, label, data_length, label_length, blanks, labels, out, scratch, steps, batch = arrays

        def sequence(n: Any) -> None:
            inputs = _Inputs(self, b, n, logs, label, data_length, label_length, steps, batch)
            _Occupancy(inputs, scale, blanks, labels, out, scratch).write()

        b.loop(low, high, sequence)


@dataclass(frozen=True)
class _StateRow:
    """A row of an array; ``place(j)`` is the index of its element j."""

    array: Any
    place: Callable[[Any], Any]

    def __getitem__(self, j: Any) -> Any:
        return self.array[self.place(j)]

    def __setitem__(self, j: Any, value: Any) -> None:
        self.array[self.place(j)] = value


@dataclass
class _Inputs:
    """The inputs of one sequence ``n``: its valid steps ``length`` and labels ``count``, and what steps emit.

    They are 0 where lengths or labels are out of range, which ``wrong`` says; no step counts where the labels do not
    fit.
    """

    sizes: _CTCLoops
    b: Any
    n: Any
    logs: Any
    label: Any
    data_length: Any
    label_length: Any
    steps: Any
    batch: Any

    def __post_init__(self) -> None:
        b, most = self.b, self.sizes.most
        length, labels = (b.cast(x[self.n], INT64) for x in (self.data_length, self.label_length))
        wrong = (length < 0) | (length > self.steps)
        wrong = wrong | ((labels < 0) | (labels > most))
        labels = b.min(b.max(labels, 0), most)
        first = self.n * most

        def count(j: Any, repeats: Any, bad: Any) -> Any:
            name = self.label[first + j]
            out = (name < 0) | (name >= self.sizes.classes) | (name == self.sizes.blank)
            before = self.label[first + b.max(j - 1, 0)]
            repeated = (j > 0) & (name == before)
            return repeats + b.select(repeated, 1, 0), b.select(out, 1, bad)

        zero = b.constant(0, INT64)
        repeats, bad = b.loop(0, labels, count, zero, zero)
        self.wrong = wrong | (bad != 0)
        fits = ~self.wrong & (labels + repeats <= length)
        self.length, self.count = b.select(fits, length, 0), b.select(self.wrong, 0, labels)

    @property
    def names(self) -> Any:
        """The index of its first label."""
        return self.n * self.sizes.most

    def emitted(self, t: Any) -> Any:
        """The index of the logarithm of a step's first class."""
        return (t * self.batch + self.n) * self.sizes.classes

    def largest(self, end: Any, *rows: _StateRow) -> Any:
        """The largest elements of two rows up to an index."""
        b = self.b

        def larger(j: Any, x: Any, y: Any) -> Any:
            u, v = (row[j] for row in rows)
            return b.select(u > x, u, x), b.select(v > y, v, y)

        none = b.constant(-math.inf, self.logs.dtype)
        return b.loop(0, end, larger, none, none)


class _StateLoops:
    """The states of a sequence, a row of blanks and one of labels, in the loops that write them."""

    names: Any  # the index of the first label

    def __init__(self, inputs: _Inputs) -> None:
        self.inputs, self.b, self.n, self.sizes = inputs, inputs.b, inputs.n, inputs.sizes
        self.logs, self.steps, self.width = inputs.logs, inputs.steps, inputs.sizes.width
        self.length, self.count, self.wrong = inputs.length, inputs.count, inputs.wrong

    @property
    def zero(self) -> Any:
        """0 in the dtype of logarithms."""
        return self.b.constant(0.0, self.logs.dtype)

    def named(self, j: Any) -> Any:
        """The class of a label."""
        return self.b.cast(self.inputs.label[self.names + (j - 1)], INT64)

    def repeated(self, place: Any) -> Any:
        """Whether the label at an index equals the previous one."""
        return self.inputs.label[place] == self.inputs.label[place - 1]

    def either(self, x: Any, y: Any) -> Any:
        """log(exp(x) + exp(y))"""
        b = self.b
        larger = b.select(x > y, x, y)
        return larger + b.log1p(b.exp(-b.abs(x - y)))


class _Paths(_StateLoops):
    """The loss and the forward variables of a sequence."""

    def __init__(self, inputs: _Inputs, loss: Any, blanks: Any, labels: Any) -> None:
        super().__init__(inputs)
        self.loss, self.blanks, self.labels = loss, blanks, labels
        self.first = self.n * self.steps * self.width
        self.names = inputs.names
        self.end = self.count + 1

    def write(self) -> None:
        """Write the results."""
        b, length, first = self.b, self.length, self.first
        for rows in (self.blanks, self.labels):
            b.loop(0, self.steps * self.width, lambda i, rows=rows: b.store(NONE, rows, first + i))
        some = b.min(length, 1)
        self.loss[self.n] = b.select(self.wrong, math.nan, self.zero)
        b.loop(0, some, self.begin)
        offset = b.loop(1, length, self.step, self.zero, b.constant(0.0, FLOAT64))[1]
        b.loop(length - some, length, lambda t: self.finish(t, offset))

    def emitted(self, t: Any, which: Any) -> Any:
        """The logarithm of the probability that a step emits a class."""
        return self.logs[self.inputs.emitted(t) + which]

    def begin(self, _: Any) -> None:
        """The first step."""
        b = self.b

        def name(j: Any) -> None:
            self.labels[self.first + j] = self.emitted(0, self.named(j))

        self.blanks[self.first] = 0
        b.loop(1, b.min(self.end, 2), name)

    def step(self, t: Any, shift: Any, offset: Any) -> Any:
        """A later step: by what its row is to be shifted, and by what all before are."""
        b, end = self.b, self.end
        row = self.first + t * self.width
        before = row - self.width
        blank = self.emitted(t - 1, self.sizes.blank) - shift
        blanks, labels = (_StateRow(array, lambda j: row + j) for array in (self.blanks, self.labels))

        def gather(j: Any) -> None:
            labels[j] = self.emitted(t, self.named(j))

        def stayed(array: Any, j: Any, change: Any) -> Any:
            return array[before + j] + change

        def between(j: Any) -> None:
            comes = stayed(self.labels, j, -shift)
            blanks[j] = self.either(stayed(self.blanks, j, blank), comes)

        def state(j: Any, comes: Any) -> None:
            place = labels.place(j)
            stays = stayed(self.labels, j, -shift)
            self.labels[place] = self.either(stays, comes) + self.labels[place]

        def later(j: Any) -> None:
            repeated = self.repeated(self.names + (j - 1))
            left = j - 1
            state(j, b.select(repeated, stayed(self.blanks, left, blank), blanks[left]))

        b.loop(1, end, gather)
        b.loop(0, end, between)
        b.loop(1, b.min(end, 2), lambda j: state(j, stayed(self.blanks, j - 1, blank)))
        b.loop(2, end, later)
        due = t % RESCALED == 0
        x, y = self.inputs.largest(b.select(due, end, 0), blanks, labels)
        x = x + self.emitted(t, self.sizes.blank)
        x = b.select(x > y, x, y)
        return b.select(due, x, 0.0), offset + b.cast(shift, FLOAT64)

    def finish(self, t: Any, offset: Any) -> None:
        """The loss, after the last step."""
        b = self.b
        last = self.first + t * self.width + self.count
        blank = self.blanks[last] + self.emitted(t, self.sizes.blank)
        end = self.either(blank, self.labels[last])
        total = 0.0 - (offset + b.cast(end, FLOAT64))
        self.loss[self.n] = b.select(total > INFINITE, math.inf, total)


class _Occupancy(_StateLoops):
    """The gradient of a sequence's loss, from its last step back to the first."""

    def __init__(self, inputs: _Inputs, scale: Any, blanks: Any, labels: Any, out: Any, scratch: Any) -> None:
        super().__init__(inputs)
        self.blanks, self.labels, self.out, self.scratch = blanks, labels, out, scratch
        self.names = inputs.names
        self.end = self.count + 1
        self.work = self.n * (4 * self.width)
        self.factor = scale[self.n]
        self.rows = [
            _StateRow(scratch, lambda j, row=row: self.work + self.b.add(j, row * self.width)) for row in range(4)
        ]

    def write(self) -> None:
        """Write the results."""
        b, sizes = self.b, self.sizes
        start = b.select(self.wrong, math.nan, self.zero)

        def clear(t: Any) -> None:
            first = self.inputs.emitted(t)
            b.loop(0, sizes.classes, lambda i: b.store(start, self.out, first + i))

        def step(i: Any, shift: Any) -> Any:
            t = self.length - 1 - i
            self.weigh(t)
            return self.back(t, shift)

        blanks, labels, *_ = self.rows
        b.loop(0, self.steps, clear)
        b.loop(0, 4 * self.width, lambda i: b.store(NONE, self.scratch, self.work + i))
        blanks[self.count] = 0
        labels[self.count] = b.select(self.count > 0, self.zero, NONE)
        b.loop(0, self.length, step, self.zero)

    def weigh(self, t: Any) -> None:
        """Add what a step gives to the result."""
        b, end, zero = self.b, self.end, self.zero
        first = self.inputs.emitted(t)
        row = (self.n * self.steps + t) * self.width
        blank = self.logs[first + self.sizes.blank]
        blanks, labels, *sums = self.rows

        def both(j: Any) -> None:
            """A state's logarithm, up to a number that all states share."""
            x = self.blanks[row + j] + blank + blanks[j]
            y = self.labels[row + j] + labels[j]
            sums[0][j], sums[1][j] = x, y

        def power(j: Any) -> None:
            for place in (sum.place(j) for sum in sums):
                self.scratch[place] = b.exp(self.scratch[place] - top)

        def scatter(j: Any) -> None:
            place = first + self.named(j)
            share = sums[1][j] * factor
            self.out[place] = self.out[place] + share

        b.loop(0, end, both)
        x, y = self.inputs.largest(end, *sums)
        top = b.select(x > y, x, y)
        b.loop(0, end, power)
        x, y = b.loop(0, end, lambda j, x, y: (x + sums[0][j], y + sums[1][j]), zero, zero)
        factor = -self.factor / (x + y)
        b.loop(1, end, scatter)
        self.out[first + self.sizes.blank] = x * factor

    def back(self, t: Any, shift: Any) -> Any:
        """From what follows step t to what follows the one before it; by what that is to be shifted."""
        b, count, end = self.b, self.count, self.end
        first = self.inputs.emitted(t)
        blank = self.logs[first + self.sizes.blank] - shift
        blanks, labels, *_ = self.rows

        def gather(j: Any) -> None:
            place = labels.place(j)
            value = self.logs[first + self.named(j)]
            self.scratch[place] = self.scratch[place] + (value - shift)

        def state(j: Any, repeated: Any) -> None:
            own = blanks[j] + blank
            stays = labels[j]
            any_next = self.either(own, labels[j + 1])
            blanks[j] = any_next
            if repeated is not None:
                labels[j] = self.either(stays, b.select(repeated, own, any_next))

        def last(j: Any) -> None:
            own = blanks[j] + blank
            blanks[j] = own
            labels[j] = self.either(own, labels[j])

        b.loop(1, end, gather)
        b.loop(0, b.min(count, 1), lambda j: state(j, None))
        b.loop(1, count, lambda j: state(j, self.repeated(self.names + j)))
        b.loop(count, end, last)
        labels[0] = NONE
        due = t % RESCALED == 0
        x, y = self.inputs.largest(b.select(due, end, 0), blanks, labels)
        return b.select(due, b.select(x > y, x, y), 0.0)
