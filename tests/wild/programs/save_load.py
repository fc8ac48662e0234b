"""Networks in files: parameters, whole models, exported symbols, states of trainers."""

import json
import os
import tempfile

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd

folder = tempfile.mkdtemp()
rng = np.random.RandomState(0)


def path(name):
    return os.path.join(folder, name)


def build_mlp(cls):
    net = cls(prefix="model_")
    with net.name_scope():
        net.add(gluon.nn.Dense(8, activation="relu"))
        net.add(gluon.nn.BatchNorm())
        net.add(gluon.nn.Dense(3))
    return net


data = nd.array(rng.normal(size=(6, 4)))
label = nd.array([0, 1, 2, 0, 1, 2])
loss = gluon.loss.SoftmaxCrossEntropyLoss()


def train(net, trainer, steps):
    for _ in range(steps):
        with autograd.record():
            batch_loss = loss(net(data), label)
        batch_loss.backward()
        trainer.step(6)
    return float(batch_loss.mean().asscalar())


net = build_mlp(gluon.nn.HybridSequential)
net.initialize()
net(data)
for name, p in sorted(net.collect_params().items()):
    p.set_data(nd.array(abs(rng.normal(0, 0.3, p.shape)) if "var" in name else rng.normal(0, 0.3, p.shape)))
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
print("loss", train(net, trainer, 3))

# Parameters, loaded into another network of the same structure, which waits for its shapes.
net.save_parameters(path("net.params"))
print("names", sorted(mx.nd.load(path("net.params")).keys()))
new_net = build_mlp(gluon.nn.Sequential)
new_net.load_parameters(path("net.params"), ctx=mx.cpu())
print("same", float(abs(new_net(data) - net(data)).max().asscalar()) < 1e-6)
try:
    gluon.nn.Dense(2).load_parameters(path("net.params"))
except Exception as error:
    print("refused", isinstance(error, (AssertionError, ValueError)))

# The trainer's states: training goes on as if it had not stopped.
trainer.save_states(path("trainer.states"))
there = build_mlp(gluon.nn.HybridSequential)
there.load_parameters(path("net.params"))
other = gluon.Trainer(there.collect_params(), "adam", {"learning_rate": 0.05})
other.load_states(path("trainer.states"))
print("resumed", train(net, trainer, 2), train(there, other, 2))

# Export, and import as a block.
net.hybridize()
print("output", net(data).asnumpy().round(4).tolist())
net.export(path("mlp"), epoch=1)
print("files", sorted(f for f in os.listdir(folder) if f.startswith("mlp")))
nodes = json.load(open(path("mlp-symbol.json")))["nodes"]
print("operators", [node["op"] for node in nodes if node["op"] != "null"])
print("arguments", [node["name"] for node in nodes if node["op"] == "null"])
deserialized = gluon.nn.SymbolBlock.imports(path("mlp-symbol.json"), ["data"], path("mlp-0001.params"), ctx=mx.cpu())
print("imported", float(abs(deserialized(data) - net(data)).max().asscalar()) < 1e-5)
sym, arg_params, aux_params = mx.model.load_checkpoint(path("mlp"), 1)
print("checkpoint", sorted(arg_params), sorted(aux_params), sym.list_outputs())

# A part of it.
internals = sym.get_internals()
feature = gluon.SymbolBlock(internals["model_dense0_relu_fwd_output"], mx.sym.var("data"))
feature.collect_params().load(path("mlp-0001.params"), ignore_extra=True)
print("feature", feature(data).shape, feature(data).asnumpy()[0].round(4).tolist())

# A whole model.
net.save(path("whole"))
whole = build_mlp(gluon.nn.HybridSequential)
whole.load(path("whole"))
print("whole", sorted(f for f in os.listdir(folder) if f.startswith("whole")))
print("whole same", float(abs(whole(data) - net(data)).max().asscalar()) < 1e-5)

# Old formats.
net.collect_params().save(path("old.params"), strip_prefix="model_")
print("stripped", sorted(mx.nd.load(path("old.params")).keys()))
again = build_mlp(gluon.nn.HybridSequential)
again.collect_params().load(path("old.params"), restore_prefix="model_", ctx=mx.cpu())
print("restored", float(abs(again(data) - net(data)).max().asscalar()) < 1e-5)
