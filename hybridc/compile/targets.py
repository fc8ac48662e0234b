"""The targets: the passes, the code generator and the loader of each. A target's modules are imported when used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.compile import pipeline
from hybridc.errors import UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.options import OPTIONS
from hybridc.runtime.executable import PythonExecutable
from hybridc.transforms.code.kernel_cache import KernelCache

if TYPE_CHECKING:
    from hybridc.context import Context
    from hybridc.ir.planned import Program
    from hybridc.runtime.executable import Executable
    from hybridc.transforms.code.loop_target import LoopTarget


@dataclass(frozen=True)
class Planning:
    """For one module of kernels: the passes that plan its memory, then the code generator of a planned function.

    ``layouts`` are the lines on the layouts of images, by function: they are the same at all sizes.
    """

    passes: tuple[ModulePass, ...]
    emit: Callable[[ModuleOp, str], Program]
    layouts: dict[str, str] = field(default_factory=dict[str, str], compare=False)


class Target(ABC):
    """A compilation target: passes down to a memory plan, a code generator, and a loader."""

    name: str

    def is_runnable(self) -> bool:
        """Whether this machine can run the target's programs."""
        return True

    def passes(self) -> tuple[ModulePass, ...]:
        """The passes from the primitive graph to kernels and a memory plan."""
        return (*self.kernels(), *self.plan().passes)

    @abstractmethod
    def kernels(self) -> tuple[ModulePass, ...]:
        """The passes from the primitive graph to kernels."""

    @abstractmethod
    def plan(self, ahead: bool = False) -> Planning:
        """The passes from kernels to programs; all specialisation on sizes happens here.

        ``ahead``: the programs will be loaded, so native code may be compiled while memory is planned.
        """

    @abstractmethod
    def load(self, program: Any, context: Context) -> Executable:
        """Load a program for a context's device."""


class NumPy(Target):
    """Python source: loops over tiles that call NumPy's ufuncs."""

    name = "numpy"

    def kernels(self) -> tuple[ModulePass, ...]:
        return pipeline.NUMPY_KERNELS

    def plan(self, ahead: bool = False) -> Planning:
        from hybridc.lower.numpy.emit_module import emit_python_program
        from hybridc.transforms.code.array_code import ArrayCodes

        codes = ArrayCodes(pipeline.numpy_threads())
        return Planning(pipeline.numpy_plan(codes), lambda module, name: emit_python_program(module, name, codes))

    def load(self, program: Any, context: Context) -> Executable:
        return PythonExecutable(program)


class LLVM(Target):
    """Native CPU code: a function for each kernel, and a plan that one executor interprets."""

    name = "llvm"

    def loop_target(self) -> LoopTarget:
        """The machine, threads and printer that kernels are compiled for; a target with other ones overrides this."""
        from hybridc.lower.llvm.native_target import native_target

        return native_target(OPTIONS.num_threads)

    def kernels(self) -> tuple[ModulePass, ...]:
        return pipeline.llvm_kernels(self.loop_target().machine)

    def plan(self, ahead: bool = False) -> Planning:
        from hybridc.lower.llvm.emit_steps import emit_native_plan

        kernel_cache = KernelCache(self.loop_target())
        kernel_cache.ahead = ahead
        return Planning(
            pipeline.llvm_plan(kernel_cache), lambda module, name: emit_native_plan(module, name, kernel_cache)
        )

    def load(self, program: Any, context: Context) -> Executable:
        from hybridc.runtime.native_executable import NativeExecutable

        return NativeExecutable(program)


class Triton(Target):
    """Triton kernels for GPUs, launched in the order of the plan."""

    name = "triton"

    def is_runnable(self) -> bool:
        from hybridc.runtime.devices.choose import count

        return count() > 0

    def kernels(self) -> tuple[ModulePass, ...]:
        return pipeline.triton_kernels()

    def plan(self, ahead: bool = False) -> Planning:
        from hybridc.lower.triton.emit_launches import emit_triton_program
        from hybridc.lower.triton.tiles_to_triton import print_block_code
        from hybridc.transforms.code.blocks.block_kernel_cache import BlockKernelCache

        kernel_cache = BlockKernelCache(print_block_code)
        return Planning(
            pipeline.triton_plan(kernel_cache), lambda module, name: emit_triton_program(module, name, kernel_cache)
        )

    def load(self, program: Any, context: Context) -> Executable:
        from hybridc.runtime.device_executable import DeviceExecutable

        return DeviceExecutable.of(program, context)


TARGETS: dict[str, Target] = {t.name: t for t in (NumPy(), LLVM(), Triton())}


def add_target(target: Target) -> None:
    """Register a target under its name."""
    TARGETS[target.name] = target


def target_named(name: str | None) -> Target:
    """The target of this name; by default that of ``HYBRIDC_TARGET``."""
    wanted = OPTIONS.target if name is None else name
    if wanted not in TARGETS:
        raise UnsupportedError(f"target {wanted!r} does not exist; use one of {tuple(TARGETS)}")
    return TARGETS[wanted]
