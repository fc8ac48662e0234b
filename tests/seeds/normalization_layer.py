# A tutorial's code, as a user would paste it.
# ruff: noqa: F401, I001, UP008, UP010
from __future__ import print_function
import hybridc as mx
from hybridc import nd, gluon, autograd
from hybridc.gluon.nn import Dense

mx.random.seed(1)


class NormalizationLayer(gluon.Block):
    def __init__(self):
        super(NormalizationLayer, self).__init__()

    def forward(self, x):
        return (x - nd.min(x)) / (nd.max(x) - nd.min(x))


layer = NormalizationLayer()
print(layer(nd.array([1, 2, 3])))
