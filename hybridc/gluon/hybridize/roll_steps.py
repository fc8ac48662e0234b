"""Roll up a Python loop that a forward ran: many equal steps in a trace become one loop, compiled once.

A recurrent network that is unrolled by hand, or by ``unroll`` of a cell, has its operators in the trace again and
again, and compiling them takes a time that grows with the sequence. Steps are equal if their operators are, and if each
reads the results of the same operators of its own step and of the step before, what is the same for all steps, and
values of its own (a row of a sequence). ``HYBRIDC_ROLL=0`` leaves traces as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from hybridc.array.functions import function
from hybridc.dialects.operator import Elementwise, Movement, invoke_bound
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.nd.control_flow import foreach
from hybridc.options import OPTIONS
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode, live_nodes

STEPS, PERIOD = 30, 256  # the fewest steps that are rolled up, and the most operators of one

Place = tuple[int, int]  # of a value in a step: the number of its operator, and of the result


def roll_steps(trace: Trace) -> None:
    """Replace the longest run of equal steps in a trace by a loop, if there is one of at least ``STEPS``."""
    # The host steps through a loop on a GPU, one launch after the other.
    if not OPTIONS.roll or len(trace.nodes) < 2 * STEPS or trace.context.device_type == "gpu":
        return
    first, nodes = _apart(trace)
    where = {id(x): (number, i) for number, node in enumerate(nodes) for i, x in enumerate(node.outputs)}
    for begin, period, steps in _repeated(nodes):
        tried = (_EqualSteps.of(nodes, where, begin + shift, period, steps - bool(shift)) for shift in range(period))
        rolled = min((each for each in tried if each is not None), key=lambda each: len(each.states), default=None)
        if rolled is not None:
            _replace(trace, first, nodes, rolled)
            return


def _apart(trace: Trace) -> tuple[list[TraceNode], list[TraceNode]]:
    """The movements of inputs, such as the rows of a sequence, and all other nodes."""
    known = {id(leaf) for leaf in trace.leaves}
    first: list[TraceNode] = []
    rest: list[TraceNode] = []
    for node in trace.nodes:
        moves = node.inputs and isinstance(node.op, Movement) and all(id(x) in known for x in node.inputs)
        (first if moves else rest).append(node)
        if moves:
            known.update(map(id, node.outputs))
    return first, rest


def _kind(node: TraceNode) -> Any:
    """The key by which nodes are compared: the operator, its attributes, and the types of its inputs."""
    op = node.op
    if op.mutated or not (op.PURE or op.DRAWS):
        return node
    if op.DRAWS:
        op = op.bind(**{**op.attrs, "draw": 0})
    return (op.NAME, op.key, *((x.shape, x.dtype) for x in _values(node)))


def _values(node: TraceNode) -> Sequence[TracedSymbol]:
    """The inputs of a node without the random key, which the trace gives to what draws."""
    return node.inputs[:-1] if node.op.DRAWS else node.inputs


def _repeated(nodes: Sequence[TraceNode]) -> Iterator[tuple[int, int, int]]:
    """Where equal nodes repeat with a period, shorter ones first: the first node, the period, and how often."""
    numbers: dict[Any, int] = {}
    kinds = [numbers.setdefault(_kind(node), len(numbers)) for node in nodes]
    for period in range(1, min(PERIOD, len(kinds) // STEPS) + 1):
        run, longest, begin = 0, 0, 0
        for i in range(len(kinds) - period):
            run = run + 1 if kinds[i] == kinds[i + period] else 0
            if run > longest:
                longest, begin = run, i - run + 1
        steps = longest // period + 1
        if steps >= STEPS and not all(isinstance(n.op, Elementwise | Movement) for n in nodes[begin : begin + period]):
            yield begin, period, steps


@dataclass
class _EqualSteps:
    """Equal steps: ``steps`` times ``period`` nodes from ``begin``, and where their inputs come from."""

    begin: int
    period: int
    steps: int
    nodes: list[TraceNode]
    inputs: list[list[Any]] = field(default_factory=lambda: list[list[Any]]())  # see _Source
    states: dict[Place, TracedSymbol] = field(default_factory=lambda: dict[Place, TracedSymbol]())  # with initial ones
    rows: list[list[TracedSymbol]] = field(default_factory=lambda: list[list[TracedSymbol]]())
    draw: int = 0  # the number of the first step's first draw

    @classmethod
    def of(
        cls, nodes: list[TraceNode], where: Mapping[int, Place], begin: int, period: int, steps: int
    ) -> _EqualSteps | None:
        """The steps that begin there; None if they do not read what a loop can give them.

        ``where`` are the places of all values, by identity, among all nodes.
        """
        made = cls(begin, period, steps, nodes)
        if steps < STEPS or not made._draws_in_order():
            return None
        for j in range(period):
            of_all = [_values(nodes[begin + k * period + j]) for k in range(steps)]
            if len({len(each) for each in of_all}) > 1:
                return None
            sources = [made._source(j, symbols, where) for symbols in zip(*of_all, strict=True)]
            if None in sources:
                return None
            made.inputs.append(sources)
        return made

    def _draws_in_order(self) -> bool:
        """Whether the draws of the steps have consecutive numbers, as those of a loop have."""
        drawing = [n.op for n in self.nodes[self.begin : self.begin + self.steps * self.period] if n.op.DRAWS]
        if drawing:
            self.draw = drawing[0].attrs["draw"]
        taken = self.draw
        for op in drawing:
            if op.attrs["draw"] != taken:
                return False
            taken += op.num_samples()
        return True

    def _source(self, j: int, symbols: Sequence[TracedSymbol], where: Mapping[int, Place]) -> Any:
        """Where the body reads an input: ``("own" or "state", place)``, ``("row", number)``, or a captured value."""
        found = [where.get(id(x), (-1, 0)) for x in symbols]
        places = [(number - self.begin, i) for number, i in found]
        end = self.steps * self.period
        if all(n < 0 or n >= end for n, _ in places):
            if all(x is symbols[0] for x in symbols):
                return symbols[0]
            self.rows.append(list(symbols))
            return ("row", len(self.rows) - 1)
        last, result = places[-1]
        relative = last - (self.steps - 1) * self.period
        if 0 <= relative < j and all(p == (k * self.period + relative, result) for k, p in enumerate(places)):
            return ("own", (relative, result))
        relative += self.period
        before = [((k - 1) * self.period + relative, result) for k in range(1, self.steps)]
        if not 0 <= relative < self.period or places[1:] != before or places[0][0] >= 0:
            return None
        known = self.states.setdefault((relative, result), symbols[0])
        return ("state", (relative, result)) if known is symbols[0] else None

    def values(self, place: Place) -> list[TracedSymbol]:
        """The values of a place in all steps."""
        number, result = place
        return [self.nodes[self.begin + k * self.period + number].outputs[result] for k in range(self.steps)]


def _replace(trace: Trace, first: list[TraceNode], nodes: list[TraceNode], found: _EqualSteps) -> None:
    """Record the loop, and let what follows read its results."""
    end = found.begin + found.steps * found.period
    places = [(j, i) for j in range(found.period) for i in range(len(nodes[found.begin + j].outputs))]
    values = {place: found.values(place) for place in places}
    whole: dict[int, Place] = {}  # nodes that stack the values of all steps
    starts = {id(each[0]): place for place, each in values.items()}
    for node in nodes[end:]:
        if not node.inputs or not isinstance(node.op, Movement):
            continue
        place, axis = starts.get(id(node.inputs[0])), node.op.stacked_axis(len(node.outputs[0].shape))
        if place is not None and axis is not None and list(map(id, node.inputs)) == list(map(id, values[place])):
            whole[id(node)] = place
    after = [node for node in nodes[end:] if id(node) not in whole]
    read = {id(x) for node in after for x in node.inputs} | {id(x) for x in trace.outputs}
    stacked = [p for p in places if p in whole.values() or any(id(x) in read for x in values[p][:-1])]
    stacked += [p for p in places if p not in (*stacked, *found.states) and id(values[p][-1]) in read]
    new: dict[int, Any] = {}
    trace.nodes = []
    taken, trace.draws = trace.draws, found.draw
    with trace.active():
        data = [_gathered(rows) for rows in found.rows] or [function("zeros")(shape=(found.steps, 1))]
        outputs, states = foreach(
            _body(found, stacked), data, list(found.states.values()), name="a loop of equal steps"
        )
        for place, rows in zip(stacked, outputs, strict=True):
            new.update((id(x), rows[k]) for k, x in enumerate(values[place]) if id(x) in read)
            for node in nodes[end:]:
                if whole.get(id(node)) == place:
                    new[id(node.outputs[0])] = _along(node, rows)
        new.update((id(values[place][-1]), state) for place, state in zip(found.states, states, strict=True))
    made, trace.draws = trace.nodes, taken
    for node in made:
        node.location = nodes[found.begin].location
    for node in after:
        node.inputs = [new.get(id(x), x) for x in node.inputs]
    trace.outputs = [new.get(id(x), x) for x in trace.outputs]
    trace.nodes = live_nodes([*first, *nodes[: found.begin], *made, *after], trace.outputs)
    trace.rolled = f"{found.steps} equal steps of {found.period} operators are one loop"


def _body(
    found: _EqualSteps, stacked: Sequence[Place]
) -> Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]:
    """A step as the function of a loop: of its rows and the states before to its outputs and the states after."""

    def body(rows: list[Any], states: list[Any]) -> tuple[list[Any], list[Any]]:
        known: dict[Place, Any] = {}
        carried = dict(zip(found.states, states, strict=True))
        for j, sources in enumerate(found.inputs):
            node = found.nodes[found.begin + j]
            given: list[Any] = []
            for source in sources:
                match source:
                    case ("own", place):
                        given.append(known[place])
                    case ("state", place):
                        given.append(carried[place])
                    case ("row", number):
                        given.append(rows[number])
                    case _:
                        given.append(source)
            results = as_list(invoke_bound(node.op, *given))
            results[0].node.location = node.location
            known.update({(j, i): x for i, x in enumerate(results)})
        return [known[p] for p in stacked], [known[p] for p in found.states]

    return body


def _gathered(rows: Sequence[TracedSymbol]) -> Any:
    """Values along a new first axis: the array whose rows they are, or a copy."""
    source, places = None, list[tuple[int, int]]()
    for x in rows:
        node = x.node
        if node is None or not isinstance(node.op, Movement) or len(node.inputs) != 1:
            break
        place = node.op.row(node.inputs[0].shape, x.index)
        if place is None or (source is not None and source is not node.inputs[0]):
            break
        source = node.inputs[0]
        places.append(place)
    axis, begin = places[0] if places else (0, 0)
    if source is None or places != [(axis, begin + k) for k in range(len(rows))]:
        return function("stack")(*rows, axis=0)
    part: Any = source
    if len(rows) < source.shape[axis]:
        part = function("slice_axis")(part, axis=axis, begin=begin, end=begin + len(rows))
    return part if axis == 0 else function("transpose")(part, axes=_moved(len(source.shape), axis, 0))


def _along(node: TraceNode, rows: Any) -> Any:
    """The rows of all steps, along the axis along which a node stacks them."""
    assert isinstance(node.op, Movement)
    axis = node.op.stacked_axis(len(rows.shape))
    return function("transpose")(rows, axes=_moved(len(rows.shape), 0, axis or 0)) if axis else rows


def _moved(rank: int, axis: int, to: int) -> tuple[int, ...]:
    """The order of axes in which one has another place."""
    order = [i for i in range(rank) if i != axis]
    order.insert(to, axis)
    return tuple(order)
