"""Layers of your own: without parameters, hybridizable, in a network, with parameters that train or stay.

Run it with ``python examples/custom_layers.py``.
"""

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.gluon.nn import Dense

mx.random.seed(1)

# %% [markdown]
# ## A layer without parameters
#
# A `Block` is plain Python. A `HybridBlock` can be compiled by `hybridize()`: it takes every operator from `F`.


# %%
class NormalizationLayer(gluon.Block):
    """(x - min) / (max - min). A Block is plain Python: ``forward`` says it all, autograd does the rest."""

    def forward(self, x):
        return (x - nd.min(x)) / (nd.max(x) - nd.min(x))


class NormalizationHybridLayer(gluon.HybridBlock):
    """The same as a HybridBlock, which can be compiled: every operator comes from ``F``."""

    def hybrid_forward(self, F, x):
        return F.broadcast_div(F.broadcast_sub(x, F.min(x)), F.broadcast_sub(F.max(x), F.min(x)))


x = nd.array([1, 2, 3])
print("as a Block:      ", NormalizationLayer()(x).asnumpy())
layer = NormalizationHybridLayer()
print("as a HybridBlock:", layer(x).asnumpy())
layer.hybridize()
print("hybridized:      ", layer(x).asnumpy())

# %% [markdown]
# ## The layer in a network
#
# A layer of your own stands among others. The network gives the same results eagerly and hybridized.


# %%
def network(layer):
    """Dense(5) → the layer → Dense(1)."""
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(Dense(5), layer, Dense(1))
    net.initialize(mx.init.Xavier(magnitude=2.24))
    return net


net = network(NormalizationHybridLayer())
x = nd.random.uniform(low=-10, high=10, shape=(5, 2))
eager = net(x)
net.hybridize()
print("a network with it, run eagerly and hybridized:")
print(nd.concat(eager, net(x), dim=1).asnumpy())

# %% [markdown]
# ## A layer with parameters
#
# `self.params.get` makes a parameter. `hybrid_forward` gets each parameter by its name, after the inputs. A parameter
# with `differentiable=False` stays as it is.


# %%
class ScaledNormalization(gluon.HybridBlock):
    """Normalise, multiply by a trained matrix, then by constants that training leaves alone."""

    def __init__(self, hidden_units, scales):
        super().__init__()
        with self.name_scope():
            # The size of the input is not known yet: 0, to be completed at the first call.
            self.weights = self.params.get("weights", shape=(hidden_units, 0), allow_deferred_init=True)
            self.scales = self.params.get(
                "scales",
                shape=scales.shape,
                init=mx.init.Constant(scales.asnumpy().tolist()),
                differentiable=False,
            )

    def hybrid_forward(self, F, x, weights, scales):
        normalized = F.broadcast_div(F.broadcast_sub(x, F.min(x)), F.broadcast_sub(F.max(x), F.min(x)))
        # FullyConnected, unlike dot, tells the shape of the weights from that of its input.
        weighted = F.FullyConnected(normalized, weights, num_hidden=self.weights.shape[0], no_bias=True)
        return F.broadcast_mul(scales, weighted)


layer = ScaledNormalization(hidden_units=5, scales=nd.array([2]))
net = network(layer)
net.hybridize()
x = nd.random.uniform(low=-10, high=10, shape=(5, 2))
label = nd.random.uniform(low=-1, high=1, shape=(5, 1))
loss_of = gluon.loss.L2Loss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})

net(x)
before = layer.weights.data().copy()
print("training a network whose layer has parameters:", *net.collect_params())
for step in range(5):
    with autograd.record():
        loss = loss_of(net(x), label)
    loss.backward()
    trainer.step(x.shape[0])
    print(f"step {step}: loss {loss.mean().asscalar():.4f}")
moved = nd.abs(layer.weights.data() - before).max().asscalar()
print(f"the weights moved by up to {moved:.3f}, the scales are still {layer.scales.data().asnumpy()}")
