# A tutorial's code, as a user would paste it.
# ruff: noqa: I001, UP008, UP010, UP032
from __future__ import print_function
import hybridc as mx
from hybridc import nd, gluon, autograd
from hybridc.gluon.nn import Dense

mx.random.seed(1)


class NormalizationHybridLayer(gluon.HybridBlock):
    def __init__(self, hidden_units, scales):
        super(NormalizationHybridLayer, self).__init__()

        with self.name_scope():
            self.weights = self.params.get("weights", shape=(hidden_units, 0), allow_deferred_init=True)

            self.scales = self.params.get(
                "scales", shape=scales.shape, init=mx.init.Constant(scales.asnumpy().tolist()), differentiable=False
            )

    def hybrid_forward(self, F, x, weights, scales):
        normalized_data = F.broadcast_div(F.broadcast_sub(x, F.min(x)), (F.broadcast_sub(F.max(x), F.min(x))))
        weighted_data = F.FullyConnected(normalized_data, weights, num_hidden=self.weights.shape[0], no_bias=True)
        scaled_data = F.broadcast_mul(scales, weighted_data)
        return scaled_data


def print_params(title, net):
    print(title)
    hybridlayer_params = {k: v for k, v in net.collect_params().items() if "normalizationhybridlayer" in k}

    for key, value in hybridlayer_params.items():
        print("{} = {}\n".format(key, value.data()))


net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(Dense(5))
    net.add(NormalizationHybridLayer(hidden_units=5, scales=nd.array([2])))
    net.add(Dense(1))


net.initialize(mx.init.Xavier(magnitude=2.24))
net.hybridize()

input = nd.random_uniform(low=-10, high=10, shape=(5, 2))
label = nd.random_uniform(low=-1, high=1, shape=(5, 1))

mse_loss = gluon.loss.L2Loss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})

with autograd.record():
    output = net(input)

    print_params("=========== Parameters after forward pass ===========\n", net)
    loss = mse_loss(output, label)

loss.backward()
trainer.step(input.shape[0])
print_params("=========== Parameters after backward pass ===========\n", net)
