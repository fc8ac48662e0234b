"""Vision: data sets and transforms of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.data.vision import datasets, transforms
from hybridc.gluon.data.vision.datasets import (
    CIFAR10,
    CIFAR100,
    MNIST,
    FashionMNIST,
    ImageFolderDataset,
    ImageListDataset,
    ImageRecordDataset,
)
from hybridc.ground.absent import absent as _absent

__all__ = [
    "CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "ImageListDataset", "ImageRecordDataset", "MNIST",
    "datasets", "transforms",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.data.vision", name, "data set", globals())
