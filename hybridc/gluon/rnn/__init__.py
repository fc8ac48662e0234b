"""``mx.gluon.rnn``: cells of recurrent networks."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.rnn import rnn_cell
from hybridc.gluon.rnn.basic_cells import GRUCell, LSTMCell, RNNCell
from hybridc.gluon.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from hybridc.gluon.rnn.recurrent_cell import HybridRecurrentCell, RecurrentCell
from hybridc.gluon.rnn.stacks import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from hybridc.ground.absent import absent as _absent

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "GRUCell",
    "HybridRecurrentCell",
    "HybridSequentialRNNCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RecurrentCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "rnn_cell",
]


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.rnn", name, "cell", globals())
