"""Estimator: the training loop of a network, with metrics, validation and handlers of its events."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, cast

from hybridc.context import Context, cpu, gpu, num_gpus
from hybridc.errors import AttributeValueError, CheckError
from hybridc.gluon.contrib.estimator.batch_processor import BatchProcessor, Computed
from hybridc.gluon.contrib.estimator.event_handler import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
    _check_event_handlers,  # pyright: ignore[reportPrivateUsage]
)
from hybridc.gluon.contrib.estimator.utils import (
    _check_handler_metric_ref,  # pyright: ignore[reportPrivateUsage]
    _check_metrics,  # pyright: ignore[reportPrivateUsage]
    _suggest_metric_for_loss,  # pyright: ignore[reportPrivateUsage]
)
from hybridc.gluon.data import DataLoader
from hybridc.gluon.loss import Loss
from hybridc.gluon.trainer import Trainer
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.io.progress import progress
from hybridc.metric import Loss as LossMetric

__all__ = ["Estimator"]

_EVENTS = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)


class Estimator:
    """Trains and validates a network: ``Estimator(net, loss).fit(loader, epochs=3)``.

    :meth:`fit_batch` and :meth:`evaluate_batch` may be overridden. All that is logged goes to ``logger``, by default to
    the standard output; a bar shows progress on a terminal, if tqdm is installed.

    Parameters
    ----------
    net:
        The network, a Block.
    loss:
        The loss, of ``gluon.loss``; anything else is an AttributeValueError.
    train_metrics:
        A metric, or a list of metrics; None measures the loss, and the accuracy of a classifier.
    val_metrics:
        A metric, or a list of metrics of validation; None is copies of those of training.
    initializer:
        What gives the network's parameters their first values, if it is not initialized; None is uniform numbers.
    trainer:
        The Trainer; None is SGD at 0.001, with a warning.
    context:
        A device, or a list of devices, over which batches are split; None is the first GPU, or the CPU without one.
    val_net, val_loss:
        The network and the loss of validation; None is ``net``, and ``loss``.
    batch_processor:
        What computes batches, an object like :class:`BatchProcessor`; None is one of these.
    """

    logger: logging.Logger = cast("Any", None)

    def __init__(
        self,
        net: Any,
        loss: Any,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Any = None,
        context: Any = None,
        val_net: Any = None,
        val_loss: Any = None,
        batch_processor: Any = None,
    ) -> None:
        self.net = net
        self.loss = self._check_loss(loss)
        self._train_metrics = _check_metrics(train_metrics)
        self._val_metrics = _check_metrics(val_metrics)
        self._add_default_training_metrics()
        self._add_validation_metrics()
        self.val_loss = self.loss if val_loss is None else self._check_loss(val_loss)
        self.val_net = self.net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = self._check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = self._check_batch_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    # --- what it was given ---------------------------------------------------------------------------------

    def _check_loss(self, loss: Any) -> Any:
        if not isinstance(loss, Loss):
            raise AttributeValueError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
        return loss

    def _check_context(self, context: Any) -> list[Context]:
        if not context:
            count = num_gpus()
            if count > 1:
                warnings.warn(
                    "You have multiple GPUs, gpu(0) will be used by default. To use another, specify context.",
                    stacklevel=3,
                )
            return [gpu(0) if count else cpu()]
        given: Any = [context] if isinstance(context, Context) else context
        if not isinstance(given, list) or not all(isinstance(each, Context) for each in cast("list[Any]", given)):
            raise AttributeValueError(
                "context must be a Context or a list of Context, for example mx.cpu() or [mx.cpu(0), mx.cpu(1)], "
                f"refer to mxnet.Context:{context}"
            )
        devices = cast("list[Context]", given)
        for each in devices:
            if each.device_type == "gpu" and each.device_id >= num_gpus():
                raise CheckError(
                    f"{each} is not available, please make sure your context is in one of: mx.cpu(), "
                    + ", ".join(str(gpu(i)) for i in range(num_gpus()))
                )
        return devices

    def _check_batch_processor(self, batch_processor: Any) -> Any:
        if batch_processor is None:
            return BatchProcessor()
        if not all(callable(getattr(batch_processor, name, None)) for name in ("fit_batch", "evaluate_batch")):
            raise AttributeValueError(
                "Customized Batch Processor must contain fit_batch() and evaluate_batch() methods"
            )
        return batch_processor

    def _initialize(self, initializer: Any) -> None:
        if not self._is_initialized():
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*is already initialized, ignoring")  # others are not
                self.net.initialize(init=initializer, ctx=self.context)
        elif initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to pass initializer if you "
                "already initialized your net. You can use net.initialize(init=your_initializer, force_reinit=True)"
                "to force re-initialize.",
                stacklevel=3,
            )

    def _is_initialized(self) -> bool:
        try:
            for param in self.net.collect_params().values():
                param.list_ctx()
        except RuntimeError:
            return False
        return True

    def _check_trainer(self, trainer: Any) -> Trainer:
        if not trainer:
            warnings.warn("No trainer specified, default SGD optimizer with learning rate 0.001 is used.", stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise AttributeValueError(f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}")
        return trainer

    # --- metrics -------------------------------------------------------------------------------------------

    def _add_default_training_metrics(self) -> None:
        """The metrics of the loss, if none are given; their names then begin with ``training``."""
        if not self._train_metrics:
            suggested = _suggest_metric_for_loss(self.loss)
            self._train_metrics = [] if suggested is None else [suggested]
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("1234567890")))
        for metric in self._train_metrics:
            metric.name = "training " + metric.name

    def _add_validation_metrics(self) -> None:
        """Copies of the training's, if none are given; their names then begin with ``validation``."""
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            else:
                metric.name = "validation " + metric.name

    @property
    def train_metrics(self) -> list[Any]:
        """The metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[Any]:
        """The metrics of validation."""
        return self._val_metrics

    # --- batches -------------------------------------------------------------------------------------------

    def _get_data_and_label(
        self, batch: Sequence[Any], ctx: Sequence[Context], batch_axis: int = 0
    ) -> tuple[list[Any], list[Any]]:
        return BatchProcessor()._get_data_and_label(batch, ctx, batch_axis)

    def fit_batch(self, train_batch: Sequence[Any], batch_axis: int = 0) -> Computed:
        """Data, labels, predictions and losses of a batch of training data, whose gradients are computed.

        Parameters
        ----------
        train_batch:
            The batch: data and labels.
        batch_axis:
            The axis of the samples, along which batches are split over devices.
        """
        return self.batch_processor.fit_batch(self, train_batch, batch_axis)

    def evaluate_batch(self, val_batch: Sequence[Any], batch_axis: int = 0) -> Computed:
        """Data, labels, predictions and losses of a batch of validation data.

        Parameters
        ----------
        val_batch:
            The batch: data and labels.
        batch_axis:
            The axis of the samples, along which batches are split over devices.
        """
        return self.batch_processor.evaluate_batch(self, val_batch, batch_axis)

    # --- loops ---------------------------------------------------------------------------------------------

    @hides_frames
    def evaluate(self, val_data: Any, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Compute :attr:`val_metrics` of a loader's data; handlers of epochs and batches are called.

        Parameters
        ----------
        val_data:
            A DataLoader; anything else is an AttributeValueError.
        batch_axis:
            The axis of the samples, along which batches are split over devices.
        event_handlers:
            A handler, or a list of handlers; None for only those that are added.
        """
        _check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in progress(val_data, "validation"):
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.evaluate_batch(batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    @hides_frames
    def fit(
        self,
        train_data: Any,
        val_data: Any = None,
        epochs: int | None = None,
        event_handlers: Any = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train with a loader's data for a number of epochs, or of batches; one of both is given.

        Handlers that stop, update, measure and log are added where none of their kind are given, and one that validates
        if there is ``val_data``.

        Parameters
        ----------
        train_data:
            A DataLoader; anything else is an AttributeValueError.
        val_data:
            A DataLoader of validation data; None does not validate.
        epochs:
            How many epochs.
        event_handlers:
            A handler, or a list of handlers; None for only those that are added.
        batches:
            How many batches, in as many epochs as they need.
        batch_axis:
            The axis of the samples, along which batches are split over devices.
        """
        _check_loader(train_data)
        if (not epochs) == (not batches):
            raise AttributeValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or number of batches. "
                "Please specify one and only one of: epochs or batches."
            )
        self.max_epoch = epochs
        self.max_batch = batches
        self.batch_axis = batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = self._categorize_handlers(handlers)
        for handler in train_begin:
            handler.train_begin(self)
        stops, epoch = False, 0
        while not stops:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            for batch in progress(train_data, f"epoch {epoch}"):
                for handler in batch_begin:
                    handler.batch_begin(self, batch=batch)
                _, label, pred, loss = self.fit_batch(batch, batch_axis)
                done = [h.batch_end(self, batch=batch, pred=pred, label=label, loss=loss) for h in batch_end]
                if any(done):
                    break
            asked = [handler.epoch_end(self) for handler in epoch_end]
            stops = any(asked)
            epoch += 1
        for handler in train_end:
            handler.train_end(self)

    # --- handlers ------------------------------------------------------------------------------------------

    def _prepare_default_handlers(self, val_data: Any, event_handlers: Any) -> list[Any]:
        given = _check_event_handlers(event_handlers)
        added: list[Any] = [StoppingHandler(self.max_epoch, self.max_batch)]
        if not _has(given, GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if not _has(given, MetricHandler):
            added.append(MetricHandler(metrics=self.train_metrics))
        if val_data and not _has(given, ValidationHandler):
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))
        if not _has(given, LoggingHandler):
            added.append(LoggingHandler(metrics=self.train_metrics))
        return _ordered(given, added, [*self.train_metrics, *self.val_metrics])

    def _prepare_default_validation_handlers(self, event_handlers: Any) -> list[Any]:
        given = _check_event_handlers(event_handlers)
        added: list[Any] = []
        if not _has(given, MetricHandler):
            added.append(MetricHandler(metrics=self.val_metrics))
        if not _has(given, LoggingHandler):
            added.append(LoggingHandler(metrics=self.val_metrics))
        return _ordered(given, added, self.val_metrics)

    def _categorize_handlers(self, event_handlers: Iterable[Any]) -> tuple[list[Any], ...]:
        """The handlers of each event."""
        handlers = list(event_handlers)
        return tuple([handler for handler in handlers if isinstance(handler, event)] for event in _EVENTS)


def _check_loader(data: Any) -> None:
    if not isinstance(data, DataLoader):
        raise AttributeValueError(
            "Estimator only support input as Gluon DataLoader. Alternatively, you can transform your DataIter or any "
            f"NDArray into Gluon DataLoader. Refer to gluon.data.DataLoader; got {type(data).__name__}"
        )


def _has(handlers: Iterable[Any], kind: type[Any]) -> bool:
    return any(isinstance(handler, kind) for handler in handlers)


def _ordered(given: list[Any], added: list[Any], metrics: Sequence[Any]) -> list[Any]:
    """All handlers by priority; where they are mixed, they must have the estimator's metrics."""
    handlers = [*given, *added]
    if given and added:
        known = set(metrics)
        for handler in handlers:
            _check_handler_metric_ref(handler, known)
    return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))
