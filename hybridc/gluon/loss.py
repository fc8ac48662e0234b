"""``mx.gluon.loss``: ``loss(pred, label)`` is one number for each example of the batch, the mean over all other axes.

Exceptions are named where they are described. ``loss(pred, label, sample_weight)`` scales the loss of each element by
an array that broadcasts to it, as one of shape (N, 1) that leaves out the examples where it is 0. ``backward`` of a
loss sums over the examples; ``Trainer.step(batch_size)`` divides by their number. Shapes that do not fit are a
ShapeError.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from hybridc.array.autocast import AUTOCAST
from hybridc.array.numpy_array import is_numpy
from hybridc.dtypes import is_float
from hybridc.errors import CheckError, DTypeError, ShapeError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.naming import BlockOptions
from hybridc.ground.absent import absent as _absent

__all__ = [
    "CTCLoss",
    "CosineEmbeddingLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "L2Loss",
    "LogisticLoss",
    "Loss",
    "PoissonNLLLoss",
    "SDMLLoss",
    "SigmoidBCELoss",
    "SigmoidBinaryCrossEntropyLoss",
    "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss",
    "SquaredHingeLoss",
    "TripletLoss",
]


def _apply_weighting(F: Any, loss: Any, weight: float | None = None, sample_weight: Any = None) -> Any:
    """loss * sample_weight * weight, as far as they are given"""
    if sample_weight is not None:
        loss = _times(F, loss, sample_weight)
    if weight is None:
        return loss
    if not isinstance(weight, numbers.Number):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CheckError(f"weight must be a number, got {type(weight).__name__}")
    return loss * weight


def _times(F: Any, x: Any, y: Any) -> Any:
    """x * y, which broadcast; arrays of ``mx.np`` may have other dtypes"""
    return x * y if is_numpy(x) or is_numpy(y) else F.broadcast_mul(x, y)


def _reshape_like(F: Any, loss: Loss, x: Any, y: Any, name: str = "label") -> Any:
    """x, an argument of a loss, in the shape of y, the predictions."""
    if hasattr(x, "entries"):  # a composed symbol has no shape yet
        return F.reshape_like(x, y)
    if x.dtype is not y.dtype:
        _check_dtypes(loss, x, y, name)
    if x.shape == y.shape:
        return x
    if math.prod(x.shape) != math.prod(y.shape):
        raise ShapeError(f"{_given(loss, x, y, name)}: they need equally many elements{_remedy(loss, x, y, name)}")
    return F.reshape_like(x, y)


def _check_dtypes(loss: Loss, x: Any, y: Any, name: str) -> None:
    """Raise, if the dtypes of predictions and labels differ, and nobody casts."""
    kinds = np.dtype(x.dtype), np.dtype(y.dtype)
    if kinds[0] != kinds[1] and not (AUTOCAST.rules or is_numpy(x) or is_numpy(y)):
        remedy = f"{name}.astype({str(kinds[1])!r})" if is_float(kinds[1]) else f"pred.astype({str(kinds[0])!r})"
        raise DTypeError(
            f"{type(loss).__name__}: {name} is {kinds[0]}, pred is {kinds[1]}, and they must be of one dtype; give the "
            f"loss {remedy}"
        )


def _check_classes(loss: SoftmaxCrossEntropyLoss, label: Any, pred: Any, axis: int) -> None:
    """Raise unless there is a label for each prediction."""
    shape, rank = tuple(label.shape), len(pred.shape)
    if not -rank <= axis < rank:
        raise ShapeError(f"{_given(loss, label, pred)}: pred has no axis {axis} of classes{_remedy(loss, label, pred)}")
    axis %= rank
    before, after = tuple(pred.shape[:axis]), tuple(pred.shape[axis + 1 :])
    for wanted in ((*before, *after), (*before, 1, *after)):
        if len(shape) == len(wanted) and all(n == m or min(n, m) < 0 for n, m in zip(shape, wanted, strict=True)):
            return
    if rank == 1 and math.prod(shape) == 1:
        return
    raise ShapeError(
        f"{_given(loss, label, pred)}: labels that are numbers of classes need the shape {(*before, *after)}, that of "
        f"pred without axis {axis}{_remedy(loss, label, pred)}"
    )


def _given(loss: Loss, label: Any, pred: Any, name: str = "label") -> str:
    """A loss, and the shapes of its arguments."""
    return f"{type(loss).__name__}: pred has shape {tuple(pred.shape)}, {name} has shape {tuple(label.shape)}"


def _remedy(loss: Loss, label: Any, pred: Any, name: str = "label") -> str:
    """What may be wrong with the shapes of a loss's arguments."""
    shape, other = tuple(label.shape), tuple(pred.shape)
    if isinstance(loss, SoftmaxCrossEntropyLoss):
        if shape == other and loss.takes_numbers:
            return "; rows of probabilities, as one-hot labels, need SoftmaxCrossEntropyLoss(sparse_label=False)"
        if not loss.takes_numbers and len(shape) == len(other) - 1:
            return "; labels that are numbers of classes need SoftmaxCrossEntropyLoss(sparse_label=True)"
    if len(shape) > len(other):
        return f"; is it loss(pred, {name}), in this order?"
    if shape and other and shape[0] != other[0]:
        return f"; pred is of {other[0]} samples, {name} of {shape[0]}"
    if len(other) > 2 and len(shape) == len(other) - 1 and isinstance(loss, SoftmaxCrossEntropyLoss):
        return "; where classes are not last, give axis, as SoftmaxCrossEntropyLoss(axis=1)"
    return ""


def _softplus_of_minus_abs(F: Any, x: Any) -> Any:
    """log(1 + exp(-|x|))"""
    return F.Activation(-F.abs(x), act_type="softrelu")


class Loss(HybridBlock):
    """The base of losses: override ``hybrid_forward(self, F, pred, label, sample_weight=None)`` in yours.

    Parameters
    ----------
    weight:
        A factor of all losses; None: 1.
    batch_axis:
        The axis of the examples: the mean is over all others.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def _mean(self, F: Any, loss: Any) -> Any:
        """The average over all axes but the batch's."""
        return F.mean(loss, axis=self._batch_axis, exclude=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"


class L2Loss(Loss):
    """``weight / 2 * (label - pred)²``, the mean of each example: regression

    ``loss(pred, label)``: pred (N, …) and label of as many elements → (N,).

    Parameters
    ----------
    weight:
        A factor of all losses, beside that of 1/2; None: 1.

    Examples
    --------
    >>> pred, label = mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([[1, 0], [3, 8]])
    >>> gluon.loss.L2Loss()(pred, label)
    [1. 4.]
    <NDArray 2 @cpu(0)>

    A factor for each example:

    >>> gluon.loss.L2Loss()(pred, label, mx.nd.array([[0], [1]]))
    [0. 4.]
    <NDArray 2 @cpu(0)>
    """

    def __init__(self, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.square(_reshape_like(F, self, label, pred) - pred)
        # COMPAT(mxnet): weight=None means 1 here too.
        weight = 0.5 if self._weight is None else self._weight / 2
        return self._mean(F, _apply_weighting(F, loss, weight, sample_weight))


class L1Loss(Loss):
    """``|label - pred|``, the mean of each example: regression that outliers disturb less

    ``loss(pred, label)``: pred (N, …) and label of as many elements → (N,).

    Examples
    --------
    >>> gluon.loss.L1Loss()(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([[1, 0], [3, 8]]))
    [1. 2.]
    <NDArray 2 @cpu(0)>
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.abs(_reshape_like(F, self, label, pred) - pred)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class SigmoidBinaryCrossEntropyLoss(Loss):
    """``-label * log(p) * pos_weight - (1 - label) * log(1 - p)``, ``p = sigmoid(pred)``: labels of yes or no

    ``loss(pred, label, sample_weight=None, pos_weight=None)``: pred (N, …) and label of as many elements, from 0 to 1,
    → (N,), the mean of each example. ``pos_weight``, an array that broadcasts to pred, is the factor of positive
    labels, to make up for few of them. Several labels of one example may be 1.

    Parameters
    ----------
    from_sigmoid:
        Whether pred are the probabilities p; else they are scores, of any size, which is more exact.

    Examples
    --------
    >>> loss = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    >>> loss(mx.nd.array([[0], [10], [-10]]), mx.nd.array([[1], [1], [1]]))
    [6.9314718e-01 4.5398894e-05 1.0000046e+01]
    <NDArray 3 @cpu(0)>
    >>> loss(mx.nd.array([[0]]), mx.nd.array([[1]]), None, mx.nd.array([3]))
    [2.0794415]
    <NDArray 1 @cpu(0)>
    >>> gluon.loss.SigmoidBCELoss(from_sigmoid=True)(mx.nd.array([[0.5]]), mx.nd.array([[1]]))
    [0.6931472]
    <NDArray 1 @cpu(0)>
    """

    def __init__(
        self,
        from_sigmoid: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None) -> Any:
        """The loss of each sample."""
        label = _reshape_like(F, self, label, pred)
        if self._from_sigmoid:
            eps = 1e-12
            positive = F.log(pred + eps) * label
            if pos_weight is not None:
                positive = _times(F, positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + eps) * (1.0 - label))
        elif pos_weight is None:
            loss = F.relu(pred) - pred * label + _softplus_of_minus_abs(F, pred)
        else:
            scale = 1 + _times(F, pos_weight - 1, label)
            loss = pred - pred * label + scale * (_softplus_of_minus_abs(F, pred) + F.relu(-pred))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """``-log(softmax(pred)[label])``: one of several classes; the mean of each example, if it has several labels

    ``loss(pred, label)``: pred (N, classes) are scores and label (N,) numbers of classes → (N,). With more axes, as of
    (N, classes, H, W) and ``axis=1``, label is (N, H, W). With ``sparse_label=False`` label has the shape of pred and
    is a probability of each class: ``-sum(label * log(softmax(pred)))``.

    Parameters
    ----------
    axis:
        The axis of the classes.
    sparse_label:
        Whether labels are numbers of classes, from 0; else a probability for each class.
    from_logits:
        Whether pred are logarithms of probabilities, as of ``log_softmax``; else scores.

    Examples
    --------
    >>> pred = mx.nd.array([[0, 0], [2, 0]])
    >>> gluon.loss.SoftmaxCrossEntropyLoss()(pred, mx.nd.array([0, 0]))
    [0.6931472  0.12692805]
    <NDArray 2 @cpu(0)>
    >>> gluon.loss.SoftmaxCELoss(sparse_label=False)(pred, mx.nd.array([[0.5, 0.5], [1, 0]]))
    [0.6931472  0.12692805]
    <NDArray 2 @cpu(0)>

    A class for each pixel of two images:

    >>> loss = gluon.loss.SoftmaxCELoss(axis=1)
    >>> loss(mx.nd.zeros((2, 5, 8, 8)), mx.nd.zeros((2, 8, 8))).shape
    (2,)
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    @property
    def takes_numbers(self) -> bool:
        """Whether labels are numbers of classes, not a probability for each class."""
        return self._sparse_label

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        if self._sparse_label and not hasattr(label, "entries"):
            _check_classes(self, label, pred, self._axis)
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True, made=not self._from_logits)
        else:
            loss = -F.sum(pred * _reshape_like(F, self, label, pred), axis=self._axis, keepdims=True)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """``sum(label * (log(label) - log(p)))``: how far the distribution p is from that of the label, for each example

    ``loss(pred, label)``: pred (N, classes) are ``log(p)``, label are probabilities of the same shape → (N,). It is the
    sum over all axes but the batch's, not the mean.

    Parameters
    ----------
    from_logits:
        Whether pred are logarithms of probabilities; else scores, of which ``log_softmax`` is taken.
    axis:
        The axis of the classes, for scores.

    Examples
    --------
    >>> loss = gluon.loss.KLDivLoss(from_logits=False)
    >>> loss(mx.nd.array([[0, 0], [0, 0]]), mx.nd.array([[0.5, 0.5], [1, 0]]))
    [0.        0.6931472]
    <NDArray 2 @cpu(0)>
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        if not hasattr(label, "entries"):
            if label.dtype is not pred.dtype:
                _check_dtypes(self, label, pred, "label")
            if len(label.shape) != len(pred.shape):
                raise ShapeError(
                    f"{_given(self, label, pred)}: label is a distribution over the classes for each sample, of the "
                    f"shape of pred{_remedy(self, label, pred)}"
                )
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = _apply_weighting(F, label * (F.log(label + 1e-12) - pred), self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """``-log`` of the probability of all alignments of ``label`` to the steps of ``pred`` (Graves et al. 2006)

    ``loss(pred, label, pred_lengths=None, label_lengths=None, sample_weight=None)``: pred (N, T, C) are scores of C
    classes at T steps, the last class is the blank; label (N, L) are numbers of classes → (N,). An alignment repeats
    labels and puts blanks between them. Without ``label_lengths`` (N,) labels end before their first -1;
    ``pred_lengths`` (N,) are the steps of each example.

    Parameters
    ----------
    layout:
        The axes of pred: "NTC" or "TNC", N the batch, T the steps, C the classes.
    label_layout:
        The axes of label: "NT" or "TN".

    Examples
    --------
    >>> pred = mx.nd.zeros((2, 2, 3))
    >>> gluon.loss.CTCLoss()(pred, mx.nd.array([[0, 1], [0, -1]]))
    [2.1972246 1.0986123]
    <NDArray 2 @cpu(0)>

    Two steps of classes 0, 1 and blank have 9 equally likely alignments. The label (0, 1) has one of them; the label 0
    has three, (0, 0), (0, blank) and (blank, 0):

    >>> np.log([9 / 1, 9 / 3])
    array([2.19722458, 1.09861229])
    """

    def __init__(
        self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None, **kwargs: Unpack[BlockOptions]
    ) -> None:
        if layout not in ("NTC", "TNC"):
            raise CheckError(f"CTCLoss: layout must be 'NTC' or 'TNC', got {layout!r}")
        if label_layout not in ("NT", "TN"):
            raise CheckError(f"CTCLoss: label_layout must be 'NT' or 'TN', got {label_layout!r}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout
        self._label_layout = label_layout

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        pred_lengths: Any = None,
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """The loss of each sample."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        loss = F.CTCLoss(
            pred,
            label,
            pred_lengths,
            label_lengths,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
        )
        return _apply_weighting(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """``(label - pred)² / (2 * rho)`` where ``|label - pred| <= rho``, else ``|label - pred| - rho / 2``

    The mean of each example: regression that is smooth at 0 and that outliers disturb less. ``loss(pred, label)``: pred
    (N, …) and label of as many elements → (N,).

    Parameters
    ----------
    rho:
        The distance up to which the loss is quadratic.

    Examples
    --------
    >>> gluon.loss.HuberLoss()(mx.nd.array([[0.5], [3]]), mx.nd.array([[0], [0]]))
    [0.125 2.5  ]
    <NDArray 2 @cpu(0)>
    """

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        distance = F.abs(_reshape_like(F, self, label, pred) - pred)
        far = distance - 0.5 * self._rho
        near = (0.5 / self._rho) * F.square(distance)
        loss = F.where(distance > self._rho, far, near)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class _MarginLoss(Loss):
    """A loss of what is within a margin.

    Parameters
    ----------
    margin:
        How far a prediction must be on the right side to have no loss.
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin


class HingeLoss(_MarginLoss):
    """``max(0, margin - pred * label)``, the mean of each example: two classes, label -1 or 1

    ``loss(pred, label)``: pred (N, …) are scores, label of as many elements → (N,).

    Examples
    --------
    >>> gluon.loss.HingeLoss()(mx.nd.array([[2], [0.5], [-1]]), mx.nd.array([[1], [1], [1]]))
    [0.  0.5 2. ]
    <NDArray 3 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.relu(self._margin - pred * _reshape_like(F, self, label, pred))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class SquaredHingeLoss(_MarginLoss):
    """``max(0, margin - pred * label)²``, the mean of each example: two classes, label -1 or 1

    ``loss(pred, label)``: pred (N, …) are scores, label of as many elements → (N,).

    Examples
    --------
    >>> gluon.loss.SquaredHingeLoss()(mx.nd.array([[2], [0.5], [-1]]), mx.nd.array([[1], [1], [1]]))
    [0.   0.25 4.  ]
    <NDArray 3 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.square(F.relu(self._margin - pred * _reshape_like(F, self, label, pred)))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class LogisticLoss(Loss):
    """``log(1 + exp(-pred * label))``, the mean of each example: two classes, label -1 or 1

    ``loss(pred, label)``: pred (N, …) are scores, label of as many elements → (N,).

    Parameters
    ----------
    label_format:
        "signed": labels are -1 and 1; "binary": they are 0 and 1, of which 0 counts as -1. Another is a ValueError.

    Examples
    --------
    >>> gluon.loss.LogisticLoss()(mx.nd.array([[0], [10]]), mx.nd.array([[-1], [-1]]))
    [ 0.6931472 10.000046 ]
    <NDArray 2 @cpu(0)>
    >>> gluon.loss.LogisticLoss(label_format="binary")(mx.nd.array([[0], [10]]), mx.nd.array([[0], [0]]))
    [ 0.6931472 10.000046 ]
    <NDArray 2 @cpu(0)>
    """

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        label_format: str = "signed",
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, received {label_format}.")
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        label = _reshape_like(F, self, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + _softplus_of_minus_abs(F, pred)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class TripletLoss(_MarginLoss):
    """``max(0, ‖positive - pred‖² - ‖negative - pred‖² + margin)``: pred is nearer to positive than to negative

    ``loss(pred, positive, negative)``: all (N, …), of as many elements → (N,). The distances are sums over all axes but
    the batch's.

    Parameters
    ----------
    margin:
        How much nearer the positive must be for no loss.

    Examples
    --------
    >>> loss = gluon.loss.TripletLoss()
    >>> near, far = mx.nd.array([[1, 0]]), mx.nd.array([[2, 0]])
    >>> loss(mx.nd.array([[0, 0]]), near, far)
    [0.]
    <NDArray 1 @cpu(0)>
    >>> loss(mx.nd.array([[0, 0]]), far, near)
    [4.]
    <NDArray 1 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:
        """The loss of each sample."""
        near = F.square(_reshape_like(F, self, positive, pred, "positive") - pred)
        far = F.square(_reshape_like(F, self, negative, pred, "negative") - pred)
        loss = F.sum(near - far, axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(loss + self._margin), self._weight)


class PoissonNLLLoss(Loss):
    """``exp(pred) - target * pred``, one mean of all examples, of shape (1,): counts expected to be ``exp(pred)``

    ``loss(pred, target)``: pred (N, …) and target of as many elements. With ``from_logits=False`` pred is the
    expectation itself: ``pred - target * log(pred + epsilon)``; ``epsilon`` is the fourth argument of a call. Arrays of
    ``mx.np`` give the shape ().

    Parameters
    ----------
    from_logits:
        Whether pred is the logarithm of the expectation; else the expectation.
    compute_full:
        Whether Stirling's approximation of ``log(target!)`` is added where target > 1, which does not depend on
        pred.
    batch_axis:
        It changes nothing: the mean is over all axes.

    Examples
    --------
    >>> gluon.loss.PoissonNLLLoss()(mx.nd.array([[0], [0]]), mx.nd.array([[1], [3]]))
    [1.]
    <NDArray 1 @cpu(0)>
    >>> gluon.loss.PoissonNLLLoss(from_logits=False)(mx.nd.array([[2]]), mx.nd.array([[0]]))
    [2.]
    <NDArray 1 @cpu(0)>
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(self, F: Any, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-08) -> Any:
        """The loss of all samples, of shape (1,), or () of arrays of ``mx.np``."""
        target = _reshape_like(F, self, target, pred, "target")
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            # COMPAT(mxnet): there a target of 0 gives nan, from 0 * log(0).
            large = F.broadcast_maximum(target * 1.0 if is_numpy(target) else target, 1.0)
            stirling = large * F.log(large) - large + 0.5 * F.log(2 * math.pi * large)
            loss = loss + stirling * (target > 1)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.np.mean(loss) if is_numpy(loss) else F.mean(loss)


class CosineEmbeddingLoss(Loss):
    """``1 - c`` where label is 1, ``max(0, c - margin)`` where it is -1; c is the cosine of input1 and input2

    ``loss(input1, input2, label)``: both (N, D), label (N,) → (N, 1). Pairs that are alike have the label 1.

    Parameters
    ----------
    margin:
        The cosine up to which pairs that are not alike have no loss.
    batch_axis:
        It changes nothing: the examples are axis 0.

    Examples
    --------
    >>> x, y = mx.nd.array([[1, 0], [1, 0]]), mx.nd.array([[0, 1], [2, 0]])
    >>> gluon.loss.CosineEmbeddingLoss()(x, y, mx.nd.array([1, 1]))
    [[1.]
     [0.]]
    <NDArray 2x1 @cpu(0)>
    >>> gluon.loss.CosineEmbeddingLoss()(x, y, mx.nd.array([-1, -1]))
    [[0.]
     [1.]]
    <NDArray 2x1 @cpu(0)>
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        input1 = _reshape_like(F, self, input1, input2, "input1")
        label = label.reshape((-1, 1))
        cosine = self._cosine(F, input1, input2)
        similar = (1 - cosine) * (label == 1)
        different = F.broadcast_maximum((label == -1) * (cosine - self._margin), 0.0)
        return _apply_weighting(F, similar + different, self._weight, sample_weight)

    def _cosine(self, F: Any, x: Any, y: Any) -> Any:
        x_norm = F.norm(x, axis=-1).reshape((-1, 1))
        y_norm = F.norm(y, axis=-1).reshape((-1, 1))
        product = F.sum(x * y, axis=-1).reshape((-1, 1))
        return product / F.broadcast_maximum(x_norm * y_norm, 1e-12)


class SDMLLoss(Loss):
    """Row i of x1 is nearer to row i of x2 than to others: smoothed deep metric learning (Bonadiman et al. 2019)

    ``loss(x1, x2)``: both (N, D), N > 1 → (N,), for row i the KL divergence of ``softmax(-‖x1[i] - x2[j]‖²)`` along j
    from ``1 - smoothing_parameter`` at j = i and the rest of 1 in equal parts elsewhere. Other shapes are a CheckError.

    Parameters
    ----------
    smoothing_parameter:
        The probability that the other rows share, from 0 to 1.
    batch_axis:
        It changes nothing: the examples are axis 0.

    Examples
    --------
    >>> x = mx.nd.array([[0, 0], [1, 0]])
    >>> loss = gluon.loss.SDMLLoss()
    >>> loss(x, x)
    [0.00239735 0.00239735]
    <NDArray 2 @cpu(0)>
    >>> loss(x, x[::-1])
    [0.4023973 0.4023973]
    <NDArray 2 @cpu(0)>
    """

    def __init__(
        self,
        smoothing_parameter: float = 0.3,
        weight: float | None = 1.0,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        """The loss of each row, shape (N,)."""
        if x1.shape != x2.shape or len(x1.shape) != 2 or x1.shape[0] < 2:
            raise CheckError(
                "SDMLLoss: x1 and x2 must have one shape (N, D) with N > 1, "
                f"got {tuple(x1.shape)} and {tuple(x2.shape)}"
            )
        count = x1.shape[0]
        same = F.eye(count, dtype=x1.dtype)
        labels = same * (1 - self.smoothing_parameter) + (1 - same) * (self.smoothing_parameter / (count - 1))
        differences = F.broadcast_sub(F.expand_dims(x1, axis=1), F.expand_dims(x2, axis=0))
        distances = F.sum(F.square(differences), axis=2)
        loss = self.kl_loss(F.log_softmax(-distances, axis=1), labels)
        # COMPAT(mxnet): there the weight is not used.
        return _apply_weighting(F, loss, self._weight)


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.loss", name, "loss", globals())
