"""ResNet (He et al. 2015, arXiv 1512.03385) and its second version (He et al. 2016, arXiv 1603.05027)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.errors import CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.model_zoo.classifier import ImageClassifier, made, variant
from hybridc.gluon.nn import Activation, BatchNorm, Conv2D, Dense, Flatten, GlobalAvgPool2D, HybridSequential, MaxPool2D

__all__ = [
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "ResNetV1",
    "ResNetV2",
    "get_resnet",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v2",
    "resnet18_v1",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v2",
]

_NARROW = [64, 64, 128, 256, 512]
_WIDE = [64, 256, 512, 1024, 2048]
# For each depth the kind of block, how many each stage has, and the channels before and after each stage.
resnet_spec: dict[int, tuple[str, list[int], list[int]]] = {
    18: ("basic_block", [2, 2, 2, 2], _NARROW),
    34: ("basic_block", [3, 4, 6, 3], _NARROW),
    50: ("bottle_neck", [3, 4, 6, 3], _WIDE),
    101: ("bottle_neck", [3, 4, 23, 3], _WIDE),
    152: ("bottle_neck", [3, 8, 36, 3], _WIDE),
}


def _conv3x3(channels: int, stride: int, in_channels: int) -> Conv2D:
    return Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False, in_channels=in_channels)


def _conv1x1(channels: int, stride: int, in_channels: int = 0) -> Conv2D:
    return Conv2D(channels, kernel_size=1, strides=stride, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(x + body(x)): the base of both blocks of the first version; x is downsampled where the body does so.

    Parameters
    ----------
    channels:
        The channels of the result.
    stride:
        The stride of the first 3x3 or 1x1 convolution.
    downsample:
        Whether x goes through a 1x1 convolution of that stride: where sizes or channels change.
    in_channels:
        The channels of x; 0 if they follow from the first input.
    """

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.body = HybridSequential(prefix="")
        self._fill(channels, stride, in_channels)
        if downsample:
            self.downsample = HybridSequential(prefix="")
            self.downsample.add(_conv1x1(channels, stride, in_channels), BatchNorm())
        else:
            self.downsample = None

    def _fill(self, channels: int, stride: int, in_channels: int) -> None:
        """Add the layers of the body."""
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The block's output."""
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(residual + self.body(x), act_type="relu")


class BasicBlockV1(_BlockV1):
    """relu(x + body(x)), where the body has two 3x3 convolutions."""

    def _fill(self, channels: int, stride: int, in_channels: int) -> None:
        self.body.add(_conv3x3(channels, stride, in_channels), BatchNorm(), Activation("relu"))
        self.body.add(_conv3x3(channels, 1, channels), BatchNorm())


class BottleneckV1(_BlockV1):
    """relu(x + body(x)), where the body has a 3x3 convolution between two of 1x1, with a quarter of the channels."""

    def _fill(self, channels: int, stride: int, in_channels: int) -> None:
        narrow = channels // 4
        self.body.add(Conv2D(narrow, kernel_size=1, strides=stride), BatchNorm(), Activation("relu"))
        self.body.add(_conv3x3(narrow, 1, narrow), BatchNorm(), Activation("relu"))
        self.body.add(Conv2D(channels, kernel_size=1, strides=1), BatchNorm())


class BasicBlockV2(HybridBlock):
    """x + body(x), where the body has two 3x3 convolutions with normalization and relu before each.

    Parameters
    ----------
    channels:
        The channels of the result.
    stride:
        The stride of the first 3x3 or 1x1 convolution.
    downsample:
        Whether x goes through a 1x1 convolution of that stride: where sizes or channels change.
    in_channels:
        The channels of x; 0 if they follow from the first input.
    """

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bn1 = BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The block's output."""
        y = F.Activation(self.bn1(x), act_type="relu")
        residual = x if self.downsample is None else self.downsample(y)
        y = self.conv1(y)
        y = self.conv2(F.Activation(self.bn2(y), act_type="relu"))
        return y + residual


class BottleneckV2(HybridBlock):
    """x + body(x), where the body has a 3x3 convolution between two of 1x1, with normalization and relu before each.

    Parameters
    ----------
    channels:
        The channels of the result.
    stride:
        The stride of the first 3x3 or 1x1 convolution.
    downsample:
        Whether x goes through a 1x1 convolution of that stride: where sizes or channels change.
    in_channels:
        The channels of x; 0 if they follow from the first input.
    """

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        narrow = channels // 4
        self.bn1 = BatchNorm()
        self.conv1 = _conv1x1(narrow, 1)
        self.bn2 = BatchNorm()
        self.conv2 = _conv3x3(narrow, stride, narrow)
        self.bn3 = BatchNorm()
        self.conv3 = _conv1x1(channels, 1)
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The block's output."""
        y = F.Activation(self.bn1(x), act_type="relu")
        residual = x if self.downsample is None else self.downsample(y)
        y = self.conv1(y)
        y = self.conv2(F.Activation(self.bn2(y), act_type="relu"))
        y = self.conv3(F.Activation(self.bn3(y), act_type="relu"))
        return y + residual


class _ResNet(ImageClassifier):
    """What both versions share."""

    def _start(self, channels: int, thumbnail: bool) -> None:
        """Add the first convolution: for images of 224x224 pixels or so, or for small ones."""
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
            return
        self.features.add(
            Conv2D(channels, kernel_size=7, strides=2, padding=3, use_bias=False),
            BatchNorm(),
            Activation("relu"),
            MaxPool2D(pool_size=3, strides=2, padding=1),
        )

    def _add_stages(self, block: Callable[..., HybridBlock], layers: Sequence[int], channels: Sequence[int]) -> None:
        if len(layers) != len(channels) - 1:
            raise CheckError(
                f"{type(self).__name__}: channels must have one number more than layers, got {channels} and {layers}"
            )
        for i, count in enumerate(layers):
            stage = HybridSequential(prefix=f"stage{i + 1}_")
            before, after = channels[i : i + 2]
            with stage.name_scope():
                stage.add(block(after, 2 if i else 1, after != before, in_channels=before, prefix=""))
                for _ in range(count - 1):
                    stage.add(block(after, 1, False, in_channels=after, prefix=""))
            self.features.add(stage)


class ResNetV1(_ResNet):
    """Stages of residual blocks with relu after each sum.

    Parameters
    ----------
    block:
        The class of the blocks: :class:`BasicBlockV1` and the like.
    layers:
        The number of blocks of each stage.
    channels:
        The channels of the first convolution, and of each stage.
    classes:
        How many classes: the scores of an image.
    thumbnail:
        Whether the network is for small images: it begins with a 3x3 convolution, without pooling.
    """

    def __init__(
        self,
        block: Callable[..., HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self._start(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(GlobalAvgPool2D())
            self.output = Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """Stages of residual blocks with nothing after the sums.

    Parameters
    ----------
    block:
        The class of the blocks: :class:`BasicBlockV1` and the like.
    layers:
        The number of blocks of each stage.
    channels:
        The channels of the first convolution, and of each stage.
    classes:
        How many classes: the scores of an image.
    thumbnail:
        Whether the network is for small images: it begins with a 3x3 convolution, without pooling.
    """

    def __init__(
        self,
        block: Callable[..., HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(BatchNorm(scale=False, center=False))
            self._start(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(BatchNorm(), Activation("relu"), GlobalAvgPool2D(), Flatten())
            self.output = Dense(classes, in_units=channels[-1])


resnet_net_versions: list[Callable[..., Any]] = [ResNetV1, ResNetV2]
resnet_block_versions: list[dict[str, Callable[..., HybridBlock]]] = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


def get_resnet(
    version: int, num_layers: int, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any
) -> Any:
    """A ResNet; further keywords are those of the class.

    Parameters
    ----------
    version:
        1 or 2; others are a CheckError.
    num_layers:
        18, 34, 50, 101 or 152; others are a CheckError.
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    if num_layers not in resnet_spec:
        raise CheckError(f"Invalid number of layers: {num_layers}. Options are {list(resnet_spec)}")
    if version not in (1, 2):
        raise CheckError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    kind, layers, channels = resnet_spec[num_layers]
    network, block = resnet_net_versions[version - 1], resnet_block_versions[version - 1][kind]
    name = f"resnet{num_layers}_v{version}"
    return made(network, block, layers, channels, name=name, pretrained=pretrained, ctx=ctx, root=root, **kwargs)


resnet18_v1: Callable[..., ResNetV1] = variant(get_resnet, "resnet18_v1", "ResNet V1 of 18 layers.", 1, 18)
resnet34_v1: Callable[..., ResNetV1] = variant(get_resnet, "resnet34_v1", "ResNet V1 of 34 layers.", 1, 34)
resnet50_v1: Callable[..., ResNetV1] = variant(get_resnet, "resnet50_v1", "ResNet V1 of 50 layers.", 1, 50)
resnet101_v1: Callable[..., ResNetV1] = variant(get_resnet, "resnet101_v1", "ResNet V1 of 101 layers.", 1, 101)
resnet152_v1: Callable[..., ResNetV1] = variant(get_resnet, "resnet152_v1", "ResNet V1 of 152 layers.", 1, 152)
resnet18_v2: Callable[..., ResNetV2] = variant(get_resnet, "resnet18_v2", "ResNet V2 of 18 layers.", 2, 18)
resnet34_v2: Callable[..., ResNetV2] = variant(get_resnet, "resnet34_v2", "ResNet V2 of 34 layers.", 2, 34)
resnet50_v2: Callable[..., ResNetV2] = variant(get_resnet, "resnet50_v2", "ResNet V2 of 50 layers.", 2, 50)
resnet101_v2: Callable[..., ResNetV2] = variant(get_resnet, "resnet101_v2", "ResNet V2 of 101 layers.", 2, 101)
resnet152_v2: Callable[..., ResNetV2] = variant(get_resnet, "resnet152_v2", "ResNet V2 of 152 layers.", 2, 152)
