"""Makes contrib.npz and contrib.json: what MXNet 1.9.1 makes of what is in mx.contrib.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_contrib.py

The cases are in ``contrib_cases.py``.
"""

import json
import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import contrib_cases as cases  # noqa: E402

np.savez_compressed(HERE / "contrib.npz", **cases.attention(mx), **cases.quantized(mx))
texts = {name: getattr(cases, name)(mx) for name in ("texts", "gradients", "batches", "mixed", "lists")}
(HERE / "contrib.json").write_text(json.dumps(texts, separators=(",", ":")) + "\n")
