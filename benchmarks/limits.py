"""What the machine can do at best: ``python benchmarks/limits.py``; ``run.py --floor`` derives a floor."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llvmlite.binding as llvm
import numpy as np

SIDE = 2048  # arrays of 16 MiB, as in the workloads
REPEATS = 15
CHAINS, STEPS = 12, 200_000  # as many chains as hide the latency and have registers everywhere; some milliseconds


def best(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of some calls."""
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def bandwidth(threads: int) -> float:
    """Bytes read and written a second while copying an array, each thread a part of it."""
    source, target = np.ones((SIDE, SIDE), np.float32), np.empty((SIDE, SIDE), np.float32)
    parts = [slice(SIDE * t // threads, SIDE * (t + 1) // threads) for t in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        seconds = best(lambda: list(pool.map(lambda p: np.copyto(target[p], source[p]), parts)))
    return 2 * source.nbytes / seconds


def multiply_adds(threads: int) -> float:
    """Floating-point operations a second of fused multiply-adds of float32 vectors that stay in registers."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    width = 16 if features.get("avx512f") else 8 if features.get("avx") else 4
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_chains(width)), machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address("chains"))
    arrays = [np.full(width, 0.5, np.float32) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        seconds = best(lambda: list(pool.map(lambda x: run(STEPS, x.ctypes.data), arrays)))
    return 2 * threads * STEPS * CHAINS * width / seconds


def _chains(width: int) -> str:
    """A loop of multiply-adds of which each waits for that of the step before only."""
    vector, chains = f"<{width} x float>", range(CHAINS)
    multiply_add = f"{vector} @llvm.fmuladd.v{width}f32"
    first = [f"%a{c} = phi {vector} [ %x, %entry ], [ %b{c}, %loop ]" for c in chains]
    steps = [f"%b{c} = call {multiply_add}({vector} %x, {vector} %x, {vector} %a{c})" for c in chains]
    last = [f"store volatile {vector} %b{c}, ptr %p, align 4" for c in chains]
    newline = "\n  "
    return f"""
declare {multiply_add}({vector}, {vector}, {vector})
define void @chains(i64 %n, ptr %p) {{
entry:
  %x = load {vector}, ptr %p, align 4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  {newline.join(first + steps)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  {newline.join(last)}
  ret void
}}
"""


def limits() -> tuple[float, float]:
    """Bandwidth and multiply-adds with the threads that the library uses."""
    threads = min(2, os.cpu_count() or 1)
    return bandwidth(threads), multiply_adds(threads)


if __name__ == "__main__":
    moved, flops = limits()
    print(f"copy of 16 MiB: {moved / 1e9:.1f} GB/s; multiply-adds: {flops / 1e9:.0f} GFLOP/s")
