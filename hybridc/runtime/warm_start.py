"""Compiled graphs from the disk: what a process compiled, later ones load without the compiler.

A graph is kept under the key of its trace (:mod:`hybridc.runtime.trace_key`): its plans as data
(:mod:`hybridc.runtime.plan_bytes`), in which kernels are named by the keys of their machine code, which is kept by
:mod:`hybridc.lower.llvm.codegen`. What cannot be kept, or was damaged, or lacks a kernel, is compiled. Nothing is kept
while the settings ask to see or to check the compiler's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hybridc.lower.llvm import codegen
from hybridc.options import OPTIONS
from hybridc.runtime.compiled_graph import CompiledGraph
from hybridc.runtime.native.plan import Host
from hybridc.runtime.native_executable import NativeExecutable
from hybridc.runtime.plan_bytes import KeptGraph, NotWritable, from_bytes, to_bytes
from hybridc.runtime.store import store
from hybridc.runtime.trace_key import key_of, lines

if TYPE_CHECKING:
    from hybridc.stages import Traced


def graph(traced: Traced, compiled: Callable[[], CompiledGraph]) -> CompiledGraph:
    """The graph of a trace: that of an earlier process, or else ``compiled()``, which later processes find."""
    if not _enabled():
        return compiled()
    try:
        key = key_of(traced)
    except NotWritable:
        return compiled()
    found = _found(key, traced)
    if found is None:
        found = compiled()
        _keep(key, traced, found)
    return found


def _enabled() -> bool:
    """Whether graphs are native, and nobody wants to see or to check how they are made."""
    watched = OPTIONS.verify or OPTIONS.poison or OPTIONS.dump or OPTIONS.print_after or OPTIONS.print_source
    return OPTIONS.target == "llvm" and not watched and not OPTIONS.time


def _found(key: str, traced: Traced) -> CompiledGraph | None:
    """The graph that is kept under a key, if it is whole, and its host calls name the lines of this trace."""
    data = store().get(key)
    if data is None:
        return None
    try:
        kept = from_bytes(data)
    except (ValueError, LookupError, TypeError):
        return None
    if kept.lines and kept.lines != lines(traced.trace):
        return None
    functions = [f for program in kept.programs.values() for f in program.functions_called()]
    codes = codegen.load_stored(functions)
    if codes is None:
        return None
    given = iter(codes)
    made = {
        name: NativeExecutable(program, [next(given) for _ in program.functions_called()])
        for name, program in kept.programs.items()
    }
    return CompiledGraph(traced.trace, made["forward"], made.get("backward"), kept.saved, kept.grads, kept.kept)


def _keep(key: str, traced: Traced, made: CompiledGraph) -> None:
    """Keep a graph that was compiled for later processes."""
    programs = {e.program.name: e.program for e in (made.forward, made.backward) if isinstance(e, NativeExecutable)}
    hosts = any(isinstance(step, Host) for program in programs.values() for step in program.steps)
    graph = KeptGraph(programs, tuple(made.saved), tuple(made.grads), made.kept, lines(traced.trace) if hosts else "")
    try:
        data = to_bytes(graph)
    except NotWritable:
        return
    store().put(key, data)
