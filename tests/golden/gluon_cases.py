"""What Gluon programs do, written once and run by MXNet (make_gluon.py) and by hybridc (tests/gluon).

Each case is a function of ``mx`` and ``hybridize`` (a function that hybridizes a block, or leaves it) that
returns a dict of arrays, or of values that JSON can hold.
"""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np

CASES = {}


def case(function):
    """Enter a case under its name."""
    CASES[function.__name__] = function
    return function


def random(*shape, seed=0, low=-1.0, high=1.0):
    """The same float32 numbers everywhere."""
    return np.random.RandomState(seed).uniform(low, high, shape).astype(np.float32)


def fill(net, mx, seed=100):
    """Give all parameters, in the order of their names, fixed values."""
    for i, (_, param) in enumerate(sorted(net.collect_params().items())):
        param.set_data(mx.nd.array(random(*param.shape, seed=seed + i)))


def gradients(mx, net, inputs):
    """Outputs, input gradients and parameter gradients of ``sum(net(x) * weights)``."""
    arrays = [mx.nd.array(x) for x in inputs]
    for x in arrays:
        x.attach_grad()
    with mx.autograd.record():
        y = net(*arrays)
        total = (y * mx.nd.array(random(*y.shape, seed=77))).sum()
    total.backward()
    found = {"output": y.asnumpy()}
    for i, x in enumerate(arrays):
        found[f"input{i}.grad"] = x.grad.asnumpy()
    for name, param in net.collect_params().items():
        if param.grad_req != "null":
            found[f"{name}.grad"] = param.grad().asnumpy()
    return found


def layers(mx):
    """Every layer with its input."""
    nn = mx.gluon.nn
    contrib = mx.gluon.contrib.nn
    x = random(4, 6, seed=1)
    x3 = random(2, 3, 5, seed=2)
    yield "dense", nn.Dense(3), x
    yield "dense_relu", nn.Dense(3, activation="relu"), x
    yield "dense_no_bias", nn.Dense(3, use_bias=False, in_units=6), x
    yield "dense_flattens", nn.Dense(4, activation="tanh"), x3
    yield "dense_last_axis", nn.Dense(4, flatten=False, activation="sigmoid"), x3
    yield "dropout_predict", nn.Dropout(0.5), x
    yield "dropout_zero", nn.Dropout(0), x
    for act in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        yield f"activation_{act}", nn.Activation(act), x
    yield "leakyrelu", nn.LeakyReLU(0.2), x
    yield "prelu", nn.PReLU(), x
    yield "prelu_channels", nn.PReLU(in_channels=3), x3
    yield "elu", nn.ELU(0.7), x
    yield "selu", nn.SELU(), x
    yield "gelu", nn.GELU(), x
    yield "swish", nn.Swish(), x
    yield "swish_beta", nn.Swish(beta=2.0), x
    yield "layernorm", nn.LayerNorm(), x3
    yield "layernorm_axis", nn.LayerNorm(axis=1, epsilon=1e-3), x3
    yield "flatten", nn.Flatten(), x3
    yield "lambda", nn.Lambda("tanh"), x
    yield "hybridlambda", nn.HybridLambda(lambda F, x: F.tanh(x) * 2), x
    yield "hybridlambda_name", nn.HybridLambda("square"), x
    yield "identity", contrib.Identity(), x
    concurrent = contrib.HybridConcurrent(axis=1)
    with concurrent.name_scope():
        concurrent.add(nn.Dense(2), contrib.Identity(), nn.Dense(3, activation="relu"))
    yield "hybridconcurrent", concurrent, x
    plain = contrib.Concurrent(axis=1)
    with plain.name_scope():
        plain.add(nn.Dense(2), contrib.Identity())
    yield "concurrent", plain, x


@case
def layer_results(mx, hybridize):
    """Outputs and gradients of all layers with fixed weights."""
    found = {}
    with mx.name.NameManager():
        for name, layer, x in layers(mx):
            layer.initialize()
            hybridize(layer)
            with mx.autograd.predict_mode():
                layer(mx.nd.array(x))
            fill(layer, mx)
            # MXNet's gradient of SELU is wrong: scale * alpha + scale * y instead of scale * alpha + y.
            if name in ("dropout_predict", "selu"):
                found[f"{name}/output"] = layer(mx.nd.array(x)).asnumpy()
                continue
            found.update({f"{name}/{k}": v for k, v in gradients(mx, layer, [x]).items()})
    return found


@case
def batch_norm(mx, hybridize):
    """Results, gradients and running statistics over three steps of training, then prediction."""
    found = {}
    variants = {
        "plain": ({}, (6, 3)),
        "image": ({"momentum": 0.7, "epsilon": 1e-2}, (2, 3, 4, 5)),
        "last_axis": ({"axis": -1}, (4, 2, 3)),
        "no_scale": ({"scale": False}, (5, 3, 2)),
        "no_center": ({"center": False, "in_channels": 3}, (5, 3)),
        "global": ({"use_global_stats": True}, (5, 3)),
    }
    for name, (options, shape) in variants.items():
        net = mx.gluon.nn.BatchNorm(prefix=f"{name}_", **options)
        net.initialize()
        hybridize(net)
        with mx.autograd.predict_mode():
            net(mx.nd.array(random(*shape)))
        net.gamma.set_data(mx.nd.array([0.5, 2, -1] if options.get("scale", True) else [1, 1, 1]))
        net.beta.set_data(mx.nd.array([0.1, -2, 3]))
        net.running_mean.set_data(mx.nd.array([0.3, 0, -1]))
        net.running_var.set_data(mx.nd.array([0.5, 1, 2]))
        for step in range(3):
            found.update({f"{name}/{step}/{k}": v for k, v in gradients(mx, net, [random(*shape, seed=step)]).items()})
            found[f"{name}/{step}/mean"] = net.running_mean.data().asnumpy()
            found[f"{name}/{step}/var"] = net.running_var.data().asnumpy()
        found[f"{name}/predict"] = net(mx.nd.array(random(*shape, seed=9))).asnumpy()
        found[f"{name}/unchanged"] = net.running_mean.data().asnumpy()
    return found


@case
def embedding(mx, hybridize):
    """Rows of the table, and the gradient scattered back."""
    net = mx.gluon.nn.Embedding(7, 4)
    net.initialize()
    hybridize(net)
    net.weight.set_data(mx.nd.array(random(7, 4)))
    with mx.autograd.record():
        y = net(mx.nd.array([[1, 3], [6, 1]]))
        loss = (y * y).sum()
    loss.backward()
    return {"output": y.asnumpy(), "grad": net.weight.grad().asnumpy()}


def losses(mx):
    """Every loss with its inputs; the first ``n`` of them get gradients."""
    loss = mx.gluon.loss
    pred, label = random(4, 5, seed=3), random(4, 5, seed=4)
    sample = random(4, 1, seed=5, low=0.1)
    signs = np.sign(random(4, 5, seed=6)).astype(np.float32)
    classes = np.array([0, 4, 2, 2], dtype=np.float32)
    probabilities = np.abs(random(4, 5, seed=7)) + 0.1
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    unit = np.abs(random(4, 5, seed=8)) * 0.8 + 0.1
    binary = (random(4, 5, seed=9) > 0).astype(np.float32)
    pos_weight = np.abs(random(1, 5, seed=10)) + 0.5
    yield "l1", loss.L1Loss(), [pred, label]
    yield "l1_weighted", loss.L1Loss(weight=0.3), [pred, label, sample]
    yield "l1_other_shape", loss.L1Loss(), [pred, label.reshape(2, 10)]
    yield "l2", loss.L2Loss(), [pred, label]
    yield "l2_batch_axis", loss.L2Loss(batch_axis=1), [pred, label]
    yield "l2_weighted", loss.L2Loss(weight=3.0), [pred, label, sample]
    yield "softmax_ce", loss.SoftmaxCrossEntropyLoss(), [pred, classes]
    yield "softmax_ce_alias", loss.SoftmaxCELoss(weight=2.0), [pred, classes, sample]
    yield "softmax_ce_dense", loss.SoftmaxCrossEntropyLoss(sparse_label=False), [pred, probabilities]
    log_probabilities = np.log(probabilities)
    yield "softmax_ce_logits", loss.SoftmaxCrossEntropyLoss(from_logits=True), [log_probabilities, classes]
    cube, cube_label = random(2, 3, 4, seed=11), np.array([[0, 2, 1, 1], [2, 2, 0, 1]], dtype=np.float32)
    yield "softmax_ce_axis", loss.SoftmaxCrossEntropyLoss(axis=1), [cube, cube_label]
    yield "sigmoid_bce", loss.SigmoidBinaryCrossEntropyLoss(), [pred, binary]
    yield "sigmoid_bce_alias", loss.SigmoidBCELoss(weight=0.5), [pred, binary, sample]
    yield "sigmoid_bce_pos", loss.SigmoidBCELoss(), [pred, binary, sample, pos_weight]
    yield "sigmoid_bce_from", loss.SigmoidBCELoss(from_sigmoid=True), [unit, binary]
    yield "sigmoid_bce_from_pos", loss.SigmoidBCELoss(from_sigmoid=True), [unit, binary, sample, pos_weight]
    yield "kldiv", loss.KLDivLoss(), [log_probabilities, np.roll(probabilities, 1, axis=0)]
    yield "kldiv_unnormalised", loss.KLDivLoss(from_logits=False, weight=2.0), [pred, probabilities, sample]
    yield "huber", loss.HuberLoss(), [pred * 3, label]
    yield "huber_rho", loss.HuberLoss(rho=0.5), [pred, label, sample]
    yield "hinge", loss.HingeLoss(), [pred, signs]
    yield "hinge_margin", loss.HingeLoss(margin=0.5, weight=2.0), [pred, signs, sample]
    yield "squared_hinge", loss.SquaredHingeLoss(), [pred, signs]
    yield "logistic", loss.LogisticLoss(), [pred, signs]
    yield "logistic_binary", loss.LogisticLoss(label_format="binary"), [pred, binary]
    yield "triplet", loss.TripletLoss(margin=0.7), [pred, label, random(4, 5, seed=12)]
    yield "poisson", loss.PoissonNLLLoss(), [pred, probabilities]
    yield "poisson_rate", loss.PoissonNLLLoss(from_logits=False), [unit, probabilities, sample]
    counts = np.array([[1, 2, 3, 4, 5]] * 4, dtype=np.float32)
    yield "poisson_full", loss.PoissonNLLLoss(compute_full=True), [pred, counts]
    ones = np.array([1, -1, 1, -1], dtype=np.float32)
    yield "cosine", loss.CosineEmbeddingLoss(), [pred, label, ones]
    yield "cosine_margin", loss.CosineEmbeddingLoss(margin=0.2, weight=2.0), [pred, label, ones, sample]


@case
def loss_results(mx, hybridize):
    """Values of all losses and gradients of their first input."""
    found = {}
    for name, loss, inputs in losses(mx):
        hybridize(loss)
        arrays = [mx.nd.array(x) for x in inputs]
        if name == "poisson_full":  # MXNet cannot differentiate it
            found[f"{name}/value"] = loss(*arrays).asnumpy()
            continue
        arrays[0].attach_grad()
        with mx.autograd.record():
            value = loss(*arrays)
        value.backward()
        found[f"{name}/value"] = value.asnumpy()
        found[f"{name}/grad"] = arrays[0].grad.asnumpy()
    return found


def mlp(mx):
    """Two layers with fixed weights."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="mlp_")
    with net.name_scope():
        net.add(nn.Dense(8, activation="relu", in_units=5), nn.Dense(3, in_units=8))
    net.initialize()
    fill(net, mx)
    return net


def train(mx, hybridize, optimizer, options, steps=12, batch=None, before=None):
    """The losses of some steps on one batch, and the weights at the end."""
    net = mlp(mx)
    if before is not None:
        before(net)
    hybridize(net)
    x, y = mx.nd.array(random(10, 5, seed=20)), mx.nd.array(np.arange(10) % 3)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, options)
    curve = []
    for _ in range(steps):
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(batch or 10)
        curve.append(float(loss.mean().asscalar()))
    found = {"curve": np.array(curve), "rate": np.array(trainer.learning_rate)}
    return {**found, **{name: p.data().asnumpy() for name, p in net.collect_params().items()}}


@case
def training(mx, hybridize):
    """Loss curves of several optimizers and settings."""
    schedule = mx.lr_scheduler.FactorScheduler(step=4, factor=0.5, base_lr=0.4)

    def first_layer_slow(net):
        net[0].weight.lr_mult = 0.1
        net[1].bias.lr_mult = 0.0

    def no_decay(net):
        net.collect_params(".*bias").setattr("wd_mult", 0.0)

    def frozen(net):
        net[0].collect_params().setattr("grad_req", "null")

    momentum = {"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01}
    runs = {
        "sgd": train(mx, hybridize, "sgd", {"learning_rate": 0.5}),
        "sgd_momentum_wd": train(mx, hybridize, "sgd", momentum),
        "sgd_no_bias_decay": train(mx, hybridize, "sgd", {**momentum, "wd": 0.2}, before=no_decay),
        "sgd_clip": train(mx, hybridize, "sgd", {"learning_rate": 0.5, "clip_gradient": 0.01}),
        "sgd_batch": train(mx, hybridize, "sgd", {"learning_rate": 0.5}, batch=40),
        "sgd_rescale": train(mx, hybridize, "sgd", {"learning_rate": 0.5, "rescale_grad": 3.0}),
        "sgd_schedule": train(mx, hybridize, "sgd", {"lr_scheduler": schedule}),
        "sgd_lr_mult": train(mx, hybridize, "sgd", {"learning_rate": 0.5}, before=first_layer_slow),
        "sgd_frozen": train(mx, hybridize, "sgd", {"learning_rate": 0.5}, before=frozen),
        "adam": train(mx, hybridize, "adam", {"learning_rate": 0.05}),
        "adam_object": train(mx, hybridize, mx.optimizer.Adam(learning_rate=0.02, wd=0.1), None),
    }
    return {f"{run}/{k}": v for run, found in runs.items() for k, v in found.items()}


@case
def trainer_semantics(mx, hybridize):
    """grad_req 'add', stale gradients, changed learning rates, clipping between allreduce and update."""
    net = mlp(mx)
    hybridize(net)
    net.collect_params().setattr("grad_req", "add")
    x, y = mx.nd.array(random(10, 5, seed=20)), mx.nd.array(random(10, 3, seed=21))
    loss_of = mx.gluon.loss.L2Loss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found = {}
    for _ in range(3):
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
    found["added"] = net[0].weight.grad().asnumpy()
    trainer.step(10)
    found["after_add"] = net[0].weight.data().asnumpy()
    try:
        trainer.step(10)
        found["stale"] = "nothing"
    except UserWarning:
        found["stale"] = "UserWarning"
    trainer.step(10, ignore_stale_grad=True)
    found["after_stale"] = net[0].weight.data().asnumpy()
    net.collect_params().zero_grad()
    found["zeroed"] = net[0].weight.grad().asnumpy()
    net.collect_params().setattr("grad_req", "write")
    trainer.set_learning_rate(0.01)
    with mx.autograd.record():
        loss = loss_of(net(x), y)
    loss.backward()
    trainer.allreduce_grads()
    grads = [p.grad() for p in net.collect_params().values()]
    found["norm"] = np.array(mx.gluon.utils.clip_global_norm(grads, 0.5))
    trainer.update(10)
    found["after_clip"] = net[0].weight.data().asnumpy()
    found["rate"] = trainer.learning_rate
    return found


def nested(mx):
    """A network of custom blocks, containers and shared parameters."""
    gluon, nn = mx.gluon, mx.gluon.nn

    class Cell(gluon.HybridBlock):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(units,), init=mx.init.One())
                self.shift = self.params.get_constant("shift", [0.5] * units)
                self.inner = nn.Dense(units, flatten=False)
                self.stack = nn.HybridSequential()
                with self.stack.name_scope():
                    self.stack.add(nn.Dense(units, activation="relu"), nn.LayerNorm(), nn.Dropout(0.3))

        def hybrid_forward(self, F, x, scale, shift):
            return self.stack(F.broadcast_add(F.broadcast_mul(self.inner(x), scale), shift))

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.first = Cell(4)
                self.second = Cell(4)
                self.third = Cell(4, prefix="named_")
                self.tied = nn.Dense(4, params=self.first.inner.params)
                self.outside = nn.Dense(2, prefix="")
            self.unscoped = nn.Dense(2)

        def hybrid_forward(self, F, x):
            return self.unscoped(self.outside(self.tied(self.third(self.second(self.first(x))))))

    return Net()


@case
def names(mx, hybridize):
    """Names, prefixes and texts of blocks and parameters."""
    nn = mx.gluon.nn
    found = {}
    with mx.name.NameManager():
        net = nested(mx)
        net.initialize()
        found["repr before"] = repr(net)
        found["params before"] = repr(net.collect_params())
        hybridize(net)
        net(mx.nd.array(random(2, 4)))
        found["repr"] = repr(net)
        found["params"] = repr(net.collect_params())
        found["own params"] = repr(net.first.params)
        found["keys"] = list(net.collect_params().keys())
        found["structure"] = sorted(net._collect_params_with_prefix())
        found["biases"] = list(net.collect_params(".*bias").keys())
        found["dense"] = list(net.collect_params(".*_dense0_.*|.*scale").keys())
        found["prefixes"] = [net.prefix, net.name, net.first.prefix, net.third.name, net.outside.prefix]
        blocks = [nn.Dense(2), nn.Dense(2, activation="relu"), nn.Sequential(), nn.Dense(2, prefix="mine_")]
        blocks += [
            nn.Activation("tanh"),
            nn.LeakyReLU(0.1),
            nn.PReLU(),
            nn.ELU(),
            nn.SELU(),
            nn.GELU(),
            nn.Swish(),
        ]
        blocks += [
            nn.LayerNorm(),
            nn.Embedding(5, 3),
            nn.Flatten(),
            nn.Dropout(0.2, axes=(1,)),
            nn.Lambda("relu"),
        ]
        blocks += [nn.HybridLambda("relu"), nn.Lambda(lambda x: x), mx.gluon.contrib.nn.HybridConcurrent()]
        blocks += [mx.gluon.loss.L2Loss(), mx.gluon.loss.HuberLoss(weight=0.5), mx.gluon.loss.KLDivLoss()]
        found["reprs"] = [repr(b) for b in blocks]
        found["names"] = [[b.prefix, *b.collect_params().keys()] for b in blocks]
        found["activation"] = blocks[1].act.prefix
        with mx.name.Prefix("outer_"):
            found["prefix scope"] = [nn.Dense(1).prefix, nn.Dense(1).prefix, nn.LayerNorm().prefix]
        stack = nn.HybridSequential()
        with stack.name_scope():
            stack.add(nn.Dense(3, in_units=2), nn.Dense(4), nn.Flatten())
        found["slices"] = [repr(stack[1:]), stack[1:].prefix, repr(stack[0]), repr(stack[-1]), len(stack)]
        stack.register_child(nn.Dense(1), "extra")
        found["registered"] = [repr(stack), *stack.collect_params().keys()]
        param = mx.gluon.Parameter("p", shape=(2, 0), dtype="float16")
        found["parameters"] = [
            repr(param),
            repr(mx.gluon.Constant("c", [[1, 2]])),
            repr(mx.gluon.Parameter("q")),
        ]
        shared = mx.gluon.ParameterDict("pre_", shared=stack.params)
        found["dict"] = [repr(shared), shared.get("w", shape=(2,)).name, shared.prefix]
    return found


@case
def summary(mx, hybridize):
    """The table that summary prints."""
    nn = mx.gluon.nn
    texts = []
    with mx.name.NameManager():
        net = nn.HybridSequential()
        with net.name_scope():
            net.add(nn.Dense(8, activation="relu"), nn.Dropout(0.5), nn.LayerNorm(), nn.Flatten())
            net.add(nn.Dense(8, params=net[0].params, in_units=8), nn.Dense(3))
        net[1:3].initialize()
        net.initialize(force_reinit=True)
        net[2].collect_params().setattr("grad_req", "null")
        for block, x in [(net, random(4, 8)), (nested(mx), random(2, 4))]:
            block.initialize(force_reinit=True)
            block(mx.nd.array(x))  # MXNet lists layers that run to infer shapes twice
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                block.summary(mx.nd.array(x))
            texts.append(out.getvalue())
    return {"texts": texts}


@case
def hooks(mx, hybridize):
    """The order of hooks, and what they get."""
    nn = mx.gluon.nn
    log = []
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3), nn.Dense(1, in_units=2))
    net.initialize()
    pre = net[0].register_forward_pre_hook(lambda b, x: log.append([b.name, "before", len(x), list(x[0].shape)]))
    after = net[1].register_forward_hook(lambda b, x, y: log.append([b.name, "after", len(x), list(y.shape)]))
    outer = net.register_forward_hook(lambda b, x, y: log.append([b.name, "outer", list(x[0].shape), list(y.shape)]))
    x = mx.nd.array(random(4, 3))
    net(x)
    pre.detach()
    net(x)
    with after:
        pass
    net(x)
    outer.detach()
    net(x)
    order = []
    net.apply(lambda b: order.append(b.name))
    return {"log": log, "order": order}


@case
def parameters(mx, hybridize):
    """Life of parameters: initializers, casts, sharing, setting data."""
    nn, gluon = mx.gluon.nn, mx.gluon
    found = {}
    net = nn.Dense(3, weight_initializer=mx.init.Constant(2.0), bias_initializer="ones")
    net.initialize(mx.init.Zero())
    hybridize(net)
    x = mx.nd.array(random(2, 4))
    found["initialised"] = net(x).asnumpy()
    found["shape"] = list(net.weight.shape)
    net.cast("float64")
    found["float64"] = net(x.astype("float64")).asnumpy()
    found["dtype"] = str(net.weight.data().dtype)
    net.cast("float32")
    net.weight.set_data(mx.nd.array(random(3, 4, seed=9)))
    found["set"] = net(x).asnumpy()
    net.initialize(mx.init.One(), force_reinit=True)
    found["again"] = net(x).asnumpy()
    tied = nn.Dense(3, bias_initializer="ones", params=net.params)
    found["tied"] = tied(x).asnumpy()
    late = nn.Dense(2)
    late.initialize()
    late.weight.set_data(mx.nd.array(random(2, 4, seed=10)))
    found["set before"] = late(x).asnumpy()
    constant = gluon.Constant("c", [[1.0, 2.0]])
    constant.initialize()
    found["constant"] = constant.data().asnumpy()
    found["constant.grad_req"] = constant.grad_req
    table = gluon.ParameterDict("t_")
    weight = table.get("weight", shape=(2, 0), allow_deferred_init=True)
    table.get("weight", shape=(0, 5))
    found["merged"] = list(weight.shape)
    table.initialize(mx.init.One())
    found["merged data"] = weight.data().asnumpy()
    weight.grad_req = "null"
    found["grad_req"] = weight.grad_req
    found["context"] = [str(c) for c in weight.list_ctx()]
    return found


@case
def splitting(mx, hybridize):
    """Batches cut into slices."""
    x = mx.nd.array(random(7, 4))
    utils = mx.gluon.utils
    found = {}
    for i, part in enumerate(utils.split_data(x, 3, even_split=False)):
        found[f"uneven{i}"] = part.asnumpy()
    for i, part in enumerate(utils.split_data(x, 2, batch_axis=1)):
        found[f"axis{i}"] = part.asnumpy()
    for i, part in enumerate(utils.split_and_load(random(4, 2), [mx.cpu(0), mx.cpu(1)])):
        found[f"load{i}"] = part.asnumpy()
    return found


def kind(error):
    """The built-in exceptions that an error is, one of MXNet's: ``ValueError|RuntimeError``."""
    kinds = (AssertionError, TypeError, KeyError, ValueError, UserWarning, AttributeError, RuntimeError)
    return "|".join(k.__name__ for k in kinds if isinstance(error, k)) or type(error).__name__


@case
def errors(mx, hybridize):
    """Which exception wrong use raises."""
    gluon, nn = mx.gluon, mx.gluon.nn
    dense = nn.Dense(3)
    ready = nn.Dense(3, in_units=2)
    ready.initialize()
    deferred = nn.Dense(3)
    deferred.initialize()
    block = nested(mx)
    active = nn.HybridSequential()
    active.add(nn.Dense(2))
    active.initialize()
    active.hybridize()
    table = gluon.ParameterDict("e_")
    table.get("w", shape=(2, 3))
    table.get_constant("c", [1.0, 2.0])
    other = gluon.ParameterDict("")
    other.update({"e_w": gluon.Parameter("e_w")})
    wrong = {
        "uninitialised data": lambda: dense.weight.data(),
        "uninitialised call": lambda: dense(mx.nd.ones((2, 2))),
        "deferred data": lambda: deferred.weight.data(),
        "deferred list_data": lambda: deferred.weight.list_data(),
        "no gradient": lambda: (setattr(ready.bias, "grad_req", "null"), ready.bias.grad()),
        "grad_req": lambda: gluon.Parameter("p", grad_req="maybe"),
        "unknown shape": lambda: gluon.Parameter("p", shape=(2, 0)).initialize(),
        "incompatible shape": lambda: setattr(ready.weight, "shape", (4, 4)),
        "attribute type": lambda: setattr(block, "first", 3),
        "attribute block type": lambda: setattr(block, "first", nn.Flatten()),
        "parameter again": lambda: setattr(block.first, "scale", gluon.Parameter("z")),
        "plain child": lambda: nn.HybridSequential().add(nn.Sequential()),
        "summary of hybridized": lambda: active.summary(mx.nd.ones((2, 2))),
        "numpy input": lambda: ready(np.ones((2, 2))),
        "wrong width": lambda: ready(mx.nd.ones((2, 5))).asnumpy(),
        "trainer params": lambda: gluon.Trainer(3, "sgd"),
        "trainer list": lambda: gluon.Trainer([3], "sgd"),
        "trainer options": lambda: gluon.Trainer(ready.collect_params(), mx.optimizer.SGD(), {"wd": 1}),
        "trainer uninitialised": lambda: gluon.Trainer(nn.Dense(2, in_units=1).collect_params(), "sgd"),
        "trainer deferred": lambda: gluon.Trainer(deferred.collect_params(), "sgd").step(1),
        "stale": lambda: gluon.Trainer(ready.collect_params(), "sgd").step(1),
        "optimizer name": lambda: gluon.Trainer(ready.collect_params(), "nonesuch"),
        "dict mismatch": lambda: table.get("w", shape=(2, 4)),
        "dict dtype": lambda: table.get("w", dtype="float64"),
        "constant missing": lambda: table.get_constant("none"),
        "constant differs": lambda: table.get_constant("c", np.array([1.0, 3.0], dtype=np.float32)),
        "update conflict": lambda: table.update(other),
        "leaky slope": lambda: nn.LeakyReLU(-1),
        "lambda name": lambda: nn.Lambda("no_such_operator"),
        "lambda kind": lambda: nn.Lambda(3),
        "logistic format": lambda: gluon.loss.LogisticLoss(label_format="x"),
        "split": lambda: gluon.utils.split_data(mx.nd.ones((3, 2)), 2),
        "set_data": lambda: gluon.Parameter("p", shape=(2,)).set_data(mx.nd.ones((2,))),
        "no forward": lambda: gluon.loss.L1Loss()(mx.nd.ones((2,))),
        "missing file": lambda: ready.load_parameters("/nonexistent/file.params"),
    }
    found = {}
    for name, action in wrong.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                action()
                found[name] = "nothing"
            except Exception as error:
                found[name] = kind(error)
    return found
