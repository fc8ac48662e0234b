"""All settings, read from the environment once: the only reader of ``os.environ``.

A value that a setting cannot have is an :class:`OptionError`; a variable of the prefix that is no setting is warned of.
Bytes are a number, or one with a unit: ``512M``, ``1.5 GiB``; units are powers of 1024.

| variable | default | meaning |
|---|---|---|
| ``HYBRIDC_TARGET`` | llvm | what hybridized blocks are compiled for: ``llvm`` (native code) or ``numpy`` (Python) |
| ``HYBRIDC_COMPILE`` | call | ``background``: another process compiles, and calls run eagerly until it is done |
| ``HYBRIDC_VERIFY`` | 0 | verify the IR after every pass, and memory plans |
| ``HYBRIDC_VERIFY_PLAN`` | 0 | verify memory plans alone, which takes little time |
| ``HYBRIDC_POISON`` | 0 | fill memory with NaN while it holds nothing of use |
| ``HYBRIDC_DUMP`` | (none) | folder into which every stage of every compilation is written |
| ``HYBRIDC_PRINT`` | (none) | print the IR after these passes, as ``decompose,plan-memory``, or after ``all`` |
| ``HYBRIDC_PRINT_SOURCE`` | 0 | print the source that is generated |
| ``HYBRIDC_TIME`` | 0 | print how long each stage of a compilation and each of its passes took |
| ``HYBRIDC_TRACEBACK`` | user | frames in the tracebacks of errors: ``user``, those of your code, or ``full``, all |
| ``HYBRIDC_PROFILER_AUTOSTART`` | 0 | the profiler runs from the import on, as after ``set_state("run")`` |
| ``HYBRIDC_EXPLAIN_RECOMPILES`` | 0 | log every compilation after a network's first, with its reason |
| ``HYBRIDC_NUM_THREADS`` | ``OMP_NUM_THREADS``, cores | threads that share a kernel; the numpy target uses at most 2 |
| ``HYBRIDC_CACHE_ENTRIES`` | 64 | compiled graphs kept per block, however large |
| ``HYBRIDC_GRAPH_BYTES`` | 64 MiB | more of them are kept while the plans of all together take no more memory |
| ``HYBRIDC_POOL_BYTES`` | 1 GiB | memory of freed results that is kept for new ones |
| ``HYBRIDC_CACHE_DIR`` | the platform's | folder for what is compiled once and used by later processes |
| ``HYBRIDC_CACHE_BYTES`` | 1 GiB | how large that folder may grow; what was not used for the longest time goes |
| ``HYBRIDC_WINOGRAD`` | 1 | native convolutions with 3x3 kernels may multiply less and round more; 0: they do not |
| ``HYBRIDC_ROLL`` | 1 | many equal steps of a Python loop in a forward become one loop; 0: they stay as they are |
| ``HYBRIDC_CPU`` | host | code for every CPU of a level: ``generic``, ``aarch64``, ``x86-64-v2``, ``-v3`` or ``-v4`` |
| ``HYBRIDC_LLVM`` | the fastest | what compiles native code: ``llvmlite``, or the file of a library of LLVM 23 |
| ``HYBRIDC_MACHINE`` | measured | what threads share follows from costs measured once, or ``nominal`` ones |
| ``HYBRIDC_GPU`` | auto | GPU arrays are of ``torch``, ``cupy`` or ``cuda``, whichever is there; or ``interpreter`` |
| ``HYBRIDC_TF32`` | 0 | GPU matmuls of single precision round their operands to 10 bits, for tensor cores |
| ``HYBRIDC_COMM_TIMEOUT`` | 60 | seconds after which a rank that does not answer, or come to a collective, ends all |
| ``HYBRIDC_COMM_TOKEN`` | | a secret of all ranks, where ``MASTER_ADDR`` and ``MASTER_PORT`` start them |
| ``HYBRIDC_RESTART`` | 0 | how often ``python -m hybridc launch --restarts`` started this program before |
| ``HYBRIDC_CXX`` | c++, g++, clang++ | the C++ compiler that makes the shim of extension libraries |
"""

from __future__ import annotations

import difflib
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hybridc.errors import OptionError
from hybridc.ground.records import dataclass

T = TypeVar("T")

# Processors that native code can be for, beside this computer's: the least of its architecture, the least of 64-bit
# ARM, and what all since some generation have.
_ANY_CPU = ("host", "generic", "aarch64")
_X86_CPU = (*_ANY_CPU, "x86-64-v2", "x86-64-v3", "x86-64-v4")


@dataclass(frozen=True)
class Options:
    """The settings of this process."""

    target: str = "llvm"
    compile: str = "call"
    verify: bool = False
    verify_plan: bool = False
    poison: bool = False
    dump: str | None = None
    print_after: tuple[str, ...] = ()
    print_source: bool = False
    time: bool = False
    traceback: str = "user"
    profiler_autostart: bool = False
    explain_recompiles: bool = False
    num_threads: int = 2
    cache_entries: int = 64
    graph_bytes: int = 64 << 20
    pool_bytes: int = 1 << 30
    cache: str = ""
    cache_bytes: int = 1 << 30
    winograd: bool = True
    roll: bool = True
    cpu: str = "host"
    llvm: str = ""
    machine: str = "measured"
    gpu: str = "auto"
    tf32: bool = False
    comm_timeout: int = 60
    comm_token: str = ""
    restart: int = 0
    cxx: str | None = None


# How settings are said: what is true and what is false.
_SWITCH = {"0": False, "false": False, "no": False, "off": False, "1": True, "true": True, "yes": True, "on": True}
# Bytes of a unit.
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# Variables of the prefix that this project's own tests and benchmarks read.
_OF_SCRIPTS = ("HYBRIDC_PEERS", "HYBRIDC_TEST_EXAMPLES")


class _EnvironmentReader:
    """Reads the variables of an environment, and records which ones were read."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.known: set[str] = set(_OF_SCRIPTS)

    def text(self, name: str) -> str:
        """The value of a variable; "" if it is not set."""
        self.known.add(name)
        return self.env.get(name, "").strip()

    def parsed(self, name: str, default: T, parse: Callable[[str], T], takes: str) -> T:
        """The parsed value of a variable, or the default if it is not set; OptionError if ``parse`` refuses it."""
        found = self.text(name)
        if not found:
            return default
        try:
            return parse(found)
        except ValueError:
            raise OptionError(f"{name}={found}: it takes {takes}") from None

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of several words, of which the first is the default."""
        default, *others, last = allowed
        words = f"{', '.join([f'{default} (the default)', *others])} or {last}"

        def parse(found: str) -> str:
            if found not in allowed:
                raise ValueError(found)
            return found

        return self.parsed(name, default, parse, words)

    def flag(self, name: str, default: bool = False) -> bool:
        """A switch, which is off if nothing is said, or on."""

        def parse(found: str) -> bool:
            if found.lower() not in _SWITCH:
                raise ValueError(found)
            return _SWITCH[found.lower()]

        return self.parsed(name, default, parse, "0 or 1 (the default)" if default else "0 (the default) or 1")

    def count(self, name: str, default: int, least: int = 1) -> int:
        """An integer that is not smaller than another one."""

        def parse(found: str) -> int:
            if (number := int(found)) < least:
                raise ValueError(found)
            return number

        return self.parsed(name, default, parse, f"a whole number from {least} on")

    def bytes(self, name: str, default: int) -> int:
        """A number of bytes, with or without a unit."""
        return self.parsed(name, default, _bytes, "a number of bytes, as 1073741824, 512M or 1.5G")

    def warn_of_others(self) -> None:
        """Warn of variables with our prefix that nobody reads: perhaps misspelt."""
        for name, here in _OF_MXNET.items():
            if self.env.get(name, "").strip().lower() not in ("", "0", "false", "none"):
                warnings.warn(f"the environment variable {name} has no effect here; use {here}", stacklevel=2)
        others = sorted(n for n in self.env if n.startswith("HYBRIDC_") and n not in self.known)
        if others:
            for name in others:
                near = difflib.get_close_matches(name, sorted(self.known), 1)
                meant = f"did you mean {near[0]}?" if near else f"settings are {', '.join(sorted(self.known))}"
                warnings.warn(f"the environment variable {name} is no setting of hybridc; {meant}", stacklevel=2)


# Variables of MXNet that change what a program does there, and nothing here: what to use.
_OF_MXNET = {
    "MXNET_PROFILER_AUTOSTART": "HYBRIDC_PROFILER_AUTOSTART",
    "MXNET_SUBGRAPH_BACKEND": "net.hybridize(backend=…)",
    "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION": "HYBRIDC_TF32",
}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:i?b)?", text.lower())
    if found is None:
        raise ValueError(text)
    number, unit = found.groups()
    return int(float(number) * _UNITS[unit]) if "." in number else int(number) * _UNITS[unit]


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _threads(env: Mapping[str, str]) -> int:
    """Threads that share a kernel where nothing else is said: as many as OpenMP would use."""
    openmp = env.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(openmp) if re.fullmatch(r"0*[1-9]\d{0,3}", openmp) else _cores()


def _platform_cache(env: Mapping[str, str]) -> str:
    """The platform's folder of caches; "~" is the user's home."""
    if sys.platform == "darwin":
        return "~/Library/Caches/hybridc"
    if sys.platform == "win32":
        return os.path.join(env.get("LOCALAPPDATA") or "~", "hybridc", "cache")
    return os.path.join(env.get("XDG_CACHE_HOME") or "~/.cache", "hybridc")


def _cache(reader: _EnvironmentReader) -> str:
    """The cache folder: the same one wherever the process goes.

    Without a home, as users of containers may be, it is a folder of this user's among the temporary files.
    """
    chosen = reader.text("HYBRIDC_CACHE_DIR")
    folder = os.path.expanduser(chosen or _platform_cache(reader.env))
    if not folder.startswith("~"):
        return os.path.abspath(folder)
    if chosen:
        raise OptionError(f"HYBRIDC_CACHE_DIR={chosen}: no such home directory; write the path of a folder")
    user = os.getuid() if hasattr(os, "getuid") else ""
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"hybridc-{user}")


def _cpus() -> tuple[str, ...]:
    """The processors for which native code can be, on this architecture."""
    return _X86_CPU if platform.machine().lower() in ("x86_64", "amd64") else _ANY_CPU


def read(env: Mapping[str, str]) -> Options:
    """The settings that an environment says; OptionError where it says what a setting cannot be."""
    reader = _EnvironmentReader(env)
    options = Options(
        target=reader.choice("HYBRIDC_TARGET", ("llvm", "numpy", "triton")),
        compile=reader.choice("HYBRIDC_COMPILE", ("call", "background")),
        verify=reader.flag("HYBRIDC_VERIFY"),
        verify_plan=reader.flag("HYBRIDC_VERIFY_PLAN"),
        poison=reader.flag("HYBRIDC_POISON"),
        dump=reader.text("HYBRIDC_DUMP") or None,
        print_after=tuple(name.strip() for name in reader.text("HYBRIDC_PRINT").split(",") if name.strip()),
        print_source=reader.flag("HYBRIDC_PRINT_SOURCE"),
        time=reader.flag("HYBRIDC_TIME"),
        traceback=reader.choice("HYBRIDC_TRACEBACK", ("user", "full")),
        profiler_autostart=reader.flag("HYBRIDC_PROFILER_AUTOSTART"),
        explain_recompiles=reader.flag("HYBRIDC_EXPLAIN_RECOMPILES"),
        num_threads=reader.count("HYBRIDC_NUM_THREADS", _threads(env)),
        cache_entries=reader.count("HYBRIDC_CACHE_ENTRIES", 64),
        graph_bytes=reader.bytes("HYBRIDC_GRAPH_BYTES", 64 << 20),
        pool_bytes=reader.bytes("HYBRIDC_POOL_BYTES", 1 << 30),
        cache=_cache(reader),
        cache_bytes=reader.bytes("HYBRIDC_CACHE_BYTES", 1 << 30),
        winograd=reader.flag("HYBRIDC_WINOGRAD", default=True),
        roll=reader.flag("HYBRIDC_ROLL", default=True),
        cpu=reader.choice("HYBRIDC_CPU", _cpus()),
        llvm=reader.text("HYBRIDC_LLVM"),
        machine=reader.choice("HYBRIDC_MACHINE", ("measured", "nominal")),
        gpu=reader.choice("HYBRIDC_GPU", ("auto", "torch", "cupy", "cuda", "interpreter")),
        tf32=reader.flag("HYBRIDC_TF32"),
        comm_timeout=reader.count("HYBRIDC_COMM_TIMEOUT", 60),
        comm_token=reader.text("HYBRIDC_COMM_TOKEN"),
        restart=reader.count("HYBRIDC_RESTART", 0, least=0),
        cxx=reader.text("HYBRIDC_CXX") or None,
    )
    reader.warn_of_others()
    return options


OPTIONS = read(os.environ)
