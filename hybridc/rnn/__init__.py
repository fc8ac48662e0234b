"""``mx.rnn``: recurrent networks of symbols, as programs before Gluon make them.

Cells are unrolled to graphs for an executor; :mod:`hybridc.gluon.rnn` has those of blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.rnn import io, rnn, rnn_cell
from hybridc.rnn.base_cell import BaseRNNCell, RNNParams
from hybridc.rnn.cell_groups import BidirectionalCell, SequentialRNNCell
from hybridc.rnn.conv_cells import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from hybridc.rnn.fused_cell import FusedRNNCell
from hybridc.rnn.io import BucketSentenceIter, encode_sentences
from hybridc.rnn.modifier_cells import ModifierCell, ResidualCell, ZoneoutCell
from hybridc.rnn.rnn import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from hybridc.rnn.step_cells import DropoutCell, GRUCell, LSTMCell, RNNCell

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "BucketSentenceIter",
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
    "do_rnn_checkpoint",
    "encode_sentences",
    "io",
    "load_rnn_checkpoint",
    "rnn",
    "rnn_cell",
    "rnn_unroll",
    "save_rnn_checkpoint",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.rnn", name, "attribute", __all__)
