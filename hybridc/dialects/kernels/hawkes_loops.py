"""Native loops of Hawkes processes: one iteration is one sequence of points; all is computed in double precision."""

# The builder of loops is untyped, and so is what it is given.
# pyright: basic
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel, LoopKernel
from hybridc.ground.machine import machine

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
    each = 8 * (costs.function + costs.indirect)
    return LoopKernel(body, batch, (points,), flat=True, work=batch * (points + lda.shape[1]) * each)


@dataclass(frozen=True)
class _HawkesLoops:
    """The base of the kernels of the likelihood and of its derivatives."""

    marks: int

    def points(self, b: Any, n: Any, marks: Any, count: Any, most: Any) -> Any:
        """The number of valid points of a sequence, and whether it or a mark is out of range; it is 0 then."""
        given = b.cast(b.load(count, n), INT64)
        wrong = b.logical_or(b.lt(given, 0), b.gt(given, most))
        limited = b.min(b.max(given, 0), most)

        def test(j: Any, bad: Any) -> Any:
            mark = b.load(marks, b.add(b.mul(n, most), j))
            return b.select(b.logical_or(b.lt(mark, 0), b.ge(mark, self.marks)), 1, bad)

        bad = b.loop(0, limited, test, b.constant(0, INT64))
        wrong = b.logical_or(wrong, b.ne(bad, 0))
        return b.select(wrong, 0, limited), wrong


def _doubles(b: Any, *loads: Any) -> list[Any]:
    """Elements of arrays, given as pairs, as doubles."""
    return [b.cast(b.load(array, place), FLOAT64) for array, place in loads]


class LikelihoodLoops(_HawkesLoops):
    """The log likelihood of a sequence, and the states at its end; ``last``, when each mark had a point, is scratch."""

    def __call__(
        self,
        b: Any,
        low: Any,
        high: Any,
        lda: Any,
        alpha: Any,
        beta: Any,
        state: Any,
        lags: Any,
        marks: Any,
        count: Any,
        max_time: Any,
        out: Any,
        out_state: Any,
        last: Any,
        most: Any,
    ) -> None:
        zero = b.constant(0.0, FLOAT64)

        def sequence(n: Any) -> None:
            points, wrong = self.points(b, n, marks, count, most)
            first, row = b.mul(n, most), b.mul(n, self.marks)

            def begin(k: Any) -> None:
                place = b.add(row, k)
                b.store(b.load(state, place), out_state, place)
                b.store(zero, last, place)

            def decayed(k: Any, time: Any) -> tuple[Any, ...]:
                """Intensity, expected points since the last one, and the state, of a mark at a time."""
                place = b.add(row, k)
                rate, before = _doubles(b, (lda, place), (out_state, place))
                branching, decay = _doubles(b, (alpha, k), (beta, k))
                gap = b.sub(time, b.load(last, place))
                now = b.mul(before, b.exp(b.neg(b.mul(decay, gap))))
                expected = b.add(b.mul(rate, gap), b.mul(branching, b.sub(before, now)))
                return b.add(rate, b.mul(b.mul(branching, decay), now)), expected, now, place

            def point(j: Any, total: Any, time: Any) -> Any:
                time = b.add(time, b.cast(b.load(lags, b.add(first, j)), FLOAT64))
                mark = b.cast(b.load(marks, b.add(first, j)), INT64)
                intensity, expected, now, place = decayed(mark, time)
                b.store(b.add(now, 1), out_state, place)
                b.store(time, last, place)
                return b.add(total, b.sub(b.log(intensity), expected)), time

            def finish(k: Any, total: Any) -> Any:
                _, expected, now, place = decayed(k, end)
                b.store(now, out_state, place)
                return b.sub(total, expected)

            b.loop(0, self.marks, begin)
            total, _ = b.loop(0, points, point, zero, zero)
            end = b.cast(b.load(max_time, n), FLOAT64)
            total = b.loop(0, self.marks, finish, total)
            b.store(b.select(wrong, math.nan, total), out, n)

        b.loop(low, high, sequence)


class SlopesLoops(_HawkesLoops):
    """Derivatives of the log likelihood by lda, alpha, beta and the state, and of the new state by beta and the state.

    ``now`` and ``last``, the states and the times of the last points, are scratch.
    """

    def __call__(
        self,
        b: Any,
        low: Any,
        high: Any,
        lda: Any,
        alpha: Any,
        beta: Any,
        state: Any,
        lags: Any,
        marks: Any,
        count: Any,
        max_time: Any,
        by_lda: Any,
        by_alpha: Any,
        by_beta: Any,
        by_state: Any,
        state_by_beta: Any,
        state_by_state: Any,
        now: Any,
        last: Any,
        most: Any,
    ) -> None:
        zero = b.constant(0.0, FLOAT64)
        sums = (by_lda, by_alpha, by_beta, by_state)

        def sequence(n: Any) -> None:
            points, wrong = self.points(b, n, marks, count, most)
            first, row = b.mul(n, most), b.mul(n, self.marks)
            start = b.select(wrong, math.nan, zero)

            def begin(k: Any) -> None:
                place = b.add(row, k)
                b.store(b.cast(b.load(state, place), FLOAT64), now, place)
                b.store(zero, last, place)
                for array in (*sums, state_by_beta):
                    b.store(start, array, place)
                b.store(b.add(start, 1), state_by_state, place)

            def advance(k: Any, time: Any, happens: bool) -> None:
                """Go on to a time, at which there is a point, or not."""
                place = b.add(row, k)
                rate, of_beta, of_state = _doubles(b, (lda, place), (state_by_beta, place), (state_by_state, place))
                branching, decay = _doubles(b, (alpha, k), (beta, k))
                before = b.load(now, place)
                gap = b.sub(time, b.load(last, place))
                share = b.exp(b.neg(b.mul(decay, gap)))
                after = b.mul(before, share)
                next_of_beta = b.mul(b.sub(of_beta, b.mul(before, gap)), share)
                next_of_state = b.mul(of_state, share)
                changes = [
                    b.neg(gap),
                    b.sub(after, before),
                    b.mul(branching, b.sub(next_of_beta, of_beta)),
                    b.mul(branching, b.sub(next_of_state, of_state)),
                ]
                if happens:
                    intensity = b.add(rate, b.mul(b.mul(branching, decay), after))
                    each = b.div(1.0, intensity)
                    excited = b.mul(branching, each)
                    gains = [
                        each,
                        b.mul(b.mul(decay, after), each),
                        b.mul(excited, b.add(after, b.mul(decay, next_of_beta))),
                        b.mul(b.mul(excited, decay), next_of_state),
                    ]
                    changes = [b.add(x, y) for x, y in zip(changes, gains, strict=True)]
                    after = b.add(after, 1)
                for array, change in zip(sums, changes, strict=True):
                    b.store(b.add(b.cast(b.load(array, place), FLOAT64), change), array, place)
                b.store(after, now, place)
                b.store(time, last, place)
                b.store(next_of_beta, state_by_beta, place)
                b.store(next_of_state, state_by_state, place)

            def point(j: Any, time: Any) -> Any:
                time = b.add(time, b.cast(b.load(lags, b.add(first, j)), FLOAT64))
                advance(b.cast(b.load(marks, b.add(first, j)), INT64), time, True)
                return time

            b.loop(0, self.marks, begin)
            b.loop(0, points, point, zero)
            end = b.cast(b.load(max_time, n), FLOAT64)
            b.loop(0, self.marks, lambda k: advance(k, end, False))

        b.loop(low, high, sequence)
