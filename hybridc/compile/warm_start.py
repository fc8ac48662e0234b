"""The disk cache of compiled graphs: later processes load them without the compiler.

A graph is stored under the key of its trace (:mod:`hybridc.compile.trace_key`): its plans as data, a
:class:`StoredGraph` of :mod:`hybridc.ground.serialize`. Plans of native code name kernels by the keys of their
machine code, cached by
:mod:`hybridc.lower.llvm.codegen.native_function`; those of GPUs have the sources of kernels, whose machine code
:mod:`hybridc.runtime.devices.nvidia.compiled` caches for each GPU. A graph that cannot be stored, or whose entry is
damaged or lacks a kernel, is compiled. The cache is off while options ask to print, dump or verify the IR.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from hybridc.compile.compiled_graph import CompiledGraph
from hybridc.compile.trace_key import key_of, made_for, target_of
from hybridc.ground.events import RECORDER, recorded
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NotWritable
from hybridc.ground.store import is_adopted, keep, kept
from hybridc.ir.planned import PlannedProgram
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.lower.triton.launches import TritonProgram
from hybridc.options import OPTIONS
from hybridc.runtime.executable import Executable
from hybridc.runtime.native.native_library import compile_runtime_ahead
from hybridc.runtime.native_executable import NativeExecutable
from hybridc.runtime.planned_executable import PlannedExecutable
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.compile.stages import Traced


@dataclass
class StoredGraph:
    """The stored form of a compiled graph: its programs, and the arguments of CompiledGraph.

    ``lines``: source lines that its host calls and notes name, each with the indices of the trace's nodes from it.
    """

    programs: dict[str, NativeSource | TritonProgram]
    saved: tuple[int, ...]
    grads: tuple[int, ...]
    saved_bytes: int
    heads: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    lines: dict[str, list[int]] = field(default_factory=lambda: dict[str, list[int]]())


def stored_graph(traced: Traced, compiled: Callable[[], CompiledGraph]) -> CompiledGraph:
    """The compiled graph of a trace: from the disk cache, or else ``compiled()``, which is then stored."""
    try:
        key = key_to_store(traced)
    except NotWritable:
        return compiled()
    graph = _looked_up(key, traced)
    if graph is None:
        if target_of(traced.trace) == "llvm":
            compile_runtime_ahead()
        graph = compiled()
        _keep(key, traced, graph, target_of(traced.trace))
    return graph


def graph_in_store(traced: Traced) -> CompiledGraph | None:
    """The compiled graph of a trace, if the disk cache has it."""
    try:
        return _looked_up(key_to_store(traced), traced)
    except NotWritable:
        return None


def key_to_store(traced: Traced) -> str:
    """The key under which the graph of a trace is stored; NotWritable if it is not."""
    target = target_of(traced.trace)
    if target not in ("llvm", "triton"):
        raise NotWritable(f"a program for the target {target}")
    if OPTIONS.verify or OPTIONS.poison or OPTIONS.dump or OPTIONS.print_after or OPTIONS.print_source or OPTIONS.time:
        raise NotWritable("what an option asks to print, dump, time or verify")
    return key_of(traced)


def compiled_identity(traced: Traced) -> str:
    """A text that is equal where another process stores the same graph; NotWritable if it is not stored."""
    return f"{key_to_store(traced)} {made_for(target_of(traced.trace))}"


def _looked_up(key: str, traced: Traced) -> CompiledGraph | None:
    with recorded("compile", "look into the cache on the disk"):
        graph = _found(key, traced, target_of(traced.trace))
    if RECORDER.active:
        RECORDER.mark("compile", "cache hit" if graph is not None else "cache miss", args={"graph": traced.trace.name})
    return graph


def _found(key: str, traced: Traced, target: str) -> CompiledGraph | None:
    """The graph stored under a key, if it is undamaged and the code of its kernels is cached."""
    stored = kept(key, StoredGraph, made_for(target))
    if stored is None:
        return None
    try:
        _move_lines(stored, traced.trace)
        executables = _loaded(stored.programs, traced.trace)
    except (ValueError, LookupError, TypeError):
        return None
    if executables is None:
        return None
    forward, backward = executables["forward"], executables.get("backward")
    facts = stored.saved, stored.grads, stored.saved_bytes, stored.heads, stored.rows
    graph = CompiledGraph(traced.trace, forward, backward, *facts)
    graph.origin = "from the cache on the disk, which an earlier process filled"
    if is_adopted(key, made_for(target)):
        graph.origin = "from the file that it was compiled into"
    return graph


def _loaded(programs: Mapping[str, PlannedProgram], trace: Trace) -> dict[str, Executable] | None:
    """The programs, loaded; None if the machine code of one is missing."""
    native = {name: program for name, program in programs.items() if isinstance(program, NativeSource)}
    codes = codegen.load_stored([f for program in native.values() for f in program.functions_called()])
    if codes is None:
        return None
    remaining = iter(codes)
    executables: dict[str, Executable] = {}
    for name, program in programs.items():
        if isinstance(program, NativeSource):
            executables[name] = NativeExecutable(program, [next(remaining) for _ in program.functions_called()])
        elif isinstance(program, TritonProgram):
            from hybridc.runtime.device_executable import DeviceExecutable

            executables[name] = DeviceExecutable.of(program, trace.context)
    return executables


def _keep(key: str, traced: Traced, graph: CompiledGraph, target: str) -> None:
    """Store a newly compiled graph."""
    executables = [e for e in (graph.forward, graph.backward) if isinstance(e, PlannedExecutable)]
    programs = {e.program.name: e.planned for e in executables if isinstance(e.planned, NativeSource | TritonProgram)}
    with contextlib.suppress(NotWritable):
        lines = _lines(programs, traced.trace)
        facts = (tuple(graph.saved), tuple(graph.grads), graph.saved_bytes, graph.heads, tuple(graph.rows), lines)
        keep(key, StoredGraph(programs, *facts), made_for(target))


# --- the lines that host calls name ---------------------------------------------------------------------------


def _lines(programs: Mapping[str, PlannedProgram], trace: Trace) -> dict[str, list[int]]:
    """Each source line that a host call or a note names, and the indices of the trace's nodes from it."""
    nodes: dict[str, list[int]] = {}
    for index, node in enumerate(trace.nodes):
        nodes.setdefault(str(node.location), []).append(index)
    named = {call.where for program in programs.values() for call in program.host_calls_made() if call.where}
    if missing := named - nodes.keys():
        raise NotWritable(f"a host call at {min(missing)}, a line of no node of the trace")
    noted = {line for program in programs.values() for note in program.notes for line in note.lines}
    return {line: nodes[line] for line in sorted(named | (noted & nodes.keys()))}


def _move_lines(stored: StoredGraph, trace: Trace) -> None:
    """Rename the lines of host calls to those of this trace's nodes; ValueError if one line became several."""
    moved: dict[str, str] = {}
    for line, nodes in stored.lines.items():
        now = {str(trace.nodes[n].location) for n in nodes}
        if len(now) > 1:
            raise ValueError(f"the trace's nodes of line {line} are now on {len(now)} lines, expected one")
        moved[line] = now.pop()
    if any(line != now for line, now in moved.items()):
        for program in stored.programs.values():
            program.rename_lines(moved)
