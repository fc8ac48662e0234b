"""Makes files/pickles.json: what MXNet 1.9.1 pickles, in base64.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_pickles.py
"""

import base64
import json
import pathlib
import pickle  # noqa: TID251 - what MXNet makes

import mxnet as mx  # noqa: TID251

HERE = pathlib.Path(__file__).parent


def states(name):
    """The states of an optimizer after an update."""
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=0.1))
    updater(0, mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
    return updater.states


x = mx.sym.var("x", shape=(2, 3))
THINGS = {
    "float32": mx.nd.arange(6).reshape((2, 3)),
    "float16": mx.nd.array([0.5, -1], dtype="float16"),
    "int64": mx.nd.array([1, 2**40], dtype="int64"),
    "uint8": mx.nd.array([[1], [255]], dtype="uint8"),
    "parameters": {"arg:w": mx.nd.ones((2,)), "aux:m": mx.nd.zeros((1,))},
    "states": states("adam"),
    "symbol": mx.sym.FullyConnected(x, num_hidden=2, no_bias=False, name="fc"),
    "group": [mx.sym.Group([x + 1, x * 2]), "more"],
    "context": mx.cpu(3),
    "batch": mx.io.DataBatch([mx.nd.ones((2,))], [mx.nd.zeros((2,))]),
}
found = {name: base64.b64encode(pickle.dumps(thing, 4)).decode() for name, thing in THINGS.items()}
(HERE / "files" / "pickles.json").write_text(json.dumps(found, indent=1) + "\n")
