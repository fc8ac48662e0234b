"""Shapes of parameters that follow from the arguments of a block: deferred initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.errors import MXNetError, ShapeError
from hybridc.ground.nesting import flatten
from hybridc.ground.state import STATE
from hybridc.symbol.composed import ComposedSymbol
from hybridc.symbol.infer import Shapes
from hybridc.symbol.variables import var
from hybridc.trace.tracer import known, trace_call


def infer_parameter_shapes(block: Any, args: Sequence[Any]) -> None:
    """Give every parameter that ``block(*args)`` uses the shape that follows from the arguments' shapes."""
    try:
        trace = trace_call(block, args, STATE.training)
    except ShapeError:
        if not _infer_backwards(block, args):
            raise
        return
    for leaf, role, parameter in zip(trace.leaves, trace.roles, trace.sources, strict=True):
        if role == "parameter":
            parameter.shape = leaf.shape


def infer_parameter_types(block: Any, args: Sequence[Any]) -> None:
    """Give every parameter that ``block(*args)`` uses the dtype that follows from the arguments' dtypes."""
    trace = trace_call(block, args, STATE.training)
    for leaf, role, parameter in zip(trace.leaves, trace.roles, trace.sources, strict=True):
        if role == "parameter" and leaf.dtype != parameter.dtype:
            parameter.dtype = leaf.dtype


def _infer_backwards(block: Any, args: Sequence[Any]) -> bool:
    """Infer shapes backwards, too, from the outputs of the block's graph; whether all parameters got theirs."""
    if not all(isinstance(a, NDArray) for a in args):
        return False
    given = {f"data{i}": a.shape for i, a in enumerate(args)}
    try:
        outputs, _ = flatten(block(*map(var, given)), (ComposedSymbol,), f"the result of {block.name}")
        entries = [entry for output in outputs for entry in output.entries]
        found = Shapes(entries, given, exact=True)
    except MXNetError:  # unknown or wrong shapes: the trace has the better error
        return False
    shapes = {node.name: found.get((node, 0)) for node in found.nodes if node.is_variable}
    params = [p for p in block.collect_params().values() if p.is_deferred]
    if not all(known(shapes.get(p.name)) for p in params):
        return False
    for p in params:
        p.shape = shapes[p.name]
    return True
