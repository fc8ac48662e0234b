"""``mx.gluon.rnn``: recurrent networks, as layers over whole sequences (RNN, LSTM, GRU), and as cells of one step.

A layer is the faster choice. Cells can be stepped by hand, stacked, and changed (dropout, zoneout, residuals);
``unroll`` runs one over a sequence. Axes are N, the examples of the batch, T, the steps, and C, the features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.rnn import rnn_cell, rnn_layer
from hybridc.gluon.rnn.basic_cells import GRUCell, LSTMCell, RNNCell
from hybridc.gluon.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell
from hybridc.gluon.rnn.rnn_layer import GRU, LSTM, RNN
from hybridc.gluon.rnn.stacks import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from hybridc.ground.absent import absent as _absent

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "GRU",
    "GRUCell",
    "HybridRecurrentCell",
    "HybridSequentialRNNCell",
    "LSTM",
    "LSTMCell",
    "RNN",
    "ModifierCell",
    "RNNCell",
    "RecurrentCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "rnn_cell",
    "rnn_layer",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.rnn", name, "cell", globals())
