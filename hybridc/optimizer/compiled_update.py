"""The update of weights as a graph of its own, compiled like a network; it writes its results over their old values.

``forward(weight0, grad0, state0_of0, …, lr0, …) -> (weight0, state0_of0, …)``, in which ``hybrid.donated`` lists pairs:
an argument, and the result that takes over its memory. A training step has the same update behind its backward.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc import symbol as F
from hybridc.compile.stages import Traced
from hybridc.dialects.operator import Elementwise
from hybridc.errors import MXNetError
from hybridc.ground.watches import all_written
from hybridc.optimizer.formula import Formula, FormulaNumber, Kind, Numbers, Values
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode

_NUMBER = itertools.count()


class UpdateTracer:
    """Appends the formula for several weights, one after the other, to a trace.

    ``results`` are the new values of the arrays that ``targets`` stand for; ``numbers`` are inputs, each with the place
    of its weight.
    """

    def __init__(self, formula: Formula, title: str, trace: Trace) -> None:
        self.formula = formula
        self.title = title
        self.trace = trace
        self.results: list[TracedSymbol] = []
        self.targets: list[TracedSymbol] = []
        self.numbers: list[tuple[FormulaNumber, int]] = []
        self._made: list[tuple[int, TracedSymbol]] = []  # arrays, with the places of their weights

    def add(
        self, place: int, kind: Kind, weight: TracedSymbol | None = None, gradient: TracedSymbol | None = None
    ) -> None:
        """Trace the update of one more weight.

        ``weight`` and ``gradient`` are values of the trace, or inputs to be made. The weight of a kind with ``half`` is
        the one of that dtype, whose float32 copy is an input always.
        """
        half = None
        if kind.half is not None:
            half = self._leaf(place, f"half{place}", kind.shape, kind.half) if weight is None else weight
            weight = None
        weight = self._leaf(place, f"weight{place}", kind.shape, kind.dtype) if weight is None else weight
        gradient = self._leaf(place, f"grad{place}", kind.shape, kind.gradient) if gradient is None else gradient
        states = [self._leaf(place, f"state{i}_of{place}", *state) for i, state in enumerate(kind.states)]
        numbers = Numbers(self.trace, kind.dtype, dict(kind.numbers))
        start, first = len(self.trace.nodes), len(self.results)
        if kind.gradient != kind.dtype:
            gradient = F.cast(gradient, dtype=kind.dtype.name)
        results = self.formula(F, weight, gradient, tuple(states), numbers.given)
        if len(results) != 1 + len(states):
            raise MXNetError(
                f"{self.title}.formula returned {len(results)} values; "
                f"expected the new weight and {len(states)} new states"
            )
        for target, result in zip((weight, *states), results, strict=True):
            self._result(target, self._array(result, target))
        if half is not None:
            self._result(half, F.cast(self.results[-1 - len(states)], dtype=half.dtype))
        self._take_numbers(place, start, self.results[first:])

    @property
    def arrays(self) -> list[TracedSymbol]:
        """The inputs that were made, but for numbers, in the order of their weights' places."""
        return [made for _, made in sorted(self._made, key=operator.itemgetter(0))]

    def donated(self, first: int = 0) -> tuple[tuple[int, int], ...]:
        """Pairs of an argument and a result, if the results of the graph have these from number ``first`` on."""
        return tuple([(target.index, result) for result, target in enumerate(self.targets, first)])

    def _leaf(self, place: int, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> TracedSymbol:
        made = self.trace.leaf(name, shape, dtype, "data")
        self._made.append((place, made))
        return made

    def _result(self, target: TracedSymbol, result: TracedSymbol) -> None:
        self.targets.append(target)
        self.results.append(result)

    def _array(self, result: Any, target: TracedSymbol) -> TracedSymbol:
        """The formula's result for an array, in its dtype; a number fills it."""
        scalar = isinstance(result, TracedSymbol) and result.shape == () != target.shape
        if scalar or isinstance(result, FormulaNumber | int | float):
            number = result.known if isinstance(result, FormulaNumber) and result.known is not None else result
            zeros: Any = F.zeros(shape=target.shape, dtype=target.dtype)
            return zeros + number
        if not isinstance(result, TracedSymbol) or result.shape != target.shape:
            what = f"shape {result.shape}" if isinstance(result, TracedSymbol) else f"a {type(result).__name__}"
            raise MXNetError(
                f"{self.title}.formula returned {what} for {target.name}; expected an array of its shape {target.shape}"
            )
        return result if result.dtype == target.dtype else F.cast(result, dtype=np.dtype(target.dtype).name)

    def _take_numbers(self, place: int, start: int, results: Sequence[TracedSymbol]) -> None:
        """Make inputs of the scalars that these results need, among the nodes traced since ``start``."""
        nodes, needed = self.trace.nodes, {id(s) for s in results}
        kept: list[TraceNode] = []
        for node in reversed(nodes[start:]):
            if any(id(s) in needed for s in node.outputs):
                kept.append(node)
                needed |= {id(s) for s in node.inputs}
        nodes[start:] = kept[::-1]
        for number in dict.fromkeys(s for node in nodes[start:] for s in node.inputs if isinstance(s, FormulaNumber)):
            number.index = len(self.trace.leaves)
            number.name = f"{number.name}{place}"
            self.trace.leaves.append(number)
            self.trace.roles.append("data")
            self.trace.sources.append(None)
            self.numbers.append((number, place))


def trace_update(formula: Formula, kinds: Sequence[Kind], title: str) -> tuple[Traced, list[tuple[FormulaNumber, int]]]:
    """The traced update of weights of these kinds, and its inputs that are numbers, each with its weight's place."""
    trace = Trace()
    trace.name = f"update-{title}-{next(_NUMBER)}"
    trace.context = kinds[0].context
    tracer = UpdateTracer(formula, title, trace)
    with trace.active():
        for place, kind in enumerate(kinds):
            tracer.add(place, kind)
    trace.finish(tracer.results)
    trace.structure = [0] * len(tracer.results)
    return Traced(trace, donated=tracer.donated()), tracer.numbers


def is_elementwise(formula: Formula, kind: Kind, title: str) -> bool:
    """Whether each element of the new weight and states depends on elements of the same place alone."""
    traced, _ = trace_update(formula, [kind], title)
    return all(isinstance(node.op, Elementwise) or not node.inputs for node in traced.trace.nodes)


class CompiledUpdate:
    """The program that updates weights of the given kinds, all at once."""

    def __init__(self, formula: Formula, kinds: Sequence[Kind], title: str) -> None:
        traced, numbers = trace_update(formula, kinds, title)
        self.graph = traced.graph()
        self.donated = [argument for argument, _ in traced.donated]  # whose memory the results take over
        #: The arguments that are numbers: dtype, place of the weight, and how to compute it at each step.
        self.numbers: list[tuple[Any, int, Callable[[Values], float]]] = [
            (number.dtype, place, number.compute) for number, place in numbers
        ]
        #: The number of each argument that is an array; those of the weights come in order.
        self.arrays = [i for i, leaf in enumerate(traced.trace.leaves) if not isinstance(leaf, FormulaNumber)]
        self.size = len(traced.trace.leaves)

    def run(self, arguments: Sequence[Any]) -> None:
        """Write the new values over the old ones."""
        try:
            self.graph.forward(*arguments)
        finally:
            all_written([arguments[i] for i in self.donated])
