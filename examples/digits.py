"""Train a classifier of handwritten digits twice, eagerly and compiled; show what the compiler made of it.

``make demo``, or ``python examples/digits.py`` with scikit-learn, matplotlib and tqdm installed. All that is
claimed is checked: the test accuracy, that both loss curves are the same, and that both give the same gradients for
the same weights. Curves go to ``digits.png``. ``--epochs 3 --accuracy 0.9`` is a short run.
"""

from __future__ import annotations

import argparse
import ast
import os
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

matplotlib.use(os.environ.get("MPLBACKEND", "Agg"))  # a notebook has its own, and shows the figure
from matplotlib import pyplot as plt

SEED, EPOCHS, BATCH = 7, 20, 32
RATE = 3e-3
ACCURACY = 0.97
LOSS_TOLERANCE = 1e-2  # of an epoch's mean: rounding errors decide single steps once a ReLU's input is near 0
GRADIENT_TOLERANCE = 1e-3  # of a parameter's largest gradient: a trained network subtracts almost equal numbers
# The gradient of ReLU jumps at 0, where a rounding error decides the side: batches with such an input are not compared.
KINK = 1e-5

parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("--epochs", type=int, default=EPOCHS)
parser.add_argument("--accuracy", type=float, default=ACCURACY, help="the test accuracy to reach")
options = parser.parse_args([] if "ipykernel" in sys.modules else None)  # a notebook has no command line

# %% [markdown]
# ## The data


# %%
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


train_set, test_set = digits()
print(f"{len(train_set)} images to train on, {len(test_set)} to test; the first is a {train_set[0][1]:.0f}:")
print(load_digits().images[0].astype(int))

# %% [markdown]
# ## The network
#
# Two residual blocks stand between two dense layers. A residual block adds to its input what its layers make of it.


# %%
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


# %% [markdown]
# ## Training, eagerly and hybridized
#
# Both trainings begin with the same parameters and see the same batches. The only difference is `hybridize()`.


# %%
def accuracy(net: gluon.HybridBlock, batches: Any) -> float:
    """The part of the examples that the network gets right."""
    metric = mx.metric.Accuracy()
    for x, y in batches:
        metric.update(y, net(x))
    return metric.get()[1]


def train(hybridized: bool, train_set: Any, test_set: Any, epochs: int = EPOCHS) -> Training:
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
    steps = epochs * (len(train_set) // BATCH)
    schedule = mx.lr_scheduler.CosineScheduler(steps, base_lr=RATE)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": RATE, "lr_scheduler": schedule, "wd": 1e-4})

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
    with tqdm(range(epochs), desc="hybridized" if hybridized else "eager     ", unit="epoch") as bar:
        for _ in bar:
            done.losses += [float(step(x, y).mean().asscalar()) for x, y in batches]
            done.accuracies.append(accuracy(net, tests))
            bar.set_postfix(loss=f"{done.losses[-1]:.4f}", accuracy=f"{done.accuracies[-1]:.4f}")
    return done


eager = train(False, train_set, test_set, options.epochs)
hybrid = train(True, train_set, test_set, options.epochs)
for name, training in (("eager", eager), ("hybridized", hybrid)):
    print(f"{name}: loss {training.losses[-1]:.4f}, accuracy on the test images {training.accuracies[-1]:.4f}")

# %% [markdown]
# ## What the compiler made of the network
#
# `trace` records the operators of a forward on placeholders. Here is the graph before anything is optimized:

# %%
x, y = (mx.nd.array(part) for part in train_set[:BATCH])
traced = hybrid.net.trace(x)
print(f"--- the network, as the compiler sees it ---\n{traced}")

# %% [markdown]
# The operators between two matrix products become one kernel. The target `numpy` writes kernels as Python:


# %%
def fused_kernel(source: str) -> str:
    """The longest of the fused kernels in a generated program."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    kernels = [ast.get_source_segment(source, f) or "" for f in functions if f.name.startswith("fused_")]
    return max(kernels, key=len)


program = traced.optimize().lower("numpy").programs["forward"]
print(f"--- one of the kernels it became, as Python ---\n{fused_kernel(program.source)}")

# %% [markdown]
# The network ran native code, though. `explain()` lists what was compiled, and why:

# %%
print(f"--- what was compiled, and why ---\n{hybrid.net.explain()}")

# %% [markdown]
# ## Curves
#
# The curves of both trainings lie on each other. The losses of single steps differ by rounding errors, which grow.


# %%
def loss_differences(one: Training, other: Training) -> np.ndarray:
    """By how much the mean losses of each epoch differ."""
    means = [np.reshape(t.losses, (len(t.accuracies), -1)).mean(axis=1) for t in (one, other)]
    return np.abs(means[0] - means[1])


def save_curves(eager: Training, hybrid: Training, path: Path) -> None:
    """Loss and accuracy of both, and how far apart the losses are, as a picture."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    # The curves lie on each other, so the first is broad and pale and the second a thin line within it.
    broad = {"color": "tab:orange", "linewidth": 5, "alpha": 0.45, "label": "eager"}
    thin = {"color": "tab:blue", "linewidth": 1, "label": "hybridized"}
    epochs = range(1, len(eager.accuracies) + 1)
    for training, style in ((eager, broad), (hybrid, thin)):
        left.plot(training.losses, **style)
        right.plot(epochs, training.accuracies, **style)
    steps = np.abs(np.subtract(eager.losses, hybrid.losses))
    middle.plot(steps, color="tab:gray", linewidth=1, label="of single steps")
    ends = np.arange(1, len(eager.accuracies) + 1) * (len(steps) // len(eager.accuracies))
    middle.plot(ends, loss_differences(eager, hybrid), "o-", color="tab:blue", markersize=4, label="of epochs' means")
    middle.axhline(LOSS_TOLERANCE, color="tab:red", linestyle=":", label="tolerance")
    left.set(title="training loss", xlabel="step", yscale="log")
    middle.set(title="difference of the losses", xlabel="step", yscale="log", ylim=(1e-8, 10 * LOSS_TOLERANCE))
    right.set(title="test accuracy", xlabel="epoch", ylim=(0.85, 1))
    for axes in (left, middle, right):
        axes.legend()
    figure.savefig(path, dpi=120)


picture = Path("digits.png")
save_curves(eager, hybrid, picture)
print(f"curves: {picture}")

# %% [markdown]
# ## The same gradients
#
# For the same weights both networks must give the same gradients. Where the input of a ReLU is almost 0, a rounding
# error decides about the gradient; batches with such an input are left out.


# %%
@dataclass
class Comparison:
    """How the gradients of two networks with the same weights differ."""

    worst: float = 0.0  # relative to the parameter's largest gradient
    compared: int = 0
    at_kinks: int = 0


def distance_to_kink(net: gluon.HybridBlock, run: Callable[[], Any]) -> float:
    """The smallest absolute value that a ReLU of ``net`` gets as its input in ``run()``."""
    inputs: list[Any] = []
    handles: list[Any] = []

    def watch(block: Any) -> None:
        if isinstance(block, nn.Activation):
            handles.append(block.register_forward_pre_hook(lambda _, arrays: inputs.append(arrays[0])))

    net.apply(watch)
    run()
    for handle in handles:
        handle.detach()
    return min(float(np.abs(x.asnumpy()).min()) for x in inputs)


def compare_gradients(eager: Training, hybrid: Training, batches: list[Any]) -> Comparison:
    """Compare the gradients of both, for the eager weights, over all batches without an input at a ReLU's kink."""
    parameters = [list(training.net.collect_params().values()) for training in (eager, hybrid)]
    for ours, theirs in zip(*parameters, strict=True):
        theirs.set_data(ours.data())
    found = Comparison()
    for x, y in batches:
        mx.random.seed(SEED)  # the same elements drop out in both
        if distance_to_kink(eager.net, lambda x=x, y=y: eager.backward(x, y)) < KINK:
            found.at_kinks += 1
            continue
        mx.random.seed(SEED)
        hybrid.backward(x, y)
        for pair in zip(*parameters, strict=True):
            expected, got = (parameter.grad().asnumpy() for parameter in pair)
            found.worst = max(found.worst, float(np.abs(got - expected).max() / np.abs(expected).max()))
        found.compared += 1
    return found


gradients = compare_gradients(eager, hybrid, list(gluon.data.DataLoader(train_set, BATCH)))
print(f"largest difference: {gradients.worst:.1e} of a parameter's largest gradient, in {gradients.compared} batches")

# %% [markdown]
# ## The time of a training step


# %%
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


slow, fast = milliseconds((eager, hybrid), x, y)
print("--- a training step ---")
print(f"eager {slow:.3f} ms, hybridized {fast:.3f} ms: {slow / fast:.2f} times as fast")

# %% [markdown]
# ## The claims

# %%
apart = float(loss_differences(eager, hybrid).max())
a, b = eager.accuracies[-1], hybrid.accuracies[-1]
claims = [
    (f"eager test accuracy {a:.4f} >= {options.accuracy}", a >= options.accuracy),
    (f"hybridized test accuracy {b:.4f} >= {options.accuracy}", b >= options.accuracy),
    (f"mean losses of the epochs differ by {apart:.1e} <= {LOSS_TOLERANCE}", apart <= LOSS_TOLERANCE),
    (
        f"gradients of {gradients.compared} batches differ by {gradients.worst:.1e} <= {GRADIENT_TOLERANCE} "
        f"({gradients.at_kinks} more have an input within {KINK} of a ReLU's kink)",
        gradients.worst <= GRADIENT_TOLERANCE and gradients.compared > gradients.at_kinks,
    ),
]
for text, holds in claims:
    print(f"{'ok    ' if holds else 'FAILED'} {text}")
if not all(holds for _, holds in claims):
    sys.exit("not all claims hold")
