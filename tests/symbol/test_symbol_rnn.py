"""Programs with ``mx.rnn`` give what MXNet 1.9.1 gave (tests/golden/make_symbol_rnn.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError
from tests.slices import but, crossed

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from loop_symbol_cases import results  # noqa: E402
from programs import Recorded  # noqa: E402
from symbol_rnn_cases import CASES, SHAPES, SYMBOLS  # noqa: E402

RECORDED = Recorded("symbol_rnn")
FILES = RECORDED.values["files"]
SHORT = {"lstm as list", "gru of list", "both merged", "step", "zoneout", "dropout", "residual", "fused lstm"}
LONG = SYMBOLS.keys() - SHORT


@pytest.mark.parametrize("name", but(LONG, CASES))
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx))


@pytest.mark.parametrize("name", SYMBOLS)
def test_names_are_those_of_mxnet(name):
    symbol = SYMBOLS[name][0](mx)
    wanted = RECORDED.values[name]
    assert symbol.get_internals().list_outputs() == wanted["internals"]
    assert symbol.list_arguments() == wanted["arguments"]
    assert symbol.list_outputs() == wanted["outputs"]


@pytest.mark.parametrize("name", but(FILES.keys() - {"fused lstm", "fused two gru"}, FILES))
def test_files_of_mxnet(name):
    symbol = mx.sym.load_json(FILES[name])
    internals = symbol.get_internals().list_outputs()
    RECORDED.assert_same(name, {"internals": internals, **results(mx, symbol, SYMBOLS[name][1], SHAPES)})


# --- beside each other, and NumPy ------------------------------------------------------------------------------


def bound(symbol, **given):
    """An executor in which all arguments have values: those given, or small random ones."""
    executor = symbol.simple_bind(mx.cpu(), **{name: x.shape for name, x in given.items()})
    for i, (name, x) in enumerate(executor.arg_dict.items()):
        x[:] = given.get(name, np.random.RandomState(i).uniform(-0.5, 0.5, x.shape))
    return executor


@pytest.mark.parametrize(("mode", "bidirectional"), crossed(2, ["rnn_tanh", "lstm", "gru"], [True, False]))
def test_fused_and_unfused_cells_are_equal(mode, bidirectional):
    fused = mx.rnn.FusedRNNCell(3, 2, mode, bidirectional, dropout=0.5, prefix="net_")
    stack = fused.unfuse()
    x = np.random.RandomState(9).uniform(-1, 1, (4, 2, 5)).astype(np.float32)
    one, _ = fused.unroll(4, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    other, _ = stack.unroll(4, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    first = bound(one, data=x)
    weights = {k: v for k, v in first.arg_dict.items() if k != "data"}
    unpacked = fused.unpack_weights(weights)
    assert "net_l1_h2h_weight" in stack.pack_weights(unpacked)
    second = bound(other, data=x, **{k: v.asnumpy() for k, v in stack.pack_weights(unpacked).items()})
    np.testing.assert_allclose(first.forward()[0].asnumpy(), second.forward()[0].asnumpy(), rtol=1e-5, atol=1e-6)


def test_zoneout_keeps_states_in_training():
    cell = mx.rnn.ZoneoutCell(mx.rnn.RNNCell(400, prefix="a_"), zoneout_outputs=0.75, zoneout_states=0.5)
    outputs, states = cell.unroll(2, mx.sym.var("data"), begin_state=[mx.sym.var("h")])
    x, h = np.ones((1, 2, 3), np.float32), np.full((1, 400), 0.9, np.float32)
    executor = bound(mx.sym.Group([*outputs, *states]), data=x, h=h)
    new = np.tanh(
        executor.arg_dict["a_i2h_weight"].asnumpy().sum(axis=1)
        + executor.arg_dict["a_i2h_bias"].asnumpy()
        + executor.arg_dict["a_h2h_weight"].asnumpy() @ h[0]
        + executor.arg_dict["a_h2h_bias"].asnumpy()
    )
    mx.random.seed(1)
    first, second, _ = [y.asnumpy()[0] for y in executor.forward(is_train=True)]
    kept = first == 0  # there was no output before
    assert 0.65 < kept.mean() < 0.85
    np.testing.assert_allclose(first[~kept], new[~kept], rtol=1e-4, atol=1e-5)
    assert 0.65 < (second == first).mean() < 0.85


def test_dropout_of_all_steps():
    outputs, states = mx.rnn.DropoutCell(0.5).unroll(3, mx.sym.var("data"), merge_outputs=True)
    assert states == []
    executor = bound(outputs, data=np.ones((2, 3, 50), np.float32))
    mx.random.seed(1)
    assert set(np.unique(executor.forward(is_train=True)[0].asnumpy())) == {0, 2}
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), np.ones((2, 3, 50)))


def test_cells_share_parameters():
    shared = mx.rnn.RNNParams("shared_")
    one, other = mx.rnn.LSTMCell(3, prefix="a_", params=shared), mx.rnn.LSTMCell(3, prefix="b_", params=shared)
    (x,), _ = one.unroll(1, [mx.sym.var("x")])
    (y,), _ = other.unroll(1, [x])
    names = [f"shared_{group}_{kind}" for group in ("i2h", "h2h") for kind in ("weight", "bias")]
    assert y.list_arguments() == ["x", *names]
    stack = mx.rnn.SequentialRNNCell(params=mx.rnn.RNNParams("all_"))
    with pytest.raises(MXNetError, match="give params to it or to its cells, not to both"):
        stack.add(one)


def test_states_before_the_first_step():
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(3), 0.1))
    states = cell.begin_state(func=mx.sym.Variable)
    assert [s.name for s in states] == ["lstm_begin_state_0", "lstm_begin_state_1"]
    assert states[0].attr("__layout__") == "NC"
    assert cell.state_shape == [(0, 3), (0, 3)]
    with pytest.raises(MXNetError, match="is inside a cell that modifies it"):
        cell._cells[0].base_cell.begin_state()


def test_cell_is_the_function_of_a_loop():
    cell = mx.rnn.GRUCell(3)
    rows, _ = mx.sym.contrib.foreach(cell, mx.sym.var("data"), cell.begin_state())
    cell.reset()
    unrolled, _ = cell.unroll(4, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    x = np.random.RandomState(3).uniform(-1, 1, (4, 2, 5)).astype(np.float32)
    first = bound(rows, data=x)
    second = bound(unrolled, **{k: v.asnumpy() for k, v in first.arg_dict.items()})
    for executor in (first, second):
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((4, 2, 3))])
    np.testing.assert_allclose(first.outputs[0].asnumpy(), second.outputs[0].asnumpy(), rtol=1e-5, atol=1e-6)
    for name, grad in first.grad_dict.items():
        np.testing.assert_allclose(grad.asnumpy(), second.grad_dict[name].asnumpy(), rtol=1e-4, atol=1e-5)


# --- files -----------------------------------------------------------------------------------------------------


def test_checkpoints(tmp_path):
    fused = mx.rnn.FusedRNNCell(3, 1, "lstm", prefix="net_")
    outputs, _ = fused.unroll(4, mx.sym.var("data"), layout="TNC")
    executor = bound(outputs, data=np.ones((4, 2, 5), np.float32))
    weights = {k: v for k, v in executor.arg_dict.items() if k != "data"}
    prefix = str(tmp_path / "net")
    mx.rnn.save_rnn_checkpoint(fused, prefix, 3, outputs, weights, {})
    names = mx.model.load_params(prefix, 3)[0]
    assert set(names) == {
        f"net_l0_{group}_{gate}_{kind}" for group in ("i2h", "h2h") for gate in "ifco" for kind in ("weight", "bias")
    }
    symbol, arguments, states = mx.rnn.load_rnn_checkpoint([fused], prefix, 3)
    assert symbol.list_arguments() == outputs.list_arguments()
    assert states == {}
    np.testing.assert_array_equal(arguments["net_parameters"].asnumpy(), weights["net_parameters"].asnumpy())
    # The stack of cells takes the same files.
    assert set(mx.rnn.load_rnn_checkpoint(fused.unfuse(), prefix, 3)[1]) == {
        f"net_l0_{group}_{kind}" for group in ("i2h", "h2h") for kind in ("weight", "bias")
    }
    save = mx.rnn.do_rnn_checkpoint(fused, prefix, period=2)
    for epoch in range(4):
        save(epoch, outputs, weights, {})
    assert sorted(p.name for p in tmp_path.glob("*.params")) == [f"net-000{i}.params" for i in (2, 3, 4)]
    with pytest.raises(MXNetError, match="there is no array 'net_parameters' among"):
        fused.unpack_weights({"other": mx.nd.zeros((1,))})
    with pytest.raises(MXNetError, match="no number of features has 7 parameters"):
        fused.unpack_weights({"net_parameters": mx.nd.zeros((7,))})


def test_rnn_unroll_is_deprecated():
    with pytest.warns(UserWarning, match="deprecated"):
        outputs, _ = mx.rnn.rnn_unroll(mx.rnn.RNNCell(2), 2, mx.sym.var("data"))
    assert len(outputs) == 2


# --- sentences -------------------------------------------------------------------------------------------------


def test_unknown_words():
    vocab = {"\n": -1, "<unk>": 0, "a": 1}
    assert mx.rnn.encode_sentences([["a", "b"], ["c", "a"]], vocab, unknown_token="<unk>") == ([[1, 0], [0, 1]], vocab)
    with pytest.raises(MXNetError, match="Unknown token b"):
        mx.rnn.encode_sentences([["b"]], vocab)


def test_sentences_that_are_left_out():
    with pytest.warns(UserWarning, match="discarded 1 sentences"):
        batches = mx.rnn.BucketSentenceIter([[1, 2], [3, 4], [1, 2, 3]], 2, buckets=[2])
    batch = batches.next()
    assert sorted(batch.data[0].asnumpy().tolist()) == [[1, 2], [3, 4]]
    assert sorted(batch.label[0].asnumpy().tolist()) == [[2, -1], [4, -1]]
    with pytest.raises(MXNetError, match="no bucket"):
        mx.rnn.BucketSentenceIter([], 2)
    with pytest.raises(MXNetError, match="Invalid layout NTC"):
        mx.rnn.BucketSentenceIter([[1, 2]], 1, layout="NTC")


@pytest.mark.long
def test_language_model_is_trained_in_buckets():
    """Executors of two lengths share their parameters; the loss of a sequence that repeats goes down."""
    sentences = [[1, 2, 3, 1, 2, 3]] * 8 + [[2, 3, 1, 2]] * 8
    batches = mx.rnn.BucketSentenceIter(sentences, 8, invalid_label=0)
    assert batches.buckets == [4, 6]
    cell = mx.rnn.LSTMCell(8)
    executors = {}

    def network(length):
        cell.reset()
        data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
        words = mx.sym.Embedding(data, input_dim=4, output_dim=6, name="embed")
        outputs, _ = cell.unroll(length, words, merge_outputs=True)
        scores = mx.sym.FullyConnected(mx.sym.reshape(outputs, shape=(-1, 8)), num_hidden=4, name="pred")
        label = mx.sym.reshape(label, shape=(-1,))
        return mx.sym.SoftmaxOutput(scores, label, use_ignore=True, ignore_label=0, normalization="valid")

    for length in (6, 4):
        shapes = {"data": (8, length), "softmax_label": (8, length)}
        executors[length] = network(length).simple_bind(mx.cpu(), shared_exec=executors.get(6), **shapes)
    for i, (name, x) in enumerate(executors[6].arg_dict.items()):
        if name not in ("data", "softmax_label"):
            x[:] = np.random.RandomState(i).uniform(-0.3, 0.3, x.shape)
    losses = []
    for _ in range(30):
        for batch in batches:
            executor = executors[batch.bucket_key]
            label = batch.label[0].asnumpy().reshape(-1).astype(int)
            found = executor.forward(is_train=True, data=batch.data[0], softmax_label=batch.label[0])[0].asnumpy()
            losses.append(-np.log(found[np.arange(label.size), label])[label > 0].mean())
            executor.backward()
            for name, grad in executor.grad_dict.items():
                if name not in ("data", "softmax_label"):
                    executor.arg_dict[name][:] -= 2.0 * grad
        batches.reset()
    assert losses[0] > 1
    assert losses[-1] < 0.1


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda r, x: r.LSTMCell(2).unroll(3, [x]), "must be 3 symbols, one a step, got 1"),
        (lambda r, x: r.LSTMCell(2).unroll(3, None), "inputs are missing"),
        (lambda r, x: r.LSTMCell(2).unroll(3, x, layout="NC"), "layout must be 'NTC' or 'TNC', got 'NC'"),
        (lambda r, x: r.LSTMCell(2).unroll(3, mx.nd.ones((2, 3, 4))), "must be a Symbol or a list of them"),
        (lambda r, x: r.LSTMCell(2).unroll(2, mx.sym.Group([x, x])), "one symbol or a list, got a group of 2"),
        (lambda r, x: r.ZoneoutCell(r.FusedRNNCell(2)), r"call unfuse\(\) first"),
        (lambda r, x: r.ZoneoutCell(r.FusedRNNCell(2, bidirectional=True).unfuse()), "modify the cells inside"),
        (lambda r, x: r.ConvRNNCell((1, 2, 4, 4), 2, h2h_kernel=(2, 3)), "h2h_kernel must have odd sizes"),
        (lambda r, x: r.FusedRNNCell(2, mode="elman"), "mode"),
        (lambda r, x: r.DropoutCell("half"), "dropout must be a number"),
        (lambda r, x: r.LSTMCell(2).pack_weights({}), "there is no array 'lstm_i2h_i_weight' among none"),
    ],
)
def test_errors(make, said):
    with pytest.raises(MXNetError, match=said):
        make(mx.rnn, mx.sym.var("x"))


def test_cells_that_have_no_steps():
    for cell in (mx.rnn.FusedRNNCell(2), mx.rnn.BidirectionalCell(mx.rnn.RNNCell(2), mx.rnn.RNNCell(2))):
        with pytest.raises(NotImplementedError, match="use unroll"):
            cell(mx.sym.var("x"), [])
