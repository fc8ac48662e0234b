"""Roll up equal steps: operators that repeat in a trace become the body of a loop, compiled once.

A recurrent network that is unrolled, by hand or by ``unroll`` of a cell, has its operators in the trace again and
again, and compiling them takes a time that grows with the sequence. Steps are equal if their operators are, and if each
reads the results of the same operators of its own step and of the step before, what is the same for all steps, and
values of its own (a row of a sequence). What contracts such rows with what is the same for all steps is computed for
all rows at once, before the loop. ``HYBRIDC_ROLL=0`` leaves traces as they are.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, cast

import numpy as np

from hybridc.array.functions import function
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.control.loop import ForLoop
from hybridc.dialects.math.contraction import Product
from hybridc.dialects.operator import Elementwise, Movement, Opaque, Operator
from hybridc.ground.records import dataclass
from hybridc.options import OPTIONS
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode, live_nodes

# The fewest steps of a recurrence that are rolled up.
STEPS = 4
# The fewest of other steps: they could run at the same time, or their rows must be copied into one array, or they call
# the host.
MANY_STEPS = 30
# The most operators of a step: larger ones are found at a cost that grows with their square.
PERIOD = 256

Place = tuple[int, int]  # of a value in a step: the index of its operator, and of the result


def roll_steps(trace: Trace) -> None:
    """Replace runs of equal steps in a trace by loops, the longest first."""
    # The host steps through a loop on a GPU, one launch after the other.
    if not OPTIONS.roll or trace.context.device_type == "gpu":
        return
    while len(trace.nodes) > STEPS and _roll_longest(trace):
        pass


def _roll_longest(trace: Trace) -> bool:
    """Replace the longest run of equal steps that can be a loop; whether there was one."""
    nodes = Nodes.of(trace)
    for run in runs(nodes, STEPS):
        for begin in beginnings(nodes, run, STEPS, MANY_STEPS):
            equal_steps = EqualSteps.of(nodes, begin, run.period, (run.end - begin) // run.period)
            if equal_steps is not None:
                _replace(trace, nodes, equal_steps)
                return True
    return False


@dataclass
class Nodes:
    """The nodes of a trace: ``apart`` those that nothing but inputs determines cheaply, and ``rest`` in their order.

    Creations, such as initial states, and movements of inputs, such as the rows of a sequence, are apart. ``where`` are
    the places of all values of the rest, by identity; ``same`` are values that others equal, likewise.
    """

    apart: list[TraceNode]
    rest: list[TraceNode]
    where: dict[int, Place]
    same: dict[int, TracedSymbol]

    @classmethod
    def of(cls, trace: Trace) -> Nodes:
        """Those of a trace."""
        known = {id(leaf) for leaf in trace.leaves}
        creations: dict[Any, TracedSymbol] = {}
        nodes = cls([], [], {}, {})
        for node in trace.nodes:
            creates = not node.inputs and node.op.PURE
            if creates or (node.inputs and isinstance(node.op, Movement) and all(id(x) in known for x in node.inputs)):
                nodes.apart.append(node)
                known.update(map(id, node.outputs))
            else:
                nodes.where.update((id(x), (len(nodes.rest), i)) for i, x in enumerate(node.outputs))
                nodes.rest.append(node)
            if creates:
                nodes.same[id(node.outputs[0])] = creations.setdefault((node.op.NAME, node.op.key), node.outputs[0])
        return nodes

    def producer(self, x: TracedSymbol) -> int:
        """The index of the node that computes a value, -1 for inputs and nodes apart."""
        return self.where.get(id(x), (-1, 0))[0]

    def kinds(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """A number for each node, equal for those that may be one operator of equal steps.

        They apply one operator with the same attributes to values of the same types, and to the same inputs of the
        graph where many read them, as weights.
        """
        readers = Counter(id(x) for node in self.rest for x in _values(node))
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(self._kind(node, readers), len(numbers)) for node in self.rest], np.int32)

    def _kind(self, node: TraceNode, readers: Mapping[int, int]) -> Any:
        op = node.op
        if op.mutated or not (op.PURE or op.DRAWS):
            return node
        key = op.key
        if op.DRAWS:
            key = tuple(value for name, value in zip(op.ATTRIBUTES, key[1:], strict=True) if name != "draw")
        shared = tuple(id(x) for x in _values(node) if readers[id(x)] >= STEPS and self._is_input(x))
        return (op.NAME, key, shared, *((x.shape, x.dtype) for x in _values(node)))

    def _is_input(self, x: TracedSymbol) -> bool:
        """Whether a value is an input of the graph, moved or not."""
        return x.node is None or (id(x) not in self.where and bool(x.node.inputs))


def _is_shared(source: _Source) -> bool:
    """Whether every step reads this one value."""
    return isinstance(source, TracedSymbol)


def _values(node: TraceNode) -> Sequence[TracedSymbol]:
    """The inputs of a node without the random key, which the trace gives to what draws."""
    return node.inputs[:-1] if node.op.DRAWS else node.inputs


class _Run(NamedTuple):
    """Nodes ``begin`` to ``end`` whose kinds repeat with a period."""

    begin: int
    end: int
    period: int


def runs(nodes: Nodes, fewest: int) -> list[_Run]:
    """The runs of at least so many steps: those of whose nodes steps cover most first, then those of short steps."""
    kinds = nodes.kinds()
    repeated: list[_Run] = []
    for period in range(1, min(PERIOD, len(kinds) // fewest) + 1):
        equal = np.flatnonzero(kinds[:-period] == kinds[period:])
        if len(equal) < (fewest - 1) * period:
            continue
        for part in np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1):
            if len(part) >= (fewest - 1) * period:
                repeated.append(_Run(int(part[0]), int(part[-1]) + 1 + period, period))
    repeated.sort(key=lambda run: (run.begin - run.end + (run.end - run.begin) % run.period, run.period))
    return [run for run in repeated if _is_heavy(nodes.rest[run.begin : run.begin + run.period])]


def _is_heavy(nodes: Sequence[TraceNode]) -> bool:
    """Whether some do more than elementwise work, which is fused rather than rolled up."""
    return not all(isinstance(node.op, Elementwise | Movement) for node in nodes)


def beginnings(nodes: Nodes, run: _Run, recurring: int, others: int) -> Iterator[int]:
    """Where the steps of a run may begin: those that leave most steps first, then those that carry fewest values.

    A value may be read in its step and in the next one. There are so many ``recurring`` steps at least, and so many
    ``others``, which carry none.
    """
    period, first = run.period, run.begin + 2 * run.period
    reach = np.zeros(period, np.int64)  # of each operator's results: how far away the last reader is
    for reader in range(first, first + period):
        for x, after in zip(nodes.rest[reader].inputs, nodes.rest[reader + period].inputs, strict=True):
            producer = nodes.producer(x)
            if producer >= run.begin and nodes.producer(after) == producer + period:
                phase = (producer - run.begin) % period
                reach[phase] = max(reach[phase], reader - producer)
    phases, shifts = np.arange(period), np.arange(period)[:, None]
    carried = (phases + reach - shifts) // period - (phases - shifts) // period
    steps = (run.end - run.begin - shifts[:, 0]) // period
    needed = np.where(carried.any(axis=1), recurring, others)
    possible = np.flatnonzero((carried.max(axis=1) <= 1) & (steps >= needed))
    values = carried.sum(axis=1)
    return (run.begin + int(shift) for shift in sorted(possible, key=lambda i: (-steps[i], values[i], i)))


class _Slices(NamedTuple):
    """Consecutive rows of an array along an axis, the last first if they are ``backwards``."""

    source: TracedSymbol
    axis: int
    begin: int
    size: int
    backwards: bool

    @classmethod
    def of(cls, symbols: Sequence[TracedSymbol]) -> _Slices | None:
        """The rows that the symbols are; None if they are not consecutive rows of one array."""
        source, places = None, list[Place]()
        for x in symbols:
            node = x.node
            if node is None or not isinstance(node.op, Movement) or len(node.inputs) != 1:
                return None
            place = node.op.row(node.inputs[0].shape, x.index)
            if place is None or (source is not None and source is not node.inputs[0]):
                return None
            source = node.inputs[0]
            places.append(place)
        axis, begin = places[0]
        step = places[1][1] - begin
        if source is None or abs(step) != 1 or places != [(axis, begin + step * k) for k in range(len(places))]:
            return None
        return cls(source, axis, min(begin, places[-1][1]), len(places), step < 0)

    def gathered(self) -> Any:
        """An array with these rows along its first axis."""
        part: Any = self.source
        if self.size < part.shape[self.axis]:
            part = function("slice_axis")(part, axis=self.axis, begin=self.begin, end=self.begin + self.size)
        part = _moved(part, self.axis, 0)
        return function("flip")(part, axis=0) if self.backwards else part


class _Own(NamedTuple):
    """A value that the step itself has computed."""

    place: Place


class _State(NamedTuple):
    """A value of the step before."""

    place: Place


class _StepRow(NamedTuple):
    """A row of one of the arrays that have one for each step."""

    position: int


_Source = _Own | _State | _StepRow | TracedSymbol  # where a step reads an input; a symbol is the same for all steps


@dataclass
class EqualSteps:
    """Equal steps: ``steps`` times ``period`` nodes from ``begin``, and where their inputs come from."""

    begin: int
    period: int
    steps: int
    nodes: Nodes
    inputs: list[list[_Source]] = field(default_factory=lambda: list[list[_Source]]())  # of each operator of a step
    states: dict[Place, TracedSymbol] = field(default_factory=lambda: dict[Place, TracedSymbol]())  # with initial ones
    rows: list[list[TracedSymbol]] = field(default_factory=lambda: list[list[TracedSymbol]]())
    anywhere: bool = False  # whether a row may be any array: else those of few steps are parts of one
    draw: int = 0  # the number of the first step's first draw
    counters: int = 0  # how many numbers a step draws

    @classmethod
    def of(cls, nodes: Nodes, begin: int, period: int, steps: int) -> EqualSteps | None:
        """The steps that begin there; None if they do not read what a loop can give them, or are too few."""
        equal_steps = cls(begin, period, steps, nodes)
        if not equal_steps._draws_in_order() or (
            equal_steps.are_few and any(isinstance(node.op, Opaque) for node in equal_steps.body)
        ):
            return None
        if not equal_steps._finds_inputs():
            return None
        return None if equal_steps.are_few and not equal_steps._recurs() else equal_steps

    @classmethod
    def layers(cls, nodes: Nodes, begin: int, period: int, steps: int) -> EqualSteps | None:
        """The same of layers, each with arrays of its own; None if one draws or calls the host."""
        layers = cls(begin, period, steps, nodes, anywhere=True)
        apart = any(node.op.DRAWS or isinstance(node.op, Opaque) for node in layers.body)
        return layers if not apart and layers._finds_inputs() else None

    def _finds_inputs(self) -> bool:
        """Find where each operator of a step reads its inputs; whether all steps do so alike."""
        for j in range(self.period):
            of_all = [_values(self.nodes.rest[self.begin + k * self.period + j]) for k in range(self.steps)]
            sources = [self._source(j, symbols) for symbols in zip(*of_all, strict=True)]
            if None in sources:
                return False
            self.inputs.append([source for source in sources if source is not None])
        return True

    @property
    def are_few(self) -> bool:
        """Whether there are so few that the loop must not cost more than they do."""
        return self.steps < MANY_STEPS

    @property
    def end(self) -> int:
        """The index of the node after the last step."""
        return self.begin + self.steps * self.period

    @property
    def body(self) -> Sequence[TraceNode]:
        """The nodes of the first step."""
        return self.nodes.rest[self.begin : self.begin + self.period]

    def _draws_in_order(self) -> bool:
        """Whether the draws of the steps have consecutive numbers, as those of a loop have."""
        drawing = [node.op for node in self.nodes.rest[self.begin : self.end] if node.op.DRAWS]
        if not drawing:
            return True
        self.draw = following = drawing[0].attrs["draw"]
        for op in drawing:
            if op.attrs["draw"] != following:
                return False
            following += op.num_samples()
        self.counters = sum(node.op.num_samples() for node in self.body if node.op.DRAWS)
        return True

    def _source(self, j: int, symbols: Sequence[TracedSymbol]) -> _Source | None:
        """Where operator ``j`` of all steps reads an input, which is a symbol in each."""
        where, same = self.nodes.where, self.nodes.same
        places = [(index - self.begin, i) for index, i in (where.get(id(x), (-1, 0)) for x in symbols)]
        size = self.steps * self.period
        if all(not 0 <= n < size for n, _ in places):
            first = same.get(id(symbols[0]), symbols[0])
            if all(same.get(id(x), x) is first for x in symbols):
                return first
            if self.are_few and not self.anywhere and _Slices.of(symbols) is None:
                return None
            self.rows.append(list(symbols))
            return _StepRow(len(self.rows) - 1)
        last, result = places[-1]
        relative = last - (self.steps - 1) * self.period
        if 0 <= relative < j and all(p == (k * self.period + relative, result) for k, p in enumerate(places)):
            return _Own((relative, result))
        relative += self.period
        before = [((k - 1) * self.period + relative, result) for k in range(1, self.steps)]
        if not 0 <= relative < self.period or places[1:] != before or places[0][0] >= 0:
            return None
        initial = same.get(id(symbols[0]), symbols[0])
        known = self.states.setdefault((relative, result), initial)
        return _State((relative, result)) if known is initial else None

    def _recurs(self) -> bool:
        """Whether more than elementwise work waits for the step before."""
        waiting: set[int] = set()
        for j, (node, sources) in enumerate(zip(self.body, self.inputs, strict=True)):
            if any(isinstance(s, _State) or (isinstance(s, _Own) and s.place[0] in waiting) for s in sources):
                waiting.add(j)
                if _is_heavy([node]):
                    return True
        return False

    @functools.cached_property
    def ahead(self) -> dict[int, Operator]:
        """The contractions of a step that read a row and what all steps read, as operators on all rows at once."""
        if not self._recurs():
            return {}
        stacked: dict[int, Operator] = {}
        for j, (node, sources) in enumerate(zip(self.body, self.inputs, strict=True)):
            if not isinstance(node.op, Product) or (j, 0) in self.states:
                continue
            row, *others = sources
            if isinstance(row, _StepRow) and all(map(_is_shared, others)):
                op = node.op.on_stack(node.inputs[0].shape)
                stacked |= {} if op is None else {j: op}
        return stacked

    def rows_read(self) -> list[int]:
        """The rows that the loop reads, by their positions."""
        read = {s.position for j, sources in enumerate(self.inputs) if j not in self.ahead for s in sources
                if isinstance(s, _StepRow)}  # fmt: skip
        return sorted(read)

    def computed_ahead(self, trace: Trace, gathered: Sequence[Any]) -> dict[Place, TracedSymbol]:
        """The values of all steps that do not need the loop, recorded in the trace, given the rows."""
        values: dict[Place, TracedSymbol] = {}
        for j, op in self.ahead.items():
            row, *others = self.inputs[j]
            assert isinstance(row, _StepRow)
            (values[j, 0],) = trace.emit(op, [gathered[row.position], *cast("list[TracedSymbol]", others)], None)
        return values

    def reads_of_states(self) -> int:
        """How many operators of a step read results of the step before, counted for each."""
        return sum(isinstance(source, _State) for sources in self.inputs for source in sources)

    def values(self, place: Place) -> list[TracedSymbol]:
        """The values of a place in all steps."""
        j, result = place
        return [self.nodes.rest[self.begin + k * self.period + j].outputs[result] for k in range(self.steps)]

    def places(self) -> list[Place]:
        """All values of a step."""
        return [(j, i) for j, node in enumerate(self.body) for i in range(len(node.outputs))]

    def residuals(self) -> list[Place]:
        """What a gradient had better not compute again: contractions, or sums of such that nothing else reads."""
        readers = Counter(s.place for sources in self.inputs for s in sources if isinstance(s, _Own | _State))
        inside = [(j, node) for j, node in enumerate(self.body) if j not in self.ahead]
        residuals = [(j, 0) for j, node in inside if isinstance(node.op, Product)]
        for j, node in inside:
            places = [s.place for s in self.inputs[j] if isinstance(s, _Own)]
            terms = [p for p in places if p in residuals and readers[p] == 1]
            rows = [p for p in places if p[0] in self.ahead]
            if node.op.LINEAR and terms and len(terms) + len(rows) == len(self.inputs[j]):
                residuals = [*(place for place in residuals if place not in terms), (j, 0)]
        return residuals

    def body_of(
        self, data: Sequence[tuple[str, int]], steps: Sequence[int], results: Sequence[Place]
    ) -> tuple[Body, list[TracedSymbol]]:
        """The graph of so many operators of a step, and what all steps read.

        Its arguments are ``data``, the states, what all steps read, and the key of random numbers, if it draws any.
        """
        shared = {id(s): s for j in steps for s in self.inputs[j] if isinstance(s, TracedSymbol)}
        arguments: dict[Any, int] = {}  # by row, operator, place or identity
        for key in [*data, *self.states, *shared]:
            arguments[key] = len(arguments)
        count = len(arguments) + bool(self.counters)
        computed: dict[Place, int] = {}

        def index_of(source: _Source) -> int:
            match source:
                case _Own(place):
                    return computed[place] if place in computed else arguments["ahead", place[0]]
                case _State(place):
                    return arguments[place]
                case _StepRow(position):
                    return arguments["row", position]
                case _:
                    return arguments[id(source)]

        inside: list[BodyStep] = []
        for j in steps:
            node = self.body[j]
            op, inputs = node.op, [index_of(source) for source in self.inputs[j]]
            if op.DRAWS:
                op = op.bind(**{**op.attrs, "draw": op.attrs["draw"] - self.draw})
                inputs.append(count - 1)
            first = count + len(computed)
            inside.append(BodyStep(op, inputs, first, node.location))
            computed.update({(j, i): first + i for i in range(len(node.outputs))})
        return Body(count, inside, [computed[place] for place in results]), list(shared.values())

    def loop(
        self, stacked: Sequence[Place], residuals: Sequence[Place], saves: bool
    ) -> tuple[ForLoop, list[TracedSymbol]]:
        """The loop that gives these values of all steps, and the last states; and what all steps read.

        Its data are :meth:`rows_read`, then what is computed :attr:`ahead`.
        """
        data = [*[("row", i) for i in self.rows_read()], *[("ahead", j) for j in self.ahead]]
        steps = [j for j in range(self.period) if j not in self.ahead]
        body, shared = self.body_of(data, steps, (*stacked, *residuals, *self.states))
        op = ForLoop.bind(
            body=body, data=len(data), states=len(self.states), saves=saves, residuals=len(residuals),
            counters=self.counters, steps=() if data and not self.counters else (self.steps,), draw=self.draw,
        )  # fmt: skip
        assert isinstance(op, ForLoop)
        return op, shared


def _replace(trace: Trace, nodes: Nodes, equal_steps: EqualSteps) -> None:
    """Record the loop, and let what follows read its results."""
    before, after = nodes.rest[: equal_steps.begin], nodes.rest[equal_steps.end :]
    values = {place: equal_steps.values(place) for place in equal_steps.places()}
    joins = _joins(after, values)
    after = [node for node in after if id(node) not in joins]
    read = {id(x) for node in after for x in node.inputs} | {id(x) for x in trace.outputs}
    joined = {join.place for join in joins.values()}
    stacked = [p for p in values if p in joined or any(id(x) in read for x in values[p][:-1])]
    stacked += [p for p in values if p not in (*stacked, *equal_steps.states) and id(values[p][-1]) in read]
    residuals = equal_steps.residuals() if trace.training else []
    stacked = [p for p in stacked if p not in residuals and p[0] not in equal_steps.ahead]
    op, shared = equal_steps.loop(stacked, residuals, trace.training)
    new: dict[int, TracedSymbol] = {}
    trace.nodes = []
    with trace.active():
        gathered: list[Any] = [_gathered(rows) for rows in equal_steps.rows]
        ahead = equal_steps.computed_ahead(trace, gathered)
        data = [*[gathered[i] for i in equal_steps.rows_read()], *ahead.values()]
        keys = [trace.key()] * bool(op.counters)
        results = trace.emit(op, [*data, *equal_steps.states.values(), *shared, *keys], None)
        of_place: dict[Place, Any] = dict(zip((*stacked, *residuals), results, strict=False))
        states = zip(equal_steps.states, results[len(of_place) :], strict=False)
        of_place |= ahead
        new.update((id(values[place][-1]), state) for place, state in states)
        for place, rows in of_place.items():
            new.update((id(x), rows[k]) for k, x in enumerate(values[place]) if id(x) in read)
        new.update((id(join.node.outputs[0]), join.of(of_place[join.place])) for join in joins.values())
    loop_nodes = trace.nodes
    for node in loop_nodes:
        node.location = equal_steps.body[0].location
    for node in after:
        node.inputs = [new.get(id(x), x) for x in node.inputs]
    trace.outputs = [new.get(id(x), x) for x in trace.outputs]
    trace.nodes = live_nodes([*nodes.apart, *before, *loop_nodes, *after], trace.outputs)
    trace.rolled.append(f"{equal_steps.steps} equal steps of {equal_steps.period} operators are one loop")


class _Join(NamedTuple):
    """A node that lays the values of a place in all steps one after the other along an axis of its result."""

    node: TraceNode
    place: Place
    axis: int
    backwards: bool

    def of(self, rows: Any) -> Any:
        """Its result, of the values along a first axis."""
        rank = len(self.node.outputs[0].shape)
        rows = _moved(function("flip")(rows, axis=0) if self.backwards else rows, 0, self.axis)
        if rank == len(rows.shape):
            return rows
        # The codes of MXNet's reshape: sizes stay, or two become one.
        return function("reshape")(rows, shape=(*[0] * self.axis, -3, *[0] * (rank - self.axis - 1)))


def _joins(nodes: Sequence[TraceNode], values: Mapping[Place, Sequence[TracedSymbol]]) -> dict[int, _Join]:
    """The nodes that join the values of a place in all steps, by identity."""
    forwards = {id(symbols[0]): place for place, symbols in values.items()}
    reverse = {id(symbols[-1]): place for place, symbols in values.items()}
    joins: dict[int, _Join] = {}
    for node in nodes:
        if len(node.inputs) < STEPS or not isinstance(node.op, Movement):
            continue
        axis = node.op.joined_axis(len(node.outputs[0].shape))
        inputs = [id(x) for x in node.inputs]
        for starts, step in ((forwards, 1), (reverse, -1)) if axis is not None else ():
            place = starts.get(inputs[0])
            if axis is not None and place is not None and inputs == [id(x) for x in values[place][::step]]:
                joins[id(node)] = _Join(node, place, axis, step < 0)
    return joins


def _gathered(rows: Sequence[TracedSymbol]) -> Any:
    """Values along a new first axis: the array whose rows they are, or a copy."""
    slices = _Slices.of(rows)
    return function("stack")(*rows, axis=0) if slices is None else slices.gathered()


def _moved(x: Any, axis: int, to: int) -> Any:
    """An array in which one axis has another place."""
    if axis == to:
        return x
    order = [i for i in range(len(x.shape)) if i != axis]
    order.insert(to, axis)
    return function("transpose")(x, axes=tuple(order))
