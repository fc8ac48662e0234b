"""Makes attributes.json: the attributes that MXNet 1.9.1 keeps of the symbols of attribute_cases.py.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_attributes.py
"""

import json
import pathlib
import sys

import mxnet as mx  # noqa: TID251

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from attribute_cases import CASES, described  # noqa: E402

found = {}
for name, make in CASES.items():
    try:
        found[name] = described(mx, make)
    except Exception as error:
        print(name, type(error).__name__, str(error)[:200])
(HERE / "attributes.json").write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
