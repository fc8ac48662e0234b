"""Makes np_elements.json: what MXNet 1.9.1 gives for np_elements_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import mxnet as mx  # noqa: TID251
import np_elements_cases as cases

mx.npx.set_np()
LINES = [f"{json.dumps(code)}: {json.dumps(cases.run(mx, code))}" for code in cases.CASES]
(Path(__file__).parent / "np_elements.json").write_text("{\n" + ",\n".join(LINES) + "\n}\n")
