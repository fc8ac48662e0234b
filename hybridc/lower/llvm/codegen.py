"""Native functions become machine code: LLVM's optimiser and code generator, an object, memory that can be executed.

    load([NativeFunction(key, build), ...]) → [Code, ...]

Equal keys are equal code: what is loaded in this process is used again. All that is missing is compiled as one module
into one object, in which no address is written: functions of other libraries (BLAS) are found by name when it is loaded
(:func:`declare_symbol`). The machine code is freed when the last :class:`Code` of its object dies.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import binding as _untyped
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hybridc.lower.llvm.llvm_ir import llvm_ir
from hybridc.lower.llvm.loops_to_llvm import PHASE, LoopsToLLVM
from hybridc.runtime.locks import ForkLock

binding: Any = _untyped

_SPEED_LEVEL = 2  # 3 takes longer, and what it adds does not show in these loops


@dataclass(frozen=True)
class NativeFunction:
    """A function of the shape ``phase(buffers, numbers, lo, hi, scratch)`` that may have to be compiled.

    ``key`` names all that its code depends on. ``build`` makes a module: in loop form, or in the llvm dialect with an
    exported ``phase``.
    """

    key: str
    build: Callable[[], ModuleOp] = field(compare=False)

    @property
    def symbol(self) -> str:
        """Its name in an object."""
        return f"{PHASE}_{hashlib.sha256(self.key.encode()).hexdigest()[:24]}"


@dataclass(frozen=True, eq=False)
class Code:
    """A native function that can be called at an address, for as long as this object lives."""

    key: str
    address: int
    memory: Any = field(repr=False)
    __weakref__: Any = field(init=False, repr=False, default=None)


def load(functions: Sequence[NativeFunction]) -> list[Code]:
    """The code of these functions, compiled where there is none yet."""
    with _LOCK.current:
        found = {f.key: code for f in functions if (code := _LOADED.get(f.key)) is not None}
        missing = list({f.key: f for f in functions if f.key not in found}.values())
        if missing:
            for code in _load_object(_compile(missing), missing):
                found[code.key] = _LOADED[code.key] = code
        return [found[f.key] for f in functions]


def declare_symbol(name: str, address: int) -> None:
    """Let native functions call this function of another library by name."""
    binding.add_symbol(name, address)


_LOCK = ForkLock()
_LOADED: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()


@functools.cache
def machine() -> Any:
    """What code is generated for: the processor of this computer."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=_SPEED_LEVEL, reloc="pic", codemodel="small"
    )


@functools.cache
def vector_bits() -> int:
    """How wide vectors are; 512 bits since the generation that does not slow down for them."""
    features = binding.get_host_cpu_features()
    return 512 if features.get("avx512vbmi2") else 256 if features.get("avx") else 128


def text(functions: Sequence[NativeFunction]) -> str:
    """The LLVM IR of these functions, before LLVM's passes."""
    context = Context()
    modules: list[tuple[ModuleOp, str]] = []
    for function in functions:
        module = function.build()
        LoopsToLLVM().apply(context, module)
        modules.append((module, function.symbol))
    return llvm_ir(modules, vector_bits())


def optimised(ir: str) -> Any:
    """The module of this text after LLVM's passes."""
    target = machine()
    module = binding.parse_assembly(ir, binding.create_context())
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=_SPEED_LEVEL)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    builder = binding.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return module


def _compile(functions: Sequence[NativeFunction]) -> bytes:
    """One object with all these functions."""
    made: bytes = machine().emit_object(optimised(text(functions)))
    return made


def _load_object(data: bytes, functions: Sequence[NativeFunction]) -> list[Code]:
    """Functions of an object, put into memory."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine_for_memory())
    engine.add_object_file(binding.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return [Code(f.key, engine.get_function_address(f.symbol), engine) for f in functions]


def machine_for_memory() -> Any:
    """An engine takes a machine of its own."""
    return binding.Target.from_default_triple().create_target_machine(jit=True)
