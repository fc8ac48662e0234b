"""The compiled graphs of one block: signature → graph, bounded, each compilation with its reason."""

from __future__ import annotations

import itertools
import re
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_numpy, is_numpy, ndarray
from hybridc.compile.compiled_graph import Compilation, CompiledGraph, SignatureReport
from hybridc.compile.explanation.launch_groups import MOST, BlockPath, Naming
from hybridc.compile.stages import Traced
from hybridc.context import CPU, Context
from hybridc.errors import AttributeValueError, MXNetError, NestedArraysError, TraceError
from hybridc.gluon.epoch import ATTRIBUTE_EPOCH
from hybridc.gluon.hybridize.guards import Guard, Guards
from hybridc.gluon.hybridize.report import Report
from hybridc.gluon.hybridize.watched_attributes import watching
from hybridc.ground.compiler_output import compiling, timed
from hybridc.ground.events import RECORDER
from hybridc.ground.location import user_depth
from hybridc.ground.locks import ForkLock
from hybridc.ground.nesting import flatten, frozen, regroup, thaw
from hybridc.ground.state import STATE
from hybridc.options import OPTIONS
from hybridc.trace.roll_steps import roll_steps
from hybridc.trace.tracer import Trace, trace_call

if TYPE_CHECKING:
    from hybridc.compile.background.background_graph import BackgroundGraph

Signature = tuple[Any, ...]
Backends = tuple[tuple[str, Mapping[str, Any]], ...]  # names and options, in order
E = TypeVar("E", bound="Entry")

# So many times the signatures that are kept, those are remembered that were evicted.
_EVICTED = 8
#: A report tells of the signatures that were used last, and in so many lines of their programs; of each, some lines are
#: not of kernels: where it is from, the head, the layout, the rest.
_SIGNATURES, _PROGRAM_LINES, _LINES_BESIDE = 6, 42, 4
# The sizes of arrays in a signature's title, and all numbers.
_SIZES, _NUMBERS = re.compile(r"(?<=[\[ ])\d+(?=[,\]])"), re.compile(r"\d+")
# How many of the latest reasons for a compilation are remembered.
_REASONS = 100
# An argument in the place of a random key that nobody draws.
_NO_KEY = NDArray(np.zeros(2, np.uint64))


class _Nesting(NamedTuple):
    """A part of a signature: how arguments nest, if they are not all arrays, their device, if that is not ``cpu(0)``.

    ``numpy`` says which arrays are of ``mx.np``, if some are.
    """

    structure: Any
    context: Context | None = None
    numpy: tuple[bool, ...] = ()


_ALL_NUMPY = _Nesting(None, None, (True,))


class Entry:
    """One signature: the trace, its guards, and the graphs compiled from it (with and without a backward)."""

    def __init__(
        self,
        trace: Trace,
        guards: Guards,
        reason: str,
        backends: Backends,
        is_static: bool = False,
        is_background: bool = False,
    ) -> None:
        self.trace = trace
        self.is_static = is_static
        self.is_background = is_background
        self.backends = backends
        self.guards = list(guards)
        # Lists and dicts change without notice, so they are compared at every call.
        self.unnoticed = [guard for guard in guards if not guard.is_noticed]
        self.reason = reason
        self.epoch = ATTRIBUTE_EPOCH.value
        self.numpy = [is_numpy(s) for s in trace.outputs[: len(trace.outputs) - len(trace.updates)]]
        self.plain: CompiledGraph | None = None
        self.recorded: dict[tuple[int, ...], CompiledGraph] = {}
        #: By their inputs that get gradients, the graphs that another process compiles.
        self.background: dict[tuple[int, ...], BackgroundGraph] = {}
        self.others: list[Any] = []
        #: The result of a call without gradients by one native call; None where it must go the long way.
        self.again: Callable[[tuple[Any, ...]], Any] = _never
        self.refresh()

    def notes(self) -> list[str]:
        """Further lines of an explanation."""
        waiting = ["with gradients" if grads else "without gradients" for grads in tuple(self.background)]
        return [f"{each}: compiled in the background; until then its operators run one by one" for each in waiting]

    def refresh(self) -> None:
        """Reload the parameters' arrays: they may have been replaced."""
        self.others = [
            (role, source.array(self.trace.context) if role in ("parameter", "number") else source)
            for role, source in zip(self.trace.roles, self.trace.sources, strict=True)
            if role != "data"
        ]
        self.again = _never

    def is_stale(self) -> bool:
        """Whether a guard of the trace may fail now."""
        if self.epoch != ATTRIBUTE_EPOCH.value:
            return True
        return any(guard.changed() for guard in self.unnoticed) if self.unnoticed else False

    def run(self, arrays: Sequence[NDArray]) -> Any:
        """The result of a call."""
        inputs: list[NDArray] = list(arrays)
        for role, source in self.others:
            inputs.append(source if role != "key" else self.trace.random_key())
        graph = self._graph_of_call(inputs)
        result = graph.run(inputs)
        plain = self.plain
        if plain is not None and graph is plain and RECORDER.detector is None and "key" not in self.trace.roles:
            call = plain.at_once
            if call is not None:
                self.again = _again(self, call)
        return _in_classes(result, self.numpy) if True in self.numpy else result

    def moved(self) -> str | None:
        """A description of the guard that fails: an attribute, or a parameter's dtype or shape.

        The parameters' arrays are reloaded.
        """
        for i, guard in enumerate(self.guards):
            if guard.changed():
                self.guards.insert(0, self.guards.pop(i))  # what changed once is likely to be it the next time
                return guard.reason()
        self.refresh()
        others = [s for s, role in zip(self.trace.leaves, self.trace.roles, strict=True) if role != "data"]
        for symbol, (role, array) in zip(others, self.others, strict=True):
            if role == "key" or (array.dtype == symbol.dtype and array.shape == symbol.shape):
                continue
            now = f"{array.dtype.__name__}{list(array.shape)}"
            return f"{symbol.name} is {now}, compiled before for {symbol.dtype.__name__}{list(symbol.shape)}"
        return None

    def graph(self, inputs: Sequence[NDArray]) -> CompiledGraph:
        """The compiled graph for a call now: with a backward for inputs that want gradients, if autograd records."""
        grads = _wanted(inputs)
        graph = self._known(grads)
        if graph is None:
            self._report(grads)
            graph = self._ready(grads, Traced(self.trace, grads, self.backends).graph())
        return graph

    def _graph_of_call(self, inputs: Sequence[NDArray]) -> CompiledGraph | BackgroundGraph:
        """What runs the call: the compiled graph, or its operators while another process compiles it."""
        if not self.is_background:
            return self.graph(inputs)
        grads = _wanted(inputs)
        return self._known(grads) or self._in_background(grads)

    def _known(self, grads: tuple[int, ...]) -> CompiledGraph | None:
        return self.recorded.get(grads) if grads else self.plain

    def _in_background(self, grads: tuple[int, ...]) -> CompiledGraph | BackgroundGraph:
        """The compiled graph, if it is there, or else one that runs the trace meanwhile."""
        from hybridc.compile.background.background_graph import BackgroundGraph, background_graph

        waiting = self.background.get(grads)
        if waiting is None or waiting.is_lost:
            self._report(grads)
            graph = background_graph(Traced(self.trace, grads, self.backends))
        else:
            graph = waiting.latest()
        if isinstance(graph, BackgroundGraph):
            self.background[grads] = graph
            return graph
        return self._ready(grads, graph)

    def _report(self, grads: tuple[int, ...]) -> None:
        """Report the reason for which a graph is compiled."""
        first = self.plain is None and not self.recorded and not self.background  # the trace has reported the reason
        reason = "it is called without recording, compiled before for gradients"
        if grads:
            reason = f"gradients of {'other inputs' if self.recorded else 'inputs'} are recorded"
        compiling(self.trace.name.rpartition("-")[0], self.reason if first else reason, first)

    def _ready(self, grads: tuple[int, ...], graph: CompiledGraph) -> CompiledGraph:
        """Keep a compiled graph for the calls that follow."""
        if self.is_static:
            graph.repeat()
        if grads:
            self.recorded[grads] = graph
        else:
            self.plain = graph
        self.background.pop(grads, None)
        return graph

    def graphs(self) -> list[CompiledGraph]:
        """The graphs that it has."""
        return [g for g in (self.plain, *self.recorded.values()) if g is not None]

    def compilations(self) -> list[Compilation]:
        """The first stage of each compiled graph, and what it became."""
        return [found for graph in self.graphs() for found in graph.compilations()]


def traced_with_guards(
    block: Any, args: tuple[Any, ...], training: bool, varying: Set[str] = frozenset()
) -> tuple[Trace, Guards]:
    """The trace of ``block(*args)``, and the guards under which it stands for other calls.

    Floats at the paths ``varying`` are arguments of the graph where they can be.
    """
    with watching(block, varying) as reading:
        trace = trace_call(block, args, training)
    carried = reading.carried()
    if carried is not None:
        raise TraceError(
            f"attribute {carried} carries a value from one call to the next; a compiled forward runs once for all "
            "calls, so give the value back as a result and pass it in as an argument"
        )
    inputs = zip(trace.sources, trace.roles, strict=True)
    roll_steps(trace)
    reading.finish([source.asnative() for source, role in inputs if role == "capture" and type(source) is NDArray])
    return trace, reading.guards


def _wanted(inputs: Sequence[NDArray]) -> tuple[int, ...]:
    """The indices of the inputs that want gradients; none if autograd does not record."""
    return tuple([i for i, x in enumerate(inputs) if x._entry is not None]) if STATE.recording else ()


class _Kept(NamedTuple):
    """A signature that is kept, and its title."""

    title: str
    entry: Entry


class EntryCache(Generic[E]):
    """The entries of one block by the signature of its arguments, each with its reason.

    The signature is the arguments' structure, shapes and dtypes, train mode, and the plain attributes that the forward
    read. ``HYBRIDC_CACHE_ENTRIES`` signatures are kept, and more while their plans take at most
    ``HYBRIDC_GRAPH_BYTES``; the least recently used goes first, after those for other values of attributes than the
    present ones. ``is_static`` is MXNet's ``hybridize(static_alloc=True)``.
    """

    #: What reports call the block.
    root = "net"
    rest = ""  # what operators outside of blocks are called

    def __init__(self, block: Any, is_static: bool = False) -> None:
        self._block = weakref.ref(block)
        self._is_static = is_static
        self._entries: OrderedDict[Signature, E] = OrderedDict()
        self._before: list[tuple[Signature, E]] = []  # of other values of attributes, the latest last
        self._latest: E | None = None
        self._lock = ForkLock()
        self._evicted: OrderedDict[Signature, None] = OrderedDict()
        self._returned = 0  # how often an evicted signature came again
        self._traced = 0
        self._history: deque[str] = deque(maxlen=_REASONS)

    def _make(self, block: Any, args: tuple[Any, ...], reason: str) -> E:
        """The entry for arguments of a new signature."""
        raise NotImplementedError

    def _note(self, entry: E) -> None:
        """Note that a guard of an entry failed."""

    def find(self, *args: Any) -> tuple[E, Sequence[NDArray]]:
        """The entry for these arguments, and the arrays in them."""
        key, arrays = _signature(args)
        return self._entry(key, args), arrays

    def _entry(self, key: Signature, args: tuple[Any, ...]) -> E:
        entry = self._entries.get(key)
        if entry is None or entry.is_stale():
            entry = self._find(key, args)
        if entry is not self._latest:
            self._touch(key, entry)
        return entry

    def _find(self, key: Signature, args: tuple[Any, ...]) -> E:
        """The entry, made if it is missing or if one of its guards fails."""
        with self._lock.current:
            entry = self._entries.get(key)
            if entry is None:
                reason = "first call" if not self._entries else self._difference(key)
                if key in self._evicted:
                    reason = f"it was evicted from the cache, which keeps {self._count()} signatures"
                    self._count_returned()
            else:
                epoch = ATTRIBUTE_EPOCH.value
                moved = entry.moved()
                if moved is None:
                    entry.epoch = epoch
                    return entry
                reason = moved
                self._note(entry)
            found = self._of_before(key)
            if found is None:
                found = self._trace(args, reason)
            if entry is not None:
                self._before.append((key, entry))
            self._entries[key] = found
            self._touch(key, found)
            while self._is_over():
                if self._before:
                    del self._before[0]
                else:
                    self._evicted[self._entries.popitem(last=False)[0]] = None
            self._evicted.pop(key, None)
            while len(self._evicted) > _EVICTED * OPTIONS.cache_entries:
                self._evicted.popitem(last=False)
            return found

    def _count(self) -> int:
        """The signatures that are kept."""
        return len(self._entries) + len(self._before)

    def _is_over(self) -> bool:
        """Whether more signatures are kept than the options say, whose plans take more memory than they say."""
        if self._count() <= OPTIONS.cache_entries:
            return False
        left = OPTIONS.graph_bytes
        for graph in self.graphs():
            size = graph.plan_bytes
            if size is None:
                return True
            left -= size
        return left <= 0

    def _count_returned(self) -> None:
        """Count a signature that comes again after its eviction; once there were too many, warn."""
        self._returned += 1
        block = self._block()
        if block is not None and self._returned == self._too_many():
            warnings.warn(f"{block.name}: {self._in_turn()}", stacklevel=user_depth())

    @staticmethod
    def _too_many() -> int:
        return max(2, OPTIONS.cache_entries // 4)

    def _in_turn(self) -> str:
        """What happens to a network whose signatures come in turn, and what to do."""
        return (
            f"its calls have more signatures in turn than the {self._count()} whose graphs the cache keeps, so graphs "
            f"are made again ({self._returned} so far), which takes longer than most calls; set one of the environment "
            "variables HYBRIDC_CACHE_ENTRIES and HYBRIDC_GRAPH_BYTES to a greater number, or call it with fewer sizes: "
            "pad batches to one size, put sequences into buckets of similar lengths"
        )

    def _of_before(self, key: Signature) -> E | None:
        """An entry that was left when an attribute changed, and that is valid again."""
        for i, (signature, entry) in enumerate(self._before):
            epoch = ATTRIBUTE_EPOCH.value
            if signature == key and entry.moved() is None:
                entry.epoch = epoch
                del self._before[i]
                return entry
        return None

    def _touch(self, key: Signature, entry: E) -> None:
        """Note that this signature is the one used most recently."""
        with self._lock.current:
            self._latest = entry
            if key in self._entries:
                self._entries.move_to_end(key)

    def _trace(self, args: tuple[Any, ...], reason: str) -> E:
        block = self._block()
        if block is None:
            raise MXNetError("the block of this compiled graph does not exist any more")
        compiling(block.name, reason, first=self._traced == 0)
        self._traced += 1
        self._history.append(reason)
        return self._make(block, args, reason)

    def _difference(self, key: Signature) -> str:
        """The difference of a new signature from the last one, as text."""
        old = next(reversed(self._entries))
        if old[0] != key[0]:
            return f"train mode is {key[0]}, compiled before for {old[0]}"
        before, now = _context_of(old), _context_of(key)
        if before != now:
            return f"the arguments are on {now}, compiled before for {before}"
        before, now = _arrays(old), _arrays(key)
        if len(before) != len(now) or _nesting(old) != _nesting(key):
            return "other number or nesting of arguments"
        for number, (was, is_) in enumerate(zip(before, now, strict=True)):
            if was[0] != is_[0]:
                return f"argument {number} has shape {is_[0]}, compiled before for {was[0]}"
            if was[1] != is_[1]:
                return f"argument {number} has dtype {is_[1]}, compiled before for {was[1]}"
        return "no graph of this signature is kept"

    def latest(self) -> tuple[Trace, Any] | None:
        """The trace that was used last, and how its arguments are nested."""
        if not self._entries:
            return None
        key = next(reversed(self._entries))
        trace = self._entries[key].trace
        nesting = _nesting(key)
        return trace, [0] * trace.roles.count("data") if nesting is None else thaw(nesting)

    def calls(self) -> list[tuple[tuple[Any, Any], ...]]:
        """Shape and dtype of each array among the arguments, for each signature that is kept, the latest first."""
        return list(dict.fromkeys(tuple(_arrays(key)) for key in reversed(self._entries)))

    # --- what happened -------------------------------------------------------------------------------------

    def graphs(self) -> list[CompiledGraph]:
        """All graphs that exist now."""
        found: list[CompiledGraph] = []
        for _, entry, _ in self._kept():
            found += entry.graphs()
        return found

    def report(self) -> Report:
        """:meth:`explain` as a report, of which a page can be made."""
        naming = self._naming()
        told = [
            SignatureReport(
                f"signature {first.title}",
                first.entry.compilations(),
                [(f"signature {other.title}", other.entry.compilations()) for other in others],
            )
            for first, *others in self._alike(naming)
        ]
        return Report(self.explain(naming), told, naming)

    def explain(self, naming: Naming | None = None) -> str:
        """Why each graph was compiled, the kernels it became, its memory and its host calls."""
        naming = naming or self._naming()
        block = self._block()
        lines = [f"{block.name if block is not None else 'a block'}: traced {_times(self._traced)}"]
        lines += _reasons(self._history, self._traced - len(self._history) + 1)
        if self._returned >= self._too_many():
            lines.append(f"  warning: {self._in_turn()}")
        elif self._evicted:
            count = len(self._evicted)
            lines.append(f"  {count} signature{'s were' if count > 1 else ' was'} evicted; {self._count()} are kept")
        lines += self._shared()
        alike = self._alike(naming)
        if len(alike) > _SIGNATURES:
            lines.append(f"{len(alike) - _SIGNATURES} signatures that were used longer ago: see .html()")
            alike = alike[-_SIGNATURES:]
        programs = sum(len(c.programs) for first, *_ in alike for c in first.entry.compilations())
        most = max(1, min(MOST, _PROGRAM_LINES // max(1, programs) - _LINES_BESIDE))
        for first, *others in alike:
            lines.append(f"signature {first.title}")
            for graph in first.entry.graphs():
                lines += ["  " + line for line in graph.summary(naming, most)]
            lines += ["  " + line for line in first.entry.notes()]
            lines += _other_sizes(others)
        return "\n".join(lines)

    def _naming(self) -> Naming:
        """What its launches are called: by blocks of the network, and by the times that the profiler recorded."""
        block = self._block()
        return Naming({} if block is None else block_paths(block, self.root), RECORDER.step_times(), self.rest)

    def _alike(self, naming: Naming) -> list[list[_Kept]]:
        """The signatures that are kept, those together that differ in sizes alone.

        Of these the first is one whose times were recorded, if there is one, and rather one that was compiled for
        itself.
        """
        found: dict[tuple[Any, ...], list[_Kept]] = {}
        for key, entry, when in self._kept():
            kinds = [graph.likeness for graph in entry.graphs()]
            kept = _Kept(f"{_describe(key)}{when}", entry)
            likeness = (_SIZES.sub("n", kept.title), *kinds) if kinds else (kept.title,)
            found.setdefault(likeness, []).append(kept)
        timed_graphs = {title for title, _ in naming.times}

        def rank(kept: _Kept) -> tuple[bool, bool]:
            titles = {title for each in kept.entry.compilations() for title, _ in each.programs}
            return titles.isdisjoint(timed_graphs), any(graph.origin for graph in kept.entry.graphs())

        return [[first := min(kept, key=rank), *(k for k in kept if k is not first)] for kept in found.values()]

    def _shared(self) -> list[str]:
        """A line on the values that follow from parameters alone, which its graphs share."""
        programs = [graph.forward.prepared for graph in self.graphs() if graph.forward.prepared is not None]
        values = {id(value): value for each in programs for value in tuple(each.values.values())}
        if not values:
            return []
        size = sum(value.memory.nbytes for value in values.values())
        graphs = f"{len(programs)} graph{'s' * (len(programs) != 1)} share{'s' * (len(programs) == 1)}"
        return [f"  prepared values: {len(values)} of {size} bytes, which {graphs}"]

    def compilations(self) -> list[tuple[str, list[Traced]]]:
        """A text for each signature, and the first stage of each of its graphs, to run the stages again."""
        kept = [(f"signature {_describe(key)}{when}", entry.compilations()) for key, entry, when in self._kept()]
        return [(title, [each.traced for each in found]) for title, found in kept]

    def _kept(self) -> list[tuple[Signature, E, str]]:
        """All entries, with those of other attribute values."""
        found = [(key, entry, ", with attributes of before") for key, entry in self._before]
        return [*found, *[(key, entry, "") for key, entry in self._entries.items()]]


class CachedGraph(EntryCache[Entry]):
    """The callable of a hybridized block: it finds or makes the graph for the arguments' signature and runs it."""

    def __init__(
        self, block: Any, backends: Backends = (), is_static: bool = False, is_background: bool = False
    ) -> None:
        super().__init__(block, is_static)
        self._backends = backends
        self._is_background = is_background
        self._varying: set[str] = set()  # the paths of floats that changed from call to call
        self._flat: Entry | None = None  # the latest, if its arguments were arrays
        self._at_once = ""  # why the latest call without a graph had none

    def __call__(self, *args: Any) -> Any:
        if self._flat is not None and (result := self._flat.again(args)) is not None:
            return result
        for x in args:
            if isinstance(x, NDArray) and x.stype != "default":
                return self.at_once(args, f"an argument is {x.stype}")
        try:
            key, arrays = _signature(args)
        except NestedArraysError:  # arguments of other types than arrays, only where ``forward`` is overridden
            block = self._block()
            if block is None or not block.overrides_forward():
                raise
            return block.forward(*args)
        return self._run(key, arrays, args)

    def at_once(self, args: tuple[Any, ...], reason: str) -> Any:
        """Run the block operator by operator, for a reason that :meth:`explain` gives; blocks inside are compiled."""
        self._at_once = reason
        block = self._block()
        assert block is not None, "a block that is called exists"
        return block.forward(*args)

    def explain(self, naming: Naming | None = None) -> str:
        """As :meth:`EntryCache.explain`, and why calls had no graph."""
        found = super().explain(naming)
        if not self._at_once:
            return found
        return f"{found}\n  runs operator by operator, with compiled blocks inside, as {self._at_once}"

    def _run(self, key: Signature, arrays: tuple[NDArray, ...], args: tuple[Any, ...]) -> Any:
        entry = self._entry(key, args)
        self._flat = entry if arrays is args else None
        result = entry.again(arrays)
        return entry.run(arrays) if result is None else result

    def prepare(self, *args: Any) -> None:
        """Compile for these arguments, without running, and without a random number."""
        key, arrays = _signature(args)
        entry = self._find(key, args)
        others = [source if role != "key" else _NO_KEY for role, source in entry.others]
        entry.graph([*arrays, *others])

    def in_background(self) -> list[BackgroundGraph]:
        """The graphs that another process compiles."""
        return [graph for _, entry, _ in self._kept() for graph in tuple(entry.background.values())]

    def _make(self, block: Any, args: tuple[Any, ...], reason: str) -> Entry:
        with timed(f"{block.name}, time of tracing"):
            trace, guards = self._traced_with_guards(block, args)
        return Entry(trace, guards, reason, self._backends, self._is_static, self._is_background)

    def _traced_with_guards(self, block: Any, args: tuple[Any, ...]) -> tuple[Trace, Guards]:
        if self._varying:
            try:
                return traced_with_guards(block, args, STATE.training, self._varying)
            except Exception:
                self._varying.clear()  # code that takes floats only; what raises for these, too, raises again
        return traced_with_guards(block, args, STATE.training)

    def _note(self, entry: Entry) -> None:
        """Note float attributes that changed since an entry was made; they are likely to change again."""
        if not self._backends:
            self._varying |= {g.path for g in entry.guards if isinstance(g, Guard) and g.is_other_float()}


def _never(_arrays: tuple[Any, ...]) -> None:
    """There is no native call yet."""


def _again(entry: Entry, call: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
    """``call`` for other arguments; None if a guard of the trace may fail now."""
    training, epoch, unnoticed = entry.trace.training, entry.epoch, entry.unnoticed
    owner = weakref.ref(entry)  # which has this function: an entry that is evicted is freed at once
    sources = tuple([source for _, source in entry.others])

    def again(arrays: tuple[Any, ...]) -> Any:
        if STATE.recording or STATE.training is not training or ATTRIBUTE_EPOCH.value != epoch:
            return None
        if unnoticed and ((now := owner()) is None or now.is_stale()):
            return None
        return call(*(arrays + sources))

    if True not in entry.numpy:
        return again
    numpy = entry.numpy

    def again_in_classes(arrays: tuple[Any, ...]) -> Any:
        if any(x.__class__ is not ndarray for x in arrays):
            return None
        # Native code takes arrays of mx.nd alone; without autograd an array is its buffer.
        result = again(tuple([NDArray(x._data) for x in arrays]))
        return None if result is None else _in_classes(result, numpy)

    return again_in_classes


def _in_classes(result: Any, numpy: Sequence[bool]) -> Any:
    """A result whose arrays are of ``mx.np`` where the traced values are."""
    if type(result) is NDArray or all(numpy):
        return as_numpy(result)
    arrays, structure = flatten(result, NDArray, "the result")
    return regroup([as_numpy(x) if n else x for x, n in zip(arrays, numpy, strict=True)], structure)


def _signature(args: tuple[Any, ...]) -> tuple[Signature, tuple[NDArray, ...]]:
    """The signature of arguments, and the arrays in them: ``args`` itself if they are all arrays on ``cpu(0)``."""
    key: list[Any] = [STATE.training]
    kind: Any = args[0].__class__ if args else NDArray
    if kind is ndarray:
        key.append(_ALL_NUMPY)
    for x in args:
        if type(x) is not kind or (kind is not NDArray and kind is not ndarray):
            return _nested_signature(args)
        data = x._data
        key += (data.shape, data.dtype)
    return tuple(key), args


def _nested_signature(args: tuple[Any, ...]) -> tuple[Signature, tuple[NDArray, ...]]:
    """The signature of arguments that may be lists or tuples of arrays, or None; and the arrays."""
    arrays: list[NDArray] = []
    nesting = frozen(list(args), NDArray, "the arguments of a hybridized block", arrays)
    context = None  # the device of the arguments, if one is not on cpu(0)
    key: list[Any] = [STATE.training]
    for x in arrays:
        data = x._data
        key += (data.shape, data.dtype)
        if context is None and type(x) is not NDArray and type(x) is not ndarray:
            context = _same_context(arrays)
    numpy = tuple(isinstance(x, ndarray) for x in arrays)
    if context is not None or nesting != ("l", *[0] * len(args)) or True in numpy:
        key.insert(1, _Nesting(nesting, context, numpy if True in numpy else ()))
    return tuple(key), tuple(arrays)


def _same_context(arrays: Sequence[NDArray]) -> Context:
    """The one device of arrays."""
    found = list({x.context: None for x in arrays})
    if len(found) > 1:
        raise AttributeValueError(
            f"the arguments are on {' and '.join(map(str, found))}, and a hybridized block takes those of one device; "
            "copy them to one with x.as_in_context(…)"
        )
    return found[0]


def _context_of(key: Signature) -> Context:
    """The device of the arguments."""
    context = key[1].context if len(key) > 1 and isinstance(key[1], _Nesting) else None
    return CPU if context is None else context


def _nesting(key: Signature) -> Any:
    """The structure of arguments that are not all arrays, else None."""
    return key[1].structure if len(key) > 1 and isinstance(key[1], _Nesting) else None


def _arrays(key: Signature) -> list[tuple[Any, Any]]:
    """Shape and dtype of all arrays among the arguments."""
    flat = key[2:] if len(key) > 1 and isinstance(key[1], _Nesting) else key[1:]
    return list(zip(flat[::2], flat[1::2], strict=True))


def _describe(key: Signature) -> str:
    parts = [f"{dtype}{list(shape)}" for shape, dtype in _arrays(key)]
    context = _context_of(key)
    where = "" if context == CPU else f" on {context}"
    return f"({', '.join(parts)}){where}, {'train' if key[0] else 'predict'} mode"


def _reasons(history: Iterable[str], first: int) -> list[str]:
    """Numbered lines; of more than two in a row that differ in numbers alone, the first and the last."""
    lines: list[str] = []
    number = first
    for _, run in itertools.groupby(history, lambda reason: _NUMBERS.sub("n", reason)):
        alike = [*run]
        last = number + len(alike) - 1
        lines.append(f"  {number}. {alike[0]}")
        if len(alike) == 2:
            lines.append(f"  {last}. {alike[1]}")
        elif len(alike) > 2:
            lines.append(f"  {number + 1}. to {last}. likewise, at last: {alike[-1]}")
        number = last + 1
    return lines


def _other_sizes(others: Sequence[_Kept]) -> list[str]:
    """Lines on signatures that differ from one that is told of in sizes alone: what they are, and their arenas."""
    by_origin: dict[str, list[_Kept]] = {}
    for kept in others:
        origins = [graph.origin for graph in kept.entry.graphs() if graph.origin]
        by_origin.setdefault("; ".join(dict.fromkeys([*origins, *kept.entry.notes()])), []).append(kept)
    lines: list[str] = []
    for origin, found in by_origin.items():
        arenas = [program.arena for k in found for c in k.entry.compilations() for _, program in c.programs]
        sizes = [kept.title.rpartition(", ")[0] if ", with" not in kept.title else kept.title for kept in found]
        shown = sizes if len(sizes) < 4 else [*sizes[:2], f"{len(sizes) - 3} more", sizes[-1]]
        least, most = min(arenas), max(arenas)
        arena = f"{least} bytes" if least == most else f"{least} to {most} bytes"
        lines.append(f"  likewise for {', '.join(shown)}{origin and f': {origin}'}; arena {arena}")
    return lines


def block_paths(block: Any, root: str) -> dict[str, BlockPath]:
    """The paths of the blocks inside a block, by their names; ``root`` is the block's own."""
    paths: dict[str, BlockPath] = {}
    stack: list[tuple[str, Any]] = [(root, block)]
    while stack:
        path, parent = stack.pop()
        for name, child in reversed(parent._children.items()):
            inner = f"{path}[{name}]" if name.isdigit() else f"{path}.{name}" if path else name
            paths.setdefault(child.name, BlockPath(inner, type(child).__name__))
            stack.append((inner, child))
    return paths


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
