"""``mx.misc``: learning rates by an older interface; :mod:`hybridc.lr_scheduler` has what optimizers take."""

from __future__ import annotations

import logging

from hybridc.errors import AttributeValueError

__all__ = ["FactorScheduler", "LearningRateScheduler"]

_LOGGER = logging.getLogger(__name__)


class LearningRateScheduler:
    """Base: a learning rate for each iteration, which follows from ``base_lr``."""

    def __init__(self) -> None:
        self.base_lr = 0.01

    def __call__(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        raise NotImplementedError("must override this")


class FactorOfIterations(LearningRateScheduler):
    """The learning rate times ``factor`` after every ``step`` iterations."""

    def __init__(self, step: int, factor: float = 0.1) -> None:
        super().__init__()
        if step < 1:
            raise AttributeValueError(f"FactorScheduler: step must be at least 1, got {step}")
        if factor >= 1.0:
            raise AttributeValueError(
                f"FactorScheduler: factor must be less than 1, for the rate to fall, got {factor}"
            )
        self.step = step
        self.factor = factor
        self.old_lr = self.base_lr
        self.init = False  # whether it was called before

    def __call__(self, iteration: int) -> float:
        """The learning rate of an iteration; a new one is logged."""
        if not self.init:
            self.init = True
            self.old_lr = self.base_lr
        rate = self.base_lr * self.factor ** int(iteration / self.step)
        if rate != self.old_lr:
            self.old_lr = rate
            _LOGGER.info("At Iteration [%d]: Swith to new learning rate %.5f", iteration, rate)
        return rate


FactorScheduler = FactorOfIterations  # its name in MXNet, which mx.lr_scheduler has, too
