"""Compile native functions: LLVM's optimiser and code generator, an object cache, executable memory.

    load_functions([NativeFunction(key, build), ...]) → [Code, ...]

Equal keys mean equal code: code loaded in this process is shared, and objects compiled by any process of this user are
in the cache folder. Functions for arrays of all sizes are compiled for the level of the processor, wherever that is
done: so the package has those of usual networks, under all that an object follows from (:func:`ship_object`). A missing
function is compiled to an object of its own, which is position independent: external functions (BLAS) are resolved by
name when it is loaded (:func:`declare_symbol`). LLVM runs on threads while further functions are built, or from
:func:`compile_functions_ahead` on, while memory is planned. Machine code that is loaded together is freed when the last
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
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hybridc.ground import limits
from hybridc.ground.events import recorded
from hybridc.ground.locks import PATIENCE, ForkLock
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NOT_SERIALISED
from hybridc.ground.store import compiler_version, is_collecting, keep, kept, ship, shipped
from hybridc.lower.llvm.codegen import llvm, llvm_c, object_loader, processor
from hybridc.lower.llvm.codegen.host import HostProcessor, host
from hybridc.lower.llvm.codegen.llvm_release import PASSES
from hybridc.lower.llvm.codegen.object_file import undefined_symbols
from hybridc.lower.llvm.codegen.object_loader import LoadedObjects
from hybridc.lower.llvm.gemm import native_blas
from hybridc.options import OPTIONS

if TYPE_CHECKING:
    from hybridc.ir.tiles.tile_program import TileProgram
    from hybridc.lower.llvm.codegen.function_text import ModuleText

_SPEED_LEVEL = 2  # 3 takes longer, without effect on these loops


def _built_before(_: ModuleText, __: str) -> NoReturn:
    """The builder of a function from the cache, whose IR is not known."""
    raise LookupError("a function from the kernel cache has no IR; call lower(), which builds it again")


@dataclass(frozen=True)
class NativeFunction:
    """A native function ``region(buffers, numbers, lo, hi, scratch)``, to be compiled or found in the cache.

    ``key`` identifies its code, given compiler and processor. ``build`` writes it into a module of LLVM IR, exported
    under a symbol. ``program`` is the tile program that it is made from.
    """

    key: str
    build: Callable[[ModuleText, str], None] = field(default=_built_before, compare=False, metadata=NOT_SERIALISED)
    program: TileProgram | None = field(default=None, compare=False, metadata=NOT_SERIALISED)

    @property
    def symbol(self) -> str:
        """Its symbol in an object."""
        return f"region_{hashlib.sha256(self.key.encode()).hexdigest()[:24]}"

    def compiler(self) -> Callable[[], ObjectCode]:
        """A function that compiles its object on another thread; IR is built before."""
        ir, cpu = llvm_text([self]), self.cpu
        return lambda: object_of(ir, cpu)

    @property
    def for_all_sizes(self) -> bool:
        """Whether one compiled function serves arrays of any size."""
        return self.program is not None and self.program.for_all_sizes

    @property
    def cpu(self) -> str:
        """The processor that it is compiled for: what ``HYBRIDC_CPU`` says, or its level."""
        return processor.shared_level() if self.for_all_sizes else OPTIONS.cpu

    def explain(self, stage: str) -> str:
        """Its text at a stage: ``"tiles"``, ``"llvm"``, ``"optimised"`` or ``"assembly"``."""
        if stage == "tiles":
            return "// no tile program" if self.program is None else str(self.program)
        return explained(llvm_text([self]), stage, self.cpu)


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """A loaded native function, callable at ``address`` as long as this object lives."""

    key: str
    address: int
    memory: Any = field(repr=False)


def load_functions(functions: Sequence[NativeFunction]) -> list[LoadedCode]:
    """Load functions, compiling those that are not cached; OptionError if this computer cannot run their code."""
    processor.check_runs_here()
    with _alone():
        codes, missing = _found(functions)
        if missing:
            codes |= _place(_compile(missing), missing)
        return [codes[f.key] for f in functions]


def load_stored(functions: Sequence[NativeFunction]) -> list[LoadedCode] | None:
    """Load functions if all are cached; compiles nothing."""
    processor.check_runs_here()
    with _alone():
        codes, missing = _found(functions)
        return None if missing else [codes[f.key] for f in functions]


def compile_functions_ahead(functions: Sequence[NativeFunction]) -> list[Any]:
    """Start compiling those functions that are neither loaded nor stored: :func:`load_functions` waits for them.

    They are given up when what this returns dies before.
    """
    started: list[_CompilerThread] = []
    for function in functions:
        key = function.key
        if key in _LOADED or key in _AHEAD or _stored(function) is not None:
            continue
        make = function.compiler()
        with _alone():
            started.append(_CompilerThread(make))
            _AHEAD[key] = started[-1]
    return started


def declare_symbol(name: str, address: int) -> None:
    """Make an external function callable from native functions by name."""
    _LOADER.declare(name, address)


def resolves(name: str) -> bool:
    """Whether a name resolves to an external function."""
    return _LOADER.resolves(name)


def fork_lock() -> ForkLock:
    """The lock that a fork waits for; for other users of LLVM."""
    lock = ForkLock()
    _FORK_LOCKS.append(lock)
    return lock


_GATE, _LOCK = ForkLock(), ForkLock()
_FORK_LOCKS = [_GATE, _LOCK]
_LOADED: weakref.WeakValueDictionary[str, LoadedCode] = weakref.WeakValueDictionary()


@contextlib.contextmanager
def _alone() -> Generator[None]:
    """Exclusive access to the loader, also against forks."""
    with _GATE.current:
        pass  # a waiting fork goes first
    with _LOCK.current:
        _free()
        yield


def _found(functions: Sequence[NativeFunction]) -> tuple[dict[str, LoadedCode], list[NativeFunction]]:
    """The loaded or cached functions by key; and the missing ones."""
    shared = () if is_collecting() else functions  # objects in memory have no bytes to collect
    codes = {f.key: code for f in shared if (code := _LOADED.get(f.key)) is not None}
    unknown = {f.key: f for f in functions if f.key not in codes}
    stored = {key: code for key, f in unknown.items() if (code := _stored(f)) is not None}
    codes |= _place([*stored.values()], [unknown[key] for key in stored])
    return codes, [f for key, f in unknown.items() if key not in stored]


# The target machine


def machine(cpu: str | None = None) -> llvm.TargetMachine:
    """This thread's target machine: for what ``HYBRIDC_CPU`` says, or for a level."""
    return llvm.TargetMachine(processor.name(cpu), processor.features_text(cpu), _SPEED_LEVEL, processor.triple(cpu))


def llvm_of(cpu: str | None = None) -> str:
    """The library of LLVM that compiles for what ``HYBRIDC_CPU`` says, or for a level, and its version."""
    triple = processor.triple(cpu)
    return llvm.llvm_version(triple) if triple else host().llvm


def generic_machine(triple: str = "") -> llvm.TargetMachine:
    """A target machine for every processor of an architecture: this computer's, or that of a triple."""
    return llvm.TargetMachine("generic", "", _SPEED_LEVEL, triple)


def target_key() -> str:
    """The part of cache keys for the target: system, processor, LLVM, this compiler."""
    return _target_key(OPTIONS.cpu, host())


@functools.cache
def _target_key(_: str, __: HostProcessor) -> str:
    return f"{_machine_key()} {processor.vector_bits()} {compiler_version()}"


def _machine_key(cpu: str | None = None) -> str:
    """What of the target machine, or of that of a level, an object follows from; and LLVM."""
    system = f"{processor.system(cpu)} {processor.architecture(cpu)}"
    return f"{system} {processor.name(cpu)} {processor.features_text(cpu)} {llvm_of(cpu)}"


# From functions to object code


def llvm_text(functions: Sequence[NativeFunction], vector_bits: int | None = None) -> str:
    """The LLVM IR of these functions, before LLVM's passes; for vectors of the target's width, or of another."""
    # Imported late: loading cached code needs no compiler, whose import takes longer than that.
    from hybridc.lower.llvm.codegen.function_text import ModuleText, half_functions

    module = ModuleText(vector_bits or processor.vector_bits())
    for function in functions:
        function.build(module, function.symbol)
    return str(module) + ("" if processor.converts_halves() else half_functions())


def explained(ir: str, stage: str, cpu: str | None = None) -> str:
    """LLVM IR at a stage: ``"llvm"``, ``"optimised"`` or ``"assembly"``."""
    if stage == "llvm":
        return ir
    target = machine(cpu)
    module = optimised(ir, target)
    return str(module) if stage == "optimised" else target.assembly(module)


def optimised(ir: str, target: llvm.TargetMachine) -> llvm.LLVMModule:
    """The module of LLVM IR after LLVM's passes for a target machine."""
    llvm.require_memory()
    module = llvm.LLVMModule(ir, target.library)
    target.optimise(module)
    return module


class ObjectCode(NamedTuple):
    """Relocatable machine code, and the external functions that it calls."""

    code: bytes
    needs: tuple[str, ...]

    @staticmethod
    def of(code: bytes) -> ObjectCode:
        """An object with its undefined symbols."""
        return ObjectCode(code, undefined_symbols(code))


def _compile(functions: Sequence[NativeFunction]) -> list[ObjectCode]:
    """Compile functions that are not cached, and store their objects."""
    workers = [_AHEAD.pop(function.key, None) or _CompilerThread(function.compiler()) for function in functions]
    objects = [worker.result() for worker in workers]
    for function, compiled in zip(functions, objects, strict=True):
        keep(_entry(function), compiled, target_key())
    return objects


class _CompilerThread:
    """A thread that compiles an object, when fewer than ``HYBRIDC_NUM_THREADS`` others do.

    Where none can be started, this one compiles when the object is needed.
    """

    def __init__(self, make: Callable[[], ObjectCode]) -> None:
        self._make = make
        self._error: BaseException | None = None
        self._thread = limits.thread(self._run, "hybridc LLVM")

    def _run(self) -> None:
        try:
            with _SLOTS.free:
                self._made = self._make()
        except BaseException as error:
            self._error = error

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, but not longer than so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def result(self) -> ObjectCode:
        """Join; returns the object, once, or raises its error."""
        if self._thread is None:
            self._run()
        self.join()
        if self._error is not None:
            raise self._error
        compiled = self._made
        del self._made
        return compiled


class _Slots:
    """How many threads may run LLVM at once."""

    def __init__(self) -> None:
        self.free = threading.Semaphore(OPTIONS.num_threads)


_SLOTS = _Slots()
_AHEAD: weakref.WeakValueDictionary[str, _CompilerThread] = weakref.WeakValueDictionary()


def object_of(ir: str, cpu: str | None = None) -> ObjectCode:
    """The object of LLVM IR for the target, or a level: LLVM compiles it, unless the package has what it would give."""
    code = shipped(_shipped_key(ir, cpu), ObjectCode)
    if code is not None:
        return code
    with recorded("compile", "LLVM", characters=len(ir)):
        target = machine(cpu)
        return ObjectCode.of(target.object(optimised(ir, target)))


def ship_object(ir: str, cpu: str) -> None:
    """Make the object of LLVM IR for a level part of the package."""
    ship(_shipped_key(ir, cpu), object_of(ir, cpu))


def _shipped_key(ir: str, cpu: str | None) -> str:
    """All that an object follows from."""
    return f"object {_machine_key(cpu)} {PASSES}\n{hashlib.sha256(ir.encode()).hexdigest()}"


def _entry(function: NativeFunction) -> str:
    return f"function {function.key}"


def _stored(function: NativeFunction) -> ObjectCode | None:
    """The object of a function in the cache; None if it is not there."""
    return kept(_entry(function), ObjectCode, target_key())


# From object code to memory


class _Loader(NamedTuple):
    """What loads objects, and resolves the names of external functions."""

    load: Callable[[Sequence[bytes]], LoadedObjects | llvm_c.Engine]
    declare: Callable[[str, int], None]
    resolves: Callable[[str], bool]


def _loader() -> _Loader:
    """The loader of this system; where objects are no ELF of x86-64, LLVM's."""
    if object_loader.runs_here():
        return _Loader(LoadedObjects, object_loader.declare_address, object_loader.is_defined)
    return _Loader(llvm_c.Engine, llvm_c.add_symbol, llvm_c.has_symbol)


_LOADER = _loader()


class _ExecutableMemory:
    """Loaded machine code; freed with this object."""

    __slots__ = ("__weakref__", "engine")

    def __init__(self, objects: Sequence[bytes]) -> None:
        self.engine = _LOADER.load(objects)
        # It holds the engine: else the collector would close the engine while another thread closes it.
        weakref.finalize(self, _give_up, self.engine).atexit = False  # at exit, threads may still run the code


_UNUSED: list[LoadedObjects | llvm_c.Engine] = []


def _give_up(engine: LoadedObjects | llvm_c.Engine) -> None:
    """Queue an engine to be closed."""
    _UNUSED.append(engine)
    if _LOCK.current.acquire(blocking=False):  # else the holder does it later: never block in a finalizer
        _free()
        _LOCK.current.release()


def _free() -> None:
    """Close queued engines; only under the lock, so that no child is forked meanwhile."""
    while _UNUSED:
        _UNUSED.pop().close()


def _place(objects: Sequence[ObjectCode], functions: Sequence[NativeFunction]) -> dict[str, LoadedCode]:
    """Load objects; the functions by their keys."""
    if not objects:
        return {}
    needs = {name for compiled in objects for name in compiled.needs}
    for name in needs & set(native_blas.GEMM.values()) & native_blas.addresses().keys():
        declare_symbol(name, native_blas.addresses()[name])
    if lacking := sorted(name for name in needs if not resolves(name)):
        raise LookupError(
            f"undefined symbols {', '.join(lacking)} in native functions; define each by declare_symbol(name, address)"
        )
    memory = _ExecutableMemory([compiled.code for compiled in objects])
    codes = {f.key: LoadedCode(f.key, memory.engine.address(f.symbol), memory) for f in functions}
    _LOADED.update(codes)
    return codes


def _before_fork() -> None:
    """Before a fork: wait until LLVM is idle, as the child lacks the threads that run it."""
    _FORK.locked = [lock.current for lock in _FORK_LOCKS if lock.current.acquire(timeout=PATIENCE)]
    for worker in list(_AHEAD.values()):
        worker.join(PATIENCE)


def _after_fork() -> None:
    for lock in getattr(_FORK, "locked", ()):  # unset if this module was imported while the fork waited
        lock.release()
    _FORK.locked = []


def _in_child() -> None:
    """In a child: it lacks the threads that compile; locks are new ones already."""
    _AHEAD.clear()
    _SLOTS.free = threading.Semaphore(OPTIONS.num_threads)


_FORK = threading.local()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
