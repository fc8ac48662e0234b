"""Makes gluon.npz and gluon.json: what MXNet 1.9.1 gives for gluon_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from gluon_cases import CASES

here = Path(__file__).parent
arrays, values = {}, {}
for name, run in CASES.items():
    for key, value in run(mx, lambda block: None).items():
        if isinstance(value, np.ndarray):
            arrays[f"{name}/{key}"] = value
        else:
            values.setdefault(name, {})[key] = value
np.savez_compressed(here / "gluon.npz", **arrays)
(here / "gluon.json").write_text(json.dumps(values, indent=1) + "\n")
print(len(arrays), "arrays,", sum(map(len, values.values())), "values")
