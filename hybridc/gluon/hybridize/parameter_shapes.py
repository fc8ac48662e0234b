"""Shapes of parameters that follow from the arguments of a block: deferred initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.errors import MXNetError, ShapeError
from hybridc.gluon.hybridize.composed_forward import ComposedForward
from hybridc.ground.state import STATE
from hybridc.symbol.infer import Shapes
from hybridc.trace.tracer import known, trace_call


def infer_parameter_shapes(block: Any, args: Sequence[Any]) -> None:
    """Give every parameter that ``block(*args)`` uses the shape that follows from the arguments' shapes."""
    try:
        trace = trace_call(block, args, STATE.training, refuses_open_shapes=True)
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
    try:
        composed = ComposedForward(block, args)
        found = Shapes(composed.entries, composed.shapes, exact=True)
    except (MXNetError, TypeError):  # unknown or wrong shapes, or no symbols: the trace has the better error
        return False
    shapes = {node.name: found.get((node, 0)) for node in found.nodes if node.is_variable}
    params = [p for p in block.collect_params().values() if p.is_deferred]
    if not all(known(shapes.get(p.name)) for p in params):
        return False
    for p in params:
        p.shape = shapes[p.name]
    return True
