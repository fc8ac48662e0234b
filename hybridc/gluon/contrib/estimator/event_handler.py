"""Handlers of an estimator's events: begin and end of training, of an epoch, of a batch.

A handler derives from the classes of the events that it handles; ``epoch_end`` and ``batch_end`` return whether to
stop. Handlers of a smaller ``priority`` are called first.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from hybridc.errors import AttributeValueError, CheckError
from hybridc.gluon.contrib.estimator.utils import _check_metrics  # pyright: ignore[reportPrivateUsage]
from hybridc.gluon.export import latest_symbol
from hybridc.metric import CompositeEvalMetric, EvalMetric
from hybridc.metric import Loss as LossMetric

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "EpochBegin",
    "EpochEnd",
    "GradientUpdateHandler",
    "LoggingHandler",
    "MetricHandler",
    "StoppingHandler",
    "TrainBegin",
    "TrainEnd",
    "ValidationHandler",
]


class EventHandler:
    """The base of all handlers."""


class TrainBegin(EventHandler):
    """Handles the begin of training."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Called before the first epoch.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        """


class TrainEnd(EventHandler):
    """Handles the end of training."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Called after the last epoch.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        """


class EpochBegin(EventHandler):
    """Handles the begin of an epoch."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Called before the first batch of an epoch.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        """


class EpochEnd(EventHandler):
    """Handles the end of an epoch."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Called after the last batch of an epoch; returns whether training ends.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        """
        return False


class BatchBegin(EventHandler):
    """Handles the begin of a batch."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Called before a batch is computed, with the keyword ``batch``.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        """


class BatchEnd(EventHandler):
    """Handles the end of a batch."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Called with the keywords ``batch``, ``pred``, ``label`` and ``loss``; returns whether the epoch ends.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        """
        return False


def _check_event_handlers(handlers: Any) -> list[Any]:  # pyright: ignore[reportUnusedFunction]
    """A new list of handlers."""
    if isinstance(handlers, EventHandler):
        return [handlers]
    found: list[Any] = list(handlers or [])
    if not all(isinstance(handler, EventHandler) for handler in found):
        raise AttributeValueError(f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}")
    return found


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after ``max_epoch`` epochs or ``max_batch`` batches, as ``Estimator.fit`` was told."""

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Start counting."""
        self.max_epoch = estimator.max_epoch
        self.max_batch = estimator.max_batch
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether this was the last batch."""
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            self.stop_training = True
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether this was the last epoch."""
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            self.stop_training = True
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd, EpochEnd):
    """Resets metrics before each epoch and updates them after each batch; a ``mx.metric.Loss`` gets the losses.

    If the trainer trains over ranks, the metrics at the end of an epoch are those of all ranks, equal on each of them:
    what handlers decide by them, such as an early stop, all ranks do together.

    Parameters
    ----------
    metrics:
        The metrics, a list or one.
    priority:
        Handlers are called in the order of their priorities, the least first.
    """

    def __init__(self, metrics: Any, priority: float = -1000) -> None:
        self.metrics = _check_metrics(metrics)
        self.priority = priority  # before those that read metrics

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Reset."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update."""
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Combine with those of the other ranks."""
        ranks = estimator.trainer.communicator
        if ranks.size > 1:
            for metric in self.metrics:
                metric.combine(ranks)


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Validates after so many epochs, or batches.

    Parameters
    ----------
    val_data:
        The loader of validation data.
    eval_fn:
        A function that is called with the keywords ``val_data``, batch_axis and ``event_handlers``, as
        ``Estimator.evaluate``.
    epoch_period:
        After every how many epochs; None for none.
    batch_period:
        After every how many batches; None for none.
    priority:
        Handlers are called in the order of their priorities, the least first.
    event_handlers:
        Handlers of the validation; None for those that are added.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.priority = priority  # before those that read validation metrics
        self.event_handlers = event_handlers

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Start counting."""
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Validate, if it is time."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._validate(estimator)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Validate, if it is time."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._validate(estimator)

    def _validate(self, estimator: Any) -> None:
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Writes settings, times and metrics to the estimator's logger.

    Parameters
    ----------
    log_interval:
        ``"epoch"``, or a number of batches after which to log in the midst of an epoch, too.
    metrics:
        The metrics, a list or one; None for none.
    priority:
        Handlers are called in the order of their priorities, the least first.
    """

    def __init__(self, log_interval: int | str = "epoch", metrics: Any = None, priority: float = math.inf) -> None:
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise AttributeValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = _check_metrics(metrics)
        self.batch_index = 0
        self.current_epoch = 0
        self.processed_samples = 0
        self.priority = priority  # after those whose results are logged
        self.log_interval = log_interval
        self.log_interval_time = 0.0
        self.train_start = self.epoch_start = self.batch_start = 0.0

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the optimizer, its learning rate and how long training will be."""
        self.train_start = time.time()
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(estimator.trainer.optimizer).__name__,
            estimator.trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.current_epoch = 0
        self.batch_index = 0
        self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the time of training, and the metrics."""
        seconds = time.time() - self.train_start
        head = f"Train finished using total {int(seconds)}s with {self.current_epoch} epochs. "
        estimator.logger.info((head + self._values()).rstrip(", "))

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log that an epoch, or a validation, begins."""
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            rate = estimator.trainer.learning_rate
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch, rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the time of the epoch, and the metrics."""
        seconds = time.time() - self.epoch_start
        estimator.logger.info(f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, {self._values()}".rstrip(", "))
        self.current_epoch += 1
        self.batch_index = 0

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Note the time."""
        self.batch_start = time.time()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the metrics, if it is time."""
        if isinstance(self.log_interval, int):
            self.log_interval_time += time.time() - self.batch_start
            self.processed_samples += kwargs["batch"][0].shape[0]
            if self.batch_index % self.log_interval == 0:
                estimator.logger.info(
                    f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples {self.processed_samples}] "
                    f"time/interval: {self.log_interval_time:.3f}s {self._values()}"
                )
                self.log_interval_time = 0.0
        self.batch_index += 1

    def _values(self) -> str:
        """The metrics, as ``name: value, name: value``."""
        return ", ".join(f"{name}: {value:.4f}" for name, value in (metric.get() for metric in self.metrics))


def _comparison(monitor: EvalMetric, mode: str, handler: str) -> Any:
    """The comparison that says whether a metric's value is better than another: by the mode, or the metric's name."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{handler} mode {mode} is unknown, fallback to auto mode. It will use max mode for f1 and accuracy metric "
            "comparison and use min mode otherwise",
            RuntimeWarning,
            stacklevel=4,
        )
        mode = "auto"
    if mode != "auto":
        return np.less if mode == "min" else np.greater
    name = monitor.get()[0]
    # COMPAT(mxnet): there it is greater for every metric, also for losses.
    found, other = ("greater", "min") if re.search("acc|f1", name.lower()) else ("less", "max")
    chosen = "max" if found == "greater" else "min"
    warnings.warn(
        f"`{found}` operator will be used to determine if {name} has improved. Please specify `mode='{other}'` to use "
        f"the other operator. Specify `mode='{chosen}'` to disable this warning.",
        stacklevel=4,
    )
    return np.greater if found == "greater" else np.less


def _worst(comparison: Any) -> float:
    """The value that any other is better than."""
    return math.inf if comparison is np.less else -math.inf


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and trainer states after so many epochs, or batches.

    Files are ``prefix-epoch0batch10.params`` and ``.states``, ``prefix-best.*`` with ``save_best``, and
    ``prefix-symbol.json`` if the network is hybridized.

    Parameters
    ----------
    model_dir:
        The folder, which is made if it is not there.
    model_prefix:
        With what the names of files begin.
    monitor:
        The metric that ``save_best`` needs, of those of the estimator.
    verbose:
        1 logs what is saved, 0 does not.
    save_best:
        Whether the parameters with the best value of ``monitor`` are kept, too.
    mode:
        ``"min"`` where a smaller value is better, ``"max"`` where a larger one is; ``"auto"`` goes by the metric's
        name, with a warning.
    epoch_period:
        After every how many epochs; None for none.
    batch_period:
        After every how many batches; None for none.
    max_checkpoints:
        How many of the latest files are kept.
    resume_from_checkpoint:
        Whether training goes on from the latest files, for what is left of the epochs or batches.
    """

    def __init__(
        self,
        model_dir: str,
        model_prefix: str = "model",
        monitor: Any = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        self.monitor = monitor
        self.verbose = verbose
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.save_best = save_best
        if save_best and not isinstance(monitor, EvalMetric):
            raise AttributeValueError(
                "To save best model only, please provide one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor."
            )
        Path(model_dir).mkdir(parents=True, exist_ok=True)
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        self.trained_epoch = self.trained_batch = -1
        if save_best:
            self.monitor_op = _comparison(monitor, mode, "ModelCheckpoint")
            self.best = _worst(self.monitor_op)

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Start counting; load the latest files, if training is resumed."""
        self.current_epoch = 0
        self.current_batch = 0
        if self.save_best:
            self.best = _worst(self.monitor_op)
        if self.resume_from_checkpoint:
            self._resume_from_checkpoint(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save, if it is time; after the first batch, the symbol."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save, if it is time."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    def _file(self, name: str) -> Path:
        return Path(self.model_dir) / name

    def _save_symbol(self, estimator: Any) -> None:
        symbol, file = latest_symbol(estimator.net), self._file(f"{self.model_prefix}-symbol.json")
        if symbol is not None:
            symbol.save(str(file))
            return
        estimator.logger.info(
            "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and call "
            "net.hybridize() before passing to Estimator in order to save model architecture as %s.",
            file,
        )

    def _save_checkpoint(self, estimator: Any) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:  # the numbers go on; at the end of an epoch its batches are counted already
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save_params_and_trainer(estimator, prefix)
        self.saved_checkpoints.append(prefix)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            # COMPAT(mxnet): there files whose names only begin so, as of batch 10 with those of batch 1, go too.
            old = self.saved_checkpoints.pop(0)
            for suffix in ("params", "states"):
                self._file(f"{old}.{suffix}").unlink(missing_ok=True)
        self._tell(
            estimator,
            f"trained total {self.current_batch + 1} batches, saving model at {self.model_dir} with prefix: {prefix}",
        )
        if self.save_best:
            self._save_if_best(estimator)

    def _save_if_best(self, estimator: Any) -> None:
        name, value = self.monitor.get()
        if np.isnan(value):
            warnings.warn(
                f"Skipping save best because {name} is not updated, make sure you pass one of the metric objects "
                "estimator.train_metrics and estimator.val_metrics as monitor",
                RuntimeWarning,
                stacklevel=4,
            )
            return
        if not self.monitor_op(value, self.best):
            self._tell(estimator, f"{name} did not improve from {self.best:0.5f}, skipping updating best model")
            return
        prefix = f"{self.model_prefix}-best"
        self._save_params_and_trainer(estimator, prefix)
        self._tell(
            estimator,
            f"{name} improved from {self.best:0.5f} to {value:0.5f}, updating best model at {self.model_dir} with "
            f"prefix: {prefix}",
        )
        self.best = value

    def _save_params_and_trainer(self, estimator: Any, file_prefix: str) -> None:
        estimator.net.save_parameters(str(self._file(f"{file_prefix}.params")))
        estimator.trainer.save_states(str(self._file(f"{file_prefix}.states")))

    def _tell(self, estimator: Any, text: str) -> None:
        if self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: %s", self.current_epoch, text)

    # --- going on where training ended ---------------------------------------------------------------------

    def _resume_from_checkpoint(self, estimator: Any) -> None:
        """Load the latest files, and leave the estimator the rest of its epochs or batches."""
        wanted, other = (
            (self.batch_period, self.epoch_period) if estimator.max_batch else (self.epoch_period, self.batch_period)
        )
        if not wanted or other:
            raise CheckError(
                "To use resume from checkpoint, you must only specify the same type of period you used for training. "
                "For example, if you are training based on number of epochs, you must save only based on epochs, and "
                "set batch_period to None."
            )
        kind, total = ("batch", estimator.max_batch) if estimator.max_batch else ("epoch", estimator.max_epoch)
        found = self._checkpoints()
        self.saved_checkpoints = [f"{self.model_prefix}-epoch{e}batch{b}" for e, b in found]
        self.trained_epoch, self.trained_batch = found[-1] if found else (-1, -1)
        if not found:
            estimator.logger.info(
                "CheckpointHandler: No checkpoint found, training from scratch for %d %s",
                total,
                "batches" if kind == "batch" else "epochs",
            )
            return
        done = self.trained_batch if kind == "batch" else self.trained_epoch
        if done >= total - 1:
            raise AttributeValueError(
                f"Found checkpoint with maximum number of {kind} {total} reached, please specify "
                "resume_from_checkpoint=False (default value) if you want to train from scratch."
            )
        left = total - done - 1
        setattr(estimator, f"max_{kind}", left)
        params, states = [self._file(f"{self.saved_checkpoints[-1]}.{suffix}") for suffix in ("params", "states")]
        if not states.exists():
            raise CheckError(f"Failed to load checkpoint, {states} does not exist")
        estimator.net.load_parameters(str(params), ctx=estimator.context)
        estimator.trainer.load_states(str(states))
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for %d %s ",
            self.trained_epoch,
            self.trained_batch,
            left,
            "batches" if kind == "batch" else "epochs",
        )

    def _checkpoints(self) -> list[tuple[int, int]]:
        """Epoch and batch of all files, the latest last."""
        found: list[tuple[int, int]] = []
        for file in Path(self.model_dir).glob("*.params"):
            if file.name.startswith(f"{self.model_prefix}-epoch"):
                numbers = re.fullmatch(r"-epoch(\d+)batch(\d+)\.params", file.name[len(self.model_prefix) :])
                if numbers is None:
                    raise AttributeValueError(
                        f"Error parsing checkpoint file {file.name}, please check your checkpoints have the format: "
                        "{model_name}-epoch{epoch_number}batch{batch_number}.params, there should also be a .states "
                        "file for each .params file "
                    )
                found.append((int(numbers[1]), int(numbers[2])))
        return sorted(found)


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends training when a metric did not improve for some epochs.

    Parameters
    ----------
    monitor:
        The metric, of those of the estimator; anything else is an AttributeValueError.
    min_delta:
        The least change that is an improvement.
    patience:
        For how many epochs without one training goes on.
    mode:
        ``"min"`` where a smaller value is better, ``"max"`` where a larger one is; ``"auto"`` goes by the metric's
        name, with a warning.
    baseline:
        The value that the first epoch must improve on; None for any.
    """

    def __init__(
        self,
        monitor: Any,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        if not isinstance(monitor, EvalMetric):
            raise AttributeValueError(
                "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as "
                "monitor."
            )
        if isinstance(monitor, CompositeEvalMetric):
            raise AttributeValueError(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a simple metric instead."
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.monitor_op = _comparison(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is np.greater else -min_delta
        self.best = _worst(self.monitor_op)

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Start anew."""
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.best = _worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether the metric did not improve for too long."""
        name, value = cast("Any", self.monitor).get()
        if np.isnan(value):
            warnings.warn(
                f"{name} is not updated, make sure you pass one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log whether training ended early."""
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )


class GradientUpdateHandler(BatchEnd):
    """Lets the trainer make a step after each batch, with gradients divided by the number of losses, of all ranks.

    Parameters
    ----------
    priority:
        Handlers are called in the order of their priorities, the least first.
    """

    # COMPAT(mxnet): there the losses of one worker, so that steps are too large by the number of workers.

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority  # before metrics

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Make the step."""
        loss = kwargs["loss"]
        losses = cast("list[Any]", loss) if isinstance(loss, list) else [loss]
        estimator.trainer.step(estimator.trainer.total_batch_size(sum(each.shape[0] for each in losses)))
