"""``mx.gluon``: networks as Python objects.

A network is a :class:`Block`, and mostly a :class:`HybridBlock`, which can be compiled; layers are in ``gluon.nn`` and
``gluon.rnn``. It has :class:`Parameter` objects, which ``net.initialize()`` fills, a :class:`Trainer` updates and
``net.save_parameters(file)`` saves. A :class:`TrainStep` is a whole step of training as one program, and a
:class:`SymbolBlock` a network from files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hybridc.errors import DeferredInitializationError
from hybridc.gluon import block, parameter, trainer, utils
from hybridc.gluon.block import Block, HybridBlock
from hybridc.gluon.parameter import Constant, Parameter, ParameterDict, tensor_types
from hybridc.gluon.symbol_block import SymbolBlock
from hybridc.gluon.train_step import TrainStep
from hybridc.gluon.trainer import Trainer
from hybridc.ground.absent import absent as _absent

_SUBMODULES = ("contrib", "data", "loss", "model_zoo", "nn", "rnn")

__all__ = [
    "Block",
    "Constant",
    "DeferredInitializationError",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "TrainStep",
    "Trainer",
    "block",
    "parameter",
    "tensor_types",
    "trainer",
    "utils",
]


if TYPE_CHECKING:
    from hybridc.gluon import contrib as contrib
    from hybridc.gluon import data as data
    from hybridc.gluon import loss as loss
    from hybridc.gluon import model_zoo as model_zoo
    from hybridc.gluon import nn as nn
    from hybridc.gluon import rnn as rnn
else:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return importlib.import_module(f"hybridc.gluon.{name}")
        raise _absent("mx.gluon", name, "attribute", __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
