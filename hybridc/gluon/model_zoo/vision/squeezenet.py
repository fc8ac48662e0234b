"""SqueezeNet (Iandola et al. 2016, arXiv 1602.07360)."""

from __future__ import annotations

from typing import Any

from hybridc.errors import CheckError
from hybridc.gluon.model_zoo.classifier import ImageClassifier, made, variant
from hybridc.gluon.nn import Activation, AvgPool2D, Conv2D, Dropout, Flatten, HybridSequential, MaxPool2D
from hybridc.gluon.nn.concurrent import HybridConcurrent

__all__ = ["SqueezeNet", "get_squeezenet", "squeezenet1_0", "squeezenet1_1"]

# For each version the first convolution, and the channels of each fire module after each pooling.
_VERSIONS: dict[str, tuple[dict[str, Any], list[list[int]]]] = {
    "1.0": ({"channels": 96, "kernel_size": 7}, [[16, 16, 32], [32, 48, 48, 64], [64]]),
    "1.1": ({"channels": 64, "kernel_size": 3}, [[16, 16], [32, 32], [48, 48, 64, 64]]),
}


class SqueezeNet(ImageClassifier):
    """Fire modules: 1x1 convolutions that squeeze the channels, and 1x1 and 3x3 ones that expand them.

    Images must have at least 224x224 pixels or so.

    Parameters
    ----------
    version:
        ``"1.0"`` or ``"1.1"``, which has fewer operations; others are a CheckError.
    classes:
        How many classes: the scores of an image.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        if version not in _VERSIONS:
            raise CheckError(f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        super().__init__(**kwargs)
        first, groups = _VERSIONS[version]
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(Conv2D(strides=2, **first), Activation("relu"))
            for group in groups:
                self.features.add(MaxPool2D(pool_size=3, strides=2, ceil_mode=True))
                for channels in group:
                    self.features.add(_fire(channels))
            self.features.add(Dropout(0.5))
            self.output = HybridSequential(prefix="")
            self.output.add(Conv2D(classes, kernel_size=1), Activation("relu"), AvgPool2D(13), Flatten())


def _fire(channels: int) -> HybridSequential:
    out = HybridSequential(prefix="")
    out.add(_conv(channels, 1))
    expand = HybridConcurrent(axis=1, prefix="")
    expand.add(_conv(4 * channels, 1), _conv(4 * channels, 3, padding=1))
    out.add(expand)
    return out


def _conv(channels: int, kernel_size: int, padding: int = 0) -> HybridSequential:
    out = HybridSequential(prefix="")
    out.add(Conv2D(channels, kernel_size, padding=padding), Activation("relu"))
    return out


def get_squeezenet(
    version: str, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any
) -> SqueezeNet:
    """SqueezeNet; further keywords are those of the class.

    Parameters
    ----------
    version:
        ``"1.0"`` or ``"1.1"``.
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    name = f"squeezenet{version}"
    return made(SqueezeNet, version, name=name, pretrained=pretrained, ctx=ctx, root=root, **kwargs)


squeezenet1_0 = variant(get_squeezenet, "squeezenet1_0", "SqueezeNet 1.0.", "1.0")
squeezenet1_1 = variant(get_squeezenet, "squeezenet1_1", "SqueezeNet 1.1.", "1.1")
