"""Makes rnn_layers.npz, what MXNet 1.9.1 makes of recurrent layers, and files/lstm.params, which it saved.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_rnn_layers.py

The cases are named in ``rnn_layer_cases.py``. Dropout is off: its random numbers are not ours.
"""

import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from rnn_layer_cases import CASES, filled, run  # noqa: E402

made = {}
for name, case in CASES.items():
    found, layer = run(mx, case, filled, train="dropout" not in case[1])
    made.update({f"{name}/{key}": value for key, value in found.items()})
    if name == "lstm_deep":
        layer.save_parameters(str(HERE / "files" / "lstm.params"))
np.savez_compressed(HERE / "rnn_layers.npz", **made)
