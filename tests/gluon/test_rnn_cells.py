"""Cells of recurrent networks: as MXNet 1.9.1 has them (tests/golden/make_rnn.py), compiled, in files, and errors."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import rnn
from hybridc.gluon.contrib import rnn as contrib
from hybridc.gluon.rnn.rnn_cell import _format_sequence, _get_begin_state, _mask_sequence_variable_length

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

from gluon_cases import fill, random  # noqa: E402
from programs import Recorded  # noqa: E402
from rnn_cases import CASES, C, N, T, composed, network, observed, simple, started  # noqa: E402

RECORDED = Recorded("rnn")


def leave(block):
    """Eager."""


def hybridize(block):
    """Hybridized."""
    block.hybridize()


MODES = pytest.mark.parametrize("mode", [leave, hybridize], ids=["eager", "hybridized"])


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx, leave))


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_compiled_steps_are_the_same(name):
    with mx.name.NameManager():
        cell, shape = next((cell, shape) for key, cell, shape in simple(mx) if key == name)
        cell.hybridize()
        states = started(mx, cell, shape)
        x, y = (mx.nd.array(random(*shape, seed=seed)) for seed in (30, 31))
        found = observed(mx, cell.collect_params(), [x, y, *states], lambda: cell(y, cell(x, states)[1]))
    del found["count"]
    for key, value in found.items():
        np.testing.assert_allclose(value, RECORDED.arrays[f"steps/{name}/{key}"], rtol=2e-5, atol=2e-6, err_msg=key)


class Unrolled(mx.gluon.HybridBlock):
    """A cell as a network of whole sequences."""

    def __init__(self, cell, **options):
        super().__init__(prefix="")
        self.cell = cell
        self.options = {"merge_outputs": True, "layout": "TNC", **options}

    def hybrid_forward(self, F, x, lengths=None):
        """The outputs of all steps, and the states."""
        length = self.options.get("length", T)
        options = {k: v for k, v in self.options.items() if k != "length"}
        return self.cell.unroll(length, x, valid_length=lengths, **options)


def test_compiled_sequences_are_the_same():
    with mx.name.NameManager():
        cell = next(cell for key, cell, _ in composed(mx) if key == "both_ways")
    net = Unrolled(cell)
    net.initialize()
    net.hybridize()
    inputs = mx.nd.array(np.stack([random(N, C, seed=40 + i) for i in range(T)]))
    lengths = mx.nd.array([2, T, 1])
    net(inputs, lengths)
    fill(cell, mx)
    output, states = net(inputs, lengths)
    for i, found in enumerate([output, *states]):
        wanted = RECORDED.arrays[f"cells_of_cells/both_ways/list_mergedTrue/result{i}"]
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=2e-5, atol=2e-6)


# --- randomness ---------------------------------------------------------------------------------------------------


def randomly(cell, hybridized):
    """What a cell of three units gives in train mode, from the same seed."""
    net = Unrolled(cell, layout="NTC", length=3)
    net.initialize(mx.init.One())
    if hybridized:
        net.hybridize()
    x = mx.nd.array(random(20, 3, 3, seed=1))
    mx.random.seed(5)
    with mx.autograd.train_mode():
        outputs, states = net(x)
    return outputs.asnumpy(), [s.asnumpy() for s in states]


def test_zoneout_keeps_elements_of_the_step_before():
    cell = rnn.ZoneoutCell(rnn.RNNCell(3, "relu"), 0.5, 0.5)
    outputs, (state,) = randomly(cell, False)
    plain = rnn.RNNCell(3, "relu")
    plain.initialize(mx.init.One())
    x = random(20, 3, 3, seed=1)
    whole, _ = plain.unroll(3, mx.nd.array(x), merge_outputs=True)
    first = whole.asnumpy()[:, 0]
    changed = outputs[:, 0] != 0
    np.testing.assert_allclose(outputs[:, 0][changed], first[changed], rtol=1e-6)
    kept = outputs[:, 1] == outputs[:, 0]
    assert 0.3 < kept.mean() < 0.85
    assert (outputs[:, 2] != state).any()  # the masks are others
    found, (again,) = randomly(rnn.ZoneoutCell(rnn.RNNCell(3, "relu"), 0.5, 0.5), True)
    np.testing.assert_allclose(found, outputs, rtol=1e-6)
    np.testing.assert_allclose(again, state, rtol=1e-6)


def test_variational_dropout_is_the_same_at_every_step():
    for options in ({"drop_outputs": 0.5}, {"drop_outputs": 0.5, "drop_states": 0.3}):
        outputs, _ = randomly(contrib.VariationalDropoutCell(rnn.RNNCell(3, "sigmoid"), **options), False)
        dropped = outputs == 0
        assert 0.2 < dropped.mean() < 0.8
        assert (dropped == dropped[:, :1]).all()


def test_dropout_of_cells_may_share_axes():
    outputs, _ = randomly(rnn.DropoutCell(0.5, axes=(1,)), False)  # the time axis, of a whole sequence
    dropped = outputs == 0
    assert 0.2 < dropped.mean() < 0.8
    assert (dropped == dropped[:, :1]).all()


def kept():
    """A cell that keeps its output from step to step."""
    cell = rnn.ZoneoutCell(rnn.RNNCell(3, "relu", prefix="own_"), 0.5)
    cell.initialize(mx.init.One())
    return cell


def test_steps_that_keep_values_are_not_compiled_alone():
    x = [mx.nd.array(random(20, 3, seed=i)) for i in range(3)]

    def steps(cell):
        mx.random.seed(3)
        cell.reset()
        states = cell.begin_state(batch_size=20)
        return [cell(step, states)[0].asnumpy() for step in x]

    eager, compiled = rnn.HybridSequentialRNNCell(), rnn.HybridSequentialRNNCell()
    for stack in (eager, compiled):
        stack.add(kept())
    compiled.hybridize()
    with mx.autograd.train_mode():
        np.testing.assert_allclose(steps(compiled), steps(eager), rtol=1e-6)
        assert len({(y == 0).tobytes() for y in steps(compiled)}) == 3
    steps(compiled)  # in predict mode nothing is kept
    assert "traced once" in str(compiled.explain())


def test_values_are_kept_within_a_sequence():
    class Step(mx.gluon.HybridBlock):
        def __init__(self, cell):
            super().__init__()
            self.cell = cell

        def hybrid_forward(self, F, x):
            return self.cell(x, [x])[0]

    cell = kept()
    net = Step(cell)
    net.hybridize()
    with mx.autograd.train_mode():
        with pytest.raises(mx.MXNetError, match=r"own_zoneout: ZoneoutCell keeps .*unroll it"):
            net(mx.nd.ones((2, 3)))
        cell.reset()
        cell(mx.nd.ones((2, 3)), cell.begin_state(batch_size=2))
        with pytest.raises(mx.MXNetError, match=r"own_zoneout: _prev_output is kept from .*call reset\(\)"):
            cell(mx.nd.ones((4, 3)), cell.begin_state(batch_size=4))
        cell.reset()
        cell(mx.nd.ones((4, 3)), cell.begin_state(batch_size=4))
    assert copy.deepcopy(cell)._prev_output is None


# --- dtypes, states, parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_dtypes(dtype):
    """Against the same in NumPy, in float64."""
    cell = rnn.LSTMCell(2, input_size=3)
    cell.initialize(mx.init.Uniform(0.5))
    cell.cast(dtype)
    x = random(2, 2, 3, seed=3)
    outputs, states = cell.unroll(2, mx.nd.array(x, dtype=dtype), merge_outputs=True)
    assert all(y.dtype == np.dtype(dtype) for y in (outputs, *states))
    weights = {k.rpartition("_")[0][-3:] + k[-4:]: p.data().asnumpy().astype("float64") for k, p in cell.params.items()}
    h = c = np.zeros((2, 2))
    for t in range(2):
        gates = x[:, t] @ weights["i2hight"].T + h @ weights["h2hight"].T + weights["i2hbias"] + weights["h2hbias"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    tolerance = {"float64": 1e-7, "float16": 4e-3}[dtype]
    np.testing.assert_allclose(outputs.asnumpy()[:, 1], h, atol=tolerance)
    np.testing.assert_allclose(states[1].asnumpy(), c, atol=tolerance)


@MODES
def test_states_without_a_batch_size_follow_in_blocks(mode):
    """Programs for symbols make them with a batch size of 0."""

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = rnn.HybridSequentialRNNCell()
            self.cell.add(rnn.ZoneoutCell(rnn.GRUCell(2)))
            self.cell.add(rnn.LSTMCell(2))

        def hybrid_forward(self, F, x):
            size = x.shape[0] if F is mx.nd else 0
            states = self.cell.begin_state(func=F.ones, batch_size=size)
            return self.cell(x, states)[0]

    net = Net()
    net.initialize(mx.init.One())
    mode(net)
    wanted = net.cell(mx.nd.ones((3, 2)), [mx.nd.ones((3, 2))] * 3)[0]
    np.testing.assert_allclose(net(mx.nd.ones((3, 2))).asnumpy(), wanted.asnumpy(), rtol=1e-6)


def test_states_may_be_made_by_any_function():
    cell = rnn.SequentialRNNCell(prefix="own_")
    with cell.name_scope():
        cell.add(rnn.LSTMCell(2))
    seen = []
    cell.begin_state(batch_size=3, func=lambda **options: seen.append(options), dtype="float64")
    state = {"shape": (3, 2), "__layout__": "NC", "dtype": "float64"}
    assert seen == [{**state, "name": f"own_lstm0_begin_state_{i}"} for i in range(2)]
    made = cell.begin_state(3, mx.nd.random.uniform, low=4, high=5)
    assert all((abs(s.asnumpy() - 4.5) <= 0.5).all() for s in made)
    assert [s.name for s in cell.begin_state(func=mx.sym.zeros)] == [
        f"own_lstm0_begin_state_{i}" for i in (4, 5)
    ]  # as many as were made before


def test_cells_share_parameters():
    first = rnn.GRUCell(2, input_size=3)
    second = rnn.GRUCell(2, input_size=3, params=first.params)
    first.initialize()
    x, states = mx.nd.ones((1, 3)), first.begin_state(batch_size=1)
    assert (first(x, states)[0].asnumpy() == second(x, states)[0].asnumpy()).all()
    copied = copy.deepcopy(first)
    assert (first(x, states)[0].asnumpy() == copied(x, states)[0].asnumpy()).all()


@MODES
def test_an_activation_may_be_any_block_or_function(mode):
    for activation in (mx.gluon.nn.ELU(0.5), lambda x: x * 2):
        cell = rnn.RNNCell(2, activation, input_size=2)
        cell.initialize(mx.init.One())
        mode(cell)
        x = mx.nd.array([[-1, -2], [1, 2]])
        found = cell(x, cell.begin_state(batch_size=2))[0].asnumpy()
        np.testing.assert_allclose(found, activation(mx.nd.array([[-3, -3], [3, 3]])).asnumpy(), rtol=1e-6)
        cell.unroll(1, [x])


@pytest.mark.parametrize("name", ["Conv1DLSTMCell", "Conv2DGRUCell", "Conv3DRNNCell"])
def test_channels_may_be_last(name):
    make, rank = getattr(contrib, name), int(name[4])
    sizes, layouts = (5, 4, 3)[:rank], {1: "NWC", 2: "NHWC", 3: "NDHWC"}
    first = make((2, *sizes), 3, 3, 1, i2h_pad=1)
    last = make((*sizes, 2), 3, 3, 1, i2h_pad=1, conv_layout=layouts[rank])
    x = random(2, 2, *sizes)
    for cell in (first, last):
        cell.initialize()
    for a, b in zip(first.params.values(), last.params.values(), strict=True):
        b.set_data(mx.nd.array(np.moveaxis(a.data().asnumpy(), 1, -1) if a.data().ndim > 1 else a.data()))
    y = first(mx.nd.array(x), first.begin_state(batch_size=2))[0].asnumpy()
    z = last(mx.nd.array(np.moveaxis(x, 1, -1)), last.begin_state(batch_size=2))[0].asnumpy()
    np.testing.assert_allclose(np.moveaxis(z, -1, 1), y, rtol=1e-5, atol=1e-6)


def test_cells_of_users():
    """They build on functions of this module, and their modifiers may have states of their own."""

    class Raw(rnn.ModifierCell):
        def state_info(self, batch_size=0):
            return [*self.base_cell.state_info(batch_size), {"shape": (batch_size, 2), "__layout__": "NC"}]

        def begin_state(self, func=mx.sym.zeros, **kwargs):
            self.base_cell._modified = False
            begin = self.base_cell.begin_state(func=func, **kwargs)
            self.base_cell._modified = True
            return [*begin, None]

        def hybrid_forward(self, F, inputs, states):
            output, states = self.base_cell(inputs, states)
            return output, [*states, output]

        def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
            self.reset()
            inputs, axis, F, batch_size = _format_sequence(length, inputs, layout, False)
            states, outputs = _get_begin_state(self, F, begin_state, inputs, batch_size), []
            for x in inputs:
                output, states = self(x, states)
                outputs.append(output)
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, True)
            return _format_sequence(length, outputs, layout, merge_outputs)[0], states

    plain, raw = rnn.LSTMCell(2), Raw(rnn.LSTMCell(2))
    for cell in (plain, raw):
        cell.initialize(mx.init.One())
    stack = stacked(raw)
    x, lengths = mx.nd.array(random(2, 3, 4)), mx.nd.array([3, 2])
    wanted = plain.unroll(3, x, valid_length=lengths)[0].asnumpy()
    for cell in (raw, stack):
        outputs, states = cell.unroll(3, x, merge_outputs=True, valid_length=lengths)
        np.testing.assert_allclose(outputs.asnumpy(), wanted, rtol=1e-6)
        assert len(states) == 3


# --- files --------------------------------------------------------------------------------------------------------


def test_files_of_mxnet(tmp_path):
    wanted, x = RECORDED.arrays["network/output"], mx.nd.array(random(N, T, C, seed=80))
    cell = network(mx)
    cell.load_parameters(str(GOLDEN / "files/rnn.params"))
    np.testing.assert_allclose(cell.unroll(T, x, merge_outputs=True)[0].asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    cell.save_parameters(str(tmp_path / "own.params"))
    again = network(mx)
    again.load_parameters(str(tmp_path / "own.params"))
    np.testing.assert_allclose(again.unroll(T, x, merge_outputs=True)[0].asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    # An exported network, whose states have no batch size.
    files = str(GOLDEN / "files/rnn-symbol.json"), ["data"], str(GOLDEN / "files/rnn-0000.params")
    block = mx.gluon.SymbolBlock.imports(*files)
    np.testing.assert_allclose(block(x).asnumpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_export(tmp_path, dtype):
    class Last(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="net_")
            with self.name_scope():
                self.cell = rnn.GRUCell(2)

        def hybrid_forward(self, F, x):
            return self.cell.unroll(2, x)[1][0]

    net = Last()
    net.initialize()
    net.cast(dtype)
    net.hybridize()
    x = mx.nd.ones((3, 2, 4), dtype=dtype)
    wanted = net(x).astype("float32").asnumpy()
    net.export(str(tmp_path / "net"))
    block = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data", str(tmp_path / "net-0000.params"))
    for mode in (leave, hybridize):
        mode(block)
        assert block(x).dtype == x.dtype
        rtol = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
        np.testing.assert_allclose(block(x).astype("float32").asnumpy(), wanted, rtol=rtol)


def test_sizes_of_zero_follow_in_symbols():
    x = mx.sym.var("x")
    total = mx.sym.elemwise_add(x, mx.sym.full((0, 3), 2))
    assert total.infer_shape(x=(4, 3))[1] == [(4, 3)]
    assert (total.eval(x=mx.nd.ones((4, 3)))[0].asnumpy() == 3).all()
    assert mx.sym.zeros((0, 3)).eval()[0].shape == (0, 3)  # unless nothing says what they are
    with pytest.raises(mx.MXNetError, match=r"shapes do not broadcast|Shape inconsistent"):
        mx.sym.elemwise_add(x, mx.sym.full((0, 3), 2)).eval(x=mx.nd.ones((4, 2)))


# --- bad use ------------------------------------------------------------------------------------------------------


def own(kind=rnn.LSTMCell, *args, **options):
    """A cell called own."""
    cell = kind(*(args or (3,)), prefix="own_", **options)
    cell.initialize()
    return cell


def both(l_cell=None):
    """Two cells."""
    return rnn.BidirectionalCell(l_cell or own(), rnn.GRUCell(3))


def stacked(*cells):
    """A stack of cells."""
    stack = rnn.HybridSequentialRNNCell(prefix="stack_")
    for cell in cells:
        stack.add(cell)
    return stack


X, STEP, H = (2, 4, 5), (2, 5), (2, 3)
CALLS = {
    "no states": (own, (STEP,), TypeError, r"own: a cell takes its inputs and its states, got 1 arguments"),
    "more": (own, (STEP, [H, H], STEP), TypeError, r"own: a cell takes .*, got 3 arguments"),
    "no list": (own, (STEP, H), TypeError, r"own: states must be a list of 2, got an array of shape \(2, 3\)"),
    "one state": (own, (STEP, [H]), AssertionError, r"own: LSTMCell has 2 states, got 1"),
    "none": (own, (STEP, [H, None]), TypeError, r"own: state 1 must be an array or a symbol, got NoneType"),
    "shape": (
        *(own, (STEP, [H, (2, 4)]), mx.MXNetError),
        r"own: state 1 must have shape \(2, 3\) for inputs \(2, 5\), got \(2, 4\); begin_state\(batch_size=2\)",
    ),
    "batch": (own, (STEP, [(1, 3), H]), mx.MXNetError, r"own: state 0 must have shape \(2, 3\).* got \(1, 3\)"),
    "features": (
        *(lambda: own(input_size=4), (STEP, [H, H]), mx.MXNetError),
        r"FullyConnected: the data has 5 features, the weight is for 4; .*: weight has shape \(12, 4\)",
    ),
    "activation": (
        *(lambda: own(activation="tahn"), (STEP, [H, H]), ValueError),
        r"\(in own\).* takes one of 'relu', .* got 'tahn'",
    ),
    "residual": (
        *(lambda: rnn.ResidualCell(own()), (STEP, [H, H]), mx.MXNetError),
        r"own_residualcell: .* inputs \(2, 5\) are added, must have their shape, got \(2, 3\)",
    ),
    "dropout": (
        lambda: own(rnn.DropoutCell, 0.5),
        (STEP, [H]),
        AssertionError,
        r"own: DropoutCell has no states, got 1",
    ),
    "stack": (
        lambda: stacked(own()),
        (STEP, [H]),
        AssertionError,
        r"stack: HybridSequentialRNNCell has 2 states, got 1",
    ),
    "both": (
        both,
        (STEP, [H] * 3),
        NotImplementedError,
        r"BidirectionalCell: Bidirectional cannot be stepped. Please use",
    ),
    "both in stack": (lambda: stacked(both()), (STEP, [H] * 3), NotImplementedError, r"cannot be stepped"),
}


def arrays(value):
    """Arrays of zeros of the given shapes."""
    if isinstance(value, list):
        return [arrays(v) for v in value]
    return mx.nd.zeros(value) if isinstance(value, tuple) else value


@MODES
@pytest.mark.parametrize("name", CALLS)
def test_bad_steps(name, mode):
    make, args, error, text = CALLS[name]
    cell = make()
    mode(cell)
    with pytest.raises(error, match=text):
        cell(*map(arrays, args))


UNROLLED = {
    "too long": (own, (5, X), {}, r"own: cannot unroll 5 steps of inputs \(2, 4, 5\), whose layout 'NTC' .* have 4"),
    "too short": (own, (3, X), {}, r"own: cannot unroll 3 steps"),
    "other layout": (own, (4, X), {"layout": "TNC"}, r"own: cannot unroll 4 steps .*'TNC' says that they have 2"),
    "negative": (own, (-1, X), {}, r"own: unroll needs the number of steps, an int of at least 1, got -1"),
    "fraction": (own, (4.0, X), {}, r"own: unroll needs .*, got 4.0"),
    "nothing": (own, (4, None), {}, r"own: the inputs of unroll must be an array or a symbol, or a list .* NoneType"),
    "empty": (own, (4, []), {}, r"own: the inputs of unroll must be .* got a list of 0"),
    "other list": (own, (4, [STEP] * 3), {}, r"own: cannot unroll 4 steps of a list of 3 inputs"),
    "layout": (own, (4, X), {"layout": "NCW"}, r"own: layout must be 'NTC' or 'TNC', .* got 'NCW'"),
    "flat": (own, (2, (2,)), {}, r"own: inputs of layout 'NTC' must have the axes N and T, got shape \(2,\)"),
    "lengths": (own, (4, X), {"valid_length": [1, 2]}, r"own: valid_length must be an array .* got a list of 2"),
    "lengths shape": (own, (4, X), {"valid_length": (3,)}, r"own: valid_length must have shape \(2,\), .* got \(3,\)"),
    "states": (own, (4, X), {"begin_state": [H]}, r"own: LSTMCell has 2 states, got 1"),
    "states of both": (both, (4, X), {"begin_state": [H]}, r"BidirectionalCell: BidirectionalCell has 3 states, got 1"),
    "of dropout": (lambda: own(rnn.DropoutCell, 0.5), (5, X), {}, r"own: cannot unroll 5 steps"),
    "of a stack": (lambda: stacked(both()), (5, X), {}, r"stack: cannot unroll 5 steps"),
    "of a residual": (lambda: rnn.ResidualCell(own()), (4, X), {}, r"own_residualcell: .* got \(2, 3\)"),
    "of variational": (
        lambda: contrib.VariationalDropoutCell(own(), 0.5),
        *((5, X), {}, r"own_vardrop: cannot unroll 5 steps"),
    ),
}


@MODES
@pytest.mark.parametrize("name", UNROLLED)
def test_bad_sequences(name, mode):
    make, args, options, text = UNROLLED[name]
    cell = make()
    mode(cell)
    with pytest.raises(mx.MXNetError, match=text):
        cell.unroll(*map(arrays, args), **{k: arrays(v) for k, v in options.items()})


def test_bad_cells():
    cell = own()
    rnn.ZoneoutCell(cell, 0.5)
    with pytest.raises(AssertionError, match="Cell own is already modified"):
        rnn.ResidualCell(cell)
    with pytest.raises(AssertionError, match=r"own: After applying modifier cells .* Call the modifier cell"):
        cell.begin_state(batch_size=2)
    for call in (
        lambda: rnn.ZoneoutCell(both()),
        lambda: rnn.ZoneoutCell(stacked(both())),
        lambda: contrib.VariationalDropoutCell(both(), drop_states=0.1),
    ):
        with pytest.raises(AssertionError, match=r"BidirectionalCell doesn't support .* to the cells underneath"):
            call()
    with pytest.raises(AssertionError, match="ResidualCell: base_cell must be a cell, got int"):
        rnn.ResidualCell(3)
    with pytest.raises(AssertionError, match="a stack of cells takes cells only, got Dense"):
        stacked(mx.gluon.nn.Dense(3))
    with pytest.raises(AssertionError, match="rate must be a number, got 'half'"):
        rnn.DropoutCell("half")
    with pytest.raises(AssertionError, match="Only support odd number"):
        contrib.Conv1DRNNCell((2, 5), 3, 3, 2)
    with pytest.raises(AssertionError, match=r"Conv2DGRUCell: input_shape must have the 3 axes CHW"):
        contrib.Conv2DGRUCell((2, 5), 3, 3, 3)
    with pytest.raises(NotImplementedError, match=r"must override state_info"):
        rnn.RecurrentCell().begin_state()


def test_bad_symbols():
    cell, group = own(), mx.sym.split(mx.sym.var("x"), num_outputs=2)
    with pytest.raises(AssertionError, match="own: unroll doesn't allow grouped symbol as input"):
        cell.unroll(2, group)
    outputs, _ = cell.unroll(2, list(group), merge_outputs=True)
    assert outputs.infer_shape(x=(3, 4))[1] == [(3, 2, 3)]
