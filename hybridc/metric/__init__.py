"""Evaluation metrics: ``mx.metric``. Each takes labels and predictions batch by batch, and keeps a result.

``update(labels, preds)`` takes in a batch, ``get()`` gives the name and the result of all batches so far, and
``reset()`` starts over, as before each epoch. :func:`create` makes a metric from its name, as "acc" or "mse".
"""

import math as math
from typing import TYPE_CHECKING, Any

import numpy as numpy

from hybridc import nd as ndarray
from hybridc import registry
from hybridc.base import numeric_types, string_types
from hybridc.ground.absent import absent as _absent
from hybridc.metric.classification import (
    F1,
    MCC,
    PCC,
    Accuracy,
    CrossEntropy,
    NegativeLogLikelihood,
    Perplexity,
    TopKAccuracy,
)
from hybridc.metric.eval_metric import (
    Caffe,
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    Loss,
    Torch,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from hybridc.metric.regression import MAE, MSE, RMSE, PearsonCorrelation

__all__ = [
    "Accuracy", "Caffe", "CompositeEvalMetric", "CrossEntropy", "CustomMetric", "EvalMetric", "F1", "Loss",
    "MAE", "MCC", "MSE", "NegativeLogLikelihood", "PCC", "PearsonCorrelation", "Perplexity", "RMSE",
    "TopKAccuracy", "Torch", "alias", "check_label_shapes", "create", "ndarray", "np", "numeric_types", "register",
    "registry", "string_types",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.metric", name, "metric", globals())
