"""A user's scalar-body operator against the built-in of the same formula: ``python benchmarks/custom_op.py``.

Eagerly, in a hybridized network, and with its backward. The ratio is the built-in's time over the user's: 1 means that
the user's operator costs nothing more, and less than 0.9 fails. Results are compared first, and a host call fails too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by NumPy: on a busy machine its threads wait for each other

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
from benchmarks import timing
from hybridc import op

SIZES = {"small": (8, 64), "large": (512, 1024)}
LEAST = 0.9
QUICK, THOROUGH = (5, 0.05), (15, 0.2)  # number of blocks, seconds of each


@op.register("bench.user_softsign")
class UserSoftsign(op.Elementwise):
    """x / (1 + |x|)"""

    def scalar(self, b: Any, x: Any) -> Any:
        return x / (b.abs(x) + 1.0)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / F.square(F.abs(x) + 1)


@op.register("bench.user_silu")
class UserSilu(op.Elementwise):
    """x * sigmoid(x), with the built-in's faster eager"""

    def scalar(self, b: Any, x: Any) -> Any:
        return x * b.logistic(x)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        y = np.negative(x)
        np.exp(y, out=y)
        np.add(y, 1.0, out=y)
        np.divide(1.0, y, out=y)
        return np.multiply(x, y, out=y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        s = F.sigmoid(x)
        return dy * (s + y * (1 - s))


@op.register("bench.user_hard_sigmoid")
class UserHardSigmoid(op.Elementwise):
    """min(max(alpha * x + beta, 0), 1)"""

    alpha: float = op.attribute(0.2, "the slope")
    beta: float = op.attribute(0.5, "the value at 0")

    def scalar(self, b: Any, x: Any) -> Any:
        return b.min(b.max(x * self.alpha + self.beta, 0.0), 1.0)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (F.greater(y, 0) * F.lesser(y, 1) * self.alpha)


class Net(mx.gluon.HybridBlock):
    """A layer, the operator between two others, and a sum."""

    def __init__(self, name: str, units: int) -> None:
        super().__init__(prefix="net_")
        self.name_of_op = name
        with self.name_scope():
            self.dense = mx.gluon.nn.Dense(units)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(getattr(F, self.name_of_op)(self.dense(x)) * 1.5)


def programs(name: str, shape: tuple[int, ...]) -> dict[str, tuple[Callable[[], Any], Any]]:
    """What to time of an operator, each with the network whose host calls count."""
    mx.random.seed(1)
    values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    x = mx.nd.array(values)
    function = getattr(mx.nd, name)
    net = Net(name, 64)
    net.initialize()
    net.hybridize()

    def step() -> Any:
        with mx.autograd.record():
            y = net(x)
        y.backward()
        return net.dense.weight.grad()

    return {"eager": (lambda: function(x), None), "hybridized": (lambda: net(x), net), "with backward": (step, net)}


def compare(user: str, builtin: str, size: str, blocks: int, seconds: float) -> bool:
    """Print a row for each mode; whether none is too slow or calls the host."""
    good = True
    theirs, ours = programs(user, SIZES[size]), programs(builtin, SIZES[size])
    for mode, (call, net) in theirs.items():
        other = ours[mode][0]
        np.testing.assert_allclose(call().asnumpy(), other().asnumpy(), rtol=2e-5, atol=1e-6)
        host_calls = net.explain().count("host call ") if net is not None else 0
        slow, fast = timing.compare((call, other), blocks, seconds)
        ratio = fast / slow
        good = good and ratio >= LEAST and host_calls == 0
        cells = (user, builtin, size, mode, f"{slow * 1e6:.1f}", f"{fast * 1e6:.1f}", f"{ratio:.2f}", host_calls)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter, and less exact")
    given = parser.parse_args()
    blocks, seconds = QUICK if given.quick else THOROUGH
    head = ("user's", "built-in", "size", "mode", "user's µs", "built-in µs", "ratio", "host calls")
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    pairs = ("softsign", "softsign"), ("silu", "silu"), ("hard_sigmoid", "hard_sigmoid")
    good = [compare(f"user_{u}", b, size, blocks, seconds) for u, b in pairs for size in SIZES]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
