"""Gluon with arrays of ``mx.np``: every layer and loss has the numbers that it has with arrays of ``mx.nd``."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, gluon, np, npx
from hybridc.gluon import contrib, nn, rnn
from hybridc.gluon.loss import Loss


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    yield
    npx.reset_np()


def data(*shape, seed=0):
    return onp.random.default_rng(seed).normal(size=shape).astype("float32")


def positive(*shape, seed=0):
    return onp.abs(data(*shape, seed=seed)) / 4 + 0.1


def indices(bound, *shape):
    return onp.random.default_rng(1).integers(0, bound, shape).astype("int32")


def signs(*shape):
    return onp.where(data(*shape, seed=4) > 0, 1, -1).astype("float32")


def compared(make, inputs, train=True, of=None):
    """The outputs and gradients of a block: with ``nd`` eagerly, with ``np`` eagerly, and with ``np`` compiled.

    ``of`` calls the block with the inputs.
    """
    of = of or (lambda block, *xs: block(*xs))
    with mx.util.np_array(False), mx.util.np_shape(False):
        block = make()
        block.initialize(mx.init.Xavier())
        wanted = _run(block, [mx.nd.array(x, dtype=x.dtype) for x in inputs], train, of, mx.nd.NDArray)
    found = [_run(block, [np.array(x) for x in inputs], train, of, np.ndarray)]
    block.hybridize()
    found += [_run(block, [np.array(x) for x in inputs], train, of, np.ndarray) for _ in range(2)]
    for each in found:
        assert len(each) == len(wanted)
        for y, reference in zip(each, wanted, strict=True):
            if y.shape == ():  # where nd has the shape (1,)
                reference = reference[0]
            assert y.shape == reference.shape
            onp.testing.assert_allclose(y, reference, rtol=2e-5, atol=2e-6)
    for name, parameter in block.collect_params().items():
        assert type(parameter.data()) is np.ndarray, name
        assert parameter.grad_req == "null" or type(parameter.grad()) is np.ndarray, name


def _flat(outputs):
    return [y for part in outputs for y in _flat(part)] if isinstance(outputs, list | tuple) else [outputs]


def _run(block, inputs, train, of, kind):
    """The outputs and the gradients of the inputs and the parameters as arrays of NumPy."""
    of_floats = [x for x in inputs if x.dtype == onp.float32]
    for x in of_floats:
        x.attach_grad()
    mx.random.seed(3)
    with autograd.record(train_mode=train):
        outputs = _flat(of(block, *inputs))
        heads = [y for y in outputs if y.dtype == onp.float32]
    assert all(type(y) is kind for y in outputs)
    autograd.backward(heads)
    gradients = [x.grad for x in of_floats]
    gradients += [p.grad() for _, p in sorted(block.collect_params().items()) if p.grad_req != "null"]
    return [y.asnumpy() for y in [*outputs, *gradients]]


LAYERS = {
    "Dense": (lambda: nn.Dense(4), [data(3, 5, 2)]),
    "Dense flat=False": (lambda: nn.Dense(4, flatten=False, activation="relu"), [data(3, 5, 2)]),
    "Dropout": (lambda: nn.Dropout(0.0), [data(3, 5)]),
    "Embedding": (lambda: nn.Embedding(7, 3), [indices(7, 4, 2)]),
    "Flatten": (nn.Flatten, [data(3, 5, 2)]),
    "Lambda": (lambda: nn.HybridLambda("tanh"), [data(3, 5)]),
    "HybridLambda": (lambda: nn.HybridLambda(lambda F, x: F.relu(x)), [data(3, 5)]),
    "Identity": (nn.Identity, [data(3, 5)]),
    "BatchNorm": (nn.BatchNorm, [data(4, 3, 2, 2)]),
    "BatchNorm axis": (lambda: nn.BatchNorm(axis=-1, scale=False), [data(4, 2, 2, 3)]),
    "BatchNormReLU": (nn.BatchNormReLU, [data(4, 3, 2, 2)]),
    "LayerNorm": (nn.LayerNorm, [data(4, 3, 5)]),
    "LayerNorm axis": (lambda: nn.LayerNorm(axis=1), [data(4, 3, 5)]),
    "InstanceNorm": (nn.InstanceNorm, [data(4, 3, 5)]),
    "InstanceNorm axis": (lambda: nn.InstanceNorm(axis=2), [data(4, 3, 5)]),
    "GroupNorm": (lambda: nn.GroupNorm(2), [data(3, 4, 5)]),
    "SyncBatchNorm": (contrib.nn.SyncBatchNorm, [data(4, 3, 2, 2)]),
    **{act: (lambda act=act: nn.Activation(act), [data(3, 5)]) for act in ("relu", "sigmoid", "tanh", "softrelu")},
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), [data(3, 5)]),
    "PReLU": (nn.PReLU, [data(3, 5)]),
    "ELU": (nn.ELU, [data(3, 5)]),
    "SELU": (nn.SELU, [data(3, 5)]),
    "GELU": (nn.GELU, [data(3, 5)]),
    "Swish": (nn.Swish, [data(3, 5)]),
    "Conv1D": (lambda: nn.Conv1D(4, 3, padding=1), [data(2, 3, 7)]),
    "Conv2D": (lambda: nn.Conv2D(4, 3, 2, activation="relu"), [data(2, 3, 7, 7)]),
    "Conv3D": (lambda: nn.Conv3D(2, 2), [data(1, 2, 4, 4, 4)]),
    "Conv1DTranspose": (lambda: nn.Conv1DTranspose(4, 3), [data(2, 3, 7)]),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(4, 3, 2), [data(2, 3, 5, 5)]),
    "Conv3DTranspose": (lambda: nn.Conv3DTranspose(2, 2), [data(1, 2, 3, 3, 3)]),
    **{
        f"{kind}Pool{rank}D": (getattr(nn, f"{kind}Pool{rank}D"), [data(2, 3, *(4,) * rank)])
        for kind in ("Max", "Avg", "GlobalMax", "GlobalAvg")
        for rank in (1, 2, 3)
    },
    "ReflectionPad2D": (lambda: nn.ReflectionPad2D(1), [data(2, 3, 4, 4)]),
    "PixelShuffle1D": (lambda: contrib.nn.PixelShuffle1D(2), [data(2, 4, 3)]),
    "PixelShuffle2D": (lambda: contrib.nn.PixelShuffle2D((2, 3)), [data(2, 12, 3, 2)]),
    "PixelShuffle3D": (lambda: contrib.nn.PixelShuffle3D(2), [data(1, 16, 2, 2, 2)]),
    "DeformableConvolution": (lambda: contrib.cnn.DeformableConvolution(3, (3, 3)), [data(1, 2, 5, 5)]),
    "Sequential": (lambda: _stack(nn.Sequential(), nn.Dense(4), nn.Dense(2)), [data(3, 5)]),
    "HybridSequential": (lambda: _stack(nn.HybridSequential(), nn.Dense(4), nn.BatchNorm(), nn.Dense(2)), [data(3, 5)]),
    "Concurrent": (lambda: _stack(nn.Concurrent(axis=1), nn.Dense(4), nn.Dense(2)), [data(3, 5)]),
    "HybridConcurrent": (lambda: _stack(nn.HybridConcurrent(axis=1), nn.Dense(4), nn.Identity()), [data(3, 5)]),
}  # fmt: skip


def _stack(container, *layers):
    container.add(*layers)
    return container


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, inputs = LAYERS[name]
    compared(make, inputs)


LOSSES = {
    "L2": (gluon.loss.L2Loss, [data(4, 3), data(4, 3, seed=1)]),
    "L2 of a vector": (gluon.loss.L2Loss, [data(4), data(4, seed=1)]),
    "L2 of another shape": (gluon.loss.L2Loss, [data(4, 1), data(4, seed=1)]),
    "L2 weighted": (gluon.loss.L2Loss, [data(4, 3), data(4, 3, seed=1), positive(4, 1)]),
    "L1": (gluon.loss.L1Loss, [data(4, 3), data(4, 3, seed=1)]),
    "SigmoidBCE": (gluon.loss.SigmoidBCELoss, [data(4, 3), positive(4, 3)]),
    "SigmoidBCE from_sigmoid": (lambda: gluon.loss.SigmoidBCELoss(from_sigmoid=True), [positive(4, 3), positive(4, 3)]),
    "SigmoidBCE pos_weight": (
        gluon.loss.SigmoidBCELoss, [data(4, 3), positive(4, 3), positive(4, 1), positive(1, 3)],
    ),
    "SoftmaxCE": (gluon.loss.SoftmaxCELoss, [data(4, 3), indices(3, 4)]),
    "SoftmaxCE weighted": (gluon.loss.SoftmaxCELoss, [data(4, 3), indices(3, 4), positive(4, 1)]),
    "SoftmaxCE of steps": (lambda: gluon.loss.SoftmaxCELoss(axis=1), [data(4, 3, 5), indices(3, 4, 5)]),
    "SoftmaxCE dense": (lambda: gluon.loss.SoftmaxCELoss(sparse_label=False), [data(4, 3), positive(4, 3)]),
    "KLDiv": (lambda: gluon.loss.KLDivLoss(from_logits=False), [data(4, 3), positive(4, 3)]),
    "CTC": (gluon.loss.CTCLoss, [data(2, 6, 4), indices(3, 2, 3).astype("float32")]),
    "Huber": (gluon.loss.HuberLoss, [data(4, 3) * 2, data(4, 3, seed=1)]),
    "Hinge": (gluon.loss.HingeLoss, [data(4, 3), signs(4, 3)]),
    "SquaredHinge": (gluon.loss.SquaredHingeLoss, [data(4, 3), signs(4, 3)]),
    "Logistic": (gluon.loss.LogisticLoss, [data(4, 3), signs(4, 3)]),
    "Triplet": (gluon.loss.TripletLoss, [data(4, 3), data(4, 3, seed=1), data(4, 3, seed=2)]),
    "PoissonNLL": (lambda: gluon.loss.PoissonNLLLoss(compute_full=True), [data(4, 3), positive(4, 3) * 8]),
    "CosineEmbedding": (gluon.loss.CosineEmbeddingLoss, [data(4, 3), data(4, 3, seed=1), signs(4)]),
    "SDML": (gluon.loss.SDMLLoss, [data(4, 3), data(4, 3, seed=1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    make, inputs = LOSSES[name]
    compared(make, inputs)


def test_all_losses_are_in_the_table():
    classes = {c for c in vars(gluon.loss).values() if isinstance(c, type) and issubclass(c, Loss) and c is not Loss}
    assert classes - {type(make()) for make, _ in LOSSES.values()} - {gluon.loss._MarginLoss} == set()


OF_INTEGERS = {
    "L2Loss": (0, 3), "L1Loss": (0, 3), "HuberLoss": (0, 3), "SigmoidBCELoss": (0, 2), "SoftmaxCELoss": (0, 3),
    "KLDivLoss": (0, 3), "HingeLoss": (-1, 2), "SquaredHingeLoss": (-1, 2), "LogisticLoss": (-1, 2),
    "PoissonNLLLoss": (0, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_losses_of_integers(name):
    loss = getattr(gluon.loss, name)(**({"compute_full": True} if name == "PoissonNLLLoss" else {}))
    pred = np.array(data(4, 3))
    labels = onp.random.default_rng(3).integers(*OF_INTEGERS[name], (4,) if "Softmax" in name else (4, 3))
    weights = onp.array([[1], [0], [2], [1]])
    wanted = loss(pred, np.array(labels.astype("float32")), np.array(weights.astype("float32")))
    for dtype in ("int32", "int64", "int8"):
        found = loss(pred, np.array(labels.astype(dtype)), np.array(weights.astype(dtype)))
        assert found.dtype == onp.float32
        onp.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5)


def _unrolled(cell, x):
    cell.reset()
    return cell.unroll(3, x, layout="NTC", merge_outputs=True)


def _stepped(cell, x):
    return cell(x, cell.begin_state(batch_size=x.shape[0]))


CELLS = {
    "RNNCell": lambda: rnn.RNNCell(4),
    "LSTMCell": lambda: rnn.LSTMCell(4),
    "GRUCell": lambda: rnn.GRUCell(4),
    "stack": lambda: _cells(rnn.SequentialRNNCell(), rnn.LSTMCell(4), rnn.GRUCell(3)),
    "hybrid stack": lambda: _cells(rnn.HybridSequentialRNNCell(), rnn.LSTMCell(4), rnn.DropoutCell(0.0)),
    "residual": lambda: rnn.ResidualCell(rnn.GRUCell(5)),
    "zoneout": lambda: rnn.ZoneoutCell(rnn.RNNCell(4), 0.0, 0.0),
    "dropout": lambda: contrib.rnn.VariationalDropoutCell(rnn.GRUCell(4), 0.0),
    "LSTMPCell": lambda: contrib.rnn.LSTMPCell(4, 3),
}


def _cells(stack, *cells):
    for cell in cells:
        stack.add(cell)
    return stack


@pytest.mark.parametrize("name", CELLS)
def test_cells_unroll(name):
    compared(CELLS[name], [data(2, 3, 5)], of=_unrolled)


@pytest.mark.parametrize("name", CELLS)
def test_cells_step(name):
    compared(CELLS[name], [data(2, 5)], of=_stepped)


def test_bidirectional_cell():
    compared(lambda: rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.GRUCell(3)), [data(2, 3, 5)], of=_unrolled)


@pytest.mark.parametrize("name", ["Conv1DRNNCell", "Conv1DLSTMCell", "Conv1DGRUCell"])
def test_convolutional_cells(name):
    def make():
        return getattr(contrib.rnn, name)((2, 5), 3, 3, 3, i2h_pad=1)

    compared(make, [data(2, 2, 5)], of=_stepped)


RECURRENT = {
    "RNN": lambda: rnn.RNN(4, 2),
    "LSTM": lambda: rnn.LSTM(4, layout="NTC"),
    "GRU": lambda: rnn.GRU(4, bidirectional=True),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name):
    compared(RECURRENT[name], [data(3, 2, 5)])


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_with_states(name):
    def of(layer, x):
        size = x.shape["NTC".index("N") if layer._layout == "NTC" else 1]
        return layer(x, layer.begin_state(batch_size=size))

    compared(RECURRENT[name], [data(3, 2, 5)], of=of)
