"""What LLVM says of this computer: kept in the cache folder, since loading LLVM takes longer than loading a program.

A note is of LLVM's library and of what Linux says of the processor: on another computer, LLVM is asked again.
"""

from __future__ import annotations

import functools
import itertools
import os

from hybridc.ground.records import dataclass
from hybridc.ground.store import keep, kept
from hybridc.lower.llvm.codegen import llvm, object_loader

# The lines of a processor in /proc/cpuinfo on which its features depend; others tell its cores and clocks.
_FIELDS = {"vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"}


@dataclass(frozen=True, eq=False)
class HostProcessor:
    """The host CPU: its name and features by LLVM's names, with whether it has them; and LLVM's version."""

    name: str
    features: dict[str, bool]
    llvm: str


@functools.cache
def host() -> HostProcessor:
    """What LLVM says of this computer, from the cache folder if it is there."""
    key = _key()
    noted = None if key is None else kept(key, HostProcessor)
    if noted is not None:
        return noted
    asked = HostProcessor(llvm.host_name(), llvm.host_features(), llvm.llvm_version())
    if key is not None and llvm.library().path == llvm.library_path():
        keep(key, asked)
    return asked


def _key() -> str | None:
    """The key of the note; None where LLVM is loaded in any case, or /proc/cpuinfo does not describe the processor."""
    if not object_loader.runs_here():
        return None
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            first = itertools.takewhile(lambda line: line != "\n", lines)  # of all processors, which are alike
            processor = [line for line in first if line.partition("\t")[0] in _FIELDS]
    except OSError:
        return None
    if not processor:
        return None
    path = llvm.library_path()
    try:
        library = path.stat()
    except OSError:
        return None  # HYBRIDC_LLVM names no file: the error says so when it is loaded
    kernel = os.uname().release  # which decides what flags there are
    return f"host 1 {path} {library.st_size} {library.st_mtime_ns} {kernel}\n{''.join(processor)}"
