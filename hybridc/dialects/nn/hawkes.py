"""The log likelihood of self-exciting point processes (Hawkes, 1971) with exponential decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel
from hybridc.dialects.kernels import hawkes_loops as kernels
from hybridc.dialects.operator import Bad, Composite, Opaque, Sample, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float, wide
from hybridc.errors import DTypeError, IndexRangeError, ShapeError, UnsupportedError

INT32, FLOAT64 = np.dtype("int32"), np.dtype("float64")
NAMES = ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time")


class _Process:
    """A batch of processes, which goes on from point to point: states, and times of the last points, of each mark."""

    def __init__(self, lda: Any, alpha: Any, beta: Any, state: Any, lags: Any, marks: Any, count: Any) -> None:
        most, kinds = lags.shape[1], lda.shape[1]
        wrong = np.flatnonzero((count < 0) | (count > most))
        if wrong.size:
            n = int(wrong[0])
            raise IndexRangeError(
                f"hawkesll: valid_length[{n}] is {int(count[n])}; it must be from 0 to {most}, the points of lags"
            )
        number = np.array(range(most), np.int64)
        places = np.argwhere((number < count[:, None]) & ((marks < 0) | (marks >= kinds)))
        if places.size:
            n, j = (int(i) for i in places[0])
            raise IndexRangeError(
                f"hawkesll: marks[{n}, {j}] is {int(marks[n, j])}; it must be from 0 to {kinds - 1}, as lda has "
                f"{kinds} columns"
            )
        self.lda, self.alpha, self.beta = (x.astype(np.float64) for x in (lda, alpha, beta))
        self.now = state.astype(np.float64)
        self.last = np.zeros_like(self.now)
        self.marks, self.count = marks, count
        self.times = np.cumsum(lags, 1, np.float64)
        self.every: Any = np.indices(lda.shape)

    def points(self) -> Any:
        """The places ``(rows, marks)`` of each step's points, and their times."""
        for j in range(self.times.shape[1]):
            rows = np.flatnonzero(self.count > j)
            yield (rows, self.marks[rows, j]), self.times[rows, j]

    def advance(self, place: Any, times: Any, happens: bool) -> tuple[Any, ...]:
        """Go on to times, at which there are points, or not.

        Returns the states before and now, without a point that happens, the gaps, and the shares that are left.
        """
        before = self.now[place]
        gap = times - self.last[place]
        share = np.exp(-self.beta[place[1]] * gap)
        now = before * share
        self.now[place] = now + happens
        self.last[place] = times
        return before, now, gap, share

    def intensity(self, place: Any, now: Any) -> Any:
        """The intensities at points."""
        return self.lda[place] + self.alpha[place[1]] * self.beta[place[1]] * now


class _OfProcess(Opaque):
    """What likelihood and derivatives share."""

    INPUTS = ("lda", "alpha", "beta", "state", "lags", "marks", "count", "max_time")
    SAME_DTYPE = False


def require_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape of lda; raise unless those of the others go with it."""
    lda, lags = shapes[0], shapes[4]
    if len(lda) != 2 or len(lags) != 2 or lda[0] != lags[0]:
        raise ShapeError(
            f"hawkesll: lda must have shape (N, K) and lags (N, T), N sequences of both, got {lda} and {lags}"
        )
    wanted = [lda, lda[1:], lda[1:], lda, lags, lags, lda[:1], lda[:1]]
    for name, shape, want in zip(NAMES, shapes, wanted, strict=True):
        if shape != want:
            raise ShapeError(f"hawkesll: {name} must have shape {want} for lda {lda} and lags {lags}, got {shape}")
    return lda


@register("hybrid._hawkes_likelihood")
class HawkesLikelihood(_OfProcess):
    """``hawkesll``, given marks and numbers of points as int32; hidden: the times of the last points"""

    def num_outputs(self) -> int:
        return 3

    def num_visible_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lda = require_shapes(shapes)
        return shapes, [lda[:1], lda, lda]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0], dtypes[0], FLOAT64]

    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        return kernels.likelihood(target, inputs[0], inputs[4])

    def eager(self, *arrays: Any) -> Any:
        *given, max_time = arrays
        process = _Process(*given)
        total = np.zeros(len(max_time))
        for place, times in process.points():
            before, now, gap, _ = process.advance(place, times, True)
            expected = process.lda[place] * gap + process.alpha[place[1]] * (before - now)
            total[place[0]] += np.log(process.intensity(place, now)) - expected
        last = process.last.copy()
        end = np.broadcast_to(max_time.astype(np.float64)[:, None], last.shape)
        before, now, gap, _ = process.advance(tuple(process.every), end, False)
        total -= (process.lda * gap + process.alpha * (before - now)).sum(1)
        dtype = arrays[0].dtype
        return total.astype(dtype), now.astype(dtype), last

    def gradient(self, F: Any, *values: Any) -> Any:
        raise UnsupportedError("hawkesll has no second derivative; take its gradient without create_graph")


@register("hybrid._hawkes_slopes")
class HawkesSlopes(_OfProcess):
    """Derivatives of the log likelihood by lda, alpha, beta and state, and of the new state by beta and state

    Each is ``(N, K)``. Hidden: states, and the times of the last points.
    """

    def num_outputs(self) -> int:
        return 8

    def num_visible_outputs(self) -> int:
        return 6

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [require_shapes(shapes)] * 8

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [*[dtypes[0]] * 6, FLOAT64, FLOAT64]

    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        return kernels.slopes(target, inputs[0], inputs[4])

    def eager(self, *arrays: Any) -> Any:
        *given, max_time = arrays
        process = _Process(*given)
        by_lda, by_alpha, by_beta, by_state, state_by_beta = (np.zeros_like(process.now) for _ in range(5))
        state_by_state = np.ones_like(process.now)

        def advance(place: Any, times: Any, happens: bool) -> None:
            before, now, gap, share = process.advance(place, times, happens)
            alpha, beta = process.alpha[place[1]], process.beta[place[1]]
            old_beta, old_state = state_by_beta[place], state_by_state[place]
            new_beta, new_state = (old_beta - before * gap) * share, old_state * share
            state_by_beta[place], state_by_state[place] = new_beta, new_state
            by_lda[place] -= gap
            by_alpha[place] -= before - now
            by_beta[place] -= alpha * (old_beta - new_beta)
            by_state[place] -= alpha * (old_state - new_state)
            if happens:
                each = 1 / process.intensity(place, now)
                by_lda[place] += each
                by_alpha[place] += beta * now * each
                by_beta[place] += alpha * (now + beta * new_beta) * each
                by_state[place] += alpha * beta * new_state * each

        for place, times in process.points():
            advance(place, times, True)
        end = np.broadcast_to(max_time.astype(np.float64)[:, None], process.last.shape)
        advance(tuple(process.every), end, False)
        results = (by_lda, by_alpha, by_beta, by_state, state_by_beta, state_by_state)
        return *(x.astype(arrays[0].dtype) for x in results), process.now, process.last

    def gradient(self, F: Any, *values: Any) -> Any:
        raise UnsupportedError("hawkesll has no second derivative; take its gradient without create_graph")


@register("hybrid.hawkesll", "contrib.hawkesll", "_contrib_hawkesll")
class HawkesLL(Composite):
    """The log likelihoods of sequences of marked points, and the states of the marks at the sequences' ends

    The points of mark k come with the intensity lda[k] + alpha[k] * beta[k] * s, where the state s is the sum of
    exp(-beta[k] * (t - u)) over the mark's points at times u < t, and of what is left of the given state. There are
    gradients of lda, alpha, beta and state.
    """

    INPUTS = NAMES
    OUTPUTS = ("output", "out_state")
    INPUT_DOCS: ClassVar = {
        "lda": "(N, K): the intensities without points",
        "alpha": "(K,): how many further points one of the mark causes, on average",
        "beta": "(K,): the rates of decay",
        "state": "(N, K): the states at the beginning",
        "lags": "(N, T): the times from point to point, the first from 0",
        "marks": "(N, T): the marks, from 0 to K - 1",
        "valid_length": "(N,): how many points count",
        "max_time": "(N,): the ends of observation",
    }
    SAME_DTYPE = False

    def num_outputs(self) -> int:
        return 2

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """From the shapes of lda and lags, or of others of these."""
        lda, alpha, beta, state, lags, marks, count, end = shapes
        of_marks, of_points = lda or state or outputs[1], lags or marks
        one = of_marks or of_points or count or end or outputs[0]
        kinds = of_marks[1:2] if of_marks else alpha or beta
        if of_marks is None and one is not None and kinds is not None:
            of_marks = (one[0], *kinds)
        wanted = [of_marks, kinds, kinds, of_marks, of_points, of_points, one and one[:1], one and one[:1]]
        return [w if s is None else s for s, w in zip(shapes, wanted, strict=True)]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Marks are int32, all others have one dtype."""
        known = next((d for i, d in enumerate(dtypes) if d is not None and i != 5), None)
        return [(INT32 if i == 5 else known) if d is None else d for i, d in enumerate(dtypes)]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lda = require_shapes(shapes)
        return shapes, [lda[:1], lda]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        dtype = dtypes[0]
        for i, name in enumerate(NAMES):
            # COMPAT(mxnet): marks that are not int32, and lengths of another dtype than lda's, are an error there.
            if i in (5, 6):
                continue
            if not is_float(dtype) or dtypes[i] != dtype:
                raise DTypeError(
                    "hawkesll: lda, alpha, beta, state, lags and max_time must have one floating-point dtype, but lda "
                    f"is {dtype} and {name} is {dtypes[i]}; use .astype('float32')"
                )
        return dtypes, [dtype, dtype]

    def process(self, F: Any, *inputs: Any) -> list[Any]:
        """The inputs as they are computed with."""
        dtype = wide(np.dtype(inputs[0].dtype))
        made = [x if x.dtype == dtype else F.cast(x, dtype) for x in inputs]
        for i in (5, 6):
            x = inputs[i]
            x = F.ceil(x) if i == 6 and is_float(np.dtype(x.dtype)) else x
            made[i] = x if x.dtype == INT32 else F.cast(x, INT32)
        return made

    def decompose(self, F: Any, *inputs: Any) -> Any:
        results = F._hawkes_likelihood(*self.process(F, *inputs))
        dtype = np.dtype(inputs[0].dtype)
        return tuple(x if x.dtype == dtype else F.cast(x, dtype) for x in results)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        self.infer_type([x.dtype for x in arrays])
        return super().eager(*arrays)

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        missing = [name for name, n in zip(NAMES[4:], needed[4:], strict=True) if n]
        if missing:
            raise UnsupportedError(
                f"hawkesll: there is no gradient of {missing[0]}, but of lda, alpha, beta and state; "
                f"give {missing[0]}.detach()"
            )
        return self.gradient(F, *values)

    def gradient(self, F: Any, *values: Any) -> Any:
        # COMPAT(mxnet): there the gradient of state is 0, and that of the new state is ignored.
        dy, dstate, *inputs, _, _ = values
        slopes = F._hawkes_slopes(*self.process(F, *inputs))
        dtype = slopes[0].dtype
        dy, dstate = (d if d.dtype == dtype else F.cast(d, dtype) for d in (dy, dstate))
        dy = F.expand_dims(dy, axis=1)
        dlda, dalpha, dbeta, dold = (dy * slope for slope in slopes[:4])
        grads = [dlda, F.sum(dalpha, 0), F.sum(dbeta + dstate * slopes[4], 0), dold + dstate * slopes[5]]
        like = inputs[0].dtype
        return *(g if g.dtype == like else F.cast(g, like) for g in grads), None, None, None, None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        lags = np.array([[1.0, 2, 1], [2, 1, 3]])
        marks = np.array([[0, 1, 1], [1, -1, -1]], np.int32)
        given: list[Any] = [(2, 2), (2,), (2,), (2, 2), lags, marks, np.array([3.0, 1.0]), np.array([5.0, 4.0])]
        none: list[Any] = [(1, 1), (1,), (1,), (1, 1), np.zeros((1, 0)), np.zeros((1, 0), np.int32)]
        return [
            Sample(given, _by_definition, low=0.2, high=1.5, grad=False, dtypes=("float32", "float64", "float16")),
            Sample([*none, np.zeros(1, np.int32), np.array([3.0])], _by_definition, low=0.2, high=1.5, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        shapes: list[Any] = [(1, 2), (2,), (2,), (1, 2), (1, 3), np.zeros((1, 3), np.int32), np.array([3.0]), (1,)]
        few = "hawkesll: alpha must have shape (2,) for lda (1, 2) and lags (1, 3), got (3,)"
        long = "hawkesll: valid_length[0] is 4; it must be from 0 to 3, the points of lags"
        mark = "hawkesll: marks[0, 1] is 2; it must be from 0 to 1, as lda has 2 columns"
        lead = "hawkesll: lda must have shape (N, K) and lags (N, T), N sequences of both, got (1, 2) and (2, 3)"
        wide = "hawkesll: lda, alpha, beta, state, lags and max_time must have one floating-point dtype, but lda is "
        wide += "float32 and beta is float64; use .astype('float32')"

        def but(i: int, x: Any) -> tuple[Any, ...]:
            return (*shapes[:i], x, *shapes[i + 1 :])

        return [
            (but(1, (3,)), {}, few),
            (but(6, np.array([4.0])), {}, long),
            (but(5, np.array([[0, 2, 1]])), {}, mark),
            (but(4, (2, 3)), {}, lead),
            (but(2, np.ones(2)), {}, wide),
        ]


def _by_definition(*inputs: Any) -> Any:
    """Log likelihood and new state, by sums over all earlier points."""
    lda, alpha, beta, state, lags, marks, count, ends = inputs
    likelihood, new = np.zeros(len(lda)), np.zeros_like(lda)
    for n, end in enumerate(ends):
        times = np.cumsum(lags[n])[: int(count[n])]
        for k in range(lda.shape[1]):
            points = [t for t, mark in zip(times, marks[n], strict=False) if mark == k]

            def left(t: float, n: int = n, k: int = k, points: Any = points) -> float:
                return state[n, k] * np.exp(-beta[k] * t) + sum(np.exp(-beta[k] * (t - u)) for u in points if u < t)

            likelihood[n] += sum(np.log(lda[n, k] + alpha[k] * beta[k] * left(t)) for t in points)
            likelihood[n] -= lda[n, k] * end + alpha[k] * (state[n, k] + len(points) - left(end))
            new[n, k] = left(end)
    return likelihood, new
