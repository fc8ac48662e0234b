"""Makes sym.npz and sym.json: what MXNet 1.9.1 gives for sym_cases.py and sym_executor_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from sym_cases import errors
from sym_executor_cases import CASES

here = Path(__file__).parent
arrays, values = {}, {}
for name, run in CASES.items():
    for key, value in run(mx).items():
        if isinstance(value, np.ndarray):
            arrays[f"{name}/{key}"] = value
        else:
            values.setdefault(name, {})[key] = value
values["errors"] = errors(mx)
np.savez_compressed(here / "sym.npz", **arrays)
(here / "sym.json").write_text(json.dumps(values, indent=1) + "\n")
print(len(arrays), "arrays,", sum(map(len, values.values())), "values")
