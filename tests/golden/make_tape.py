"""Makes tape.json: what MXNet 1.9.1 gives for tape_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import mxnet as mx  # noqa: TID251
import tape_cases as cases

FOUND = {name: cases.run(mx, name, mx.cpu(0), mx.cpu(1)) for name in cases.CASES}
(Path(__file__).parent / "tape.json").write_text(json.dumps(FOUND, indent=0) + "\n")
for name, found in FOUND.items():
    print(name, found if isinstance(found, str) else found["gradient"][0])
