"""From a trace to the graph level: one ``func.func`` of ``hybrid`` operations on ranked tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hybridc.dialects.body import Body
from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import GRADS, HEADS, OUTPUTS, ROLES, TRAINING, UPDATES
from hybridc.dialects.mlir.hybrid import HybridOp, body_to_region, tensor_type
from hybridc.trace.tracer import Trace, TraceNode


def identifier(name: str) -> str:
    """A valid IR identifier of a name."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"v{cleaned}"


def operations(nodes: Iterable[TraceNode], values: dict[int, SSAValue]) -> list[Operation]:
    """The operations of trace nodes; ``values`` maps identities of Symbols to SSA values, and gets the results."""
    ops: list[Operation] = []
    for node in nodes:
        op = HybridOp.build_op(node.op, [values[id(s)] for s in node.inputs], node.location)
        for symbol, result in zip(node.outputs, op.results, strict=True):
            values[id(symbol)] = result
        ops.append(op)
    return ops


def trace_to_graph(
    trace: Trace, grads: Sequence[int] = (), name: str = "forward", heads: Sequence[int] | None = None
) -> ModuleOp:
    """The module of a trace; ``grads`` are indices of the inputs to differentiate.

    ``heads`` are indices of the results whose gradients the backward takes; None for all.
    """
    types = [tensor_type(s.shape, s.dtype) for s in trace.leaves]
    block = Block(arg_types=types)
    values: dict[int, Any] = {}
    for symbol, arg in zip(trace.leaves, block.args, strict=True):
        arg.name_hint = identifier(symbol.name)
        values[id(symbol)] = arg
    block.add_ops(operations(trace.nodes, values))
    results = [values[id(s)] for s in trace.outputs]
    block.add_op(func.ReturnOp(*results))
    function = func.FuncOp(name, FunctionType.from_lists(types, [r.type for r in results]), Region(block))
    ROLES.put(function, trace.roles)
    if grads:
        GRADS.put(function, grads)
    if heads is not None:
        HEADS.put(function, heads)
    if trace.updates:
        OUTPUTS.put(function, len(results) - len(trace.updates))
        UPDATES.put(function, trace.updates)
    if trace.training:
        TRAINING.put(function, True)
    return ModuleOp([function])


def body_to_function(body: Body, name: str, arguments: Sequence[str], types: Sequence[Attribute]) -> ModuleOp:
    """A nested graph as a function in a module of its own."""
    region = body_to_region(body, types)
    for arg, label in zip(region.block.args, arguments, strict=True):
        arg.name_hint = identifier(label)
    end = region.block.last_op
    assert end is not None
    results = list(end.operands)
    erase_op(end)
    region.block.add_op(func.ReturnOp(*results))
    kind = FunctionType.from_lists(types, [v.type for v in results])
    return ModuleOp([func.FuncOp(name, kind, region)])
