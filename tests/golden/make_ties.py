"""Makes ties.npz: what MXNet 1.9.1 gives at ties, for zeros with a sign, and for windows and steps of nothing.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_ties.py

The cases are named in ``tie_cases.py``; and images made smaller by a half, whose pixels lie between two levels.
"""

import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from tie_cases import CASES, halves, run  # noqa: E402

out = {f"{name}/{i}": value for name in CASES for i, value in enumerate(run(mx, name))}
np.savez_compressed(HERE / "ties.npz", **out, **halves(mx))
