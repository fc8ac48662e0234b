"""Native functions become machine code: LLVM's optimiser and code generator, an object, memory that can be executed.

    load([NativeFunction(key, build), ...]) → [Code, ...]

Equal keys are equal code: what is loaded in this process is used again, and what any process of this user compiled is
found in the cache folder. What is missing becomes an object for each function, in which no address is written:
functions of other libraries (BLAS) are found by name when it is loaded (:func:`declare_symbol`). LLVM works on some of
them, on threads, while the next is written. Machine code that is loaded together is freed when the last
:class:`LoadedCode` of it dies.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hybridc.ground.locks import ForkLock
from hybridc.ground.serialize import NOT_KEPT
from hybridc.ground.store import compiler_version, keep, kept
from hybridc.lower.llvm.codegen import llvm_c, processor
from hybridc.lower.llvm.codegen.half import half_functions
from hybridc.lower.llvm.codegen.object_file import undefined_symbols
from hybridc.lower.llvm.gemm import native_blas
from hybridc.options import OPTIONS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_SPEED_LEVEL = 2  # 3 takes longer, and what it adds does not show in these loops
_PATIENCE = 10.0  # seconds for which a fork waits until nobody compiles


def _built_before() -> NoReturn:
    """The builder of a function whose code is there."""
    raise LookupError("this function was compiled before; lower() makes the program with its functions")


@dataclass(frozen=True)
class NativeFunction:
    """A function of the shape ``phase(buffers, numbers, lo, hi, scratch)`` that may have to be compiled.

    ``key`` names all that its code depends on but the compiler and the processor. ``build`` makes a module: in loop
    form, or in the llvm dialect with an exported ``phase``.
    """

    key: str
    build: Callable[[], ModuleOp] = field(default=_built_before, compare=False, metadata=NOT_KEPT)

    @property
    def symbol(self) -> str:
        """Its name in an object."""
        return f"phase_{hashlib.sha256(self.key.encode()).hexdigest()[:24]}"

    def compiler(self) -> Callable[[], ObjectCode]:
        """What makes its object, on another thread; what needs the compiler's IR is done before."""
        ir = text([self])
        return lambda: _object(ir)

    def explain(self, stage: str) -> str:
        """What it looks like on its way: ``"loops"``, ``"llvm"``, ``"optimised"`` or ``"assembly"``."""
        if stage == "loops":
            return str(self.build())
        ir = text([self])
        if stage == "llvm":
            return ir
        module = optimised(ir)
        return str(module) if stage == "optimised" else machine().assembly(module)


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """A native function that can be called at an address, for as long as this object lives."""

    key: str
    address: int
    memory: Any = field(repr=False)


def load(functions: Sequence[NativeFunction]) -> list[LoadedCode]:
    """The code of these functions, compiled where there is none yet; OptionError if this computer cannot run it."""
    processor.check_runs_here()
    with _alone():
        found, missing = _found(functions)
        if missing:
            found |= _place(_compile(missing), missing)
        return [found[f.key] for f in functions]


def load_stored(functions: Sequence[NativeFunction]) -> list[LoadedCode] | None:
    """The code of these functions if all of it was compiled before, by any process; nothing is compiled."""
    processor.check_runs_here()
    with _alone():
        found, missing = _found(functions)
        return None if missing else [found[f.key] for f in functions]


def declare_symbol(name: str, address: int) -> None:
    """Let native functions call this function of another library by name."""
    llvm_c.declare_symbol(name, address)


def fork_lock() -> ForkLock:
    """A lock that whoever forks waits for: for what else calls LLVM."""
    lock = ForkLock()
    _FORK_LOCKS.append(lock)
    return lock


_GATE, _LOCK = ForkLock(), ForkLock()
_FORK_LOCKS = [_GATE, _LOCK]
_LOADED: weakref.WeakValueDictionary[str, LoadedCode] = weakref.WeakValueDictionary()


@contextlib.contextmanager
def _alone() -> Generator[None]:
    """Only one thread of this process loads, and none while another forks."""
    with _GATE.current:
        pass  # whoever forks goes first
    with _LOCK.current:
        _free()
        yield


def _found(functions: Sequence[NativeFunction]) -> tuple[dict[str, LoadedCode], list[NativeFunction]]:
    """By key, the code of those functions that were compiled before; and the others."""
    found = {f.key: code for f in functions if (code := _LOADED.get(f.key)) is not None}
    unknown = {f.key: f for f in functions if f.key not in found}
    stored = {key: made for key, f in unknown.items() if (made := kept(_entry(f), ObjectCode)) is not None}
    found |= _place([*stored.values()], [unknown[key] for key in stored])
    return found, [f for key, f in unknown.items() if key not in stored]


# What code is generated for


def machine() -> llvm_c.Machine:
    """The processor that code is generated for; one for each thread that does."""
    return llvm_c.Machine(processor.name(), processor.features_text(), _SPEED_LEVEL)


def target_key() -> str:
    """All that equal functions may be compiled differently for: the processor, LLVM, this compiler."""
    return _target_key(OPTIONS.cpu)


@functools.cache
def _target_key(_: str) -> str:
    cpu = (processor.name(), processor.features_text(), str(processor.vector_bits()))
    return " ".join((*cpu, llvm_c.version(), compiler_version()))


# From functions to an object


def text(functions: Sequence[NativeFunction]) -> str:
    """The LLVM IR of these functions, before LLVM's passes."""
    # Code that was compiled before is loaded without the compiler, whose import takes longer than that.
    from xdsl.context import Context

    from hybridc.lower.llvm.codegen.expand_math import ExpandMath
    from hybridc.lower.llvm.codegen.llvm_ir import llvm_ir
    from hybridc.lower.llvm.codegen.loops_to_llvm import LoopsToLLVM

    context = Context()
    modules: list[tuple[ModuleOp, str]] = []
    for function in functions:
        module = function.build()
        ExpandMath().apply(context, module)
        LoopsToLLVM().apply(context, module)
        modules.append((module, function.symbol))
    return llvm_ir(modules, processor.vector_bits()) + ("" if processor.converts_halves() else half_functions())


def optimised(ir: str) -> llvm_c.LLVMModule:
    """The module of this text after LLVM's passes."""
    return _optimised(ir, machine())


def _optimised(ir: str, target: llvm_c.Machine) -> llvm_c.LLVMModule:
    module = llvm_c.LLVMModule(ir)
    target.optimise(module)
    return module


class ObjectCode(NamedTuple):
    """Relocatable machine code, and the functions of other libraries that it calls."""

    code: bytes
    needs: tuple[str, ...]

    @staticmethod
    def of(code: bytes) -> ObjectCode:
        """An object, and what it refers to."""
        return ObjectCode(code, undefined_symbols(code))


def _compile(functions: Sequence[NativeFunction]) -> list[ObjectCode]:
    """The objects of functions that there is no code of, kept for later processes."""
    at_once = threading.Semaphore(OPTIONS.num_threads)
    workers = [_CompilerThread(function.compiler(), at_once) for function in functions]
    objects = [worker.result() for worker in workers]
    for function, made in zip(functions, objects, strict=True):
        keep(_entry(function), made)
    return objects


class _CompilerThread(threading.Thread):
    """A thread that makes an object; only so many at once."""

    def __init__(self, make: Callable[[], ObjectCode], at_once: threading.Semaphore) -> None:
        super().__init__(name="hybridc LLVM")
        self._make = make
        self._at_once = at_once
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Make it."""
        try:
            with self._at_once:
                self._made = self._make()
        except BaseException as error:
            self._error = error

    def result(self) -> ObjectCode:
        """The object, when it is there; what went wrong is raised here."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._made


def _object(ir: str) -> ObjectCode:
    """The object of this text."""
    target = machine()
    return ObjectCode.of(target.object(_optimised(ir, target)))


def _entry(function: NativeFunction) -> str:
    return f"function {target_key()}\n{function.key}"


# From an object to memory


class _ExecutableMemory:
    """Machine code that can be executed; freed with this object."""

    __slots__ = ("__weakref__", "engine")

    def __init__(self, objects: Sequence[bytes]) -> None:
        self.engine = llvm_c.Engine(objects)
        # It holds the engine: of garbage, the collector would close the engine, too, while another thread closes it.
        weakref.finalize(self, _give_up, self.engine).atexit = False  # at exit, threads may still run the code


_UNUSED: list[llvm_c.Engine] = []


def _give_up(engine: llvm_c.Engine) -> None:
    """Nobody uses the code of an engine any more."""
    _UNUSED.append(engine)
    if _LOCK.current.acquire(blocking=False):  # else whoever has it does this later: never wait here
        _free()
        _LOCK.current.release()


def _free() -> None:
    """Free the memory of code that nobody uses; only with the lock, so that no child is forked meanwhile."""
    while _UNUSED:
        _UNUSED.pop().close()


def _place(objects: Sequence[ObjectCode], functions: Sequence[NativeFunction]) -> dict[str, LoadedCode]:
    """Functions by their keys, put into memory: each is in the object at its place."""
    if not objects:
        return {}
    needs = {name for made in objects for name in made.needs}
    for name in needs & set(native_blas.GEMM.values()) & native_blas.addresses().keys():
        declare_symbol(name, native_blas.addresses()[name])
    if lacking := sorted(name for name in needs if not llvm_c.has_symbol(name)):
        raise LookupError(
            f"native functions call {', '.join(lacking)}, which nobody has: declare_symbol(name, address) comes first"
        )
    memory = _ExecutableMemory([made.code for made in objects])
    codes = {f.key: LoadedCode(f.key, memory.engine.address(f.symbol), memory) for f in functions}
    _LOADED.update(codes)
    return codes


def _before_fork() -> None:
    """A child must not find LLVM in the middle of something that goes on in a thread that it does not have."""
    _FORK.held = [lock.current for lock in _FORK_LOCKS if lock.current.acquire(timeout=_PATIENCE)]


def _after_fork() -> None:
    for lock in getattr(_FORK, "held", ()):  # none if this module was imported while the fork waited
        lock.release()
    _FORK.held = []


_FORK = threading.local()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)  # in the child the lock is a new one
