"""Makes svrg.json: the parameters after what svrg_cases.py trains with MXNet 1.9.1.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import mxnet as mx  # noqa: TID251
import svrg_cases as cases

found = {name: cases.run(mx, **given) for name, given in cases.CASES.items()}
(Path(__file__).parent / "svrg.json").write_text(json.dumps(found, indent=0) + "\n")
