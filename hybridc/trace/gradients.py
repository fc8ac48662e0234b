"""Gradients inside a trace: appends the backward of what was traced so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.dialects.error_context import raise_located
from hybridc.dialects.gradient import vjp
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode


def append_gradients(trace: Trace, head: TracedSymbol, wanted: Sequence[TracedSymbol]) -> list[TracedSymbol | None]:
    """The gradients of the sum of ``head``; None for values that it does not depend on.

    Zeros where no gradient flows, as through floor or BlockGrad. Operators of the backward have the locations of those
    that they differentiate.
    """
    F = HOOKS.symbols()
    active, reached = _active(trace.nodes, wanted), ancestors(trace.nodes, head)
    grads: dict[int, TracedSymbol] = {}
    trace.forget_updates()
    tracked, trace.track_locations = trace.track_locations, False
    try:
        with trace.active():
            grads[id(head)] = F.ones(shape=head.shape, dtype=head.dtype)
            for node in trace.nodes[::-1]:
                if any(id(s) in grads for s in node.outputs) and any(id(s) in active for s in node.inputs):
                    _pull_back(F, trace, node, grads, active)
            for symbol in wanted:
                if id(symbol) in reached and id(symbol) not in grads:
                    grads[id(symbol)] = F.zeros(shape=symbol.shape, dtype=symbol.dtype)
    finally:
        trace.track_locations = tracked
    return [grads.get(id(symbol)) for symbol in wanted]


def _active(nodes: Sequence[TraceNode], wanted: Sequence[TracedSymbol]) -> set[int]:
    """The identities of the values that depend on ``wanted``."""
    active = {id(s) for s in wanted}
    for node in nodes:
        if any(id(s) in active for s in node.inputs):
            active.update(id(s) for s in node.outputs)
    return active


def ancestors(nodes: Sequence[TraceNode], head: TracedSymbol) -> set[int]:
    """The identities of the values that the head depends on."""
    reached = {id(head)}
    for node in reversed(nodes):
        if any(id(s) in reached for s in node.outputs):
            reached.update(id(s) for s in node.inputs)
    return reached


def _pull_back(F: Any, trace: Trace, node: TraceNode, grads: dict[int, TracedSymbol], active: set[int]) -> None:
    """Accumulate one operator's gradients into those of its inputs."""
    visible = node.outputs[: node.op.num_visible_outputs()]
    ograds = [grads[id(s)] if id(s) in grads else F.zeros(shape=s.shape, dtype=s.dtype) for s in visible]
    start = len(trace.nodes)
    try:
        input_grads = vjp(node.op, F, ograds, node.inputs, node.outputs, [id(s) in active for s in node.inputs])
    except MXNetError as error:
        if node.location is None:
            raise
        raise_located(error, node.location)
    for value, grad in zip(node.inputs, input_grads, strict=True):
        if grad is not None:
            known = grads.get(id(value))
            grads[id(value)] = grad if known is None else known + grad
    for recorded in trace.nodes[start:]:
        recorded.location = node.location
