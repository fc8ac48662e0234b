"""Shapes of parameters that follow from the arguments of a block: deferred initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.ground.state import STATE
from hybridc.trace.tracer import trace_call


def infer_parameter_shapes(block: Any, args: Sequence[Any]) -> None:
    """Give every parameter that ``block(*args)`` uses the shape that follows from the arguments' shapes."""
    trace = trace_call(block, args, STATE.training)
    for leaf, role, parameter in zip(trace.leaves, trace.roles, trace.sources, strict=True):
        if role == "parameter":
            parameter.shape = leaf.shape
    trace.release()


def infer_parameter_types(block: Any, args: Sequence[Any]) -> None:
    """Give every parameter that ``block(*args)`` uses the dtype that follows from the arguments' dtypes."""
    trace = trace_call(block, args, STATE.training)
    for leaf, role, parameter in zip(trace.leaves, trace.roles, trace.sources, strict=True):
        if role == "parameter" and leaf.dtype != parameter.dtype:
            parameter.dtype = leaf.dtype
    trace.release()
