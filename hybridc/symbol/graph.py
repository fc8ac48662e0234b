"""The graph of a composed Symbol: nodes that refer to their input nodes.

An *entry* ``(node, index)`` is one result of a node. Nodes are shared between symbols; a graph is whatever can be
reached from some entries.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator
    from hybridc.ground.location import Location


class SymbolNode:
    """A variable (``op`` is None), or an operator with its inputs.

    ``attrs`` are the user's attributes, strings: ``"ctx_group"``, ``"__shape__"``, ``"__lr_mult__"``; the operator's
    own are bound in ``op``, and ``given`` has the text of those that a call or a file gave. Random keys are no inputs
    here. A number is an input that is a node of ``hybrid.constant``; it takes the dtype of the first array beside it.
    """

    __slots__ = ("attrs", "given", "inputs", "location", "name", "op")

    def __init__(
        self,
        op: Operator | None,
        name: str,
        inputs: Sequence[Entry] = (),
        attrs: dict[str, str] | None = None,
        location: Location | None = None,
        given: Mapping[str, str] | None = None,
    ) -> None:
        self.op = op
        self.name = name
        self.inputs = list(inputs)
        self.attrs = dict(attrs or {})
        self.location = location
        self.given = given or {}

    def __repr__(self) -> str:
        return f"Node({self.name}, {self.op!r})" if self.op is not None else f"Node({self.name})"

    def with_inputs(self, inputs: Sequence[Entry]) -> SymbolNode:
        """The same operator with other inputs."""
        return SymbolNode(self.op, self.name, inputs, self.attrs, self.location, self.given)

    def rebind(self, attributes: Mapping[str, Any]) -> None:
        """Change attributes of the operator."""
        assert self.op is not None
        self.op = self.op.bind(**{**self.op.attrs, **attributes})
        self.given = {**self.given, **self.op.spelled(attributes)}

    @property
    def is_variable(self) -> bool:
        """Whether this is an input of the graph."""
        return self.op is None

    @property
    def number(self) -> Any:
        """The number that this node stands for, or None."""
        return None if self.op is None else self.op.as_number()

    def num_outputs(self) -> int:
        """Number of visible results."""
        return 1 if self.op is None else self.op.num_visible_outputs()

    def output_names(self) -> list[str]:
        """Names of these results: ``fc1_output``; a variable's is its own."""
        if self.op is None:
            return [self.name]
        return [f"{self.name}_{name}" for name in self.op.output_names()[: self.num_outputs()]]


Entry = tuple[SymbolNode, int]


def topological(entries: Iterable[Entry]) -> list[SymbolNode]:
    """All nodes that the entries depend on, inputs first: the order in which MXNet lists them."""
    seen: set[int] = set()
    order: list[SymbolNode] = []
    for root, _ in entries:
        if id(root) in seen:
            continue
        seen.add(id(root))
        stack = [(root, iter(root.inputs))]
        while stack:
            node, rest = stack[-1]
            for source, _ in rest:
                if id(source) not in seen:
                    seen.add(id(source))
                    stack.append((source, iter(source.inputs)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def variables(entries: Iterable[Entry]) -> list[SymbolNode]:
    """The inputs of a graph, auxiliary states among them."""
    return [n for n in topological(entries) if n.is_variable]


def auxiliary(entries: Iterable[Entry]) -> list[SymbolNode]:
    """The inputs that operators update, such as running means."""
    return inputs(entries)[1]


def arguments(entries: Iterable[Entry]) -> list[SymbolNode]:
    """The inputs that are not auxiliary states."""
    return inputs(entries)[0]


def inputs(entries: Iterable[Entry]) -> tuple[list[SymbolNode], list[SymbolNode]]:
    """The arguments, and the auxiliary states."""
    nodes = topological(entries)
    leaves = [n for n in nodes if n.is_variable]
    updated: set[int] = set()
    for node in nodes:
        if node.op is not None:
            updated.update(id(node.inputs[i][0]) for i in node.op.auxiliary() if i < len(node.inputs))
    return [n for n in leaves if id(n) not in updated], [n for n in leaves if id(n) in updated]


def copied(entries: Sequence[Entry]) -> list[Entry]:
    """The same graph in nodes of its own."""
    return _rebuilt(entries, {}, copy.copy)


def owned(entries: Sequence[Entry]) -> list[Entry]:
    """The same graph, in which operators with a state have one of their own: that of an executor."""
    made = copied(entries)
    for node in topological(made):
        node.op = None if node.op is None else node.op.owned()
    return made


def structure(entries: Sequence[Entry]) -> tuple[Any, ...]:
    """What a graph computes: its operators, each with its inputs, and its variables by name.

    Operators that have a state of their own differ from all others.
    """
    nodes = topological(entries)
    numbers = {id(node): i for i, node in enumerate(nodes)}

    def numbered(sources: Sequence[Entry]) -> tuple[tuple[int, int], ...]:
        return tuple([(numbers[id(node)], i) for node, i in sources])

    return tuple([(node.op, node.name, numbered(node.inputs)) for node in nodes]), numbered(entries)


def substituted(entries: Sequence[Entry], replacements: dict[str, Entry]) -> list[Entry]:
    """A copy of the graph in which variables, by name, are replaced by results of other graphs.

    The other variables are shared: what is composed twice has its parameters once.
    """
    return _rebuilt(entries, replacements, lambda variable: variable)


def _rebuilt(
    entries: Sequence[Entry], replacements: dict[str, Entry], variable: Callable[[SymbolNode], SymbolNode]
) -> list[Entry]:
    made: dict[int, SymbolNode] = {}

    def moved(entry: Entry) -> Entry:
        node, index = entry
        if node.is_variable and node.name in replacements:
            return replacements[node.name]
        return made[id(node)], index

    for node in topological(entries):
        new = made[id(node)] = variable(node) if node.is_variable else copy.copy(node)
        if new is not node:
            new.attrs = dict(node.attrs)
            new.inputs = [moved(e) for e in node.inputs]
    return [moved(e) for e in entries]
