"""Images, ``mx.image``: reading, resizing, augmenting, and iterators over batches of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.image import detection
from hybridc.image.augmenters import (
    Augmenter,
    BrightnessJitterAug,
    CastAug,
    CenterCropAug,
    ColorJitterAug,
    ColorNormalizeAug,
    ContrastJitterAug,
    CreateAugmenter,
    ForceResizeAug,
    HorizontalFlipAug,
    HueJitterAug,
    LightingAug,
    RandomCropAug,
    RandomGrayAug,
    RandomOrderAug,
    RandomSizedCropAug,
    ResizeAug,
    SaturationJitterAug,
    SequentialAug,
)
from hybridc.image.detection import (
    CreateDetAugmenter,
    CreateMultiRandCropAugmenter,
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
    ImageDetIter,
)
from hybridc.image.image_iter import ImageIter
from hybridc.image.reading import imdecode, imread
from hybridc.image.resizing import (
    center_crop,
    color_normalize,
    copyMakeBorder,
    fixed_crop,
    imresize,
    imrotate,
    interpolation_method,
    random_crop,
    random_rotate,
    random_size_crop,
    resize_short,
    scale_down,
)

det = detection
image = sys.modules[__name__]  # MXNet's file of what is here
_get_interp_method = interpolation_method  # GluonCV imports it by this name

__all__ = [
    "Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
    "ContrastJitterAug", "CreateAugmenter", "CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter",
    "DetBorrowAug", "DetHorizontalFlipAug", "DetRandomCropAug", "DetRandomPadAug", "DetRandomSelectAug",
    "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "ImageDetIter", "ImageIter", "LightingAug", "RandomCropAug",
    "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug", "SequentialAug",
    "center_crop", "color_normalize", "copyMakeBorder", "det", "detection", "fixed_crop", "imdecode", "imread",
    "imresize", "imrotate", "random_crop", "random_rotate", "random_size_crop", "resize_short", "scale_down",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.image", name, "function", globals())
