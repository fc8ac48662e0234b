"""Loops and branches of symbols give what MXNet 1.9.1 gave (tests/golden/make_loop_symbols.py), its files too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.errors import MXNetError, ShapeError
from hybridc.symbol import infer

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from loop_symbol_cases import CASES, NO_GRADIENT, results  # noqa: E402
from programs import Recorded  # noqa: E402

RECORDED = Recorded("loop_symbols")
CHECKED = json.loads((GOLDEN / "loop_symbols_checked.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, results(mx, CASES[name](mx), name not in NO_GRADIENT))


@pytest.mark.parametrize("name", CASES)
def test_files_of_mxnet(name):
    symbol = mx.sym.load_json(RECORDED.values["files"][name])
    RECORDED.assert_same(name, results(mx, symbol, name not in NO_GRADIENT))


@pytest.mark.parametrize("name", CASES)
def test_own_files(name):
    text = CASES[name](mx).tojson()
    assert text == CHECKED[name], "MXNet runs the other, see golden/check_files_in_mxnet.py"
    assert mx.sym.load_json(text).tojson() == text


# --- beside the same loops of arrays, and NumPy ----------------------------------------------------------------


def values(*shapes):
    return [np.random.RandomState(i).uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate(shapes)]


def run(symbol, **given):
    """Results and gradients, by name, of an executor on these arrays; the gradients of the results are ones."""
    executor = symbol.simple_bind(mx.cpu(), **{name: x.shape for name, x in given.items()})
    for name, x in given.items():
        executor.arg_dict[name][:] = x
    outputs = [y.asnumpy() for y in executor.forward(is_train=True)]
    executor.backward([mx.nd.ones(y.shape) for y in outputs])
    return outputs, {name: grad.asnumpy() for name, grad in executor.grad_dict.items()}


def test_branch_in_loop():
    x, h = mx.sym.var("x"), mx.sym.var("h")

    def step(a, s):
        out = mx.sym.contrib.cond(mx.sym.sum(a) > 0, lambda: a + s, lambda: a * s * 2)
        return out, s + out

    rows, state = values((4, 3), (3,))
    rows[2] -= 2
    outputs, grads = run(mx.sym.Group(mx.sym.contrib.foreach(step, x, h)), x=rows, h=state)
    wanted, taken, last = [], [], state
    for row in rows:
        taken.append(row.sum() > 0)
        wanted.append(row + last if taken[-1] else row * last * 2)
        last = last + wanted[-1]
    assert {*taken} == {True, False}
    np.testing.assert_allclose(outputs[0], np.stack(wanted), rtol=1e-5)
    np.testing.assert_allclose(outputs[1], last, rtol=1e-5)
    # The last row: d(out)/da and d(out + s)/da, of gradients 1 each.
    before = last - wanted[-1]
    np.testing.assert_allclose(grads["x"][-1], 2 * np.ones(3) if taken[-1] else 4 * before, rtol=1e-5)


def test_branch_that_is_not_taken_has_no_gradient():
    x, h, n = map(mx.sym.var, "xhn")
    chosen = mx.sym.contrib.cond(n > 1, lambda: x * mx.sym.exp(h), lambda: x + h * 3)
    (a, b) = values((3,), (3,))
    for number, wanted in ((2.0, a * np.exp(b)), (0.0, np.full(3, 3.0))):
        _, grads = run(chosen, x=a, h=b, n=np.array([number], np.float32))
        np.testing.assert_allclose(grads["h"], wanted, rtol=1e-5)


def test_batch_normalization_in_a_loop_is_trained():
    x = mx.sym.var("x")
    rows, _ = mx.sym.contrib.foreach(lambda a, s: (mx.sym.BatchNorm(a, momentum=0.5, name="bn"), s), x, [])
    assert rows.list_arguments() == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    (data,) = values((3, 5, 2))
    executor = rows.simple_bind(mx.cpu(), x=data.shape)
    executor.forward(is_train=True, x=mx.nd.array(data))
    mean = np.zeros(2)
    for row in data:
        mean = 0.5 * mean + 0.5 * row.mean(axis=0)
    np.testing.assert_allclose(executor.arg_dict["bn_moving_mean"].asnumpy(), mean, rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_random_numbers_are_those_of_the_block(hybridize):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.contrib.foreach(lambda a, s: (F.Dropout(a, p=0.5), s), x, [])[0]

    symbol = Net()(mx.sym.var("x"))
    found = []
    for net in (Net(), gluon.SymbolBlock(mx.sym.load_json(symbol.tojson()), [mx.sym.var("x")])):
        if hybridize:
            net.hybridize()
        mx.random.seed(5)
        with autograd.record():
            found.append(net(mx.nd.ones((4, 8))).asnumpy())
    assert 0 < found[0].mean() < 2
    np.testing.assert_array_equal(*found)


def test_exported_network(tmp_path):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = gluon.rnn.LSTMCell(4)

        def hybrid_forward(self, F, x, h, c):
            rows, states = F.contrib.foreach(self.cell, x, [h, c])
            _, (n, last) = F.contrib.while_loop(
                lambda n, s: n < 3, lambda n, s: (None, [n + 1, s * 2]), [F.zeros((1,)), states[0]], 5
            )
            return F.contrib.cond(F.sum(rows) > 100, lambda: rows * 2, lambda: rows - 1), last, n

    net = Net()
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    arrays = [mx.nd.array(x) for x in values((3, 2, 5), (2, 4), (2, 4))]
    wanted = net(*arrays)
    net.export(str(tmp_path / "net"))
    operators = [node["op"] for node in json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]]
    assert {"_foreach", "_while_loop", "_cond"} <= set(operators)
    inputs = ["data0", "data1", "data2"]
    files = [str(tmp_path / f"net-{name}") for name in ("symbol.json", "0000.params")]
    again = gluon.SymbolBlock.imports(files[0], inputs, files[1])
    for hybridize in (False, True):
        again.hybridize(hybridize)
        for y, other in zip(again(*arrays), wanted, strict=True):
            np.testing.assert_allclose(y.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-6)


def test_what_a_step_does_not_use():
    x, w, h, i = map(mx.sym.var, "xwhi")
    rows, states = mx.sym.contrib.foreach(lambda a, s: (a[0] * 2, [s[0] + 1, s[0] * 2]), [x, w], [h, i])
    symbol = mx.sym.Group([rows, *states])
    (a, c) = values((2, 2), (3,))
    b = np.full((2, 3), np.nan, np.float32)
    for each in (symbol, mx.sym.load_json(symbol.tojson())):
        assert each.list_arguments() == ["x", "w", "h", "i"]
        outputs, grads = run(each, x=a, w=b, h=c, i=c)
        for y, wanted in zip(outputs, (a * 2, c + 2, (c + 1) * 2), strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-6)
        np.testing.assert_array_equal(grads["w"], np.zeros((2, 3)))
    _, last = mx.sym.contrib.while_loop(lambda i, s: i < 2, lambda i, s: (None, [i + 1, h]), [i, w], 4)
    assert mx.sym.Group(last).list_arguments() == ["i", "h", "w"]


@pytest.mark.parametrize("hybridize", [False, True])
def test_loop_that_runs_no_step_gives_zeros(hybridize):
    i, h = mx.sym.var("i"), mx.sym.var("h")
    rows, _ = mx.sym.contrib.while_loop(lambda i, s: i < 0, lambda i, s: (s + 1, [i + 1, s]), [i, h], 3)
    net = gluon.SymbolBlock(rows, [i, h])
    if hybridize:
        net.hybridize()
    np.testing.assert_array_equal(net(mx.nd.ones((1,)), mx.nd.ones((2,))).asnumpy(), np.zeros((3, 2)))


def test_value_that_both_graphs_use_is_one_input():
    i, h, w = map(mx.sym.var, "ihw")
    rows, _ = mx.sym.contrib.while_loop(
        lambda i, s: mx.sym.sum(s * w) < 10, lambda i, s: (s * w, [i + 1, s + w]), [i, h], 3
    )
    assert rows.list_arguments() == ["h", "w", "i"]
    (y,) = rows.eval(i=mx.nd.zeros((1,)), h=mx.nd.ones((2,)), w=mx.nd.ones((2,)))
    np.testing.assert_array_equal(y.asnumpy(), [[1, 1], [2, 2], [3, 3]])


def test_inference_goes_through_loops():
    x, h = mx.sym.var("x"), mx.sym.var("h")
    rows, last = mx.sym.contrib.foreach(
        lambda a, s: (mx.sym.FullyConnected(a, num_hidden=5, name="fc") + s, s * 1), x, h
    )
    both = mx.sym.Group([rows, last])
    assert both.infer_shape(x=(4, 2, 3)) == ([(4, 2, 3), (2, 5), (5, 3), (5,)], [(4, 2, 5), (2, 5)], [])
    assert both.infer_type(x="float64")[0] == [np.float64] * 4
    # A state of unknown first size, as begin_state of cells makes it.
    rows, _ = mx.sym.contrib.foreach(
        lambda a, s: (s, mx.sym.FullyConnected(a, num_hidden=5) + mx.sym.FullyConnected(s, num_hidden=5)),
        x,
        mx.sym.zeros(shape=(0, 5)),
    )
    assert rows.infer_shape(x=(4, 2, 3))[1] == [(4, 2, 5)]


def test_inference_of_loops_in_loops_asks_each_graph_a_few_times(monkeypatch):
    """Its work is of the order of the size of the graph: a loop in a loop is not walked once more for each walk."""
    asked = []
    graph_shapes = infer.graph_shapes
    monkeypatch.setattr(infer, "graph_shapes", lambda *args: asked.append(args) or graph_shapes(*args))

    def nested(depth):
        def step(row, state):
            if depth == 1:
                return row + state, state
            rows, state = mx.sym.contrib.foreach(nested(depth - 1), row, state)
            return mx.sym.sum(rows, axis=0), state

        return step

    counts = []
    for depth in (2, 4):
        rows, _ = mx.sym.contrib.foreach(nested(depth), mx.sym.var("x"), mx.sym.var("h"))
        assert rows.infer_shape(x=(2,) * depth + (3,), h=(3,))[1] == [(2, 3)]
        counts.append(len(asked))
        asked.clear()
    assert 0 < counts[1] < 3 * counts[0]


def test_symbol_that_was_composed_before():
    part = mx.sym.FullyConnected(mx.sym.var("input"), num_hidden=2, name="fc") * 2
    rows, _ = mx.sym.contrib.foreach(lambda a, s: (part(input=a + s), s), mx.sym.var("x"), mx.sym.var("h"))
    assert rows.list_arguments() == ["x", "h", "fc_weight", "fc_bias"]
    assert [n for n in rows.get_internals().list_outputs() if n.startswith("fc")] == ["fc_weight", "fc_bias"]


def test_backend_takes_what_is_around_a_loop():
    taken = []

    class Everything(mx.subgraph.Partitioner):
        ops = frozenset({"exp", "add", "hybrid.while_loop"})

        def run(self, part, *inputs):
            taken.append([op.title() for op in part.operators])
            return part(*inputs)

    mx.subgraph.register_partitioner("takes_loops")(Everything)
    i, h, w = map(mx.sym.var, "ihw")
    rows, _ = mx.sym.contrib.while_loop(
        lambda s, i: mx.sym.sum(i) < 2, lambda s, i: (mx.sym.Dropout(s * w), [s + 1, i + 1]), [mx.sym.exp(h), i], 3
    )
    symbol = mx.sym.exp(rows)
    arrays = {"h": np.ones((2, 3)), "w": np.full((2, 3), 0.1), "i": np.zeros((1,))}
    found = []
    for each in (symbol, symbol.optimize_for("takes_loops")):
        assert each.list_arguments() == ["i", "h", "w"]
        executor = each.simple_bind(mx.cpu(), **{k: x.shape for k, x in arrays.items()})
        for name, x in arrays.items():
            executor.arg_dict[name][:] = x
        found.append(executor.forward()[0].asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert taken == [["exp"], ["exp"]]


ERRORS = [
    (lambda s, x, h: s.foreach(lambda a, t: (a, t), mx.nd.ones((2, 3)), h), "data must be symbols, got NDArray"),
    (lambda s, x, h: s.foreach(lambda a, t: (a, [t, t]), x, h), "must return 1 states, as many as it is given, got 2"),
    (lambda s, x, h: s.foreach(lambda a, t: a, x, h), r"body must return \(outputs, states\), got 1 values"),
    (lambda s, x, h: s.foreach(lambda a, t: (1, t), x, h), "an output of body must be .* got int"),
    (lambda s, x, h: s.foreach(lambda a, t: (a, t), [], h), "data must have at least one symbol"),
    (lambda s, x, h: s.while_loop(lambda t: t, lambda t: (t, t), h), "max_iterations must be given"),
    (lambda s, x, h: s.while_loop(lambda: 1, lambda: ([], []), [], 3), "loop_vars must have at least one symbol"),
    (lambda s, x, h: s.while_loop(lambda t: [t, t], lambda t: (t, t), h, 3), "cond must return one symbol, got 2"),
    (lambda s, x, h: s.cond(h, lambda: x, lambda: [x, h]), "must return as many symbols, got 1 and 2"),
]


@pytest.mark.parametrize(("make", "said"), ERRORS)
def test_errors_name_the_line(make, said):
    with pytest.raises(MXNetError, match=rf"test_loop_symbols.py:\d+: .*{said}"):
        make(mx.sym.contrib, mx.sym.var("x"), mx.sym.var("h"))


def test_states_keep_their_shapes():
    _, last = mx.sym.contrib.foreach(lambda a, s: (a, mx.sym.concat(s, s, dim=0)), mx.sym.var("x"), mx.sym.var("h"))
    with pytest.raises(ShapeError, match=r"test_loop_symbols.py:\d+: operator _foreach\d+: .*\(3,\).*\(6,\)"):
        last.infer_shape(x=(2, 3), h=(3,))


def changed(**attrs):
    """The file of a loop with other attributes."""
    rows, _ = mx.sym.contrib.foreach(lambda a, s: (a + s, s), mx.sym.var("x"), mx.sym.var("h"))
    members = json.loads(rows.tojson())
    members["nodes"][-1]["attrs"].update(attrs)
    return json.dumps({**members, "heads": [[len(members["nodes"]) - 1, 0, 0]]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(in_data_locs="[7]"), "do not go with"),
        (changed(in_data_locs="x"), "in_data_locs takes a list of integers, got 'x'"),
        (changed(num_outputs="5"), "num_outputs is 5 for 2 results"),
        (changed(num_outputs="many"), "num_outputs takes an integer, got 'many'"),
    ],
)
def test_files_that_are_wrong(text, said):
    with pytest.raises(MXNetError, match=rf"node '_foreach\d+' \(_foreach\).*{said}"):
        mx.sym.load_json(text)
