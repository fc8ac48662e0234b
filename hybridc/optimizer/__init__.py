"""Optimizers: ``mx.optimizer``. They update weights from gradients.

A Trainer makes and calls them: ``gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})`` takes the name
of a class here, in any case, and its arguments. The examples make single steps without one, to show the numbers.

In the formulas ``w`` is the weight, ``grad`` its gradient as ``backward`` wrote it, ``lr`` the learning rate, and ``t``
the number of this update of the weight, from 1. ``clip(x)`` is ``x`` with its elements limited to
``[-clip_gradient, clip_gradient]``. The states of a weight, as ``mom``, ``m``, ``v`` and ``n``, are 0 at first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.optimizer import contrib
from hybridc.optimizer.adaptive import FTML, AdaDelta, AdaGrad, Adam, Adamax, AdamW, Ftrl, Nadam, RMSProp
from hybridc.optimizer.base_optimizer import Optimizer, create, register
from hybridc.optimizer.layerwise import LAMB, LARS
from hybridc.optimizer.sgd import NAG, SGD, Signum, ccSGD
from hybridc.optimizer.special_descent import DCASGD, LBSGD, SGLD, Test
from hybridc.optimizer.updater import Updater, get_updater

optimizer = sys.modules[__name__]  # MXNet's file of what is here

__all__ = [
    "AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB", "LARS", "LBSGD", "NAG", "Nadam",
    "Optimizer", "RMSProp", "SGD", "SGLD", "Signum", "Test", "Updater", "ccSGD", "contrib", "create", "get_updater",
    "register",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.optimizer", name, "optimizer", globals())
