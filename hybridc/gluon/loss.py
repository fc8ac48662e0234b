"""Loss functions: one number for each sample, averaged over all axes but ``batch_axis``.

``weight`` scales the loss; ``sample_weight`` is an array that broadcasts to the loss of each element.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, Unpack

from hybridc.array.numpy_array import is_numpy
from hybridc.errors import CheckError, ShapeError
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


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    """x in the shape of y"""
    if hasattr(x, "entries"):  # a composed symbol has no shape yet
        return F.reshape_like(x, y)
    if x.shape == y.shape:
        return x
    if math.prod(x.shape) != math.prod(y.shape):
        raise ShapeError(f"a label of shape {tuple(x.shape)} does not fit a prediction of shape {tuple(y.shape)}")
    return F.reshape_like(x, y)


def _softplus_of_minus_abs(F: Any, x: Any) -> Any:
    """log(1 + exp(-|x|))"""
    return F.Activation(-F.abs(x), act_type="softrelu")


class Loss(HybridBlock):
    """The base of losses, each a number for every example of the batch.

    Parameters
    ----------
    weight:
        A factor of all losses; None is 1.
    batch_axis:
        The axis of the examples; over the others the mean is taken.
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
    """weight / 2 * (label - pred)²"""

    def __init__(self, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.square(_reshape_like(F, label, pred) - pred)
        # COMPAT(mxnet): weight=None means 1 here too.
        weight = 0.5 if self._weight is None else self._weight / 2
        return self._mean(F, _apply_weighting(F, loss, weight, sample_weight))


class L1Loss(Loss):
    """|label - pred|"""

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.abs(_reshape_like(F, label, pred) - pred)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class SigmoidBinaryCrossEntropyLoss(Loss):
    """-label * log(p) * pos_weight - (1 - label) * log(1 - p), with p = sigmoid(pred)

    With ``from_sigmoid`` p = pred.
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
        label = _reshape_like(F, label, pred)
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
    """-log(softmax(pred)[label]), or -sum(label * log(softmax(pred))) along ``axis`` without ``sparse_label``

    With ``from_logits`` pred is log(softmax) already.
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

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True, made=not self._from_logits)
        else:
            loss = -F.sum(pred * _reshape_like(F, label, pred), axis=self._axis, keepdims=True)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """label * (log(label) - log p), with log p = pred, or log_softmax(pred) if not ``from_logits``; sums

    Parameters
    ----------
    from_logits:
        Whether ``pred`` are logarithms of probabilities.
    axis:
        The axis of the classes.
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
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = _apply_weighting(F, label * (F.log(label + 1e-12) - pred), self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """-log of the probability of all alignments of ``label`` to the steps of ``pred``; the last class is blank

    ``layout`` is that of ``pred``, ``label_layout`` that of labels: N the batch, T the steps, C the classes' scores
    before softmax. Without ``label_lengths`` labels end before their first -1.
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
    """(label - pred)² / (2 rho) where |label - pred| <= rho, else |label - pred| - rho / 2

    Parameters
    ----------
    rho:
        The distance up to which the loss is quadratic.
    """

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        distance = F.abs(_reshape_like(F, label, pred) - pred)
        far = distance - 0.5 * self._rho
        near = (0.5 / self._rho) * F.square(distance)
        loss = F.where(distance > self._rho, far, near)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class _MarginLoss(Loss):
    """A loss of what is within a margin.

    Parameters
    ----------
    margin:
        The distance from which on there is no loss.
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin


class HingeLoss(_MarginLoss):
    """max(0, margin - pred * label), label -1 or 1"""

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.relu(self._margin - pred * _reshape_like(F, label, pred))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class SquaredHingeLoss(_MarginLoss):
    """max(0, margin - pred * label)², label -1 or 1"""

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.square(F.relu(self._margin - pred * _reshape_like(F, label, pred)))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class LogisticLoss(Loss):
    """log(1 + exp(-pred * label)), label -1 or 1 ('signed'), or 0 or 1 ('binary')

    Parameters
    ----------
    label_format:
        "signed": labels are -1 and 1; "binary": 0 and 1.
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
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + _softplus_of_minus_abs(F, pred)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class TripletLoss(_MarginLoss):
    """max(0, ‖positive - pred‖² - ‖negative - pred‖² + margin)"""

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:
        """The loss of each sample."""
        near = F.square(_reshape_like(F, positive, pred) - pred)
        far = F.square(_reshape_like(F, negative, pred) - pred)
        loss = F.sum(near - far, axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(loss + self._margin), self._weight)


class PoissonNLLLoss(Loss):
    """exp(pred) - target * pred, or pred - target * log(pred) without ``from_logits``; one mean of all

    ``compute_full`` adds Stirling's approximation of log(target!) where target > 1.
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
        target = _reshape_like(F, target, pred)
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
    """1 - c where label is 1, max(0, c - margin) where it is -1; c = cos(input1, input2), shape (N, 1)

    Parameters
    ----------
    margin:
        The cosine up to which unlike pairs have no loss.
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Unpack[BlockOptions]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        input1 = _reshape_like(F, input1, input2)
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
    """Row i of x1 must be nearer to row i of x2 than to its other rows: smoothed deep metric learning (Bonadiman 2019)

    The KL divergence of softmax(-‖x1[i] - x2[j]‖²) along j, from 1 - ``smoothing_parameter`` at j = i and the rest of 1
    in equal parts elsewhere, for each i; x1 and x2 have the shape (N, D) with N > 1.
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
