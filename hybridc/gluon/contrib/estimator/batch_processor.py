"""Computation of one batch by an estimator: forward and loss, and backward in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc import autograd
from hybridc.context import Context
from hybridc.gluon.utils import split_and_load

__all__ = ["BatchProcessor"]

# What an estimator knows of a batch: data, labels, predictions and losses, each a list with one array a device.
Computed = tuple[list[Any], list[Any], list[Any], list[Any]]


class BatchProcessor:
    """Computes batches for an Estimator; override :meth:`fit_batch` or :meth:`evaluate_batch` for other networks."""

    def _get_data_and_label(
        self, batch: Sequence[Any], ctx: Sequence[Context], batch_axis: int = 0
    ) -> tuple[list[Any], list[Any]]:
        """The data and the labels of a batch, split over the devices."""
        data, label = batch[0], batch[1]
        return split_and_load(data, ctx, batch_axis), split_and_load(label, ctx, batch_axis)

    def evaluate_batch(self, estimator: Any, val_batch: Sequence[Any], batch_axis: int = 0) -> Computed:
        """Data, labels, predictions and losses of a batch of validation data.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        val_batch:
            The batch: data and labels.
        batch_axis:
            The axis of the samples, along which batches are split over devices.
        """
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(y, wanted) for y, wanted in zip(pred, label, strict=True)]
        return data, label, pred, loss

    def fit_batch(self, estimator: Any, train_batch: Sequence[Any], batch_axis: int = 0) -> Computed:
        """Data, labels, predictions and losses of a batch of training data, whose gradients are computed.

        Parameters
        ----------
        estimator:
            The :class:`Estimator` that trains.
        train_batch:
            The batch: data and labels.
        batch_axis:
            The axis of the samples, along which batches are split over devices.
        """
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y, wanted) for y, wanted in zip(pred, label, strict=True)]
        autograd.backward(loss)
        return data, label, pred, loss
