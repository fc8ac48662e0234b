"""Learning rate schedules: ``mx.lr_scheduler``. Called with the number of an update, they give its learning rate.

An optimizer calls the one that it is given as ``lr_scheduler``. Updates count from 1, and an update is one call of
``Trainer.step``: steps and warm-ups are numbers of batches, not of epochs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import pairwise
from math import cos as cos
from math import pi as pi
from typing import TYPE_CHECKING, Any

from hybridc.errors import CheckError
from hybridc.ground.absent import absent as _absent
from hybridc.ground.display.arguments_text import called, settings


class LRScheduler:
    """The base of schedules: a warm-up, then what the subclass says; here ``base_lr``.

    While ``num_update < warmup_steps`` the rate rises from ``warmup_begin_lr`` to ``base_lr`` in equal
    increments (``warmup_mode='linear'``) or stays at ``warmup_begin_lr`` (``'constant'``). A schedule of your own
    defines :meth:`scheduled`.

    Parameters
    ----------
    base_lr:
        The learning rate after the warm-up. An optimizer that has a learning rate as well sets it to that.
    warmup_steps:
        The number of updates of the warm-up, an integer; 0: there is none.
    warmup_begin_lr:
        The rate that the warm-up begins with, at most ``base_lr``, else a ValueError.
    warmup_mode:
        "linear": the rate rises in the warm-up; "constant": it is ``warmup_begin_lr``.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.LRScheduler(base_lr=1.0, warmup_steps=4)
    >>> [schedule(n) for n in range(6)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        if not isinstance(warmup_steps, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"warmup_steps must be an integer, got {warmup_steps!r}")
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps must be positive or 0, got {warmup_steps}")
        if warmup_begin_lr > base_lr:
            raise ValueError(f"base_lr has to be higher than warmup_begin_lr, got {base_lr} and {warmup_begin_lr}")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError(f"warmup_mode must be 'linear' or 'constant', got {warmup_mode!r}")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_final_lr = base_lr
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def __repr__(self) -> str:
        return called(self, settings(self, always=("base_lr",)))

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate during the warm-up.

        Parameters
        ----------
        num_update:
            The number of the update, less than ``warmup_steps``.
        """
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = (self.warmup_final_lr - self.warmup_begin_lr) * num_update / self.warmup_steps
        return self.warmup_begin_lr + rise

    def __call__(self, num_update: int) -> float:
        """The learning rate of an update.

        Parameters
        ----------
        num_update:
            The number of the update: the largest of all weights, where these are not updated equally often.
        """
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        return self.scheduled(num_update)

    def scheduled(self, num_update: int) -> float:
        """The rate after the warm-up: what subclasses define. Here it stays at ``base_lr``.

        Parameters
        ----------
        num_update:
            The number of the update, at least ``warmup_steps``.
        """
        return self.base_lr


class FactorScheduler(LRScheduler):
    """``base_lr * factor ** floor((num_update - 1) / step)``, but at least ``stop_factor_lr``.

    It multiplies ``base_lr`` itself, so an earlier update after a later one does not have the old rate again.

    Parameters
    ----------
    step:
        The number of updates with the same rate, at least 1, else a ValueError.
    factor:
        What the rate is multiplied by after these, at most 1, else a ValueError.
    stop_factor_lr:
        The least rate.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0)
    >>> [schedule(n) for n in range(1, 8)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]
    """

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError(f"step must be greater or equal than 1, got {step}")
        _check_factor(factor)
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def scheduled(self, num_update: int) -> float:
        # base_lr is the state, so that assigning it (as Trainer and Optimizer do) rescales what follows.
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            text = "Update[%d]: Change learning rate to %0.5e"
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                text = "Update[%d]: now learning rate arrived at %0.5e, will not change in the future"
            logging.getLogger().info(text, num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """``base_lr * factor ** k`` where ``k`` steps of the list lie below ``num_update``.

    It multiplies ``base_lr`` itself, so an earlier update after a later one does not have the old rate again.

    Parameters
    ----------
    step:
        The updates after which the rate is multiplied: a list of increasing integers from 1, else a CheckError.
    factor:
        What the rate is multiplied by after each of these, at most 1, else a ValueError.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.MultiFactorScheduler(step=[2, 5], factor=0.5, base_lr=1.0)
    >>> [schedule(n) for n in range(1, 8)]
    [1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self,
        step: Sequence[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        # COMPAT(mxnet): a tuple of steps is as good as a list.
        if not isinstance(step, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"step must be an increasing list of integers from 1, got {step!r}")
        steps = list(step)
        if not steps or steps[0] < 1 or any(b <= a for a, b in pairwise(steps)):
            raise CheckError(f"step must be an increasing list of integers from 1, got {steps}")
        _check_factor(factor)
        self.step = steps
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def scheduled(self, num_update: int) -> float:
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.getLogger().info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _Decay(LRScheduler):
    """From ``base_lr`` to ``final_lr`` along a curve from 1 to 0, which the subclass gives.

    Parameters
    ----------
    max_update:
        The update from which on the rate is ``final_lr``: an integer of at least 1, and more than ``warmup_steps``.
    base_lr:
        The rate at the beginning of the curve, and at the end of the warm-up. What is assigned to the attribute later
        does not count.
    final_lr:
        The rate at the end.
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(max_update, int) or max_update < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"max_update must be a strictly positive integer, got {max_update!r}")
        if max_update <= warmup_steps:
            # COMPAT(mxnet): there a ZeroDivisionError, or a rate that is never used, during training.
            raise ValueError(f"max_update must exceed warmup_steps, got {max_update} and {warmup_steps}")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def curve(self, done: float) -> float:
        """How much of ``base_lr - final_lr`` is left: 1 at the beginning, 0 at the end.

        Parameters
        ----------
        done:
            The share of the updates after the warm-up that are done, from 0 to 1.
        """
        return 1.0 - done

    def scheduled(self, num_update: int) -> float:
        # At and after max_update the curve is at its end.
        # COMPAT(mxnet): there a schedule entered after max_update stays at base_lr.
        done = min(1.0, (num_update - self.warmup_steps) / self.max_steps)
        self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * self.curve(done)
        return self.base_lr


class PolyScheduler(_Decay):
    """``final_lr + (base_lr - final_lr) * (1 - done) ** pwr`` with ``done`` from 0 to 1 at ``max_update``.

    Parameters
    ----------
    pwr:
        The exponent: 1 for a line, more for a faster start.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.PolyScheduler(max_update=4, base_lr=1.0, pwr=2)
    >>> [schedule(n) for n in range(6)]
    [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def curve(self, done: float) -> float:
        return (1.0 - done) ** self.power


class CosineScheduler(_Decay):
    """``final_lr + (base_lr - final_lr) * (1 + cos(pi * done)) / 2`` with ``done`` from 0 to 1 at ``max_update``.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.CosineScheduler(max_update=4, base_lr=1.0)
    >>> [round(schedule(n), 4) for n in range(6)]
    [1.0, 0.8536, 0.5, 0.1464, 0.0, 0.0]
    """

    def curve(self, done: float) -> float:
        return (1.0 + math.cos(math.pi * done)) / 2.0


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise ValueError(f"factor must be no more than 1 to make the rate fall, got {factor}")


__all__ = ["CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler"]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.lr_scheduler", name, "schedule", globals())
