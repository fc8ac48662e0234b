"""Random graphs: what is compiled agrees with what runs eagerly, forward and backward, and with float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridc as mx
from hybridc.gluon import HybridBlock
from tests.random_programs import tiles
from tests.slices import tries

SIZES = (1, 2, 3, 5, 8, 17)

UNARY = {
    "exp": lambda F, x: F.exp(x * 0.25),
    "tanh": lambda F, x: F.tanh(x),
    "sin": lambda F, x: F.sin(x),
    "sigmoid": lambda F, x: F.sigmoid(x),
    "relu": lambda F, x: F.relu(x),
    "square": lambda F, x: F.square(x * 0.5),
    "negative": lambda F, x: -x,
    "abs": lambda F, x: F.abs(x),
    "sqrt": lambda F, x: F.sqrt(F.abs(x) + 1),
    "scale": lambda F, x: 2 * x - 1.5,
    "inverse": lambda F, x: 1 / (F.square(x) + 1),
    "clip": lambda F, x: F.clip(x, -1, 1),
    "softmax": lambda F, x: F.softmax(x, axis=-1),
    "softmax0": lambda F, x: F.softmax(x, axis=0),
    "identity": lambda F, x: F.identity(x),
    "stop": lambda F, x: F.BlockGrad(x) + x,
    "where": lambda F, x: F.where(x > 0, F.sin(x), x * 0.5),
}
BINARY = {
    "add": lambda F, x, y: F.broadcast_add(x, y),
    "sub": lambda F, x, y: x - y,
    "mul": lambda F, x, y: x * y * 0.5,
    "div": lambda F, x, y: x / (F.square(y) + 1),
    "max": lambda F, x, y: F.broadcast_maximum(x, y),
    "greater": lambda F, x, y: F.broadcast_greater(x, y) * x,
}
REDUCE = {
    "sum": lambda F, x, axis, keep: F.sum(x, axis=axis, keepdims=keep) * 0.25,
    "mean": lambda F, x, axis, keep: F.mean(x, axis=axis, keepdims=keep),
    "max": lambda F, x, axis, keep: F.max(x, axis=axis, keepdims=keep),
    "min": lambda F, x, axis, keep: F.min(x, axis=axis, keepdims=keep),
}

OTHER = {
    "log_softmax": lambda F, x: F.log_softmax(x, axis=-1),
    "layer_norm": lambda F, x: F.LayerNorm(x, *[F.ones((x.shape[-1],), dtype="float64") * n for n in (0.5, 2)]),
    "norm": lambda F, x: F.sqrt(F.sum(F.square(x), axis=0, keepdims=True) + 1),
    "stack": lambda F, x: F.stack(x, F.sin(x), axis=1),
    "tile": lambda F, x: F.tile(x, reps=(2,)),
    "pad": lambda F, x: F.concat(F.zeros_like(x), x, dim=-1),
    "halves": lambda F, x: (lambda a, b: a * F.exp(b * 0.1))(*F.split(F.concat(x, x, dim=0), num_outputs=2, axis=0)),
    "cumsum": lambda F, x: F.cumsum(x, axis=0) * 0.2,
    "sort": lambda F, x: F.sort(x, axis=-1),
    "argmax": lambda F, x: F.argmax(x, axis=-1) * 0.1 + F.sum(x, axis=-1),
    "take": lambda F, x: F.take(x, F.arange(3), axis=0, mode="wrap"),
    "one_hot": lambda F, x: F.one_hot(F.clip(F.floor(F.abs(x)), 0, 2), depth=3, dtype="float64") * F.expand_dims(x, -1),
    "cast": lambda F, x: F.cast(F.cast(x, "float32"), "float64") + x,
    "round": lambda F, x: F.round(x) * F.sign(x) + F.floor(x) * x,
    "prod": lambda F, x: F.prod(F.tanh(x) + 1.5, axis=-1, keepdims=True),
    "pow": lambda F, x: (F.abs(x) + 0.5) ** 1.5 - 2**x,
    "slice_like": lambda F, x: F.slice_like(x, F.slice_axis(x, axis=0, begin=0, end=1), axes=(0,)),
    "reverse_slice": lambda F, x: x[::-1] * x,
    "nested": lambda F, x: F.concat(*[F.mean(x, axis=0, keepdims=True)] * 2, x, dim=0),
}


def broadcasts(a, b):
    """Whether two shapes broadcast, and do not grow too large."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return all(m == n or 1 in (m, n) for m, n in zip(a, b, strict=True)) and rank <= 4


class Program:
    """A random straight-line program: the shapes of its inputs, its steps, and which values it returns."""

    def __init__(self, shapes, steps, outputs):
        self.shapes = shapes
        self.steps = steps
        self.outputs = outputs

    def run(self, F, inputs):
        values = list(inputs)
        for step, operands in self.steps:
            values.append(step(F, *[values[i] for i in operands]))
        return [values[i] for i in self.outputs]

    def __repr__(self):
        steps = [f"v{len(self.shapes) + n} = {s.label}{tuple(o)}" for n, (s, o) in enumerate(self.steps)]
        return f"inputs {self.shapes}; {'; '.join(steps)}; return {self.outputs}"


class Step:
    """One operation and a name for it."""

    def __init__(self, label, function):
        self.label = label
        self.function = function

    def __call__(self, F, *args):
        return self.function(F, *args)


@st.composite
def programs(draw):
    rank = draw(st.integers(1, 3))
    full = tuple(draw(st.sampled_from(SIZES)) for _ in range(rank))
    shapes = [full]
    for _ in range(draw(st.integers(0, 2))):  # inputs that broadcast against the first
        some = tuple(n if draw(st.booleans()) else 1 for n in full)
        shapes.append(some[draw(st.integers(0, rank - 1)) :])
    known = list(shapes)
    steps = []

    def emit(label, function, operands):
        probe = function(mx.nd, *[mx.nd.ones(known[i], dtype="float64") for i in operands])
        if probe.size > 20000 or probe.ndim > 4:
            return
        steps.append((Step(label, function), operands))
        known.append(probe.shape)

    for _ in range(draw(st.integers(1, 9))):
        i = draw(st.integers(max(0, len(known) - 4), len(known) - 1))
        shape = known[i]
        kind = draw(
            st.sampled_from(["unary", "unary", "binary", "binary", "reduce", "move", "join", "matmul", "other"])
        )
        if kind == "unary":
            name = draw(st.sampled_from(sorted(UNARY)))
            emit(name, UNARY[name], [i])
        elif kind == "binary":
            partners = [j for j, s in enumerate(known) if broadcasts(shape, s)]
            j = draw(st.sampled_from(partners))
            name = draw(st.sampled_from(sorted(BINARY)))
            emit(name, BINARY[name], draw(st.permutations([i, j])))
        elif kind == "reduce":
            name = draw(st.sampled_from(sorted(REDUCE)))
            axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
            axis, keep = tuple(sorted(axes)), draw(st.booleans())
            emit(f"{name}{axis}{keep}", lambda F, x, n=name, a=axis, k=keep: REDUCE[n](F, x, a, k), [i])
        elif kind == "move":
            emit(*draw(moves(shape)), [i])
        elif kind == "other":
            name = draw(st.sampled_from(sorted(OTHER)))
            emit(name, OTHER[name], [i])
        elif kind == "join":
            axis = draw(st.integers(0, len(shape) - 1))
            emit(f"concat{axis}", lambda F, x, y, a=axis: F.concat(x, y, dim=a), [i, i])
        elif len(shape) == 2:
            emit("dot", lambda F, x, y: F.dot(x, y, transpose_b=True) * 0.1, [i, i])
        elif len(shape) == 3:
            emit("batch_dot", lambda F, x, y: F.batch_dot(x, y, transpose_b=True) * 0.1, [i, i])
    last = len(known) - 1
    more = draw(st.lists(st.integers(0, last), max_size=2))
    return Program(shapes, steps, [last, *more])


@st.composite
def moves(draw, shape):
    kind = draw(
        st.sampled_from(["transpose", "flat", "slice", "step", "expand", "swap", "flip", "repeat", "broadcast"])
    )
    axis = draw(st.integers(0, len(shape) - 1))
    if kind == "transpose":
        axes = tuple(draw(st.permutations(range(len(shape)))))
        return f"transpose{axes}", lambda F, x: F.transpose(x, axes=axes)
    if kind == "flat":
        return "flat", lambda F, x: F.reshape(x, (-1,))
    if kind == "slice":
        begin = draw(st.integers(0, shape[axis] - 1))
        end = draw(st.integers(begin + 1, shape[axis]))
        return f"slice{axis}:{begin}:{end}", lambda F, x: F.slice_axis(x, axis=axis, begin=begin, end=end)
    if kind == "step":
        return "step", lambda F, x: x[::2]
    if kind == "expand":
        return f"expand{axis}", lambda F, x: F.expand_dims(x, axis=axis)
    if kind == "swap":
        return f"swap{axis}", lambda F, x: F.swapaxes(x, 0, axis)
    if kind == "flip":
        return f"flip{axis}", lambda F, x: F.flip(x, axis=axis)
    if kind == "repeat":
        return f"repeat{axis}", lambda F, x: F.repeat(x, repeats=2, axis=axis)
    return "broadcast", lambda F, x: F.broadcast_to(F.expand_dims(x, 0), shape=(3, *shape))


class Net(HybridBlock):
    """A random program as a block."""

    def __init__(self, program):
        super().__init__()
        self.program = program

    def hybrid_forward(self, F, *inputs):
        return self.program.run(F, inputs)


def evaluate(program, arrays, active, which):
    """Outputs (recorded and not) and the gradients of all inputs."""
    net = Net(program)
    net.hybridize(active)
    inputs = [mx.nd.array(a, dtype="float64") for a in arrays]
    plain = [y.asnumpy() for y in net(*inputs)]
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record():
        outputs = net(*inputs)
    heads = [outputs[i] for i in which if outputs[i]._entry is not None]
    found = [y.asnumpy() for y in outputs]
    if heads:
        rng = np.random.default_rng(5)
        grads = [mx.nd.array(rng.normal(size=h.shape), dtype="float64") for h in heads]
        mx.autograd.backward(heads, grads)
    for before, x in zip(arrays, inputs, strict=True):
        np.testing.assert_array_equal(x.asnumpy(), before, err_msg="an input was written")
    return plain, found, [x.grad.asnumpy() for x in inputs]


@pytest.mark.long
@settings(max_examples=tries(80), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(program=programs(), elements=st.sampled_from([4, 16, 100, 10000]), data=st.data())
def test_compiled_agrees_with_eager(program, elements, data):
    rng = np.random.default_rng(len(program.steps))
    arrays = [rng.normal(size=s) for s in program.shapes]
    which = data.draw(st.sampled_from([[0], list(range(len(program.outputs)))]))
    eager = evaluate(program, arrays, False, which)
    with tiles(elements, elements * 4):
        compiled = evaluate(program, arrays, True, which)
    for kind, got, want in zip(("outputs", "recorded outputs", "gradients"), compiled, eager, strict=True):
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape, kind
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9, err_msg=f"{kind} of {program}")


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_random_graphs_agree_with_finite_differences(seed):
    """The oracle of the test above, tested: smooth steps only, so that differences exist."""
    rng = np.random.default_rng(seed)
    smooth = ["exp", "tanh", "sin", "sigmoid", "square", "sqrt", "scale", "inverse", "softmax"]
    picks = [UNARY[n] for n in rng.permutation(smooth)[:4]]

    def forward(F, x, y):
        for f in picks:
            x = f(F, x) + y * 0.5
        return F.sum(x * F.transpose(F.dot(x, x, transpose_b=True))[:, 0:1])

    net = mx.gluon.nn.HybridLambda(forward)
    net.hybridize()
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(4,))

    def loss(a, b):
        return net(mx.nd.array(a, dtype="float64"), mx.nd.array(b, dtype="float64")).asscalar()

    inputs = [mx.nd.array(v, dtype="float64") for v in (x, y)]
    for v in inputs:
        v.attach_grad()
    with mx.autograd.record():
        z = net(*inputs)
    z.backward()
    for position, v in enumerate((x, y)):
        numeric = np.zeros_like(v)
        for index in np.ndindex(v.shape):
            moved = [[x, y], [x, y]]
            for sign, pair in zip((1, -1), moved, strict=True):
                changed = v.copy()
                changed[index] += sign * 1e-6
                pair[position] = changed
            numeric[index] = (loss(*moved[0]) - loss(*moved[1])) / 2e-6
        np.testing.assert_allclose(inputs[position].grad.asnumpy(), numeric, rtol=1e-5, atol=1e-6)
