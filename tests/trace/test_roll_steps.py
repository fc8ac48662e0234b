"""Equal steps become loops of the graph: the results and gradients of the operators one by one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.dialects.control.loop import ForLoop
from hybridc.dialects.math.contraction import Product
from hybridc.trace import roll_steps
from hybridc.trace.tracer import trace_call

STEPS = 40
FEW = roll_steps.STEPS


class Net(gluon.HybridBlock):
    """A function of F and arrays, with layers."""

    def __init__(self, function, *layers):
        super().__init__()
        self.function, self.layers = function, layers
        for layer in layers:
            self.register_child(layer)

    def hybrid_forward(self, F, *arrays):
        return self.function(F, *arrays, *self.layers)


def arrays(*shapes):
    rng = np.random.default_rng(len(shapes))
    return [mx.nd.array(rng.standard_normal(shape) / 2, dtype="float64") for shape in shapes]


def results(net, inputs, hybridized):
    """Results and gradients."""
    net.hybridize(hybridized)
    mx.random.seed(1)
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        found = net(*inputs)
        outputs = list(found) if isinstance(found, (list, tuple)) else [found]
        total = sum(((i + 1) * y * y.sin()).sum() for i, y in enumerate(outputs))
    total.backward()
    grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
    return [x.asnumpy() for x in (*outputs, *(x.grad for x in inputs), *grads)]


def agrees(net, inputs):
    """Check the compiled results and gradients against the eager ones; what ``explain`` says of loops."""
    for plain, compiled in zip(results(net, inputs, False), results(net, inputs, True), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-10, atol=1e-12)
    return [line.strip() for line in net.explain().splitlines() if "equal steps" in line]


def recurrent(F, x, h, w):
    rows = []
    for t in range(STEPS):
        h = F.tanh(F.dot(h, w) + x[t])
        rows.append(h)
    return F.stack(*rows, axis=0), h


def last_only(F, x, h, w):
    for row in F.split(x, num_outputs=STEPS, axis=0, squeeze_axis=True):
        h = F.tanh(F.dot(h, w) + row)
    return h


def along_the_second_axis(F, x, h, w):
    rows = []
    x = F.swapaxes(x, dim1=0, dim2=1)
    for t in range(STEPS):
        h = F.tanh(F.dot(h, w) + x[:, t])
        rows.append(h)
    return F.stack(*rows, axis=1)


def backwards(F, x, h, w):
    rows = []
    for t in reversed(range(STEPS)):
        h = F.tanh(F.dot(h, w) + x[t])
        rows.append(h)
    return F.concat(*(F.expand_dims(r, axis=0) for r in rows[::-1]), dim=0)


def two_states(F, x, h, w):
    c, rows = F.zeros_like(h), []
    for t in range(STEPS):
        g = F.dot(h, w)
        c = F.sigmoid(g) * c + F.tanh(x[t])
        h = F.sigmoid(g + c) * F.tanh(c)
        rows.append(h)
    return rows[3] + rows[STEPS - 2], F.stack(*rows, axis=0), c


def without_data(F, x, h, w):
    for _ in range(STEPS):
        h = F.tanh(F.dot(h, w)) + x[0]
    return h


def first_step_apart(F, x, h, w):
    h = F.sin(h + x[0])
    rows = [h]
    for t in range(1, STEPS):
        h = F.tanh(F.dot(h, w) + x[t])
        rows.append(h)
    return F.stack(*rows, axis=0)


def dropped(F, x, h, w):
    h = F.Dropout(h, p=0.25)  # draws before the loop
    for t in range(STEPS):
        h = F.Dropout(F.tanh(F.dot(h, w) + F.Dropout(x[t], p=0.5)), p=0.5)
    return h * F.Dropout(F.ones_like(h))  # and behind it


def zoned_out(F, x, h, w):
    before, rows = F.zeros_like(h), []
    for t in range(STEPS):
        new = F.tanh(F.dot(h, w) + x[t])
        before = F.where(F.Dropout(F.ones_like(new), p=0.5), new, before)
        h = F.where(F.Dropout(F.ones_like(new), p=0.5), new, h)
        rows.append(before)
    return F.stack(*rows, axis=0)


def few(F, x, h, w):
    rows = []
    for t in range(FEW):
        h = F.tanh(F.dot(h, w) + x[t])
        rows.append(h)
    return F.concat(*rows, dim=0), h


def few_backwards(F, x, h, w):
    rows = []
    for t in reversed(range(FEW)):
        h = F.tanh(F.dot(h, w) + x[t])
        rows.append(h)
    return F.concat(*rows[::-1], dim=1)


def two_layers(F, x, h, w):
    """One layer after the other: two loops, the second over the results of the first."""
    rows = [x[t] for t in range(FEW)]
    for weight in (w, F.transpose(w)):
        state, after = h, []
        for row in rows:
            state = F.tanh(F.dot(state, weight) + F.dot(row, weight))
            after.append(state)
        rows = after
    return F.stack(*rows, axis=1)


def two_steps_back(F, x, h, w):
    before, rows = h, []
    for t in range(FEW + 1):
        before, h = h, F.tanh(F.dot(h, w) + before + x[t])
        rows.append(h)
    return F.stack(*rows, axis=0)


def of_many_numbers(F, x, h, w):
    for t in range(STEPS):
        h = F.tanh(F.dot(h, w) * (t + 1) / STEPS + x[t])
    return h


ROLLED = [
    recurrent,
    last_only,
    along_the_second_axis,
    backwards,
    two_states,
    without_data,
    first_step_apart,
    dropped,
    zoned_out,
    few,
    few_backwards,
    two_steps_back,
    of_many_numbers,
]


@pytest.mark.parametrize("forward", ROLLED)
def test_equal_steps_are_a_loop(forward):
    found = agrees(Net(forward), arrays((STEPS, 2, 3), (2, 3), (3, 3)))
    assert len(found) == 1, found


def test_layers_are_loops_one_after_the_other():
    found = agrees(Net(two_layers), arrays((FEW, 2, 3), (2, 3), (3, 3)))
    assert len(found) == 2, found


def projected(F, x, h, w):
    """Both are linear maps with the same weight; that of the rows is read behind the loop, too."""
    rows = []
    for t in range(FEW):
        i = F.FullyConnected(x[t], w, num_hidden=3, no_bias=True)
        h = F.tanh(F.FullyConnected(h, w, num_hidden=3, no_bias=True) + i)
        rows.append(h * F.sigmoid(i))
        rows.append(i)
    return F.stack(*rows[::2], axis=0), F.stack(*rows[1::2], axis=1), rows[1], h


def projected_backwards(F, x, h, w):
    rows = []
    for t in reversed(range(FEW)):
        h = F.tanh(F.dot(h, w) * F.dot(x[t], w))
        rows.append(h)
    return F.stack(*rows, axis=0)


def projected_for_later(F, x, h, w):
    """The next step reads what this one makes of its row."""
    before = F.zeros_like(h)
    for t in range(FEW):
        now = F.dot(x[t], w)
        h, before = F.tanh(F.dot(h, w) + before), now
    return h, before


def projected_lines(F, x, h, w):
    """One of the matmuls with a row is of the state, too, and turns the row over."""
    for t in range(FEW):
        both = F.dot(h, F.dot(x[t], h, transpose_a=True))
        h = F.tanh(F.dot(h, w) + both + F.FullyConnected(x[t], w, num_hidden=3, no_bias=True, flatten=False))
    return h


@pytest.mark.parametrize(
    ("forward", "inside"),
    [(projected, 1), (projected_backwards, 1), (projected_for_later, 2), (projected_lines, 3), (two_layers, 1)],
)
def test_rows_are_multiplied_before_the_loop(forward, inside):
    inputs = arrays((FEW, 2, 3), (2, 3), (3, 3))
    trace = trace_call(Net(forward), inputs, True)
    roll_steps.roll_steps(trace)
    bodies = [node.op.body for node in trace.nodes if isinstance(node.op, ForLoop)]
    assert bodies
    for body in bodies:
        assert sum(isinstance(step.op, Product) for step in body.steps) == inside
    assert agrees(Net(forward), inputs)


def elementwise(F, x, h, w):
    for t in range(STEPS):
        h = F.tanh(h * w[0] + x[t])
    return h


def three_steps_back(F, x, h, w):
    rows = [h, F.sin(h), F.cos(h)]
    for t in range(STEPS):
        rows.append(F.tanh(F.dot(rows[-1], w) + rows[-3] + x[t]))
    return F.stack(*rows, axis=0)


def other_numbers(F, x, h, w):
    for t in range(STEPS // 2):
        h = F.tanh(F.dot(h, w) * (t + 1) / STEPS + x[t])
    return h


def too_few(F, x, h, w):
    for t in range(FEW - 1):
        h = F.tanh(F.dot(h, w) + x[t])
    return h


def parallel(F, x, h, w):
    """Steps that do not wait for each other."""
    return F.stack(*(F.tanh(F.dot(x[t], w)) for t in range(STEPS // 2)), axis=0)


def added_up(F, x, h, w):
    """Steps that only add to what the others gave."""
    for t in range(STEPS // 2):
        h = h + F.tanh(F.dot(x[t], w))
    return h


STAY = [elementwise, three_steps_back, other_numbers, too_few, parallel, added_up]


@pytest.mark.parametrize("forward", STAY)
def test_other_steps_stay(forward):
    trace = trace_call(Net(forward), arrays((STEPS, 2, 3), (2, 3), (3, 3)), True)
    before = list(trace.nodes)
    roll_steps.roll_steps(trace)
    assert trace.nodes == before
    assert not trace.rolled


@pytest.mark.parametrize("cell", [gluon.rnn.RNNCell, gluon.rnn.LSTMCell, gluon.rnn.GRUCell])
def test_unrolled_cells(cell):
    def forward(F, x, layer):
        return layer.unroll(STEPS, x, layout="NTC", merge_outputs=True)[0]

    net = Net(forward, cell(4, input_size=3))
    net.initialize(mx.init.Normal(0.5))
    net.cast("float64")
    assert len(agrees(net, arrays((2, STEPS, 3)))) == 1


def test_a_loop_is_compiled_once():
    """Twice as many steps: as many operators in the graph."""
    counts = []
    for steps in (STEPS, 2 * STEPS):

        def forward(F, x, h, w, steps=steps):
            rows = []
            for t in range(steps):
                h = F.tanh(F.dot(h, w) + x[t])
                rows.append(h)
            return F.stack(*rows, axis=0)

        trace = trace_call(Net(forward), arrays((steps, 2, 3), (2, 3), (3, 3)), True)
        roll_steps.roll_steps(trace)
        counts.append(len(trace.nodes))
    assert counts[0] == counts[1] < STEPS


@pytest.mark.usefixtures("natively_stored")
def test_longer_loops_have_the_kernels_of_shorter_ones():
    net = Net(recurrent_over)
    net.hybridize()
    for steps in (STEPS, STEPS + 1, STEPS + 2):
        net(*arrays((steps, 2, 3), (2, 3), (3, 3)))
    text = net.explain()  # from the disk, if an earlier process had such a graph
    (others,) = [line for line in text.splitlines() if line.startswith("  likewise for ")]
    assert others.count(f"float64[{STEPS + 1}, 2, 3]") == others.count(f"float64[{STEPS + 2}, 2, 3]") == 1, text
    assert "planned with the kernels" in others or "from the cache on the disk" in text, text


def recurrent_over(F, x, h, w):
    rows = []
    for t in range(x.shape[0]):
        h = F.tanh(F.dot(h, w) + x[t])
        rows.append(h)
    return F.stack(*rows, axis=0)


def test_loops_stay_if_they_are_to(monkeypatch):
    monkeypatch.setattr(roll_steps, "OPTIONS", dataclasses.replace(roll_steps.OPTIONS, roll=False))
    trace = trace_call(Net(recurrent), arrays((STEPS, 2, 3), (2, 3), (3, 3)), True)
    roll_steps.roll_steps(trace)
    assert len(trace.nodes) > STEPS
