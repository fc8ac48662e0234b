"""Branches: of two graphs, the one that a value chooses runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.control.inner_graph import InnerGraphs, new_trace, recorded_gradients, split_key
from hybridc.dialects.control.loop_steps import CompiledLoop
from hybridc.dialects.derived import outputs_of
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.interchange import NestedGraph
from hybridc.dialects.operator import register
from hybridc.dialects.operator_attribute import DType, Shape, attribute
from hybridc.dialects.operator_registry import operator
from hybridc.dtypes import is_float
from hybridc.errors import DTypeError, ShapeError


@register("hybrid.cond")
class Branch(InnerGraphs):
    """The results of the graph ``then`` if the first input is not zero, else those of ``otherwise``

    Only one of them runs. Both graphs have all inputs as arguments, and results of the same shapes and dtypes.
    """

    NNVM = "_cond"
    NNVM_COUNT = "num_args"

    then: Body = attribute(doc="the graph for a number other than zero")
    otherwise: Body = attribute(doc="the graph for zero")
    counters: int = attribute(0, "internal: the numbers that a graph takes from the random key, its last argument")
    draw: int = attribute(0, "internal: the first of these numbers")

    def num_samples(self) -> int:
        return self.counters

    def num_outputs(self) -> int:
        return len(self.then.results)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """By inference of the graphs."""
        ins, outs = self.inferring(self.then).infer_shape(shapes)
        ins, others = self.inferring(self.otherwise).infer_shape(ins)
        if outs != others:
            raise ShapeError(f"cond: both branches must give the same shapes, got {outs} and {others}")
        return ins, outs

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """By inference of the graphs."""
        ins, outs = self.inferring(self.then).infer_type(dtypes)
        others = self.inferring(self.otherwise).infer_type(dtypes)[1]
        if outs != others:
            raise DTypeError(f"cond: both branches must give the same dtypes, got {outs} and {others}")
        return ins, outs

    def complete_arguments(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """By inference of the graphs, whose results have the same shapes."""
        for body in (self.then, self.otherwise, self.then):
            shapes, outputs = self.body_shapes(body, shapes, outputs)
        return shapes

    # --- in composed symbols -------------------------------------------------------------------------------

    def call(self, F: Any, graphs: Sequence[Callable[..., list[Any]]], *inputs: Any) -> list[Any]:
        """``F.contrib.cond``."""
        then, otherwise = graphs
        return F.contrib.cond(inputs[0], lambda: then(*inputs), lambda: otherwise(*inputs))

    def to_nnvm(self) -> dict[str, Any]:
        return {"num_outputs": self.num_outputs()}

    def nnvm_graphs(self, inputs: Sequence[str]) -> list[NestedGraph]:
        """The graph of the condition, which is computed before, and those of the branches."""
        asked = Body(1, [BodyStep(operator("hybrid.identity").bind(), [0], 1, name=f"{inputs[0]}_copy")], [1])
        count = self.num_outputs()
        branches = [NestedGraph(body, inputs, count, apart=True) for body in self.bodies()]
        return [NestedGraph(asked, inputs[:1], 1), *branches]

    def nnvm_places(self, orders: Sequence[Sequence[int]]) -> dict[str, Any]:
        asked, then, otherwise = map(list, orders)
        return {"cond_input_locs": asked, "then_input_locs": then, "else_input_locs": otherwise}

    # --- running -------------------------------------------------------------------------------------------

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """Run the chosen graph."""
        chosen = self.then if arrays[0].any() else self.otherwise
        given, keys = split_key(self, arrays)
        run = self.compiled(chosen, [x.shape for x in arrays], [x.dtype for x in arrays])
        for to, result in zip(outs, run(*given, *[self.first_key(key) for key in keys]), strict=True):
            np.copyto(to, result)

    def compiled_loops(self, ins: Sequence[ArraySpec]) -> list[CompiledLoop]:
        """A loop of at most one step for each branch; the predicate chooses the one that runs."""
        shapes, dtypes = [x.shape for x in ins], [x.dtype for x in ins]
        return [
            CompiledLoop(
                self.compiled_graph(body, shapes, dtypes), None, 1, False, False, 0, 0, self.num_outputs(), 0, False,
                bool(self.counters), self.draw, 0, chosen,
            )
            for body, chosen in ((self.then, True), (self.otherwise, False))
        ]  # fmt: skip

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """The branch of the gradients of both graphs."""
        visible, count = self.num_outputs(), len(needed)
        inputs = values[visible : visible + count]
        given, keys = split_key(self, inputs)
        heads = [i for i, g in enumerate(values[:visible]) if is_float(np.dtype(g.dtype))]
        every = [*given, *[values[i] for i in heads], *keys]
        bodies = [self._gradients(body, every, len(given), heads, needed) for body in self.bodies()]
        made = self.bind(then=bodies[0], otherwise=bodies[1], counters=self.counters, draw=self.draw)
        found = iter(outputs_of(made, every))
        return [next(found) if n else None for n in needed[: len(given)]]

    def _gradients(
        self, body: Body, every: Sequence[Any], count: int, heads: Sequence[int], needed: Sequence[bool]
    ) -> Body:
        """The graph of the gradients of a graph; its arguments: those of this, gradients of its results, a key."""
        trace = new_trace()
        leaves = [trace.leaf(f"x{i}", x.shape, x.dtype, "value") for i, x in enumerate(every)]
        ograds: list[Any] = [None] * self.num_outputs()
        for i, leaf in zip(heads, leaves[count:], strict=False):
            ograds[i] = leaf
        given = [*leaves[:count], *leaves[count + len(heads) :]]
        found = recorded_gradients(trace, body, ograds, given, needed)
        return trace.body(leaves, [g for g, n in zip(found, needed, strict=True) if n])
