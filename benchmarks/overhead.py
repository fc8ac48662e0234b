"""What hybridc costs on top of NumPy: ``python benchmarks/overhead.py``.

* a hybridized call over running its generated program directly on the arrays;
* calls of every kind: several signatures in turn, several results, lists of arguments, executors, recorded calls;
* an eager operator over the NumPy calls that compute the same;
* ``import hybridc`` over ``import numpy``, in fresh processes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
from benchmarks import timing
from benchmarks.workloads import WORKLOADS

CALLS = 300  # in one sample: the clock itself takes a good part of a microsecond
BLOCKS, SECONDS = 9, 0.05
IMPORTS = 15
REPEATS = 2000


def microseconds(*calls: Callable[[], Any]) -> list[float]:
    """Microseconds of each call, measured in turns."""

    def many(call: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                call()

        return run

    return [t / CALLS * 1e6 for t in timing.compare([many(c) for c in calls], BLOCKS, SECONDS)]


class AddOne(mx.gluon.HybridBlock):
    """The smallest network."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x + 1


def hybridized_calls() -> list[tuple[str, float, float]]:
    """Of each network: its name, µs of a call, µs of its program run directly."""
    one = mx.nd.ones((2, 3))
    add_one = AddOne()
    add_one.hybridize()
    tiny = WORKLOADS["tiny_mlp"].build(hybridized=True)
    rows: list[tuple[str, float, float]] = []
    for name, block, call in (
        ("x + 1 of 2x3", add_one, lambda: add_one(one)),
        ("tiny_mlp", tiny.blocks[0], tiny.call),
    ):
        call()
        (graph,) = block.__dict__["_cached_graph"].graphs()
        arrays = _arrays(graph, WORKLOADS["tiny_mlp"].inputs()["x"] if name == "tiny_mlp" else one.asnumpy())
        executable = graph.forward
        workspace = executable.acquire()
        called, direct = microseconds(call, lambda e=executable, w=workspace, a=arrays: e.run(w, *a))
        rows.append((name, called, direct))
    return rows


def _arrays(graph: Any, x: np.ndarray) -> list[np.ndarray]:
    """What the program takes: the argument and the parameters."""
    sources = zip(graph.trace.roles, graph.trace.sources)
    return [x if role == "data" else source.data().asnumpy() for role, source in sources]


class Pair(mx.gluon.HybridBlock):
    """Two arguments, two results."""

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return x + y, x * y


class Joined(mx.gluon.HybridBlock):
    """A list of arguments."""

    def hybrid_forward(self, F: Any, parts: Any) -> Any:
        return parts[0] + parts[1]


def hybridized(block: Any) -> Any:
    block.initialize()
    block.hybridize()
    return block


def kinds_of_calls() -> list[tuple[str, float]]:
    """Microseconds of one hybridized call each, the least of many blocks: of what the machine does beside, least."""
    rng = np.random.default_rng(0)
    xs = [mx.nd.array(rng.standard_normal((n, 16))) for n in range(1, 5)]
    one, pair, joined = hybridized(AddOne()), hybridized(Pair()), hybridized(Joined())
    norm = hybridized(mx.gluon.nn.BatchNorm(in_channels=16))
    tiny = WORKLOADS["tiny_mlp"].build(hybridized=True).blocks[0]
    x = mx.nd.array(WORKLOADS["tiny_mlp"].inputs()["x"])
    variable = mx.nd.ones((2, 16))
    variable.attach_grad()
    executor: Any = tiny(mx.sym.var("data")).simple_bind(mx.cpu(), data=x.shape, grad_req="null")
    executor.arg_dict["data"][:] = x

    def in_turn(count: int) -> Callable[[], None]:
        given = xs[:count] * (4 // count)

        def run() -> None:
            for value in given:
                one(value)

        return run

    def recorded() -> None:
        with mx.autograd.record():
            y = one(variable)
        y.backward()

    def trained() -> None:
        with mx.autograd.record():
            y = tiny(x)
        y.backward()

    calls: list[tuple[str, Callable[[], Any], int]] = [
        ("one shape", in_turn(1), 4),
        ("two shapes in turn", in_turn(2), 4),
        ("four shapes in turn", in_turn(4), 4),
        ("two results", lambda: pair(xs[0], xs[0]), 1),
        ("a list of arguments", lambda: joined(xs[:2][:1] * 2), 1),
        ("BatchNorm, predict mode", lambda: norm(xs[1]), 1),
        ("tiny_mlp", lambda: tiny(x), 1),
        ("tiny_mlp, Executor.forward", executor.forward, 1),
        ("x + 1, recorded, and backward", recorded, 1),
        ("tiny_mlp, recorded, and backward", trained, 1),
    ]
    return [(name, least(call) / each) for name, call, each in calls]


def least(call: Callable[[], Any]) -> float:
    """The least microseconds of a call."""
    for _ in range(10):
        call()
    return min(timeit.repeat(call, number=5, repeat=REPEATS)) / 5 * 1e6


def eager_operators() -> list[tuple[str, float, float]]:
    """Of each operator on small arrays: its name, µs in hybridc, µs of the NumPy calls."""
    rng = np.random.default_rng(0)
    a, b, w, c = (rng.standard_normal(s, dtype=np.float32) for s in ((8, 16), (8, 16), (4, 16), (4,)))
    x, y, weight, bias = (mx.nd.array(v) for v in (a, b, w, c))
    nd = mx.nd
    two = np.float32(2)

    def softmax() -> Any:
        e = np.subtract(a, np.maximum.reduce(a, axis=-1, keepdims=True))
        np.exp(e, out=e)
        return np.divide(e, np.add.reduce(e, axis=-1, keepdims=True), out=e)

    def dense() -> Any:
        z = np.matmul(a, w.T)
        return np.add(z, c, out=z)

    pairs: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("x + y", lambda: x + y, lambda: a + b),
        ("x + 2", lambda: x + 2, lambda: a + two),
        ("relu(x)", lambda: nd.relu(x), lambda: np.maximum(a, 0)),
        ("exp(x)", lambda: nd.exp(x), lambda: np.exp(a)),
        ("sum(x, axis=1)", lambda: nd.sum(x, axis=1), lambda: np.add.reduce(a, axis=1)),
        ("softmax(x)", lambda: nd.softmax(x), softmax),
        ("FullyConnected(x)", lambda: nd.FullyConnected(x, weight, bias, num_hidden=4), dense),
    ]
    return [(name, *microseconds(ours, theirs)) for name, ours, theirs in pairs]


def imports() -> list[tuple[str, float, float]]:
    """Milliseconds of importing hybridc and NumPy, in processes that take turns; the first compile the bytecode."""
    code = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[float]] = {"hybridc": [], "numpy": []}
    for _ in range(IMPORTS):
        for name, times in found.items():
            command = [sys.executable, "-c", code.format(name)]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
            times.append(float(out) * 1e3)
    ours, numpy = (statistics.median(times) for times in found.values())
    return [("import, ms", ours, numpy)]


def main() -> None:
    print("| a call, µs | least |\n|---|---|")
    for name, took in kinds_of_calls():
        print(f"| {name} | {took:.2f} |", flush=True)
    print()
    tables: tuple[tuple[str, str, str, Callable[[], list[tuple[str, float, float]]]], ...] = (
        ("a hybridized call, µs", "called", "its program alone", hybridized_calls),
        ("an eager operator on 8x16, µs", "hybridc", "NumPy", eager_operators),
        ("in a fresh process", "hybridc", "NumPy", imports),
    )
    for title, ours, theirs, measured in tables:
        print(f"| {title} | {ours} | {theirs} | difference |\n|---|---|---|---|")
        for name, mine, other in measured():
            print(f"| {name} | {mine:.2f} | {other:.2f} | {mine - other:.2f} |", flush=True)
        print()


if __name__ == "__main__":
    main()
