"""``mx.gluon.rnn.rnn_cell``: all cells, which MXNet has in this module."""

from __future__ import annotations

from hybridc.gluon.rnn.basic_cells import GRUCell, LSTMCell, RNNCell
from hybridc.gluon.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell
from hybridc.gluon.rnn.stacks import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell

__all__ = [
    "RecurrentCell",
    "HybridRecurrentCell",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
    "SequentialRNNCell",
    "HybridSequentialRNNCell",
    "DropoutCell",
    "ModifierCell",
    "ZoneoutCell",
    "ResidualCell",
    "BidirectionalCell",
]
