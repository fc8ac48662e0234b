"""The base class of metrics, the registry, and the metrics made of others or of a function."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, cast, overload

import numpy
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, values_of
from hybridc.communication import Communicator, communicator
from hybridc.dtypes import computed
from hybridc.errors import NotOverriddenError
from hybridc.ground.display.arguments_text import called, settings
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.registry import get_alias_func, get_create_func, get_register_func

Array = npt.NDArray[Any]
Names = Sequence[str] | None


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Raise a ValueError unless labels and predictions are equally many, or with ``shape`` of equal shapes.

    It returns both; with ``wrap`` a single array becomes a list of one.

    Parameters
    ----------
    labels:
        An array, or a list of arrays.
    preds:
        An array, or a list of arrays.
    wrap:
        Whether a single array is returned as a list of one.
    shape:
        Whether the shapes of two arrays are compared, rather than their lengths.

    Examples
    --------
    >>> mx.metric.check_label_shapes(mx.nd.zeros(3), mx.nd.zeros((2, 5)))
    Traceback (most recent call last):
    ValueError: Shape of labels 3 does not match shape of predictions 2
    """
    got, other = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if got != other:
        raise ValueError(f"Shape of labels {got} does not match shape of predictions {other}")
    if wrap:
        labels = [labels] if isinstance(labels, (NDArray, numpy.ndarray)) else labels
        preds = [preds] if isinstance(preds, (NDArray, numpy.ndarray)) else preds
    return labels, preds


def values(x: Any) -> Array:
    """The values of an NDArray, or of anything NumPy understands; bfloat16 as float32. Read-only."""
    found = values_of(x) if isinstance(x, NDArray) else numpy.asarray(x)
    return found.astype(computed(found.dtype), copy=False)


class EvalMetric:
    """The base of metrics. The result is ``sum_metric / num_inst``, which add up over batches until a reset.

    A metric of your own defines :meth:`measure`, the sum and the count of one pair of arrays. Or it defines
    :meth:`update`, and adds to the two attributes itself.

    There are two results: that of :meth:`get`, which :meth:`reset_local` starts over, and that of :meth:`get_global`,
    from ``global_sum_metric`` and ``global_num_inst``, which only :meth:`reset` does. A metric that defines
    :meth:`measure` has both. One that defines :meth:`update` has both if it calls :meth:`add_up` and passes
    ``has_global_stats=True`` to this class; else :meth:`get_global` is :meth:`get`.

    Parameters
    ----------
    name:
        The name that :meth:`get` gives with the value.
    output_names:
        The names of the outputs that :meth:`update_dict` uses; None for all.
    label_names:
        The names of the labels that :meth:`update_dict` uses; None for all.
    **kwargs:
        What :meth:`get_config` gives beside these, and ``has_global_stats``.

    Examples
    --------
    >>> class Largest(mx.metric.EvalMetric):  # the mean of the largest error of each batch
    ...     def measure(self, label, pred):
    ...         return abs(label - pred).max(), 1
    >>> metric = Largest("largest")
    >>> metric.update(mx.nd.array([1, 2, 3]), mx.nd.array([1, 4, 3]))
    >>> metric.update(mx.nd.array([1, 2, 3]), mx.nd.array([2, 2, 3]))
    >>> metric.get()
    ('largest', 1.5)
    """

    def __init__(self, name: str, output_names: Names = None, label_names: Names = None, **kwargs: Any) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        adds_up = type(self).update is EvalMetric.update
        self._has_global_stats = bool(kwargs.pop("has_global_stats", adds_up))
        self._kwargs = kwargs
        self.num_inst: Any = 0
        self.sum_metric: Any = 0.0
        self.global_num_inst: Any = 0
        self.global_sum_metric: Any = 0.0
        self.reset()

    @hides_frames
    def update(self, labels: Any, preds: Any) -> None:
        """Take in one batch. Here: each pair of arrays by :meth:`measure`.

        Parameters
        ----------
        labels:
            The labels: an array, or a list of arrays, one for each output of the network.
        preds:
            The outputs of the network: an array, or as many arrays as there are of labels; else a ValueError.
        """
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self.add_up(*self.measure(values(label), values(pred)))

    def measure(self, label: Array, pred: Array) -> tuple[Any, Any]:
        """The sum and the count of one pair of arrays: what most subclasses define.

        Parameters
        ----------
        label:
            The labels, a NumPy array that must not be written to; those of bfloat16 are float32 here.
        pred:
            The outputs of the network, a NumPy array as well.
        """
        raise NotOverriddenError(
            f"{type(self).__name__} defines neither update(labels, preds) nor measure(label, pred)"
        )

    def add_up(self, total: Any, count: Any) -> None:
        """Add to the sums and counts of both results.

        Parameters
        ----------
        total:
            What is added to the sums; a NumPy number becomes a Python number, so that sums are of double precision.
        count:
            What is added to the counts.
        """
        total = total.item() if isinstance(total, numpy.generic) else total  # pyright: ignore[reportUnknownVariableType]
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """Take in one batch given as arrays by name.

        Parameters
        ----------
        label:
            A dict of labels by name, of which those of ``label_names`` are used; all, if that is None.
        pred:
            A dict of outputs by name, of which those of ``output_names`` are used; all, if that is None. A name that
            is missing is a KeyError.
        """
        preds = [pred[name] for name in self.output_names or pred]
        labels = [label[name] for name in self.label_names or label]
        self.update(labels, preds)

    def reset(self) -> None:
        """Start both results over."""
        self.reset_local()
        self.global_num_inst = 0
        self.global_sum_metric = 0.0

    def reset_local(self) -> None:
        """Start over what :meth:`get` gives; :meth:`get_global` runs on.

        Examples
        --------
        >>> metric = mx.metric.MAE()
        >>> metric.update(mx.nd.array([1]), mx.nd.array([2]))
        >>> metric.reset_local()
        >>> metric.update(mx.nd.array([1]), mx.nd.array([4]))
        >>> metric.get(), metric.get_global()
        (('mae', 3.0), ('mae', 2.0))
        """
        self.num_inst = 0
        self.sum_metric = 0.0

    def get(self) -> tuple[str, float]:
        """The name and the result so far; NaN without data."""
        return self.name, self.result(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[str, float]:
        """The name and the result since :meth:`reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self.result(self.global_sum_metric, self.global_num_inst)

    def result(self, total: Any, count: Any) -> float:
        """The metric from a sum and a count: here their quotient, NaN without data.

        Parameters
        ----------
        total:
            The sum of what was measured.
        count:
            The number of items in it; 0 if there was no data.
        """
        return float(total / count) if count else math.nan

    # --- over ranks ----------------------------------------------------------------------------------------

    def sync(self) -> Self:
        """The metric of what all ranks took in, a new one that is equal on all of them; all ranks call this.

        This one goes on with what this rank takes in, so it can be called again. With one rank it is a copy.
        """
        result = copy.copy(self)
        result.combine(communicator())
        return result

    def combine(self, ranks: Communicator) -> None:
        """Merge, in place, with the metrics of all ranks; each of them calls this.

        Parameters
        ----------
        ranks:
            The communicator of these ranks.
        """
        own_results = type(self).get is not EvalMetric.get or type(self).get_global is not EvalMetric.get_global
        if own_results and type(self).counters is EvalMetric.counters:
            raise NotOverriddenError(
                f"{type(self).__name__} has a get() of its own, so what it counts is not known; to be summed over "
                f"ranks it must define counters() and take(counters)"
            )
        self.take(ranks.gather_objects(self.counters()))

    def counters(self) -> Any:
        """What :meth:`sync` takes from each rank: sums and counts, by default the two pairs."""
        return self.sum_metric, self.num_inst, self.global_sum_metric, self.global_num_inst

    def take(self, counters: Sequence[Any]) -> None:
        """Become the metric of all ranks, in place of that of this rank.

        It binds new objects to its attributes: the metric of which this one is a copy still has the old ones.

        Parameters
        ----------
        counters:
            What :meth:`counters` gave on each rank.
        """
        sums = [sum(column[1:], column[0]) for column in zip(*counters, strict=True)]
        self.sum_metric, self.num_inst, self.global_sum_metric, self.global_num_inst = sums

    def get_name_value(self) -> list[tuple[str, float]]:
        """The result as pairs of name and value."""
        return _pairs(*self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """The result since :meth:`reset` as pairs of name and value."""
        return _pairs(*self.get_global()) if self._has_global_stats else self.get_name_value()

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the metric.

        Examples
        --------
        >>> config = mx.metric.TopKAccuracy(top_k=3).get_config()
        >>> mx.metric.create(config).top_k
        3
        """
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def __repr__(self) -> str:
        # The value is left to get(): of several ranks that is a sum over all of them.
        return called(self, settings(self))

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"


def _pairs(name: Any, value: Any) -> list[tuple[str, float]]:
    return list(zip(cast("list[str]", name), value)) if isinstance(name, list) else [(name, value)]


register = get_register_func(EvalMetric, "metric")
alias = get_alias_func(EvalMetric, "metric")
_create = get_create_func(EvalMetric, "metric")


@overload
def create(metric: list[Any] | tuple[Any, ...], *args: Any, **kwargs: Any) -> CompositeEvalMetric: ...
@overload
def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric: ...
def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """Make a metric.

    Parameters
    ----------
    metric:
        A registered name in any case ("acc", "f1", "mse"), a metric's class, a function ``f(label, pred)`` of NumPy
        arrays, the dict of :meth:`EvalMetric.get_config`, or a metric, which is returned as it is. A list of these
        gives a :class:`CompositeEvalMetric`. Other names are a CheckError.
    *args:
        Arguments of the metric; those of each metric of a list.
    **kwargs:
        The same, by name.

    Examples
    --------
    >>> mx.metric.create("top_k_accuracy", top_k=3).name
    'top_k_accuracy_3'
    >>> mx.metric.create(["acc", "ce"]).get()
    (['accuracy', 'cross-entropy'], [nan, nan])
    """
    # COMPAT(mxnet): a metric's class is taken too; there it counts as a function.
    if isinstance(metric, type) and issubclass(cast("type[Any]", metric), EvalMetric):
        return cast("type[Any]", metric)(*args, **kwargs)
    if callable(metric):
        return CustomMetric(cast("Callable[..., Any]", metric), *args, **kwargs)
    if isinstance(metric, (list, tuple)):
        children = [create(child, *args, **kwargs) for child in cast("list[Any]", metric)]
        return CompositeEvalMetric(children)
    if isinstance(metric, dict):
        return create(**cast("dict[str, Any]", metric))
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics of the same data: :meth:`get` gives two lists, of their names and of their results.

    Parameters
    ----------
    metrics:
        The metrics: objects, or what :func:`create` makes them of. None: there are none at first.
    name:
        Not used: :meth:`get` gives the names of the metrics.

    Examples
    --------
    >>> metric = mx.metric.CompositeEvalMetric(["mae", "mse"])
    >>> metric.update(mx.nd.array([1, 2]), mx.nd.array([1, 5]))
    >>> metric.get()
    (['mae', 'mse'], [1.5, 4.5])
    """

    def __init__(
        self,
        metrics: Iterable[Any] | None = None,
        name: str = "composite",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        self.metrics = [create(m) for m in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Add a metric.

        Parameters
        ----------
        metric:
            A metric, or what :func:`create` makes one of.
        """
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """One of the metrics.

        Parameters
        ----------
        index:
            Its position, from 0; a negative one counts from the end. Others are a ValueError.
        """
        # COMPAT(mxnet): there a bad index gives a ValueError back instead of raising it.
        if not -len(self.metrics) <= index < len(self.metrics):
            raise ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")
        return self.metrics[index]

    # The parameters' names are MXNet's, which differ from those of the base class.
    def update_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, labels: Mapping[str, Any], preds: Mapping[str, Any]
    ) -> None:
        """Give each metric a batch of arrays by name.

        Parameters
        ----------
        labels:
            A dict of labels by name, of which those of ``label_names`` are passed on; all, if that is None.
        preds:
            A dict of outputs by name, of which those of ``output_names`` are passed on; all, if that is None.
        """
        if self.label_names is not None:
            labels = {k: v for k, v in labels.items() if k in self.label_names}
        if self.output_names is not None:
            preds = {k: v for k, v in preds.items() if k in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    @hides_frames
    def update(self, labels: Any, preds: Any) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list[str], list[float]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The names and the results so far, as two lists."""
        pairs = [pair for metric in self.metrics for pair in metric.get_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get_global(self) -> tuple[list[str], list[float]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The names and the results since :meth:`reset`, as two lists."""
        pairs = [pair for metric in self.metrics for pair in metric.get_global_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def counters(self) -> Any:
        return [metric.counters() for metric in self.metrics]

    def take(self, counters: Sequence[Any]) -> None:
        self.metrics = [copy.copy(metric) for metric in self.metrics]
        for metric, each in zip(self.metrics, zip(*counters, strict=True), strict=True):
            metric.take(each)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [m.get_config() for m in self.metrics]}


@register
class Loss(EvalMetric):
    """The mean of the outputs themselves, which are a loss; labels do not matter.

    Examples
    --------
    >>> metric = mx.metric.Loss()
    >>> metric.update(None, mx.nd.array([1, 2, 6]))
    >>> metric.get()
    ('loss', 3.0)
    """

    def __init__(self, name: str = "loss", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    @hides_frames
    def update(self, _: Any, preds: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take in the losses of one batch.

        Parameters
        ----------
        _:
            Not used: where other metrics take labels.
        preds:
            Losses of any shape: an array, or a list of arrays.
        """
        single = isinstance(preds, (NDArray, numpy.ndarray))
        for pred in cast("list[Any]", [preds] if single else preds):
            loss = values(pred)
            self.add_up(loss.sum(), loss.size)


@register
class Torch(Loss):
    """The same as :class:`Loss`, under MXNet's old name.

    Examples
    --------
    >>> metric = mx.metric.Torch()
    >>> metric.update(None, [mx.nd.array([1, 2, 6])])
    >>> metric.get()
    ('torch', 3.0)
    """

    def __init__(self, name: str = "torch", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """The same as :class:`Loss`, under MXNet's old name.

    Examples
    --------
    >>> metric = mx.metric.Caffe()
    >>> metric.update(None, [mx.nd.array([1, 2, 6])])
    >>> metric.get()
    ('caffe', 3.0)
    """

    def __init__(self, name: str = "caffe", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """The mean of ``feval(label, pred)`` over batches.

    Parameters
    ----------
    feval:
        A function of two NumPy arrays, the labels and the predictions of a batch, which are copies. It gives a number,
        or a sum and a count.
    name:
        The name of the metric; None: that of the function.
    allow_extra_outputs:
        Whether there may be more predictions than labels; the last ones are left out.

    Examples
    --------
    >>> def largest(label, pred):
    ...     return abs(label - pred).max()
    >>> metric = mx.metric.CustomMetric(largest)
    >>> metric.update(mx.nd.array([1, 2, 3]), mx.nd.array([1, 4, 3]))
    >>> metric.get()
    ('largest', 2.0)
    """

    def __init__(
        self,
        feval: Callable[[Array, Array], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        own = getattr(feval, "__name__", type(feval).__name__)
        default = f"custom({own})" if "<" in own else own
        super().__init__(
            name or default,
            output_names,
            label_names,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
            has_global_stats=True,
        )
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    @hides_frames
    def update(self, labels: Any, preds: Any) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            value = self._feval(_copy(label), _copy(pred))
            self.add_up(*(value if isinstance(value, tuple) else (value, 1)))


def _copy(x: Any) -> Array:
    """A NumPy array that the user's function may write to."""
    return numpy.array(values(x))


def np(
    numpy_feval: Callable[[Array, Array], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """A :class:`CustomMetric` from a function of two NumPy arrays.

    Parameters
    ----------
    numpy_feval:
        The function, ``f(label, pred)``; it gives a number, or a sum and a count.
    name:
        The name of the metric; None: that of the function.
    allow_extra_outputs:
        Whether there may be more predictions than labels; the last ones are left out.

    Examples
    --------
    >>> metric = mx.metric.np(lambda label, pred: (label == pred.round()).mean(), "rounded")
    >>> metric.update(mx.nd.array([1, 2]), mx.nd.array([1.2, 3.9]))
    >>> metric.get()
    ('rounded', 0.5)
    """
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
