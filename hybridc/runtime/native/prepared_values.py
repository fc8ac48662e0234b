"""Prepared values: what a native program computes of parameters alone, kept for the calls until one of them changes.

Each preparation fills memory of its own. So calls in other threads go on with the values that they started with, and
the memory is freed when nobody uses it any more.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.locks import ForkLock
from hybridc.ground.watches import Watch, may_watch
from hybridc.ir.planned import NativeRegion
from hybridc.runtime.native.native_library import library
from hybridc.runtime.workspace import fits

if TYPE_CHECKING:
    from hybridc.runtime.native.native_program import Tables


class PreparedValues:
    """The prepared values of one program; they hold for the arrays from which they were computed."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.count = 0  # preparations so far
        plan = tables.plan
        regions = [s for s in plan.steps[: plan.preparation] if isinstance(s, NativeRegion)]
        slots = {place.slot for region in regions for place in region.buffers}
        #: The inputs that the preparation reads.
        self.inputs = [i for i in range(len(plan.inputs)) if i + 1 in slots]
        self._lock = ForkLock()  # one thread prepares, others wait
        self._state = ForkLock()  # of the fields that native code reads
        self._current: list[Watch] = []  # of the arrays that they were computed from
        #: The inputs that foreign code may write, so that all is computed in every call.
        self.shared: list[int] = []
        weakref.finalize(self, _end, self._current).atexit = False

    def hold(self, arrays: Sequence[Any]) -> bool:
        """Whether there are values, and they are those of these arrays."""
        return self.tables.prepared_of(arrays) is not None

    def prepare(self, workspace: Any, arrays: Sequence[Any]) -> None:
        """Compute the values of these arrays, if it can be noticed when one of them changes.

        The caller makes sure that only hybridc writes these arrays, saying so (:mod:`hybridc.ground.watches`).
        """
        with self._lock.current:
            read = [arrays[i] for i in self.inputs]
            self.shared = [i for i, array in zip(self.inputs, read, strict=True) if not may_watch(array)]
            if self.shared or self.hold(arrays):
                return
            if not all(fits(array, spec) for array, spec in zip(arrays, self.tables.plan.inputs, strict=True)):
                return
            _end(self._current)
            weak: weakref.ref[PreparedValues] = weakref.ref(self)
            watch = Watch(read, lambda watch: _forget(weak, watch))
            self._current.append(watch)
            memory = self._computed(workspace, arrays)
            self.count += 1
            with self._state.current:
                if not watch.is_over:
                    self._publish(memory, read)
            if watch.is_over:  # by the garbage collector, within the lines above
                self.forget(watch)

    def forget(self, watch: Watch) -> None:
        """Drop the values that were computed under a watch: an array changed."""
        with self._state.current:
            if watch in self._current or not self._current:
                self.tables.program.prepared = None
                self.tables.prepared = None

    def _publish(self, memory: Any, read: Sequence[Any]) -> None:
        table = self.tables.read
        for i, array in zip(self.inputs, read, strict=True):
            table[i] = array.ctypes.data
        # None of the arrays is freed while the watch lasts, so their identities are theirs alone.
        self.tables.prepared = memory, {i: id(array) for i, array in zip(self.inputs, read, strict=True)}
        self.tables.program.prepared = id(memory)

    def _computed(self, workspace: Any, arrays: Sequence[Any]) -> Any:
        """The memory with the values."""
        plan = self.tables.plan
        buffer = np.empty(plan.kept + ALIGNMENT, np.uint8)
        start = -buffer.ctypes.data % ALIGNMENT
        memory = buffer[start : start + plan.kept]
        given = [a.ctypes.data for a in (workspace, *arrays)]
        constants = [c.ctypes.data for c in plan.constants]
        addresses = [*given, *[None] * len(plan.results), *constants, memory.ctypes.data]
        slots = (ctypes.c_void_p * len(addresses))(*addresses)
        library().run(ctypes.addressof(self.tables.program), slots, 0, plan.preparation)
        return memory


def _forget(values: weakref.ref[PreparedValues], watch: Watch) -> None:
    found = values()
    if found is not None:
        found.forget(watch)


def _end(watches: list[Watch]) -> None:
    """End the watches of values that are dropped."""
    for watch in tuple(watches):
        watch.end()
    watches.clear()
