"""Makes sym.npz and sym.json: what MXNet 1.9.1 gives for sym_cases.py and sym_executor_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from programs import record
from sym_cases import errors
from sym_executor_cases import CASES

record("sym", CASES, mx, errors=errors(mx))
