"""Native loops of Hawkes processes: one iteration is one sequence of points; all is computed in double precision."""

# The builder of loops is untyped, and so is what it is given.
# pyright: basic
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel, LoopKernel
from hybridc.ground.machine import machine
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import value_of

INT64, FLOAT64 = np.dtype("int64"), np.dtype("float64")


def likelihood(target: str, lda: ArraySpec, lags: ArraySpec) -> Kernel | None:
    """The kernel of log likelihoods and new states."""
    return _kernel(target, LikelihoodLoops(lda.shape[1]), lda, lags)


def slopes(target: str, lda: ArraySpec, lags: ArraySpec) -> Kernel | None:
    """The kernel of their derivatives by the parameters and the old states."""
    return _kernel(target, SlopesLoops(lda.shape[1]), lda, lags)


def _kernel(target: str, body: LikelihoodLoops | SlopesLoops, lda: ArraySpec, lags: ArraySpec) -> Kernel | None:
    if target != "llvm":
        return None
    batch, points = lags.shape
    costs = machine().costs
    point = 8 * (costs.function + costs.indirect)
    work = value_of(batch * (points + lda.shape[1])) * point
    return LoopKernel(body, batch, (points,), flat=True, work=work)


@dataclass(frozen=True)
class LikelihoodLoops:
    """The log likelihood of a sequence, and the states at its end; when each mark had a point is scratch."""

    marks: int

    def __call__(self, b: Any, low: Any, high: Any, *arrays: Any) -> None:
        *inputs, out, out_state, last, most = arrays
        zero = b.constant(0.0, FLOAT64)
        b.loop(low, high, lambda n: _Likelihood(b, n, zero, self.marks, inputs, most, last).write(out, out_state))


@dataclass(frozen=True)
class SlopesLoops:
    """Derivatives of the log likelihood by lda, alpha, beta and the state, and of the new state by beta and the state.

    Two arrays are scratch: the states, and the times of the last points.
    """

    marks: int

    def __call__(self, b: Any, low: Any, high: Any, *arrays: Any) -> None:
        inputs, (*slopes, now, last, most) = arrays[:8], arrays[8:]
        zero = b.constant(0.0, FLOAT64)
        b.loop(low, high, lambda n: _Slopes(b, n, zero, self.marks, inputs, most, last).write(slopes, now))


class _ProcessLoops:
    """One sequence ``n``: the number of its valid points, which is 0 where that or a mark is out of range."""

    def __init__(self, b: Any, n: Any, zero: Any, marks: int, inputs: Sequence[Any], most: Any, last: Any) -> None:
        self.b, self.n, self.zero, self.count, self.last = b, n, zero, marks, last
        self.lda, self.alpha, self.beta, self.state, self.lags, self.marks, lengths, self.max_time = inputs
        length = b.cast(lengths[n], INT64)
        wrong = (length < 0) | (length > most)
        limited = b.min(b.max(length, 0), most)

        def test(j: Any, bad: Any) -> Any:
            mark = self.marks[n * most + j]
            return b.select((mark < 0) | (mark >= marks), 1, bad)

        bad = b.loop(0, limited, test, b.constant(0, INT64))
        self.wrong = wrong | (bad != 0)
        self.points = b.select(self.wrong, 0, limited)
        self.first, self.row = n * most, n * marks

    def double(self, x: Any) -> Any:
        """A number in double precision."""
        return self.b.cast(x, FLOAT64)

    def rates(self, k: Any, place: Any, *states: Any) -> list[Any]:
        """The rate of a mark, elements of states, its branching ratio and its decay."""
        of_mark = [self.double(x[place]) for x in (self.lda, *states)]
        return of_mark + [self.double(x[k]) for x in (self.alpha, self.beta)]

    def point(self, j: Any, time: Any) -> tuple[Any, Any]:
        """The time and the mark of a point, given the time of the one before it."""
        time = time + self.double(self.lags[self.first + j])
        return time, self.b.cast(self.marks[self.first + j], INT64)


class _Likelihood(_ProcessLoops):
    """The log likelihood of a sequence."""

    def write(self, out: Any, out_state: Any) -> None:
        """Write the results."""
        b = self.b

        def begin(k: Any) -> None:
            place = self.row + k
            out_state[place] = self.state[place]
            self.last[place] = self.zero

        def decayed(k: Any, time: Any) -> tuple[Any, ...]:
            """Intensity, expected points since the last one, and the state, of a mark at a time."""
            place = self.row + k
            rate, before, branching, decay = self.rates(k, place, out_state)
            gap = time - self.last[place]
            now = before * b.exp(-(decay * gap))
            expected = rate * gap + branching * (before - now)
            return rate + branching * decay * now, expected, now, place

        def point(j: Any, total: Any, time: Any) -> Any:
            time, mark = self.point(j, time)
            intensity, expected, now, place = decayed(mark, time)
            out_state[place] = now + 1
            self.last[place] = time
            return total + (b.log(intensity) - expected), time

        def finish(k: Any, total: Any) -> Any:
            _, expected, now, place = decayed(k, end)
            out_state[place] = now
            return total - expected

        b.loop(0, self.count, begin)
        total, _ = b.loop(0, self.points, point, self.zero, self.zero)
        end = self.double(self.max_time[self.n])
        total = b.loop(0, self.count, finish, total)
        out[self.n] = b.select(self.wrong, math.nan, total)


class _Slopes(_ProcessLoops):
    """The derivatives of the log likelihood of a sequence."""

    def write(self, slopes: Sequence[Any], now: Any) -> None:
        """Write the results."""
        b = self.b
        self.sums, (self.state_by_beta, self.state_by_state), self.now = slopes[:4], slopes[4:], now
        start = b.select(self.wrong, math.nan, self.zero)

        def begin(k: Any) -> None:
            place = self.row + k
            now[place] = self.double(self.state[place])
            self.last[place] = self.zero
            for array in (*self.sums, self.state_by_beta):
                array[place] = start
            self.state_by_state[place] = start + 1

        def point(j: Any, time: Any) -> Any:
            time, mark = self.point(j, time)
            self.advance(mark, time, True)
            return time

        b.loop(0, self.count, begin)
        b.loop(0, self.points, point, self.zero)
        end = self.double(self.max_time[self.n])
        b.loop(0, self.count, lambda k: self.advance(k, end, False))

    def advance(self, k: Any, time: Any, happens: bool) -> None:
        """Go on to a time, at which there is a point, or not."""
        b, place = self.b, self.row + k
        rate, of_beta, of_state, branching, decay = self.rates(k, place, self.state_by_beta, self.state_by_state)
        before = self.now[place]
        gap = time - self.last[place]
        share = b.exp(-(decay * gap))
        after = before * share
        next_of_beta = (of_beta - before * gap) * share
        next_of_state = of_state * share
        changes = [
            -gap,
            after - before,
            branching * (next_of_beta - of_beta),
            branching * (next_of_state - of_state),
        ]
        if happens:
            inverse = 1.0 / (rate + branching * decay * after)
            excited = branching * inverse
            gains = [
                inverse,
                decay * after * inverse,
                excited * (after + decay * next_of_beta),
                excited * decay * next_of_state,
            ]
            changes = [x + y for x, y in zip(changes, gains, strict=True)]
            after = after + 1
        for array, change in zip(self.sums, changes, strict=True):
            array[place] = self.double(array[place]) + change
        self.now[place] = after
        self.last[place] = time
        self.state_by_beta[place] = next_of_beta
        self.state_by_state[place] = next_of_state
