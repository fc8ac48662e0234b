"""Train a classifier of handwritten digits twice, eagerly and compiled; show what the compiler made of it.

``make demo``, or ``python examples/digits.py`` with scikit-learn, matplotlib and tqdm installed. All that is
claimed is checked: the test accuracy, and that both give the same gradients for the same weights. Curves go to
``digits.png``.
"""

from __future__ import annotations

import ast
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn

SEED, EPOCHS, BATCH = 7, 20, 32
ACCURACY = 0.97
TOLERANCE = 1e-3  # of the largest gradient of a parameter: a sure network has differences of almost equal numbers


class Residual(gluon.HybridBlock):
    """x + f(x): normalized, widened, narrowed."""

    def __init__(self, width: int, hidden: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.norm = nn.LayerNorm()
            self.up = nn.Dense(hidden, activation="relu")
            self.down = nn.Dense(width)
            self.dropout = nn.Dropout(0.5)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The output, of the shape of ``x``."""
        return x + self.dropout(self.down(self.up(self.norm(x))))


@dataclass
class Training:
    """A trained network and how it got there."""

    net: gluon.HybridBlock
    backward: Callable[[Any, Any], Any]
    step: Callable[[Any, Any], Any]
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


def digits() -> tuple[gluon.data.ArrayDataset, gluon.data.ArrayDataset]:
    """scikit-learn's 1797 images of 8x8 pixels, standardized; a fifth of them for testing."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.2, random_state=SEED, stratify=labels
    )
    mean, deviation = train_x.mean(axis=0), train_x.std(axis=0) + 1
    train, test = ((x - mean) / deviation for x in (train_x, test_x))
    return (
        gluon.data.ArrayDataset(train.astype("float32"), train_y.astype("float32")),
        gluon.data.ArrayDataset(test.astype("float32"), test_y.astype("float32")),
    )


def train(hybridized: bool, train_set: Any, test_set: Any) -> Training:
    """Train a fresh network from the same seeds as ever."""
    mx.random.seed(SEED)
    np.random.seed(SEED)  # the DataLoader shuffles, as in MXNet, by NumPy's global state
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        net.add(nn.Dense(64, activation="relu"), Residual(64, 128), Residual(64, 128))
        net.add(nn.LayerNorm(), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    if hybridized:
        net.hybridize()
        loss_of.hybridize()
    net(mx.nd.array(train_set[:1][0]))  # infers the shapes of the parameters
    steps = EPOCHS * (len(train_set) // BATCH)
    schedule = mx.lr_scheduler.CosineScheduler(steps, base_lr=3e-3)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"lr_scheduler": schedule, "wd": 1e-4})

    def backward(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        return loss

    def step(x: Any, y: Any) -> Any:
        loss = backward(x, y)
        trainer.step(x.shape[0])
        return loss

    done = Training(net, backward, step)
    batches = gluon.data.DataLoader(train_set, BATCH, shuffle=True, last_batch="discard")
    tests = gluon.data.DataLoader(test_set, len(test_set))
    with tqdm(range(EPOCHS), desc="hybridized" if hybridized else "eager     ", unit="epoch") as bar:
        for _ in bar:
            done.losses += [float(step(x, y).mean().asscalar()) for x, y in batches]
            done.accuracies.append(accuracy(net, tests))
            bar.set_postfix(loss=f"{done.losses[-1]:.4f}", accuracy=f"{done.accuracies[-1]:.4f}")
    return done


def accuracy(net: gluon.HybridBlock, batches: Any) -> float:
    """The part of the examples that the network gets right."""
    metric = mx.metric.Accuracy()
    for x, y in batches:
        metric.update(y, net(x))
    return metric.get()[1]


def gradients_apart(eager: Training, hybrid: Training, batches: list[Any]) -> float:
    """How far gradients of both are apart for the eager weights, as a part of the largest of their parameter."""
    parameters = [list(training.net.collect_params().values()) for training in (eager, hybrid)]
    for ours, theirs in zip(*parameters, strict=True):
        theirs.set_data(ours.data())
    worst = 0.0
    for x, y in batches:
        for training in (eager, hybrid):
            mx.random.seed(SEED)  # the same elements drop out
            training.backward(x, y)
        for pair in zip(*parameters, strict=True):
            expected, got = (parameter.grad().asnumpy() for parameter in pair)
            worst = max(worst, float(np.abs(got - expected).max() / np.abs(expected).max()))
    return worst


def milliseconds(trainings: tuple[Training, ...], x: Any, y: Any) -> list[float]:
    """The time of a training step of each: medians of blocks that take turns."""
    medians: list[list[float]] = [[] for _ in trainings]
    for _ in range(9):
        for training, found in zip(trainings, medians, strict=True):
            times: list[float] = []
            for _ in range(40):
                start = time.perf_counter()
                training.step(x, y)
                times.append(time.perf_counter() - start)
            found.append(statistics.median(times))
    return [statistics.median(found) * 1e3 for found in medians]


def fused_kernel(source: str) -> str:
    """The longest of the fused kernels in a generated program."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    kernels = [ast.get_source_segment(source, f) or "" for f in functions if f.name.startswith("fused_")]
    return max(kernels, key=len)


def save_curves(eager: Training, hybrid: Training, path: Path) -> None:
    """Both loss curves and both accuracy curves, as a picture."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for training, label, style in ((eager, "eager", "-"), (hybrid, "hybridized", "--")):
        left.plot(training.losses, style, label=label)
        right.plot(range(1, EPOCHS + 1), training.accuracies, style, label=label)
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    right.set(xlabel="epoch", ylabel="test accuracy", ylim=(0.85, 1))
    left.legend()
    right.legend()
    figure.savefig(path, dpi=120)


def main() -> int:
    """Run the demo; the exit status says whether all claims hold."""
    train_set, test_set = digits()
    eager = train(False, train_set, test_set)
    hybrid = train(True, train_set, test_set)
    x, y = (mx.nd.array(part) for part in train_set[:BATCH])

    traced = hybrid.net.trace(x)
    print(f"\n--- the network, as the compiler sees it ---\n{traced}")
    program = traced.optimize().lower("numpy").programs["forward"]
    print(f"--- one of the kernels it became, as Python ---\n{fused_kernel(program.source)}\n")
    print(f"--- what was compiled, and why ---\n{hybrid.net.explain()}\n")

    slow, fast = milliseconds((eager, hybrid), x, y)
    print("--- a training step ---")
    print(f"eager {slow:.3f} ms, hybridized {fast:.3f} ms: {slow / fast:.2f} times as fast\n")

    picture = Path("digits.png").resolve()
    save_curves(eager, hybrid, picture)
    print(f"curves: {picture}")

    parting = max(abs(a - b) for a, b in zip(eager.losses, hybrid.losses, strict=True))
    print(
        f"losses of {len(eager.losses)} steps differ by at most {parting:.1e}: rounding errors grow from step to step"
    )
    batches = list(gluon.data.DataLoader(train_set, BATCH))
    apart = gradients_apart(eager, hybrid, batches)
    claims = [
        (f"{name} test accuracy {training.accuracies[-1]:.4f} >= {ACCURACY}", training.accuracies[-1] >= ACCURACY)
        for name, training in (("eager", eager), ("hybridized", hybrid))
    ]
    claims.append(
        (f"gradients of {len(batches)} batches for the same weights differ by {apart:.1e}", apart <= TOLERANCE)
    )
    for text, holds in claims:
        print(f"{'ok    ' if holds else 'FAILED'} {text}")
    return 0 if all(holds for _, holds in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
