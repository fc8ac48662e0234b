"""Casts of mixed precision in composed graphs: as nodes are made, and in a whole graph, ``amp.convert_symbol``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence

from hybridc import name as naming
from hybridc.array.autocast import Autocast, CastRule
from hybridc.array_files.mxnet_format import TYPE_FLAGS
from hybridc.dialects.array.cast import AmpCast, AmpMulticast
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import DType
from hybridc.dtypes import FLOAT32
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.node_attributes import declared_dtype

# Of a value, the node that casts it to a dtype.
_Cast = Callable[[Entry, DType], Entry]


def cast_entries(op: Operator, entries: Sequence[Entry], policy: Autocast) -> list[Entry]:
    """The inputs of a new node of an operator, cast as the policy says; numbers and states stay."""
    return _cast_all(op, entries, policy, policy.rule(op), None)


def _cast_all(
    op: Operator, entries: Sequence[Entry], policy: Autocast, rule: CastRule | None, cast: _Cast | None
) -> list[Entry]:
    made = list(entries)
    if rule is None:
        return made
    kept = policy.kept(op, rule, len(entries))
    places = [i for i, (node, _) in enumerate(entries) if i not in kept and node.number is None]
    if rule.dtype is not None:
        for i in places:
            made[i] = (cast or _cast)(made[i], rule.dtype)
    elif len(places) > 1:  # which is the widest follows when dtypes are known
        first = entries[places[0]][0].output_names()[entries[places[0]][1]]
        label = naming.current().get(None, "amp_multicast") if cast is None else f"{first}_amp_multicast"
        node = SymbolNode(AmpMulticast.bind(num_outputs=len(places)), label, [entries[i] for i in places])
        for index, i in enumerate(places):
            made[i] = (node, index)
    return made


def _cast(entry: Entry, dtype: DType) -> Entry:
    return SymbolNode(AmpCast.bind(dtype=dtype), naming.current().get(None, "amp_cast"), [entry]), 0


def converted(
    entries: Sequence[Entry],
    policy: Autocast,
    excluded: Collection[str],
    parameters: Collection[str],
    cast_parameters: bool,
) -> list[Entry]:
    """A copy of the graph with casts in front of its operators; those of ``excluded`` names run in float32.

    The dtype of each parameter is noted on its variable. It is the policy's dtype of 16 bits for parameters of which no
    operator uses anything else, if they are to be cast; they need no cast then.
    """
    casts: dict[tuple[int, int, str], Entry] = {}
    made: dict[int, SymbolNode] = {}

    def cast(entry: Entry, dtype: DType) -> Entry:
        node, index = entry
        key = id(node), index, dtype.name
        if key not in casts:
            label = f"{node.output_names()[index]}_amp_cast_{dtype.name}"
            casts[key] = SymbolNode(AmpCast.bind(dtype=dtype), label, [entry]), 0
        return casts[key]

    for node in graph.topological(entries):
        new = made[id(node)] = copy.copy(node)
        new.attrs = dict(node.attrs)
        if node.op is None:
            continue
        new.inputs = [(made[id(source)], index) for source, index in node.inputs]
        rule = CastRule(FLOAT32) if node.name in excluded else policy.rule(node.op)
        new.inputs = _cast_all(node.op, new.inputs, policy, rule, cast)
    results = [(made[id(node)], index) for node, index in entries]
    _note_dtypes(results, policy.target, parameters, cast_parameters)
    return results


def _note_dtypes(results: Sequence[Entry], target: DType, parameters: Collection[str], cast_parameters: bool) -> None:
    """Write the dtypes of parameters onto their variables, and leave out casts to those that they have then."""
    nodes = graph.topological(results)
    users: dict[int, list[Operator | None]] = {id(node): [None] for node, _ in results}
    for node in nodes:
        for source, _ in node.inputs:
            users.setdefault(id(source), []).append(node.op)
    narrow: set[int] = set()
    for node in nodes:
        if not node.is_variable or node.name not in parameters:
            continue
        dtype = declared_dtype(node) or FLOAT32
        casts = [isinstance(op, AmpCast) and op.dtype == target for op in users.get(id(node), [])]
        if cast_parameters and dtype == FLOAT32 and all(casts):
            narrow.add(id(node))
            dtype = target
        node.attrs["__dtype__"] = str(TYPE_FLAGS[dtype])
    for node in nodes:
        node.inputs = [s.inputs[0] if s.inputs and id(s.inputs[0][0]) in narrow else (s, i) for s, i in node.inputs]
