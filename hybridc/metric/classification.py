"""Metrics of classification: accuracy, F1, MCC, PCC, perplexity, cross entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from hybridc.errors import CheckError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.metric.eval_metric import Array, EvalMetric, Names, alias, check_label_shapes, register, values


def _best(metric: str, label: Array, pred: Array, axis: int) -> Array:
    """The class of the largest score along an axis."""
    if not -pred.ndim <= axis < pred.ndim:
        raise CheckError(
            f"{metric}: predictions of shape {pred.shape} have no axis {axis} of classes, for labels of shape "
            f"{label.shape}{_order(label, pred)}"
        )
    return pred.argmax(axis)


def _order(label: Array, pred: Array) -> str:
    """That labels come first, where they have more axes than the predictions."""
    return "; update(labels, preds) takes the labels first" if label.ndim > pred.ndim else ""


@register
@alias("acc")
class Accuracy(EvalMetric):
    """The share of predictions that equal their label.

    Predictions of the labels' shape are classes. Those of another shape are scores of the classes, of which the largest
    along ``axis`` counts.

    Parameters
    ----------
    axis:
        The axis of the classes in scores.

    Examples
    --------
    >>> metric = mx.metric.Accuracy()
    >>> metric.update(mx.nd.array([0, 1, 1, 1]), mx.nd.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]))
    >>> metric.get()
    ('accuracy', 0.75)
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def measure(self, label: Array, pred: Array) -> tuple[Any, Any]:
        if pred.shape != label.shape:
            pred = _best("Accuracy", label, pred, self.axis)
        guesses = pred.astype(numpy.int32).ravel()
        truth = label.astype(numpy.int32).ravel()
        check_label_shapes(truth, guesses)
        return int((guesses == truth).sum()), guesses.size


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """The share of labels that are among the ``top_k`` classes of the largest scores.

    Labels are of shape (samples,), predictions are scores of shape (samples, classes).

    Parameters
    ----------
    top_k:
        How many classes may be right, at least 2: 1 is a CheckError, since it is :class:`Accuracy`.
    name:
        The name of the metric, to which ``_`` and ``top_k`` are added.

    Examples
    --------
    >>> metric = mx.metric.TopKAccuracy(top_k=2)
    >>> metric.update(mx.nd.array([0, 2]), mx.nd.array([[0.3, 0.5, 0.2], [0.3, 0.6, 0.1]]))
    >>> metric.get()
    ('top_k_accuracy_2', 0.5)
    """

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        if top_k <= 1:
            raise CheckError(f"TopKAccuracy needs top_k of at least 2, got {top_k}; use Accuracy for 1")
        super().__init__(name, output_names, label_names, top_k=top_k)
        self.top_k = top_k
        self._given_name = name
        self.name += f"_{top_k}"

    def measure(self, label: Array, pred: Array) -> tuple[Any, Any]:
        if pred.ndim != 2:
            raise CheckError(
                f"TopKAccuracy: predictions need 2 dimensions (samples, classes), got {pred.shape}{_order(label, pred)}"
            )
        check_label_shapes(label, pred)
        truth = label.astype(numpy.int32).reshape(-1, 1)
        # COMPAT(mxnet): there fewer than top_k classes are an error.
        k = min(self.top_k, pred.shape[1])
        best = numpy.argpartition(pred.astype(numpy.float32), -k)[:, -k:]
        return int((best == truth).sum()), pred.shape[0]

    # COMPAT(mxnet): the configuration has the given name, so that what it makes has the same; there top_k comes twice.
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "name": self._given_name}


class _Confusion:
    """Counts of a binary classification."""

    def __init__(self) -> None:
        self.true_positives = self.false_positives = self.true_negatives = self.false_negatives = 0

    def update(self, label: Array, pred: Array, metric: str) -> None:
        """Count a batch: scores of two classes for each label."""
        guesses = _best(metric, label, pred, 1)
        truth = label.astype(numpy.int32).ravel()
        check_label_shapes(truth, guesses)
        if len(numpy.unique(truth)) > 2:
            raise ValueError(f"{metric} currently only supports binary classification.")
        guessed, positive = guesses == 1, truth == 1
        self.true_positives += int((guessed & positive).sum())
        self.false_positives += int((guessed & ~positive).sum())
        self.false_negatives += int((~guessed & positive).sum())
        self.true_negatives += int((~guessed & ~positive).sum())

    @classmethod
    def of(cls, parts: Sequence[_Confusion]) -> _Confusion:
        """The counts of all parts."""
        whole = cls()
        for part in parts:
            whole.true_positives += part.true_positives
            whole.false_positives += part.false_positives
            whole.true_negatives += part.true_negatives
            whole.false_negatives += part.false_negatives
        return whole

    @property
    def total(self) -> int:
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    def f1(self) -> float:
        """``2 tp / (2 tp + fp + fn)``, the harmonic mean of precision and recall; 0 without positives."""
        doubled = 2 * self.true_positives
        denominator = doubled + self.false_positives + self.false_negatives
        return doubled / denominator if denominator else 0.0

    def mcc(self) -> float:
        """Matthews' correlation; empty rows and columns of the table are left out of the denominator."""
        tp, fp = self.true_positives, self.false_positives
        tn, fn = self.true_negatives, self.false_negatives
        sides = [side for side in (tp + fp, tp + fn, tn + fp, tn + fn) if side]
        return (tp * tn - fp * fn) / math.sqrt(math.prod(sides)) if self.total else 0.0


class _Binary(EvalMetric):
    """A score of binary classification: averaged over batches ('macro') or of all samples ('micro').

    Parameters
    ----------
    average:
        "macro": the mean of the scores of the batches; "micro": the score of all samples together.
    """

    def __init__(self, name: str, output_names: Names, label_names: Names, average: str) -> None:
        if average not in ("macro", "micro"):
            raise ValueError(f"average must be 'macro' or 'micro', got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, average=average, has_global_stats=True)

    def score(self, counts: _Confusion) -> float:
        """The metric of counts.

        Parameters
        ----------
        counts:
            The numbers ``true_positives``, ``false_positives``, ``true_negatives`` and ``false_negatives``.
        """
        return counts.f1()

    @hides_frames
    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        batches = [_Confusion()] if self.average == "macro" else [self._local, self._global]
        for label, pred in zip(labels, preds):
            for counts in batches:
                counts.update(values(label), values(pred), type(self).__name__)
        if self.average == "macro":
            self.add_up(self.score(batches[0]), 1)
        else:
            self._sum_up()

    def _sum_up(self) -> None:
        """Make the two pairs from the counts of all samples."""
        self.sum_metric = self.score(self._local) * self._local.total
        self.num_inst = self._local.total
        self.global_sum_metric = self.score(self._global) * self._global.total
        self.global_num_inst = self._global.total

    def counters(self) -> Any:
        return super().counters() if self.average == "macro" else (self._local, self._global)

    def take(self, counters: Sequence[Any]) -> None:
        if self.average == "macro":
            super().take(counters)
            return
        self._local, self._global = (_Confusion.of(column) for column in zip(*counters, strict=True))
        self._sum_up()

    def reset(self) -> None:
        super().reset()
        self._global = _Confusion()

    def reset_local(self) -> None:
        super().reset_local()
        self._local = _Confusion()


@register
class F1(_Binary):
    """``2 * precision * recall / (precision + recall)`` of a binary classification; 0 without positives.

    Precision is the share of right ones among the samples that are found positive (class 1), recall the share of
    those found among the samples that are positive. Labels are 0 or 1, of shape (samples,); predictions are scores of
    shape (samples, 2). Labels of more than two values are a ValueError.

    Examples
    --------
    >>> metric = mx.metric.F1()  # 1 of 1 found is right, and 1 of 2 positives is found
    >>> metric.update(mx.nd.array([0, 1, 1]), mx.nd.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))
    >>> metric.get()
    ('f1', 0.6666666666666666)
    """

    def __init__(
        self,
        name: str = "f1",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_Binary):
    """Matthews' correlation coefficient of a binary classification, from -1 to 1; 1 if all predictions are right.

    ``(tp * tn - fp * fn) / sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))``, of the numbers of true and false
    positives and negatives; factors of 0 are left out. Labels are 0 or 1, of shape (samples,); predictions are scores
    of shape (samples, 2). Labels of more than two values are a ValueError.

    Examples
    --------
    >>> metric = mx.metric.MCC()  # tp = 1, tn = 1, fp = 0, fn = 1: 1 / sqrt(1 * 2 * 1 * 2)
    >>> metric.update(mx.nd.array([0, 1, 1]), mx.nd.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))
    >>> metric.get()
    ('mcc', 0.5)
    """

    def __init__(
        self,
        name: str = "mcc",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def score(self, counts: _Confusion) -> float:
        return counts.mcc()


@register
class Perplexity(EvalMetric):
    """``exp`` of the mean of ``-log(max(p, 1e-10))``, ``p`` the probability given to each label.

    Parameters
    ----------
    ignore_label:
        The label that does not count, as that of padding; None: all count.
    axis:
        The axis of the classes in predictions, which are probabilities. The other axes have as many elements as there
        are labels, in the same order; else a CheckError.

    Examples
    --------
    >>> metric = mx.metric.Perplexity(ignore_label=None)  # sqrt(1 / 0.5 * 1 / 0.125)
    >>> metric.update(mx.nd.array([0, 1]), mx.nd.array([[0.5, 0.5], [0.875, 0.125]]))
    >>> round(metric.get()[1], 6)
    4.0
    """

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, ignore_label=ignore_label)
        self.ignore_label = ignore_label
        self.axis = axis

    def measure(self, label: Array, pred: Array) -> tuple[Any, Any]:
        rows = numpy.moveaxis(pred, self.axis, -1).reshape(-1, pred.shape[self.axis])
        truth = label.reshape(-1)
        if truth.size != len(rows):
            raise CheckError(f"shape mismatch: {label.shape} vs. {pred.shape}{_order(label, pred)}")
        if self.ignore_label is not None:
            counted = truth != self.ignore_label
            rows, truth = rows[counted], truth[counted]
        # Labels outside the classes are clipped, as the operator pick does it in MXNet.
        picked = rows[numpy.arange(truth.size), numpy.clip(truth.astype(numpy.int64), 0, rows.shape[1] - 1)]
        return -numpy.log(numpy.maximum(picked, 1e-10)).sum(), truth.size

    def result(self, total: Any, count: Any) -> float:
        return math.exp(total / count) if count else math.nan


class _LogLikelihood(EvalMetric):
    """The mean of ``-log(p + eps)``, ``p`` the probability given to each label.

    Parameters
    ----------
    eps:
        What is added to probabilities, so that a 0 has a logarithm.
    """

    def __init__(self, eps: float, name: str, output_names: Names, label_names: Names) -> None:
        super().__init__(name, output_names, label_names, eps=eps)
        self.eps = eps

    def measure(self, label: Array, pred: Array) -> tuple[Any, Any]:
        truth = label.ravel()
        if truth.shape[0] != pred.shape[0]:
            raise CheckError(
                f"{truth.shape[0]} labels do not match predictions of shape {pred.shape}{_order(label, pred)}"
            )
        picked = pred[numpy.arange(truth.shape[0]), truth.astype(numpy.int64)]
        return -numpy.log(picked + self.eps).sum(), truth.shape[0]


@register
@alias("ce")
class CrossEntropy(_LogLikelihood):
    """The mean of ``-log(p + eps)``, ``p`` the probability given to each label.

    Labels are of shape (samples,), predictions are probabilities of shape (samples, classes).

    Examples
    --------
    >>> metric = mx.metric.CrossEntropy()
    >>> metric.update(mx.nd.array([0, 1]), mx.nd.array([[0.5, 0.5], [0.875, 0.125]]))
    >>> round(metric.get()[1], 4)  # (log(2) + log(8)) / 2 = 2 * log(2)
    1.3863
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_LogLikelihood):
    """The same as :class:`CrossEntropy` under another name.

    Examples
    --------
    >>> metric = mx.metric.NegativeLogLikelihood()
    >>> metric.update(mx.nd.array([0]), mx.nd.array([[0.5, 0.5]]))
    >>> round(metric.get()[1], 4)  # log(2)
    0.6931
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
class PCC(EvalMetric):
    """Matthews' correlation for any number of classes, from the confusion table of all batches; 1 if all are right.

    Of two classes it is :class:`MCC` with ``average="micro"``, but NaN where only one class was seen or found.
    Labels are of shape (samples,), predictions classes of that shape, or scores of shape (samples, classes).

    Parameters
    ----------
    has_global_stats:
        Whether :meth:`get_global` has a result of its own; else it is :meth:`get`.

    Examples
    --------
    >>> metric = mx.metric.PCC()
    >>> metric.update(mx.nd.array([0, 1, 1]), mx.nd.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))
    >>> metric.get()
    ('pcc', 0.5)
    """

    def __init__(
        self,
        name: str = "pcc",
        output_names: Names = None,
        label_names: Names = None,
        has_global_stats: bool = True,
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    @hides_frames
    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            scores, truth = values(pred), values(label).astype(numpy.int64)
            guesses = (scores if scores.shape == truth.shape else scores.argmax(1)).astype(numpy.int64)
            pairs = guesses.ravel(), truth.ravel()
            check_label_shapes(*pairs)
            self._local = _count(self._local, *pairs)
            self._global = _count(self._global, *pairs)
        self.num_inst += 1
        self.global_num_inst += 1
        self._sum_up()

    def _sum_up(self) -> None:
        """Make the sums of the two pairs from the tables."""
        self.sum_metric = _correlation(self._local) * self.num_inst
        self.global_sum_metric = _correlation(self._global) * self.global_num_inst

    def counters(self) -> Any:
        return self._local, self.num_inst, self._global, self.global_num_inst

    def take(self, counters: Sequence[Any]) -> None:
        local, counts, whole, whole_counts = zip(*counters, strict=True)
        self._local, self._global = _added(local), _added(whole)
        self.num_inst, self.global_num_inst = sum(counts), sum(whole_counts)
        self._sum_up()

    def reset(self) -> None:
        super().reset()
        self._global = numpy.zeros((2, 2))

    def reset_local(self) -> None:
        super().reset_local()
        self._local = numpy.zeros((2, 2))


def _count(table: Array, guesses: Array, truth: Array) -> Array:
    """The table with these pairs added, larger if there are new classes."""
    size = max(len(table), int(guesses.max(initial=-1)) + 1, int(truth.max(initial=-1)) + 1)
    grown = numpy.zeros((size, size))
    grown[: len(table), : len(table)] = table
    numpy.add.at(grown, (guesses, truth), 1)
    return grown


def _added(tables: Sequence[Array]) -> Array:
    """The sum of tables, which may know of different numbers of classes."""
    size = max(map(len, tables))
    whole = numpy.zeros((size, size))
    for table in tables:
        whole[: len(table), : len(table)] += table
    return whole


def _correlation(table: Array) -> float:
    n, rows, columns = table.sum(), table.sum(1), table.sum(0)
    denominator = (rows * (n - rows)).sum() * (columns * (n - columns)).sum()
    if not denominator:
        return math.nan
    return float((n * numpy.trace(table) - rows @ columns) / math.sqrt(denominator))
