"""hybridc beside PyTorch, eager and compiled, on one GPU and in one process: ``benchmarks/gpu/check.py --part bench``.

Each workload is a function of arrays, written for both; its results are compared before it is measured. With ``train``
a call is forward and backward. What only one of both can do is told in the table.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks.gpu.clock import Clock
from benchmarks.gpu.table import COMPILED, EAGER, OURS, Machine, Row
from hybridc.errors import UnsupportedError
from hybridc.gluon import nn
from hybridc.options import OPTIONS

Arrays = dict[str, np.ndarray]
SECONDS = 0.5  # for the measurements of a workload
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
# The largest difference to PyTorch's results, as a part of their largest number.
TOLERANCE = {"float16": 2e-2, "bfloat16": 8e-2, "float32": 1e-3}
_COMPARED = 1 << 20  # about so many elements of a result are compared
_POOL = 1 << 20  # random numbers that large arrays repeat


@dataclass(frozen=True)
class Workload:
    """``ours(F, **arrays)`` and ``theirs(torch, **tensors)``; ``eager`` is PyTorch's own way, if it has another.

    ``moved`` and ``flops`` are unavoidable in a call. The ``early`` ones are those that a short run has to measure.
    """

    name: str
    arrays: Callable[[], Arrays]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    dtype: str = "float32"
    moved: float = 0
    flops: float = 0
    train: bool = False
    eager: Callable[..., Any] | None = None
    latency: bool = False
    early: bool = True

    @property
    def label(self) -> str:
        """What tells it from the others."""
        return f"{self.name}, {self.dtype}"


@dataclass(frozen=True)
class System:
    """One way to compute a workload: a call, and what it gives then as arrays of NumPy's."""

    call: Callable[[], Any]
    fetch: Callable[[Any], list[np.ndarray]]


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Random numbers; those of large arrays are repeated."""
    size = math.prod(shape)
    pool = np.random.default_rng(seed).standard_normal(min(size, _POOL + 7 * seed), dtype=np.float32)
    return np.resize(pool * np.float32(scale), shape)


@dataclass(frozen=True)
class Comparison:
    """A workload by each system, which is made when it is asked for; ``row`` says what it is."""

    row: Row
    systems: Mapping[str, Callable[[], System]]
    latency: bool = False

    def compile_theirs(self) -> None:
        """Let PyTorch's compiler have compiled it."""
        self.systems[COMPILED]().call()
        clock().wait()

    def measure(self) -> Row:
        """The row with what the systems are compared and timed to be.

        Raises:
            Exception: hybridc cannot run it; what PyTorch cannot is a remark.
        """
        made = {OURS: self.systems[OURS]()}
        got = made[OURS].fetch(made[OURS].call())
        remarks: list[str] = []
        wrong = ""
        for name in (EAGER, COMPILED):
            try:
                system = self.systems[name]()
                want = system.fetch(system.call())
            except Exception as error:
                remarks.append(f"{name}: {type(error).__name__}")
                continue
            made[name] = system
            off = difference(got, want, TOLERANCE[self.row.dtype])
            wrong = wrong or (f"{off}, against {name}" if off else "")
        seconds = clock().medians({name: s.call for name, s in made.items()}, SECONDS, self.latency)
        return replace(self.row, seconds=seconds, remarks=tuple(remarks), wrong=wrong)


def comparison(workload: Workload) -> Comparison:
    """A workload that is a function of arrays."""
    timer = clock()
    timer.torch._dynamo.reset()
    arrays = workload.arrays()
    heads = _heads(workload, arrays)
    compiled = timer.torch.compile(workload.theirs, dynamic=False)
    systems = {
        OURS: lambda: ours(workload, arrays, heads),
        EAGER: lambda: theirs(timer, workload, workload.eager or workload.theirs, arrays, heads),
        COMPILED: lambda: theirs(timer, workload, compiled, arrays, heads),
    }
    return Comparison(Row(workload.name, workload.dtype, workload.moved, workload.flops), systems, workload.latency)


def difference(got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float) -> str:
    """What is wrong with results, in words; empty if nothing is."""
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for number, (y, w) in enumerate(zip(got, want)):
        if y.size != w.size:
            return f"result {number} is {y.shape}, expected {w.shape}"
        step = max(1, y.size // _COMPARED) | 1
        a, b = (x.ravel()[::step].astype(np.float64) for x in (y, w))
        error = float(np.max(np.abs(a - b), initial=0) / max(1e-30, np.max(np.abs(b), initial=0)))
        if not error <= tolerance:
            return f"result {number} is off by {error:.1e} of its magnitude"
    return ""


@functools.cache
def clock() -> Clock:
    """The one of this process."""
    torch: Any = importlib.import_module("torch")
    if torch.cuda.is_available() and OPTIONS.gpu not in ("auto", "torch"):
        raise UnsupportedError("the benchmarks measure PyTorch's stream; use --device torch")
    torch.backends.cudnn.allow_tf32 = False  # products of single precision are IEEE's, as hybridc's
    torch.backends.cuda.matmul.allow_tf32 = False
    return Clock(torch)


def machine(small: bool) -> Machine:
    """What a copy and products reach here."""
    return clock().machine(small)


def _heads(workload: Workload, arrays: Arrays) -> np.ndarray | None:
    """What a result's gradient is given as, where there is a backward: of the first array's shape, or one number."""
    return normal(*next(iter(arrays.values())).shape, seed=9) if workload.train else None


# --- hybridc --------------------------------------------------------------------------------------------------


def measured_in(array: np.ndarray, dtype: str) -> str:
    """The name of an array's dtype in a workload: single precision becomes the workload's, others stay as they are."""
    return array.dtype.name if array.dtype != np.float32 else dtype


def on_gpu(array: np.ndarray, dtype: str) -> Any:
    """An array of hybridc's."""
    dtype = measured_in(array, dtype)
    if dtype != "bfloat16":
        return mx.nd.array(array.astype(dtype), ctx=mx.gpu(0), dtype=dtype)
    try:
        return mx.nd.array(array, ctx=mx.gpu(0)).astype(dtype)
    except mx.MXNetError as error:
        raise UnsupportedError(f"arrays of bfloat16: {error}") from error


def ours(workload: Workload, arrays: Arrays, heads: np.ndarray | None) -> System:
    """By a hybridized block."""

    def function(F: Any, *xs: Any) -> Any:
        return workload.ours(F, **dict(zip(arrays, xs)))

    net = nn.HybridLambda(function)
    net.hybridize(static_alloc=workload.latency)
    given = [on_gpu(a, workload.dtype) for a in arrays.values()]
    if heads is None:
        return System(lambda: net(*given), lambda y: [y.asnumpy()])
    inputs = [x for x, a in zip(given, arrays.values()) if a.dtype.kind == "f"]
    for x in inputs:
        x.attach_grad()
    head = on_gpu(heads, workload.dtype)

    def step() -> Any:
        with mx.autograd.record():
            y = net(*given)
        y.backward(head if y.size == head.size else None)
        return y

    return System(step, lambda y: [y.asnumpy(), *(x.grad.asnumpy() for x in inputs)])


# --- PyTorch --------------------------------------------------------------------------------------------------


def theirs(
    clock: Clock, workload: Workload, function: Callable[..., Any], arrays: Arrays, heads: np.ndarray | None
) -> System:
    """By PyTorch's functions."""
    torch = clock.torch
    given = {name: tensor(clock, a, workload.dtype) for name, a in arrays.items()}
    if heads is None:

        def call() -> Any:
            with torch.no_grad():
                return function(torch, **given)

        return System(call, lambda y: [numpy_of(y)])
    inputs = [x.requires_grad_() for x in given.values() if x.is_floating_point()]
    head = tensor(clock, heads, workload.dtype)

    def step() -> Any:
        y = function(torch, **given)
        grads = torch.autograd.grad(y, inputs, head.view_as(y) if y.numel() == head.numel() else torch.ones_like(y))
        return [y, *grads]

    return System(step, lambda found: [numpy_of(y) for y in found])


def tensor(clock: Clock, array: np.ndarray, dtype: str) -> Any:
    """A tensor on the device."""
    return clock.torch.from_numpy(array).to(clock.device).to(getattr(clock.torch, measured_in(array, dtype)))


def numpy_of(y: Any) -> np.ndarray:
    """A tensor's values; of bfloat16, which NumPy has not, as float32."""
    y = y.detach().cpu()
    return (y.float() if str(y.dtype) == "torch.bfloat16" else y).numpy()


def checks(small: bool) -> dict[str, Callable[[], Any]]:
    """Each measures a workload, in the order of their importance; first what the machine can do."""

    def measuring(make: Callable[[], Comparison]) -> Callable[[], Row]:
        return lambda: make().measure()

    return {"machine": lambda: machine(small), **{name: measuring(make) for name, make in comparisons(small).items()}}


def comparisons(small: bool) -> dict[str, Callable[[], Comparison]]:
    """The workloads, in the order of their importance."""
    from benchmarks.gpu import bench_networks, bench_workloads

    workloads = bench_workloads.workloads(small)
    early, late = ([w for w in workloads if w.early is wanted] for wanted in (True, False))
    found: dict[str, Callable[[], Comparison]] = {w.label: functools.partial(comparison, w) for w in early}
    found |= bench_networks.comparisons(small)
    return found | {w.label: functools.partial(comparison, w) for w in late}
