"""``mx.gluon.contrib.data``: data sets and samplers that MXNet keeps in contrib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.contrib.data import sampler, text
from hybridc.gluon.contrib.data.sampler import IntervalSampler
from hybridc.ground.absent import absent as _absent

__all__ = ["IntervalSampler", "sampler", "text"]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.contrib.data", name, "attribute", globals())
