"""Transforms as parts of compiled networks: the same results as eagerly, and exported with the network."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.vision.resampling import resample
from hybridc.gluon.data.vision import transforms

pytestmark = pytest.mark.usefixtures("by_numpy")

IMAGES = np.random.default_rng(5).integers(0, 256, (2, 30, 40, 3)).astype(np.uint8)
KINDS = [
    lambda: transforms.Resize((20, 15)),
    lambda: transforms.Resize(10, keep_ratio=True, interpolation=3),
    lambda: transforms.Resize((17, 45), interpolation=2),
    lambda: transforms.CropResize(3, 2, 20, 16),
    lambda: transforms.CropResize(3, 2, 20, 16, (7, 9), 0),
    lambda: transforms.RandomFlipLeftRight(),
    lambda: transforms.RandomFlipTopBottom(),
    lambda: transforms.RandomBrightness(0.3),
    lambda: transforms.RandomContrast(0.3),
    lambda: transforms.RandomSaturation(0.3),
    lambda: transforms.RandomHue(0.3),
    lambda: transforms.RandomColorJitter(0.1, 0.2, 0.3, 0.1),
    lambda: transforms.RandomLighting(0.1),
    lambda: transforms.RandomGray(0.5),
    lambda: transforms.HybridRandomApply([transforms.RandomFlipTopBottom()]),
    lambda: transforms.HybridCompose([transforms.Resize(9), transforms.ToTensor(), transforms.Normalize(0.5, 0.2)]),
]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("make", KINDS)
def test_compiled_as_eager(make, dtype, batched):
    image = mx.nd.array(IMAGES if batched else IMAGES[0], dtype=dtype)
    transform = make()
    transform.hybridize(False)
    made = []
    for _ in range(2):
        with mx.random.isolated(3):
            made.append([transform(image).asnumpy() for _ in range(3)])
        transform.hybridize()
    for eager, compiled in zip(*made, strict=True):
        assert eager.dtype == compiled.dtype
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size", [(10, 10), (33, 20), (20, 15), (7, 45)])
@pytest.mark.parametrize("method", range(5))
def test_the_operator_has_the_pixels_of_imresize(method, size):
    """Both are OpenCV's, which the golden images show for the function."""
    operator = mx.nd.image.resize(mx.nd.array(IMAGES, dtype="uint8"), size=size, interp=method).asnumpy()
    for image, made in zip(IMAGES, operator, strict=True):
        np.testing.assert_array_equal(made, mx.image.imresize(mx.nd.array(image, dtype="uint8"), *size, method))


def test_averages_of_areas_of_bytes():
    """Blocks of 3 x 4 pixels, summed in whole numbers."""
    blocks = IMAGES[0].astype(np.int64).reshape(10, 3, 10, 4, 3).sum((1, 3))
    np.testing.assert_array_equal(resample(IMAGES[0], 10, 10, 3), np.rint(blocks / 12).astype(np.uint8))


def test_exported_with_the_network(tmp_path):
    net = mx.gluon.nn.HybridSequential(prefix="")
    net.add(
        transforms.CropResize(1, 2, 30, 20, 12, 1), transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), 0.5)
    )
    net.add(mx.gluon.nn.Conv2D(2, 3))
    net.initialize()
    net.hybridize()
    x = mx.nd.array(IMAGES, dtype="uint8")
    want = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(again(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(again(x[:1]).asnumpy(), want[:1], rtol=1e-5, atol=1e-6)
