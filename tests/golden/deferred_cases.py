"""Which shapes parameters get of which nothing, or some sizes, is known: from the operators that use them."""

from __future__ import annotations

from custom_operators import operators

# name: what a block computes of the data (2, 3) and of its parameters, and their shapes as they are declared.
PROGRAMS = {
    "FullyConnected": (lambda F, x, w, b: F.FullyConnected(x, w, b, num_hidden=3), {"w": None, "b": None}),
    "sizes": (lambda F, x, w, b: F.FullyConnected(x, w, b, num_hidden=3), {"w": (0, 0), "b": (0,)}),
    "not flat": (
        lambda F, x, w: F.FullyConnected(x.reshape((2, 3, 1)), w, num_hidden=3, no_bias=True, flatten=False),
        {"w": None},
    ),
    "elemwise_add": (lambda F, x, w: F.elemwise_add(x, w), {"w": None}),
    "elemwise_add of a size": (lambda F, x, w: F.elemwise_add(x, w), {"w": (0, 3)}),
    "+": (lambda F, x, w: x + w, {"w": None}),
    "- reflected": (lambda F, x, w: (1 - w) - x, {"w": None}),
    "Embedding": (lambda F, x, w: F.Embedding(x, w, input_dim=4, output_dim=5), {"w": None}),
    "LayerNorm": (lambda F, x, w, b: F.LayerNorm(x, w, b), {"w": None, "b": None}),
    "BatchNorm": (lambda F, x, w, b, m, v: F.BatchNorm(x, w, b, m, v), dict.fromkeys("wbmv")),
    "prelu": (lambda F, x, w: F.LeakyReLU(x, w, act_type="prelu"), {"w": None}),
    "Custom": (
        lambda F, x, w, c: F.Custom(x, w, c, op_type="golden_project", units=2)[0],
        {"w": None, "c": None},
    ),
    "Custom of sizes": (
        lambda F, x, w, c: F.Custom(x, w, c, op_type="golden_project", units=2)[0],
        {"w": (2, 0), "c": (0,)},
    ),
    "Custom twice": (
        lambda F, x, w, c: F.broadcast_add(
            F.sum(w), F.Custom(F.exp(x), w * 2, c, op_type="golden_project", units=2)[0]
        ),
        {"w": None, "c": None},
    ),
    "where": (lambda F, x, w: F.where(x > 0, x, w), {"w": None}),
    "add_n": (lambda F, x, w: F.add_n(x, w), {"w": None}),
    "maximum": (lambda F, x, w: F.maximum(x, w), {"w": None}),
    "SoftmaxOutput": (lambda F, x, w: F.SoftmaxOutput(x, w), {"w": None}),
    "LinearRegressionOutput": (
        lambda F, x, w: F.LinearRegressionOutput(F.sum(x, axis=1, keepdims=True), w),
        {"w": None},
    ),
    "MAERegressionOutput": (lambda F, x, w: F.MAERegressionOutput(x, w), {"w": None}),
    "SVMOutput": (lambda F, x, w: F.SVMOutput(x, w), {"w": None}),
    "pick": (lambda F, x, w: F.pick(x, w), {"w": None}),
    "pick, keepdims": (lambda F, x, w: F.pick(x, w, axis=0, keepdims=True), {"w": None}),
    "Concat": (lambda F, x, w: F.concat(x, w, dim=0), {"w": (1, 0)}),
    # What follows only from the end of the graph.
    "exp before": (lambda F, x, w: F.elemwise_mul(x, F.exp(w)), {"w": None}),
    "exp before FullyConnected": (
        lambda F, x, w: F.FullyConnected(x, F.exp(w), num_hidden=2, no_bias=True),
        {"w": None},
    ),
    "transpose before": (lambda F, x, w: F.elemwise_add(x, F.transpose(w)), {"w": (0, 0)}),
    "used twice": (
        lambda F, x, w: (
            F.FullyConnected(x, w, num_hidden=3, no_bias=True) + F.FullyConnected(x * 2, w, num_hidden=3, no_bias=True)
        ),
        {"w": None},
    ),
    "a penalty first": (
        lambda F, x, w: F.broadcast_add(F.sum(F.square(w)), F.FullyConnected(x, w, num_hidden=3, no_bias=True)),
        {"w": None},
    ),
    "a mean first": (
        lambda F, x, w: F.broadcast_mul(F.mean(w, axis=1), F.FullyConnected(x, w, num_hidden=3, no_bias=True)),
        {"w": None},
    ),
    # What does not follow.
    "dot": (lambda F, x, w: F.dot(x, w), {"w": None}),
    "Concat of nothing known": (lambda F, x, w: F.concat(x, w, dim=0), {"w": None}),
    "reshape before": (
        lambda F, x, w: F.FullyConnected(x, w.reshape((-1, 3)), num_hidden=2, no_bias=True),
        {"w": None},
    ),
    "alone": (lambda F, x, w: F.exp(w), {"w": None}),
    "stack": (lambda F, x, w: F.stack(x, w), {"w": None}),
}


def net_of(mx, name, hybridize):
    """The block of a program, initialized with ones."""
    function, shapes = PROGRAMS[name]

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                for key, shape in shapes.items():
                    setattr(self, key, self.params.get(key, shape=shape, allow_deferred_init=True, init="ones"))

        def hybrid_forward(self, F, x, **params):
            return function(F, x, **params)

    net = Net()
    net.initialize()
    net.hybridize(hybridize)
    return net


def deferred(mx):
    """The result, and the shapes of the parameters then; or the error."""
    operators(mx)
    found = {}
    for name, (_, shapes) in PROGRAMS.items():
        for hybridize in (False, True):
            net = net_of(mx, name, hybridize)
            key = f"{name}, {'hybrid' if hybridize else 'eager'}"
            try:
                found[f"{key}, result"] = net(mx.nd.array([[1, 2, 3], [0, 1, 2]])).asnumpy()
                found[key] = {k: list(getattr(net, k).shape) for k in shapes}
            except ValueError as error:
                found[key] = str(error).partition(".")[0]
    return found
