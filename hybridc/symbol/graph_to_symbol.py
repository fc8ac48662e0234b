"""From the graph level to a composed symbol: the inverse of :mod:`hybridc.symbol.symbol_to_graph`."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from hybridc import name
from hybridc.dialects.hybrid import HybridOp, location_of
from hybridc.dialects.operator import Operator
from hybridc.dialects.subgraph import Subgraph
from hybridc.errors import MXNetError
from hybridc.symbol.graph import Entry, Node
from hybridc.symbol.symbol_to_graph import Origins
from hybridc.transforms.values import functions


def graph_to_symbol(module: ModuleOp, origins: Origins) -> list[Entry]:
    """The results of the module's function; arguments and operations that have an origin keep its name and attributes.

    Random keys and train mode are not of a symbol: it gets them when it runs.
    """
    function = functions(module)[0]
    keys = _keys(function)
    values: dict[SSAValue, Entry] = {}
    for arg in function.body.block.args:
        if arg not in keys:
            values[arg] = (origins.get(arg) or Node(None, arg.name_hint or f"arg{arg.index}"), 0)
    for op in function.body.block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[v] for v in op.arguments]
        if not isinstance(op, HybridOp):
            raise MXNetError(f"{op.name} cannot be an operator of a symbol; hybrid operations can")
        operands = [v for v in op.operands if v not in keys]
        node = _node(op, [values[v] for v in operands], origins.get(op), len(operands) < len(op.operands))
        values |= {result: (node, i) for i, result in enumerate(op.results)}
    raise MXNetError("the graph has no return operation")


def _keys(function: func.FuncOp) -> set[BlockArgument]:
    roles = function.attributes.get("hybrid.roles")
    names = [r.data for r in cast("ArrayAttr[StringAttr]", roles)] if isinstance(roles, ArrayAttr) else []
    return {arg for arg, role in zip(function.body.block.args, names, strict=False) if role == "key"}


def _node(op: Operation, inputs: list[Entry], origin: Node | None, keyed: bool) -> Node:
    if origin is not None and [(id(n), i) for n, i in origin.inputs] == [(id(n), i) for n, i in inputs]:
        return origin
    if origin is not None:
        return Node(origin.op, origin.name, inputs, origin.attrs, origin.location)
    assert isinstance(op, HybridOp)
    operator: Operator = op.operator
    if isinstance(operator, Subgraph):
        return Node(_of_symbol(operator, keyed), operator.name, inputs, {}, location_of(op))
    hint: Any = op.results[0].name_hint
    label = hint or name.current().get(None, operator.title().lower())
    return Node(operator, label, inputs, {}, location_of(op))


def _of_symbol(operator: Subgraph, keyed: bool) -> Operator:
    """The subgraph as it is before a symbol runs: without train mode, key, and dtypes of numbers."""
    arguments = operator.input_names()
    return Subgraph.bind(
        **{
            **operator.attrs,
            "body": operator.body.with_numbers(lambda _: None),
            "arguments": arguments[:-1] if keyed and not operator.keyed else arguments,
            "keyed": keyed,
            "train": None,
        }
    )
