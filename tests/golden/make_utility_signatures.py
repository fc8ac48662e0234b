"""Makes utility_signatures.json: the signatures of MXNet 1.9.1's utility namespaces.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_utility_signatures.py
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import mxnet as mx  # noqa: E402, TID251
from utility_signatures import signatures  # noqa: E402

(HERE / "utility_signatures.json").write_text(json.dumps(signatures(mx, "mxnet"), indent=1) + "\n")
