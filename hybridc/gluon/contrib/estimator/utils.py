"""Checks of an estimator's metrics."""

# pyright: reportUnusedFunction=false

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from hybridc.errors import AttributeValueError
from hybridc.gluon.loss import SoftmaxCrossEntropyLoss
from hybridc.metric import Accuracy, CompositeEvalMetric, EvalMetric


def _check_metrics(metrics: Any) -> list[EvalMetric]:
    """A list of metrics: those given, one given, or the parts of a composite one."""
    if isinstance(metrics, CompositeEvalMetric):
        return [part for metric in cast("list[Any]", metrics.metrics) for part in _check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    found: list[Any] = metrics or []
    if not all(isinstance(metric, EvalMetric) for metric in found):
        raise AttributeValueError(
            f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: {metrics}"
        )
    return found


def _check_handler_metric_ref(handler: Any, known_metrics: Collection[Any]) -> None:
    """Raise if a handler has a metric, in an attribute with a name such as ``metrics``, that the estimator has not."""
    for attribute in dir(handler):
        if "metric" in attribute:
            found = getattr(handler, attribute)
            for metric in cast("list[Any]", found if isinstance(found, list) else [found]):
                if isinstance(metric, EvalMetric):
                    _check_metric_known(handler, metric, known_metrics)


def _check_metric_known(handler: Any, metric: Any, known_metrics: Collection[Any]) -> None:
    if metric not in known_metrics:
        raise AttributeValueError(
            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the known "
            "training and validation metrics. Please use the metrics from estimator.train_metrics and "
            "estimator.val_metrics instead."
        )


def _suggest_metric_for_loss(loss: Any) -> EvalMetric | None:
    """Accuracy for a loss of classes, else None."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
