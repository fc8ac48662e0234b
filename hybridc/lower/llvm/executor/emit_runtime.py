"""The native runtime as LLVM IR: one module for each architecture."""

from __future__ import annotations

from hybridc.lower.llvm.codegen.ir_text import TextModule
from hybridc.lower.llvm.executor.emit_entry import emit_entry, emit_run
from hybridc.lower.llvm.executor.emit_events import emit_events
from hybridc.lower.llvm.executor.emit_loop import emit_loop
from hybridc.lower.llvm.executor.emit_pool import emit_clock, emit_grid, emit_pool
from hybridc.lower.llvm.executor.emit_wrapper_call import emit_wrapper_call

# Spin-wait intrinsics.
_PAUSE = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}


def runtime_text(architecture: str, records: bool = False) -> str:
    """The LLVM IR of the native runtime, or of the variant that records events."""
    module = TextModule(_PAUSE.get(architecture, ""))
    clock = emit_clock(module)
    events = emit_events(module, clock) if records else None
    run = emit_run(module, emit_pool(module, clock, events), events)
    emit_wrapper_call(module, emit_entry(module, run, events))
    emit_grid(module)
    emit_loop(module, run)
    return str(module)
