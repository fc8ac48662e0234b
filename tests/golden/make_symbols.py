"""Makes `symbols.json.gz`, the operator cases as symbol files of MXNet 1.9.1, and `files/symbols.json`.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5. The results of the cases are in
`ops.npz` already.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
warnings.simplefilter("ignore")
here = Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1]))

import mxnet as mx  # noqa: E402, TID251
import numpy as np  # noqa: E402

from tests.golden.store import Reader  # noqa: E402
from tests.golden.symbol_cases import BY_HAND, DRAWS, OLD, compact, old_inputs, results_in_mxnet, symbol_cases, whole  # noqa: E402

OPS = Reader(here / "ops.npz")


def main():
    found, seen = {}, set()
    for name, case in symbol_cases().items():
        try:
            with mx.name.NameManager():
                text = compact(composed(case).tojson(remove_amp_cast=False))
        except Exception:  # what is no function of mx.sym
            continue
        if text not in seen and agrees(name, case, text):
            seen.add(text)
            found[name] = text
    write_old()
    content = json.dumps(found, indent=0, ensure_ascii=False).encode()
    (here / "symbols.json.gz").write_bytes(gzip.compress(content, mtime=0))
    print(len(found), "symbols,", (here / "symbols.json.gz").stat().st_size // 1024, "KiB")


def write_old():
    """What MXNet makes of files of earlier versions, and of files written by hand."""
    found, by_hand = {}, {}
    for name, text in OLD.items():
        symbol = mx.sym.load_json(text)
        results = results_in_mxnet(mx, text, old_inputs(name, symbol.list_inputs()))
        found[name] = {
            "arguments": symbol.list_arguments(),
            "states": symbol.list_auxiliary_states(),
            "outputs": symbol.list_outputs(),
            "attrs": symbol.attr_dict(),
            "result": results[0].tolist(),
        }
    for name, (op, attrs, inputs) in {**BY_HAND, **DRAWS}.items():
        x = results_in_mxnet(mx, whole(op, attrs, *inputs), inputs)[0]
        record = {"dtype": x.dtype.name, "shape": list(x.shape)}
        if name in DRAWS:
            record.update(mean=float(x.mean()), std=float(x.std()))
        else:
            record.update(result=x.tolist())
        by_hand[name] = record
    layout = mx.sym.Group([mx.sym.var(f"größe {i}", attr={"__a__": '"\n'}) for i in range(11)]).tojson()
    content = json.dumps({"old": found, "by_hand": by_hand, "layout": layout}, indent=1, ensure_ascii=False) + "\n"
    (here / "files" / "symbols.json").write_text(content, encoding="utf-8")


def composed(case):
    """The case's result on variables."""
    made = case.fn(SimpleNamespace(nd=mx.sym), *[mx.sym.var(key) for key in case.inputs])
    return mx.sym.Group(list(made)) if isinstance(made, (list, tuple)) else made


def agrees(name, case, text):
    """Whether the symbol gives what the case gave: `-` broadcasts arrays, but not symbols; `x[0]` is another thing."""
    try:
        found = results_in_mxnet(mx, text, case.inputs)
    except Exception:
        return False
    wanted = [OPS.get(ref) for ref in OPS.index[name].get("outs", [])]
    return len(found) == len(wanted) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(found, wanted))


if __name__ == "__main__":
    main()
