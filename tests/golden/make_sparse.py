"""Makes sparse.npz and sparse.json: what MXNet 1.9.1 gives for sparse_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from programs import record
from sparse_cases import CASES

record("sparse", CASES, mx)
