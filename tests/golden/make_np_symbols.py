"""Has MXNet write and evaluate the expressions of ``np_symbol_cases.py``: ``np_symbols.json``."""

import json
from pathlib import Path

import mxnet as mx  # noqa: TID251
from np_symbol_cases import CASES, X, Y

mx.npx.set_np()
S = mx.sym
x, y = (mx.sym.var(name).as_np_ndarray() for name in "xy")


def result(case, symbol):
    """The values, their dtype and shape, or None where MXNet itself fails.

    Its executor has no shapes that depend on values: it gives nothing then. Numbers drawn are not recorded.
    """
    arrays = {"x": mx.np.array(X), "y": mx.np.array(Y)}
    used = {name: arrays[name] for name in symbol.list_inputs()}
    try:
        values = symbol.bind(mx.cpu(), used).forward()[0].asnumpy()
    except mx.MXNetError:
        return None
    if values.size == 0:
        return None
    return [None if "random" in case else values.tolist(), str(values.dtype), values.shape]


made = []
for case in CASES:
    symbol = eval(case)  # the cases are ours
    symbol = symbol if isinstance(symbol, mx.sym.Symbol) else symbol[0]
    made.append([case, symbol.tojson(), result(case, symbol)])
Path(__file__).with_name("np_symbols.json").write_text(json.dumps(made, indent=0))
