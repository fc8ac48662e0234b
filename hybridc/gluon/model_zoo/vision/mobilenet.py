"""MobileNet (Howard et al. 2017, arXiv 1704.04861) and MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381)."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.block import HybridBlock
from hybridc.gluon.model_zoo.classifier import ImageClassifier, add_conv, made, variant
from hybridc.gluon.nn import Conv2D, Dense, Flatten, GlobalAvgPool2D, HybridSequential

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet0_25",
    "mobilenet0_5",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
]

# Channels and stride of each pair of a depthwise and a 1x1 convolution.
_SEPARABLE = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
# Expansion, channels, how many, and stride of the first, of each group of bottlenecks.
_BOTTLENECKS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]
_LAST_CHANNELS = 1280  # of MobileNetV2, unless the multiplier is above 1


class RELU6(HybridBlock):
    """min(max(x, 0), 6)"""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.clip(x, 0, 6, name="relu6")


class LinearBottleneck(HybridBlock):
    """x expanded by a factor t, convolved in each channel, and projected without an activation; x added if it fits."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        with self.name_scope():
            self.out = HybridSequential(prefix="")
            wide = in_channels * t
            add_conv(self.out, wide, act=RELU6(prefix=""))
            add_conv(self.out, wide, 3, strides=stride, padding=1, groups=wide, act=RELU6(prefix=""))
            add_conv(self.out, channels, act=None)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The block's output."""
        y = self.out(x)
        return F.elemwise_add(y, x) if self.use_shortcut else y


class MobileNet(ImageClassifier):
    """Convolutions split into depthwise and 1x1 ones.

    Parameters
    ----------
    multiplier:
        What the numbers of channels are multiplied by.
    classes:
        How many classes: the scores of an image.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            with self.features.name_scope():
                channels = int(32 * multiplier)
                add_conv(self.features, channels, 3, strides=2, padding=1)
                for width, stride in _SEPARABLE:
                    add_conv(self.features, channels, 3, strides=stride, padding=1, groups=channels)
                    channels = int(width * multiplier)
                    add_conv(self.features, channels)
                self.features.add(GlobalAvgPool2D(), Flatten())
            self.output = Dense(classes)


class MobileNetV2(ImageClassifier):
    """Bottlenecks that are wide inside and narrow outside.

    Parameters
    ----------
    multiplier:
        What the numbers of channels are multiplied by.
    classes:
        How many classes: the scores of an image.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="features_")
            with self.features.name_scope():
                channels = int(32 * multiplier)
                add_conv(self.features, channels, 3, strides=2, padding=1, act=RELU6(prefix=""))
                for t, width, count, stride in _BOTTLENECKS:
                    for i in range(count):
                        before, channels = channels, int(width * multiplier)
                        self.features.add(LinearBottleneck(before, channels, t, 1 if i else stride))
                last = int(_LAST_CHANNELS * multiplier) if multiplier > 1 else _LAST_CHANNELS
                add_conv(self.features, last, act=RELU6(prefix=""))
                self.features.add(GlobalAvgPool2D())
            self.output = HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(Conv2D(classes, kernel_size=1, use_bias=False, prefix="pred_"), Flatten())


def _suffix(multiplier: float) -> str:
    """The multiplier as in names of files: 1.0, 0.75."""
    return f"{multiplier:.2f}".removesuffix("0")


def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any
) -> MobileNet:
    """MobileNet of a width; further keywords are those of the class.

    Parameters
    ----------
    multiplier:
        The width: 1.0, 0.75, 0.5, 0.25 or another.
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    name = f"mobilenet{_suffix(multiplier)}"
    return made(MobileNet, multiplier, name=name, pretrained=pretrained, ctx=ctx, root=root, **kwargs)


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any
) -> MobileNetV2:
    """MobileNetV2 of a width; further keywords are those of the class.

    Parameters
    ----------
    multiplier:
        The width: 1.0, 0.75, 0.5, 0.25 or another.
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    name = f"mobilenetv2_{_suffix(multiplier)}"
    return made(MobileNetV2, multiplier, name=name, pretrained=pretrained, ctx=ctx, root=root, **kwargs)


mobilenet1_0 = variant(get_mobilenet, "mobilenet1_0", "MobileNet of width 1.", 1.0)
mobilenet0_75 = variant(get_mobilenet, "mobilenet0_75", "MobileNet of width 0.75.", 0.75)
mobilenet0_5 = variant(get_mobilenet, "mobilenet0_5", "MobileNet of width 0.5.", 0.5)
mobilenet0_25 = variant(get_mobilenet, "mobilenet0_25", "MobileNet of width 0.25.", 0.25)
mobilenet_v2_1_0 = variant(get_mobilenet_v2, "mobilenet_v2_1_0", "MobileNetV2 of width 1.", 1.0)
mobilenet_v2_0_75 = variant(get_mobilenet_v2, "mobilenet_v2_0_75", "MobileNetV2 of width 0.75.", 0.75)
mobilenet_v2_0_5 = variant(get_mobilenet_v2, "mobilenet_v2_0_5", "MobileNetV2 of width 0.5.", 0.5)
mobilenet_v2_0_25 = variant(get_mobilenet_v2, "mobilenet_v2_0_25", "MobileNetV2 of width 0.25.", 0.25)
