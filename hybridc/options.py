"""All settings, read from the environment once: the only reader of ``os.environ``.

| variable | default | meaning |
|---|---|---|
| ``HYBRIDC_TARGET`` | llvm | what hybridized blocks are compiled for: ``llvm`` (native code) or ``numpy`` (Python) |
| ``HYBRIDC_VERIFY`` | 0 | verify the IR after every pass |
| ``HYBRIDC_POISON`` | 0 | fill memory with NaN while it holds nothing of use |
| ``HYBRIDC_DUMP`` | (none) | folder into which every stage of every compilation is written |
| ``HYBRIDC_PRINT`` | (none) | print the IR after these passes, as ``decompose,plan-memory``, or after ``all`` |
| ``HYBRIDC_PRINT_SOURCE`` | 0 | print the source that is generated |
| ``HYBRIDC_TIME`` | 0 | print how long each stage of a compilation and each of its passes took |
| ``HYBRIDC_EXPLAIN_RECOMPILES`` | 0 | log every compilation after a network's first, with its reason |
| ``HYBRIDC_NUM_THREADS`` | ``OMP_NUM_THREADS``, cores | threads that share a kernel; the numpy target uses at most 2 |
| ``HYBRIDC_CACHE_ENTRIES`` | 64 | compiled graphs kept per block |
| ``HYBRIDC_POOL_BYTES`` | 1 GiB | memory of freed results that is kept for new ones |
| ``HYBRIDC_CACHE_DIR`` | the platform's | folder for what is compiled once and used by later processes |
| ``HYBRIDC_CACHE_BYTES`` | 1 GiB | how large that folder may grow; what was not used for the longest time goes |
| ``HYBRIDC_CPU`` | host | native code for any processor of a level: ``generic``, ``x86-64-v2``, ``-v3`` or ``-v4`` |
| ``HYBRIDC_GPU`` | auto | GPU arrays are of ``torch``, ``cupy`` or ``cuda``, whichever is there; or ``interpreter`` |
| ``HYBRIDC_TF32`` | 0 | GPU products of single precision round their operands to 10 bits, for tensor cores |
| ``HYBRIDC_CXX`` | c++, g++, clang++ | the C++ compiler that makes the shim of extension libraries |
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from hybridc.errors import OptionError

# Processors that native code can be for, beside this computer's: the least of its architecture, and what all since some
# generation have.
_ANY_CPU = ("host", "generic")
_X86_CPU = (*_ANY_CPU, "x86-64-v2", "x86-64-v3", "x86-64-v4")


@dataclass(frozen=True)
class Options:
    """The settings of this process."""

    target: str = "llvm"
    verify: bool = False
    poison: bool = False
    dump: str | None = None
    print_after: tuple[str, ...] = ()
    print_source: bool = False
    time: bool = False
    explain_recompiles: bool = False
    num_threads: int = 2
    cache_entries: int = 64
    pool_bytes: int = 1 << 30
    cache: str = "~/.cache/hybridc"
    cache_bytes: int = 1 << 30
    cpu: str = "host"
    gpu: str = "auto"
    tf32: bool = False
    cxx: str | None = None


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _threads(env: Mapping[str, str]) -> int:
    """Threads that share a kernel: as many as OpenMP would use, unless told otherwise."""
    told = env.get("HYBRIDC_NUM_THREADS") or env.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, int(told)) if told else _cores()


def _platform_cache(env: Mapping[str, str]) -> str:
    """Where programs of this platform keep what they can make again."""
    if sys.platform == "darwin":
        return "~/Library/Caches/hybridc"
    if sys.platform == "win32":
        return os.path.join(env.get("LOCALAPPDATA") or "~", "hybridc", "cache")
    return os.path.join(env.get("XDG_CACHE_HOME") or "~/.cache", "hybridc")


def _cpu(env: Mapping[str, str]) -> str:
    """Which processor native code is for; OptionError if this architecture has no such level."""
    found = env.get("HYBRIDC_CPU") or "host"
    allowed = _X86_CPU if platform.machine().lower() in ("x86_64", "amd64") else _ANY_CPU
    if found not in allowed:
        _, *others, last = allowed
        raise OptionError(
            f"HYBRIDC_CPU={found}: there is no such level on {platform.machine()}; "
            f"it takes {', '.join(['host (the default)', *others])} or {last}"
        )
    return found


def _flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def _from_environment() -> Options:
    env = os.environ
    return Options(
        target=env.get("HYBRIDC_TARGET") or "llvm",
        verify=_flag("HYBRIDC_VERIFY"),
        poison=_flag("HYBRIDC_POISON"),
        dump=env.get("HYBRIDC_DUMP") or None,
        print_after=tuple(name.strip() for name in env.get("HYBRIDC_PRINT", "").split(",") if name.strip()),
        print_source=_flag("HYBRIDC_PRINT_SOURCE"),
        time=_flag("HYBRIDC_TIME"),
        explain_recompiles=_flag("HYBRIDC_EXPLAIN_RECOMPILES"),
        num_threads=_threads(env),
        cache_entries=max(1, int(env.get("HYBRIDC_CACHE_ENTRIES", "64"))),
        pool_bytes=max(0, int(env.get("HYBRIDC_POOL_BYTES", 1 << 30))),
        cache=env.get("HYBRIDC_CACHE_DIR") or _platform_cache(env),
        cache_bytes=max(0, int(env.get("HYBRIDC_CACHE_BYTES", 1 << 30))),
        cpu=_cpu(env),
        gpu=env.get("HYBRIDC_GPU") or "auto",
        tf32=_flag("HYBRIDC_TF32"),
        cxx=env.get("HYBRIDC_CXX") or None,
    )


OPTIONS = _from_environment()
