"""An executable: a loaded program, ``run_in(workspace, arrays)``, and its pool of workspaces."""

from __future__ import annotations

import ast
import itertools
import linecache
import traceback
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from hybridc.dialects.error_context import raise_in_context, raise_located
from hybridc.dialects.operator import Operator
from hybridc.errors import CustomOpError, MXNetError
from hybridc.ground.cached import cached_property
from hybridc.ground.events import RECORDER, now
from hybridc.options import OPTIONS
from hybridc.runtime.workspace import KEPT, POOL, ViewOwner, plain, workspace

if TYPE_CHECKING:
    from hybridc.ir.planned import Program
    from hybridc.lower.numpy.emit_module import PythonProgram

_NUMBER = itertools.count()


class Executable(ABC):
    """A loaded program: ``run(workspace, *arrays)`` returns the results of one call, as a tuple or a list.

    ``entry(workspace, None, *arrays)``, if there is one, does the same natively, or returns
    NotImplemented if the arrays are not as the program expects.
    """

    run: Any
    entry: Any = None
    #: Values that are kept until parameters change; ``prepare`` them for arrays that only hybridc writes.
    prepared: Any = None

    def __init__(self, program: Program) -> None:
        self.program = program
        self.title = program.name  # for reports of a run
        self.view_owner = ViewOwner()
        self._free: list[Any] = []
        #: Whether its workspaces are those of the pool: no operator's state must stay in them, and nothing is poisoned.
        self.is_pooled = False

    def _join_pool(self) -> None:
        """Use workspaces that all programs share, if nothing stays in them from call to call."""
        self.is_pooled = not self.program.is_stateful and not OPTIONS.poison
        if self.is_pooled:
            POOL.join(self, self.program.arena)

    def entitle(self, title: str) -> None:
        """Name it after the graph that it belongs to."""
        self.title = title

    @abstractmethod
    def make_workspace(self) -> Any:
        """A workspace: the memory of one call at a time."""

    def wrapped(self, _type: Any) -> Callable[..., Any] | None:
        """``call(*NDArrays)`` that does a whole call natively, if there is one: see ``wrapper_entry``."""
        return None

    @abstractmethod
    def line_of(self, error: BaseException) -> str:
        """The user's source line of the host call that raised."""

    @property
    def plan_bytes(self) -> int | None:
        """About the memory that it has for itself beside other programs; None if that may be much."""
        return None

    def repeat(self) -> bool:
        """Expect many similar calls (``static_alloc``); returns whether they will be recorded and replayed."""
        return False

    def notes(self) -> list[str]:
        """Further lines for ``net.explain()``."""
        return []

    def acquire(self) -> Any:
        """Take an idle workspace, or make one."""
        if self.is_pooled:
            return POOL.acquire(self.program.arena)
        try:
            return self._free.pop()
        except IndexError:
            return self.make_workspace()

    def release(self, workspace: Any) -> None:
        """Return a workspace to the pool."""
        if self.is_pooled:
            POOL.release(workspace)
        elif len(self._free) < KEPT:
            self._free.append(workspace)

    def __call__(self, *arrays: Any) -> Any:
        workspace = self.acquire()
        try:
            return self.run_in(workspace, arrays)
        finally:
            self.release(workspace)

    def run_in(self, workspace: Any, arrays: Sequence[Any]) -> Any:
        """Run in a workspace; an error of a user's host call gets the operator and the user's lines as context."""
        try:
            return self.run(workspace, *arrays)
        except Exception as error:
            self._raise_in_context(error)
            raise

    def _raise_in_context(self, error: Exception) -> None:
        """Raise a host call's error with the operator and the network's line in its text; foreign errors get a note."""
        where = self.line_of(error)
        op = _operator_of(error)
        try:
            if op is not None:
                raise_in_context(op, "eager", error)
        except CustomOpError as in_context:
            error = in_context
        if isinstance(error, MXNetError):
            raise_located(error, where)
        if where:
            error.add_note(f"raised for {where}")


def _operator_of(error: BaseException) -> Operator | None:
    """The operator whose method is the outermost in the traceback."""
    calls = (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__))
    return next((owner for owner in calls if isinstance(owner, Operator)), None)


class PythonExecutable(Executable):
    """A generated Python function, compiled to bytecode."""

    def __init__(self, program: PythonProgram) -> None:
        super().__init__(program)
        self._filename = filename = f"<hybridc {program.name} {next(_NUMBER)}>"
        lines = program.source.splitlines(keepends=True)
        # Lets tracebacks show the source, as long as this program exists.
        linecache.cache[filename] = (len(program.source), None, lines, filename)
        weakref.finalize(self, linecache.cache.pop, filename, None)
        scope = {"__name__": "hybridc.generated", **program.scope}
        exec(compile(program.source, filename, "exec"), scope)
        self.run = scope[program.name]
        self._scope = scope
        self._views: Any = scope["workspace"]
        self._join_pool()

    def make_workspace(self) -> Any:
        """The arena."""
        return workspace(self.program.arena)

    def views(self, workspace: Any) -> Any:
        """The views of a workspace that a call needs."""
        kept = workspace.views(self.view_owner)
        views = kept.get("all")
        if views is None:
            views = kept["all"] = self._views(plain(workspace))
        return views

    def run_in(self, workspace: Any, arrays: Sequence[Any]) -> Any:
        """Run in a workspace; while graphs are recorded, each launch is."""
        if not RECORDER.graphs:
            return super().run_in(self.views(workspace), arrays)
        run, begin = self._recorded, now()
        try:
            results = run(self.views(workspace), *arrays)
        except Exception as error:
            self._raise_in_context(error)
            raise
        RECORDER.add("graph", self.title, begin, {"steps": len(self.program.launches)})
        return results

    @cached_property
    def _recorded(self) -> Any:
        """The program with a clock around each launch; its lines are those of the source."""
        program = cast("PythonProgram", self.program)
        tree = ast.parse(program.source)
        function = next(f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == program.name)
        statements, index = list[ast.stmt](), 0
        for statement in function.body:
            if not program.is_launch(statement):
                statements.append(statement)
                continue
            begin, end = ast.parse(f"_begin = _now()\n_launched({index}, _begin)").body
            for added in (begin, end):
                for node in ast.walk(added):
                    ast.copy_location(node, statement)
            statements += [begin, statement, end]
            index += 1
        function.body = statements
        scope = {**self._scope, "_now": now, "_launched": self._launched}
        exec(compile(tree, self._filename, "exec"), scope)
        return scope[program.name]

    def _launched(self, index: int, begin: int) -> None:
        """Record a launch."""
        note = self.program.notes[index]
        facts = {"graph": self.title, "step": index, **note.facts()}
        if index in self.program.host_launches:
            RECORDER.add("host", note.operators[0], begin, facts)
        else:
            RECORDER.add("kernel", note.name, begin, facts)

    def line_of(self, error: BaseException) -> str:
        """The comment after the call in the generated source."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == self._filename:
                return self.program.source.splitlines()[line - 1].partition("  # ")[2]
        return ""
