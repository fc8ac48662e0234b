"""Functions that training calls after batches and epochs: ``mx.callback``."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hybridc.ground.absent import absent as _absent
from hybridc.symbol.checkpoint import save_checkpoint

__all__ = [
    "LogValidationMetricsCallback", "ProgressBar", "Speedometer", "do_checkpoint", "log_train_metric",
    "module_checkpoint", "save_checkpoint",
]  # fmt: skip


class BatchEndParam(NamedTuple):
    """The argument of a batch callback.

    Parameters
    ----------
    epoch, nbatch:
        The numbers of the epoch and of the batch, from 0.
    eval_metric:
        The metric so far.
    locals:
        The local variables of the loop.
    """

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: dict[str, Any] | None


def call_all(callbacks: Any, *args: Any) -> None:
    """Call a function, or several in a list, or none."""
    for each in callbacks if isinstance(callbacks, list | tuple) else [callbacks] if callbacks is not None else ():  # pyright: ignore[reportUnknownVariableType]
        each(*args)


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """A function for ``epoch_end_callback`` that has a module save a checkpoint every ``period`` epochs.

    Parameters
    ----------
    mod:
        The module.
    prefix:
        With what the names of the files begin, see :func:`save_checkpoint`.
    period:
        Every how many epochs; less than 1 is 1.
    save_optimizer_states:
        Whether the states of the optimizer are saved, too, as ``prefix-0001.states``.
    """
    period = int(max(1, period))

    def save(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        del sym, arg, aux  # the module has them
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return save


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """A function for ``epoch_end_callback`` that saves symbol and parameters every ``period`` epochs.

    The files are ``prefix-symbol.json`` and ``prefix-0001.params``, whose number is that of epochs done.

    Parameters
    ----------
    prefix:
        With what the names of the files begin.
    period:
        Every how many epochs; less than 1 is 1.
    """
    period = int(max(1, period))

    def save(iter_no: int, sym: Any, arg: Any, aux: Any) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return save


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """A function for ``batch_end_callback`` that logs the metric every ``period`` batches.

    With ``auto_reset`` the metric then starts over.

    Parameters
    ----------
    period:
        Every how many batches.
    auto_reset:
        Whether the metric then starts over.
    """

    def log(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.getLogger().info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return log


class Speedometer:
    """Logs samples per second and the metric every ``frequent`` batches; with ``auto_reset`` that of these batches.

    The first line says::

        Epoch[0] Batch [0-50]   Speed: 1910.41 samples/sec      accuracy=0.200000

    Parameters
    ----------
    batch_size:
        How many samples a batch has.
    frequent:
        Every how many batches.
    auto_reset:
        Whether the metric is that of these batches; else that of the epoch so far.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.init = False
        self.tic = 0.0
        self.last_count = 0
        self.auto_reset = auto_reset

    def __call__(self, param: Any) -> None:
        """Log speed and metric if the batch is the last of ``frequent``.

        Parameters
        ----------
        param:
            A :class:`BatchEndParam`, or any object with ``epoch``, ``nbatch`` and ``eval_metric``.
        """
        count = param.nbatch
        if self.last_count > count:
            self.init = False
        self.last_count = count
        if not self.init:
            self.init = True
            self.tic = time.time()
        elif count % self.frequent == 0:
            self._log(param, count)
            self.tic = time.time()

    def _log(self, param: Any, count: int) -> None:
        seconds = time.time() - self.tic
        speed = self.frequent * self.batch_size / seconds if seconds > 0 else math.inf
        if param.eval_metric is None:
            logging.getLogger().info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        values = param.eval_metric.get_name_value()
        first = count - self.frequent if self.auto_reset else 0
        if self.auto_reset:
            param.eval_metric.reset_local()
        text = "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * len(values)
        logging.getLogger().info(text, param.epoch, first, count, speed, *[x for pair in values for x in pair])


class ProgressBar:
    """Logs after each batch how much of an epoch of ``total`` batches is done, as a bar of ``length`` characters.

    Parameters
    ----------
    total:
        How many batches an epoch has.
    length:
        How many characters the bar has.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len = length
        self.total = total

    def __call__(self, param: Any) -> None:
        """Log the progress bar.

        Parameters
        ----------
        param:
            A :class:`BatchEndParam`, or any object with ``epoch``, ``nbatch`` and ``eval_metric``.
        """
        filled = round(self.bar_len * param.nbatch / float(self.total))
        bar = "=" * filled + "-" * (self.bar_len - filled)
        logging.getLogger().info("[%s] %s%s\r", bar, math.ceil(100.0 * param.nbatch / float(self.total)), "%")


class LogValidationMetricsCallback:
    """Logs a metric as ``Epoch[0] Validation-accuracy=0.900000``; for ``fit(eval_end_callback=...)``."""

    def __call__(self, param: Any) -> None:
        """Log the name and value of the metric, or of each of several.

        Parameters
        ----------
        param:
            A :class:`BatchEndParam`, or any object with ``epoch``, ``nbatch`` and ``eval_metric``.
        """
        if not param.eval_metric:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.getLogger().info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.callback", name, "callback", globals())
