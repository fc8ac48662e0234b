"""Makes conv_layers.npz and conv_layers.json: what MXNet 1.9.1 gives for conv_layer_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from conv_layer_cases import CASES
from programs import record

record("conv_layers", CASES, mx, lambda block: None)
