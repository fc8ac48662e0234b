"""VGG (Simonyan, Zisserman 2014, arXiv 1409.1556)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.errors import AttributeValueError, CheckError
from hybridc.gluon.model_zoo.classifier import ImageClassifier, made, variant
from hybridc.gluon.nn import Activation, BatchNorm, Conv2D, Dense, Dropout, HybridSequential, MaxPool2D
from hybridc.initializer import Xavier

__all__ = [
    "VGG",
    "get_vgg",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

_FILTERS = [64, 128, 256, 512, 512]
# For each depth, how many convolutions of so many channels stand before each pooling.
vgg_spec: dict[int, tuple[list[int], list[int]]] = {
    11: ([1, 1, 2, 2, 2], _FILTERS),
    13: ([2, 2, 2, 2, 2], _FILTERS),
    16: ([2, 2, 3, 3, 3], _FILTERS),
    19: ([2, 2, 4, 4, 4], _FILTERS),
}


class VGG(ImageClassifier):
    """3x3 convolutions in groups with a pooling behind each, and three dense layers.

    Parameters
    ----------
    layers:
        The number of convolutions of each group.
    filters:
        The channels of each group.
    classes:
        How many classes: the scores of an image.
    batch_norm:
        Whether each convolution has batch normalization behind it.
    """

    def __init__(
        self,
        layers: Sequence[int],
        filters: Sequence[int],
        classes: int = 1000,
        batch_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        if len(layers) != len(filters):
            raise CheckError(f"VGG: layers and filters must have the same length, got {layers} and {filters}")
        super().__init__(**kwargs)
        dense: dict[str, Any] = {"weight_initializer": "normal", "bias_initializer": "zeros"}
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            for count, channels in zip(layers, filters, strict=True):
                self._add_group(count, channels, batch_norm)
            for _ in range(2):
                self.features.add(Dense(4096, activation="relu", **dense), Dropout(0.5))
            self.output = Dense(classes, **dense)

    def _add_group(self, count: int, channels: int, batch_norm: bool) -> None:
        init = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
        for _ in range(count):
            self.features.add(
                Conv2D(channels, kernel_size=3, padding=1, weight_initializer=init, bias_initializer="zeros")
            )
            if batch_norm:
                self.features.add(BatchNorm())
            self.features.add(Activation("relu"))
        self.features.add(MaxPool2D(strides=2))


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> VGG:
    """VGG; further keywords are those of the class: ``batch_norm=True`` is the one with batch normalization.

    Parameters
    ----------
    num_layers:
        11, 13, 16 or 19; others are an AttributeValueError.
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    if num_layers not in vgg_spec:
        raise AttributeValueError(f"get_vgg: num_layers must be one of {list(vgg_spec)}, got {num_layers!r}")
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    return made(VGG, *vgg_spec[num_layers], name=name, pretrained=pretrained, ctx=ctx, root=root, **kwargs)


vgg11 = variant(get_vgg, "vgg11", "VGG of 11 layers.", 11)
vgg13 = variant(get_vgg, "vgg13", "VGG of 13 layers.", 13)
vgg16 = variant(get_vgg, "vgg16", "VGG of 16 layers.", 16)
vgg19 = variant(get_vgg, "vgg19", "VGG of 19 layers.", 19)
vgg11_bn = variant(get_vgg, "vgg11_bn", "VGG of 11 layers with batch normalization.", 11, batch_norm=True)
vgg13_bn = variant(get_vgg, "vgg13_bn", "VGG of 13 layers with batch normalization.", 13, batch_norm=True)
vgg16_bn = variant(get_vgg, "vgg16_bn", "VGG of 16 layers with batch normalization.", 16, batch_norm=True)
vgg19_bn = variant(get_vgg, "vgg19_bn", "VGG of 19 layers with batch normalization.", 19, batch_norm=True)
