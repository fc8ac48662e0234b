"""What the native runtime costs: ``python benchmarks/native_runtime.py``.

* a call of a program whose kernels do nothing: from Python, by the number of arrays and steps;
* a region, that is, a kernel that threads share: when the one before was just now, and after an idle time;
* a kernel on one thread and on several, beside ThreadPoolExecutor, by the number of elements.
"""

from __future__ import annotations

import ctypes
import hashlib
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser

from benchmarks import timing
from hybridc.lower.llvm.codegen.native_function import LoadedCode, NativeFunction, load_functions
from hybridc.nd import NDArray
from hybridc.runtime.native import (
    NativePlan,
    NativeProgram,
    NativeRegion,
    PlainArray,
    Position,
    num_threads,
    wrapper_entry,
)
from hybridc.tools.loop_form import loop_form

BLOCKS, SECONDS = 7, 0.03
CALLS = 300
IDLE = 0.005
WITHOUT_LOCK = 1e9

NOTHING = """
func.func @region(%x: memref<?xf32>, %lo: index, %hi: index, %scratch: memref<?xi8>) attributes {hybrid.region} {
  func.return
}
"""
# y = 1 + x + x² + …, twelve terms: about the arithmetic of an exponential.
POLYNOMIAL = f"""
func.func @region(%x: memref<?xf32>, %y: memref<?xf32>, %lo: index, %hi: index, %scratch: memref<?xi8>)
    attributes {{hybrid.region}} {{
  %step = arith.constant 1 : index
  %v0 = arith.constant 1.0 : f32
  scf.for %i = %lo to %hi step %step {{
    %v = memref.load %x[%i] : memref<?xf32>
    {
    " ".join(
        f"%p{i} = arith.mulf %v{i}, %v fastmath<contract> : f32 "
        f"%v{i + 1} = arith.addf %p{i}, %v0 fastmath<contract> : f32 "
        for i in range(12)
    )
}
    memref.store %v12, %y[%i] : memref<?xf32>
  }}
  func.return
}}
"""


def compiled(text: str) -> LoadedCode:
    """The code of a parallel region."""

    def build() -> Any:
        context = Context()
        for dialect in (Builtin, Arith, Func, MemRef, Scf):
            context.load_dialect(dialect)
        return Parser(context, f"builtin.module {{ {text} }}").parse_module()

    (code,) = load_functions(
        [NativeFunction(f"benchmark {hashlib.sha256(text.encode()).hexdigest()}", loop_form(build))]
    )
    return code


def nanoseconds(*calls: Callable[[], Any]) -> list[float]:
    """Nanoseconds of each call, measured in turns, without the loop around them."""

    def many(call: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                call()

        return run

    *times, empty = timing.compare([*map(many, calls), many(lambda: None)], BLOCKS, SECONDS)
    return [(t - empty) / CALLS * 1e9 for t in times]


def after_idle(call: Callable[[], Any]) -> float:
    """Nanoseconds of a call when nothing ran for a while."""
    times: list[float] = []
    for _ in range(40):
        time.sleep(IDLE)
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e9


def caller(plan: NativePlan, *arrays: Any) -> Callable[[], Any]:
    """A call of a program."""
    entry = NativeProgram(plan).entry
    workspace = NativeProgram(plan).workspace()
    return lambda: entry(workspace, None, *arrays)


def calls() -> None:
    """Table of what a call costs."""
    nothing = compiled(NOTHING)
    x, large = np.zeros(10, np.float32), np.zeros(1 << 16, np.float32)
    step = NativeRegion(nothing, (Position(1),))
    spec, large_spec = PlainArray((10,), "float32"), PlainArray((1 << 16,), "float32")
    cases = {
        "1 input, 1 result, 1 step": (NativePlan([spec], [spec], [step]), x),
        "8 inputs": (NativePlan([spec] * 8, [spec], [step]), *[x] * 8),
        "11 steps": (NativePlan([spec], [spec], [step] * 11), x),
        "a result of 256 KiB": (NativePlan([large_spec], [large_spec], [step]), large),
        "without the lock of Python": (NativePlan([spec], [spec], [step], work=WITHOUT_LOCK), x),
    }
    functions = {name: caller(*case) for name, case in cases.items()}
    boxes = [NDArray(x) for _ in range(8)]
    wrapped: Any = wrapper_entry(NativeProgram(NativePlan([spec] * 8, [spec], [step])), NDArray)
    functions["8 inputs, NDArrays"] = lambda: wrapped(*boxes)
    print(f"{'a call from Python':<32} {'ns':>8}")
    for name, ns in zip(functions, nanoseconds(*functions.values())):
        print(f"{name:<32} {ns:8.0f}")
    (floor,) = nanoseconds(lambda: np.empty(10, np.float32))
    print(f"{'np.empty, for comparison':<32} {floor:8.0f}\n")


def regions() -> None:
    """Table of what a region costs, beside a pool of Python's."""
    threads = num_threads()
    nothing = compiled(NOTHING)
    spec = PlainArray((10,), "float32")

    def plan(steps: int, grain: int) -> NativePlan:
        return NativePlan([], [spec], [NativeRegion(nothing, (Position(1),), b"", 64, grain)] * steps, threads=threads)

    alone, shared = caller(plan(11, 64)), caller(plan(11, 1))
    one_alone, one_shared = caller(plan(1, 64)), caller(plan(1, 1))
    first, second = nanoseconds(alone, shared)
    print(f"{'a region, ' + str(threads) + ' threads':<32} {'ns':>8}")
    print(f"{'one after the other':<32} {(second - first) / 11:8.0f}")
    print(f"{f'after {IDLE * 1e3:.0f} ms':<32} {after_idle(one_shared) - after_idle(one_alone):8.0f}")
    with ThreadPoolExecutor(threads - 1 or 1) as pool:

        def executor() -> None:
            wait([pool.submit(abs, 1) for _ in range(threads - 1)])

        print(f"{'ThreadPoolExecutor':<32} {nanoseconds(executor)[0]:8.0f}\n")


def kernels() -> None:
    """Table of one kernel, by its size."""
    threads = num_threads()
    code = compiled(POLYNOMIAL)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    native = function(code.address)
    print(f"{'elements':>9} {'1 thread':>10} {str(threads) + ' threads':>10} {'Executor':>10}  microseconds")
    with ThreadPoolExecutor(threads) as pool:
        for size in (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000):
            x = np.full(size, 0.5, np.float32)
            y = np.empty_like(x)
            addresses = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
            bounds = [(size * i // threads, size * (i + 1) // threads) for i in range(threads)]

            def executor(
                addresses: Any = addresses, bounds: list[tuple[int, int]] = bounds, pool: ThreadPoolExecutor = pool
            ) -> None:
                wait([pool.submit(native, addresses, None, low, high, None) for low, high in bounds])

            def plan(grain: int, size: int = size) -> NativePlan:
                spec = PlainArray((size,), "float32")
                region = NativeRegion(code, (Position(1), Position(2)), b"", size, grain)
                return NativePlan([spec], [spec], [region], threads=threads, work=size / 2)

            medians = timing.compare([caller(plan(size), x), caller(plan(256), x), executor], BLOCKS, SECONDS)
            print(f"{size:9} " + " ".join(f"{t * 1e6:10.2f}" for t in medians))


if __name__ == "__main__":
    calls()
    regions()
    kernels()
