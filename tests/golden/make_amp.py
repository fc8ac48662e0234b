"""Write amp.json: the dtypes of MXNet 1.9.1 for amp_cases.py. Run it with the Python of MXNet (see README.md).

Mixed precision begins once in a process, so that each dtype has one of its own, which ends without waiting for results:
MXNet has no kernels of 16 bits for most of them on a CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

FILE = Path(__file__).parent / "amp.json"

if len(sys.argv) > 1:
    import mxnet as mx  # noqa: TID251
    from amp_cases import answers
    from mxnet.contrib import amp  # noqa: TID251

    amp.init(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(answers(mx)))
    os._exit(0)

found = {}
for dtype in ("float16", "bfloat16"):
    subprocess.run([sys.executable, __file__, dtype, str(FILE)], check=True)
    found[dtype] = json.loads(FILE.read_text())
FILE.write_text(json.dumps(found, sort_keys=True) + "\n")
