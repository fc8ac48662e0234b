"""Makes signatures.json: the parameters of MXNet 1.9.1's optimizers, metrics, initializers and schedules.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_signatures.py
"""

import json
import pathlib
import sys

import mxnet as mx  # noqa: TID251

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from signature_cases import all_members  # noqa: E402

(HERE / "signatures.json").write_text(json.dumps(all_members(mx), indent=0) + "\n")
