"""``mx.contrib.amp.loss_scaler``: the factor of the losses, which keeps small gradients from becoming 0."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from hybridc import autograd, nd

__all__ = ["LossScaler"]

_LOG = logging.getLogger(__name__)

# MXNet's: the first scale, the largest, and after how many steps without overflow it is doubled.
_FIRST, _LARGEST, _STEPS = 2.0**16, 2.0**24, 2000


class LossScaler:
    """A factor that is halved after a step whose gradients overflow, and doubled after 2000 that do not."""

    def __init__(self) -> None:
        self._loss_scale = self._next_loss_scale = _FIRST
        self._max_loss_scale = _LARGEST
        self._scale_seq_len = _STEPS
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The factor."""
        return self._loss_scale

    def has_overflow(self, params: Sequence[Any]) -> bool:
        """Whether some gradient of the parameters ``params`` is not finite; the next factor follows from it."""
        with autograd.pause():
            grads = [grad for p in params if p.grad_req != "null" for grad in p.gradients()]
            overflows = bool(grads) and not bool(nd.multi_all_finite(*grads, num_arrays=len(grads)).asscalar())
        self._loss_scale = self._next_loss_scale
        if overflows:
            self._next_loss_scale = self._loss_scale / 2
            self._unskipped = 0
            _LOG.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
            return True
        self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2)
            _LOG.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return False
