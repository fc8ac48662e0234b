"""Layers of one's own: blocks, hybrid blocks with parameters, lambdas, a custom initializer, a custom loss."""

from __future__ import print_function

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon.nn import Dense, HybridSequential


class NormalizationBlock(gluon.Block):
    def __init__(self):
        super(NormalizationBlock, self).__init__()

    def forward(self, x):
        return (x - nd.min(x)) / (nd.max(x) - nd.min(x))


class NormalizationHybridLayer(gluon.HybridBlock):
    def __init__(self, hidden_units, scales):
        super(NormalizationHybridLayer, self).__init__()
        with self.name_scope():
            self.weights = self.params.get("weights", shape=(hidden_units, 0), allow_deferred_init=True)
            self.scales = self.params.get_constant("scales", value=mx.nd.array(scales))

    def hybrid_forward(self, F, x, weights, scales):
        normalized_data = F.broadcast_div(F.broadcast_sub(x, F.min(x)), (F.broadcast_sub(F.max(x), F.min(x))))
        weighted_data = F.FullyConnected(normalized_data, weights, num_hidden=self.weights.shape[0], no_bias=True)
        scaled_data = F.broadcast_mul(scales, weighted_data)
        return scaled_data


@mx.init.register
class MyInit(mx.init.Initializer):
    def __init__(self, step):
        super(MyInit, self).__init__(step=step)
        self._step = step

    def _init_weight(self, name, arr):
        arr[:] = mx.nd.arange(arr.size).reshape(arr.shape) * self._step


layer = NormalizationBlock()
print("eager block", layer(nd.array([1, 2, 3])).asnumpy().tolist())

net = HybridSequential(prefix="net_")
with net.name_scope():
    net.add(Dense(5))
    net.add(NormalizationHybridLayer(hidden_units=5, scales=[2, 1, 0, 1, 2]))
    net.add(gluon.nn.HybridLambda(lambda F, x: F.LeakyReLU(x, slope=0.1)))
    net.add(Dense(1))
net.initialize(MyInit(step=0.01))
for hybrid in (False, True):
    net.hybridize(hybrid)
    x = mx.nd.array(np.linspace(-0.5, 0.4, 20).reshape(4, 5))
    label = nd.array([[0.3], [0.1], [-0.2], [0.5]])
    l2loss = gluon.loss.L2Loss()
    with autograd.record():
        loss = l2loss(net(x), label)
    loss.backward()
    print("hybridized" if hybrid else "eager", net(x).asnumpy().round(5).tolist(), loss.asnumpy().round(5).tolist())
    for name, param in sorted(net.collect_params().items()):
        if param.grad_req != "null":
            print(name, param.shape, float(param.grad().norm().asscalar()))

print(sorted(net.collect_params().keys()))
print(net.collect_params(".*weight"))
print(net)


class ContrastiveLoss(gluon.loss.Loss):
    def __init__(self, margin=6.0, weight=None, batch_axis=0, **kwargs):
        super(ContrastiveLoss, self).__init__(weight, batch_axis, **kwargs)
        self.margin = margin

    def hybrid_forward(self, F, image1, image2, label):
        distances = image1 - image2
        distances_squared = F.sum(F.square(distances), 1, keepdims=True)
        euclidean_distances = F.sqrt(distances_squared + 0.0001)
        d = F.clip(self.margin - euclidean_distances, 0, self.margin)
        loss = (1 - label) * distances_squared + label * F.square(d)
        return 0.5 * loss


loss = ContrastiveLoss(margin=6.0)
a, b = nd.array([[0.1, 0.2], [3, 4]]), nd.array([[0.1, 0.3], [1, 1]])
for hybrid in (False, True):
    loss.hybridize(hybrid)
    print("contrastive", loss(a, b, nd.array([[0], [1]])).asnumpy().round(5).tolist())


class Scale(autograd.Function):
    """A function with a gradient of its own."""

    def forward(self, x):
        self.save_for_backward(x)
        return x * 3

    def backward(self, dy):
        (x,) = self.saved_tensors
        return dy * x


x = nd.array([1.0, 5.0])
x.attach_grad()
with autograd.record():
    y = Scale()(x).sum()
y.backward()
print("function", y.asscalar(), x.grad.asnumpy().tolist())
