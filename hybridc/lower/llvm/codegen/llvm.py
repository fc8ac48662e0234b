"""LLVM as kernels need it, by one of two libraries: modules, target machines, and the host.

The rule: the library that ``HYBRIDC_LLVM`` names; else that of the package karellen-llvm-core, a release build; else
llvmlite's, which is built with assertions and takes more than twice as long. Keys of caches say which it is.
"""

from __future__ import annotations

import functools
import importlib.util
import site
import sys
import weakref
from pathlib import Path

from hybridc.errors import OptionError
from hybridc.ground.limits import require_address_space
from hybridc.ground.locks import ForkLock
from hybridc.lower.llvm.codegen import llvm_c
from hybridc.lower.llvm.codegen.llvm_c import Llvmlite
from hybridc.lower.llvm.codegen.llvm_library import COMPILATION, REMEDY, LLVMLibrary
from hybridc.lower.llvm.codegen.llvm_release import ReleaseLLVM
from hybridc.options import OPTIONS

# The library of karellen-llvm-core.
RELEASE = "libLLVM.so.23.1"


def library(triple: str = "") -> LLVMLibrary:
    """The library that compiles: for this computer's system, or for that of a triple, of any architecture."""
    with _LOCK.current:
        return _for_triple(triple) if triple else _chosen(OPTIONS.llvm)


# Llvmlite's library alone has the targets of all architectures.
_for_triple = functools.cache(Llvmlite)


@functools.cache
def _chosen(option: str) -> LLVMLibrary:
    for path in _candidates(option):
        try:
            return ReleaseLLVM(path)
        except (OSError, AttributeError) as error:
            if option:
                text = f"HYBRIDC_LLVM={option}: this is no library of LLVM 23 ({error}){_WITHOUT}"
                raise OptionError(text) from error
    if not is_installed():
        raise OptionError(f"no library of LLVM is installed: install karellen-llvm-core or llvmlite{_WITHOUT}")
    return Llvmlite()


# What a process can do that cannot compile.
_WITHOUT = (
    "; without one, networks run that were compiled ahead and exported with their program, at the sizes that it has "
    "(compiled=, see docs/serving.md), and those of HYBRIDC_TARGET=numpy"
)


def is_installed() -> bool:
    """Whether there is a library that compiles, as far as that can be said without loading it."""
    if OPTIONS.llvm not in ("", "llvmlite"):
        return Path(OPTIONS.llvm).exists()
    return bool(_candidates(OPTIONS.llvm)) or importlib.util.find_spec("llvmlite") is not None


def _candidates(option: str) -> list[str]:
    """The files of release builds that an option allows, in the order in which they are tried before llvmlite's."""
    if option == "llvmlite":
        return []
    return [option] if option else release_paths()


def release_paths() -> list[str]:
    """Where the package's library may be: with this Python's packages, those of Debian's, or this user's."""
    if sys.platform != "linux":
        return []
    # Not of sysconfig, whose first use is not safe in several threads.
    folders = (sys.prefix, f"{sys.prefix}/local", site.getuserbase())
    return [str(path) for folder in folders if (path := Path(folder, "lib", RELEASE)).exists()]


def library_path() -> Path:
    """The file of the library that compiles, unless that turns out to be none: then it is llvmlite's."""
    paths = _candidates(OPTIONS.llvm)
    return Path(paths[0]) if paths else llvm_c.llvmlite_path()


_LOCK = ForkLock()


def llvm_version(triple: str = "") -> str:
    """The library that compiles for this computer's system, or for that of a triple, and LLVM's version."""
    return f"{library(triple).name} {library(triple).version()}"


def host_name() -> str:
    """LLVM's name of the host CPU."""
    return library().host_name()


def host_features() -> dict[str, bool]:
    """The host CPU's features by LLVM's names, with whether it has them."""
    return {feature[1:]: feature[0] == "+" for feature in library().host_features().split(",") if feature}


def require_memory() -> None:
    """Raise LimitError if LLVM would end the process for want of memory."""
    require_address_space(COMPILATION, "compiling with LLVM", REMEDY)


class LLVMModule:
    """An LLVM module, for one thread at a time; RuntimeError if its text does not parse.

    Its library is that of the target machine that compiles it, by default the one that compiles for this computer.
    """

    def __init__(self, text: str, llvm: LLVMLibrary | None = None) -> None:
        self.library = llvm = llvm or library()
        context = llvm.context()
        weakref.finalize(self, llvm.dispose_context, context).atexit = False
        self.pointer: int = llvm.parsed(context, text)
        weakref.finalize(self, llvm.dispose_module, self.pointer).atexit = False  # the last is the first to be called

    def __str__(self) -> str:
        return self.library.text(self.pointer)

    def verify(self) -> None:
        """RuntimeError if the module is invalid."""
        if fault := self.library.fault(self.pointer):
            raise RuntimeError(f"the module fails LLVM's verifier: {fault}")


class TargetMachine:
    """A target machine, for one thread at a time; ``level`` is the optimisation level, 0 to 3.

    It is for this computer's system, or for that of a triple, of any architecture.
    """

    def __init__(self, name: str, features: str, level: int, triple: str = "") -> None:
        self.level = level
        self.library = library(triple)
        self.pointer = self.library.machine(name, features, level)
        weakref.finalize(self, self.library.dispose_machine, self.pointer).atexit = False

    def optimise(self, module: LLVMModule) -> None:
        """Run LLVM's passes; RuntimeError if the module is invalid."""
        module.verify()
        self.library.optimise(self.pointer, module.pointer, self.level)

    def object(self, module: LLVMModule) -> bytes:
        """A relocatable object file."""
        return self.library.emitted(self.pointer, module.pointer, assembly=False)

    def assembly(self, module: LLVMModule) -> str:
        """Assembly text."""
        return self.library.emitted(self.pointer, module.pointer, assembly=True).decode()
