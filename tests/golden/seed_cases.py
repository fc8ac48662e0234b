"""What is computed with the tutorials' code in ``tests/seeds``, by MXNet for the golden file and by hybridc.

A case is a function of ``(mx, load, fixed, hybrid)``: ``load(name)`` runs a file of ``tests/seeds`` and
returns its names, ``fixed(name, shape, low, high)`` gives the stored values of an input or weight. It
returns named results.
"""

import pathlib

SEEDS = pathlib.Path(__file__).resolve().parent.parent / "seeds"


def load_seed(name, package):
    """Run a seed with ``hybridc`` replaced by the package's name."""
    path = SEEDS / f"{name}.py"
    source = path.read_text().replace("hybridc", package)
    if package == "mxnet":  # MXNet's Constant fails on the list that its own tutorial gives it
        source = source.replace("scales.asnumpy().tolist()", "float(scales.asnumpy()[0])")
    namespace = {"__name__": f"seed_{name}"}
    exec(compile(source, str(path), "exec"), namespace)
    return namespace


def block(mx, function, hybrid):
    """A function of (F, *inputs) as a block."""

    class Function(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *xs):
            return function(F, *xs)

    made = Function()
    if hybrid:
        made.hybridize()
    return made


def set_weights(net, fixed, x):
    """Run once for the shapes, then give every parameter its stored values; the parameters by name."""
    net(x)
    params = {}
    for name, p in net.collect_params().items():
        short = name.split("_", 1)[1] if name.count("_") > 1 else name.rsplit("_", 1)[1]
        params[short] = p
        if "scales" not in short:
            p.set_data(fixed(short, p.shape))
    return params


def sigmoid(mx, load, fixed, hybrid):
    load("sigmoid")
    x = fixed("x", (3, 4), -5, 5)
    x.attach_grad()
    net = block(mx, lambda F, x: F.Custom(x, op_type="sigmoid"), hybrid)
    with mx.autograd.record():
        y = net(x)
    y.backward(fixed("dy", (3, 4)))
    return {"y": y, "dx": x.grad}


def dense(mx, load, fixed, hybrid):
    seed = load("dense_corrected")
    net = seed["DenseBlock"](3, 5, 0.1)
    net.initialize()
    x = fixed("x", (4, 3))
    params = set_weights(net, fixed, x)
    if hybrid:
        net.hybridize()
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward(fixed("dy", (4, 5)))
    return {"y": y, "dx": x.grad, "dw": params["weight"].grad()}


def dense_as_written(mx, load, fixed, hybrid):
    seed = load("dense")
    net = seed["dense"]
    x = fixed("x", (4, 3))
    set_weights(net, fixed, x)
    return {"y": net(x)}


def normalization_layer(mx, load, fixed, hybrid):
    seed = load("normalization_layer")
    x = fixed("x", (4, 6), -10, 10)
    x.attach_grad()
    with mx.autograd.record():
        y = seed["layer"](x)
    y.backward(fixed("dy", (4, 6)))
    return {"y": y, "dx": x.grad, "y123": seed["layer"](mx.nd.array([1, 2, 3]))}


def normalization_hybrid(mx, load, fixed, hybrid):
    seed = load("normalization_hybrid")
    layer = seed["NormalizationHybridLayer"]()
    net = seed["net"]
    net.hybridize(hybrid)
    if hybrid:
        layer.hybridize()
    x = fixed("x", (5, 2), -10, 10)
    params = set_weights(net, fixed, x)
    v = fixed("v", (4, 6), -10, 10)
    v.attach_grad()
    with mx.autograd.record():
        y = net(x)
        z = layer(v)
        head = (z * fixed("dz", (4, 6))).sum() + y.sum()
    head.backward()
    grads = {f"grad_{name}": p.grad() for name, p in params.items()}
    return {"y": y, "z": z, "dv": v.grad, "y123": layer(mx.nd.array([1, 2, 3])), **grads}


def normalization_parameters(mx, load, fixed, hybrid):
    seed = load("normalization_parameters")
    net = seed["net"]
    net.hybridize(hybrid)
    x, label = fixed("x", (5, 2), -10, 10), fixed("label", (5, 1))
    params = set_weights(net, fixed, x)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    results = {}
    for step in range(3):
        with mx.autograd.record():
            y = net(x)
            loss = seed["mse_loss"](y, label)
        loss.backward()
        trainer.step(x.shape[0])
        results[f"y{step}"], results[f"loss{step}"] = y, loss
    return {**results, **{f"param_{name}": p.data() for name, p in params.items()}}


def softmax(mx, load, fixed, hybrid):
    load("softmax")
    net = mx.gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.Dense(3))
    net.initialize()
    x, label = fixed("x", (6, 4)), mx.nd.array([0, 1, 2, 0, 1, 2])
    params = set_weights(net, fixed, x)
    head = block(mx, lambda F, x, y: F.Custom(x, y, name="softmax", op_type="softmax"), hybrid)
    if hybrid:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    results = {}
    for step in range(3):
        with mx.autograd.record():
            y = head(net(x), label)
        y.backward()
        trainer.step(6)
        results[f"y{step}"] = y
    return {**results, **{f"param_{name}": p.data() for name, p in params.items()}}


CASES = {
    "sigmoid": sigmoid,
    "dense": dense,
    "dense_as_written": dense_as_written,
    "normalization_layer": normalization_layer,
    "normalization_hybrid": normalization_hybrid,
    "normalization_parameters": normalization_parameters,
    "softmax": softmax,
}
EAGER_ONLY = ("dense_as_written", "normalization_layer")  # these use Block, not HybridBlock
