"""What a library of LLVM does for kernels: parse a module, run its passes, emit an object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

# Address space for LLVM, and for one of its compilations: without it LLVM ends the process.
ADDRESSES, COMPILATION = 192 << 20, 64 << 20
REMEDY = "leave LLVM out (HYBRIDC_TARGET=numpy)"


class LLVMLibrary(ABC):
    """The functions of a library of LLVM; modules, machines and contexts are addresses of its objects."""

    name: str

    @property
    @abstractmethod
    def path(self) -> Path:
        """Its file."""

    @abstractmethod
    def version(self) -> str:
        """LLVM's version."""

    @abstractmethod
    def host_name(self) -> str:
        """LLVM's name of the host CPU."""

    @abstractmethod
    def host_features(self) -> str:
        """The host CPU's features, each with + or - before its name, separated by commas."""

    @abstractmethod
    def context(self) -> int:
        """A new context."""

    @abstractmethod
    def dispose_context(self, context: int) -> None:
        """Free a context, whose modules are gone."""

    @abstractmethod
    def parsed(self, context: int, text: str) -> int:
        """The module of a text; RuntimeError if it is none."""

    @abstractmethod
    def dispose_module(self, module: int) -> None:
        """Free a module."""

    @abstractmethod
    def text(self, module: int) -> str:
        """A module as text."""

    @abstractmethod
    def fault(self, module: int) -> str:
        """What is wrong with a module; "" for a valid one."""

    @abstractmethod
    def machine(self, name: str, features: str, level: int) -> int:
        """A target machine for position-independent code; RuntimeError if there is none for this system."""

    @abstractmethod
    def dispose_machine(self, machine: int) -> None:
        """Free a target machine."""

    @abstractmethod
    def optimise(self, machine: int, module: int, level: int) -> None:
        """Run LLVM's passes for a machine on a module."""

    @abstractmethod
    def emitted(self, machine: int, module: int, *, assembly: bool) -> bytes:
        """A module as an object file, or as assembly text; RuntimeError if LLVM cannot."""
