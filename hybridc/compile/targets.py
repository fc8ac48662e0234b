"""The targets: what each makes of a graph, and how that is called. A target's own modules are imported when used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.compile import pipeline
from hybridc.errors import UnsupportedError
from hybridc.lower.numpy.emit_module import emit
from hybridc.options import OPTIONS
from hybridc.runtime.executable import PythonExecutable

if TYPE_CHECKING:
    from hybridc.context import Context
    from hybridc.ir.planned import Program
    from hybridc.lower.llvm.kernel_code import Codes
    from hybridc.runtime.executable import Executable


@dataclass(frozen=True)
class Planning:
    """For one module of kernels: passes that plan its memory, then what writes the program of a planned function."""

    passes: tuple[ModulePass, ...]
    emit: Callable[[ModuleOp, str], Program]


class Target(ABC):
    """Passes from the graph to a memory plan, a program made of each planned function, and a way to call it."""

    name: str

    def is_runnable(self) -> bool:
        """Whether this machine runs its programs."""
        return True

    def passes(self) -> tuple[ModulePass, ...]:
        """From the primitive graph to kernels and a memory plan."""
        return (*self.kernels(), *self.plan().passes)

    @abstractmethod
    def kernels(self) -> tuple[ModulePass, ...]:
        """From the primitive graph to kernels."""

    @abstractmethod
    def plan(self) -> Planning:
        """From kernels to programs; what depends on sizes in other ways than other sizes do is decided here."""

    @abstractmethod
    def load(self, program: Any, context: Context) -> Executable:
        """The program made callable with arrays of a device."""


class NumPy(Target):
    """Python source with loops over tiles that run NumPy's functions."""

    name = "numpy"

    def kernels(self) -> tuple[ModulePass, ...]:
        return pipeline.NUMPY_KERNELS

    def plan(self) -> Planning:
        return Planning(pipeline.NUMPY_PLAN, lambda module, name: emit(module, name, min(2, OPTIONS.num_threads)))

    def load(self, program: Any, context: Context) -> Executable:
        return PythonExecutable(program)


class LLVM(Target):
    """Native code for the CPU: a function for each kernel, a plan that one executor runs."""

    name = "llvm"

    def codes(self) -> Codes:
        """The native functions of kernels; a target with another printer of tile programs overrides this."""
        from hybridc.lower.llvm.kernel_code import Codes

        return Codes(OPTIONS.num_threads)

    def kernels(self) -> tuple[ModulePass, ...]:
        return pipeline.llvm_kernels()

    def plan(self) -> Planning:
        from hybridc.lower.llvm.emit_steps import emit

        codes = self.codes()
        return Planning(pipeline.llvm_plan(codes), lambda module, name: emit(module, name, codes.threads, codes=codes))

    def load(self, program: Any, context: Context) -> Executable:
        from hybridc.runtime.native_executable import NativeExecutable

        return NativeExecutable(program)


class Triton(Target):
    """Triton kernels for GPUs, launched one after the other."""

    name = "triton"

    def is_runnable(self) -> bool:
        from hybridc.runtime.devices.choose import count

        return count() > 0

    def kernels(self) -> tuple[ModulePass, ...]:
        return pipeline.triton_kernels()

    def plan(self) -> Planning:
        from hybridc.lower.triton.codes import TritonCodes
        from hybridc.lower.triton.emit_launches import emit

        codes = TritonCodes()
        return Planning(pipeline.triton_plan(codes), lambda module, name: emit(module, name, codes=codes))

    def load(self, program: Any, context: Context) -> Executable:
        from hybridc.runtime.device_executable import DeviceExecutable

        return DeviceExecutable.of(program, context)


TARGETS: dict[str, Target] = {t.name: t for t in (NumPy(), LLVM(), Triton())}


def add_target(target: Target) -> None:
    """Let programs be lowered for another target, by its name."""
    TARGETS[target.name] = target


def target_named(name: str | None) -> Target:
    """The target of this name; the one of ``HYBRIDC_TARGET`` if None."""
    wanted = OPTIONS.target if name is None else name
    if wanted not in TARGETS:
        raise UnsupportedError(f"target {wanted!r} does not exist; use one of {tuple(TARGETS)}")
    return TARGETS[wanted]
