"""Programs with mx.mod, mx.model, mx.kv, mx.mon and mx.io, run by MXNet (make_module.py) and by hybridc (tests/module).

A case is a function of ``mx`` and a folder that returns a dict of arrays, or of values that JSON can hold.
"""

from __future__ import annotations

import logging
import re
import warnings

import numpy as np
from image_cases import box_label, image_records

CASES = {}
ALIVE = []  # MXNet's iterators of files: it dies if they are deleted while they read ahead


def case(function):
    """Enter a program under its name; names of nodes count from 0 in each."""

    def run(mx, folder):
        with mx.name.NameManager(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.random.seed(3)
            return function(mx, folder)

    CASES[function.__name__] = run
    return function


class Logged(logging.Handler):
    """The lines that are logged meanwhile, without times and speeds."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        line = re.sub(r"(cost=|Speed: )[\d.]+", r"\1…", record.getMessage())
        self.lines.append(re.sub(r'"[^"]*/', '"', line))

    def __enter__(self):
        root = logging.getLogger()
        self.level = root.level
        root.setLevel(logging.INFO)
        root.addHandler(self)
        return self.lines

    def __exit__(self, *error):
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self.level)


def numbers(shape, seed):
    """Numbers of a normal distribution, the same everywhere."""
    return np.random.RandomState(seed).normal(0, 0.5, shape).astype(np.float32)


def blobs(count=50, size=8, classes=3):
    """Samples and their classes."""
    data = numbers((count, size), 1)
    return data, (data @ numbers((size, classes), 2)).argmax(1).astype(np.float32)


def mlp(mx, norm=False):
    """The network of MXNet's first tutorial, smaller."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), name="fc1", num_hidden=7)
    if norm:
        net = mx.sym.BatchNorm(net, name="bn1", fix_gamma=False)
    net = mx.sym.Activation(net, name="relu1", act_type="relu")
    net = mx.sym.FullyConnected(net, name="fc2", num_hidden=3)
    return mx.sym.SoftmaxOutput(net, name="softmax")


def values_for(mx, symbol, **shapes):
    """Values of all parameters and auxiliary states."""
    arguments, _, states = symbol.infer_shape(**shapes)
    named = [*zip(symbol.list_arguments(), arguments), *zip(symbol.list_auxiliary_states(), states)]
    made = {name: numbers(shape, 10 + i) for i, (name, shape) in enumerate(named) if name not in shapes}
    return {name: mx.nd.array(abs(x) + 0.5 if name.endswith(("gamma", "var")) else x) for name, x in made.items()}


def split(symbol, values):
    """Arguments and auxiliary states."""
    states = set(symbol.list_auxiliary_states())
    return {k: v for k, v in values.items() if k not in states}, {k: v for k, v in values.items() if k in states}


def arrays(prefix, params):
    """The arrays of get_params."""
    return {f"{prefix}{name}": x.asnumpy() for found in params for name, x in found.items()}


def start(mx, symbol, **options):
    """A module with fixed parameters, and its data."""
    data, label = blobs()
    train = mx.io.NDArrayIter(data, label, 10)
    module = mx.mod.Module(symbol, **options)
    module.bind(train.provide_data, train.provide_label)
    module.init_params(None, *split(symbol, values_for(mx, symbol, data=(10, 8), softmax_label=(10,))))
    return module, train


# --- Module ----------------------------------------------------------------------------------------------------


@case
def fit(mx, folder):
    """MNIST's program: fit with callbacks, checkpoints, score, predict."""
    data, label = blobs()
    train = mx.io.NDArrayIter(data[:40], label[:40], 10)
    test = mx.io.NDArrayIter(data[40:], label[40:], 4)
    symbol = mlp(mx, norm=True)
    arguments, states = split(symbol, values_for(mx, symbol, data=(10, 8), softmax_label=(10,)))
    module = mx.mod.Module(symbol, context=mx.cpu())
    seen = []
    with Logged() as lines:
        module.fit(
            train,
            eval_data=test,
            optimizer="sgd",
            optimizer_params={"learning_rate": 0.5, "momentum": 0.9, "wd": 0.01},
            arg_params=arguments,
            aux_params=states,
            eval_metric=["acc", "ce"],
            num_epoch=3,
            batch_end_callback=[mx.callback.Speedometer(10, 2), mx.callback.log_train_metric(3)],
            eval_end_callback=mx.callback.LogValidationMetricsCallback(),
            eval_batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]),
            epoch_end_callback=[
                mx.callback.do_checkpoint(str(folder / "net"), 2),
                mx.callback.module_checkpoint(module, str(folder / "mod"), save_optimizer_states=True),
            ],
        )
    score = dict(module.score(test, ["acc", "ce"]))
    files = sorted(path.name for path in folder.iterdir())
    predicted = module.predict(test)
    some = module.predict(test, num_batch=2, always_output_list=True)
    apart = module.predict(test, merge_batches=False)
    one = [[i, batch.pad, [list(x.shape) for x in out]] for out, i, batch in module.iter_predict(test)]
    symbol, arguments, states = mx.model.load_checkpoint(str(folder / "net"), 2)
    return {
        **arrays("", module.get_params()),
        **arrays("saved_", (arguments, states)),
        "lines": lines,
        "seen": seen,
        "files": files,
        "score": {k: round(float(v), 5) for k, v in score.items()},
        "predicted": predicted.asnumpy(),
        "some": some[0].asnumpy(),
        "apart": [[list(x.shape) for x in row] for row in apart],
        "one": one,
        "names": [module.data_names, module.label_names, module.output_names],
        "shapes": [[list(map(str, x[:2])) for x in s] for s in (module.data_shapes, module.label_shapes)],
        "outputs": [[name, list(shape)] for name, shape in module.output_shapes],
    }


@case
def resume(mx, folder):
    """Training goes on from a checkpoint with the optimizer's states, as without a break."""
    module, train = start(mx, mlp(mx))
    options = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.05}}
    module.fit(train, num_epoch=1, **options)
    module.save_checkpoint(str(folder / "net"), 1, save_optimizer_states=True)
    module.fit(train, num_epoch=2, begin_epoch=1, **options)
    again = mx.mod.Module.load(str(folder / "net"), 1, True)
    train.reset()
    again.fit(train, num_epoch=2, begin_epoch=1, **options)
    module.save_params(str(folder / "p"))
    third = mx.mod.Module(mlp(mx))
    third.bind(train.provide_data, train.provide_label, for_training=False)
    third.load_params(str(folder / "p"))
    return {
        **arrays("", module.get_params()),
        **arrays("again_", again.get_params()),
        **arrays("third_", third.get_params()),
    }


@case
def steps(mx, folder):
    """Forward, backward and update by hand; gradients of inputs; batches of other sizes."""
    module, train = start(mx, mlp(mx))
    module.bind(train.provide_data, train.provide_label, inputs_need_grad=True, force_rebind=True)
    module.init_optimizer(optimizer="nag", optimizer_params=(("learning_rate", 0.2), ("momentum", 0.5)))
    made = {}
    for i, (rows, training) in enumerate([(10, True), (4, True), (10, None), (3, False), (4, True)]):
        batch = mx.io.DataBatch([mx.nd.array(numbers((rows, 8), 30 + i))], [mx.nd.array(np.arange(rows) % 3)])
        module.forward(batch, is_train=training)
        made[f"output{i}"] = module.get_outputs()[0].asnumpy()
        if training is not False:
            module.backward()
            made[f"grad{i}"] = module.get_input_grads()[0].asnumpy()
            module.update()
    return {**made, **arrays("", module.get_params())}


@case
def heads(mx, folder):
    """Gradients of outputs that are no losses; grad_req 'add'; fixed parameters."""
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), name="fc1", num_hidden=3)
    symbol = mx.sym.Group([mx.sym.FullyConnected(symbol, name="fc2", num_hidden=2), symbol * 2])
    module = mx.mod.Module(symbol, label_names=None, fixed_param_names=["fc1_bias"])
    module.bind([("data", (4, 5))], inputs_need_grad=True, grad_req="add")
    module.init_params(None, values_for(mx, symbol, data=(4, 5)), {})
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    batch = mx.io.DataBatch([mx.nd.array(numbers((4, 5), 1))])
    for i in range(2):
        module.forward(batch)
        module.backward([mx.nd.array(numbers((4, 2), 4 + i)), mx.nd.array(numbers((4, 3), 6 + i))])
    made = {"grad": module.get_input_grads()[0].asnumpy()}
    module.update()
    return {**made, **arrays("", module.get_params()), "outputs": [list(x.shape) for x in module.get_outputs()]}


@case
def states(mx, folder):
    """Arguments that keep their values from batch to batch."""
    data, state = mx.sym.Variable("data"), mx.sym.Variable("state", shape=(4, 5))
    symbol = mx.sym.Group([mx.sym.FullyConnected(data + state, name="fc", num_hidden=2), state + data])
    module = mx.mod.Module(symbol, label_names=None, state_names=["state"])
    module.bind([("data", (4, 5))], for_training=False)
    module.init_params(None, {k: v for k, v in values_for(mx, symbol, data=(4, 5)).items() if k != "state"}, {})
    made = {"first": module.get_states(merge_multi_context=False)[0][0].asnumpy()}
    for i in range(3):
        module.forward(mx.io.DataBatch([mx.nd.array(numbers((4, 5), i))]))
        outputs = module.get_outputs(merge_multi_context=False)
        made[f"output{i}"] = outputs[0][0].asnumpy()
        module.set_states(states=[outputs[1]])
    module.set_states(value=1.5)
    made["last"] = module.get_states(merge_multi_context=False)[0][0].asnumpy()
    return made


def _devices(mx, kvstore, workload=None, optimizer="sgd"):
    symbol = mlp(mx, norm=optimizer == "sgd")
    contexts = [mx.cpu(0), mx.cpu(1)]
    module, train = start(mx, symbol, context=contexts, work_load_list=workload)
    metric = mx.metric.create("ce")
    options = {"learning_rate": 0.3} | ({"momentum": 0.9} if optimizer == "sgd" else {})
    module.fit(train, num_epoch=2, kvstore=kvstore, optimizer=optimizer, optimizer_params=options, eval_metric=metric)
    apart = module.get_outputs(merge_multi_context=False)
    return {
        **arrays("", module.get_params()),
        "output": module.get_outputs()[0].asnumpy(),
        "apart": [[list(x.shape) for x in row] for row in apart],
        "metric": round(float(metric.get()[1]), 4),
    }


@case
def two_devices(mx, folder):
    """Two devices share batches; the store updates."""
    return _devices(mx, "local")


@case
def two_devices_uneven(mx, folder):
    """Work loads; the devices update."""
    return _devices(mx, None, [1, 4])


@case
def two_devices_adam(mx, folder):
    """A store of type device."""
    return _devices(mx, mx.kv.create("device"), optimizer="adam")


@case
def data_types(mx, folder):
    """Data of another type and layout; several inputs and labels by name."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    both = mx.sym.FullyConnected(mx.sym.concat(a, b, dim=1), num_hidden=3, name="fc")
    symbol = mx.sym.Group(
        [mx.sym.SoftmaxOutput(both, name="x"), mx.sym.LinearRegressionOutput(mx.sym.sum(both, axis=1), name="y")]
    )
    data = {"b": numbers((12, 3), 1), "a": numbers((12, 2), 2)}
    label = {"y_label": numbers((12,), 3), "x_label": np.arange(12) % 3}
    train = mx.io.NDArrayIter(data, label, 5)
    module = mx.mod.Module(symbol, data_names=["a", "b"], label_names=["x_label", "y_label"])
    module.bind(train.provide_data, train.provide_label)
    shapes = {"a": (5, 2), "b": (5, 3), "x_label": (5,), "y_label": (5,)}
    module.init_params(None, values_for(mx, symbol, **shapes), {})
    metric = mx.metric.CompositeEvalMetric(
        [
            mx.metric.Accuracy(output_names=["x_output"], label_names=["x_label"]),
            mx.metric.MSE(output_names=["y_output"], label_names=["y_label"]),
        ]
    )
    with Logged() as lines:
        module.fit(train, num_epoch=2, eval_metric=metric, optimizer_params={"learning_rate": 0.1})
    return {**arrays("", module.get_params()), "lines": lines}


@case
def multipliers(mx, folder):
    """Learning rates and weight decays of parameters, from attributes of the symbol."""
    weight = mx.sym.Variable("w", lr_mult=0.1, wd_mult=2.0)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), weight=weight, name="fc", num_hidden=3)
    module, train = start(mx, mx.sym.SoftmaxOutput(net, name="softmax"))
    module.fit(train, num_epoch=1, optimizer_params={"learning_rate": 0.5, "wd": 0.1})
    return arrays("", module.get_params())


# --- other modules ---------------------------------------------------------------------------------------------


class Batches:
    """Batches of sentences in a fixed order."""

    def __init__(self, mx, lengths, size=4):
        self.mx, self.batch_size, self.default_bucket_key, self.batches = mx, size, max(lengths), []
        for i, length in enumerate(lengths):
            words = np.random.RandomState(i).randint(0, 9, (size, length + 1)).astype(np.float32)
            self.batches.append(
                mx.io.DataBatch(
                    [mx.nd.array(words[:, :-1])],
                    [mx.nd.array(words[:, 1:])],
                    pad=0,
                    bucket_key=length,
                    provide_data=self.shapes("data", length),
                    provide_label=self.shapes("softmax_label", length),
                )
            )
        self.provide_data = self.shapes("data", self.default_bucket_key)
        self.provide_label = self.shapes("softmax_label", self.default_bucket_key)

    def shapes(self, name, length):
        return [self.mx.io.DataDesc(name, (self.batch_size, length), layout="NT")]

    def __iter__(self):
        return iter(self.batches)

    def reset(self):
        pass


def language_model(mx):
    """The function that makes the symbol of a length: an embedding, an LSTM, a softmax for each word."""

    def sym_gen(length):
        cell = mx.rnn.SequentialRNNCell()
        cell.add(mx.rnn.LSTMCell(num_hidden=5, prefix="lstm_l0_"))
        data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
        embedded = mx.sym.Embedding(data, input_dim=9, output_dim=4, name="embed")
        outputs, _ = cell.unroll(length, inputs=embedded, merge_outputs=True)
        scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 5)), num_hidden=9, name="pred")
        return (
            mx.sym.SoftmaxOutput(scores, mx.sym.Reshape(label, shape=(-1,)), name="softmax"),
            ("data",),
            ("softmax_label",),
        )

    return sym_gen


@case
def buckets(mx, folder):
    """A BucketingModule on sentences of several lengths; its checkpoint."""
    train = Batches(mx, [2, 1, 2, 1])
    module = mx.mod.BucketingModule(language_model(mx), default_bucket_key=2, context=mx.cpu())
    symbol = language_model(mx)(2)[0]
    values = values_for(mx, symbol, data=(4, 2), softmax_label=(4, 2))
    begin = {k: v for k, v in values.items() if "begin_state" not in k}
    metric = mx.metric.Perplexity(None)
    with Logged() as lines:
        module.fit(
            train,
            eval_metric=metric,
            arg_params=begin,
            aux_params={},
            allow_missing=True,
            initializer=mx.init.Zero(),
            optimizer="sgd",
            optimizer_params={"learning_rate": 0.5, "momentum": 0.5},
            num_epoch=3,
        )
    lines = [re.sub(r"(\.\d\d\d)\d+", r"\1", line) for line in lines]
    score = module.score(train, mx.metric.Perplexity(None))[0][1]
    module.save_checkpoint(str(folder / "lm"), 3)
    files = sorted(path.name for path in folder.iterdir())
    loaded = mx.mod.BucketingModule.load(str(folder / "lm"), 3, language_model(mx), 2)
    loaded.bind(train.provide_data, train.provide_label, for_training=False)
    again = loaded.score(train, mx.metric.Perplexity(None))[0][1]
    return {
        **arrays("", module.get_params()),
        "lines": lines,
        "files": files,
        "score": np.array([score, again], np.float32),
        "names": [list(module.data_names), list(module.output_names)],
    }


@case
def sentences(mx, folder):
    """BucketSentenceIter feeds a BucketingModule."""
    train = mx.rnn.BucketSentenceIter([[1, 2]] * 4 + [[4]] * 4, 4, buckets=[1, 2], invalid_label=0)
    module = mx.mod.BucketingModule(language_model(mx), default_bucket_key=train.default_bucket_key)
    module.bind(train.provide_data, train.provide_label)
    symbol = language_model(mx)(2)[0]
    module.init_params(mx.init.Zero(), values_for(mx, symbol, data=(4, 2), softmax_label=(4, 2)), {}, True)
    module.init_optimizer(optimizer_params={"learning_rate": 0.3})
    for batch in sorted(train, key=lambda batch: batch.bucket_key):
        module.forward_backward(batch)
        module.update()
    return arrays("", module.get_params())


@case
def sequential(mx, folder):
    """A chain of modules with a loss in Python."""
    first = mx.sym.FullyConnected(mx.sym.Variable("data"), name="fc1", num_hidden=7)
    first = mx.sym.Activation(first, act_type="tanh")
    second = mx.sym.FullyConnected(mx.sym.Variable("hidden"), name="fc2", num_hidden=3)
    values = {**values_for(mx, first, data=(10, 8)), **values_for(mx, second, hidden=(10, 7))}

    def gradient(scores, labels):
        e = np.exp(scores.asnumpy() - scores.asnumpy().max(1, keepdims=True))
        return e / e.sum(1, keepdims=True) - np.eye(3)[labels.asnumpy().astype(int)]

    chain = mx.mod.SequentialModule()
    chain.add(mx.mod.Module(first, label_names=None)).add(
        mx.mod.Module(second, data_names=["hidden"], label_names=None), auto_wiring=True
    ).add(mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True)
    data, label = blobs()
    train = mx.io.NDArrayIter(data, label, 10)
    with Logged() as lines:
        chain.fit(
            train,
            eval_data=train,
            arg_params=values,
            aux_params={},
            allow_missing=True,
            optimizer_params={"learning_rate": 0.5},
            num_epoch=2,
        )
    return {
        **arrays("", chain.get_params()),
        "lines": lines,
        "names": [chain.data_names, chain.output_names],
        "outputs": [[name, list(shape)] for name, shape in chain.output_shapes],
        "predicted": chain.predict(train).asnumpy(),
    }


@case
def feed_forward(mx, folder):
    """MXNet's first interface: fit on arrays and iterators, predict, score, files."""
    data, label = blobs()
    symbol = mlp(mx)
    values = values_for(mx, symbol, data=(10, 8), softmax_label=(10,))
    train = mx.io.NDArrayIter(data, label, 10)
    seen = []
    model = mx.model.FeedForward(
        symbol, num_epoch=3, epoch_size=4, learning_rate=0.3, momentum=0.9, arg_params=values, aux_params={}
    )
    with Logged() as lines:
        model.fit(
            train,
            eval_data=mx.io.NDArrayIter(data, label, 10),
            batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]),
            epoch_end_callback=mx.callback.do_checkpoint(str(folder / "net")),
        )
    predicted = model.predict(data)
    predicted2, data2, label2 = model.predict(train, num_batch=2, return_data=True)
    model.save(str(folder / "last"), 7)
    loaded = mx.model.FeedForward.load(str(folder / "last"), 7, num_epoch=8, numpy_batch_size=10, learning_rate=0.1)
    again = loaded.predict(data[:5])
    loaded.fit(data[:10], label[:10].reshape(-1, 1))
    return {
        **arrays("", (model.arg_params, model.aux_params)),
        **arrays("loaded_", (loaded.arg_params, loaded.aux_params)),
        "lines": lines,
        "seen": seen,
        "predicted": predicted,
        "predicted2": predicted2,
        "data2": data2,
        "label2": label2,
        "again": again,
        "score": round(float(model.score(train)), 5),
        "files": sorted(path.name for path in folder.iterdir()),
    }


# --- stores ----------------------------------------------------------------------------------------------------


@case
def stores(mx, folder):
    """Sums, updates and copies of key-value stores."""
    a = mx.nd.array(numbers((2, 3), 1))
    out, other = mx.nd.zeros((2, 3)), mx.nd.zeros((2, 3), dtype="float16")
    made, values = {}, {}

    def kept(name, *arrays):
        made.update({f"{name}{i}": x.asnumpy() for i, x in enumerate(arrays)})

    store = mx.kv.create("local")
    store.init(3, a)
    store.pull(3, out=[out, other])
    kept("init", out, other)
    store.push(3, [a, a * 2, a * 3])
    store.pull(3, out)
    kept("sum", out)
    store.init([5, 7], [a, a * 2])
    store.push([5, 7, 5], [[a, a], [a], a])
    store.pull([5, 7], out=[out, other])
    kept("keys", out, other)
    pair = [a * 1, a * 2]
    store.pushpull(3, pair)
    kept("pushpull", *pair)
    store = mx.kv.create("DEVICE")
    store.broadcast("w", a, out=[out, other])
    kept("broadcast", out, other)
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9, wd=0.1))
    store.push("w", [a, a])
    store.save_optimizer_states(str(folder / "s"))
    store.pushpull("w", a, out=out)
    kept("updated", out)
    store.load_optimizer_states(str(folder / "s"))
    store.pushpull("w", a, out=out)
    kept("loaded", out)
    values["device"] = [store.type, store.rank, store.num_workers, store.is_capable("optimizer")]
    store = mx.kv.create()
    store.init(1, a)
    store._set_updater(lambda key, given, stored: stored.__iadd__(given * key * 2))
    store.push(1, [a, a])
    store.pull(1, out)
    kept("updater", out)
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init(1, a)
    for i in range(4):
        store.push(1, [a, a * 2])
        store.pull(1, out)
        kept(f"compressed{i}", out)
    store = mx.kv.create("teststore")
    store.broadcast(1, a, out)
    pair = [a * 1, a * 2]
    store.pushpull(1, pair)
    kept("teststore", out, *pair)
    return {**made, **values}


# --- monitors --------------------------------------------------------------------------------------------------


@case
def monitors(mx, folder):
    """Statistics of outputs and arguments; those of gradients inside the graph are MXNet's alone."""
    module, train = start(mx, mlp(mx))
    monitor = mx.mon.Monitor(2, pattern=r"fc\d_(output|weight)|softmax_output", sort=True)
    module.install_monitor(monitor)
    module.init_optimizer()
    rows = []
    for i, batch in enumerate(train):
        monitor.tic()
        module.forward_backward(batch)
        module.update()
        rows += [[i, step, name, [round(float(x), 4) for x in text.split()]] for step, name, text in monitor.toc()]
    maximum = mx.mon.Monitor(1, lambda x: [x.max().reshape((1,)), x.reshape((-1,))[:2]], "fc1_weight")
    maximum.exes.append(module._exec_group.execs[0])
    maximum.tic()
    [(step, name, text)] = maximum.toc()
    return {"rows": rows, "maximum": [step, name, text.count("\t")]}


# --- iterators -------------------------------------------------------------------------------------------------


def epochs(iterator, count=3):
    """The descriptions, and all arrays, pads and numbers of some epochs."""
    ALIVE.append(iterator)
    made = {"shapes": [[[x.name, list(x.shape), np.dtype(x.dtype).name] for x in s] for s in _described(iterator)]}
    pads = []
    for epoch in range(count):
        for i, batch in enumerate(iterator):
            for kind in ("data", "label"):
                for k, x in enumerate(getattr(batch, kind)):
                    made[f"{kind}{epoch}_{i}_{k}"] = x.asnumpy()
            pads.append([batch.pad, None if batch.index is None else [int(x) for x in batch.index]])
        iterator.reset()
    return {**made, "pads": pads}


def _described(iterator):
    return iterator.provide_data, iterator.provide_label


def under(prefix, made):
    """Entries under a longer name."""
    return {f"{prefix} {key}": value for key, value in made.items()}


@case
def array_iterators(mx, folder):
    made = {}
    data, label = numbers((7, 2, 3), 1), np.arange(7)
    kinds = {
        "array": (data, label),
        "list": ([data, data[:, 0]], None),
        "dict": ({"b": data, "a": data[:, 1] * 2}, {"l": label, "m": label * 2.5}),
        "nd": (mx.nd.array(data), mx.nd.array(label)),
    }
    for handle in ("pad", "discard", "roll_over"):
        for kind, (x, y) in kinds.items():
            np.random.seed(5)
            iterator = mx.io.NDArrayIter(x, y, 3, shuffle=kind == "dict", last_batch_handle=handle)
            made.update(under(f"{handle} {kind}", epochs(iterator)))
    made.update(under("large", epochs(mx.io.NDArrayIter(data, label, 17), 1)))
    made.update(under("tnc", epochs(mx.io.NDArrayIter(numbers((4, 4, 3), 2), None, 2, layout="TNC"), 1)))
    iterator = mx.io.NDArrayIter(data, label, 3, last_batch_handle="roll_over", data_name="x", label_name="y")
    next(iterator)
    iterator.hard_reset()
    made.update(under("hard", epochs(iterator)))
    iterator.reset()
    iterator.iter_next()
    made["by hand"] = iterator.getdata()[0].asnumpy()
    made["pad by hand"] = [iterator.getpad(), iterator.getindex()]
    resized = mx.io.ResizeIter(mx.io.NDArrayIter(data, label, 3), 4)
    made.update(under("resized", epochs(resized, 2)))
    both = [mx.io.NDArrayIter(data, label, 3), mx.io.NDArrayIter(data * 2, label, 3)]
    ahead = mx.io.PrefetchingIter(
        both, [{"data": "a"}, {"data": "b"}], [{"softmax_label": "c"}, {"softmax_label": "d"}]
    )
    made.update(under("ahead", epochs(ahead, 2)))
    return made


@case
def file_iterators(mx, folder):
    made = {}
    table = np.arange(30).reshape(5, 6)
    (folder / "d.csv").write_text("\n".join(",".join(map(str, row)) for row in table) + "\n")
    (folder / "l.csv").write_text("\n".join(f"{i},{i + 1.5}" for i in range(5)) + "\n")
    csv = {"data_csv": str(folder / "d.csv")}
    labels = {"label_csv": str(folder / "l.csv"), "label_shape": (2,)}
    kinds = {
        "plain": {"data_shape": (2, 3), "batch_size": 2},
        "labels": {"data_shape": (6,), "batch_size": 3, **labels},
        "left": {"data_shape": (6,), "batch_size": 2, "round_batch": False, **labels},
        "int": {"data_shape": (6,), "batch_size": 5, "dtype": "int32"},
        "large": {"data_shape": (6,), "batch_size": 6},
    }
    for kind, options in kinds.items():
        made.update(under(f"csv {kind}", epochs(mx.io.CSVIter(**csv, **options))))
    images, digits = np.arange(42, dtype=np.uint8).reshape(7, 2, 3), np.arange(7, dtype=np.uint8)
    (folder / "im").write_bytes(np.array([2051, 7, 2, 3], ">u4").tobytes() + images.tobytes())
    (folder / "la").write_bytes(np.array([2049, 7], ">u4").tobytes() + digits.tobytes())
    mnist = {"image": str(folder / "im"), "label": str(folder / "la"), "silent": True, "shuffle": False}
    tail = {"tail": "keep"} if mx.__name__ == "hybridc" else {}  # what MXNet does always
    kinds = {
        "plain": {"batch_size": 3},
        "flat": {"batch_size": 2, "flat": True, "num_parts": 2, "part_index": 1, **tail},
    }
    for kind, options in kinds.items():
        made.update(under(f"mnist {kind}", epochs(mx.io.MNISTIter(**mnist, **options), 2)))
    (folder / "d.t").write_text("1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
    (folder / "l.t").write_text("1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n")
    svm = {"data_libsvm": str(folder / "d.t"), "data_shape": (3,), "batch_size": 3}
    made.update(under("svm", epochs(mx.io.LibSVMIter(**svm))))
    other = {"label_libsvm": str(folder / "l.t"), "label_shape": (3,)}
    made.update(under("svm labels", epochs(mx.io.LibSVMIter(**svm, **other), 1)))
    iterator = mx.io.CSVIter(**csv, data_shape=(6,), batch_size=2)
    ALIVE.append(iterator)
    iterator.iter_next()
    made["by hand"] = iterator.getdata().asnumpy()
    made["values by hand"] = [iterator.getpad(), isinstance(iterator, mx.io.MXDataIter)]
    list(iterator)
    return made


@case
def box_iterators(mx, folder):
    made = {}
    image_records(mx, folder, box_label)
    where = {"path_imgrec": str(folder / "i.rec"), "preprocess_threads": 1, "verbose": False}
    kinds = {
        "plain": {},
        "wide": {"label_pad_width": 30, "mean_r": 10, "std_r": 2, "std_g": 3, "std_b": 4},
        "shrink": {"label_pad_width": 20, "label_pad_value": -7, "resize_mode": "shrink"},
        "fit": {"resize_mode": "fit"},
        "fit large": {"resize_mode": "fit", "data_shape": (3, 30, 50)},
        "shrink large": {"resize_mode": "shrink", "data_shape": (3, 30, 50)},
        "mirror": {"rand_mirror_prob": 1, "resize": 10, "scale": 0.5},
    }
    for kind, options in kinds.items():
        iterator = mx.io.ImageDetRecordIter(**where, **{"data_shape": (3, 6, 8), "batch_size": 2, **options})
        found = epochs(iterator, 2)
        found["pads"] = [pad for pad, _ in found["pads"]]
        made.update(under(kind, found))
    return made
