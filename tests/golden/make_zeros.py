"""Makes zeros.json: signs and nans of what MXNet 1.9.1's scalar operators give for zero_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import mxnet as mx  # noqa: TID251
import zero_cases as cases

found = {}
for name, function in cases.CASES.items():
    arrays = [mx.nd.array(x) for x in cases.inputs(name)]
    found[name] = " ".join(cases.noted(function(mx.nd, *arrays).asnumpy()))
(Path(__file__).parent / "zeros.json").write_text(json.dumps(found, indent=0) + "\n")
