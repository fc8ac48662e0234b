"""Makes np_linalg.npz and np_linalg.json: what MXNet 1.9.1 gives for np_linalg_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import mxnet as mx  # noqa: TID251
from np_linalg_cases import CASES
from programs import record

record("np_linalg", CASES, mx)
