"""Networks that MXNet and hybridc export and import: every layer, every loss, and what else a file must hold."""

from __future__ import annotations

import numpy as np
from conv_layer_cases import network as convolutional
from gluon_cases import fill, layers, losses, random


def networks(mx):
    """Name, network and inputs; the parameters have fixed values."""
    for name, net, x in layers(mx):
        if isinstance(net, mx.gluon.HybridBlock):
            yield prepared(mx, f"layer_{name}", net, [x])
    for name, loss, inputs in losses(mx):
        if name != "poisson_full":  # MXNet cannot hybridize it
            yield prepared(mx, f"loss_{name}", loss, inputs)
    x = random(4, 6, seed=1)
    embedding = mx.gluon.nn.Embedding(5, 3, prefix="embedding_")
    yield prepared(mx, "embedding", embedding, [np.array([[0, 4], [2, 2]], "float32")])
    yield prepared(mx, "batch_norm", normalized(mx), [x])
    net, image = convolutional(mx)
    yield prepared(mx, "convolutional", net, [image])
    yield prepared(mx, "several_outputs", several_outputs(mx)(), [x])
    yield prepared(mx, "two_inputs", two_inputs(mx)(), [x, random(4, 6, seed=2)])
    yield prepared(mx, "list_input", list_input(mx)(), [x, [random(4, 6, seed=2), random(4, 6, seed=3)]])
    yield prepared(mx, "shared", shared(mx)(), [x])
    yield prepared(mx, "constants", constants(mx)(), [x])
    yield prepared(mx, "views", views(mx)(), [random(2, 3, 4, seed=4)])
    half = prepared(mx, "float16", half_precision(mx)(), [x])
    half[1].cast("float16")
    yield half[0], half[1], [x.astype("float16")]


def prepared(mx, name, net, inputs):
    """The network with parameters of fixed values and shapes."""
    net.initialize()
    net.hybridize()
    net(*arrays(mx, inputs))
    fill(net, mx)
    for key, param in net.collect_params().items():
        if key.endswith("running_var"):  # a variance is positive
            param.set_data(param.data() + 2)
    return name, net, inputs


def arrays(mx, inputs):
    """Nested inputs as arrays of `mx`."""
    return [arrays(mx, value) if isinstance(value, list) else mx.nd.array(value, dtype=value.dtype) for value in inputs]


def outputs(mx, net, inputs):
    """What the network gives, as NumPy arrays."""
    result = net(*arrays(mx, inputs))
    return [y.asnumpy() for y in (result if isinstance(result, (list, tuple)) else [result])]


def flat(inputs):
    """All arrays of nested inputs, in order: a file has one input for each."""
    return [x for value in inputs for x in (value if isinstance(value, list) else [value])]


def input_names(inputs):
    """What the inputs are called in a file."""
    count = len(flat(inputs))
    return ["data"] if count == 1 else [f"data{i}" for i in range(count)]


def normalized(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="bn_")
    with net.name_scope():
        net.add(nn.Dense(5, activation="tanh"), nn.BatchNorm(), nn.Dropout(0.4), nn.BatchNorm(scale=False), nn.Dense(2))
    return net


def several_outputs(mx):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="several_")
            with self.name_scope():
                self.hidden = mx.gluon.nn.Dense(4)

        def hybrid_forward(self, F, x):
            h = self.hidden(x)
            left, right = F.split(h, num_outputs=2, axis=1)
            return left, F.topk(h, k=2, ret_typ="both", axis=1)[0], 1 - right / 2, h

    return Net


def two_inputs(mx):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.broadcast_maximum(x, y) ** 2 + F.where(x > y, x, y)

    return Net


def list_input(mx):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, ys):
            return F.concat(x, *ys, dim=1) * 2

    return Net


def shared(mx):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="shared_")
            with self.name_scope():
                self.first = mx.gluon.nn.Dense(6)
                self.second = mx.gluon.nn.Dense(6, params=self.first.params)

        def hybrid_forward(self, F, x):
            return self.second(F.relu(self.first(x)))

    return Net


def constants(mx):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="constants_")
            with self.name_scope():
                self.scale = self.params.get_constant("scale", np.arange(1, 7, dtype="float32").reshape(1, 6))
                self.shift = self.params.get("shift", shape=(1, 6), init="zeros")

        def hybrid_forward(self, F, x, scale, shift):
            return F.broadcast_add(F.broadcast_mul(x, scale), shift)

    return Net


def views(mx):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.transpose(x.reshape((0, -1)), axes=(1, 0)).slice_axis(axis=0, begin=1, end=None)
            return F.expand_dims(F.flip(y, axis=1), axis=0), x.sum(axis=(1, 2)), F.Flatten(x).softmax(axis=-1)

    return Net


def half_precision(mx):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="half_")
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(1, 6))

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(F.tanh(x), scale) + 1

    return Net
