"""Makes sequences.npz: what MXNet 1.9.1 makes of CTCLoss, hawkesll, SequenceMask, SequenceLast and SequenceReverse.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_sequences.py

The cases are named in ``sequence_cases.py``.
"""

import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from sequence_cases import everything  # noqa: E402

np.savez_compressed(HERE / "sequences.npz", **everything(mx))
