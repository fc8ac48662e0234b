"""Symbols of what was recorded: nodes of graphs for those of traces and of autograd's tape."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from hybridc import name as naming
from hybridc.autograd import CopyRule, Leaf, TapeNode, freed_error
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.symbol.composed import ComposedSymbol
from hybridc.symbol.graph import Entry, SymbolNode


def node_of(op: Operator, name: str, inputs: Sequence[Entry], outputs: int) -> list[Entry]:
    """A node for an operator that was recorded; its results, of which those of mutated inputs are these inputs."""
    op = op.undecided()
    made = SymbolNode(op, name, inputs[:-1] if op.DRAWS else inputs)
    new = outputs - len(op.mutated)
    return [(made, i) if i < new else made.inputs[op.mutated[i - new]] for i in range(outputs)]


def add_recorded(
    op: Operator, inputs: Sequence[Any], outputs: Sequence[Any], entries: MutableMapping[int, Entry]
) -> None:
    """Put the results of a node of a trace into ``entries``, which are by the identity of the trace's values."""
    given = [entries[id(x)] for x in (inputs[:-1] if op.DRAWS else inputs)]
    if op.DRAWS:
        given.append((SymbolNode(None, "key"), 0))
    results = node_of(op, naming.current().get(None, op.title().lower()), given, len(outputs))
    entries.update((id(x), entry) for x, entry in zip(outputs, results, strict=True))


class _Tape:
    """The graph of an array that autograd recorded: variables are var0, var1, …, operators node_0, node_1, …"""

    def __init__(self) -> None:
        self._variables: dict[int, Entry] = {}
        self._results: dict[int, list[Entry]] = {}
        self._alive: list[Any] = []  # while identities of arrays are keys
        self._count = 0

    def entry(self, x: Any) -> Entry:
        """The value of a recorded array."""
        for node in _ancestors(x._entry):
            self._results[id(node)] = self._of_node(node)
        return self._of(x._data, x._entry)

    def _of(self, array: Any, entry: Any) -> Entry:
        """The value of an array with its entry on the tape; a variable where it was not computed while recording."""
        if entry is None and not array.shape:  # a number, which became an array for the operator
            value = array.item()
            return SymbolNode(operator_registry.operator("hybrid.constant").bind(value=value), str(value)), 0
        if entry is None:
            return self._variable(array)
        source: Any = entry[0]
        return self._variable(source) if isinstance(source, Leaf) else self._results[id(source)][int(entry[1])]

    def _variable(self, owner: Any) -> Entry:
        if id(owner) not in self._variables:
            self._alive.append(owner)
            self._variables[id(owner)] = (SymbolNode(None, f"var{len(self._variables)}"), 0)
        return self._variables[id(owner)]

    def _name(self) -> str:
        self._count += 1
        return f"node_{self._count - 1}"

    def _of_node(self, node: TapeNode) -> list[Entry]:
        if node.arrays is None:
            raise MXNetError(
                "get_symbol: this part of the graph was differentiated already and is freed; call it before backward, "
                "or use backward(retain_graph=True)"
            )
        inputs = [self._of(array, entry) for array, entry in zip(node.arrays, node.entries, strict=True)]
        if isinstance(node.op, Operator):
            return node_of(node.op, self._name(), inputs, len(node.outputs))
        if isinstance(node.op, CopyRule):
            return node_of(operator_registry.operator("hybrid.identity").bind(), self._name(), inputs, 1)
        trace = getattr(getattr(node.op, "graph", None), "trace", None)
        if trace is None:
            raise MXNetError(
                f"get_symbol: {type(node.op).__name__} runs Python code in its backward and is no operator of a graph; "
                "make an autograd.Function an mx.operator.CustomOp"
            )
        return self._of_trace(trace, inputs)

    def _of_trace(self, trace: Any, inputs: Sequence[Entry]) -> list[Entry]:
        """The results of a call of a hybridized block."""
        found: dict[int, Entry] = {id(leaf): entry for leaf, entry in zip(trace.leaves, inputs, strict=True)}
        for node in trace.nodes:
            results = node_of(node.op, self._name(), [found[id(x)] for x in node.inputs], len(node.outputs))
            found.update((id(x), entry) for x, entry in zip(node.outputs, results, strict=True))
        return [found[id(x)] for x in trace.outputs]


def _ancestors(entry: Any) -> list[TapeNode]:
    """The nodes of the tape that an entry depends on, in the order in which they were recorded."""
    found: dict[int, TapeNode] = {}
    stack = [entry]
    while stack:
        node = None if (last := stack.pop()) is None else last[0]
        if isinstance(node, TapeNode) and id(node) not in found:
            found[id(node)] = node
            stack += node.entries
    return sorted(found.values(), key=lambda node: node.order)


def symbol_of_tape(x: Any) -> ComposedSymbol:
    """The symbol of the operators from which autograd knows an array to be computed."""
    if x._entry is None and x._tape.__class__ is tuple:
        raise freed_error()
    if x._entry is None:
        raise MXNetError(
            "get_symbol: NDArray is not part of a computation graph. Did you forget to turn on recording? Compute it "
            "inside autograd.record(), from arrays with attach_grad()"
        )
    return ComposedSymbol([_Tape().entry(x)])
