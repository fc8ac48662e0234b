"""Makes custom.npz and custom.json: what MXNet 1.9.1 gives for custom_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import mxnet as mx  # noqa: TID251
import numpy as np
from custom_cases import CASES

here = Path(__file__).parent
arrays, values = {}, {}
warnings.simplefilter("ignore")
for name, run in CASES.items():
    for key, value in run(mx).items():
        if isinstance(value, np.ndarray):
            arrays[f"{name}/{key}"] = value
        else:
            values.setdefault(name, {})[key] = value
np.savez_compressed(here / "custom.npz", **arrays)
(here / "custom.json").write_text(json.dumps(values, indent=1) + "\n")
print(len(arrays), "arrays,", sum(map(len, values.values())), "values")
