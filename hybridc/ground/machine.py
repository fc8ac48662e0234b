"""One description of the computer that programs are compiled for, and what its operations cost.

There are two, for two kinds of decisions:

* :data:`NOMINAL`: figures that never change. All that may change a digit of a result follows from these, from shapes,
  dtypes and the processor's level: the order of a sum and its partial results, tiles, fusion, what is recomputed, which
  library multiplies. So equal programs give equal results, whatever else the computer does.
* :func:`machine`: the same with costs that were measured here once. Only what leaves results equal to the bit follows
  from these: how a parallel region is cut, from what size on threads share it, when Python's lock is released. They are
  part of the key under which a plan is cached.

Code for a level of processors (``HYBRIDC_CPU``) has the same plans wherever it is made, so costs are nominal there, as
with ``HYBRIDC_MACHINE=nominal``.
"""

from __future__ import annotations

import functools
import math
import platform
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import astuple, field, fields, replace
from pathlib import Path

import numpy as np

from hybridc.ground.records import dataclass
from hybridc.options import OPTIONS


def _cost(nominal: float, meaning: str, source: str = "") -> float:
    """A field of :class:`Costs`; ``source`` says how it is got where it is not what other computers have, too."""
    return field(default=nominal, metadata={"meaning": meaning, "source": source})


_OF_FLOP = "follows the rate of multiplications"


@dataclass(frozen=True)
class Costs:
    """Nanoseconds on one thread; the nominal ones are those of a Zen 3 core with AVX2.

    A kernel's time is estimated as the sum of what its elements cost: bytes, operations, functions.
    """

    flop: float = _cost(0.012, "a multiplication or addition in a matmul", "single precision, 64 x 64 x 64, by BLAS")
    operation: float = _cost(0.06, "an operation on an element of a vector", _OF_FLOP)
    division: float = _cost(0.3, "a division or remainder of an element", _OF_FLOP)
    function: float = _cost(0.8, "a function such as exp of an element", "exp of 4096 numbers")
    byte: float = _cost(0.05, "a byte that is read or written in order", "8 MiB negated into another 8 MiB")
    far_byte: float = _cost(0.024, "a byte that a matmul reads into a nearer cache", "follows the time of a byte")
    indirect: float = _cost(1.0, "an element at an index that is read from memory", "4096 of 65536 numbers, shuffled")
    random: float = _cost(15.0, "four random words of Philox", _OF_FLOP)
    region: float = _cost(500.0, "a piece of a parallel region on a thread that spins")
    wake: float = _cost(5_000.0, "a thread that sleeps wakes up")
    lock: float = _cost(10_000.0, "Python's lock is released and acquired again while others wait for it")


@dataclass(frozen=True)
class Machine:
    """A computer: its processor by name, threads that kernels may share, bytes of its caches and of their lines."""

    processor: str
    threads: int
    line: int
    first: int
    second: int
    third: int
    costs: Costs
    measured: bool = False

    @property
    def shared(self) -> float:
        """The time from which threads share a region.

        Two of them save half of it, which has to be more than waking one of them costs, as most spin but some sleep.
        """
        return 2.4 * self.costs.wake

    @property
    def grain(self) -> float:
        """The least time of a piece, so that beginning it is a fourth of it at most."""
        return 4 * self.costs.region

    @property
    def released(self) -> float:
        """The time from which a call releases Python's lock: twice what that costs."""
        return 2 * self.costs.lock

    @property
    def spin(self) -> float:
        """The time for which a thread waits before it sleeps: what waking takes where the core sleeps, too."""
        return 10 * self.costs.wake

    def cut_at(self, work: float) -> Machine:
        """The same, where threads share what takes so many nanoseconds in pieces that take as long: for tests."""
        return replace(self, costs=replace(self.costs, region=work / 4, wake=work / 2.4))

    def key(self) -> str:
        """All that plans depend on."""
        return repr(astuple(self.costs))


# Chunks of a parallel region for each thread, where they are large enough: one that the system holds up then delays one
# of them only.
CHUNKS = 4
# Caches as nearly all processors since 2015 have at least. Sizes that are read decide nothing: most of what follows
# from caches also decides in how many parts a result is added up, or which code multiplies; the rest gains nothing:
# on a Xeon with a second cache of 2 MiB, it takes longer to transpose in tiles of twice the side, and
# to run NumPy's functions on tiles of four times the elements (softmax of 4096 x 1024: 6.3 ms instead of 4.9).
NOMINAL = Machine("any", 2, 64, 32 << 10, 256 << 10, 4 << 20, Costs())
# Elements along both axes of a square tile whose rows follow memory in one array, and columns in another: two tiles of
# double precision fill half of the first cache. With shorter rows, stores to lines that are a page apart are waited for
# (2048 x 2048: 16x8 12.9 ms, 32x32 2.7 ms, 64x64 3.5 ms).
SQUARE = math.isqrt(NOMINAL.first // 2 // (2 * 8))

_CURRENT: ContextVar[Machine | None] = ContextVar("machine", default=None)


def machine() -> Machine:
    """The computer that programs are compiled for now."""
    return _CURRENT.get() or _here()


@contextmanager
def using(chosen: Machine) -> Generator[None]:
    """Compile for another description."""
    token = _CURRENT.set(chosen)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@functools.cache
def _here() -> Machine:
    """This computer, measured once for all processes that share a cache folder."""
    known = described()
    if OPTIONS.cpu != "host" or OPTIONS.machine == "nominal":
        return known
    from hybridc.ground.store import keep, kept

    key = f"machine 1 {known.processor} {known.second} {known.third} {platform.python_version()} {np.__version__}"
    costs = kept(key, Costs)
    if costs is None:
        costs = measure()
        keep(key, costs)
    return replace(known, costs=costs, measured=True)


def described() -> Machine:
    """What the system says of this computer, with nominal costs."""
    sizes = _caches()
    return Machine(
        _processor(),
        OPTIONS.num_threads,
        sizes.get("line", NOMINAL.line),
        sizes.get("1", NOMINAL.first),
        sizes.get("2", NOMINAL.second),
        sizes.get("3", NOMINAL.third),
        Costs(),
    )


def _processor() -> str:
    """The processor's name, as people know it."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:  # read to that line
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _caches() -> Mapping[str, int]:
    """Bytes of the caches of data by their level, and of a line, where Linux says them."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
            level, kind, size, line = (
                (cache / name).read_text().strip() for name in ("level", "type", "size", "coherency_line_size")
            )
            if kind != "Instruction":
                found[level] = int(size.removesuffix("K")) << 10
                found["line"] = int(line)
    return found


# --- GPUs -------------------------------------------------------------------------------------------------------------
# Code is made for one description of all of them, as what is cut decides the order of sums, and compiling needs no GPU.
# What it has to get right is which config is faster. The fastest of the first few is found by running those for which
# the GPU has room, as its driver says (``devices/tuning.py``).


@dataclass(frozen=True)
class Gpu:
    """A large GPU of 2022, as an H100 or H200. Times are in nanoseconds, sizes in bytes, rates per nanosecond.

    ``read`` is what a multiprocessor reads, ``latency`` how long it waits for the first bytes, ``launch`` how long a
    launch takes at least, ``memory`` what the whole GPU reads and writes. ``flops`` are of one multiprocessor by the
    bytes of an element, ``tensor_flops`` those of single precision that may be rounded for tensor cores. ``shared`` is
    the shared memory that a program may have, ``granted`` what it has without asking, ``least_shared`` what it has on
    every GPU that configs are made for. ``registers`` and ``threads``, in warps of ``warp``, are those of a
    multiprocessor; ``cache`` is the second cache, with lines of ``line``. Arrays are at multiples of ``alignment``; a
    thread reads or writes ``access`` bytes at a time, if they are at a multiple of that.
    """

    name: str = "H200"
    multiprocessors: int = 132
    read: float = 64.0
    latency: float = 700.0
    launch: float = 3000.0
    memory: float = 3000.0
    flops: Mapping[int, float] = field(default_factory=lambda: {2: 7000.0, 4: 450.0, 8: 450.0})
    tensor_flops: float = 3000.0
    shared: int = 160 << 10
    granted: int = 48 << 10
    least_shared: int = 64 << 10
    registers: int = 256 << 10
    threads: int = 2048
    warp: int = 32
    cache: int = 50 << 20
    line: int = 128
    alignment: int = 256
    access: int = 16

    def has_room(self, warps: int, shared: int) -> bool:
        """Whether a program of so many warps and bytes of shared memory can run."""
        return warps * self.warp <= self.threads and shared <= self.shared


GPU = Gpu()


# --- measuring --------------------------------------------------------------------------------------------------------
# NumPy's loops stand for ours, so nothing has to be compiled. The shortest of some repetitions is what the computer can
# do while others use it; figures are coarse and near the nominal ones, so that a bad measurement does little harm.

# How often, and for how many nanoseconds each time; where one call takes longer, only the least times, as first calls
# of networks wait for this: all of it takes about a hundredth of a second.
_SAMPLES, _LEAST, _SAMPLE = 9, 3, 100_000
# Measured costs are at least a fourth of the nominal ones, at most four times.
_FACTOR = 4.0


def measure() -> Costs:
    """The costs of this computer."""
    nominal = Costs()
    x, y = np.linspace(-2, 2, 4096, dtype=np.float32), np.empty(4096, np.float32)
    square, product = np.ones((64, 64), np.float32), np.empty((64, 64), np.float32)
    source, target = np.ones(2 << 20, np.float32), np.empty(2 << 20, np.float32)
    table, where = np.ones(1 << 16, np.float32), np.arange(4096) * 40503 % (1 << 16)  # an odd factor shuffles
    call = _time(lambda: np.add(x[:1], x[:1], out=y[:1]))

    def cost(work: Callable[[], object], elements: int, nominal: float) -> float:
        return plausible((_time(work) - call) / elements, nominal)

    flop = cost(lambda: np.dot(square, square, out=product), 2 * 64**3, nominal.flop)
    byte = cost(lambda: np.negative(source, out=target), 2 * source.nbytes, nominal.byte)
    arithmetic, memory = flop / nominal.flop, byte / nominal.byte
    return replace(
        nominal,
        flop=flop,
        byte=byte,
        operation=nominal.operation * arithmetic,
        division=nominal.division * arithmetic,
        random=nominal.random * arithmetic,
        far_byte=nominal.far_byte * memory,
        function=cost(lambda: np.exp(x, out=y), x.size, nominal.function),
        indirect=cost(lambda: np.take(table, where, out=y, mode="clip"), where.size, nominal.indirect),
    )


def plausible(measured: float, nominal: float) -> float:
    """A measured cost as a multiple of the nominal one: 1 or 1.5 times a power of two, and not too far from it."""
    ratio = min(_FACTOR, max(1 / _FACTOR, measured / nominal))
    power = 2.0 ** math.floor(math.log2(ratio))
    return nominal * min((power, 1.5 * power, 2 * power), key=lambda near: abs(near - ratio))


def _time(work: Callable[[], object]) -> float:
    """Nanoseconds of a call: the least of some samples, each of several calls if these are short."""
    work()  # its memory is there, its code is in the caches
    begin = time.perf_counter_ns()
    work()
    calls = max(1, _SAMPLE // max(1, time.perf_counter_ns() - begin))
    best = math.inf
    for _ in range(_SAMPLES if calls > 1 else _LEAST):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            work()
        best = min(best, (time.perf_counter_ns() - begin) / calls)
    return best


@dataclass(frozen=True)
class Figure:
    """A cost as people read it; ``source`` says how it was measured, and is empty where it was not."""

    name: str
    nanoseconds: float
    nominal: float
    meaning: str
    source: str


def figures(computer: Machine) -> list[Figure]:
    """The costs of a computer."""
    return [
        Figure(
            f.name,
            getattr(computer.costs, f.name),
            getattr(NOMINAL.costs, f.name),
            f.metadata["meaning"],
            f.metadata["source"] if computer.measured else "",
        )
        for f in fields(Costs)
    ]
