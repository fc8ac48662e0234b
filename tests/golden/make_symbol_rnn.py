"""Makes symbol_rnn.npz and symbol_rnn.json: what MXNet 1.9.1 gives for symbol_rnn_cases.py, and its files.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from programs import record
from symbol_rnn_cases import CASES, SYMBOLS

KEPT = ("both merged", "stack as list", "fused lstm", "fused two gru", "conv LSTM", "residual merged")
record("symbol_rnn", CASES, mx, files={name: SYMBOLS[name][0](mx).tojson() for name in KEPT})
