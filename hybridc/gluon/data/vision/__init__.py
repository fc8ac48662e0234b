"""Vision: transforms of images. Data sets that download are not part of hybridc."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.data.vision import transforms
from hybridc.ground.absent import absent as _absent

__all__ = ["transforms"]


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.data.vision", name, "data set", globals())
