"""DenseNet (Huang et al. 2016, arXiv 1608.06993)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.errors import AttributeValueError
from hybridc.gluon.model_zoo.classifier import ImageClassifier, made, variant
from hybridc.gluon.nn import (
    Activation,
    AvgPool2D,
    BatchNorm,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    HybridSequential,
    MaxPool2D,
)
from hybridc.gluon.nn.concurrent import HybridConcurrent, Identity

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201", "get_densenet"]

# For each depth the channels of the first convolution, the growth rate, and the number of layers of each block.
densenet_spec: dict[int, tuple[int, int, list[int]]] = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


class DenseNet(ImageClassifier):
    """Blocks in which each layer sees the outputs of all before it, with transitions that halve size and channels.

    Parameters
    ----------
    num_init_features:
        The channels of the first convolution.
    growth_rate:
        How many channels each layer adds.
    block_config:
        The number of layers of each block.
    bn_size:
        How many times ``growth_rate`` channels a layer's 1x1 convolution has.
    dropout:
        The share of values that each layer drops in training.
    classes:
        How many classes: the scores of an image.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(
                Conv2D(num_init_features, kernel_size=7, strides=2, padding=3, use_bias=False),
                BatchNorm(),
                Activation("relu"),
                MaxPool2D(pool_size=3, strides=2, padding=1),
            )
            channels = num_init_features
            for i, layers in enumerate(block_config):
                if i:
                    channels //= 2
                    self.features.add(_transition(channels))
                self.features.add(_dense_block(layers, bn_size, growth_rate, dropout, i + 1))
                channels += layers * growth_rate
            self.features.add(BatchNorm(), Activation("relu"), AvgPool2D(pool_size=7), Flatten())
            self.output = Dense(classes)


def _dense_block(layers: int, bn_size: int, growth_rate: int, dropout: float, number: int) -> HybridSequential:
    out = HybridSequential(prefix=f"stage{number}_")
    with out.name_scope():
        for _ in range(layers):
            out.add(_dense_layer(growth_rate, bn_size, dropout))
    return out


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    new = HybridSequential(prefix="")
    new.add(
        BatchNorm(),
        Activation("relu"),
        Conv2D(bn_size * growth_rate, kernel_size=1, use_bias=False),
        BatchNorm(),
        Activation("relu"),
        Conv2D(growth_rate, kernel_size=3, padding=1, use_bias=False),
    )
    if dropout:
        new.add(Dropout(dropout))
    out = HybridConcurrent(axis=1, prefix="")
    out.add(Identity(), new)
    return out


def _transition(channels: int) -> HybridSequential:
    out = HybridSequential(prefix="")
    out.add(BatchNorm(), Activation("relu"), Conv2D(channels, kernel_size=1, use_bias=False), AvgPool2D(2, strides=2))
    return out


def get_densenet(
    num_layers: int, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 121, 161, 169 or 201 layers.

    Parameters
    ----------
    num_layers:
        121, 161, 169 or 201; others are an AttributeValueError.
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    if num_layers not in densenet_spec:
        raise AttributeValueError(f"get_densenet: num_layers must be one of {list(densenet_spec)}, got {num_layers!r}")
    name = f"densenet{num_layers}"
    return made(DenseNet, *densenet_spec[num_layers], name=name, pretrained=pretrained, ctx=ctx, root=root, **kwargs)


densenet121 = variant(get_densenet, "densenet121", "DenseNet of 121 layers.", 121)
densenet161 = variant(get_densenet, "densenet161", "DenseNet of 161 layers.", 161)
densenet169 = variant(get_densenet, "densenet169", "DenseNet of 169 layers.", 169)
densenet201 = variant(get_densenet, "densenet201", "DenseNet of 201 layers.", 201)
