"""``mx.rnn.rnn_cell``: all cells of symbols, which MXNet has in this module."""

from __future__ import annotations

from hybridc.rnn.base_cell import BaseRNNCell, RNNParams
from hybridc.rnn.cell_groups import BidirectionalCell, SequentialRNNCell
from hybridc.rnn.conv_cells import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from hybridc.rnn.fused_cell import FusedRNNCell
from hybridc.rnn.modifier_cells import ModifierCell, ResidualCell, ZoneoutCell
from hybridc.rnn.step_cells import DropoutCell, GRUCell, LSTMCell, RNNCell

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "ConvGRUCell",
    "ConvLSTMCell",
    "ConvRNNCell",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]
