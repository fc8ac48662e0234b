"""Loops and branches of composed symbols: ``mx.sym.contrib.foreach``, ``while_loop`` and ``cond``.

A function is called once, on variables. What it makes is the graph inside the operator; variables, and what it uses of
the graph around it, become inputs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from hybridc import attribute
from hybridc import name as naming
from hybridc.array.ndarray import NDArray
from hybridc.dialects.body import Body
from hybridc.dialects.control.branch import Branch
from hybridc.dialects.control.loop import ForLoop, WhileLoop
from hybridc.dialects.operator import Operator
from hybridc.errors import ArgumentTypeError, AttributeValueError, MXNetError
from hybridc.ground.nesting import Structure, as_list, flatten, regroup
from hybridc.nd import control_flow
from hybridc.symbol.composed import COMPOSER, ComposedSymbol
from hybridc.symbol.graph import Entry, SymbolNode, topological, variables
from hybridc.symbol.infer import is_open
from hybridc.symbol.subgraph_nodes import graph_operator, nodes_to_step
from hybridc.trace.traced import Symbol

_MARK = "__subgraph_name__"  # MXNet's attribute of what a function makes: the name of its graph

# What an input of an inner graph is: data or a state and its number, or a value of the graph around it.
_Key = tuple[Any, int]


@control_flow.at_users_line
def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """Call ``body(data[i], states)`` for each index of the first axis; see ``mx.nd.contrib.foreach``."""
    given, states = _Symbols(data, f"{name}: data"), _Symbols(init_states, f"{name}: init_states")
    if not given.entries:
        raise AttributeValueError(f"{name}: data must have at least one symbol, got none")
    inner = _Inner(name)
    each, held = inner.leaves("data", given), inner.leaves("state", states)
    with inner.scope():
        result = body(each, held)
    out, after = control_flow.pair(result, f"{name}: body", "(outputs, states)")
    outputs = _Symbols(out, f"{name}: an output of body")
    inner.finish([*outputs.entries, *_next_states(name, "body", states, after)])
    outer = {**given.keyed("data"), **states.keyed("state")}
    outer |= inner.captured
    op = graph_operator(ForLoop, [inner.body(outer)], data=len(given.entries), states=len(states.entries))
    return _regrouped(_node("_foreach", op, outer.values()), outputs, states)


@control_flow.at_users_line
def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., tuple[Any, Any]],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> Any:
    """Call ``func(*loop_vars)`` while ``cond(*loop_vars)``; see ``mx.nd.contrib.while_loop``.

    The outputs of a loop that runs no step are zeros.
    """
    most = control_flow.most_steps(max_iterations, name)
    states = _Symbols(as_list(loop_vars), f"{name}: loop_vars")
    if not states.entries:
        raise AttributeValueError(f"{name}: loop_vars must have at least one symbol, got none")
    asking = _Inner(f"{name}_cond")
    asked = asking.leaves("state", states)
    with asking.scope():
        answer = _Symbols(cond(*asked), f"{name}: what cond returns").entries
    if len(answer) != 1:
        raise MXNetError(f"{name}: cond must return one symbol, got {len(answer)}")
    asking.finish(answer)
    inner = _Inner(f"{name}_func")
    held = inner.leaves("state", states)
    with inner.scope():
        result = func(*held)
    out, after = control_flow.pair(result, f"{name}: func", "(outputs, loop_vars)")
    outputs = _Symbols([] if out is None else out, f"{name}: an output of func")
    inner.finish([*outputs.entries, *_next_states(name, "func", states, [] if after is None else as_list(after))])
    # Inputs are in the order in which the graphs use them, as in MXNet; what these do not use follows.
    # COMPAT(mxnet): a variable that both graphs use is an input twice there, one that no step uses an error.
    known = {**states.keyed("state"), **asking.captured, **inner.captured}
    outer = {key: known[key] for key in [*asking.used, *inner.used, *known]}
    places = tuple(list(outer).index(key) for key in states.keyed("state"))
    bodies = [inner.body(outer), asking.body(outer)]
    op = graph_operator(WhileLoop, bodies, states=len(states.entries), most=most, places=places)
    rows, last = _regrouped(_node("_while_loop", op, outer.values()), outputs, states)
    return rows, last[0] if isinstance(loop_vars, ComposedSymbol) and len(loop_vars.entries) == 1 else last


@control_flow.at_users_line
def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """What ``then_func()`` returns if a number is not zero, else what ``else_func()`` does."""
    if not isinstance(pred, Symbol):
        return control_flow.cond(pred, then_func, else_func, name)
    asked = _Symbols(pred, f"{name}: pred").entries
    if len(asked) != 1:
        raise MXNetError(f"{name}: pred must be one symbol, got {len(asked)}")
    inner = [_Inner(f"{name}_then"), _Inner(f"{name}_else")]
    made: list[_Symbols] = []
    for graph, branch in zip(inner, (then_func, else_func), strict=True):
        with graph.scope():
            result = branch()
        made.append(_Symbols(result, f"{name}: what {'then' if graph is inner[0] else 'else'}_func returns"))
        graph.finish(made[-1].entries)
    # COMPAT(mxnet): it compares the numbers of results only.
    counts = [len(results.entries) for results in made]
    if counts[0] != counts[1]:
        raise MXNetError(f"{name}: both functions must return as many symbols, got {counts[0]} and {counts[1]}")
    node, index = asked[0]
    outer = {(id(node), index): asked[0], **inner[0].captured, **inner[1].captured}
    op = graph_operator(Branch, [graph.body(outer) for graph in inner])
    return made[0].of(_node("_cond", op, outer.values()))


def _node(hint: str, op: Operator, inputs: Any) -> list[ComposedSymbol]:
    """The results of a new node."""
    with COMPOSER.naming(None, hint, {}):
        made = COMPOSER.invoke(op, [ComposedSymbol([entry]) for entry in inputs])
    return [ComposedSymbol([entry]) for entry in made.entries]


def _regrouped(found: list[ComposedSymbol], outputs: _Symbols, states: _Symbols) -> tuple[Any, Any]:
    count = len(outputs.entries)
    return outputs.of(found[:count]), states.of(found[count:])


def _next_states(name: str, called: str, before: _Symbols, after: Any) -> list[Entry]:
    values = _Symbols(after, f"{name}: a state that {called} returns").entries
    if len(values) != len(before.entries):
        raise MXNetError(
            f"{name}: {called} must return {len(before.entries)} states, as many as it is given, got {len(values)}"
        )
    return values


class _Symbols:
    """Values of nested lists of symbols; a symbol of several results is a list of these."""

    def __init__(self, given: Any, what: str) -> None:
        found, structure = flatten(given, (Symbol, NDArray), what)
        wrong = next((x for x in found if not isinstance(x, ComposedSymbol)), None)
        if wrong is not None:
            raise ArgumentTypeError(
                f"{what} must be symbols, got {type(wrong).__name__}; make it a variable, mx.sym.var(name), and give "
                "the array when the symbol is bound"
            )
        self.entries: list[Entry] = [entry for x in found for entry in x.entries]
        self._structure = _of_lists(structure, iter([len(x.entries) for x in found]))

    def of(self, values: Sequence[Any]) -> Any:
        """Other values in these lists."""
        return regroup(values, self._structure)

    def keyed(self, kind: str) -> dict[_Key, Entry]:
        """The values by what they are in an inner graph."""
        return {(kind, i): entry for i, entry in enumerate(self.entries)}


def _of_lists(structure: Structure, counts: Any) -> Structure:
    """The structure of lists, as MXNet returns them; each leaf has so many results."""
    if isinstance(structure, list | tuple):
        return [_of_lists(part, counts) for part in as_list(structure)]
    if structure is None:
        return None
    count = next(counts)
    return 0 if count == 1 else [0] * count


class _Inner:
    """The graph that a function makes."""

    def __init__(self, name: str) -> None:
        around = attribute.current().get().get(_MARK, "")
        self._name = naming.current().get(None, f"{around}${name}" if around else name)
        self._leaves: set[int] = set()
        self._variables: dict[_Key, SymbolNode] = {}
        self._entries: list[Entry] = []
        self.captured: dict[_Key, Entry] = {}  # values of the graph around it, in the order in which it uses them
        self.used: list[_Key] = []  # its inputs in that order

    def scope(self) -> attribute.AttrScope:
        """What is made inside is marked."""
        return attribute.AttrScope(**{_MARK: self._name})

    def leaves(self, kind: str, symbols: _Symbols) -> Any:
        """Variables that stand for symbols, or for a row of each."""
        made: list[ComposedSymbol] = []
        for key, (node, index) in symbols.keyed(kind).items():
            variable = self._variables[key] = SymbolNode(None, f"{node.name}-{index}", (), {_MARK: self._name})
            self._leaves.add(id(variable))
            made.append(ComposedSymbol([(variable, 0)]))
        return symbols.of(made)

    def finish(self, results: Sequence[Entry]) -> None:
        """Set the results: what does not belong to this graph is cut off.

        What was made in the function belongs to it, and what depends on that, such as the copy of a graph that was
        composed before.
        """
        around: dict[_Key, Entry] = {}
        inside: dict[int, SymbolNode] = {}

        def moved(entry: Entry) -> Entry:
            node, index = entry
            if node.number is not None or id(node) in self._leaves:
                return entry
            if id(node) in inside:
                return inside[id(node)], index
            key = id(node), index
            around[key] = entry
            if key not in self._variables:
                own = node.attrs if node.is_variable else None
                self._variables[key] = SymbolNode(None, node.output_names()[index], (), own)
            return self._variables[key], 0

        for node in topological(results):
            if self._belongs(node, inside):
                new = inside[id(node)] = copy.copy(node)
                new.inputs = [moved(entry) for entry in node.inputs]
        self._entries = [moved(entry) for entry in results]
        keys = {id(variable): key for key, variable in self._variables.items()}
        self.used = [keys[id(variable)] for variable in variables(self._entries)]
        self.captured = {key: around[key] for key in self.used if key in around}

    def _belongs(self, node: SymbolNode, inside: dict[int, SymbolNode]) -> bool:
        if node.is_variable or node.number is not None or is_open(node):
            return False
        return node.attrs.get(_MARK) == self._name or any(
            id(n) in inside or id(n) in self._leaves for n, _ in node.inputs
        )

    def body(self, outer: dict[_Key, Entry]) -> tuple[Body, bool]:
        """The body of these inputs."""
        arguments = [self._variables.get(key) or SymbolNode(None, "unused") for key in outer]
        return nodes_to_step(self._entries, arguments)


COMPOSED = {control_flow.foreach: foreach, control_flow.while_loop: while_loop, control_flow.cond: cond}
