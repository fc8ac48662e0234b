"""Makes rnn.npz, rnn.json and files/rnn*: what MXNet 1.9.1 gives for rnn_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

os.environ["MXNET_MKLDNN_ENABLED"] = "0"  # with it, slices of convolutions cannot be read

import mxnet as mx  # noqa: TID251
from gluon_cases import fill, random
from programs import record
from rnn_cases import CASES, C, N, T, network

FILES = Path(__file__).parent / "files"


class Unrolled(mx.gluon.HybridBlock):
    """A cell as a network of whole sequences."""

    def __init__(self, cell):
        super().__init__(prefix="")
        self.cell = cell

    def hybrid_forward(self, F, x):
        """The outputs of all steps."""
        return self.cell.unroll(T, x, merge_outputs=True)[0]


cell = network(mx)
cell.initialize()
x = mx.nd.array(random(N, T, C, seed=80))
cell.unroll(T, x, begin_state=cell.begin_state(batch_size=N, func=mx.nd.zeros))
fill(cell, mx)
cell.save_parameters(str(FILES / "rnn.params"))
outputs = cell.unroll(T, x, begin_state=cell.begin_state(batch_size=N, func=mx.nd.zeros), merge_outputs=True)[0]
net = Unrolled(cell)
net.hybridize()
again = net(x)
assert np.allclose(again.asnumpy(), outputs.asnumpy(), atol=1e-6)
net.export(str(FILES / "rnn"))
record("rnn", {**CASES, "network": lambda mx, hybridize: {"output": outputs.asnumpy()}}, mx, lambda block: None)
