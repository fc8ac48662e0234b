"""Symbols with loops and branches, written once and run by MXNet (make_loop_symbols.py) and by hybridc (tests/symbol).

A case is a function of ``mx`` that returns a symbol; SHAPES has the shapes of its data.
"""

from __future__ import annotations

import numpy as np

SHAPES = {"x": (4, 2, 3), "y": (4, 2, 3), "h": (2, 3), "c": (2, 3), "i": (1,), "n": (1,), "rows": (2, 4, 2, 3)}
VALUES = {"i": [0.0], "n": [3.0]}
CASES = {}
# MXNet fails to differentiate the first; of a branch that is not taken it adds whatever the memory contains.
NO_GRADIENT = {"loop_in_loop", "branch_then"}


def case(function):
    """Enter a case under its name; names of nodes count from 0 in each."""

    def run(mx):
        with mx.name.NameManager():
            return mx.sym.Group(leaves(function(mx)))

    CASES[function.__name__] = run
    return function


def leaves(given):
    """The symbols of nested lists."""
    return [x for each in given for x in leaves(each)] if isinstance(given, (list, tuple)) else [given]


def results(mx, symbol, gradients=True, known=SHAPES):
    """The names of a symbol, its shapes, results in both modes and gradients; parameters have fixed values."""
    names = symbol.list_arguments()
    shapes = {name: known[name] for name in names if name in known}
    if len(shapes) < len(names):  # MXNet infers no shapes of a while_loop and a cond before they are bound
        shapes = dict(zip(names, symbol.infer_shape(**shapes)[0]))
    found = {
        "arguments": names,
        "outputs": symbol.list_outputs(),
        "shapes": {name: list(shape) for name, shape in shapes.items()},
    }
    arrays, grads = {}, {}
    for name, shape in shapes.items():
        value = np.array(VALUES[name]) if name in VALUES else random(shape, sum(map(ord, name)))
        arrays[name], grads[name] = mx.nd.array(value), mx.nd.zeros(shape)
    executor = symbol.bind(mx.cpu(), arrays, grads if gradients else None)
    for i, y in enumerate(executor.forward(is_train=False)):
        found[f"predicted {i}"] = y.asnumpy()
    if not gradients:
        return found
    made = executor.forward(is_train=True)
    for i, y in enumerate(made):
        found[f"result {i}"] = y.asnumpy()
    executor.backward([mx.nd.array(random(y.shape, i)) for i, y in enumerate(made)])
    for name, grad in grads.items():
        found[f"gradient {name}"] = grad.asnumpy()
    return found


def random(shape, seed):
    """The same float32 numbers everywhere."""
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


@case
def scan(mx):
    """A state, an output, and a value of the graph around the loop."""
    x, h, v = mx.sym.var("x"), mx.sym.var("h"), mx.sym.exp(mx.sym.var("c"), name="v")
    return mx.sym.contrib.foreach(lambda a, s: (a * v + s, mx.sym.tanh(s + a)), x, h)


@case
def layers(mx):
    """Layers in the function, whose weights follow; the loop is a part of a larger graph."""
    x, h = mx.sym.var("x"), mx.sym.var("h")
    w = mx.sym.var("shared_weight")

    def step(a, s):
        s = mx.sym.FullyConnected(a, num_hidden=3, name="i2h") + mx.sym.FullyConnected(
            s, weight=w, num_hidden=3, name="h2h"
        )
        s = mx.sym.Activation(s, act_type="tanh", name="out")
        return s * 2, s

    rows, last = mx.sym.contrib.foreach(step, x * 3, h, name="layers")
    again = mx.sym.FullyConnected(last, weight=w, num_hidden=3, no_bias=True, name="again")
    return [mx.sym.sum(rows, axis=0, name="total"), again]


@case
def nested_lists(mx):
    """Nested lists of data, states and outputs."""
    x, y, h, c = map(mx.sym.var, "xyhc")

    def step(each, states):
        (s, t), (u,) = states
        a, (b,) = each
        return [a + s, [b * t, u + a]], [[s * b, t + a], [u - b]]

    return mx.sym.contrib.foreach(step, [x, [y]], [[h, c], [h * c]])


@case
def outputs_only(mx):
    """No state."""
    return mx.sym.contrib.foreach(lambda a, s: (mx.sym.square(a), []), mx.sym.var("x"), [])


@case
def states_only(mx):
    """No output."""
    return mx.sym.contrib.foreach(lambda a, s: ([], a * s), mx.sym.var("x"), mx.sym.var("h"))


@case
def results_that_are_inputs(mx):
    """The row itself, the state itself, a value from outside, a value twice."""
    x, h, c = map(mx.sym.var, "xhc")

    def step(a, s):
        b = a + s
        return [a, s, c, b], [b]

    return mx.sym.contrib.foreach(lambda a, s: step(a, s[0]), x, [h])


@case
def loop_in_loop(mx):
    """The inner loop reads a variable and a value of the outer one."""
    c = mx.sym.var("c")

    def outer(row, s):
        t = mx.sym.tanh(s)
        rows, last = mx.sym.contrib.foreach(lambda b, u: (b * t + c, u + b * c), row, s)
        return mx.sym.sum(rows, axis=0), last

    return mx.sym.contrib.foreach(outer, mx.sym.var("rows"), mx.sym.var("h"))


@case
def counted(mx):
    """A loop of three of four steps."""
    i, h, c = map(mx.sym.var, "ihc")
    rows, last = mx.sym.contrib.while_loop(
        lambda i, s: i < 3, lambda i, s: (mx.sym.tanh(s * c), [i + 1, s + mx.sym.broadcast_mul(c, i)]), [i, h], 4
    )
    return [mx.sym.slice_axis(rows, axis=0, begin=0, end=3), last]


@case
def order_of_inputs(mx):
    """Inputs are listed as the graphs use them."""
    i, h, c = map(mx.sym.var, "ihc")
    rows, last = mx.sym.contrib.while_loop(
        lambda s, t, i: i < 3, lambda s, t, i: ([c * t, s], (t + s, t * 1, i + 1)), (h, c * 2, i), max_iterations=3
    )
    return [rows, last]


@case
def no_output(mx):
    """A loop without outputs, of one variable."""
    h = mx.sym.var("h")
    return mx.sym.contrib.while_loop(
        lambda s: mx.sym.sum(mx.sym.square(s)) < 100, lambda s: ([], s * 2), h, max_iterations=20
    )


@case
def branch_then(mx):
    """The condition holds."""
    x, h, n = map(mx.sym.var, "xhn")
    v = mx.sym.exp(h, name="v")
    return mx.sym.contrib.cond(n > 1, lambda: [x * 2, [v]], lambda: [x + 1, [v * 3]])


@case
def branch_else(mx):
    """The condition is a variable, and zero; a result is a value from outside."""
    x, i = map(mx.sym.var, "xi")
    return mx.sym.contrib.cond(i, lambda: mx.sym.broadcast_mul(x, mx.sym.sum(x)), lambda: mx.sym.identity(x))


@case
def cell(mx):
    """A cell of Gluon as the function's layer."""
    lstm = mx.gluon.rnn.LSTMCell(3, prefix="lstm_")
    return mx.sym.contrib.foreach(lstm, mx.sym.var("x"), [mx.sym.var("h"), mx.sym.var("c")])
