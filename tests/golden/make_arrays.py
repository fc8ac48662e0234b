"""Makes arrays.json: what MXNet 1.9.1 gives for array_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import array_cases as cases
import mxnet as mx  # noqa: TID251

FOUND = {name: cases.run(mx, name) for name in cases.CASES}
(Path(__file__).parent / "arrays.json").write_text(json.dumps(FOUND, indent=0) + "\n")
for name, found in FOUND.items():
    print(name, found)
