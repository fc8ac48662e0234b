"""A native plan made callable: one entry for each call, and Python only where arrays are not as the plan wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.ir.planned import HostCall
from hybridc.lower.llvm.codegen.native_function import LoadedCode
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.runtime.native.boxed import boxed_entry
from hybridc.runtime.native.native_program import NativeProgram
from hybridc.runtime.planned_executable import PlannedExecutable


class NativeExecutable(PlannedExecutable):
    """A native program."""

    def __init__(self, program: NativeSource, codes: Sequence[LoadedCode] | None = None) -> None:
        """``codes`` are those of the program's functions, if they were loaded already."""
        self.native = NativeProgram(program.plan(codes))
        super().__init__(program, self.native.entry, program.constants)
        self.program: NativeSource = program
        if self.is_direct:
            self.run = self._run_directly
            self.entry = self._make if not any(isinstance(s, HostCall) for s in program.steps) else None

    def _run_directly(self, workspace: Any, *arrays: Any) -> Any:
        """One call whose results are the fresh arrays, as they are."""
        fresh = self._make(workspace, None, *arrays)
        return fresh if fresh is not NotImplemented else self._conform(workspace, None, arrays)

    def boxed(self, type_: Any) -> Callable[..., Any] | None:
        """The whole call in native code."""
        return None if self.entry is None else boxed_entry(self.native, type_, self.acquire())

    def make_workspace(self) -> Any:
        """The arena."""
        return self.native.workspace()
