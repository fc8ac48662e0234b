"""Prepared values of a native program: what it computes of parameters alone, kept until one of them changes.

The values are those of the store, which programs of the same parameters share. Each computation fills memory of its
own. So calls in other threads go on with the values that they started with, and the memory is freed when nobody uses it
any more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.ground.locks import ForkLock
from hybridc.ground.watches import may_watch
from hybridc.runtime.native.native_library import native_runtime
from hybridc.runtime.prepared_store import STORE, SharedValue, ValueKey, memories_of
from hybridc.runtime.workspace import fits

if TYPE_CHECKING:
    from hybridc.runtime.native.native_program import Tables


class _Addresses(np.ndarray[Any, Any]):
    """The addresses of values, for native code; it keeps the values alive."""

    values: Sequence[SharedValue]


class PreparedValues:
    """The prepared values of one program; they hold for the arrays from which they were computed."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.count = 0  # how often this program computed some of them
        self.kept = tables.plan.kept
        #: The inputs that the preparation reads.
        self.inputs = sorted({i for value in self.kept for i in value.inputs})
        #: The inputs that foreign code may write, so that all is computed in every call.
        self.shared: list[int] = []
        #: The values that are in use, by their indices; one that does not hold any more is missing.
        self.values: dict[int, SharedValue] = {}
        self._state = ForkLock()  # of the fields that native code reads

    def hold(self, arrays: Sequence[Any]) -> bool:
        """Whether there are values, and they are those of these arrays."""
        return self.tables.prepared_of(arrays) is not None

    def prepare(self, workspace: Any, arrays: Sequence[Any]) -> None:
        """Get the values of these arrays, if it can be noticed when one of them changes.

        The caller makes sure that only hybridc writes these arrays, saying so (:mod:`hybridc.ground.watches`).
        """
        with STORE.lock.current:
            read = [arrays[i] for i in self.inputs]
            self.shared = [i for i, array in zip(self.inputs, read, strict=True) if not may_watch(array)]
            if self.shared or self.hold(arrays):
                return
            if not all(fits(array, spec) for array, spec in zip(arrays, self.tables.plan.inputs, strict=True)):
                return
            values = self._found_or_computed(workspace, arrays)
            with self._state.current:
                self.values = values
                for value in values.values():
                    value.used_by(self)
                if all(value.is_valid for value in values.values()):
                    self._publish(arrays)
            for value in tuple(values.values()):  # one may have ended by the garbage collector, within the lines above
                if not value.is_valid:
                    self.forget(value)

    def forget(self, value: SharedValue) -> None:
        """Drop a value that does not hold any more: an array changed."""
        with self._state.current:
            index = next((n for n, known in self.values.items() if known is value), None)
            if index is not None:
                del self.values[index]
                self.tables.program.prepared = None
                self.tables.prepared = None

    def _publish(self, arrays: Sequence[Any]) -> None:
        table = self.tables.read
        for i in self.inputs:
            table[i] = arrays[i].ctypes.data
        values = [self.values[n] for n in range(len(self.kept))]
        addresses = np.array([v.memory.ctypes.data for v in values], np.uintp).view(_Addresses)
        addresses.values = values
        # None of the arrays is freed while the values are valid, so their identities are theirs alone.
        self.tables.prepared = addresses, {i: id(arrays[i]) for i in self.inputs}
        self.tables.program.prepared = id(addresses)

    def _found_or_computed(self, workspace: Any, arrays: Sequence[Any]) -> dict[int, SharedValue]:
        """All values, by their indices: those that the store has, and the others, which it has from now on."""
        keys: list[ValueKey] = [(value.key, *[id(arrays[i]) for i in value.inputs]) for value in self.kept]
        known: dict[ValueKey, SharedValue] = {key: value for key in keys if (value := STORE.find(key)) is not None}
        absent = {key: value for key, value in zip(keys, self.kept, strict=True) if key not in known}
        memories = memories_of([value.size for value in absent.values()])
        missing = {
            key: SharedValue(memory, [arrays[i] for i in value.inputs])
            for (key, value), memory in zip(absent.items(), memories, strict=True)
        }
        every = [(known | missing)[key] for key in keys]
        if missing:
            self._compute(workspace, arrays, every, {keys.index(key) for key in missing})
            self.count += 1
            for key, value in missing.items():
                STORE.add(key, value)
        return dict(enumerate(every))

    def _compute(self, workspace: Any, arrays: Sequence[Any], values: Sequence[SharedValue], missing: Set[int]) -> None:
        """Run the steps that compute the missing values. Others that they write, too, go into memory that is freed."""
        plan = self.tables.plan
        steps = {step for n in missing for step in self.kept[n].steps}
        memory = [value.memory for value in values]
        for n, value in enumerate(self.kept):
            if n not in missing and not steps.isdisjoint(value.steps):
                [memory[n]] = memories_of([value.size])
        inputs = [a.ctypes.data for a in (workspace, *arrays)]
        constants = [c.ctypes.data for c in plan.constants]
        addresses = [*inputs, *[None] * len(plan.results), *constants, *[m.ctypes.data for m in memory]]
        slots = (ctypes.c_void_p * len(addresses))(*addresses)
        for step in sorted(steps):
            native_runtime().run(ctypes.addressof(self.tables.program), slots, step, step + 1)
