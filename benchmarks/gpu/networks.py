"""Networks on ``mx.gpu(0)``, forward and backward, against NumPy in float64.

Gradients are compared with differences of the float64 definition along random directions.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks import workloads
from benchmarks.gpu import matrix
from benchmarks.workloads import WORKLOADS, Arrays, Workload
from hybridc.communication import Alone
from hybridc.communication.communicator import Collective
from hybridc.errors import UnsupportedError
from hybridc.runtime.devices.choose import device
from hybridc.runtime.devices.nvidia import nccl
from hybridc.runtime.devices.nvidia.cuda import Cuda

# Of each workload the names of its arguments in order; its other arrays are parameters.
ARGUMENTS = {"attention": "q k v", "encoder": "x", "lstm": "x h0 c0", "layernorm": "x g b"}
TRAINED = ("mlp_train", "custom_op")
FORWARD = ("tiny_mlp", "mlp", "chain", "gelu_bias", "softmax", "norm_layer")

# Sizes for the interpreter: the names in benchmarks.workloads that they replace.
SMALL = {
    "BIG": (40, 24, 24, 10),
    "TINY": (8, 16, 16, 10),
    "SQUARE": 32,
    "ROWS": 12,
    "COLUMNS": 65,
    "SEQUENCE": 12,
    "WIDTH": 64,
    "HIDDEN": 48,
    "ENCODER_BATCH": 2,
    "BATCH": 1,
    "STEPS": 3,
    "LSTM_BATCH": 5,
    "LSTM_IN": 24,
    "LSTM_OUT": 16,
}


def shrink() -> None:
    """Make the workloads small that read their sizes when they are built."""
    for name, value in SMALL.items():
        setattr(workloads, name, value)


def checks() -> dict[str, Callable[[], None]]:
    """Each raises AssertionError if something is wrong."""
    if importlib.util.find_spec("scipy") is None:
        workloads.gelu = matrix.gelu
    found: dict[str, Callable[[], None]] = {}
    for name in (*TRAINED, *FORWARD):
        found[name] = functools.partial(_forward, WORKLOADS[name])
    for name, arguments in ARGUMENTS.items():
        found[f"{name}, backward"] = functools.partial(_backward, WORKLOADS[name], arguments.split())
    found["adam, several weights"] = adam
    found["collectives of one rank by NCCL"] = collectives
    found["replayed calls"] = replayed
    return found


def collectives() -> None:
    """They leave arrays as they are, after what computed them and before what reads them."""
    if nccl.nccl_library() is None:
        raise UnsupportedError("there is no libnccl.so.2")
    gpu, alone = device(0), Alone()
    if not isinstance(gpu, Cuda):
        raise UnsupportedError("NCCL needs a GPU of NVIDIA's")
    made = nccl.Nccl(gpu, nccl.nccl_library())
    for dtype in ("float32", "float64", "int32", "int64"):
        values = np.arange(1 << 20).astype(dtype)
        x = mx.nd.array(values, ctx=mx.gpu(0), dtype=dtype)
        for collective in (
            Collective("allreduce"),
            Collective("reduce_scatter", (1 << 20,)),
            Collective("allgather", (1 << 20,)),
        ):
            for _ in range(20):
                x, values = x + 1, values + 1
                array: Any = x._data
                begun = made.begin(alone, collective, array)
                assert begun is not None
                begun.wait()
                x, values = x * 2 - x, values
            np.testing.assert_array_equal(x.asnumpy(), values)


def _forward(workload: Workload) -> None:
    """One step as the workload defines it."""
    with mx.gpu(0):
        program = workload.build(hybridized=True)
        workload.check(program)


def replayed() -> None:
    """Calls that are recorded, of arguments at the same and at other addresses; each result is its call's."""
    workload = WORKLOADS["tiny_mlp"]
    with mx.gpu(0):
        program = workload.build(hybridized=True)
        (block,) = program.blocks
        (inputs,) = program.feeds()
        block.hybridize(static_alloc=True)
        kept: list[Any] = [block(*inputs) for _ in range(4)]
        for factor in (1.0, 0.5, 2.0, 0.5, 1.0):
            moved = [x * factor for x in inputs]
            result = block(*moved).asnumpy()
            kept.append(block(*[x / factor for x in moved]))
            assert factor == 1 or not np.array_equal(result, kept[0].asnumpy())
    for result in kept:
        workload.error([result.asnumpy()])
    told = str(block.explain())
    assert "replayed: 1 recording of" in told or "Triton's interpreter" in told, told


def _backward(workload: Workload, arguments: Sequence[str]) -> None:
    """The results, and the gradients of the arguments and parameters."""
    given = workload.inputs()
    with mx.gpu(0):
        program = workload.build(hybridized=True)
        (block,) = program.blocks
        (inputs,) = program.feeds()
        for x in inputs:
            x.attach_grad()
        with mx.autograd.record():
            result: Any = block(*inputs)
        outputs: list[mx.nd.NDArray] = [*result] if isinstance(result, list | tuple) else [result]
        weights = [np.cos(np.arange(y.size)).reshape(y.shape) for y in outputs]
        mx.autograd.backward(outputs, [mx.nd.array(w, dtype="float32") for w in weights])
    workload.error([y.asnumpy() for y in outputs])
    grads = {name: x.grad.asnumpy() for name, x in zip(arguments, inputs, strict=True)}
    grads |= {name: getattr(block, name).grad().asnumpy() for name in given if name not in grads}
    agree_with_differences(workload.reference, given, weights, grads)


def agree_with_differences(
    reference: Callable[[Arrays], list[np.ndarray]], given: Arrays, weights: Sequence[np.ndarray], grads: Arrays
) -> None:
    """Raise AssertionError unless gradients of the weighted sum of results are what small steps show."""
    rng = np.random.default_rng(3)
    wide = {name: x.astype(np.float64) for name, x in given.items()}

    def total(name: str, step: np.ndarray) -> float:
        results = reference({**wide, name: wide[name] + step})
        return sum(float(np.sum(np.asarray(y) * w)) for y, w in zip(results, weights, strict=True))

    for name, grad in grads.items():
        direction = rng.standard_normal(grad.shape)
        small = 1e-6 / max(1.0, float(np.max(np.abs(direction))))
        want = (total(name, direction * small) - total(name, -direction * small)) / (2 * small)
        got = float(np.sum(grad * direction))
        scale = float(np.linalg.norm(grad) + 1e-3)  # of such a sum in a random direction
        assert abs(got - want) <= 1e-3 * scale, f"gradient of {name}: {got} along a direction, expected {want}"


def adam() -> None:
    """Two steps of Adam on weights of several shapes."""
    rng = np.random.default_rng(5)
    shapes = [(3, 5), (1000,), (64, 33), (1,)]
    weights = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    grads = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    update = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=0.01))
    there = [[mx.nd.array(a, ctx=mx.gpu(0)) for a in arrays] for arrays in (weights, grads)]
    for _ in range(2):
        update(list(range(len(shapes))), there[1], there[0])
    for w, g, got in zip(weights, grads, there[0], strict=True):
        np.testing.assert_allclose(got.asnumpy(), _adam(w.astype(float), g.astype(float), 2), rtol=0, atol=2e-6)


def _adam(w: np.ndarray, g: np.ndarray, steps: int) -> np.ndarray:
    m: Any = 0.0
    v: Any = 0.0
    for t in range(1, steps + 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
    return w
