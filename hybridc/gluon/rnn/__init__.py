"""``mx.gluon.rnn``: recurrent layers."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.rnn.rnn_layer import GRU, LSTM, RNN
from hybridc.ground.absent import absent as _absent

__all__ = ["GRU", "LSTM", "RNN"]


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.rnn", name, "cell", globals())
