"""A user's mistakes: type checkers find one in each line that says ``# error``, and in no other.

``test_checkers.py`` gives this file to mypy and pyright; nothing runs it.
"""

from __future__ import annotations

from typing import Any

import hybridc as mx
import hybridc.ndarray as nd
from hybridc import autograd, gluon
from hybridc.gluon import nn
from hybridc.nd import NDArray


def functions(x: NDArray) -> NDArray:
    """Operators of arrays: names, keywords and values."""
    y = nd.relu(x) + nd.softmax(x, axis=-1)
    z = nd.FullyConnected(y, num_hidden=3, no_bias=True)
    nd.rellu(x)  # error
    mx.nd.onez((2, 3))  # error
    nd.softmax(x, axes=-1)  # error
    nd.Activation(x, act_type=3)  # error
    nd.linalg.gemm3(x, x)  # error
    nd.contrib.box_ious(x, x)  # error
    nd.random.unifrom(shape=(2,))  # error
    nd.ones((2, 3)).rehsape((3, 2))  # error
    nd.zeros(shape="2, 3")  # error
    nd.split(x, num_outputs=2).asnumpy()  # error
    return nd.linalg.gemm2(z, nd.contrib.box_iou(x, x))


def methods(x: NDArray) -> str:
    """Methods of arrays, and results that are used as what they are not."""
    y = x.sum(axis=1).sqrt() * 2 - x.mean()
    y.sqroot()  # error
    y.sum(axs=1)  # error
    (x + 1).rehsape((3, 2))  # error
    x[0].assnumpy()  # error
    x.grad.asnumy()  # error
    return y.relu()  # error


def symbols() -> list[str]:
    """Symbols."""
    x = mx.sym.Variable("x")
    y = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), act_type="relu")
    mx.sym.FullyConected(x)  # error
    y.list_argument()  # error
    return y.list_arguments()


def layers(x: NDArray) -> gluon.Trainer:
    """Layers, initializers, optimizers, metrics, loaders."""
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dropout(0.5))
    net.initialize(mx.init.Xavier(magnitude=2.0))
    net.hybridize(statc_alloc=True)  # error
    nn.Sequential().hybridize(static_shap=True)  # error
    nn.Dense(4).hybridize(static_alloc="yes")  # error
    net.hybridise()  # error
    net(x).rehsape((3, 2))  # error
    nn.Dense(4)(x).asnumy()  # error
    gluon.loss.L2Loss()(net(x), x).backwards()  # error
    nn.Dense(4, activaton="relu")  # error
    nn.Dens(4)  # error
    mx.init.Xavier(magnitud=2.0)  # error
    mx.optimizer.SGD(momentun=0.9)  # error
    mx.metric.TopKAccuracy(top=5)  # error
    mx.metric.Accuracy().get().upper()  # error
    for data, label in gluon.data.DataLoader(gluon.data.ArrayDataset(x, x), batch_size=2):
        data.as_in_contxt(mx.cpu())  # error
        print(label.shap)  # error
    gluon.data.DataLoader(x, batchsize=2)  # error
    nn.Dense(4).weight.data().asnumy()  # error
    with autograd.recrod():  # error
        pass
    autograd.grad(x, [x]).asnumpy()  # error
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    trainer.stp(2)  # error
    trainer.step(batchsize=2)  # error
    return trainer


class Net(gluon.HybridBlock):
    """A block of the user's own."""

    def hybrid_forward(self, F: mx.op.Functions, x: NDArray) -> NDArray:
        """What it computes."""
        F.rellu(x)  # error
        F.contrib.box_ious(x, x)  # error
        F.softmax(x, axes=-1)  # error
        return F.split(x, num_outputs=2)  # error


class Two(gluon.Block):
    """A block with two results."""

    def forward(self, x: NDArray) -> tuple[NDArray, NDArray]:
        """Both."""
        return x, x


def numpy_arrays(x: NDArray) -> None:
    """``mx.np``, whose arrays have other methods; and calls of own blocks."""
    mx.np.onez((2, 3))  # error
    mx.np.ones((2, 3)).rehsape((3, 2))  # error
    mx.np.linalg.nrm(mx.np.ones(2))  # error
    mx.np.random.unifrom(size=(2,))  # error
    mx.npx.rellu(mx.np.ones(2))  # error
    mx.np.exp(mx.np.ones(2)).sum(axs=0)  # error
    Net()(x).rehsape((3, 2))  # error
    Two()(x).asnumpy()  # error


@mx.op.register("example.typed_square")
class TypedSquare(mx.op.Elementwise):
    """A scalar body: its steps are typed, too."""

    factor: float = mx.op.attribute(1.0, "what it is multiplied with")

    def scalar(self, b: mx.op.Steps, x: mx.op.Value) -> mx.op.Value:
        """The square of x, times the factor."""
        b.ad(x, 1.0)  # error
        b.add(x)  # error
        return b.select((x > 0) & (x <= 1), 1 - x, b.square(x) * self.factor)


def untyped(x: Any) -> Any:
    """What is not typed is let be."""
    return nd.relu(x).whatever
