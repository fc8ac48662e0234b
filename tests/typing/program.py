"""A user's program with mistakes that the type checker must find: ignoring what it does not find is an error.

Pyright reads it with the package; nothing runs it.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any

import hybridc as mx
import hybridc.ndarray as nd
from hybridc import autograd, gluon
from hybridc.gluon import nn


def operators(x: mx.nd.NDArray) -> mx.nd.NDArray:
    """Operators of arrays: names, keywords and values."""
    y = mx.nd.relu(x) + nd.softmax(x, axis=-1)
    z = mx.nd.FullyConnected(y, num_hidden=3, no_bias=True)
    mx.nd.rellu(x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    mx.nd.softmax(x, axes=-1)  # pyright: ignore[reportCallIssue]
    mx.nd.Activation(x, act_type=3)  # pyright: ignore[reportArgumentType]
    mx.nd.linalg.gemm3(x, x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    z = nd.linalg.gemm2(z, nd.contrib.box_iou(x, x))
    nd.contrib.box_ious(x, x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return z


def methods(x: mx.nd.NDArray) -> mx.nd.NDArray:
    """Methods of arrays."""
    y = x.sum(axis=1).sqrt() * 2 - x.mean()
    y.sqroot()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    y.sum(axs=1)  # pyright: ignore[reportCallIssue]
    return y.relu()


def symbols() -> list[str]:
    """Symbols, of which missing inputs become variables."""
    x = mx.sym.Variable("x")
    y = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), act_type="relu")
    mx.sym.FullyConected(x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return y.list_arguments()


def layers() -> gluon.Trainer:
    """Layers, initializers, optimizers and metrics."""
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dropout(0.5))
    net.initialize(mx.init.Xavier(magnitude=2.0))
    nn.Dense(4, activaton="relu")  # pyright: ignore[reportCallIssue]
    nn.Dens(4)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    mx.init.Xavier(magnitud=2.0)  # pyright: ignore[reportCallIssue]
    mx.optimizer.SGD(momentun=0.9)  # pyright: ignore[reportCallIssue]
    mx.metric.TopKAccuracy(top=5)  # pyright: ignore[reportCallIssue]
    with autograd.record():
        pass
    return gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})


class Net(gluon.HybridBlock):
    """A block that names its inputs."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.dense = nn.Dense(units)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """What it computes."""
        return F.relu(self.dense(x))


@mx.op.register("example.typed_square")
class TypedSquare(mx.op.Elementwise):
    """A scalar body: its steps are typed, too."""

    factor: float = mx.op.attribute(1.0, "what it is multiplied with")

    def scalar(self, b: mx.op.Steps, x: mx.op.Value) -> mx.op.Value:
        """The square of x, times the factor."""
        b.ad(x, 1.0)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        b.add(x)  # pyright: ignore[reportCallIssue]
        return b.select((x > 0) & (x <= 1), 1 - x, b.square(x) * self.factor)
