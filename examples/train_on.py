"""Train the same network on the CPU or on a GPU: one argument says where.

::

    python examples/train_on.py cpu
    python examples/train_on.py gpu
    HYBRIDC_GPU=interpreter python examples/train_on.py gpu --steps 5     # without a GPU: Triton's interpreter
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn

BATCH = 64


def train(ctx: mx.Context, steps: int) -> list[float]:
    """The losses of the first steps on scikit-learn's digits, of weights that are the same everywhere."""
    mx.random.seed(3)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x = mx.nd.array(images[order] / 16, dtype="float32", ctx=ctx)
    y = mx.nd.array(labels[order], dtype="float32", ctx=ctx)
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu"), nn.Dropout(0.2), nn.LayerNorm(), nn.Dense(10))
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-3})
    losses: list[float] = []
    for step in range(steps):
        at = step * BATCH % (len(images) - BATCH)
        with autograd.record():
            loss = loss_of(net(x[at : at + BATCH]), y[at : at + BATCH])
        loss.backward()
        trainer.step(BATCH)
        losses.append(float(loss.mean().asscalar()))
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("device", choices=("cpu", "gpu"))
    parser.add_argument("--steps", type=int, default=500)
    given = parser.parse_args()
    losses = train(getattr(mx, given.device)(), given.steps)
    for step in sorted({0, *range(0, len(losses), max(1, len(losses) // 5)), len(losses) - 1}):
        print(f"step {step + 1}: loss {losses[step]:.4f}")
