"""Native code of the thread pool."""

from __future__ import annotations

from hybridc.runtime.native.ir_text import Function, Module
from hybridc.runtime.native.layout import StepCell


def emit_pool(module: Module) -> Function:
    """Write all functions; the one returned runs a phase on several threads."""
    return _share(module)


def _share(module: Module) -> Function:
    """void share(Program *program, StepCell *step, void **buffers, void *scratch)"""
    f = module.function("share", "void", ("ptr", "ptr", "ptr", "ptr"))
    _, address, buffers, scratch = f.arguments
    step = f.record(address, StepCell)
    f.call("void", step.code, buffers, step.numbers, f.constant("i64", 0), step.extent, scratch)
    f.ret()
    return f
