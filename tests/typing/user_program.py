"""What a user writes: LeNet is trained, a block of the user's own, symbols, ``mx.np``; no checker of types objects.

``test_checkers.py`` gives it to mypy and pyright, both strict, and runs it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.array.numpy_array import ndarray
from hybridc.gluon import nn, rnn
from hybridc.nd import NDArray
from hybridc.nd.sparse import CSRNDArray


class Residual(gluon.HybridBlock):
    """A block with a part of its own: x + body(x), and a scale."""

    def __init__(self, channels: int, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
            self.scale = self.params.get("scale", shape=(1,), init="ones")

    def hybrid_forward(self, F: mx.op.Functions, x: NDArray, scale: NDArray) -> NDArray:
        """The sum of the input and the body's output."""
        y = F.broadcast_mul(self.body(x), scale)
        return F.relu(x + y, name="sum") + F.zeros_like(x)


class WithFeatures(gluon.Block):
    """A block with two results."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Dense(4, activation="tanh")
        self.output = nn.Dense(2)

    def forward(self, x: NDArray) -> tuple[NDArray, NDArray]:
        """The output, and what it was computed of."""
        features = self.features(x)
        return self.output(features), features


def lenet(classes: int) -> nn.HybridSequential:
    """The network."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(
            nn.Conv2D(6, kernel_size=5, activation="relu"),
            nn.MaxPool2D(2, 2),
            Residual(6),
            nn.Flatten(),
            nn.Dense(16, activation="relu"),
            nn.Dense(classes),
        )
    return net


def data(count: int) -> gluon.data.ArrayDataset:
    """Images and their classes."""
    images = nd.random.uniform(shape=(count, 1, 12, 12))
    labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("float32")
    return gluon.data.ArrayDataset(images, labels)


def train(epochs: int = 1) -> float:
    """The accuracy after training."""
    ctx = mx.cpu()
    net = lenet(2)
    net.initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    schedule = mx.lr_scheduler.FactorScheduler(step=100, factor=0.9)
    options = {"learning_rate": 0.1, "momentum": 0.9, "lr_scheduler": schedule}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options)
    metric = mx.metric.Accuracy()
    loader = gluon.data.DataLoader(data(8), batch_size=4, shuffle=True)
    for _ in range(epochs):
        metric.reset()
        for images, labels in loader:
            images, labels = images.as_in_context(ctx), labels.as_in_context(ctx)
            with autograd.record():
                output = net(images)
                loss = loss_of(output, labels)
            assert_type(output, NDArray)
            assert_type(loss, NDArray)
            loss.backward()
            trainer.step(images.shape[0])
            metric.update([labels], [output])
    name, accuracy = metric.get()
    print(f"{name}: {accuracy:.3f}, learning rate {trainer.learning_rate}")
    for batch in loader:
        predicted = net(batch[0]).argmax(axis=1)
        print(predicted.asnumpy().tolist(), len(batch))
    return accuracy


class Doubled(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * 2)


@mx.operator.register("doubled")
class DoubledProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> mx.operator.CustomOp:
        return Doubled()


def arrays() -> None:
    """What operators, methods and files give."""
    x = nd.ones((2, 3))
    y = (1 - x) * 2 + x[0] / (x + 1e-3)
    assert_type(y, NDArray)
    assert_type(x > 0, NDArray)
    assert_type(x == y, NDArray)
    assert_type(y.reshape((3, 2)).T.astype("float64").sum(axis=0), NDArray)
    assert_type(nd.concat(x, y, dim=0), NDArray)
    assert_type(nd.split(x, num_outputs=3, axis=1), list[NDArray])
    assert_type(nd.random.normal(shape=(2, 2)), NDArray)
    assert_type(nd.contrib.box_iou(nd.ones((1, 4)), nd.ones((1, 4))), NDArray)
    assert_type(nd.linalg.gemm2(x, y, transpose_b=True), NDArray)
    assert_type(nd.BatchNorm(x, nd.ones(3), nd.zeros(3), nd.zeros(3), nd.ones(3)), NDArray)
    assert_type(x.asnumpy(), npt.NDArray[Any])
    assert_type(x.tostype("csr"), CSRNDArray)
    assert_type(x.tostype("row_sparse").indices, NDArray)
    x += y
    assert_type(x, NDArray)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "arrays"))
        nd.save(file, {"x": x})
        assert_type(nd.load(file)["x"], NDArray)
        named: dict[str, NDArray] = nd.load(file)
        nd.save(file, [*named.values()])
        listed: list[NDArray] = nd.load(file)
    assert listed[0].shape == x.shape


def gradients() -> None:
    """Gradients, as they are stored and as they are returned."""
    x = nd.array(np.arange(3.0))
    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    assert_type(x.grad, NDArray)
    with autograd.record():
        y = (x * x).sum()
    assert_type(autograd.grad(y, [x]), list[NDArray])


def networks() -> None:
    """Several results, recurrent layers, parameters, losses."""
    net = WithFeatures()
    net.initialize()
    output, features = net(nd.ones((2, 3)))
    assert_type(features, NDArray)
    assert_type(net.output.weight.data(), NDArray)
    for name, parameter in net.collect_params(".*weight").items():
        assert_type(parameter.grad(), NDArray)
        print(name, parameter.shape)
    assert_type(gluon.loss.L2Loss()(output, nd.zeros((2, 2))), NDArray)
    lstm = rnn.LSTM(4)
    lstm.initialize()
    steps = nd.ones((5, 2, 3))
    assert_type(lstm(steps), NDArray)
    _, states = lstm(steps, lstm.begin_state(batch_size=2))
    assert_type(states, list[NDArray])
    plain = nn.Sequential()
    plain.add(nn.Dense(2), nn.Lambda("relu"))
    plain.initialize()
    assert_type(plain(features), NDArray)


def symbols() -> None:
    """A composed symbol, whose missing inputs become variables."""
    x = mx.sym.Variable("x")
    y = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), act_type="relu") + 1
    assert y.list_arguments() == ["x", "fc_weight", "fc_bias"]
    block = gluon.SymbolBlock(y, x)
    block.initialize()
    assert_type(block(nd.ones((2, 3))), NDArray)


def numpy_arrays() -> None:
    """Arrays with NumPy's semantics."""
    x = mx.np.ones((2, 3))
    assert_type(x, ndarray)
    assert_type(x @ x.T - 1, ndarray)
    assert_type(mx.np.exp(x).std(axis=0, ddof=1), ndarray)
    assert_type(x.sum(axis=1, dtype="float32", keepdims=True), ndarray)
    assert_type(mx.np.linalg.norm(x), ndarray)
    assert_type(mx.np.random.uniform(size=(2,)), ndarray)
    assert_type(mx.npx.relu(x), ndarray)
    dense = nn.Dense(2)
    dense.initialize()
    assert_type(dense(x), ndarray)


if __name__ == "__main__":
    train()
    arrays()
    gradients()
    networks()
    symbols()
    numpy_arrays()
