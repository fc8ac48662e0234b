"""A network with kernels of every kind."""

from __future__ import annotations

import hybridc as mx
from hybridc.gluon import HybridBlock, nn


class MixedNetwork(HybridBlock):
    """Matmuls, reductions of rows and along ``axis``, views, elementwise chains."""

    def __init__(self, units, hidden, axis):
        super().__init__()
        self.axis = axis
        with self.name_scope():
            self.a = nn.Dense(hidden, activation="tanh", in_units=units)
            self.b = nn.Dense(units, in_units=hidden)

    def hybrid_forward(self, F, x):
        y = self.b(self.a(x)) + x
        z = F.softmax(y) * F.sigmoid(x)
        return F.broadcast_sub(z, F.mean(z, axis=self.axis, keepdims=True)), F.transpose(y)


def mixed_network(units, hidden, axis, scale):
    """The network with normal weights, the same at each call."""
    mx.random.seed(1)
    net = MixedNetwork(units, hidden, axis)
    net.initialize(mx.init.Normal(scale))
    return net
