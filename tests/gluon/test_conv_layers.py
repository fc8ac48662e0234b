"""Convolution, pooling and related layers: as MXNet 1.9.1 has them (tests/golden/make_conv_layers.py), and errors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from hybridc.gluon.contrib import cnn
from hybridc.gluon.contrib import nn as contrib_nn

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

from conv_layer_cases import CASES, random  # noqa: E402
from programs import Recorded  # noqa: E402

RECORDED = Recorded("conv_layers")


def leave(block):
    """Eager."""


def hybridize(block):
    """Hybridized."""
    block.hybridize()


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx, leave))


@pytest.mark.parametrize("name", CASES)
def test_hybridized_same_as_mxnet(name, by_numpy):
    RECORDED.assert_same(name, CASES[name](mx, hybridize))


@pytest.mark.long  # native code of these operators: tests/ops/test_hybridized.py, tests/lower/test_convolutions.py
@pytest.mark.parametrize("name", CASES)
def test_native_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx, hybridize))


LAST = {
    "conv2d": (lambda **o: nn.Conv2D(6, (3, 2), 2, 1, groups=2, **o), "NHWC"),
    "conv3d": (lambda **o: nn.Conv3D(3, 2, **o), "NDHWC"),
    "transpose2d": (lambda **o: nn.Conv2DTranspose(4, 3, 2, 1, 1, **o), "NHWC"),
    "max1d": (lambda **o: nn.MaxPool1D(3, **o), "NWC"),
    "avg2d": (lambda **o: nn.AvgPool2D(3, 2, 1, **o), "NHWC"),
    "global3d": (lambda **o: nn.GlobalAvgPool3D(**o), "NDHWC"),
}


@pytest.mark.parametrize("name", LAST)
def test_channels_may_be_last(name):
    make, layout = LAST[name]
    first, last = make(), make(layout=layout)
    x = random(2, 4, *(6, 5, 4)[: len(layout) - 2])
    for layer in (first, last):
        layer.initialize()
    y = first(mx.nd.array(x)).asnumpy()
    channels_last = mx.nd.array(np.moveaxis(x, 1, -1))
    last(channels_last)
    for a, b in zip(first.params.values(), last.params.values(), strict=True):
        b.set_data(mx.nd.array(np.moveaxis(a.data().asnumpy(), 1, -1) if a.data().ndim > 1 else a.data()))
    np.testing.assert_allclose(np.moveaxis(last(channels_last).asnumpy(), -1, 1), y, rtol=1e-5, atol=1e-6)


def test_transposed_convolutions_say_their_channels():
    text = "Conv2DTranspose(6 -> 4, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1), groups=2, bias=False)"
    assert repr(nn.Conv2DTranspose(4, 3, 2, 0, 1, groups=2, use_bias=False, in_channels=6)) == text
    assert repr(nn.Conv2D(4, 3, layout="NHWC", in_channels=2)).startswith("Conv2D(2 -> 4, ")


def test_a_modulated_convolution_begins_as_a_convolution():
    modulated = cnn.ModulatedDeformableConvolution(4, 3, padding=1, activation="relu")
    plain = nn.Conv2D(4, 3, padding=1, activation="relu")
    x = mx.nd.array(random(2, 2, 5, 6))
    for layer in (modulated, plain):
        layer.initialize()
        layer(x)
    plain.weight.set_data(modulated.deformable_conv_weight.data())  # the offsets are 0 and the samples weigh 1
    np.testing.assert_allclose(modulated(x).asnumpy(), plain(x).asnumpy(), rtol=1e-5, atol=1e-6)
    y = modulated(x).asnumpy()
    modulated.hybridize()
    np.testing.assert_allclose(modulated(x).asnumpy(), y, rtol=1e-5, atol=1e-6)


WRONG = {
    "layout must be 'NCHW' or 'NHWC', got 'NCW'": lambda: nn.Conv2D(3, 3, layout="NCW"),
    "layout must be 'NCW', got 'NWC'": lambda: nn.Conv1D(3, 3, layout="NWC"),
    "kernel_size must be a number or a list of 2 ints, got (3, 3, 3)": lambda: nn.Conv2D(3, (3, 3, 3)),
    "output_padding must be a number or a list of 3 ints, got (1,)": lambda: nn.Conv3DTranspose(
        3, 2, output_padding=(1,)
    ),
    "Conv2D: channels must be a multiple of groups, got 3 and 2": lambda: nn.Conv2D(3, 3, groups=2),
    "Conv1D: in_channels must be a multiple of groups, got 3 and 2": lambda: nn.Conv1D(2, 3, groups=2, in_channels=3),
    "MaxPool1D: layout must be 'NCW' or 'NWC', got 'NCHW'": lambda: nn.MaxPool1D(layout="NCHW"),
    "AvgPool3D: pool_size must be a number or a list of 3 ints, got (2, 2)": lambda: nn.AvgPool3D((2, 2)),
    "ReflectionPad2D: padding must be a number or a tuple of 8 ints, got (1, 1)": lambda: nn.ReflectionPad2D((1, 1)),
    "PixelShuffle3D: factor must be a number or a list of 3 ints": lambda: contrib_nn.PixelShuffle3D((1, 2)),
    "DeformableConvolution: layout must be 'NCHW', got 'NHWC'": lambda: cnn.DeformableConvolution(3, layout="NHWC"),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_arguments(text):
    with pytest.raises(mx.MXNetError) as error:
        WRONG[text]()
    assert text in str(error.value)
