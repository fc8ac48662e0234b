"""Makes subgraphs.json: what MXNet 1.9.1 makes of subgraph_cases.py, as files.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5, and with the path of the library made
of examples/extensions/lib_subgraph: ``python make_subgraphs.py /path/to/libsubgraph_lib.so``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mxnet as mx  # noqa: TID251
from subgraph_cases import build, cases

mx.library.load(sys.argv[1], verbose=False)
found = {}
for name, graph, backend, options in cases():
    symbol, arrays = build(mx, graph)
    # An array that a part uses twice is one input of it, and a result that is used twice is one result.
    made = symbol.optimize_for(backend, arrays, dedup_subgraph=True, **options)
    results = made.bind(mx.cpu(), arrays).forward()
    found[name] = {
        "json": json.loads(made.tojson()),
        "internals": made.get_internals().list_outputs(),
        "outputs": made.list_outputs(),
        "results": [y.asnumpy().tolist() for y in results],
    }
(Path(__file__).parent / "subgraphs.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
print(len(found), "partitioned symbols")
