"""``mx.gluon.contrib.rnn``: cells with convolutions or projections, and dropout that is the same at every step.

How cells are called and unrolled is described at :class:`hybridc.gluon.rnn.RecurrentCell`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.contrib.rnn import conv_rnn_cell, rnn_cell
from hybridc.gluon.contrib.rnn.conv_rnn_cell import (
    Conv1DGRUCell,
    Conv1DLSTMCell,
    Conv1DRNNCell,
    Conv2DGRUCell,
    Conv2DLSTMCell,
    Conv2DRNNCell,
    Conv3DGRUCell,
    Conv3DLSTMCell,
    Conv3DRNNCell,
)
from hybridc.gluon.contrib.rnn.rnn_cell import LSTMPCell, VariationalDropoutCell
from hybridc.ground.absent import absent as _absent

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
    "LSTMPCell",
    "VariationalDropoutCell",
    "conv_rnn_cell",
    "rnn_cell",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.contrib.rnn", name, "cell", globals())
