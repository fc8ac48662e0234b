"""Write infer.json: what MXNet 1.9.1 infers for infer_cases.py. Run it with the Python of MXNet (see README.md)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from infer_cases import answers

(Path(__file__).parent / "infer.json").write_text(json.dumps(answers(mx), indent=None, sort_keys=True) + "\n")
