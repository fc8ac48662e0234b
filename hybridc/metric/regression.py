"""Metrics of regression: MAE, MSE, RMSE, Pearson's correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from hybridc.ground.display.tracebacks import hides_frames
from hybridc.metric.eval_metric import Array, EvalMetric, Names, alias, check_label_shapes, register, values


class _Regression(EvalMetric):
    """A measure of ``label - pred``, averaged over batches."""

    def measure(self, label: Array, pred: Array) -> tuple[Any, Any]:
        label = label.reshape(-1, 1) if label.ndim == 1 else label
        pred = pred.reshape(-1, 1) if pred.ndim == 1 else pred
        return self.of_error(label - pred), 1

    def of_error(self, error: Array) -> Any:
        """The metric of one batch, as a number.

        Parameters
        ----------
        error:
            ``label - pred``, a NumPy array.
        """
        return numpy.abs(error).mean()


@register
class MAE(_Regression):
    """The mean of ``abs(label - pred)`` of a batch, averaged over batches.

    Examples
    --------
    >>> metric = mx.metric.MAE()
    >>> metric.update(mx.nd.array([1, 2]), mx.nd.array([1, 5]))
    >>> metric.get()
    ('mae', 1.5)
    """

    def __init__(self, name: str = "mae", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class MSE(_Regression):
    """The mean of ``(label - pred) ** 2`` of a batch, averaged over batches.

    Examples
    --------
    >>> metric = mx.metric.MSE()
    >>> metric.update(mx.nd.array([1, 2]), mx.nd.array([1, 5]))
    >>> metric.get()
    ('mse', 4.5)
    """

    def __init__(self, name: str = "mse", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def of_error(self, error: Array) -> Any:
        return numpy.square(error).mean()


@register
class RMSE(_Regression):
    """``sqrt`` of the mean of ``(label - pred) ** 2`` of a batch, averaged over batches.

    Examples
    --------
    >>> metric = mx.metric.RMSE()
    >>> metric.update(mx.nd.array([1, 2]), mx.nd.array([4, 6]))  # sqrt((9 + 16) / 2)
    >>> round(metric.get()[1], 6)
    3.535534
    """

    def __init__(self, name: str = "rmse", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def of_error(self, error: Array) -> Any:
        return numpy.sqrt(numpy.square(error).mean())


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation of labels and predictions, from -1 to 1; both are of one shape.

    Parameters
    ----------
    average:
        "macro": the mean of the correlations of the batches; "micro": the correlation of all pairs.

    Examples
    --------
    >>> metric = mx.metric.PearsonCorrelation()
    >>> metric.update(mx.nd.array([1, 2, 3]), mx.nd.array([5, 3, 1]))
    >>> round(metric.get()[1], 6)
    -1.0
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        if average not in ("macro", "micro"):
            raise ValueError(f"average must be 'macro' or 'micro', got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)

    @hides_frames
    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check_label_shapes(label, pred, shape=True)
            pair = numpy.stack([values(label).ravel(), values(pred).ravel()]).astype(numpy.float64)
            if self.average == "macro":
                table: Any = numpy.corrcoef(pair)
                self.add_up(table[0, 1], 1)
                continue
            self._local.add(pair)
            self._global.add(pair)
            self.add_up(0.0, 1)

    def reset(self) -> None:
        super().reset()
        self._global = _Moments()

    def reset_local(self) -> None:
        super().reset_local()
        self._local = _Moments()

    def counters(self) -> Any:
        return super().counters(), self._local, self._global

    def take(self, counters: Sequence[Any]) -> None:
        pairs, local, whole = zip(*counters, strict=True)
        super().take(pairs)
        self._local, self._global = _Moments.of(local), _Moments.of(whole)

    def get(self) -> tuple[Any, Any]:
        return (self.name, self._local.correlation()) if self.average == "micro" else super().get()

    def get_global(self) -> tuple[Any, Any]:
        return (self.name, self._global.correlation()) if self.average == "micro" else super().get_global()


class _Moments:
    """Count, mean and co-moments of pairs that arrive in batches (Chan, Golub and LeVeque)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = numpy.zeros(2)
        self.products = numpy.zeros((2, 2))

    def add(self, pair: Array) -> None:
        """Take in an array of shape (2, n)."""
        if pair.shape[1]:
            mean = pair.mean(1, keepdims=True)
            centered = pair - mean
            self._join(pair.shape[1], mean.reshape(2), centered @ centered.T)

    def _join(self, new: int, mean: Array, products: Array) -> None:
        shift = mean - self.mean
        total = self.count + new
        self.products += products + numpy.outer(shift, shift) * (self.count * new / total)
        self.mean += shift * (new / total)
        self.count = total

    @classmethod
    def of(cls, parts: Sequence[_Moments]) -> _Moments:
        """The moments of all parts."""
        whole = cls()
        for part in parts:
            if part.count:
                whole._join(part.count, part.mean, part.products)
        return whole

    def correlation(self) -> float:
        """The correlation of all pairs so far; NaN without spread."""
        denominator = math.sqrt(float(self.products[0, 0] * self.products[1, 1]))
        return float(self.products[0, 1]) / denominator if denominator else math.nan
