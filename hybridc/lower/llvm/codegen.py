"""Native functions become machine code: LLVM's optimiser and code generator, an object, memory that can be executed.

    load([NativeFunction(key, build), ...]) → [Code, ...]

Equal keys are equal code: what is loaded in this process is used again, and what any process of this user compiled is
found in the cache folder. All that is missing is compiled as one module into one object, in which no address is
written: functions of other libraries (BLAS) are found by name when it is loaded (:func:`declare_symbol`). The machine
code is freed when the last :class:`Code` of its object dies.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llvmlite import binding as _untyped

from hybridc.runtime import native_blas
from hybridc.runtime.locks import ForkLock
from hybridc.runtime.store import compiler_version, store

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

binding: Any = _untyped

_SPEED_LEVEL = 2  # 3 takes longer, and what it adds does not show in these loops
_PATIENCE = 10.0  # seconds for which a fork waits until nobody compiles


@dataclass(frozen=True)
class NativeFunction:
    """A function of the shape ``phase(buffers, numbers, lo, hi, scratch)`` that may have to be compiled.

    ``key`` names all that its code depends on but the compiler and the processor. ``build`` makes a module: in loop
    form, or in the llvm dialect with an exported ``phase``.
    """

    key: str
    build: Callable[[], ModuleOp] = field(compare=False)

    @property
    def symbol(self) -> str:
        """Its name in an object."""
        return f"phase_{hashlib.sha256(self.key.encode()).hexdigest()[:24]}"


@dataclass(frozen=True, eq=False)
class Code:
    """A native function that can be called at an address, for as long as this object lives."""

    key: str
    address: int
    memory: Any = field(repr=False)


def load(functions: Sequence[NativeFunction]) -> list[Code]:
    """The code of these functions, compiled where there is none yet."""
    with _GATE.current:
        pass  # whoever forks goes first
    with _LOCK.current:
        _free()
        found = {f.key: code for f in functions if (code := _LOADED.get(f.key)) is not None}
        missing = {f.key: f for f in functions if f.key not in found}
        for code in _stored(list(missing.values())):
            found[code.key] = _LOADED[code.key] = code
            del missing[code.key]
        if missing:
            for code in _compile(list(missing.values())):
                found[code.key] = _LOADED[code.key] = code
        return [found[f.key] for f in functions]


def load_stored(functions: Sequence[NativeFunction]) -> list[Code] | None:
    """The code of these functions if all of it was compiled before, by any process; nothing is compiled."""
    with _GATE.current:
        pass  # whoever forks goes first
    with _LOCK.current:
        _free()
        found = {f.key: code for f in functions if (code := _LOADED.get(f.key)) is not None}
        missing = {f.key: f for f in functions if f.key not in found}
        for code in _stored(list(missing.values())):
            found[code.key] = _LOADED[code.key] = code
        return [found[f.key] for f in functions] if all(f.key in found for f in functions) else None


def declare_symbol(name: str, address: int) -> None:
    """Let native functions call this function of another library by name."""
    binding.add_symbol(name, address)


_GATE, _LOCK = ForkLock(), ForkLock()
_LOADED: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()


# What code is generated for


def machine() -> Any:
    """The processor of this computer."""
    with _LOCK.current:  # LLVM's options can be given once
        return _machine()


@functools.cache
def _machine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    # What is left after full vectors is done by single elements: vectors for that are a third more to compile.
    binding.set_option("hybridc", "-enable-epilogue-vectorization=false")
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=_features(), opt=_SPEED_LEVEL, reloc="pic", codemodel="small"
    )


@functools.cache
def vector_bits() -> int:
    """How wide vectors are: 512 bits since the generation that does not slow down for them."""
    features = binding.get_host_cpu_features()
    return 512 if features.get("avx512vbmi2") else 256 if features.get("avx") else 128


@functools.cache
def target_key() -> str:
    """All that equal functions may be compiled differently for: the processor, LLVM, this compiler."""
    llvm = ".".join(map(str, binding.llvm_version_info))
    return " ".join((binding.get_host_cpu_name(), _features(), str(vector_bits()), llvm, compiler_version()))


@functools.cache
def _features() -> str:
    return str(binding.get_host_cpu_features().flatten())


# From functions to an object


def text(functions: Sequence[NativeFunction]) -> str:
    """The LLVM IR of these functions, before LLVM's passes."""
    # Code that was compiled before is loaded without the compiler, whose import takes longer than that.
    from xdsl.context import Context

    from hybridc.lower.llvm.expand_math import ExpandMath
    from hybridc.lower.llvm.llvm_ir import llvm_ir
    from hybridc.lower.llvm.loops_to_llvm import LoopsToLLVM

    context = Context()
    modules: list[tuple[ModuleOp, str]] = []
    for function in functions:
        module = function.build()
        ExpandMath().apply(context, module)
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


def explain(function: NativeFunction, stage: str) -> str:
    """What a function looks like on its way: ``"loops"``, ``"llvm"``, ``"optimised"`` or ``"assembly"``."""
    if stage == "loops":
        return str(function.build())
    ir = text([function])
    if stage == "llvm":
        return ir
    module = optimised(ir)
    return str(module) if stage == "optimised" else machine().emit_assembly(module)


@dataclass(frozen=True)
class _Object:
    """Relocatable machine code, and the functions of other libraries that it calls."""

    code: bytes
    needs: tuple[str, ...]

    def pack(self) -> bytes:
        """As bytes: a line of JSON, then the code."""
        return json.dumps(self.needs).encode() + b"\n" + self.code

    @staticmethod
    def unpack(data: bytes) -> _Object:
        """The object of what :meth:`pack` made."""
        needs, _, code = data.partition(b"\n")
        return _Object(code, tuple(json.loads(needs)))


def _compile(functions: Sequence[NativeFunction]) -> list[Code]:
    """The code of functions that there is no code of, kept for later processes."""
    module = optimised(text(functions))
    declared = [f.name for f in module.functions if f.is_declaration]
    needs = tuple(sorted(name for name in declared if not name.startswith("llvm.")))
    made = _Object(machine().emit_object(module), needs)
    codes = _place(made, functions)
    packed = made.pack()
    name = f"object {hashlib.sha256(packed).hexdigest()}"
    store().put(name, packed)
    for function in functions:
        store().put(_entry(function), name.encode())
    return codes


def _stored(functions: Sequence[NativeFunction]) -> list[Code]:
    """The code of those functions that a process compiled before."""
    together: dict[str, list[NativeFunction]] = {}
    for function in functions:
        if (name := store().get(_entry(function))) is not None:
            together.setdefault(name.decode(), []).append(function)
    codes: list[Code] = []
    for name, members in together.items():
        if (packed := store().get(name)) is not None:
            codes += _place(_Object.unpack(packed), members)
    return codes


def _entry(function: NativeFunction) -> str:
    return f"function {target_key()}\n{function.key}"


# From an object to memory


class _Memory:
    """Machine code that can be executed; freed with this object."""

    __slots__ = ("__weakref__", "engine")

    def __init__(self, code: bytes) -> None:
        machine()
        mover = binding.Target.from_default_triple().create_target_machine(jit=True)  # the engine owns it
        self.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), mover)
        self.engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        _MEMORY.add(self)
        # It holds the engine: of garbage, the collector would close the engine, too, while another thread closes it.
        weakref.finalize(self, _give_up, self.engine).atexit = False


_MEMORY: weakref.WeakSet[_Memory] = weakref.WeakSet()
_UNUSED: list[Any] = []


def _give_up(engine: Any) -> None:
    """Nobody uses the code of an engine any more."""
    _UNUSED.append(engine)
    if _LOCK.current.acquire(blocking=False):  # else whoever has it does this later: never wait here
        _free()
        _LOCK.current.release()


def _free() -> None:
    """Free the memory of code that nobody uses; only with the lock, so that no child is forked meanwhile."""
    while _UNUSED:
        _UNUSED.pop().close()


def _place(made: _Object, functions: Sequence[NativeFunction]) -> list[Code]:
    """Functions of an object, put into memory."""
    for name in made.needs:
        if name in native_blas.GEMM.values() and name in native_blas.addresses():
            declare_symbol(name, native_blas.addresses()[name])
    if lacking := [name for name in made.needs if binding.address_of_symbol(name) is None]:
        raise LookupError(
            f"native functions call {', '.join(lacking)}, which nobody has: declare_symbol(name, address) comes first"
        )
    memory = _Memory(made.code)
    return [Code(f.key, memory.engine.get_function_address(f.symbol), memory) for f in functions]


@atexit.register
def _leave() -> None:
    """At exit, code stays where it is: threads may still run it."""
    for memory in _MEMORY:
        memory.engine.detach()


def _before_fork() -> None:
    """A child must not find LLVM in the middle of something that goes on in a thread that it does not have."""
    _FORK.held = [lock.current for lock in (_GATE, _LOCK) if lock.current.acquire(timeout=_PATIENCE)]


def _after_fork() -> None:
    for lock in _FORK.held:
        lock.release()


_FORK = threading.local()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)  # in the child the lock is a new one
