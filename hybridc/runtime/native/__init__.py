"""The native runtime: runs plans of native steps with one call from Python. docs/native.md explains it."""

from __future__ import annotations

from hybridc.ir.planned import Host, NativeCode, NativePlan, NativeRegion, PlainArray, Position
from hybridc.runtime.native.native_program import NativeProgram, num_threads, set_num_threads
from hybridc.runtime.native.wrapper_call import wrapper_entry
from hybridc.runtime.workspace import Workspace

__all__ = [
    "PlainArray",
    "NativeCode",
    "Host",
    "NativePlan",
    "NativeProgram",
    "NativeRegion",
    "Position",
    "Workspace",
    "wrapper_entry",
    "num_threads",
    "set_num_threads",
]
