# A tutorial's code, as a user would paste it.
# ruff: noqa: F401, I001, UP008, UP010
from __future__ import print_function
import hybridc as mx
from hybridc import nd, gluon, autograd
from hybridc.gluon.nn import Dense

mx.random.seed(1)


class NormalizationHybridLayer(gluon.HybridBlock):
    def __init__(self):
        super(NormalizationHybridLayer, self).__init__()

    def hybrid_forward(self, F, x):
        return F.broadcast_div(F.broadcast_sub(x, F.min(x)), (F.broadcast_sub(F.max(x), F.min(x))))


layer = NormalizationHybridLayer()
print(layer(nd.array([1, 2, 3], ctx=mx.cpu())))

net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(Dense(5))
    net.add(NormalizationHybridLayer())
    net.add(Dense(1))


net.initialize(mx.init.Xavier(magnitude=2.24))
net.hybridize()
input = nd.random_uniform(low=-10, high=10, shape=(5, 2))
print(net(input))
