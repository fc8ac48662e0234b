"""How many kernels networks become: what fusion promises, counted in what is launched."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from benchmarks.workloads import WORKLOADS
from hybridc.compile.stages import Traced
from hybridc.gluon import nn
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import is_host, kernels
from hybridc.trace.tracer import trace_call


def lowered(net, *inputs, grads=None):
    """The last stage for these inputs; with a backward for the inputs of these names, or for all with ``()``."""
    trace = trace_call(net, list(inputs), grads is not None)
    wanted = [i for i, s in enumerate(trace.leaves) if s.dtype == np.float32]
    if grads:
        wanted = [i for i in wanted if trace.leaves[i].name in grads]
    return (
        Traced(trace, () if grads is None else tuple(wanted)).optimize().lower("numpy")
    )  # whose products keep their epilogues


def launches(kernel_op):
    """The kernels launched, by program."""
    return {name: list(program.launches) for name, program in kernel_op.programs.items()}


def contractions(kernel_op, name):
    """How many products the launches of a program compute, with or without an epilogue."""
    known = kernels(kernel_op.module)
    found = [known[k] for k in kernel_op.programs[name].launches if not is_host(known[k])]
    return sum(s.kind == "contraction" for k in found for s in read_kernel(k).ops)


def workload(name, block=0):
    """The last stage of a benchmark network's forward."""
    program = WORKLOADS[name].build(hybridized=False)
    return lowered(program.blocks[block], *program.feeds()[block])


# Of each benchmark network: kernels, and how many of them are products; no call of the host.
FORWARD = {
    "chain": (1, 0),
    "gelu_bias": (1, 0),
    "softmax": (1, 0),
    "layernorm": (1, 0),
    "norm_layer": (2, 0),
    "attention": (1, 2),
    "encoder": (8, 6),
    "mlp": (4, 3),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    kernel_op = workload(name)
    found, gemms = launches(kernel_op)["forward"], contractions(kernel_op, "forward")
    assert len(found) <= FORWARD[name][0], found
    assert gemms == FORWARD[name][1]
    assert not kernel_op.programs["forward"].host_calls
    assert not [k for k in found if k.startswith("host_")], "no call of the library either"


def test_heads_are_split_and_merged_by_strides():
    """Nothing in the encoder layer only moves elements: between its products there are views."""
    kernel_op = workload("encoder")
    known = kernels(kernel_op.module)
    for name in kernel_op.programs["forward"].launches:
        nests = read_kernel(known[name]).nests
        assert sum(len(s.steps) for n in nests for s in n.ops) > 0, f"{name} computes nothing"


def test_attention_with_a_mask_and_a_scale():
    class Attention(nn.HybridBlock):
        def hybrid_forward(self, F, q, k, v, mask):
            scores = F.batch_dot(q, k, transpose_b=True) * 0.125
            scores = F.where(F.broadcast_like(mask, scores), scores, F.full_like(scores, -1e9))
            return F.batch_dot(F.softmax(scores, axis=-1), v)

    q, k, v = (mx.nd.random.normal(shape=(32, 128, 64)) for _ in range(3))
    mask = mx.nd.array(np.tril(np.ones((1, 128, 128))))
    kernel_op = lowered(Attention(), q, k, v, mask)
    assert len(launches(kernel_op)["forward"]) == 1, launches(kernel_op)
    assert contractions(kernel_op, "forward") == 2


def test_attention_on_arrays_of_four_dimensions():
    class Attention(nn.HybridBlock):
        def hybrid_forward(self, F, q, k, v):
            q, k, v = (F.reshape(F.transpose(z, (0, 2, 1, 3)), (-3, -2)) for z in (q, k, v))
            out = F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.125), v)
            return F.reshape(F.transpose(F.reshape(out, (-4, -1, 8, -2)), (0, 2, 1, 3)), (0, 0, -3))

    kernel_op = lowered(Attention(), *(mx.nd.random.normal(shape=(4, 128, 8, 64)) for _ in range(3)))
    assert len(launches(kernel_op)["forward"]) == 1, launches(kernel_op)


def test_attention_on_interleaved_projections():
    class Attention(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            scores = F.contrib.interleaved_matmul_selfatt_qk(x, heads=4)
            return F.contrib.interleaved_matmul_selfatt_valatt(x, F.softmax(scores, axis=-1), heads=4)

    kernel_op = lowered(Attention(), mx.nd.random.normal(shape=(64, 2, 4 * 3 * 16)))
    assert len(launches(kernel_op)["forward"]) == 1, launches(kernel_op)
    assert contractions(kernel_op, "forward") == 2


def test_an_encoder_layer_with_eight_products():
    """As most write it: normalization after each half, queries, keys and values projected on their own, masked."""

    class Layer(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.q, self.k, self.v, self.o, self.down = (nn.Dense(64, flatten=False, in_units=n) for n in SIZES)
                self.up = nn.Dense(256, flatten=False, in_units=64)
                self.first, self.second = nn.LayerNorm(in_channels=64), nn.LayerNorm(in_channels=64)

        def hybrid_forward(self, F, x, mask):
            q, k, v = (
                F.reshape(F.transpose(F.reshape(p(x), (0, 0, 4, -1)), (0, 2, 1, 3)), (-3, -2))
                for p in (self.q, self.k, self.v)
            )
            scores = F.broadcast_add(F.batch_dot(q, k, transpose_b=True) / 4, mask)
            context = F.reshape(F.batch_dot(F.softmax(scores), v), (-4, -1, 4, -2))
            x = self.first(x + self.o(F.reshape(F.transpose(context, (0, 2, 1, 3)), (0, 0, -3))))
            return self.second(x + self.down(F.LeakyReLU(self.up(x), act_type="gelu")))

    SIZES = (64, 64, 64, 64, 256)
    net = Layer()
    net.initialize()
    kernel_op = lowered(net, mx.nd.random.normal(shape=(3, 20, 64)), mx.nd.zeros((1, 20, 20)))
    assert contractions(kernel_op, "forward") == 8
    assert len(launches(kernel_op)["forward"]) <= 10, launches(kernel_op)
    assert not [k for k in launches(kernel_op)["forward"] if k.startswith("host_")]


@pytest.mark.parametrize("name", ["log_softmax", "softmax", "softmin"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax_family_is_one_kernel(name, axis):
    net = nn.HybridLambda(lambda F, x: getattr(F, name)(x, axis=axis))
    assert len(launches(lowered(net, mx.nd.ones((40, 50, 60))))["forward"]) == 1


def test_an_lstm_cell_is_its_products_and_two_kernels():
    class Cell(nn.HybridBlock):
        def hybrid_forward(self, F, x, h, c, wx, wh, b):
            gates = F.FullyConnected(x, wx, b, num_hidden=256) + F.FullyConnected(h, wh, no_bias=True, num_hidden=256)
            i, f, g, o = F.split(gates, num_outputs=4, axis=1)
            c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
            return F.sigmoid(o) * F.tanh(c), c

    shapes = (16, 32), (16, 64), (16, 64), (256, 32), (256, 64), (256,)
    kernel_op = lowered(Cell(), *(mx.nd.ones(s) for s in shapes))
    assert contractions(kernel_op, "forward") == 2
    assert len(launches(kernel_op)["forward"]) <= 4, launches(kernel_op)


def test_layer_norm_and_its_backward():
    net = nn.HybridLambda(lambda F, x, g, b: F.LayerNorm(x, g, b))
    arrays = [mx.nd.ones(s) for s in ((4096, 1024), (1024,), (1024,))]
    found = launches(lowered(net, *arrays, grads=()))
    assert sum(map(len, found.values())) <= 3, found


def test_cross_entropy_and_its_backward():
    net = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    kernel_op = lowered(net, mx.nd.ones((4096, 100)), mx.nd.zeros((4096,)), grads=("data0",))
    found = launches(kernel_op)
    assert len(found["forward"]) == 1, found
    assert sum(map(len, found.values())) <= 3, found


def test_moments_of_a_whole_array_are_two_walks():
    """Mean and variance by sums; their tails are computed again where they are read."""

    def forward(F, x):
        mean = F.mean(x)
        variance = F.mean(F.square(x)) - F.square(mean)
        return F.broadcast_div(F.broadcast_sub(x, mean), F.sqrt(variance + 1e-5))

    assert len(launches(lowered(nn.HybridLambda(forward), mx.nd.ones((600, 700))))["forward"]) == 2


@pytest.mark.parametrize(("name", "layers"), [("sgd", 2), ("sgd", 30), ("adam", 2)])
def test_an_update_of_all_parameters_is_one_kernel(name, layers):
    net = nn.HybridSequential()
    net.add(nn.Dense(20, in_units=32), *(nn.Dense(20 + i) for i in range(layers)))
    net.initialize()
    settings = {"learning_rate": 0.1} | ({"momentum": 0.9} if name == "sgd" else {})
    trainer = mx.gluon.Trainer(net.collect_params(), name, settings)
    with mx.autograd.record():
        loss = net(mx.nd.ones((4, 32))).sum()
    loss.backward()
    trainer.step(4)
    assert "1 kernel," in trainer.explain(), trainer.explain()
