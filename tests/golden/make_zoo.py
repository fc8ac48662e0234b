"""Makes zoo.json.gz: names and shapes of all parameters of MXNet 1.9.1's model zoo, and what a few networks give.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from zoo_cases import NAMES, RUN, parameters, prepared

vision = mx.gluon.model_zoo.vision
found = {
    "parameters": {name: parameters(vision.get_model(name)) for name in NAMES},
    "outputs": {},
}
for name in RUN:
    net, x = prepared(mx, name)
    y = net(x).asnumpy()
    print(name, y.shape, y.std(), np.abs(y).max())
    found["outputs"][name] = [[float(f"{v:.7g}") for v in row] for row in y]
content = json.dumps(found, separators=(",", ":")).encode()
(Path(__file__).parent / "zoo.json.gz").write_bytes(gzip.compress(content, 9, mtime=0))
