"""Compiled training steps: forward, loss, gradients and updates as one graph that writes the weights in place.

``forward(data…, weights and what else the network reads…, states…, numbers…) -> (loss…, new values…)``, where the new
values are those of weights, of optimizer states and of running statistics; each goes into the memory of the old one.
"""

from __future__ import annotations

import hashlib
import operator
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from hybridc.array.ndarray import NDArray
from hybridc.communication import Alone, Communicator
from hybridc.communication.agreement import require_equal
from hybridc.communication.compression import Residuals
from hybridc.compile.compiled_graph import Compilation, CompiledGraph
from hybridc.compile.stages import Traced
from hybridc.dialects.control.collectives import TIMES, RankSum, callable_sum
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError, TraceError
from hybridc.gluon.hybridize.cached_graph import Entry, EntryCache, traced_with_guards
from hybridc.gluon.hybridize.gradient_exchange import Exchange, added, append_allreduce, buckets_of, clipped
from hybridc.gluon.hybridize.guards import Guards
from hybridc.gluon.hybridize.optimizer_shards import OptimizerShards
from hybridc.gluon.hybridize.sharded_update import ShardedUpdate
from hybridc.gluon.training.fresh_gradients import raise_stale
from hybridc.ground.compiler_output import compiling, timed
from hybridc.ground.locks import UPDATES
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ground.watches import all_written
from hybridc.optimizer.binding import Fill, Known, Row, kind_of, overlap, states_of
from hybridc.optimizer.compiled_update import UpdateTracer
from hybridc.optimizer.formula import FormulaNumber, Kind, Values
from hybridc.trace.gradients import append_gradients
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace

# Programs per signature: they differ in optimizer parameters that are 0, 1 or absent.
_KEPT = 6
# Numbers that change from step to step: a batch of one must not compile anew because its gradients are scaled by 1.
_VARYING = ("lr", "rescale")
REMEDY = (
    "A TrainStep compiles the whole step; train such a network with autograd.record(), loss.backward() and "
    "trainer.step(batch_size)"
)


@dataclass(frozen=True)
class Weight:
    """A parameter that is trained, and its number in the trainer."""

    index: int
    parameter: Any


def _plain(_name: str, _size: int, _dtype: np.dtype[Any]) -> None:
    """A plain all-reduce for each bucket."""


@dataclass
class StepSettings:
    """How a step trains: what of it is shared with other ranks, and with the steps before and after."""

    keep_grads: bool = False
    ignore_stale_grad: bool = False
    #: The largest norm of all gradients, as the optimizer gets them.
    clip: float | None = None
    #: How many calls add up their gradients for one update.
    accumulate: int = 1
    #: After how many updates the ranks average their parameters; 1: gradients are summed at each update.
    sync_every: int = 1
    #: The ranks that train together.
    communicator: Communicator = field(default_factory=Alone)
    #: Given the name, number of elements and dtype of a bucket: its custom sum over ranks; None for a plain all-reduce.
    sum_of: Callable[[str, int, np.dtype[Any]], RankSum | None] = _plain
    #: What rounding left out of gradients so far.
    residuals: Residuals = field(default_factory=Residuals)
    #: Whether the arrays are on a GPU.
    on_gpu: bool = False
    #: Which parts of the optimizer's states the ranks have; None: all of them.
    shards: OptimizerShards | None = None

    @property
    def ranks(self) -> int:
        """The number of ranks that train together."""
        return self.communicator.size

    @property
    def shared(self) -> bool:
        """Whether gradients are summed over ranks."""
        return self.ranks > 1 and self.sync_every == 1


@dataclass(frozen=True)
class StepPart:
    """What a call does of an update: ``adds`` to the gradients of the calls before, ``updates`` the weights."""

    adds: bool = False
    updates: bool = True


WHOLE = StepPart()


class StepProgram:
    """The compiled step for weights of the given kinds: extends the trace of the forward, and compiles it."""

    def __init__(
        self,
        trace: Trace,
        optimizer: Any,
        weights: Sequence[Weight],
        kinds: Sequence[Kind],
        settings: StepSettings,
        part: StepPart = WHOLE,
    ) -> None:
        self.optimizer = optimizer
        leaves = {id(source): leaf for leaf, source in zip(trace.leaves, trace.sources, strict=True)}
        symbols = [s for weight in weights if (s := leaves.get(id(weight.parameter))) is not None]
        self.visible = len(trace.outputs) - len(trace.updates)
        mutated = list(zip(trace.updates, trace.outputs[self.visible :], strict=True))
        visible = trace.outputs[: self.visible]
        # The entry has found that the loss depends on each weight.
        found = [grad for grad in append_gradients(trace, visible[0], symbols) if grad is not None]
        keeps = settings.keep_grads or not part.updates
        before: list[TracedSymbol] = []  # the gradients' arrays
        if keeps or part.adds:
            before = [trace.leaf(f"grad{i}", g.shape, g.dtype, "data") for i, g in enumerate(found)]
        if part.adds:
            found = added(trace, before, found)
        #: Bytes of each bucket of gradients that are summed over ranks, and how many gradients these are.
        self.buckets: list[tuple[int, int]] = []
        numbers: list[int] = []
        exchange = Exchange(settings.on_gpu)
        if part.updates and settings.shared:
            name, shards = _name_of(trace, kinds, part), settings.shards
            own = buckets_of(trace, found) if shards is None else []
            buckets = own if shards is None else shards.buckets
            self.buckets = [(bucket.size, len(bucket.members)) for bucket in buckets]
            #: How the buckets are summed; the graph calls sums by numbers, as long as these live.
            self.sums: list[RankSum | None] = []
            for bucket in buckets:
                dtype = np.dtype(found[bucket.members[0]].dtype)
                place = f"{name} bucket {len(self.sums)}"
                self.sums.append(settings.sum_of(place, bucket.size // dtype.itemsize, dtype))
            numbers = [0 if each is None else callable_sum(each) for each in self.sums]
            if shards is None:
                found = append_allreduce(trace, found, own, numbers, exchange)
        limit = None
        if part.updates and settings.clip is not None:
            limit = trace.leaf("limit", (), np.dtype(np.float32), "data")
        tracer = UpdateTracer(optimizer.formula, type(optimizer).__name__, trace)
        updated: list[TracedSymbol] = []  # the weights, if ranks share the work
        with trace.active():
            if part.updates and settings.shards is not None:
                sharded = ShardedUpdate(trace, tracer, settings.shards, kinds, numbers, limit, exchange)
                updated = sharded.append(symbols, found)
            elif part.updates:
                found = found if limit is None else clipped(found, limit)
                for place, (kind, symbol, grad) in enumerate(zip(kinds, symbols, found, strict=True)):
                    tracer.add(place, kind, symbol, grad)
        others = list(zip(before, found, strict=True)) if keeps else []
        others += zip(symbols, updated, strict=bool(updated))
        results = [*visible, *[s for _, s in mutated], *[s for _, s in others], *tracer.results]
        targets = [*[i for i, _ in mutated], *[leaf.index for leaf, _ in others]]
        donated = [(target, result) for result, target in enumerate(targets, self.visible)]
        donated += tracer.donated(len(results) - len(tracer.results))
        trace.outputs, trace.updates = results, []
        #: The arguments that are written.
        self.written = [target for target, _ in donated]
        #: The running statistics among them, which other threads may update, too.
        self.statistics = [i for i, _ in mutated]
        #: The arguments that are arrays of the network, states of the optimizer, and gradients, in this order.
        self.places = [i for i, role in enumerate(trace.roles) if role in ("parameter", "capture")]
        self.places += [s.index for s in tracer.arrays] + [leaf.index for leaf in before]
        #: Whether gradients are among them.
        self.takes_gradients = bool(before)
        self.numbers: list[tuple[FormulaNumber, int]] = tracer.numbers
        #: The argument that is the largest norm of the gradients, before the optimizer rescales them.
        self.limit = None if limit is None else limit.index
        self.size = len(trace.leaves)
        self.key = trace.roles.index("key") if "key" in trace.roles else None
        self.traced = Traced(trace, donated=tuple(donated))
        self.graph: CompiledGraph = self.traced.graph()


def _name_of(trace: Trace, kinds: Sequence[Kind], part: StepPart) -> str:
    """A name of a program that is the same in another run."""
    data = [(s.shape, np.dtype(s.dtype).name) for s, r in zip(trace.leaves, trace.roles, strict=True) if r == "data"]
    return hashlib.sha256(repr((data, kinds, part)).encode()).hexdigest()


class StepEntry(Entry):
    """One signature of a step: the trace of its forward, and the programs made of it."""

    def __init__(self, block: Any, trace: Trace, guards: Guards, reason: str, is_static: bool) -> None:
        self._block = block
        self._fresh: Trace | None = trace  # until it is extended by the first program
        self._programs: dict[tuple[StepPart, tuple[Kind, ...]], StepProgram] = {}
        #: How many arguments are data.
        self.count = trace.roles.count("data")
        self.bound: dict[StepPart, Bound] = {}
        self.weights = _trained(block, trace)
        self.indices = [weight.index for weight in self.weights]
        #: Of each parameter of the trainer, whether the loss depends on it.
        self.is_trained = [i in self.indices for i in range(len(block.trainer.parameters))]
        #: The parts of an update that all ranks compared.
        self.agreed: set[StepPart] = set()
        self._described = _described(trace) if block.settings.shared else None
        super().__init__(trace, guards, reason, (), is_static)

    def require_agreement(self, ranks: Communicator) -> None:
        """Raise on all ranks unless they run the same operators; attributes may follow from the shapes of the data."""
        assert self._described is not None
        shapes, names, operators = self._described
        is_equal = all(other == shapes for other in ranks.gather_objects(shapes))
        require_equal("the operators of the training step", dict(enumerate(operators if is_equal else names)), ranks)

    def refresh(self) -> None:
        """Reload the parameters' arrays: they may have been replaced."""
        super().refresh()
        self.bound.clear()

    def moved(self) -> str | None:
        """A description of the guard that fails."""
        reason = super().moved()
        if reason is not None:
            return reason
        return None if self.weights == _trained(self._block, self.trace) else "other parameters are trained"

    def notes(self) -> list[str]:
        """The buckets of gradients, and how much of their time was hidden."""
        found: list[str] = []
        for program in self._programs.values():
            if program.buckets:
                ranks = self._block.settings.ranks
                found.append(f"gradients are summed over {ranks} ranks in these buckets:")
                found += [f"  {count} gradients, {size / 2**20:.3g} MiB" for size, count in program.buckets]
        if found and TIMES.taken:
            hidden = max(0.0, 1 - TIMES.waited / TIMES.taken)
            found.append(f"communication took {TIMES.taken:.3g} s so far, of which {hidden:.0%} were hidden")
        return found

    def bind(
        self,
        args: tuple[Any, ...],
        optimizer: Any,
        rows: Sequence[Row],
        states: Mapping[Any, Any],
        numbers: Sequence[Values],
        part: StepPart = WHOLE,
    ) -> Bound:
        """The program with its arguments, for these arrays; ``states`` are the updater's."""
        kinds = [kind_of(row, values, _VARYING) for row, values in zip(rows, numbers, strict=True)]
        program, settings = self._program(args, optimizer, kinds, part), self._block.settings
        arrays: list[NDArray] = [array for role, array in self.others if role != "key"]
        for _, weight, _, state, half in rows:
            if weight.size or settings.shards is None:  # what is of another rank has no arrays in the program
                arrays += [*([] if half is None else [weight]), *states_of(state)]
        if program.takes_gradients:
            arrays += [weight.parameter.gradient() for weight in self.weights]
        self.bound[part] = made = Bound(program, arrays, states, kinds, self.count, settings.clip)
        return made

    def compilations(self) -> list[Compilation]:
        """The first stage of each program, and what it became."""
        made = [(program.traced, program.graph.forward) for program in self._programs.values()]
        return [Compilation(traced, [(each.title, each.program)]) for traced, each in made]

    def _program(self, args: tuple[Any, ...], optimizer: Any, kinds: list[Kind], part: StepPart) -> StepProgram:
        if any(program.optimizer is not optimizer for program in self._programs.values()):
            self._programs.clear()
        key = part, tuple(kinds)
        program = self._programs.get(key)
        if program is None:
            trace = self._take_trace(args)
            program = StepProgram(trace, optimizer, self.weights, kinds, self._block.settings, part)
            if self.is_static:
                program.graph.repeat()
            self._programs[key] = program
            if len(self._programs) > _KEPT:
                del self._programs[next(iter(self._programs))]
        self.plain = program.graph
        return program

    def _take_trace(self, args: tuple[Any, ...]) -> Trace:
        trace, self._fresh = self._fresh, None
        if trace is not None:
            return trace
        compiling(self._block.name, "numbers of the optimizer became or are no longer 0, 1 or None")
        return _forward(self._block, args)[0]


class StepGraphs(EntryCache[StepEntry]):
    """The compiled steps of one network, loss and trainer, by signature."""

    root = ""  # the network and the loss are its children
    rest = "step"  # heads of gradients, and the optimizer

    def _make(self, block: Any, args: tuple[Any, ...], reason: str) -> StepEntry:
        return StepEntry(block, *_forward(block, args), reason, self._is_static)


class Bound:
    """A program with its arguments, made once for many steps."""

    def __init__(
        self,
        program: StepProgram,
        arrays: list[NDArray],
        states: Mapping[Any, Any],
        kinds: Sequence[Kind],
        count: int,
        clip: float | None,
    ) -> None:
        self.program = program
        self._arrays = arrays
        self._states = states
        self._raw = [x._data for x in arrays]
        self._known = Known(kinds)
        self._numbers: Sequence[Values] = ()  # those that the program was given last
        self._count = count
        self._arguments: list[Any] = [None] * program.size
        for place, array in zip(program.places, self._raw, strict=True):
            self._arguments[place] = array
        self._clip = clip
        self._fills: list[Fill] = []
        for dtype in dict.fromkeys(number.dtype for number, _ in program.numbers):
            fill = Fill(dtype)
            for number, place in program.numbers:
                if number.dtype == dtype:
                    fill.add(number.index, place, number.compute)
            fill.give(self._arguments)
            self._fills.append(fill)
        written = [self._arguments[i] for i in program.written]
        self._require_apart(written)
        self._copied = self._unfit(written)
        spans = sorted(_bounds(a) for a in written if a.size)
        self._written = {id(a) for a in written} if all(a.base is None for a in written) else None
        self._starts, self._stops = [start for start, _ in spans], [stop for _, stop in spans]
        self._statistics = [self._arguments[i] for i in program.statistics]

    def holds(self, optimizer: Any, states: Mapping[Any, Any]) -> bool:
        """Whether it is the same optimizer with the same states, and the arrays have the same memory still."""
        same = map(operator.is_, self._states.values(), map(states.get, self._states))
        if self.program.optimizer is not optimizer or not all(same):
            return False
        return all(map(operator.is_, self._raw, [x._data for x in self._arrays]))

    def accepts(self, numbers: Sequence[Values]) -> bool:
        """Whether the numbers that the program knows, and those that are absent, are as before."""
        return numbers == self._numbers or self._known.accepts(numbers)

    def run(self, data: Sequence[Any], numbers: Sequence[Values]) -> list[Any]:
        """Do one step; the visible results."""
        program = self.program
        if numbers != self._numbers:
            for fill in self._fills:
                fill.run(numbers)
            self._numbers = numbers
        if program.limit is not None and self._clip is not None:
            scale = abs(program.optimizer.rescale_grad)
            self._arguments[program.limit] = np.array(self._clip / scale if scale else np.inf, np.float32)
        arguments = [*map(self._apart, data), *self._arguments[self._count :]]
        if program.key is not None:
            arguments[program.key] = program.traced.trace.random_key()._data
        for place in self._copied:
            arguments[place] = arguments[place].copy(order="C")
        # Infinities and NaN are the user's: they go into the weights without a warning, as in MXNet.
        with np.errstate(all="ignore"):
            if self._statistics:
                with UPDATES.held(self._statistics):
                    results = self._run(arguments)
            else:
                results = self._run(arguments)
        return list(results[: program.visible])

    def _run(self, arguments: list[Any]) -> Any:
        try:
            results = self.program.graph.forward(*arguments)
            for place in self._copied:
                if place in self.program.written:
                    np.copyto(self._arguments[place], arguments[place])
        finally:
            all_written([self._arguments[place] for place in self.program.written])
        return results

    def _unfit(self, written: Sequence[Any]) -> list[int]:
        """The arguments that are copied at each step: strided ones that are written, and those that overlap these."""
        places = set(self.program.written)
        unfit = [i for i in self.program.written if not self._arguments[i].flags.c_contiguous]
        others = [i for i in self.program.places if i not in places]
        return unfit + [i for i in others if overlap(written, [self._arguments[i]])]

    def _require_apart(self, written: Sequence[Any]) -> None:
        if not overlap(written, ()):
            return
        leaves = self.program.traced.trace.leaves
        for number, place in enumerate(self.program.written):
            for other, array in zip(self.program.written[:number], written[:number], strict=False):
                if overlap([array, self._arguments[place]], ()):
                    raise MXNetError(
                        f"{leaves[other].name} and {leaves[place].name} share memory, so one step cannot write both; "
                        "give each an array of its own, or share the Parameter itself (params=…)"
                    )

    def _apart(self, array: Any) -> Any:
        """The array, or a copy of it if it shares memory with one that is written."""
        if array.base is None and self._written is not None:  # all own their memory
            return array.copy() if id(array) in self._written else array
        if not array.size:
            return array
        start, stop = _bounds(array)
        behind = bisect_right(self._starts, start)  # written ranges are disjoint: only neighbours can overlap
        before = behind > 0 and self._stops[behind - 1] > start
        return array.copy() if before or (behind < len(self._starts) and self._starts[behind] < stop) else array


def _bounds(array: Any) -> tuple[int, int]:
    """The half-open address range of an array's memory."""
    if hasattr(array, "pointer"):
        return array.pointer, array.pointer + array.nbytes
    if not array.flags.c_contiguous:
        return byte_bounds(array)
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def _forward(block: Any, args: tuple[Any, ...]) -> tuple[Trace, Guards]:
    """The trace of network and loss in train mode, and the attributes that were read."""
    try:
        with timed(f"{block.name}, time of tracing"):
            trace, guards = traced_with_guards(block, args, True)
    except TraceError as error:
        raise TraceError(f"{error}\n{REMEDY}") from error.__cause__
    _check_loss(block, trace)
    return trace, guards


def _described(trace: Trace) -> tuple[list[Any], list[str], list[str]]:
    """The shapes of the data, the names of the operators, and these with their attributes."""
    shapes = [leaf.shape for leaf, role in zip(trace.leaves, trace.roles, strict=True) if role == "data"]
    return shapes, [node.op.NAME for node in trace.nodes], [repr(node.op) for node in trace.nodes]


def _check_loss(block: Any, trace: Trace) -> None:
    """Raise unless the first result is an array that has a gradient."""
    structure = trace.structure
    first = next(iter(as_list(structure)), None)
    if not isinstance(first, int):
        raise MXNetError(
            f"{block.name}: the loss must give an array, or a tuple of which the first is the array to minimise"
        )
    loss = trace.outputs[0]
    if not is_float(np.dtype(loss.dtype)):
        raise MXNetError(f"{block.name}: the loss has dtype {np.dtype(loss.dtype)}; only floating point is minimised")


def _trained(block: Any, trace: Trace) -> list[Weight]:
    """The trainer's parameters that a step updates; raises where ``Trainer.step`` would, or could not be followed."""
    reached = {id(trace.outputs[0])}
    for node in reversed(trace.nodes):
        if any(id(s) in reached for s in node.outputs):
            reached.update(id(s) for s in node.inputs)
    used = {id(source) for leaf, source in zip(trace.leaves, trace.sources, strict=True) if id(leaf) in reached}
    weights: list[Weight] = []
    for index, parameter in enumerate(block.trainer.parameters):
        if parameter.grad_req == "null":
            continue
        if parameter.grad_req != "write":
            raise MXNetError(
                f"parameter {parameter.name!r} has grad_req {parameter.grad_req!r}; a TrainStep computes and uses the "
                f"gradients of one batch: set grad_req = 'write'. {REMEDY}"
            )
        if id(parameter) in used:
            weights.append(Weight(index, parameter))
        elif not block.settings.ignore_stale_grad:
            raise_stale(parameter, parameter.list_ctx()[0])
    if not weights:
        raise MXNetError(f"{block.name}: the loss depends on no parameter that the trainer updates")
    return weights
