"""``mx.gluon.contrib.estimator``: training loops with metrics, validation, checkpoints and stopping by handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.contrib.estimator import batch_processor, estimator, event_handler, utils
from hybridc.gluon.contrib.estimator.batch_processor import BatchProcessor
from hybridc.gluon.contrib.estimator.estimator import Estimator
from hybridc.gluon.contrib.estimator.event_handler import (
    BatchBegin,
    BatchEnd,
    CheckpointHandler,
    EarlyStoppingHandler,
    EpochBegin,
    EpochEnd,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
)
from hybridc.ground.absent import absent as _absent

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "BatchProcessor",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "EpochBegin",
    "EpochEnd",
    "Estimator",
    "GradientUpdateHandler",
    "LoggingHandler",
    "MetricHandler",
    "StoppingHandler",
    "TrainBegin",
    "TrainEnd",
    "ValidationHandler",
    "batch_processor",
    "estimator",
    "event_handler",
    "utils",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.contrib.estimator", name, "attribute", globals())
