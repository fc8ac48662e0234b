"""The executable of a native plan: one native entry per call, and Python only to convert arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.ir.planned import HostCall
from hybridc.lower.llvm.codegen.native_function import LoadedCode
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.runtime.executable import KEPT
from hybridc.runtime.native.native_program import NativeProgram
from hybridc.runtime.native.wrapper_call import wrapper_entry
from hybridc.runtime.planned_executable import PlannedExecutable
from hybridc.runtime.workspace import Workspace, fits


class NativeExecutable(PlannedExecutable):
    """A loaded native program."""

    def __init__(self, program: NativeSource, codes: Sequence[LoadedCode] | None = None) -> None:
        """``codes`` are the native functions of the program, if they are loaded already."""
        self.native = NativeProgram(program.plan(codes))
        self.prepared = self.native.values
        self._unprepared: NativeProgram | None = None  # made when it is needed
        self._own: list[Workspace] = []  # its workspaces
        make = self.native.entry if self.prepared is None else self._prepared_or_not
        super().__init__(program, make, program.constants)
        self.program: NativeSource = program
        if self.is_direct:
            self.run = self._run_directly
            self.entry = self.native.entry if not any(isinstance(s, HostCall) for s in program.steps) else None

    def entitle(self, title: str) -> None:
        """Name it, and its plan, after the graph that it belongs to."""
        super().entitle(title)
        self.native.plan.title = title

    def _prepared_or_not(self, workspace: Any, into: Any, *arrays: Any) -> Any:
        """The entry, or all steps, in a workspace of their own, for arrays of which no values are prepared."""
        assert self.prepared is not None
        fresh = self.native.entry(workspace, into, *arrays)
        if fresh is NotImplemented and self.prepared.hold(arrays):  # another thread may just have prepared them
            fresh = self.native.entry(workspace, into, *arrays)
        if fresh is not NotImplemented or not all(map(fits, arrays, self.planned.inputs)):
            return fresh
        if self._unprepared is None:
            self._unprepared = NativeProgram(self.native.plan.unprepared())
        own = self._own.pop() if self._own else self._unprepared.workspace()
        try:
            return self._unprepared.entry(own, into, *arrays)
        finally:
            if len(self._own) < KEPT:
                self._own.append(own)

    def notes(self) -> list[str]:
        """The kernels whose results are kept from call to call, and how often they ran."""
        if self.prepared is None:
            return []
        count, size, times = self.program.preparation, self.program.kept, self.prepared.count
        names = list(dict.fromkeys(s.name for s in self.native.plan.steps[:count]))
        steps, done = f"{count} step{'s' * (count != 1)}", f"{times} time{'s' * (times != 1)}"
        head = f"preparation: {steps}, done {done}, whose {size} bytes are kept"
        shared = [f"  at every call, as foreign code may write input {i}" for i in self.prepared.shared]
        return [head, f"  {', '.join(names)}", *shared]

    def _run_directly(self, workspace: Any, *arrays: Any) -> Any:
        """One call whose results are the entry's."""
        fresh = self._make(workspace, None, *arrays)
        return fresh if fresh is not NotImplemented else self._conform(workspace, None, arrays)

    def wrapped(self, type_: Any) -> Callable[..., Any] | None:
        """A native call on NDArrays."""
        return None if self.entry is None else wrapper_entry(self.native, type_, self.acquire())

    def make_workspace(self) -> Any:
        """The arena."""
        return self.native.workspace()
