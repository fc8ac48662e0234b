"""The executable of a native plan: one native entry per call, and Python only to convert arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.ir.planned import HostCall
from hybridc.lower.llvm.codegen.native_function import LoadedCode
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.runtime.native.native_program import NativeProgram
from hybridc.runtime.native.wrapper_call import wrapper_entry
from hybridc.runtime.planned_executable import PlannedExecutable


class NativeExecutable(PlannedExecutable):
    """A loaded native program."""

    def __init__(self, program: NativeSource, codes: Sequence[LoadedCode] | None = None) -> None:
        """``codes`` are the native functions of the program, if they are loaded already."""
        self.native = NativeProgram(program.plan(codes))
        super().__init__(program, self.native.entry, program.constants)
        self.program: NativeSource = program
        if self.is_direct:
            self.run = self._run_directly
            self.entry = self._make if not any(isinstance(s, HostCall) for s in program.steps) else None

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
