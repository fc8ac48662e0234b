"""The entry of a program in Python, for interpreters whose object layout native code does not know."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hybridc.ground.events import RECORDER, now
from hybridc.ir.planned import Host
from hybridc.runtime.native.native_library import native_runtime
from hybridc.runtime.workspace import Workspace, fits, fresh

if TYPE_CHECKING:
    from hybridc.runtime.native.native_program import Tables


def python_entry(tables: Tables) -> Callable[..., Any]:
    """The native entry's interface, several times slower; only the steps between host steps are native."""
    plan = tables.plan
    native = native_runtime()
    host_steps = [(index, step.call) for index, step in enumerate(plan.steps) if isinstance(step, Host)]

    def entry(workspace: Any, into: Any, *arrays: Any) -> Any:
        if len(arrays) != len(plan.inputs):
            raise TypeError("entry(workspace, into, *arrays): a wrong number of arrays")
        if type(workspace) is not Workspace:
            raise TypeError("entry(workspace, into, *arrays): workspace is no Workspace")
        if workspace.size < plan.arena:
            raise TypeError("entry(workspace, into, *arrays): the workspace is one of a smaller program")
        if into is not None and type(into) is not tuple:
            raise TypeError("entry(workspace, into, *arrays): into is neither None nor a tuple")
        outputs: list[Any] = [None if into is None else into[i] for i in range(len(plan.results))]
        if not all(fits(array, spec) for array, spec in zip(arrays, plan.inputs)):
            return NotImplemented
        if not all(a is None or (fits(a, spec) and a.flags.writeable) for a, spec in zip(outputs, plan.results)):
            return NotImplemented
        prepared = () if not plan.kept else tables.prepared_of(arrays)
        if prepared is None:
            return NotImplemented
        results = tuple(fresh(r) if a is None else a for a, r in zip(outputs, plan.results))
        addresses = [array.ctypes.data for array in (workspace, *arrays, *results, *plan.constants)]
        addresses += [int(value) for value in prepared]
        slots = (ctypes.c_void_p * len(addresses))(*addresses)
        address = ctypes.addressof(tables.program)  # here, as the closure keeps the tables alive
        begin = now() if RECORDER.graphs else 0
        at = plan.preparation
        for index, call in host_steps:
            native.run(address, slots, at, index)
            call(workspace, arrays, results)
            at = index + 1
        native.run(address, slots, at, len(plan.steps))
        if begin:
            RECORDER.add("graph", plan.title, begin, {"steps": len(plan.steps), "arena bytes": plan.arena})
        return results

    return entry
