"""``mx.gluon.contrib``: layers, data sets and the Estimator, which MXNet keeps there."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hybridc.gluon.contrib import cnn, nn, rnn
from hybridc.ground.absent import absent as _absent

_SUBMODULES = ("data", "estimator")

__all__ = ["cnn", "nn", "rnn"]


if TYPE_CHECKING:
    from hybridc.gluon.contrib import data as data
    from hybridc.gluon.contrib import estimator as estimator
else:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return importlib.import_module(f"hybridc.gluon.contrib.{name}")
        raise _absent("mx.gluon.contrib", name, "attribute", __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
