"""Makes loop_symbols.npz and loop_symbols.json: what MXNet 1.9.1 gives for loop_symbol_cases.py, and its files.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import os

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

os.environ["MXNET_MKLDNN_ENABLED"] = "0"  # with it, slices of results cannot be read

import mxnet as mx  # noqa: TID251
from loop_symbol_cases import CASES, NO_GRADIENT, results
from programs import record

symbols = {name: make(mx) for name, make in CASES.items()}
record(
    "loop_symbols",
    {name: lambda mx, name=name: results(mx, symbols[name], name not in NO_GRADIENT) for name in CASES},
    mx,
    files={name: symbol.tojson() for name, symbol in symbols.items()},
)
