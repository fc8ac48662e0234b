"""Loops and branches in MXNet's files: how the inputs of their graphs belong to those of the node."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from hybridc.dialects.array.cast import Identity
from hybridc.dialects.body import Body
from hybridc.dialects.control.branch import Branch
from hybridc.dialects.control.loop import ForLoop, WhileLoop
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.symbol.graph import Entry, SymbolNode, substituted, topological, variables
from hybridc.symbol.subgraph_nodes import graph_operator, nodes_to_step

#: The operators with graphs inside that MXNet has.
LOOPS = (ForLoop, WhileLoop, Branch)


def read_loop(
    cls: Any, attrs: Mapping[str, str], graphs: Sequence[list[Entry]], inputs: list[Entry]
) -> tuple[Operator, list[Entry]]:
    """The operator of a node, and its inputs."""
    wanted = {ForLoop: 1, WhileLoop: 2, Branch: 3}[cls]
    if len(graphs) != wanted:
        raise MXNetError(f"it has {len(graphs)} subgraphs, expected {wanted}")
    return {ForLoop: _foreach, WhileLoop: _while_loop, Branch: _cond}[cls](attrs, graphs, inputs)


def _foreach(attrs: Mapping[str, str], graphs: Sequence[list[Entry]], inputs: list[Entry]) -> Any:
    data, states, rest = (_places(attrs, f"{name}_locs") for name in ("in_data", "in_state", "remain"))
    places = [*data, *states, *rest]
    count = _count(attrs, "num_outputs", graphs[0])
    if sorted(places) != list(range(len(inputs))) or _count(attrs, "num_out_data") != count - len(states):
        raise MXNetError(f"its {len(inputs)} inputs and {count} outputs do not go with {dict(attrs)}")
    order = [places.index(i) for i in range(len(places))]
    body = _body(graphs[0], "the subgraph", order, len(inputs))
    return graph_operator(ForLoop, [body], data=len(data), states=len(states)), inputs


def _while_loop(attrs: Mapping[str, str], graphs: Sequence[list[Entry]], inputs: list[Entry]) -> Any:
    asked, step = _places(attrs, "cond_input_locs"), _places(attrs, "func_input_locs")
    held = _places(attrs, "func_var_locs")
    count = _count(attrs, "num_outputs", graphs[1])
    if any(not 0 <= i < len(step) for i in held) or _count(attrs, "num_out_data") != count - len(held):
        raise MXNetError(f"its {len(inputs)} inputs and {count} outputs do not go with {dict(attrs)}")
    bodies = [
        _body(graphs[1], "func", step, len(inputs)),
        _body(graphs[0][:1], "cond", asked, len(inputs)),
    ]
    most = _count(attrs, "max_iterations")
    places = tuple(step[i] for i in held)
    return graph_operator(WhileLoop, bodies, states=len(held), most=most, places=places), inputs


def _cond(attrs: Mapping[str, str], graphs: Sequence[list[Entry]], inputs: list[Entry]) -> Any:
    """The graph of the condition is made a part of the graph around it, for it is computed once."""
    asked, then, otherwise = (_places(attrs, f"{name}_input_locs") for name in ("cond", "then", "else"))
    _count(attrs, "num_outputs", graphs[1])
    _count(attrs, "num_outputs", graphs[2])
    given = _given(graphs[0], "cond", asked, len(inputs))
    condition = substituted(graphs[0][:1], {node.name: inputs[i] for node, i in given})[0]
    if isinstance(condition[0].op, Identity):  # MXNet's own: results are no inputs there
        condition = condition[0].inputs[0]
    used = [i for i in range(len(inputs)) if i in {*then, *otherwise}]
    same = next((i for i in used if _same(inputs[i], condition)), None)
    kept = [i for i in used if i != same]
    numbers = {old: new for new, old in enumerate(kept, 1)} | ({} if same is None else {same: 0})
    bodies = [
        _body(graph, what, [numbers.get(i, -1) for i in places], 1 + len(kept))
        for graph, what, places in ((graphs[1], "then", then), (graphs[2], "else", otherwise))
    ]
    return graph_operator(Branch, bodies), [condition, *[inputs[i] for i in kept]]


def _same(a: Entry, b: Entry) -> bool:
    return a[0] is b[0] and a[1] == b[1]


def _places(attrs: Mapping[str, str], name: str) -> list[int]:
    try:
        found: Any = ast.literal_eval(attrs[name].replace("L", ""))
        return [int(i) for i in found]
    except KeyError:
        raise MXNetError(f"attribute {name} is missing") from None
    except (ValueError, SyntaxError, TypeError):
        raise MXNetError(f"attribute {name} takes a list of integers, got {attrs[name]!r}") from None


def _count(attrs: Mapping[str, str], name: str, graph: Sequence[Entry] | None = None) -> int:
    """An attribute that is a count: of the results of a graph."""
    try:
        found = int(attrs[name])
    except KeyError:
        raise MXNetError(f"attribute {name} is missing") from None
    except ValueError:
        raise MXNetError(f"attribute {name} takes an integer, got {attrs[name]!r}") from None
    if found < 0 or (graph is not None and len(graph) != found):
        raise MXNetError(f"attribute {name} is {found}" + (f" for {len(graph)} results" if graph is not None else ""))
    return found


def _given(entries: Sequence[Entry], what: str, places: Sequence[int], count: int) -> list[tuple[SymbolNode, int]]:
    """The variables of a graph, and which of so many inputs each is."""
    nodes = variables(entries)
    if len(nodes) != len(places) or any(not 0 <= i < count for i in places):
        raise MXNetError(
            f"{what} has {len(nodes)} variables, for which it is given the inputs {list(places)} of {count}"
        )
    return list(zip(nodes, places, strict=True))


def _body(entries: Sequence[Entry], what: str, places: Sequence[int], count: int) -> tuple[Body, bool]:
    """A graph whose variables are these of so many arguments; and whether it needs a random key."""
    inside = [SymbolNode(None, f"argument{i}") for i in range(count)]
    found = _given(entries, what, places, count)
    for node, i in found:
        inside[i].attrs = node.attrs
    given = {id(node): i for node, i in found}
    for node in topological(entries):
        node.inputs = [(inside[given[id(n)]], i) if id(n) in given else (n, i) for n, i in node.inputs]
    heads = [(inside[given[id(n)]], i) if id(n) in given else (n, i) for n, i in entries]
    return nodes_to_step(heads, inside)
