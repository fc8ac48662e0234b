"""The executable of a native plan: one native entry per call, and Python only to convert arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.ir.planned import HostCall
from hybridc.lower.llvm.codegen.native_function import LoadedCode
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.runtime.native.native_program import NativeProgram
from hybridc.runtime.native.prepared_values import PreparedValues
from hybridc.runtime.native.wrapper_call import wrapper_entry
from hybridc.runtime.planned_executable import PlannedExecutable
from hybridc.runtime.workspace import POOL, fits

# What a step takes in memory: in the table, and as Python objects.
_STEP_BYTES = 4096


class NativeExecutable(PlannedExecutable):
    """A loaded native program."""

    def __init__(self, program: NativeSource, codes: Sequence[LoadedCode] | None = None) -> None:
        """``codes`` are the native functions of the program, if they are loaded already."""
        self.native = NativeProgram(program.plan(codes))
        self.prepared = self.native.values
        # No function here is a method of this object: its memory shall be free as soon as it is evicted.
        self._make = self.native.entry if self.prepared is None else PreparedEntry(self.native, self.prepared)
        super().__init__(program, program.constants)
        self.program: NativeSource = program
        self._join_pool()
        if self.is_direct:
            self.entry = self.native.entry if not any(isinstance(s, HostCall) for s in program.steps) else None

    def entitle(self, title: str) -> None:
        """Name it, and its plan, after the graph that it belongs to."""
        super().entitle(title)
        self.native.plan.title = title
        for index, step in enumerate(self.program.steps):
            if isinstance(step, HostCall):
                step.position.update(graph=title, step=index)

    def run(self, workspace: Any, *arrays: Any) -> Any:
        """The results of one call."""
        if not self.is_direct:
            return super().run(workspace, *arrays)
        fresh = self._make(workspace, None, *arrays)
        return fresh if fresh is not NotImplemented else self._conform(workspace, None, arrays)

    @property
    def plan_bytes(self) -> int | None:
        """Its plan and its constants; machine code, prepared values and pooled workspaces are shared."""
        if not self.is_pooled:
            return None
        return _STEP_BYTES * len(self.program.steps) + sum(array.nbytes for array in self.program.constants)

    def notes(self) -> list[str]:
        """The kernels whose results are kept from call to call, and how often they ran."""
        if self.prepared is None:
            return []
        count, times = self.program.preparation, self.prepared.count
        size = sum(value.size for value in self.program.kept)
        steps, done = f"{count} step{'s' * (count != 1)}", f"{times} time{'s' * (times != 1)}"
        head = f"preparation: {steps}, done {done}, whose {size} bytes are kept"
        shared = [f"  at every call, as foreign code may write input {i}" for i in self.prepared.shared]
        return [head, *shared]

    def wrapped(self, type_: Any) -> Callable[..., Any] | None:
        """A native call on NDArrays."""
        return None if self.entry is None else wrapper_entry(self.native, type_)

    def make_workspace(self) -> Any:
        """The arena."""
        return self.native.workspace()


class PreparedEntry:
    """The entry of a program, or all its steps, in a workspace of their own, for arrays without prepared values."""

    def __init__(self, native: NativeProgram, prepared: PreparedValues) -> None:
        self.unprepared: NativeProgram | None = None  # made when it is needed
        self._native = native
        self._prepared = prepared

    def __call__(self, workspace: Any, into: Any, *arrays: Any) -> Any:
        fresh = self._native.entry(workspace, into, *arrays)
        if fresh is NotImplemented and self._prepared.hold(arrays):  # another thread may just have prepared them
            fresh = self._native.entry(workspace, into, *arrays)
        if fresh is not NotImplemented or not all(map(fits, arrays, self._native.plan.inputs)):
            return fresh
        if self.unprepared is None:
            self.unprepared = NativeProgram(self._native.plan.unprepared())
            POOL.join(self.unprepared, self.unprepared.plan.arena)
        own = POOL.acquire(self.unprepared.plan.arena)
        try:
            return self.unprepared.entry(own, into, *arrays)
        finally:
            POOL.release(own)
