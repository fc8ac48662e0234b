"""Recurrent layers give the outputs, states and gradients of MXNet 1.9.1's, eagerly and compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.errors import MXNetError
from tests.golden.rnn_layer_cases import CASES, filled, run

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "rnn_layers.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_layers_are_mxnets(golden, name, hybridize):
    found, _ = run(mx, CASES[name], filled, hybridize, train="dropout" not in CASES[name][1])
    wanted = {key.partition("/")[2]: value for key, value in golden.items() if key.startswith(f"{name}/")}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=2e-4, atol=2e-5, err_msg=f"{name}: {key}")


def test_parameters_that_mxnet_saved(golden, tmp_path):
    _, layer = run(mx, CASES["lstm_deep"], lambda _, shape: np.zeros(shape, "float32"))
    layer.load_parameters(str(GOLDEN / "files" / "lstm.params"))
    for name, parameter in layer.collect_params().items():
        np.testing.assert_array_equal(parameter.data().asnumpy(), filled(name, parameter.shape))
    layer.save_parameters(str(tmp_path / "own.params"))
    names = mx.nd.load(str(tmp_path / "own.params")).keys()
    assert names == mx.nd.load(str(GOLDEN / "files" / "lstm.params")).keys()
    assert "_unfused.0.l_cell.i2h_weight" in names


class Model(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.embedding = gluon.nn.Embedding(11, 6)
        self.lstm = gluon.rnn.LSTM(7, num_layers=2, dropout=0.2)
        self.top = gluon.nn.Dense(11, flatten=False)

    def hybrid_forward(self, F, x):
        return self.top(self.lstm(self.embedding(x)))


def losses(hybridize):
    mx.random.seed(4)
    net = Model()
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    text = mx.nd.array(np.arange(40).reshape(8, 5) % 11)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    found = []
    for _ in range(12):
        with autograd.record():
            loss = loss_of(net(text[:-1]), text[1:]).mean()
        loss.backward()
        trainer.step(1)
        found.append(loss.asscalar())
    return found


def test_a_language_model_learns_the_same_with_dropout_eagerly_and_hybridized():
    eager, compiled = losses(False), losses(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-3)
    assert compiled[-1] < 0.75 * compiled[0]


def test_lengths_of_sequences_need_no_other_kernels():
    layer = gluon.rnn.GRU(4, input_size=3)
    layer.initialize()
    layer.hybridize()
    for steps in (3, 9, 1):
        x = mx.nd.array(np.random.default_rng(steps).normal(size=(steps, 2, 3)))
        whole, (last,) = layer(x, layer.begin_state(2))
        np.testing.assert_allclose(whole[-1].asnumpy(), last[0].asnumpy(), rtol=1e-5)
        assert whole.shape == (steps, 2, 4)


def test_symbols_are_one_node_which_files_have():
    layer = gluon.rnn.LSTM(4, input_size=3, prefix="lstm_")
    layer.initialize()
    x = mx.nd.array(np.random.default_rng(0).normal(size=(5, 2, 3)))
    wanted = layer(x)
    out = layer(mx.sym.var("data"))
    assert '"op": "RNN"' in out.tojson()
    block = gluon.SymbolBlock(mx.sym.load_json(out.tojson()), mx.sym.var("data"))
    block.initialize()
    for name, parameter in block.collect_params().items():
        parameter.set_data(layer.collect_params()[name].data())
    np.testing.assert_allclose(block(x).asnumpy(), wanted.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_dynamic_unroll_is_unroll(hybridize):
    class Net(gluon.HybridBlock):
        def __init__(self, dynamic):
            super().__init__()
            self.dynamic, self.cell = dynamic, gluon.rnn.LSTMCell(3, input_size=2, prefix="cell_")

        def hybrid_forward(self, F, x, h, c, lengths):
            if self.dynamic:
                unroll = gluon.contrib.rnn.rnn_cell.dynamic_unroll
                out, states = unroll(self.cell, x, [h, c], layout="NTC", valid_length=lengths)
            else:
                out, states = self.cell.unroll(4, x, [h, c], layout="NTC", merge_outputs=True, valid_length=lengths)
            return [out, *states]

    args = [mx.nd.random.normal(shape=s) for s in [(2, 4, 2), (2, 3), (2, 3)]] + [mx.nd.array([4, 2])]
    nets = [Net(dynamic) for dynamic in (True, False)]
    nets[0].initialize(mx.init.Normal(0.5))
    nets[1].initialize()
    for p, q in zip(*[net.collect_params().values() for net in nets], strict=True):
        q.set_data(p.data())
    if hybridize:
        nets[0].hybridize()
    for found, wanted in zip(*[net(*args) for net in nets], strict=True):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)


def test_unfused_cells_share_the_parameters():
    layer = gluon.rnn.GRU(3, num_layers=2, bidirectional=True, input_size=2)
    layer.initialize(mx.init.Normal(0.5))
    x = mx.nd.random.normal(shape=(4, 2, 2))
    outputs, _ = layer.unfuse().unroll(4, x, layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(outputs.asnumpy(), layer(x).asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gluon.rnn.LSTM(4, layout="CTN"), "LSTM: layout must be 'TNC' or 'NTC', got 'CTN'"),
        (lambda: gluon.rnn.RNN(4, activation="gelu"), "RNN: activation must be 'relu' or 'tanh', got 'gelu'"),
        (lambda: made()(mx.nd.ones((3, 2))), "inputs must have 3 axes, TNC, got shape (3, 2)"),
        (lambda: made()(mx.nd.ones((3, 2, 5)), [mx.nd.ones((1, 2, 4))]), "expected 2 arrays of states, got 1"),
        (lambda: made()(mx.nd.ones((3, 2, 5)), [mx.nd.ones((1, 3, 4))] * 2),
         "Invalid recurrent state shape. Expecting (1, 2, 4), got (1, 3, 4)."),
        (lambda: made()(mx.nd.ones((3, 2, 5)), None, mx.nd.ones((2,))), "takes no sequence_length"),
        (lambda: made(use_sequence_length=True)(mx.nd.ones((3, 2, 5))), "needs sequence_length"),
        (lambda: made(state_clip_min=1.0)(mx.nd.ones((3, 2, 5))), "go together"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, text):
    with pytest.raises(MXNetError) as error:
        call()
    assert text in str(error.value)


def made(**kwargs):
    layer = gluon.rnn.LSTM(4, **kwargs)
    layer.initialize()
    return layer
