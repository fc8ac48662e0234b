"""Symbols in files: nnvm's JSON, as MXNet 1.9.1 writes it, and as all versions before it did.

What an operator is called there, and how its attributes are written, says its class
(:class:`hybridc.dialects.interchange.Interchange`); nothing here knows an operator.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from hybridc import name as naming
from hybridc.dialects import operator_registry
from hybridc.dialects.interchange import text
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.ground import MXNET_VERSION
from hybridc.ground.absent import why_lacking
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ground.state import inside_rule
from hybridc.symbol.graph import Entry, SymbolNode, topological
from hybridc.symbol.loop_files import LOOPS, read_loop
from hybridc.symbol.node_attributes import HIDDEN, note_initializers
from hybridc.symbol.np_calls.np_call import of_file
from hybridc.symbol.np_calls.np_call_names import OF_ND
from hybridc.symbol.subgraph_nodes import graph_to_nodes, read_subgraph

# --- writing ---------------------------------------------------------------------------------------------------


def to_json(entries: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """The graph of some values as text."""
    version = _object({"mxnet_version": f'["int", {MXNET_VERSION}]'}, 2)
    return _object({**_members(_GraphWriter(entries, remove_amp_cast), 0), "attrs": version}, 0, lines=True)


def _members(writer: _GraphWriter, indent: int) -> dict[str, str]:
    """The members of a graph's JSON object."""
    starts = [0]
    for node in writer.nodes:
        starts.append(starts[-1] + node.outputs)
    numbers = [i for i, node in enumerate(writer.nodes) if node.op == "null"]
    space = " " * indent
    nodes = ", \n".join(f"{space}    {_object(node.members(indent + 6), indent + 4)}" for node in writer.nodes)
    return {
        "nodes": f"[\n{nodes}\n{space}  ]",
        "arg_nodes": _list(numbers, indent + 2),
        "node_row_ptr": _list(starts, indent + 2),
        "heads": _list([[*head, 0] for head in writer.heads], indent + 2),
    }


def _string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Sequence[Any], indent: int) -> str:
    """A list as MXNet lays it out: more than ten elements have a line each."""
    written = [str(v) for v in values]
    if len(written) <= 10:
        return f"[{', '.join(written)}]"
    space = " " * indent
    return "[\n" + ", \n".join(f"{space}  {w}" for w in written) + f"\n{space}]"


def _object(members: Mapping[str, str], indent: int, lines: bool = False) -> str:
    """An object of members that are written already: one member stays on its line."""
    written = [f"{_string(key)}: {value}" for key, value in members.items()]
    if len(written) <= 1 and not lines:
        return f"{{{', '.join(written)}}}"
    space = " " * indent
    return "{\n" + ", \n".join(f"{space}  {w}" for w in written) + f"\n{space}}}"


@dataclass
class _Written:
    """A node of the file."""

    op: str
    name: str
    attrs: dict[str, str]
    inputs: list[tuple[int, int]]
    outputs: int = 1
    states: frozenset[int] = field(default_factory=frozenset[int])
    graphs: list[_GraphWriter] = field(default_factory=list["_GraphWriter"])

    def members(self, indent: int) -> dict[str, str]:
        """The members of the node's JSON object, in order."""
        inputs = [[*entry, int(i in self.states)] for i, entry in enumerate(self.inputs)]
        attrs = _object({k: _string(v) for k, v in sorted(self.attrs.items())}, indent)
        shown = {"attrs": attrs} if self.attrs else {}
        members = {"op": _string(self.op), "name": _string(self.name), **shown, "inputs": _list(inputs, indent)}
        if self.graphs:
            space = " " * indent
            inside = [_object(_members(g, indent + 2), indent + 2, lines=True) for g in self.graphs]
            members["subgraphs"] = f"[\n{space}  " + f", \n{space}  ".join(inside) + f"\n{space}]"
        return members


class _GraphWriter:
    """Makes the nodes of a file from those of a graph."""

    def __init__(self, entries: Sequence[Entry], remove_amp_cast: bool) -> None:
        self.nodes: list[_Written] = []
        self.remove_amp_cast = remove_amp_cast
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._alive: list[SymbolNode] = []  # what _places knows by identity
        self.heads = self.add(entries)

    def add(self, entries: Sequence[Entry]) -> list[tuple[int, int]]:
        """Write what is not yet written; where each entry is in the file."""
        for node in topological(entries):
            if id(node) not in self._places and node.number is None:
                self._places[id(node)] = self._write(node)
                self._alive.append(node)
        return [self._place(entry, None, "") for entry in entries]

    def _place(self, entry: Entry, like: tuple[int, int] | None, name: str) -> tuple[int, int]:
        """The entry of a value in the file; a number is made an array, shaped as the one at ``like``."""
        node, index = entry
        if node.number is None:
            return self._places[id(node)][index]
        exact = isinstance(node.number, int) and float(node.number) != node.number
        number = {"scalar": text(node.number if exact else float(node.number))}
        if like is None:
            return self._emit("_full", name or node.name, {"shape": "(1,)", "value": number["scalar"]}, [])
        ones = self._emit("ones_like", f"{name}_ones", {}, [like])
        return self._emit("_mul_scalar", f"{name}_scalar", number, [ones])

    def _emit(self, op: str, name: str, attrs: dict[str, str], inputs: list[tuple[int, int]]) -> tuple[int, int]:
        self.nodes.append(_Written(op, name, attrs, inputs))
        return len(self.nodes) - 1, 0

    def _write(self, node: SymbolNode) -> list[tuple[int, int]]:
        """Write a node; where its results are."""
        op = node.op
        if op is None:
            return [self._emit("null", node.name, node.attrs, [])]
        if op.AMP and self.remove_amp_cast:
            return [self._place(entry, None, "") for entry in node.inputs[: node.num_outputs()]]
        numbers = [i for i, (source, _) in enumerate(node.inputs) if source.number is not None]
        if len(node.inputs) == 2 and len(numbers) == 1 and op.NNVM_SCALAR:
            number = node.inputs[numbers[0]][0].number
            scalar = text(int(number) if isinstance(number, bool) else number)
            attrs = {"scalar": scalar, **node.given, **node.attrs}
            array = self._place(node.inputs[1 - numbers[0]], None, "")
            return [self._emit(op.NNVM_SCALAR[1 - numbers[0]], node.name, attrs, [array])]
        other = self._by_others(node, op)
        return self.add(other) if other is not None else self._write_operator(node, op)

    def _by_others(self, node: SymbolNode, op: Operator) -> list[Entry] | None:
        """The results by operators that MXNet has, if it lacks this one."""
        F = HOOKS.symbols()
        inputs = [n.number if n.number is not None else F.ComposedSymbol([(n, i)]) for n, i in node.inputs]
        with naming.Prefix(f"{node.name}_"), inside_rule():
            made = op.for_nnvm(F, *inputs)
        if made is None:
            return None
        entries: list[Entry] = [e for s in as_list(made) for e in s.entries]
        if entries[0][0] not in [n for n, _ in node.inputs]:
            entries[0][0].name = node.name
        return entries

    def _write_operator(self, node: SymbolNode, op: Operator) -> list[tuple[int, int]]:
        array = next((e for e in node.inputs if e[0].number is None), None)
        like = None if array is None else self._place(array, None, "")
        inputs = [self._place(e, like, f"{node.name}_number{i}") for i, e in enumerate(node.inputs)]
        attrs = {key: text(value) for key, value in op.to_nnvm().items()}
        outputs = op.nnvm_outputs()
        states = frozenset(op.auxiliary())
        graphs, orders = self._graphs_inside(node, op)
        if op.NNVM_COUNT:
            attrs[op.NNVM_COUNT] = str(len(inputs) + len(graphs))
        attrs.update({key: text(value) for key, value in op.nnvm_places(orders).items()})
        attrs.update({**node.given, **node.attrs})
        self.nodes.append(_Written(op.nnvm_title(), node.name, attrs, inputs, outputs, states, graphs))
        return [(len(self.nodes) - 1, i) for i in range(outputs)]

    def _graphs_inside(self, node: SymbolNode, op: Operator) -> tuple[list[_GraphWriter], list[list[int]]]:
        """The nested graphs of an operator, and the order in which each has its arguments."""
        names = [n.name if n.is_variable else n.output_names()[i] for n, i in node.inputs]
        graphs: list[_GraphWriter] = []
        orders: list[list[int]] = []
        for graph in op.nnvm_graphs(names):
            entries, variables = graph_to_nodes(graph)
            graphs.append(_GraphWriter(entries, False))
            numbers = {variable.name: i for i, variable in enumerate(variables)}
            orders.append([numbers[name] for name in graphs[-1].arguments()])
        return graphs, orders

    def arguments(self) -> list[str]:
        """Names of the variables, in the order in which MXNet finds them from the results."""
        found: list[str] = []
        seen: set[int] = set()
        stack = [i for i, _ in reversed(self.heads)]
        while stack:
            i = stack.pop()
            if i in seen:
                continue
            seen.add(i)
            node = self.nodes[i]
            found += [node.name] * (node.op == "null")
            stack += [n for n, _ in reversed(node.inputs)]
        return found


# What to do about an operator of a file that hybridc lacks, by the kind of operators it is of.
_REMEDIES = {
    "mkldnn": "save the symbol before a backend or MXNet's quantization changes it",
    "arrays": "call mx.image or mx.nd for what is an input of the graph",
    "running": "save the symbol of the forward",
}


def _missing(op: str) -> str:
    """Why there is no operator of a name."""
    why = why_lacking(op)
    if why is not None:
        return f"MXNet's operator {op!r} {why[1]}; {_REMEDIES[why[0]]}"
    return (
        f"no operator {op!r} is registered. If it is of a library of operators, load that first, with "
        "mx.library.load(path) or by importing its module; hybridc lacks some of MXNet's operators"
    )


# --- reading ---------------------------------------------------------------------------------------------------


def from_json(content: str, where: str = "the text") -> list[Entry]:
    """The values of the graph that a text describes; ``where`` is what errors call it."""
    return _GraphReader(where).read(content)


def _object_of(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _list_of(value: Any) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def _producers_first(listed: list[Any]) -> list[int]:
    """Numbers of the nodes, each after those of its inputs; of a cycle, in the file's order.

    Files list nodes in such an order already. Graph passes that were compiled with MXNet's header do not always, and
    MXNet reads any.
    """
    inputs: list[list[int]] = []
    for described in listed:
        entries = _list_of((_object_of(described) or {}).get("inputs")) or []
        numbers: list[Any] = [(_list_of(entry) or [None])[0] for entry in entries]
        inputs.append([n for n in numbers if type(n) is int and 0 <= n < len(listed)])
    if all(n < i for i, needed in enumerate(inputs) for n in needed):
        return list(range(len(listed)))
    order: list[int] = []
    entered: set[int] = set()
    path = [(i, False) for i in reversed(range(len(listed)))]
    while path:
        i, ready = path.pop()
        if ready:
            order.append(i)
        elif i not in entered:
            entered.add(i)
            path += [(i, True), *((n, False) for n in reversed(inputs[i]))]
    return order


class _GraphReader:
    """Reads a graph; errors say in which node."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.scalars = operator_registry.of_scalar()

    def wrong(self, why: str) -> MXNetError:
        return MXNetError(f"{self.where} is not a symbol in nnvm's JSON: {why}")

    def read(self, content: str) -> list[Entry]:
        """The results of the graph of a text."""
        try:
            members = _object_of(json.loads(content)) or {}
            heads, _ = self.heads(members, self.version(members))
        except MXNetError:
            raise
        except (ValueError, RecursionError) as error:
            raise self.wrong(str(error)) from error
        return heads

    def heads(self, members: dict[str, Any], version: int) -> tuple[list[Entry], list[SymbolNode]]:
        """The results of a graph, and its variables."""
        listed = _list_of(members.get("nodes"))
        if listed is None:
            raise self.wrong("it has no list 'nodes'")
        nodes: dict[int, SymbolNode] = {}
        for i in _producers_first(listed):
            nodes[i] = self.node(i, listed[i], nodes, version)
        heads = self.entries("the heads", members.get("heads"), nodes)
        if not heads:
            raise self.wrong("it has no heads")
        return heads, [nodes[i] for i in range(len(listed)) if nodes[i].is_variable]

    def graph(self, what: str, given: Any) -> tuple[list[Entry], list[SymbolNode]]:
        """The results and the variables of a graph inside a node."""
        members = _object_of(given)
        if members is None:
            raise self.wrong(f"{what}: a subgraph is {type(given).__name__}, expected an object")
        return self.heads(members, MXNET_VERSION)

    def version(self, graph: dict[str, Any]) -> int:
        """The version of MXNet that wrote the file; 800 where it did not yet say so."""
        try:
            return int(graph["attrs"]["mxnet_version"][1])
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return 800

    def node(self, number: int, described: Any, nodes: Mapping[int, SymbolNode], version: int) -> SymbolNode:
        """One node, whose inputs come before it."""
        given = _object_of(described)
        if given is None:
            raise self.wrong(f"node {number} is {type(described).__name__}, expected an object")
        op, label = given.get("op"), given.get("name")
        if not isinstance(op, str) or not isinstance(label, str):
            raise self.wrong(f"node {number} has no 'op' or no 'name'")
        what = f"node {label!r} ({op})"
        inputs = self.entries(what, given.get("inputs"), nodes)
        attrs = self.attributes(what, given)
        if op == "null":
            return SymbolNode(None, label, (), {_hidden(k): v for k, v in attrs.items()})
        own, users, of_inputs = _divided(attrs, version)
        op = OF_ND.get(op, op)
        scalar = self.scalars.get(operator_registry.snake_of_scalar(op))
        try:
            if scalar is not None:
                return self.of_scalar(what, label, scalar, own, users, inputs)
            if given.get("subgraphs"):
                graphs = [self.graph(what, part) for part in _list_of(given["subgraphs"]) or []]
                made = self.with_graphs(op, label, attrs, graphs, inputs)
            else:
                made = self.operator(what, op, label, own, inputs, version)
        except MXNetError as error:
            if str(error).startswith(self.where):
                raise
            explained = error.restated(f"{self.where}: {what}: {error}")
            raise explained from explained.__cause__
        except (ValueError, TypeError, SyntaxError) as error:
            raise self.wrong(f"{what}: {own} cannot be its attributes: {error}") from error
        made.attrs.update(users)
        for name, (source, _) in zip(_input_names(made.op), made.inputs, strict=False):
            if source.is_variable:
                source.attrs.update(of_inputs.get(name, {}))
        if version < 904 and made.op is not None:  # before, no file said how an operator's variables are initialized
            note_initializers(made.op, made.inputs)
        return made

    def with_graphs(
        self, op: str, label: str, attrs: Mapping[str, str], graphs: Sequence[Any], inputs: list[Entry]
    ) -> SymbolNode:
        """An operator with graphs inside."""
        cls = operator_registry.of_mxnet(op)
        if cls in LOOPS:
            loop, inputs = read_loop(cls, attrs, [entries for entries, _ in graphs], inputs)
            return SymbolNode(loop, label, inputs)
        return SymbolNode(read_subgraph(op, label, attrs, graphs, len(inputs)), label, inputs)

    def attributes(self, what: str, given: dict[str, Any]) -> dict[str, str]:
        """All attributes of a node: early versions kept the operator's (``param``) apart from the user's."""
        merged: dict[str, str] = {}
        for key in ("param", "attr", "attrs"):
            part = _object_of(given.get(key) or {})
            if part is None or not all(isinstance(v, str) for v in part.values()):
                raise self.wrong(f"{what}: {key!r} must be an object of strings")
            merged.update(part)
        return merged

    def entries(self, what: str, given: Any, nodes: Mapping[int, SymbolNode]) -> list[Entry]:
        """The values that a list of ``[node, output, version]`` names."""
        listed = _list_of(given)
        if listed is None:
            raise self.wrong(f"{what}: expected a list of [node, output, 0], got {given!r}")
        found: list[Entry] = []
        for entry in listed:
            numbers: list[Any] = (_list_of(entry) or [])[:2]
            if len(numbers) != 2 or not all(type(n) is int and n >= 0 for n in numbers):
                raise self.wrong(f"{what}: expected [node, output, 0], got {entry!r}")
            at, index = int(numbers[0]), int(numbers[1])
            if at not in nodes:
                raise self.wrong(f"{what}: node {at} does not exist before it")
            source = nodes[at]
            if index >= source.num_outputs():
                raise self.wrong(f"{what}: {source.name!r} has no output {index}, only {source.num_outputs()}")
            found.append((source, index))
        return found

    def of_scalar(
        self,
        what: str,
        label: str,
        scalar: tuple[type[Operator], bool],
        own: dict[str, str],
        users: dict[str, str],
        inputs: list[Entry],
    ) -> SymbolNode:
        """An operator of an array and a number."""
        cls, reflected = scalar
        given = own.get("scalar", "1").strip()
        try:
            # Integers stay what they are: not all of 64 bits are floats.
            value = int(given) if re.fullmatch(r"[-+]?\d{1,300}", given) else float(given)
        except ValueError:
            raise self.wrong(f"{what}: attribute scalar takes a number, got {given!r}") from None
        if math.isinf(value) and "inf" not in given.lower():
            raise self.wrong(f"{what}: attribute scalar has {len(given)} characters, which is beyond all numbers")
        if len(inputs) != 1:
            raise self.wrong(f"{what} takes one input, got {len(inputs)}")
        constant = SymbolNode(operator_registry.operator("hybrid.constant").bind(value=value), str(value))
        both = [(constant, 0), inputs[0]] if reflected else [inputs[0], (constant, 0)]
        return SymbolNode(cls.bind(), label, both, users, given=own)

    def operator(
        self, what: str, op: str, label: str, own: Mapping[str, str], inputs: list[Entry], version: int
    ) -> SymbolNode:
        """An operator whose inputs are all arrays."""
        numpy_call = of_file(op, own, len(inputs))
        if numpy_call is not None:
            return SymbolNode(numpy_call, label, inputs, given=own)
        cls = operator_registry.of_mxnet(op)
        if cls is None:
            raise MXNetError(f"{self.where}: {what}: {_missing(op)}")
        own = cls.upgrade_nnvm(own, version)
        bound: Operator = cls.from_nnvm(own)
        names = _input_names(bound)
        if bound.VARIADIC and len(names) != len(inputs):
            return SymbolNode(bound, label, inputs, given=own)
        if len(inputs) < len(names) and version < 900:  # auxiliary states were left out then
            missing = names[len(inputs) :]
            inputs = [*inputs, *[(SymbolNode(None, f"{label}_{n}", (), dict(own)), 0) for n in missing]]
        if len(inputs) != len(names):
            raise self.wrong(f"{what} takes the inputs ({', '.join(names)}), got {len(inputs)}")
        return SymbolNode(bound, label, inputs, given=own)


def _input_names(op: Operator | None) -> list[str]:
    """Names of the inputs that a graph gives: the random key is none of them."""
    return [] if op is None else [n for n in op.input_names() if not (op.DRAWS and n == "key")]


def _hidden(key: str) -> str:
    return f"__{key}__" if key in HIDDEN else key


def _divided(attrs: dict[str, str], version: int) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, str]]]:
    """The operator's own attributes; the user's, such as ``__lr_mult__``; and the user's of inputs, by their names.

    In files of earlier versions the user's may have no underscores, and ``weight_lr_mult`` is the ``lr_mult`` of the
    input ``weight``.
    """
    own: dict[str, str] = {}
    users: dict[str, str] = {}
    of_inputs: dict[str, dict[str, str]] = {}
    for key, value in attrs.items():
        hidden = next((h for h in HIDDEN if key == h or key.endswith(f"_{h}")), None)
        if key.startswith("__") and key.endswith("__"):
            users[key] = value
        elif version >= MXNET_VERSION or hidden is None:
            own[key] = value
        elif key == hidden:
            users[_hidden(key)] = value
        else:
            of_inputs.setdefault(key[: -len(hidden) - 1], {})[_hidden(hidden)] = value
    return own, users, of_inputs
