"""What the networks of the model zoo share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc.gluon.block import HybridBlock
from hybridc.gluon.model_zoo.model_store import load_pretrained
from hybridc.gluon.nn import Activation, BatchNorm, Conv2D, HybridSequential

__all__ = ["ImageClassifier", "add_conv", "made"]


class ImageClassifier(HybridBlock):
    """output(features(x)): images (N, C, H, W) → scores (N, classes)"""

    features: HybridSequential
    output: Any

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The scores of the classes."""
        return self.output(self.features(x))


def add_conv(
    out: HybridSequential, channels: int, kernel_size: Any = 1, act: Any = True, epsilon: float = 1e-5, **options: Any
) -> None:
    """Add a convolution without bias, batch normalization and an activation: relu, none, or a block."""
    out.add(Conv2D(channels, kernel_size, use_bias=False, **options), BatchNorm(epsilon=epsilon))
    if act:
        out.add(Activation("relu") if act is True else act)


def made(
    network: Callable[..., Any], *args: Any, name: str, pretrained: bool, ctx: Any, root: Any, **kwargs: Any
) -> Any:
    """The network, with the trained parameters of this name if these are wanted."""
    net = network(*args, **kwargs)
    if pretrained:
        load_pretrained(net, name, ctx, root)
    return net
