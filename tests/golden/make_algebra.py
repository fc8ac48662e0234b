"""Makes algebra.npz: what MXNet 1.9.1 makes of linear algebra and of densities, and their gradients.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_algebra.py

The cases are named in ``algebra_cases.py``.
"""

import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from algebra_cases import CASES, run  # noqa: E402

np.savez_compressed(HERE / "algebra.npz", **{f"{n}.{k}": v for n, c in CASES.items() for k, v in run(mx, c).items()})
