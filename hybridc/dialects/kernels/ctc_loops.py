"""Native loops of connectionist temporal classification: one iteration is one sequence.

Blanks and labels of a step are two rows, of :func:`padded` size; index j of the labels' row is the j-th label, counted
from 1, so that index 0 stands for no label. Inner loops are over a row; all but gathers, scatters and reductions are
vectorized: no two rows that a loop writes and reads are a distance apart that vectors do not divide.
"""

# The builder of loops is untyped, and so is what it is given.
# pyright: basic
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel, LoopKernel
from hybridc.ground.machine import machine

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
    each = (body.most + 1) * rounds * 2 * (costs.function + costs.indirect) + body.classes * costs.operation
    return LoopKernel(body, batch, (steps, batch), flat=True, work=batch * steps * each)


@dataclass(frozen=True)
class _CTCLoops:
    """The base of the kernels of the loss and of its gradient."""

    most: int
    classes: int
    blank: int

    @property
    def width(self) -> int:
        """The size of a row."""
        return padded(self.most)

    def sequence(self, b: Any, n: Any, label: Any, data_length: Any, label_length: Any, steps: Any) -> Any:
        """The valid steps and labels of a sequence, and whether its lengths or labels are out of range.

        No step counts where the labels do not fit.
        """
        most = self.most
        length, labels = (b.cast(b.load(x, n), INT64) for x in (data_length, label_length))
        wrong = b.logical_or(b.lt(length, 0), b.gt(length, steps))
        wrong = b.logical_or(wrong, b.logical_or(b.lt(labels, 0), b.gt(labels, most)))
        labels = b.min(b.max(labels, 0), most)
        first = b.mul(n, most)

        def count(j: Any, repeats: Any, bad: Any) -> Any:
            this = b.load(label, b.add(first, j))
            out = b.logical_or(b.logical_or(b.lt(this, 0), b.ge(this, self.classes)), b.eq(this, self.blank))
            before = b.load(label, b.add(first, b.max(b.sub(j, 1), 0)))
            again = b.logical_and(b.gt(j, 0), b.eq(this, before))
            return b.add(repeats, b.select(again, 1, 0)), b.select(out, 1, bad)

        zero = b.constant(0, INT64)
        repeats, bad = b.loop(0, labels, count, zero, zero)
        wrong = b.logical_or(wrong, b.ne(bad, 0))
        fits = b.logical_and(b.logical_not(wrong), b.le(b.add(labels, repeats), length))
        return b.select(fits, length, 0), b.select(wrong, 0, labels), wrong

    def repeated(self, b: Any, label: Any, place: Any) -> Any:
        """Whether the label at an index equals the previous one."""
        return b.eq(b.load(label, place), b.load(label, b.sub(place, 1)))


def either(b: Any, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y))"""
    larger = b.select(b.gt(x, y), x, y)
    return b.add(larger, b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))))


class PathsLoops(_CTCLoops):
    """The loss of a sequence, and of each step the logarithms of its prefixes' probabilities.

    The blanks' row lacks the blank's own probability of its step.
    """

    def __call__(
        self,
        b: Any,
        low: Any,
        high: Any,
        logs: Any,
        label: Any,
        data_length: Any,
        label_length: Any,
        loss: Any,
        blanks: Any,
        labels: Any,
        steps: Any,
        batch: Any,
    ) -> None:
        width, dtype = self.width, logs.dtype

        def sequence(n: Any) -> None:
            length, count, wrong = self.sequence(b, n, label, data_length, label_length, steps)
            first = b.mul(b.mul(n, steps), width)
            names = b.mul(n, self.most)
            end = b.add(count, 1)
            for rows in (blanks, labels):
                b.loop(0, b.mul(steps, width), lambda i, rows=rows: b.store(NONE, rows, b.add(first, i)))

            def emitted(t: Any, which: Any) -> Any:
                return b.load(logs, b.add(b.mul(b.add(b.mul(t, batch), n), self.classes), which))

            def named(j: Any) -> Any:
                return b.cast(b.load(label, b.add(names, b.sub(j, 1))), INT64)

            def begin(_: Any) -> None:
                b.store(0, blanks, first)
                b.loop(1, b.min(end, 2), lambda j: b.store(emitted(0, named(j)), labels, b.add(first, j)))

            def step(t: Any, shift: Any, offset: Any) -> Any:
                row = b.add(first, b.mul(t, width))
                before = b.sub(row, width)
                blank = b.sub(emitted(b.sub(t, 1), self.blank), shift)

                def gather(j: Any) -> None:
                    b.store(emitted(t, named(j)), labels, b.add(row, j))

                def stayed(rows: Any, j: Any, change: Any) -> Any:
                    return b.add(b.load(rows, b.add(before, j)), change)

                def between(j: Any) -> None:
                    comes = stayed(labels, j, b.neg(shift))
                    b.store(either(b, stayed(blanks, j, blank), comes), blanks, b.add(row, j))

                def state(j: Any, comes: Any) -> None:
                    place = b.add(row, j)
                    stays = stayed(labels, j, b.neg(shift))
                    b.store(b.add(either(b, stays, comes), b.load(labels, place)), labels, place)

                def later(j: Any) -> None:
                    again = self.repeated(b, label, b.add(names, b.sub(j, 1)))
                    left = b.sub(j, 1)
                    state(j, b.select(again, stayed(blanks, left, blank), b.load(blanks, b.add(row, left))))

                def largest(j: Any, x: Any, y: Any) -> Any:
                    stays, comes = (b.load(rows, b.add(row, j)) for rows in (blanks, labels))
                    return b.select(b.gt(stays, x), stays, x), b.select(b.gt(comes, y), comes, y)

                b.loop(1, end, gather)
                b.loop(0, end, between)
                b.loop(1, b.min(end, 2), lambda j: state(j, stayed(blanks, b.sub(j, 1), blank)))
                b.loop(2, end, later)
                due = b.eq(b.rem(t, RESCALED), 0)
                none = b.constant(-math.inf, dtype)
                x, y = b.loop(0, b.select(due, end, 0), largest, none, none)
                x = b.add(x, emitted(t, self.blank))
                x = b.select(b.gt(x, y), x, y)
                return b.select(due, x, 0.0), b.add(offset, b.cast(shift, FLOAT64))

            def finish(t: Any) -> None:
                last = b.add(b.add(first, b.mul(t, width)), count)
                blank = b.add(b.load(blanks, last), emitted(t, self.blank))
                either_end = either(b, blank, b.load(labels, last))
                total = b.sub(0.0, b.add(offset, b.cast(either_end, FLOAT64)))
                b.store(b.select(b.gt(total, INFINITE), math.inf, total), loss, n)

            some = b.min(length, 1)
            b.store(b.select(wrong, math.nan, b.constant(0.0, dtype)), loss, n)
            b.loop(0, some, begin)
            offset = b.loop(1, length, step, b.constant(0.0, dtype), b.constant(0.0, FLOAT64))[1]
            b.loop(b.sub(length, some), length, finish)

        b.loop(low, high, sequence)


class OccupancyLoops(_CTCLoops):
    """-scale times the probability that a step of a sequence emits a class, given its labels; scratch of four rows"""

    def __call__(
        self,
        b: Any,
        low: Any,
        high: Any,
        scale: Any,
        logs: Any,
        label: Any,
        data_length: Any,
        label_length: Any,
        blanks: Any,
        labels: Any,
        out: Any,
        scratch: Any,
        steps: Any,
        batch: Any,
    ) -> None:
        width, dtype = self.width, logs.dtype

        def sequence(n: Any) -> None:
            length, count, wrong = self.sequence(b, n, label, data_length, label_length, steps)
            names = b.mul(n, self.most)
            end = b.add(count, 1)
            work = b.mul(n, 4 * width)
            factor = b.load(scale, n)
            start = b.select(wrong, math.nan, b.constant(0.0, dtype))

            def rows(t: Any) -> Any:
                return b.mul(b.add(b.mul(t, batch), n), self.classes)

            def clear(t: Any) -> None:
                at = rows(t)
                b.loop(0, self.classes, lambda i: b.store(start, out, b.add(at, i)))

            def named(j: Any) -> Any:
                return b.cast(b.load(label, b.add(names, b.sub(j, 1))), INT64)

            def scratched(row: int, j: Any) -> Any:
                return b.add(work, b.add(j, row * width))

            def weighed(t: Any) -> None:
                """Add what a step gives to the result."""
                at = rows(t)
                row = b.mul(b.add(b.mul(n, steps), t), width)
                blank = b.load(logs, b.add(at, self.blank))

                def both(j: Any) -> None:
                    """A state's logarithm, up to a number that all states share."""
                    x = b.add(b.add(b.load(blanks, b.add(row, j)), blank), b.load(scratch, scratched(0, j)))
                    y = b.add(b.load(labels, b.add(row, j)), b.load(scratch, scratched(1, j)))
                    b.store(x, scratch, scratched(2, j))
                    b.store(y, scratch, scratched(3, j))

                def largest(j: Any, x: Any, y: Any) -> Any:
                    u, v = (b.load(scratch, scratched(k, j)) for k in (2, 3))
                    return b.select(b.gt(u, x), u, x), b.select(b.gt(v, y), v, y)

                def power(j: Any) -> None:
                    for k in (2, 3):
                        place = scratched(k, j)
                        b.store(b.exp(b.sub(b.load(scratch, place), top)), scratch, place)

                def total(j: Any, x: Any, y: Any) -> Any:
                    return b.add(x, b.load(scratch, scratched(2, j))), b.add(y, b.load(scratch, scratched(3, j)))

                def scatter(j: Any) -> None:
                    place = b.add(at, named(j))
                    share = b.mul(b.load(scratch, scratched(3, j)), each)
                    b.store(b.add(b.load(out, place), share), out, place)

                b.loop(0, end, both)
                none, zero = b.constant(-math.inf, dtype), b.constant(0.0, dtype)
                x, y = b.loop(0, end, largest, none, none)
                top = b.select(b.gt(x, y), x, y)
                b.loop(0, end, power)
                x, y = b.loop(0, end, total, zero, zero)
                each = b.div(b.neg(factor), b.add(x, y))
                b.loop(1, end, scatter)
                b.store(b.mul(x, each), out, b.add(at, self.blank))

            def back(t: Any, shift: Any) -> Any:
                """From what follows step t to what follows the one before it."""
                at = rows(t)
                blank = b.sub(b.load(logs, b.add(at, self.blank)), shift)

                def gather(j: Any) -> None:
                    place = scratched(1, j)
                    value = b.load(logs, b.add(at, named(j)))
                    b.store(b.add(b.load(scratch, place), b.sub(value, shift)), scratch, place)

                def state(j: Any, again: Any) -> None:
                    here = b.add(b.load(scratch, scratched(0, j)), blank)
                    stays = b.load(scratch, scratched(1, j))
                    follows = b.load(scratch, scratched(1, b.add(j, 1)))
                    any_next = either(b, here, follows)
                    b.store(any_next, scratch, scratched(0, j))
                    if again is not None:
                        b.store(either(b, stays, b.select(again, here, any_next)), scratch, scratched(1, j))

                def last(j: Any) -> None:
                    here = b.add(b.load(scratch, scratched(0, j)), blank)
                    b.store(here, scratch, scratched(0, j))
                    b.store(either(b, here, b.load(scratch, scratched(1, j))), scratch, scratched(1, j))

                def largest(j: Any, x: Any, y: Any) -> Any:
                    u, v = (b.load(scratch, scratched(k, j)) for k in (0, 1))
                    return b.select(b.gt(u, x), u, x), b.select(b.gt(v, y), v, y)

                b.loop(1, end, gather)
                b.loop(0, b.min(count, 1), lambda j: state(j, None))
                b.loop(1, count, lambda j: state(j, self.repeated(b, label, b.add(names, j))))
                b.loop(count, end, last)
                b.store(NONE, scratch, scratched(1, 0))
                due = b.eq(b.rem(t, RESCALED), 0)
                none = b.constant(-math.inf, dtype)
                x, y = b.loop(0, b.select(due, end, 0), largest, none, none)
                return b.select(due, b.select(b.gt(x, y), x, y), 0.0)

            def step(i: Any, shift: Any) -> Any:
                t = b.sub(b.sub(length, 1), i)
                weighed(t)
                return back(t, shift)

            b.loop(0, steps, clear)
            b.loop(0, 4 * width, lambda i: b.store(NONE, scratch, b.add(work, i)))
            b.store(0, scratch, scratched(0, count))
            b.store(b.select(b.gt(count, 0), b.constant(0.0, dtype), NONE), scratch, scratched(1, count))
            b.loop(0, length, step, b.constant(0.0, dtype))

        b.loop(low, high, sequence)
