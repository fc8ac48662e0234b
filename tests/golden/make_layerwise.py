"""Makes layerwise.npz: the trajectories of MXNet 1.9.1's LAMB and LARS.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_layerwise.py

Every entry is one array: the weight after each of six updates. The cases are named in ``layerwise_cases.py``.
"""

import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from frontend_cases import trajectory  # noqa: E402
from layerwise_cases import LAYERWISE  # noqa: E402

OUT = {}
for name, (kind, options, setup) in LAYERWISE.items():
    options = dict(options)
    if "lr_scheduler" in options:
        klass, args = options.pop("lr_scheduler")
        options["lr_scheduler"] = getattr(mx.lr_scheduler, klass)(**args)
    OUT[name] = trajectory(mx, kind, options, setup)
np.savez_compressed(HERE / "layerwise.npz", **OUT)
