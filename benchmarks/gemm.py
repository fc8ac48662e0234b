"""Products by native code beside NumPy's BLAS, on the shapes of the benchmark networks.

python benchmarks/gemm.py [--only lstm] [--threads 1,2] [--ways blas,tiles,turned,dots,rows] [--dtype float32]

Prints GFLOP/s: of ``np.matmul`` with threads of its own, of our code with the algorithm that is chosen for the shape,
and with each other one; and the chosen algorithm's share of the fastest large matmul of NumPy in the same run. ``rows``
multiplies with a prepacked operand; a network takes it where many rows meet one matrix.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.timing import compare
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import contraction_loops, matrices_of_loops
from hybridc.lower.llvm.codegen.native_function import load_functions
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_target import native_target
from hybridc.runtime.native import NativePlan, NativeProgram, NativeRegion, PlainArray, Position, set_num_threads
from hybridc.transforms.code.choose_matmul import ALGORITHMS, MatmulRequest
from hybridc.transforms.code.parallel_regions import ParallelRegion
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile

REST = 0.1  # seconds until threads of NumPy's BLAS sleep
WAYS = ("blas", "tiles", "turned", "dots", "rows")
# Name, einsum, sizes of its axes. Weights are stored (out, in), as Gluon does.
SHAPES: list[tuple[str, str, dict[str, int]]] = [
    ("peak", "ik,kj->ij", {"i": 1024, "j": 1024, "k": 1024}),
    ("tiny_mlp 1", "ik,jk->ij", {"i": 1, "j": 64, "k": 32}),
    ("tiny_mlp 2", "ik,jk->ij", {"i": 1, "j": 64, "k": 64}),
    ("tiny_mlp 3", "ik,jk->ij", {"i": 1, "j": 10, "k": 64}),
    ("mlp 1", "ik,jk->ij", {"i": 128, "j": 512, "k": 784}),
    ("mlp 2", "ik,jk->ij", {"i": 128, "j": 512, "k": 512}),
    ("mlp 3", "ik,jk->ij", {"i": 128, "j": 10, "k": 512}),
    ("mlp_train dx 3", "ik,kj->ij", {"i": 128, "j": 512, "k": 10}),
    ("mlp_train dx 2", "ik,kj->ij", {"i": 128, "j": 512, "k": 512}),
    ("mlp_train dw 3", "ki,kj->ij", {"i": 10, "j": 512, "k": 128}),
    ("mlp_train dw 2", "ki,kj->ij", {"i": 512, "j": 512, "k": 128}),
    ("mlp_train dw 1", "ki,kj->ij", {"i": 512, "j": 784, "k": 128}),
    ("attention qk", "btk,bsk->bts", {"b": 32, "t": 128, "s": 128, "k": 64}),
    ("attention pv", "bts,bsk->btk", {"b": 32, "t": 128, "s": 128, "k": 64}),
    ("encoder qkv", "ik,jk->ij", {"i": 1024, "j": 768, "k": 256}),
    ("encoder qk", "bthk,bshk->bhts", {"b": 8, "t": 128, "s": 128, "h": 8, "k": 32}),
    ("encoder pv", "bhts,bshk->bthk", {"b": 8, "t": 128, "s": 128, "h": 8, "k": 32}),
    ("encoder o", "ik,jk->ij", {"i": 1024, "j": 256, "k": 256}),
    ("encoder up", "ik,jk->ij", {"i": 1024, "j": 1024, "k": 256}),
    ("encoder down", "ik,jk->ij", {"i": 1024, "j": 256, "k": 1024}),
    ("lstm x", "ik,jk->ij", {"i": 32, "j": 1024, "k": 128}),
    ("lstm h", "ik,jk->ij", {"i": 32, "j": 1024, "k": 256}),
    ("custom_op y", "ik,jk->ij", {"i": 256, "j": 1024, "k": 1024}),
    ("custom_op dw", "ki,kj->ij", {"i": 1024, "j": 1024, "k": 256}),
    ("batch 1", "ik,jk->ij", {"i": 1, "j": 512, "k": 512}),
    ("batch 4", "ik,jk->ij", {"i": 4, "j": 512, "k": 512}),
    ("batch 8", "ik,jk->ij", {"i": 8, "j": 512, "k": 512}),
    ("batch 16", "ik,jk->ij", {"i": 16, "j": 512, "k": 512}),
    ("batch 32", "ik,jk->ij", {"i": 32, "j": 1024, "k": 1024}),
    ("batch 64", "ik,jk->ij", {"i": 64, "j": 512, "k": 512}),
]


def operands(spec: str) -> list[str]:
    """The axes of both operands and the result."""
    return spec.replace("->", ",").split(",")


def region_of(
    spec: str, sizes: dict[str, int], dtype: Any, threads: int, algorithms: tuple[str, ...] = ()
) -> ParallelRegion | None:
    """The parallel region for a matmul of contiguous arrays."""
    numbers = {axis: i for i, axis in enumerate(sizes)}
    places = [
        dict(zip([numbers[a] for a in axes], row_major(tuple(sizes[a] for a in axes)), strict=True))
        for axes in operands(spec)
    ]
    matrices = matrices_of_loops(*contraction_loops({numbers[a]: n for a, n in sizes.items()}, places))
    if matrices is None:
        return None
    buffers = (1, 0, 2) if matrices.swapped else (0, 1, 2)
    request = MatmulRequest(matrices, np.dtype(dtype), buffers, native_target(threads))
    return request.region([ALGORITHMS[name] for name in algorithms])


def in_panels(spec: str, sizes: dict[str, int], right: Any) -> tuple[str, dict[str, int], Any] | None:
    """The product with the right matrix in panels, if it is a matrix whose columns are the result's last axis."""
    a, b, out = operands(spec)
    vectors, column = registers(), out[-1]
    if vectors is None or len(b) != 2 or column not in b or column in a:
        return None
    term, width = b.replace(column, ""), RegisterTile(right.dtype, vectors).width
    if term in out or sizes[column] % width:
        return None
    across = right.T if b[0] == column else right
    panels = across.reshape(sizes[term], -1, width).swapaxes(0, 1).copy()
    parted = {**sizes, "p": sizes[column] // width, column: width}
    return f"{a},p{term}{column}->{out[:-1]}p{column}", parted, panels


def program_of(region: ParallelRegion, arrays: list[Any], result: Any, threads: int) -> Callable[[], Any]:
    """A call of the region, by as many threads."""
    (code,) = load_functions([region.function])
    stride = -(-region.scratch // 64) * 64
    step = NativeRegion(
        code,
        tuple(Position(1 + i) for i in region.buffers),
        np.array(region.numbers, np.int64).tobytes(),
        region.extent,
        region.grain,
        Position(0),
        stride,
    )
    inputs = [PlainArray(x.shape, x.dtype) for x in arrays]
    plan = NativePlan(
        inputs, [PlainArray(result.shape, result.dtype)], [step], arena=stride * threads + 64, threads=threads
    )
    program = NativeProgram(plan)
    workspace, entry, into = program.workspace(), program.entry, (result,)
    return lambda: entry(workspace, into, *arrays)


def numpy_call(spec: str, arrays: list[Any], result: Any) -> Callable[[], Any]:
    """NumPy's product of the same arrays, by ``np.matmul`` on views."""
    left, right, out = operands(spec)
    batch = [a for a in out if a in left and a in right]
    row, column = ([a for a in out if a in x and a not in batch] for x in (left, right))
    term = [a for a in left if a not in out]
    views = [
        x.transpose([axes.index(a) for a in order])
        for x, axes, order in zip(
            (*arrays, result),
            (left, right, out),
            ([*batch, *row, *term], [*batch, *term, *column], [*batch, *row, *column]),
            strict=True,
        )
    ]
    return lambda: np.matmul(views[0], views[1], out=views[2])


def measure(
    name: str, spec: str, sizes: dict[str, int], dtype: Any, threads: int, algorithms: tuple[str, ...], args: Any
) -> tuple[float, dict[str, float], str]:
    """GFLOP/s of NumPy and of each of our ways, and the way that is chosen."""
    rng = np.random.default_rng(0)
    left, right, out = operands(spec)
    arrays = [rng.standard_normal([sizes[a] for a in axes]).astype(dtype) for axes in (left, right)]
    result = np.empty([sizes[a] for a in out], dtype)
    calls, found = list[Callable[[], Any]](), list[str]()
    want = np.einsum(spec, *[x.astype(np.float64) for x in arrays], optimize=True)
    for algorithm in algorithms:
        given = in_panels(spec, sizes, arrays[1]) if algorithm == "rows" else (spec, sizes, arrays[1])
        region = None if given is None else region_of(given[0], given[1], dtype, threads, (algorithm,))
        if given is not None and region is not None:
            seen = result.reshape([given[1][a] for a in operands(given[0])[2]])
            call = program_of(region, [arrays[0], given[2]], seen, threads)
            result[:] = 0
            call()
            assert np.allclose(result, want, rtol=1e-3, atol=1e-3), f"{name}: {algorithm} is wrong"
            calls.append(call)
            found.append(algorithm)
    # NumPy's threads keep a processor busy for a while after each product: not beside ours.
    times = compare([numpy_call(spec, arrays, result)], args.blocks, args.seconds)
    time.sleep(REST)
    times += compare(calls, args.blocks, args.seconds)
    flops = 2e-9 * math.prod(sizes.values())
    chosen = region_of(spec, sizes, dtype, threads)
    rates = [flops / t for t in times]
    return rates[0], dict(zip(found, rates[1:], strict=True)), chosen.algorithm if chosen else "loops"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.02)
    args = parser.parse_args()
    algorithms = tuple(args.ways.split(","))
    for threads in map(int, args.threads.split(",")):
        set_num_threads(threads)
        print(f"\n{threads} thread(s), GFLOP/s; NumPy's BLAS has as many threads as it likes\n")
        print(f"{'product':16} {'':34} {'NumPy':>8} " + " ".join(f"{w:>8}" for w in algorithms) + "  chosen, its share")
        peak = 0.0
        for name, spec, sizes in SHAPES:
            if name != "peak" and args.only not in name:
                continue
            numpy_rate, rates, chosen = measure(name, spec, sizes, args.dtype, threads, algorithms, args)
            peak = peak or max(numpy_rate, *rates.values())
            text = f"{spec} {'x'.join(map(str, sizes.values()))}"
            cells = " ".join(f"{rates[w]:8.1f}" if w in rates else f"{'':8}" for w in algorithms)
            print(f"{name:16} {text:34} {numpy_rate:8.1f} {cells}  {chosen} {rates.get(chosen, 0) / peak:.0%}")


if __name__ == "__main__":
    main()
