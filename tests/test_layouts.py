"""Networks of images keep channels last: what the plan says of its arrays' sizes, and what ``explain()`` says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import hybridc as mx
from hybridc.compile.stages import trace_block
from hybridc.dialects.mlir.hybrid_rt import AliasOp, LaunchOp
from hybridc.gluon import nn
from hybridc.gluon.model_zoo import vision
from hybridc.ir.structured import shape_of
from hybridc.ir.values import functions
from hybridc.options import OPTIONS

CHANNELS = {3, 16, 32, 64, 128, 256, 512}
WIDTHS = {166, 160, 82, 80, 42, 40, 22, 20, 12, 10, 5}  # and not those of windows


def fastest(value, strides):
    """The size of the dimension of stride 1 in memory, of an array with three dimensions or more; else None."""
    sizes = [(s, n) for s, n in zip(strides, shape_of(value), strict=True) if n > 1]
    return min(sizes)[1] if len(sizes) > 2 else None


def transposing(function: FuncOp):
    """The launches that visit arrays whose neighbours in memory are channels, and others where they are pixels."""
    strides = {}
    found = []
    for op in function.body.block.ops:
        if isinstance(op, AliasOp):
            shape = shape_of(op.array)
            plain = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
            strides[op.result] = op.strides(shape, strides.get(op.array, tuple(plain)))
        if isinstance(op, LaunchOp):
            each = set()
            for value in (*op.ins, *op.outs):
                shape = shape_of(value)
                plain = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
                each.add(fastest(value, strides.get(value) or plain))
            if each & CHANNELS and each & WIDTHS:
                found.append(op.kernel.string_value())
    return found


def lowered(net, *shape):
    net.initialize()
    x = mx.nd.zeros(shape)
    net(x)
    return trace_block(net, [x]).optimize().lower("numpy")


def test_a_resnet_transposes_its_image_alone():
    made = lowered(vision.resnet18_v1(), 1, 3, 96, 160)
    found = transposing(next(f for f in functions(made.module) if f.sym_name.data == "forward"))
    assert found == ["k_pad"]
    assert made.programs["forward"].layout.endswith("; 1 kernel transposes (k_pad)")


def net_of(*blocks, prefix="layouts_"):
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(*blocks)
    net.initialize()
    return net


@pytest.mark.parametrize("pool", [
    {"pool_size": 3, "strides": 1, "padding": 1},  # at computed indices, of arrays whose dimensions have one size
    {"pool_size": 2, "strides": 2},  # at affine ones
])  # fmt: skip
def test_pooling_between_convolutions_keeps_the_layout(pool):
    net = net_of(
        nn.Conv2D(7, 3, padding=1, in_channels=7), nn.MaxPool2D(**pool), nn.Activation("relu"),
        nn.Conv2D(5, 3, padding=1, in_channels=7),
    )  # fmt: skip
    x = mx.nd.array(np.random.default_rng(0).normal(size=(1, 7, 7, 7)))
    wanted = net(x).asnumpy()
    graph = trace_block(net, [x]).optimize().lower("numpy").compile()
    np.testing.assert_allclose(graph(x).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    assert "1 kernel transposes" in graph.forward.program.layout  # the image or the result


@pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target packs weights, which are arrays more")
def test_explain_tells_the_layouts():
    net = net_of(nn.Conv2D(4, 3, in_channels=3), nn.Conv2D(2, 3, in_channels=4), nn.GlobalAvgPool2D())
    net.hybridize()
    x = mx.nd.ones((2, 3, 8, 9))
    net(x)
    line = next(line for line in net.explain().splitlines() if "channels last" in line)
    assert line.strip() == "channels last: 3 of 4 arrays of images; 0 kernels transpose"  # the image is read as it is


@pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target packs weights, which are arrays more")
def test_a_training_step_transposes_no_images():
    """But the one that it is given: what else is transposed are weights."""
    layers = []
    for channels in (3, 6, 6):
        layers += [nn.Conv2D(6, 3, padding=1, in_channels=channels), nn.BatchNorm(), nn.Activation("relu")]
    net = net_of(*layers, nn.GlobalAvgPool2D(), nn.Dense(4))
    net.hybridize()
    x, y = mx.nd.ones((2, 3, 8, 9)), mx.nd.zeros(2)
    net(x)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    step(x, y)
    line = next(line for line in step.explain().splitlines() if "channels last" in line)
    flipped, updated = 2, 3  # each weight, the first one's gradient of the image is not needed
    assert f"; {1 + flipped + updated} kernels transpose (k_pad, k_flip, " in line


def test_without_images_there_is_no_line():
    net = net_of(nn.Dense(3, in_units=4))
    net.hybridize()
    net(mx.nd.ones((2, 4)))
    assert "channels" not in net.explain()
