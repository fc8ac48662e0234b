"""A symbol's graph on arrays of which some are sparse: operators on these run at once, the rest is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.running.bind import evaluate
from hybridc.symbol.running.symbol_graphs import SymbolGraphs


class SparseGraphs:
    """The results of a graph for values of its variables; ``who`` calls it, which compilations tell.

    What an operator on a sparse array needs runs at once, too. Autograd records both parts.
    """

    def __init__(self, entries: Sequence[Entry], graphs: SymbolGraphs, who: str) -> None:
        self._entries = entries
        self._nodes = [n for n in graph.topological(entries) if n.op is not None and n.number is None]
        self._graphs = graphs
        self._who = who
        self._divided: dict[frozenset[int], _Rest] = {}  # by the nodes that ran at once
        self._latest: list[str] = []  # their names, in the latest call

    def __call__(self, values: Mapping[str, NDArray]) -> list[NDArray]:
        """The results; auxiliary states among the values are updated."""
        results: dict[int, list[Any]] = {}

        def is_sparse(entry: Entry) -> bool:
            node, i = entry
            if node.is_variable:
                return values[node.name].stype != "default"
            return node.number is None and id(node) in results and results[id(node)][i].stype != "default"

        for node in self._nodes:
            if id(node) not in results and any(map(is_sparse, node.inputs)):
                evaluate([(node, 0)], values, results)
        done = [n for n in self._nodes if id(n) in results]
        self._latest = [n.name for n in done]
        rest = self._rest(done)
        inputs = {name: values[name] for name in rest.variables}
        inputs |= {name: results[id(node)][i] for name, (node, i) in rest.given.items()}
        computed = iter(self._graphs.run(rest.entries, inputs, self._who) if rest.entries else ())
        return [
            values[node.name] if node.is_variable else results[id(node)][i] if id(node) in results else next(computed)
            for node, i in self._entries
        ]

    def explain(self) -> list[str]:
        """A line on the latest call."""
        names = ", ".join(self._latest)
        return [f"sparse arrays: {names} ran at once, the rest is compiled"] if names else []

    def _rest(self, done: Sequence[SymbolNode]) -> _Rest:
        key = frozenset(map(id, done))
        if key not in self._divided:
            self._divided[key] = _Rest(self._entries, self._nodes, key)
        return self._divided[key]


class _Rest:
    """What is left of a graph when some of its nodes ran: a graph of its own, with variables for their results."""

    def __init__(self, entries: Sequence[Entry], nodes: Sequence[SymbolNode], done: frozenset[int]) -> None:
        #: The values of these variables are results of the nodes that ran.
        self.given: dict[str, Entry] = {}
        self._done = done
        self._moved: dict[int, SymbolNode] = {}
        self._places: dict[tuple[int, int], SymbolNode] = {}
        for node in nodes:
            if id(node) not in done:
                self._moved[id(node)] = node.with_inputs([self._entry(e) for e in node.inputs])
        self.entries = [self._entry(e) for e in entries if not e[0].is_variable and id(e[0]) not in done]
        names = dict.fromkeys(n.name for n in graph.variables(self.entries))
        #: The other variables.
        self.variables = [name for name in names if name not in self.given]

    def _entry(self, entry: Entry) -> Entry:
        node, i = entry
        if id(node) not in self._done:
            return self._moved.get(id(node), node), i
        place = id(node), i
        if place not in self._places:
            name = f"{node.name} {len(self._places)}"  # no variable has a space in its name, nor two results one
            self._places[place] = SymbolNode(None, name)
            self.given[name] = entry
        return self._places[place], 0
