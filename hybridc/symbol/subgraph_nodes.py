"""Subgraphs in files: the body of an operator as a graph of nodes, and back."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hybridc import name as naming
from hybridc import subgraph
from hybridc.dialects import operator_registry
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.interchange import NestedGraph
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import inside_rule
from hybridc.symbol.graph import Entry, SymbolNode, topological

_NAMES = ("backend", "partitioner")
_PAIRS = ("options", "properties")


def body_to_nodes(body: Body, variables: Sequence[SymbolNode], count: int) -> list[Entry]:
    """The first ``count`` results of a body, of which these are the arguments; random keys are left out."""
    values: list[Any] = [(node, 0) for node in variables]
    values += [None] * (body.arguments - len(variables))
    taken = {node.name for node in variables}
    for step in body.steps:
        op = step.op
        inputs = [values[i] for i in step.inputs[: len(step.inputs) - op.DRAWS]]
        if not step.inputs and "value" in op.ATTRIBUTES:
            op = op.bind(value=op.attrs["value"])
            node = SymbolNode(op, str(op.attrs["value"]))
        else:
            name = _unique(step.name or f"{op.title().lower()}0", taken)
            node = SymbolNode(op, name, inputs, dict(step.attrs), step.location, step.given)
        values += [(node, i) for i in range(len(step.outputs))]
    return [values[i] for i in body.results[:count]]


def graph_to_nodes(graph: NestedGraph) -> tuple[list[Entry], list[SymbolNode]]:
    """The results of a nested graph of a file, and the variables that its arguments are."""
    taken: set[str] = set()
    described = graph.body.described
    variables = [
        SymbolNode(None, _unique(name, taken), (), dict(described[i]) if i < len(described) else None)
        for i, name in enumerate(graph.arguments)
    ]
    entries = body_to_nodes(graph.body, variables, graph.results)
    unused = [variables[i] for i in graph.used if variables[i] not in topological(entries)]
    for variable in unused:
        entries[0] = _also_using(entries[0], variable)
    if graph.apart:
        seen: set[tuple[int, int]] = set()
        for i, (node, index) in enumerate(entries):
            if node.is_variable or (id(node), index) in seen:
                copy = operator_registry.operator("hybrid.identity").bind()
                entries[i] = SymbolNode(copy, _unique(f"identity{i}", taken), [(node, index)]), 0
            seen.add((id(node), index))
    return entries, variables


def _also_using(entry: Entry, variable: SymbolNode) -> Entry:
    """An equal value that depends on a variable, too: the element of an axis of one at the sum of its zeros."""
    F = HOOKS.symbols()
    value, other = F.ComposedSymbol([entry]), F.ComposedSymbol([(variable, 0)])
    with naming.Prefix(f"{variable.name}_unused_"), inside_rule():
        zero = F.sum(F.zeros_like(other))
        return F.squeeze(F.take(F.expand_dims(value, axis=0), F.reshape(zero, shape=(1,)), axis=0), axis=0).entries[0]


def _unique(name: str, taken: set[str]) -> str:
    stem, number = re.sub(r"\d+$", "", name), 0
    while name in taken:
        name, number = f"{stem}{number}", number + 1
    taken.add(name)
    return name


def nodes_to_body(entries: Sequence[Entry], variables: Sequence[SymbolNode]) -> tuple[Body, tuple[int, ...], bool]:
    """The body of a graph with these variables as arguments; the arguments that it updates; whether it needs a key."""
    nodes = [n for n in topological(entries) if not n.is_variable]
    keyed = any(n.op is not None and n.op.DRAWS for n in nodes)
    places: dict[int, int] = {id(n): i for i, n in enumerate(variables)}
    count = len(variables) + keyed
    steps: list[BodyStep] = []
    for node in nodes:
        assert node.op is not None
        op = node.op if node.number is None else node.op.bind(value=node.number, dtype=None)
        inputs = [places[id(n)] + i for n, i in node.inputs] + [len(variables)] * op.DRAWS
        places[id(node)] = count
        name = node.name if node.number is None else ""
        steps.append(BodyStep(op, inputs, count, node.location, name, node.given, node.attrs))
        count += op.num_outputs()
    arguments = len(variables) + keyed
    updated = Body(arguments, steps, ()).updated()
    results = [places[id(n)] + i for n, i in entries]
    described = [node.attrs for node in variables]
    return Body(arguments, steps, [*results, *updated.values()], described), tuple(updated), keyed


def read_subgraph(
    operator: str,
    label: str,
    attrs: Mapping[str, str],
    graphs: Sequence[tuple[list[Entry], list[SymbolNode]]],
    inputs: int,
) -> Operator:
    """The operator of a node that has a graph inside."""
    own = {k: v for k, v in attrs.items() if not k.startswith("__")}
    runner = subgraph.partitioner_of(operator)
    if runner is not None:
        given: dict[str, Any] = dict(zip(_NAMES, runner, strict=True))
        given["properties"] = tuple(own.items())
    elif operator == "subgraph" and len(graphs) == 1:
        given = {name: own.get(name, "") for name in _NAMES}
        given |= {name: _pairs(name, own.get(name, "{}")) for name in _PAIRS}
    else:
        raise MXNetError(
            f"no backend runs subgraphs with the operator {operator!r}; load its library first, with "
            "mx.library.load(path)"
        )
    entries, variables = graphs[0]
    if len(variables) != inputs:
        raise MXNetError(f"its graph takes {len(variables)} inputs, got {inputs}")
    body, updates, keyed = nodes_to_body(entries, variables)
    names = tuple(n.name for n in variables)
    cls = operator_registry.operator("hybrid.subgraph")
    return cls.bind(body=body, name=label, arguments=names, updates=updates, keyed=keyed, **given)


def _pairs(name: str, text: str) -> tuple[tuple[str, Any], ...]:
    try:
        return tuple(ast.literal_eval(text).items())
    except (ValueError, SyntaxError, AttributeError):
        raise MXNetError(f"attribute {name} takes a dict, got {text!r}") from None


def nodes_to_step(entries: Sequence[Entry], variables: Sequence[SymbolNode]) -> tuple[Body, bool]:
    """As :func:`nodes_to_body`, for a graph whose inputs are updated where it runs, each time; whether it has a key."""
    body, _, keyed = nodes_to_body(entries, variables)
    return Body(body.arguments, body.steps, body.results[: len(entries)], body.described), keyed


def graph_operator(cls: Any, bodies: Sequence[tuple[Body, bool]], **attrs: Any) -> Operator:
    """A loop or branch of the bodies of :func:`nodes_to_step`; all get a key if one needs it."""
    keyed = any(needs for _, needs in bodies)
    counters = [sum(step.op.num_samples() for step in body.steps) for body, _ in bodies]
    names = [name for name, declared in cls.ATTRIBUTES.items() if declared.kind == "Body"]
    made = {
        name: body if needs or not keyed else _with_key(body) for name, (body, needs) in zip(names, bodies, strict=True)
    }
    return cls.bind(**made, counters=sum(counters), **attrs)


def _with_key(body: Body) -> Body:
    """The body with one more argument, a random key that it does not use."""
    count = body.arguments

    def moved(values: Sequence[int]) -> list[int]:
        return [i + (i >= count) for i in values]

    steps = [step.moved(moved(step.inputs), step.first + 1) for step in body.steps]
    return Body(count + 1, steps, moved(body.results), body.described)
