"""``mx.gluon``: networks as Python objects."""

from __future__ import annotations

import importlib
from typing import Any

from hybridc.absent import absent as _absent
from hybridc.errors import DeferredInitializationError
from hybridc.gluon import block, parameter, utils
from hybridc.gluon.block import Block, HybridBlock
from hybridc.gluon.parameter import Constant, Parameter, ParameterDict

_SUBMODULES = ("contrib", "data", "loss", "nn", "trainer")

__all__ = [
    "Block",
    "Constant",
    "DeferredInitializationError",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "block",
    "parameter",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name == "Trainer":
        from hybridc.gluon.trainer import Trainer

        return Trainer
    if name == "TrainStep":
        from hybridc.gluon.train_step import TrainStep

        return TrainStep
    if name == "SymbolBlock":
        from hybridc.gluon.symbol_block import SymbolBlock

        return SymbolBlock
    if name in _SUBMODULES:
        return importlib.import_module(f"hybridc.gluon.{name}")
    raise _absent("mx.gluon", name, "attribute", __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, "SymbolBlock", "TrainStep", "Trainer"})
