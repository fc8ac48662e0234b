"""What another batch size of a known network costs, and what it costs to be ready for it.

    python benchmarks/new_shapes.py [--only encoder,mlp] [--quick]

The first table: in fresh processes with an empty cache folder, what a first batch size and fifty others take to be
traced, compiled or only planned, and loaded; running comes on top. Bounds, for a machine that does nothing else: the
median of the others is below 30 ms, all of them together take less than two seconds; those of images of 64 x 64 are
only printed. The second table: each workload at a size that was only planned, beside the same network compiled with all
its sizes as constants.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __package__ is None:
    sys.path[0] = str(ROOT)

NETWORKS = {"mlp": ("forward", "recorded"), "encoder": ("forward", "recorded"), "resnet18": ("forward",)}
FIRST, COUNT, LARGEST = 16, 50, 128
MEDIAN, TOGETHER = 30.0, 2000.0  # milliseconds, of networks that are not of images
SECONDS = 0.05  # of a block of calls
# The size that varies, of the workloads whose first argument does not begin with it.
SIZES = {"lstm": 32}
TRAINED = ("mlp_train", "custom_op")


# --- the first table ------------------------------------------------------------------------------------------


def network(name: str) -> tuple[Any, Callable[[int], Any]]:
    """A hybridized network and its input for a batch size."""
    import numpy as np

    import hybridc as mx
    from benchmarks import workloads

    rng = np.random.default_rng(0)
    if name == "mlp":
        arrays = workloads.mlp_inputs(1, workloads.BIG)(rng)
        net: Any = workloads.mlp_net({k: mx.nd.array(v) for k, v in arrays.items()}, "log_softmax")
        return net, lambda n: mx.nd.ones((n, workloads.BIG[0]))
    if name == "resnet18":
        net = mx.gluon.model_zoo.vision.resnet18_v1()
        net.initialize()
        return net, lambda n: mx.nd.ones((n, 3, 64, 64))
    arrays = workloads.encoder_inputs(rng)
    del arrays["x"]
    net = workloads.Encoder({k: mx.nd.array(v) for k, v in arrays.items()})
    return net, lambda n: mx.nd.ones((n, workloads.SEQUENCE, workloads.WIDTH))


def new_sizes(name: str, way: str) -> dict[str, Any]:
    """In this process: milliseconds for each size, how many of them formed kernels, the functions LLVM compiled."""
    import numpy as np

    import hybridc as mx
    from hybridc.lower.llvm.codegen import native_function as codegen

    compiled = [0]
    compile_: Any = codegen._compile  # pyright: ignore[reportPrivateUsage]

    def counted(functions: Any) -> Any:
        compiled[0] += len(functions)
        return compile_(functions)

    codegen._compile = counted  # pyright: ignore[reportPrivateUsage]
    net, make = network(name)
    net.hybridize()
    cached = net._compile((make(1),))
    others = [n for n in np.random.default_rng(1).permutation(np.arange(2, LARGEST + 1)).tolist() if n != FIRST]
    times: list[float] = []
    functions: list[int] = []
    for n in (FIRST, *others[:COUNT]):
        x = make(n)
        compiled[0] = 0
        with mx.autograd.record() if way == "recorded" else contextlib.nullcontext():
            start = time.perf_counter()
            cached.prepare(x)
            times.append(1000 * (time.perf_counter() - start))
        functions.append(compiled[0])
    planned = sum("planned" in graph.origin for graph in cached.graphs())
    return {"times": times, "formed": COUNT - planned, "functions": sum(functions[1:])}


def fresh(name: str, way: str) -> dict[str, Any]:
    """The same in a fresh process with an empty cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HYBRIDC_CACHE_DIR": folder, "HYBRIDC_TARGET": "llvm", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, __file__, "--one", name, way]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def print_sizes() -> bool:
    """Print the first table; whether the bounds hold."""
    head = "first size, ms | another, median | of these planned only | worst | together | functions compiled"
    print(f"| network | called | {head} |\n|---|---|---|---|---|---|---|---|")
    good = True
    for name, ways in NETWORKS.items():
        for way in ways:
            found = fresh(name, way)
            first, *others = found["times"]
            median, together = statistics.median(others), sum(others)
            numbers = f"{first:.0f} | {median:.1f} | {COUNT - found['formed']} of {COUNT} | {max(others):.0f}"
            print(f"| {name} | {way} | {numbers} | {together:.0f} | {found['functions']} |", flush=True)
            good = good and (name == "resnet18" or (median < MEDIAN and together < TOGETHER))
    return good


# --- the second table -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def constant_sizes() -> Generator[None]:
    """What is compiled meanwhile has all its sizes as constants, but for those of products of matrices."""
    from hybridc.compile import new_sizes, warm_start
    from hybridc.transforms.code import parallel_regions

    plan_loop_nest = parallel_regions.plan_loop_nest
    before: list[Any] = [new_sizes._enabled, warm_start._enabled]  # pyright: ignore[reportPrivateUsage]

    def constant(*args: Any) -> Any:
        return dataclasses.replace(plan_loop_nest(*args), dynamic=frozenset[int]())

    parallel_regions.plan_loop_nest = constant
    new_sizes._enabled = warm_start._enabled = lambda *_: False  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        parallel_regions.plan_loop_nest = plan_loop_nest
        new_sizes._enabled, warm_start._enabled = before  # pyright: ignore[reportPrivateUsage]


def rows(array: Any, size: int, count: int) -> Any:
    """An argument for a smaller batch: so many of its rows, or of its second axis."""
    if array.shape[0] == size:
        return array[:count].copy()
    return array[:, :count].copy() if len(array.shape) == 3 and array.shape[1] == size else array


def ratio(name: str, rounds: int) -> tuple[float, float, float, int]:
    """Milliseconds of a workload planned for its size, and with constant sizes; their ratio; graphs that are planned.

    The ratio is the median of those of neighbouring blocks, which what else happens on the machine meets alike.
    """
    import hybridc as mx
    from benchmarks import timing
    from benchmarks.workloads import WORKLOADS

    workload = WORKLOADS[name]
    planned = workload.build(True)
    for block, args in zip(planned.blocks, planned.feeds(), strict=True):
        size = SIZES.get(name, args[0].shape[0])
        for part in (size // 2, size * 3 // 4) if size >= 4 else ():
            with mx.autograd.record() if name in TRAINED else contextlib.nullcontext():
                block(*[rows(x, size, part) for x in args])
    planned.call()
    latest = [block.__dict__["_cached_graph"].graphs()[-1] for block in planned.blocks]
    with constant_sizes():
        constant = workload.build(True)
        constant.call()
    calls = [planned.call, constant.call]
    timing.compare(calls, 1, SECONDS)
    pairs = [[timing.block(call, SECONDS) for call in calls] for _ in range(rounds)]
    ours, theirs = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
    return ours, theirs, statistics.median(a / b for a, b in pairs), sum("planned" in graph.origin for graph in latest)


def print_ratios(names: list[str], rounds: int) -> None:
    """Print the second table."""
    print("\n| workload | planned for its size, ms | all sizes constant, ms | ratio |\n|---|---|---|---|")
    found: list[float] = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "HYBRIDC_CACHE_DIR": folder, "HYBRIDC_TARGET": "llvm", "PYTHONPATH": str(ROOT)}
            command = [sys.executable, __file__, "--ratio", name, str(rounds)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        ours, theirs, each, planned = json.loads(done.stdout.splitlines()[-1])
        found.append(each)
        title = name if planned else f"{name} (compiled)"
        print(f"| {title} | {ours:.4g} | {theirs:.4g} | {each:.3f} |", flush=True)
    print(f"\nGeometric mean of the ratios: {statistics.geometric_mean(found):.3f}")


def main() -> None:
    """Print both tables; exit with an error if a bound does not hold."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(new_sizes(*sys.argv[2:])))
        return
    if sys.argv[1:2] == ["--ratio"]:
        print(json.dumps(ratio(sys.argv[2], int(sys.argv[3]))))
        return
    from benchmarks.workloads import WORKLOADS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="workloads of the second table, separated by commas")
    parser.add_argument("--quick", action="store_true", help="shorter measurements")
    options = parser.parse_args()
    good = print_sizes()
    print_ratios(options.only.split(",") if options.only else list(WORKLOADS), 9 if options.quick else 41)
    if not good:
        raise SystemExit("a bound does not hold")


if __name__ == "__main__":
    main()
