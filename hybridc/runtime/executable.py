"""A program that can be called: ``run_in(workspace, arrays)`` gives its results; workspaces are used again."""

from __future__ import annotations

import itertools
import linecache
import traceback
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hybridc.dialects.blame import blame, located
from hybridc.dialects.operator import Operator
from hybridc.errors import CustomOpError, MXNetError

if TYPE_CHECKING:
    from hybridc.ir.planned import Program
    from hybridc.lower.numpy.emit_module import PythonProgram

_NUMBER = itertools.count()
# Workspaces kept for the next call: one for each thread that ever ran the graph at the same time, but no more than
# this.
_KEPT = 4


class Executable(ABC):
    """A program made callable: ``run(workspace, *arrays)`` gives the results of one call, as a tuple or a list.

    ``entry(workspace, None, *arrays)``, if there is one, does the same without calling Python, or answers
    NotImplemented if the arrays are not as it wants them.
    """

    run: Any
    entry: Any = None

    def __init__(self, program: Program) -> None:
        self.program = program
        self._free: list[Any] = []

    @abstractmethod
    def make_workspace(self) -> Any:
        """Memory for one call at a time."""

    def boxed(self, _type: Any) -> Callable[..., Any] | None:
        """``call(*NDArrays)`` that does all of a call natively, where there is one: see ``boxed_entry``."""
        return None

    @abstractmethod
    def line_of(self, error: BaseException) -> str:
        """The user's line from which the call of the host was made that raised."""

    def repeat(self) -> bool:
        """Expect many calls that are alike (``static_alloc``); whether they will be recorded and replayed."""
        return False

    def notes(self) -> list[str]:
        """What else there is to tell of its calls, in words."""
        return []

    def acquire(self) -> Any:
        """A workspace that nobody else uses now."""
        try:
            return self._free.pop()
        except IndexError:
            return self.make_workspace()

    def release(self, workspace: Any) -> None:
        """Give a workspace back."""
        if len(self._free) < _KEPT:
            self._free.append(workspace)

    def __call__(self, *arrays: Any) -> Any:
        workspace = self.acquire()
        try:
            return self.run_in(workspace, arrays)
        finally:
            self.release(workspace)

    def run_in(self, workspace: Any, arrays: Sequence[Any]) -> Any:
        """Run; if a host call of the user's raises, the error names the operator and the user's lines."""
        try:
            return self.run(workspace, *arrays)
        except Exception as error:
            self._tell(error)
            raise

    def _tell(self, error: Exception) -> None:
        """Raise an error of a host call with the operator and the network's line in its text; others get a note."""
        where = self.line_of(error)
        told = error
        op = _operator_of(error)
        try:
            if op is not None:
                blame(op, "eager", error)
        except CustomOpError as blamed:
            told = blamed
        if isinstance(told, MXNetError):
            told = located(told, where)
            raise told from told.__cause__
        if where:
            told.add_note(f"raised for {where}")


def _operator_of(error: BaseException) -> Operator | None:
    """The operator whose method was called first."""
    calls = (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__))
    return next((found for found in calls if isinstance(found, Operator)), None)


class PythonExecutable(Executable):
    """Generated Python, compiled to bytecode."""

    def __init__(self, program: PythonProgram) -> None:
        super().__init__(program)
        self._filename = filename = f"<hybridc {program.name} {next(_NUMBER)}>"
        lines = program.source.splitlines(keepends=True)
        # Tracebacks then show the source, as long as this program exists.
        linecache.cache[filename] = (len(program.source), None, lines, filename)
        weakref.finalize(self, linecache.cache.pop, filename, None)
        scope = {"__name__": "hybridc.generated", **program.scope}
        exec(compile(program.source, filename, "exec"), scope)
        self.run = scope[program.name]
        self._make: Any = scope["workspace"]

    def make_workspace(self) -> Any:
        """The arena and the arrays in it."""
        return self._make()

    def line_of(self, error: BaseException) -> str:
        """What the source says in a comment behind the call."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == self._filename:
                return self.program.source.splitlines()[line - 1].partition("  # ")[2]
        return ""
