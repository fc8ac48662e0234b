"""What LLVM says of this computer: kept in the cache folder, since loading LLVM takes longer than loading a program.

A note is of LLVM's library and of what Linux says of the processor: on another computer, LLVM is asked again. Without a
library of LLVM, it is what a file with compiled code says of the same processor (:func:`adopt_host`), or else Linux.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
import sys
from collections.abc import Mapping

from hybridc.ground.records import dataclass
from hybridc.ground.store import keep, kept
from hybridc.lower.llvm.codegen import llvm, object_loader

# The features of x86-64's levels that Linux calls otherwise than LLVM.
_OF_LINUX = {"bmi": "bmi1", "lzcnt": "abm", "sahf": "lahf_lm", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2"}

# The architectures that other systems call otherwise than Linux.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}

# The lines of a processor in /proc/cpuinfo on which its features depend; others tell its cores and clocks.
_FIELDS = {"vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"}


@dataclass(frozen=True, eq=False)
class HostProcessor:
    """The host: its CPU's name and features by LLVM's names, with whether it has them; and LLVM's version.

    ``architecture`` is Linux's name on every ``system``, which is Python's.
    """

    name: str
    features: dict[str, bool]
    llvm: str
    architecture: str
    system: str


@functools.cache
def host() -> HostProcessor:
    """What LLVM says of this computer, from the cache folder if it is there."""
    if not llvm.is_installed():
        return _ADOPTED[0] if _ADOPTED else HostProcessor("", _features_of_linux(), "none", *_platform())
    key = _key()
    noted = None if key is None else kept(key, HostProcessor)
    if noted is not None:
        return noted
    asked = HostProcessor(llvm.host_name(), llvm.host_features(), llvm.llvm_version(), *_platform())
    if key is not None and llvm.library().path == llvm.library_path():
        keep(key, asked)
    return asked


def _platform() -> tuple[str, str]:
    """The architecture and the system of this process."""
    architecture = platform.machine().lower()
    return _ARCHITECTURES.get(architecture, architecture), sys.platform


_ADOPTED: list[HostProcessor] = []


def adopt_host(noted: HostProcessor, described: Mapping[str, str]) -> None:
    """Without LLVM, take what it said of a computer that Linux describes so, if this one has an equal processor."""
    processor = described_processor()
    is_equal = all(described.get(field) == processor.get(field) for field in ("vendor_id", "cpu family", "model"))
    has_all = set(described.get("flags", "").split()) <= set(processor.get("flags", "").split())
    if processor and is_equal and has_all and not _ADOPTED and not llvm.is_installed():
        _ADOPTED.append(noted)
        host.cache_clear()


def described_processor() -> dict[str, str]:
    """What Linux says of the processor, by field; {} where it does not."""
    return {field.strip(): text.strip() for field, _, text in (line.partition(":") for line in _lines())}


def _features_of_linux() -> dict[str, bool]:
    """The features that Linux names, those of levels by LLVM's names."""
    flags = set(described_processor().get("flags", "").split())
    return dict.fromkeys(flags, True) | {name: flag in flags for name, flag in _OF_LINUX.items()}


def _lines() -> list[str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            first = itertools.takewhile(lambda line: line != "\n", lines)  # of all processors, which are alike
            return [line for line in first if line.partition("\t")[0] in _FIELDS]
    except OSError:
        return []


def _key() -> str | None:
    """The key of the note; None where LLVM is loaded in any case, or /proc/cpuinfo does not describe the processor."""
    processor = _lines() if object_loader.runs_here() else []
    if not processor:
        return None
    path = llvm.library_path()
    try:
        library = path.stat()
    except OSError:
        return None  # HYBRIDC_LLVM names no file: the error says so when it is loaded
    kernel = os.uname().release  # which decides what flags there are
    return f"host 2 {path} {library.st_size} {library.st_mtime_ns} {kernel}\n{''.join(processor)}"
