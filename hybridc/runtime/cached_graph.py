"""The compiled graphs of one block: signature → graph, bounded, each compilation with its reason."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from hybridc.errors import MXNetError
from hybridc.gluon.epoch import ATTRIBUTE_EPOCH
from hybridc.nd.ndarray import NDArray
from hybridc.options import OPTIONS
from hybridc.runtime.compiled_graph import CompiledGraph
from hybridc.runtime.state import STATE
from hybridc.stages import Traced
from hybridc.trace.attributes import Read, watching
from hybridc.trace.structure import flatten, freeze
from hybridc.trace.tracer import Trace, trace_call

Signature = tuple[Any, ...]


class Entry:
    """One signature: the trace, what it depends on, and the graphs made of it (with and without a backward)."""

    def __init__(self, trace: Trace, reads: dict[tuple[int, str], Read], reason: str) -> None:
        self.trace = trace
        self.reads = list(reads.values())
        self.reason = reason
        self.epoch = ATTRIBUTE_EPOCH.value
        self.used = False
        self.plain: CompiledGraph | None = None
        self.recorded: dict[tuple[int, ...], CompiledGraph] = {}
        self.others: list[Any] = []
        self.refresh()

    def refresh(self) -> None:
        """Fetch the parameters' arrays again: they may have been replaced since."""
        self.others = [
            (role, source.data() if role == "parameter" else source)
            for role, source in zip(self.trace.roles, self.trace.sources, strict=True)
            if role != "data"
        ]

    def changed(self) -> Read | None:
        """The first attribute that was read while tracing and has another value now."""
        return next((read for read in self.reads if read.changed()), None)

    def graph(self, inputs: Sequence[NDArray]) -> CompiledGraph:
        """The graph to run now: with a backward for the inputs that want gradients, if autograd records."""
        grads: tuple[int, ...] = ()
        if STATE.recording:
            grads = tuple(
                [i for i, x in enumerate(inputs) if x._entry is not None and x._data.dtype.kind == "f"]
            )
        if not grads:
            if self.plain is None:
                self.plain = _compile(self.trace, ())
            return self.plain
        if grads not in self.recorded:
            self.recorded[grads] = _compile(self.trace, grads)
        return self.recorded[grads]


def _compile(trace: Trace, grads: tuple[int, ...]) -> CompiledGraph:
    return Traced(trace, grads).optimize().lower().compile()


class CachedGraph:
    """What a hybridized block calls: finds or makes the graph for the arguments' signature and runs it.

    The signature is the arguments' structure, shapes and dtypes, train mode, and the plain attributes that the forward
    read. At most ``HYBRIDC_CACHE_ENTRIES`` signatures are kept; the oldest of those not used lately goes first.
    """

    def __init__(self, block: Any, **flags: Any) -> None:
        self._block = weakref.ref(block)
        self._flags = flags
        self._entries: OrderedDict[Signature, Entry] = OrderedDict()
        self._lock = threading.RLock()
        self._history: list[str] = []

    def __call__(self, *args: Any) -> Any:
        key: list[Any] = [STATE.training]
        for x in args:
            if type(x) is not NDArray:
                return self._call_structured(args)
            data = x._data
            key += (data.shape, data.dtype)
        return self._run(tuple(key), args, args)

    def _call_structured(self, args: tuple[Any, ...]) -> Any:
        """Arguments that are lists or tuples of arrays, or None."""
        arrays, structure = flatten(list(args), NDArray, "the arguments of a hybridized block")
        key = (STATE.training, freeze(structure), *((x.shape, x._data.dtype) for x in arrays))
        return self._run(key, arrays, args)

    def _run(self, key: Signature, arrays: Sequence[NDArray], args: tuple[Any, ...]) -> Any:
        entry = self._entries.get(key)
        if entry is None or entry.epoch != ATTRIBUTE_EPOCH.value:
            entry = self._find(key, args)
        entry.used = True
        inputs: list[NDArray] = list(arrays)
        for role, source in entry.others:
            inputs.append(source if role != "key" else entry.trace.draw_key())
        return entry.graph(inputs).run(inputs)

    def _find(self, key: Signature, args: tuple[Any, ...]) -> Entry:
        """The entry, made if it is missing or if what it depends on has changed."""
        with self._lock:
            entry = self._entries.get(key)
            reason = "first call" if not self._entries else self._difference(key)
            if entry is not None:
                moved = entry.changed()
                if moved is None:
                    entry.refresh()
                    entry.epoch = ATTRIBUTE_EPOCH.value
                    return entry
                reason = f"attribute {moved.path} changed from {moved.value!r} to {_now(moved)!r}"
            entry = self._trace(args, reason)
            self._entries[key] = entry
            self._entries.move_to_end(key)
            self._evict()
            return entry

    def _evict(self) -> None:
        """Drop the oldest signatures beyond the bound, sparing once those that were used since they were last looked at."""
        while len(self._entries) > OPTIONS.cache_entries:
            key, oldest = next(iter(self._entries.items()))
            if not oldest.used:
                del self._entries[key]
                continue
            oldest.used = False
            self._entries.move_to_end(key)

    def _trace(self, args: tuple[Any, ...], reason: str) -> Entry:
        block = self._block()
        if block is None:
            raise MXNetError("the block of this compiled graph does not exist any more")
        self._history.append(reason)
        with watching(block) as reads:
            trace = trace_call(block, args, STATE.training)
        return Entry(trace, reads, reason)

    def _difference(self, key: Signature) -> str:
        """What tells a new signature from the one used last."""
        old = next(reversed(self._entries))
        if old[0] != key[0]:
            return f"train mode is {key[0]}, compiled before for {old[0]}"
        if len(old) != len(key):
            return "other number or nesting of arguments"
        for number, (before, now) in enumerate(zip(old[1:], key[1:], strict=True)):
            if before != now:
                what = "shape" if isinstance(now, tuple) else "dtype"
                return f"argument {number // 2} has {what} {now}, compiled before for {before}"
        return "evicted from the cache, which keeps the most recent signatures only"

    # --- what happened -------------------------------------------------------------------------------------

    def graphs(self) -> list[CompiledGraph]:
        """All graphs that exist now."""
        found: list[CompiledGraph] = []
        for entry in self._entries.values():
            found += [g for g in (entry.plain, *entry.recorded.values()) if g is not None]
        return found

    def explain(self) -> str:
        """Why each graph was compiled, the kernels it became, its memory and its host calls."""
        block = self._block()
        lines = [f"{block.name if block is not None else 'a block'}: traced {len(self._history)} times"]
        lines += [f"  {number}. {reason}" for number, reason in enumerate(self._history, 1)]
        for key, entry in self._entries.items():
            lines.append(f"signature {_describe(key)}")
            for graph in [g for g in (entry.plain, *entry.recorded.values()) if g is not None]:
                lines += ["  " + line for line in graph.summary()]
        return "\n".join(lines)


def _now(read: Read) -> Any:
    block = read.block()
    return None if block is None else block.__dict__.get(read.name)


def _describe(key: Signature) -> str:
    parts = [f"{key[i + 1]}{list(key[i])}" for i in range(1, len(key) - 1, 2) if isinstance(key[i], tuple)]
    return f"({', '.join(parts)}), {'train' if key[0] else 'predict'} mode"
