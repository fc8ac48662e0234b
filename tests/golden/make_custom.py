"""Makes custom.npz and custom.json: what MXNet 1.9.1 gives for custom_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import warnings

import mxnet as mx  # noqa: TID251
from custom_cases import CASES
from programs import record

warnings.simplefilter("ignore")
record("custom", CASES, mx)
