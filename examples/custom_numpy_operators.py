"""Operators written with NumPy: a sigmoid without parameters, a dense layer with a weight, and a fork.

Run it with ``python examples/custom_numpy_operators.py``.
"""

import os

import numpy as np

import hybridc as mx
from hybridc import autograd, gluon, nd

# %% [markdown]
# ## An operator without parameters
#
# `forward` computes the result from NumPy arrays, `backward` the gradient of the input from that of the result. The
# *Prop* class beside it has the name, the shapes, and makes the operator.


# %%
class Sigmoid(mx.operator.CustomOp):
    """1 / (1 + exp(-x)), computed by NumPy."""

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], nd.array(1.0 / (1.0 + np.exp(-x))))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y = out_data[0].asnumpy()
        dy = out_grad[0].asnumpy()
        self.assign(in_grad[0], req[0], nd.array(dy * y * (1.0 - y)))


@mx.operator.register("sigmoid")
class SigmoidProp(mx.operator.CustomOpProp):
    """One input, one output of the same shape: the defaults say so, only the operator is made here."""

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Sigmoid()


x = nd.array([0, 1, 2, 3])
x.attach_grad()
with autograd.record():
    y = nd.Custom(x, op_type="sigmoid")
y.backward()
print("sigmoid of", x.asnumpy(), "is", y.asnumpy())
print("its gradient is", x.grad.asnumpy())
print("the built-in nd.sigmoid gives", nd.sigmoid(x).asnumpy())

# %% [markdown]
# ## A dense layer with a weight
#
# The operator has two inputs and an argument; a block keeps the weight as its parameter. In a compiled network the
# operator is a *host call*: Python computes it between the kernels.


# %%
class Dense(mx.operator.CustomOp):
    """x · weightᵀ + bias with a constant bias."""

    def __init__(self, bias):
        self._bias = bias

    def forward(self, is_train, req, in_data, out_data, aux):
        x, weight = (a.asnumpy() for a in in_data)
        self.assign(out_data[0], req[0], nd.array(x.dot(weight.T) + self._bias))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        x, weight = (a.asnumpy() for a in in_data)
        dy = out_grad[0].asnumpy()
        # in_grad[i] has the shape of in_data[i]: dy·weight belongs to x, dyᵀ·x to the weight. Handing the
        # second to in_grad[0] is an easy slip; hybridc refuses it and names both shapes.
        self.assign(in_grad[0], req[0], nd.array(dy.dot(weight)))
        self.assign(in_grad[1], req[1], nd.array(dy.T.dot(x)))


@mx.operator.register("dense")
class DenseProp(mx.operator.CustomOpProp):
    """Two inputs; ``bias`` arrives as a string, whatever the caller passed."""

    def __init__(self, bias):
        super().__init__(need_top_grad=True)
        self._bias = float(bias)

    def list_arguments(self):
        return ["data", "weight"]

    def infer_shape(self, in_shape):
        data, weight = in_shape
        # The weight's second size may be unknown (0) when the parameter is initialised at the first call.
        weight = (weight[0], data[1])
        return [data, weight], [(data[0], weight[0])], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Dense(self._bias)


class DenseBlock(gluon.HybridBlock):
    """A layer that keeps the operator's weight as a parameter."""

    def __init__(self, channels, bias, **kwargs):
        super().__init__(**kwargs)
        self._bias = bias
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(channels, 0), allow_deferred_init=True)

    def hybrid_forward(self, F, x, weight):
        return F.Custom(x, weight, bias=self._bias, op_type="dense")


net = DenseBlock(5, bias=0.1)
net.initialize()
x = nd.random.uniform(shape=(4, 3))
print("dense, run eagerly:", net(x))
net.hybridize()
with autograd.record():
    y = net(x)
y.backward()
print("the weight's gradient, from the compiled backward:", net.weight.grad())
print("what the compiled network consists of:")
print(net.explain(), flush=True)

# %% [markdown]
# ## A fork
#
# Nothing runs behind the caller's back, so a process may fork at any time.

# %%
x = nd.array([0, 1, 2, 3])
y = nd.Custom(x, op_type="sigmoid")
if hasattr(os, "fork"):
    pid = os.fork()
    if pid == 0:
        os.write(1, f"fork: the child sees {y.asnumpy()}\n".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    print("fork: the parent sees", y.asnumpy())
