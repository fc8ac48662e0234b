"""The networks of images that benchmarks share: NumPy's definition against finite differences, Gluon's against it."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import hybridc as mx
from benchmarks import images
from benchmarks.image_builders import NumPyBuilder, Value
from benchmarks.image_networks import NETWORKS, RESNET18_LAYERS, Conv, ImageNetwork, ShapeBuilder, costs, inputs
from hybridc import autograd

RNG = np.random.default_rng(0)


def everything(b, x):
    """Each layer that a builder has, of images of four channels."""
    x = b.relu(b.norm(b.conv(x, "1", Conv(4, 6, (3, 2), 2, pad=(1, 0), groups=2)), "1", 6))
    y = b.conv(x, "2", Conv(6, 6, (3, 3), dilate=2, groups=6))
    y = b.add(y, b.multiply(b.tanh(x), b.sigmoid(y)))
    x = b.clip(b.conv(b.concat(x, y), "3", Conv(12, 4, (3, 3), 2, pad=(1, 1), groups=2, transposed=True)), -2.0, 2.0)
    x = b.max_pool(x, 3, 2, 1)
    return b.add(b.dense(b.mean_pool(x), "4", 4, 5), b.dense(b.flatten(x), "5", 4 * 5 * 4, 5))


def test_the_definition_differentiates_as_finite_differences_do():
    network = ImageNetwork("", everything, (3, 4, 9, 8), classes=5)
    arrays = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in inputs(network, RNG).items()}

    def run(changed):
        builder = NumPyBuilder(changed, training=True)
        x = Value(changed["x"])
        return builder, x, everything(builder, x)

    builder, x, result = run(arrays)
    dy = RNG.standard_normal(result.array.shape)
    grads = {**builder.backward(result, dy), "x": x.grad}
    for name, array in arrays.items():
        if name[0] not in "xwbgh":
            continue
        step = RNG.standard_normal(array.shape)
        step *= 1e-6 / np.abs(step).max()
        up, down = (run({**arrays, name: array + s * step})[2].array for s in (1, -1))
        expected = ((up - down) * dy).sum() / 2
        assert abs((grads[name] * step).sum() - expected) <= 1e-6 * abs(expected) + 1e-14, name


@pytest.mark.parametrize(
    "layer", [Conv(2, 2, (2,), dilate=3, causal=True), Conv(2, 4, (3, 1, 2), 2, groups=2)], ids=str
)
def test_a_convolution_along_other_axes_is_what_its_loops_say(layer):
    x, w = RNG.standard_normal((2, 2, 7, 6, 5)[: 2 + len(layer.kernel)]), RNG.standard_normal(layer.weight)
    made = NumPyBuilder({"w": w}).conv(Value(x), "", layer).array
    padded = np.pad(x, [(0, 0), (0, 0), *layer.border])
    expected = np.zeros((2, layer.filters, *layer.sizes(x.shape[2:])))
    channels = layer.channels // layer.groups
    for n, f, *place in itertools.product(*map(range, expected.shape)):
        first = f // (layer.filters // layer.groups) * channels
        for c, *tap in itertools.product(range(channels), *map(range, layer.kernel)):
            at = [p * layer.stride + t * layer.dilate for p, t in zip(place, tap, strict=True)]
            expected[n, f, *place] += padded[n, first + c, *at] * w[f, c, *tap]
    np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-12)


SMALL = {
    "everything": ImageNetwork("", everything, (3, 4, 9, 8)),
    "everything, trained": ImageNetwork("", everything, (3, 4, 9, 8), classes=5),
    "everything, its gradient": ImageNetwork("", everything, (3, 4, 9, 8), gradient="w2"),
    **{
        name: dataclasses.replace(NETWORKS[name], shape=shape)
        for name, shape in (("wavenet", (1, 32, 9)), ("3d_dx", (1, 16, 3, 4, 5)))
    },
}


@pytest.mark.parametrize("name", SMALL)
def test_gluon_computes_what_the_definition_says(name):
    network = SMALL[name]
    given = inputs(network, np.random.default_rng(3))
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in given.items()}
    expected = images.reference(network, wide)
    arrays = {k: mx.nd.array(v, dtype="float32") for k, v in given.items()}
    program = images.PROGRAMS[network.kind](network, arrays, False)
    for got, want in zip(program.fetch(program.call()), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())
    assert not autograd.is_recording()


def test_costs_are_counted_without_making_arrays():
    assert [costs(NETWORKS[name])[1] for name in ("resnet18", "resnet50")] == [3628146688, 8178368512]
    moved, flops = costs(NETWORKS["transposed_dw"])
    assert (moved, flops) == (4 * (4 * 64 * 28**2 + 64 * 32 * 16 + 4 * 32 * 56**2), 2 * 4 * 64 * 28**2 * 32 * 16)
    shapes = {name: n.function(ShapeBuilder(), n.shape) for name, n in NETWORKS.items()}
    assert shapes["unet"] == (1, 2, 128, 128)
    assert shapes["wavenet"] == (4, 256, 2048)
    assert shapes["mobilenet"] == (1, 1000)
    assert len(RESNET18_LAYERS) == 11
