"""What the networks of the model zoo share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hybridc.gluon.block import HybridBlock
from hybridc.gluon.model_zoo.model_store import load_pretrained
from hybridc.gluon.nn import Activation, BatchNorm, Conv2D, HybridSequential

__all__ = ["ImageClassifier", "add_conv", "made", "variant"]

Network = TypeVar("Network")


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


def variant(get: Callable[..., Network], name: str, doc: str, *args: Any, **options: Any) -> Callable[..., Network]:
    """The function ``name(**kwargs)``, a row of a table: ``get`` with these arguments and options."""

    def network(**kwargs: Any) -> Any:
        return get(*args, **{**kwargs, **options})

    network.__name__ = network.__qualname__ = name
    network.__module__, network.__doc__ = get.__module__, doc
    network.__annotations__["return"] = get.__annotations__["return"]
    return network
