"""Makes np_arrays.npz and np_arrays.json: what MXNet 1.9.1 gives for np_arrays_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import mxnet as mx  # noqa: TID251
from np_arrays_cases import CASES, signatures
from programs import record

record("np_arrays", CASES, mx, signatures=signatures(mx.np))
