"""Makes internal.json: what MXNet 1.9.1's functions of mx.nd._internal give for internal_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import json
from pathlib import Path

import internal_cases as cases
import mxnet as mx  # noqa: TID251

found = {
    "calls": {code: cases.run(mx, code) for code in cases.CALLS},
    "symbols": {code: cases.symbol(mx, code) for code in cases.SYMBOLS},
    "arguments": {n: list(mx.operator.get_operator_arguments(n).names) for n in cases.ARGUMENTS},
    "names": sorted(n for n in dir(mx.nd._internal) if not n.startswith("__")),
    "tables": {
        "_DTYPE_NP_TO_MX": [[getattr(k, "__name__", str(k)), v] for k, v in mx.nd._DTYPE_NP_TO_MX.items()][:-1],
        "_DTYPE_MX_TO_NP": [[k, getattr(v, "__name__", str(v))] for k, v in mx.nd._DTYPE_MX_TO_NP.items()][:-1],
        "_GRAD_REQ_MAP": list(map(list, mx.nd._GRAD_REQ_MAP.items())),
        "_STORAGE_TYPE_STR_TO_ID": list(map(list, mx.nd.ndarray._STORAGE_TYPE_STR_TO_ID.items())),
        "_STORAGE_TYPE_ID_TO_STR": list(map(list, mx.nd.ndarray._STORAGE_TYPE_ID_TO_STR.items())),
    },
}
(Path(__file__).parent / "internal.json").write_text(json.dumps(found, indent=0) + "\n")
