"""The forward of a block as a graph of symbols, whose shapes are inferred forwards and backwards.

A trace knows the shape of every value when it is made, but ``F.zeros(shape=(0, n))`` asks for the size that its use
gives it, as MXNet's recurrent programs do. Such a forward is called once with symbols, and what it composed is traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.errors import OpenShapeError
from hybridc.ground.nesting import flatten, regroup
from hybridc.ground.state import STATE
from hybridc.symbol import graph
from hybridc.symbol.bind import evaluate
from hybridc.symbol.composed import ComposedSymbol
from hybridc.symbol.variables import var
from hybridc.trace.traced import Symbol
from hybridc.trace.tracer import Trace, trace_call


class ComposedForward:
    """``block(*args)`` as the graph that it composes when it is called with symbols."""

    def __init__(self, block: Any, args: Sequence[Any]) -> None:
        self.name = block.name
        arrays, structure = flatten(list(args), NDArray, f"the arguments of {block.name}")
        names = [f"data{i}" for i in range(len(arrays))]
        self.shapes = {name: a.shape for name, a in zip(names, arrays, strict=True)}
        result = block(*regroup([var(name) for name in names], structure))
        outputs, self.structure = flatten(result, (ComposedSymbol,), f"the result of {block.name}")
        self.entries = [entry for output in outputs for entry in output.entries]
        used = {node.name for node in graph.variables(self.entries)}
        self.parameters = [p for p in block.collect_params().values() if p.name in used]

    def __call__(self, *args: Any) -> Any:
        """The results for traced values, which are recorded."""
        given, _ = flatten(list(args), (Symbol,), f"the arguments of {self.name}")
        values = dict(zip(self.shapes, given, strict=True))
        parameters = {p.name: STATE.trace.parameter(p) for p in self.parameters}
        return regroup(evaluate(self.entries, {**parameters, **values}), self.structure)


def trace_forward(block: Any, args: Sequence[Any], training: bool) -> Trace:
    """The trace of ``block(*args)``, of what it composes if shapes must be inferred backwards."""
    try:
        return trace_call(block, args, training, refuses_open_shapes=True)
    except OpenShapeError:
        pass
    try:
        composed = ComposedForward(block, args)
    except Exception:  # it takes no symbols: a size 0 is no more than that
        return trace_call(block, args, training)
    return trace_call(composed, args, training)
