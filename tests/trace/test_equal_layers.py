"""Equal layers are formed once: what they compute is what the operators one by one do."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon
from hybridc.compile.stages import Traced
from hybridc.dialects.control.layer import EqualLayer
from hybridc.errors import MXNetError
from hybridc.gluon import nn
from hybridc.ir.structured import kernels
from hybridc.trace.equal_layers import LAYERS, with_equal_layers
from hybridc.trace.tracer import trace_call

SIZE, HEADS, LAYER_COUNT = 8, 2, 5


class Layer(gluon.HybridBlock):
    """An encoder's layer; a dense layer may be one that others have, too."""

    def __init__(self, shared=None, size=SIZE):
        super().__init__()
        self.project = nn.Dense(3 * size, flatten=False, in_units=size)
        self.join = nn.Dense(size, flatten=False, in_units=size) if shared is None else shared
        self.norm, self.drop = nn.LayerNorm(in_channels=size), nn.Dropout(0.5)

    def hybrid_forward(self, F, x, mask=None):
        q, k, v = (self.by_head(F, part) for part in F.split(self.project(x), num_outputs=3, axis=-1))
        scores = F.batch_dot(q, k, transpose_b=True)
        scores = scores if mask is None else F.broadcast_add(scores, mask)
        mixed = F.reshape(F.batch_dot(F.softmax(scores), v), (-4, -1, HEADS, 0, 0))
        joined = self.join(F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -3)))
        return self.norm(x + self.drop(F.LeakyReLU(joined, act_type="gelu")))

    def by_head(self, F, x):
        split = F.transpose(F.reshape(x, (0, 0, -4, HEADS, -1)), (0, 2, 1, 3))
        return F.reshape(split, (-3, 0, 0))


class Stack(gluon.HybridBlock):
    """Layers, and what is made of the results of each."""

    def __init__(self, layers, forward=None):
        super().__init__()
        self.layers, self.function = layers, forward
        for layer in layers:
            self.register_child(layer)

    def hybrid_forward(self, F, x, *masks):
        rows = []
        for layer in self.layers:
            x = layer(x, *masks)
            rows.append(x)
        return x if self.function is None else self.function(F, rows)


def stack(count=LAYER_COUNT, forward=None, dtype="float64", **given):
    mx.random.seed(5)
    net = Stack([Layer(**given) for _ in range(count)], forward)
    net.initialize(mx.init.Normal(0.5))
    net.cast(dtype)
    return net


def array(*shape, dtype="float64"):
    return mx.nd.array(np.random.default_rng(sum(shape)).standard_normal(shape), dtype=dtype)


def layers_of(net, *inputs, training=False):
    """The layers that are nodes of its own."""
    trace = with_equal_layers(trace_call(net, inputs, training))
    return [node for node in trace.nodes if isinstance(node.op, EqualLayer)]


def agrees(net, *inputs, rtol=1e-9):
    net.hybridize(active=False)
    expected = net(*inputs)
    net.hybridize()
    found = net(*inputs)
    pairs = zip(found, expected, strict=True) if isinstance(found, (list, tuple)) else [(found, expected)]
    for got, wanted in pairs:
        wanted = wanted.asnumpy().astype("float64")
        np.testing.assert_allclose(got.asnumpy().astype("float64"), wanted, rtol=0, atol=rtol * np.abs(wanted).max())


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("float64", 1e-12), ("float16", 1e-2)])
def test_an_encoder_is_formed_once(dtype, rtol):
    net, x = stack(dtype=dtype), array(3, 4, SIZE, dtype=dtype)
    nodes = layers_of(net, x)
    assert len(nodes) == LAYER_COUNT
    assert len({id(node.op) for node in nodes}) == 1
    agrees(net, x, rtol=rtol)


@pytest.mark.parametrize("count", [LAYERS, 2 * LAYERS])
def test_all_layers_have_the_same_kernels(count):
    """As many kernels for more layers; each layer calls all of them."""
    traced = Traced(trace_call(stack(count), [array(3, 4, SIZE)], False)).with_layers()
    module = traced.optimize().form("llvm").module
    several = Traced(trace_call(stack(3 * LAYERS), [array(3, 4, SIZE)], False)).with_layers()
    assert {*kernels(module)} == {*kernels(several.optimize().form("llvm").module)}


def all_rows(F, rows):
    return F.concat(*rows, dim=1)


def first_and_last(F, rows):
    return rows[0] * rows[-1], rows[1]


@pytest.mark.parametrize("forward", [all_rows, first_and_last])
def test_results_of_single_layers_are_read(forward):
    net, x = stack(forward=forward), array(2, 4, SIZE)
    assert len(layers_of(net, x)) == LAYER_COUNT
    agrees(net, x)


def test_all_layers_read_a_mask():
    net, x, mask = stack(), array(2, 4, SIZE), mx.nd.array(np.triu(np.full((1, 4, 4), -9.0), 1), dtype="float64")
    assert len(layers_of(net, x, mask)) == LAYER_COUNT
    agrees(net, x, mask)


def test_layers_multiply_rows_with_what_all_read():
    """A loop would do that for all rows before its steps."""

    def forward(self, F, x, weight, *rows):
        for row in rows:
            x = F.tanh(F.dot(x, weight) + F.dot(row, weight)) * F.sigmoid(F.dot(x, weight) - row) + F.sin(x)
        return x

    net = type("Rows", (gluon.HybridBlock,), {"hybrid_forward": lambda self, F, *args: forward(self, F, *args)})()
    inputs = [array(3, 4) / (n + 1) if n != 1 else array(4, 4) for n in range(2 + LAYERS)]
    assert len(layers_of(net, *inputs)) == LAYERS
    agrees(net, *inputs)


def test_layers_call_the_host():
    """For what a kernel cannot compute; each layer calls the same functions."""

    class OfGammas(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(SIZE, in_units=SIZE)

        def hybrid_forward(self, F, x):
            y = F.gamma(F.abs(self.dense(x)) + 1)
            return F.tanh(x + F.sin(y) * F.digamma(F.abs(y) + 1))

    net, x = Stack([OfGammas() for _ in range(LAYER_COUNT)]), array(3, SIZE)
    net.initialize(mx.init.Normal(0.3))
    net.cast("float64")
    assert len(layers_of(net, x)) == LAYER_COUNT
    agrees(net, x)


def test_layers_begin_with_a_parameter():
    """It is the first layer's input only: those of others are computed."""
    net = stack(forward=lambda F, rows: rows[-1])
    begin = mx.gluon.Parameter("begin", shape=(2, 4, SIZE), dtype="float64")
    begin.initialize(mx.init.Normal(0.5))
    begins = type("Begins", (gluon.HybridBlock,), {"hybrid_forward": lambda self, F, x, begin: self.net(begin) + x})()
    begins.net, begins.begin = net, begin
    nodes = layers_of(begins, array(2, 4, SIZE))
    assert len(nodes) == LAYER_COUNT
    states = [{i for i, x in enumerate(node.inputs) if x.shape == (2, 4, SIZE)} for node in nodes]
    assert not any(places & {*node.op.fixed} for places, node in zip(states, nodes, strict=True))
    agrees(begins, array(2, 4, SIZE))


def test_layers_share_a_dense_layer():
    net, x = stack(shared=nn.Dense(SIZE, flatten=False, in_units=SIZE)), array(2, 4, SIZE)
    assert len(layers_of(net, x)) == LAYER_COUNT
    agrees(net, x)


def test_two_stacks_after_each_other():
    net = nn.HybridSequential()
    wide = nn.Dense(2 * SIZE, flatten=False, in_units=SIZE)
    net.add(stack(), wide, Stack([Layer(size=2 * SIZE) for _ in range(LAYERS)]))
    net.initialize(mx.init.Normal(0.5), force_reinit=True)
    net.cast("float64")
    assert len(layers_of(net, array(2, 4, SIZE))) == LAYER_COUNT + LAYERS
    agrees(net, array(2, 4, SIZE))


def test_layers_of_plain_matrices():
    """Several small layers are one then; a rest that is less stays as it is."""
    net = nn.HybridSequential()
    for _ in range(27):
        net.add(nn.Dense(6, activation="tanh", in_units=6))
    net.initialize(mx.init.Normal(0.5))
    net.cast("float64")
    assert layers_of(net, array(2, 6))
    agrees(net, array(2, 6))


class Block(gluon.HybridBlock):
    """A residual block on images, with scale and shift of its own for all of them."""

    def __init__(self, layout="NCHW"):
        super().__init__()
        axis = layout.index("C")
        self.first = nn.Conv2D(8, 3, padding=1, in_channels=8, layout=layout)
        self.second = nn.Conv2D(8, 1, in_channels=8, layout=layout)
        self.norms = nn.BatchNorm(axis=axis, in_channels=8), nn.BatchNorm(axis=axis, in_channels=8)
        for norm in self.norms:
            self.register_child(norm)

    def hybrid_forward(self, F, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(y)))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("forward", [None, first_and_last])
def test_blocks_of_images(layout, forward):
    """Images stay turned between the blocks: as few kernels transpose as without layers."""
    net = Stack([Block(layout) for _ in range(LAYER_COUNT)], forward)
    net.initialize(mx.init.Normal(0.5))
    net.cast("float64")
    x = array(*((2, 8, 6, 5) if layout == "NCHW" else (2, 6, 5, 8)))
    assert len(layers_of(net, x)) == LAYER_COUNT
    agrees(net, x)


@pytest.mark.usefixtures("natively_stored")
def test_blocks_of_images_transpose_no_more(monkeypatch):
    told = []
    for with_layers in (Traced.with_layers, lambda self: self):
        monkeypatch.setattr(Traced, "with_layers", with_layers)
        net = Stack([Block() for _ in range(LAYER_COUNT)])
        net.initialize(mx.init.Normal(0.5))
        net.hybridize()
        net(array(2, 8, 16, 16, dtype="float32")).wait_to_read()
        told.append([line.split("(")[0] for line in net.explain().splitlines() if "channels last" in line])
    assert told[0] == told[1] != []


def unequal():
    net = nn.HybridSequential()
    for n in range(2 * LAYERS):
        net.add(Layer(), nn.Dense(SIZE, flatten=False, in_units=SIZE, activation="tanh" if n % 3 else "relu"))
    return net


@pytest.mark.parametrize("make", [lambda: stack(LAYERS - 1), unequal])
def test_others_stay(make):
    """Few; or layers that differ, of which three in a row are equal at most."""
    net = make()
    net.initialize(mx.init.Normal(0.5), force_reinit=True)
    net.cast("float64")
    trace = trace_call(net, [array(2, 4, SIZE)], False)
    assert with_equal_layers(trace) is trace


def test_the_trace_stays_as_it_was():
    trace = trace_call(stack(), [array(2, 4, SIZE)], False)
    before = [(node, [*node.inputs]) for node in trace.nodes]
    assert with_equal_layers(trace) is not trace
    assert [(node, node.inputs) for node in trace.nodes] == before


def test_gradients_are_of_the_operators():
    net, x = stack(), array(2, 4, SIZE)
    found = []
    for active in (False, True):
        net.hybridize(active=active)
        x.attach_grad()
        with mx.autograd.record(train_mode=False):
            y = net(x)
        y.backward()
        found.append([y.asnumpy(), x.grad.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())])
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * max(1, np.abs(expected).max()))


@pytest.mark.usefixtures("natively_stored")
def test_new_sizes_are_planned():
    net = stack()
    net.hybridize()
    for batch, length in ((3, 4), (5, 4), (3, 7)):
        x = array(batch, length, SIZE)
        agrees(net, x)
    net.hybridize()
    for batch, length in ((3, 4), (5, 6), (7, 9)):
        net(array(batch, length, SIZE))
    assert net.explain().count("planned with the kernels") + net.explain().count("from the cache on the disk") >= 2


def test_weights_are_packed_once_for_all_calls():
    """What follows from parameters alone is prepared, in each layer."""
    net, x = stack(size=64), array(2, 32, 64)
    agrees(net, x)
    net.layers[-1].project.weight.set_data(net.layers[0].project.weight.data() / 2)  # and made again
    agrees(net, x)


def test_users_do_not_make_layers():
    with pytest.raises(MXNetError, match="call a block several times"):
        mx.nd._equal_layer(mx.nd.ones(2))
