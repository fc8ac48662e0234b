"""AlexNet (Krizhevsky 2014, arXiv 1404.5997)."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.model_zoo.classifier import ImageClassifier, made
from hybridc.gluon.nn import Conv2D, Dense, Dropout, Flatten, HybridSequential, MaxPool2D

__all__ = ["AlexNet", "alexnet"]


class AlexNet(ImageClassifier):
    """Five convolutions and three dense layers, in the form with one column.

    Parameters
    ----------
    classes:
        How many classes: the scores of an image.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(
                    Conv2D(64, kernel_size=11, strides=4, padding=2, activation="relu"),
                    MaxPool2D(pool_size=3, strides=2),
                    Conv2D(192, kernel_size=5, padding=2, activation="relu"),
                    MaxPool2D(pool_size=3, strides=2),
                    Conv2D(384, kernel_size=3, padding=1, activation="relu"),
                    Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                    Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                    MaxPool2D(pool_size=3, strides=2),
                    Flatten(),
                    Dense(4096, activation="relu"),
                    Dropout(0.5),
                    Dense(4096, activation="relu"),
                    Dropout(0.5),
                )
            self.output = Dense(classes)


def alexnet(pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> AlexNet:
    """AlexNet; further keywords are those of the class.

    Parameters
    ----------
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    return made(AlexNet, name="alexnet", pretrained=pretrained, ctx=ctx, root=root, **kwargs)
