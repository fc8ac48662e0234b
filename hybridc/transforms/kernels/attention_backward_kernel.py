"""The kernel of an attention's backward, made of the kernels of both functions that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.ir.attention_kernel import GRADS, KEYS, MAPS, QUERIES, SCORES, VALUES, Attention
from hybridc.ir.kernel import Kernel, Read, Stage, analyse
from hybridc.ir.structured import dtype_of, function_called, shape_of
from hybridc.transforms.kernels.attention_calls import AxisMap, KernelBody, counters_of, given_to
from hybridc.transforms.kernels.attention_draws import Drawn, draws_of
from hybridc.transforms.kernels.kept_values import KeptValues, unshaped


class _Promised:
    """What the forward will give that it does not yet."""


OUTPUT, PEAK, TOTAL = _Promised(), _Promised(), _Promised()


@dataclass(frozen=True, eq=False)
class Forward:
    """An attention of the forward: its three calls, masks made for it, and the kernel that they will be.

    The kernel's results are those of the last call, then ``output``, if that is none of them, peaks and totals.
    """

    calls: tuple[func.CallOp, func.CallOp, func.CallOp]
    masks: dict[func.CallOp, AxisMap]
    kernel: func.FuncOp
    attention: Attention
    output: int  # the number of the result that is the sum by weights

    @property
    def made(self) -> Sequence[SSAValue]:
        """What the softmax makes: weights, and what it returns for the backward until now."""
        return self.calls[1].results

    @property
    def weights(self) -> int:
        """Which of that is multiplied with values."""
        return next(i for i, v in enumerate(self.made) if v in self.calls[2].arguments)


@dataclass(frozen=True, eq=False)
class Backward:
    """The calls of a backward that will be one, by what they make.

    ``shown`` are its values that the softmax of the forward made, with the numbers of that one's results; ``before``
    are maps of these, such as weights that a dropout thins out again.
    """

    shown: Mapping[SSAValue, int]
    before: tuple[func.CallOp, ...]
    grads: func.CallOp
    scores: func.CallOp
    values: func.CallOp
    queries: func.CallOp
    keys: func.CallOp
    total: Stage  # the sum of a row of weights by their gradients
    masks: dict[func.CallOp, AxisMap]

    @property
    def calls(self) -> list[func.CallOp]:
        """All of them, each before those that need it."""
        return [*self.before, self.grads, self.scores, self.values, self.queries, self.keys]


class Join:
    """Makes the kernel of a backward.

    What it is given is known by values: those that the backward has before ``at`` where there are some, else those of
    the forward.
    """

    def __init__(self, found: Forward, calls: Backward, kept: KeptValues, at: Operation) -> None:
        self.found, self.calls, self.kept, self.at = found, calls, kept, at
        self.first, self.middle, self.last = (kernel_of(c) for c in found.calls)
        self.grads, self.scores = kernel_of(calls.grads), kernel_of(calls.scores)
        self.body = KernelBody()

    def run(self) -> tuple[func.FuncOp, list[Any], list[SSAValue]] | None:
        """The kernel, what it is given, and the values that it makes instead of others."""
        found, calls = self.found, self.calls
        remap = self._axes_of_maps()
        delta = None if remap is None else self._delta(remap)
        if remap is None or delta is None:
            return None
        first, middle = found.calls[0], found.calls[1]
        results = self._copy(first, SCORES)
        known = {first.results[0]: results[0]} | self._masks(found.masks, {}, theirs=True)
        attention = _attention_parts(self.middle)
        rows = {p: self.body.given(n, p.type, dtype_of(p)) for p, n in zip(attention, (PEAK, TOTAL), strict=True)}
        made = self.body.copy(self.middle.function, self._given(middle, known, True), MAPS, None, rows)
        known = {v: made[i] for v, i in calls.shown.items()}
        for call in calls.before:
            axes = axes_of(self.middle, call, calls.shown)
            if axes is None:
                return None
            function = function_called(call)
            known[call.results[0]] = self.body.copy(function, self._given(call, known, False), MAPS, axes, {})[0]
        known[calls.grads.results[0]] = self._copy(calls.grads, GRADS)[0]
        known |= self._masks(calls.masks, remap, theirs=False)
        given = self._given(calls.scores, known, False)
        scores = self.body.copy(self.scores.function, given, MAPS, remap, {calls.total.result: delta})
        known[calls.scores.results[0]] = scores[0]
        products = (calls.values, calls.queries, calls.keys)
        outputs: list[SSAValue] = []
        for call, nest in zip(products, (VALUES, QUERIES, KEYS), strict=True):
            outputs += self.body.copy(function_called(call), self._given(call, known, False), nest, None, {})
        nests = [self.first, self.grads, self.middle, *map(kernel_of, products)]
        domains = [shape_of(delta), *(k.nests[0].domain for k in nests)]
        kernel = self.body.function("fused_attention_backward", outputs, domains)
        kernel.location = fused_location([function_called(c) for c in (*found.calls, *calls.calls)])
        replaced: list[SSAValue] = [r for c in products for r in c.results]
        return kernel, self.body.keys, replaced

    def _copy(self, call: func.CallOp, nest: int) -> Sequence[SSAValue]:
        theirs = call is self.found.calls[0]
        return self.body.copy(function_called(call), self._given(call, {}, theirs), nest, None, {})

    def _masks(
        self, masks: Mapping[func.CallOp, dict[int, int]], remap: Mapping[int, int], theirs: bool
    ) -> dict[SSAValue, SSAValue]:
        """Copy what makes masks into the nest of maps."""
        made: dict[SSAValue, SSAValue] = {}
        for call, axes in masks.items():
            given = self._given(call, {}, theirs)
            into = {a: remap.get(m, m) for a, m in axes.items()}
            made[call.results[0]] = self.body.copy(function_called(call), given, MAPS, into, {})[0]
        return made

    def _given(
        self, call: func.CallOp, known: Mapping[SSAValue, SSAValue], theirs: bool
    ) -> list[SSAValue | int | Drawn]:
        """What a copy of a call is given: what was made already, else arguments of the kernel, counters, or draws."""
        found: list[SSAValue | int | Drawn] = []
        sources = [value if theirs else self.kept.copied(value) for value in call.arguments]
        drawn = [value if theirs else self.kept.source.get(unshaped(value), value) for value in call.arguments]
        counters, draws = counters_of(call, sources), draws_of(call, drawn)
        for number, value in enumerate(call.arguments):
            if number in counters:
                found.append(counters[number])
            elif number in draws:
                found.append(Drawn(self._argument(draws[number], True)))
            elif value in known:
                found.append(known[value])
            else:
                found.append(self._argument(value, theirs))
        return found

    def _argument(self, value: SSAValue, theirs: bool) -> SSAValue:
        """The kernel's argument for a value of the backward, or of the forward."""
        own = self.kept.find(value, self.at) if theirs else value
        return self.body.given(value if own is None else own, value.type, dtype_of(value))

    def _axes_of_maps(self) -> dict[int, int] | None:
        """What each axis of the backward's maps is in the forward's: both follow the weights."""
        remap = axes_of(self.middle, self.calls.scores, self.calls.shown)
        keys = None if remap is None else {remap.get(a) for a in self.calls.total.reduced}
        return remap if keys == {*self.found.attention.peak.reduced} else None

    def _gradient(self) -> tuple[Read, dict[int, int]] | None:
        """How gradients are read where they are multiplied with values, and these axes in the forward.

        None if it is not the values that they are multiplied with.
        """
        values = self.found.attention.sums.right
        arguments: dict[SSAValue, SSAValue] = dict(
            zip(self.found.kernel.body.block.args, given_to([*self.found.masks, *self.found.calls]), strict=True)
        )
        theirs = arguments[values.value]
        stage = self.grads.nests[0].product
        given = dict(zip(self.grads.arguments, self.calls.grads.arguments, strict=True))
        if stage is None or len(self.grads.stages) != 1:
            return None
        for read, other in (stage.reads, stage.reads[::-1]):
            if read.value in given and other.value in given and self.kept.same(theirs, given[read.value]):
                return other, dict(zip(read.axes, values.axes, strict=True))
        return None

    def _delta(self, remap: Mapping[int, int]) -> SSAValue | None:
        """Write the sum of each row of the result times its gradient; None if they are not of the same axes."""
        attention, stage, found = self.found.attention, self.grads.nests[0].product, self._gradient()
        arguments = dict(zip(self.calls.scores.arguments, self.scores.arguments, strict=True))
        product = arguments[self.calls.grads.results[0]]
        reads = {r.axes for s in self.scores.stages for r in s.reads if r.value is product}
        if stage is None or found is None or len(reads) != 1:
            return None
        gradient, columns = found
        # Axes of the product of gradients and values, in the one of weights and values.
        axes = {g: attention.in_sums[remap[m]] for g, m in zip(stage.axes, reads.pop(), strict=True)}
        if any(axes.get(g, to) != to for g, to in columns.items()) or any(g not in columns for g in stage.reduced):
            return None
        axes |= columns
        output = self._output()
        made = next(s for s in attention.kernel.stages if s.result is output)
        rows = tuple(attention.in_sums[remap[a]] for a in self.calls.total.axes)
        value = dict(zip(self.grads.arguments, self.calls.grads.arguments, strict=True))[gradient.value]
        factors = (
            self.body.given(value, value.type, dtype_of(value)),
            self.body.given(OUTPUT, output.type, dtype_of(output)),
        )
        places = (tuple(axes[a] for a in gradient.axes), made.axes, rows)
        return self.body.row_sum(factors, places, self.calls.total)

    def _output(self) -> SSAValue:
        end = self.found.kernel.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        return end.arguments[self.found.output]


def axes_of(middle: Kernel, call: func.CallOp, shown: Mapping[SSAValue, int]) -> dict[int, int] | None:
    """What each axis of a kernel is in the softmax of which it reads results; None if that is unclear."""
    kernel = kernel_of(call)
    made = {s.result: s.axes for s in middle.stages}
    found: dict[int, int] = {}
    for value, argument in zip(call.arguments, kernel.arguments, strict=True):
        if value not in shown:
            continue
        theirs = made[middle.results[shown[value]]]
        for own in {r.axes for s in kernel.stages for r in s.reads if r.value is argument}:
            pairs = [*zip(own, theirs, strict=True)]
            if any(found.setdefault(a, b) != b for a, b in pairs):
                return None
    used = {a for s in kernel.stages for axes in (s.axes, s.reduced, *(r.axes for r in s.reads)) for a in axes}
    whole = len({*found.values()}) == len(found) and not any(s.anywhere for s in kernel.stages)
    return found if whole and used <= {*found} else None


def _attention_parts(kernel: Kernel) -> tuple[SSAValue, SSAValue]:
    """The maximum and the sum of a softmax."""
    peak, total = (s.result for s in kernel.stages if s.combine is not None)
    return peak, total


def kernel_of(call: func.CallOp) -> Kernel:
    """The facts about the kernel that is called."""
    return analyse(function_called(call))
