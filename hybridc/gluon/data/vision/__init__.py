"""Vision: transforms of images. Data sets that download are not part of hybridc."""

from hybridc.gluon.data.vision import transforms

__all__ = ["transforms"]
