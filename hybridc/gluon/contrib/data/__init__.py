"""``mx.gluon.contrib.data``: data sets and samplers that MXNet keeps in contrib."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.contrib.data import sampler, text
from hybridc.gluon.contrib.data.sampler import IntervalSampler
from hybridc.ground.absent import absent as _absent

__all__ = ["IntervalSampler", "sampler", "text"]


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.contrib.data", name, "attribute", globals())
