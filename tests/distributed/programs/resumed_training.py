"""Trains a small network with checkpoints, and writes the losses and a digest of all that it ends with.

``resumed_training.py FOLDER OUT [name=value …]``: each rank appends a line of JSON for every step to ``OUT.rank``, and
one with the digest when it is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys

import numpy as np

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.communication import communicator
from hybridc.gluon import nn

folder, out, *words = sys.argv[1:]
given = dict(word.split("=") for word in words)
mode = given.get("mode", "eager")  # or hybrid, step, shard, local, accumulate, compress
kind = given.get("optimizer", "sgd")
steps, every = int(given.get("steps", 24)), int(given.get("every", 5))
workers = int(given.get("workers", 0))
size = int(given.get("size", 16))  # of the hidden layer
die = int(given.get("die", -1))  # the last rank kills itself after so many steps
BATCH, ITEMS, CLASSES = 4, 28, 3

ranks = communicator()
log = open(f"{out}.{ranks.rank}", "a")  # noqa: SIM115 - it is open until the process ends


def say(**values):
    log.write(json.dumps(values) + "\n")
    log.flush()


def digest(aux=True):
    """Of the parameters, with running statistics or without, and of the optimizer."""
    found = hashlib.sha256()
    for name, parameter in sorted(net._collect_params_with_prefix().items()):
        if (aux or parameter.grad_req != "null") and parameter._data is not None:
            found.update(name.encode() + parameter.data().asnumpy().tobytes())
    with trainer.whole_states():
        found.update(trainer.updaters[0].get_states(dump_optimizer=False))
    return found.hexdigest()


mx.random.seed(3)
np.random.seed(5 + ranks.rank)
random.seed(7 + ranks.rank)
data = np.random.RandomState(1)
xs = data.standard_normal((ITEMS, 6)).astype(np.float32)
ys = data.randint(0, CLASSES, ITEMS).astype(np.float32)

net = nn.HybridSequential()
net.add(nn.Dense(size, activation="relu"), nn.BatchNorm(), nn.Dropout(0.4), nn.Dense(CLASSES))
net.initialize(mx.init.Xavier())
if mode not in ("eager", "add", "store"):
    net.hybridize()
if mode == "add":
    net.collect_params(".*weight|.*bias").setattr("grad_req", "add")
loss = gluon.loss.SoftmaxCrossEntropyLoss()
settings = {"sgd": {"learning_rate": 0.1, "momentum": 0.9}, "adam": {"learning_rate": 0.01}, "sgld": {}}[kind]
if settings:
    settings["lr_scheduler"] = mx.lr_scheduler.FactorScheduler(7, 0.8, base_lr=settings["learning_rate"])
compression = {"type": "2bit", "threshold": 0.05} if mode in ("compress", "compress-loop") else None
trainer = gluon.Trainer(
    net.collect_params(),
    kind,
    settings,
    kvstore="dist_sync" if ranks.size > 1 else "device",
    compression_params=compression,
    update_on_kvstore=True if mode == "store" else None,
)
if given.get("sampler"):
    own = {"sampler": gluon.data.DistributedSampler(ITEMS)}
else:
    own = {"shuffle": True}
samples = gluon.data.ArrayDataset(xs, ys).transform_first(
    lambda x: x + mx.nd.random.uniform(-0.1, 0.1, shape=(1,)).asnumpy()
)
loader = gluon.data.DataLoader(samples, BATCH, num_workers=workers, last_batch="rollover", **own)
best = {"loss": float("inf"), "average": nd.zeros((CLASSES,)), "seen": []}
checkpoint = mx.distributed.Checkpoint(folder, net=net, trainer=trainer, data=loader, every=every, extra=best)
done = checkpoint.restore()
say(resumed=done, process=os.getpid(), ranks=ranks.size, begun=digest())
options = {
    "step": {},
    "shard": {"shard_optimizer": True},
    "local": {"sync_every": 3},
    "accumulate": {"accumulate": 3},
    "compress": {},
}
compiled = gluon.TrainStep(net, loss, trainer, **options[mode]) if mode in options else None


def train(x, y):
    if compiled is not None:
        return compiled(x, y)
    with autograd.record():
        value = loss(net(x), y)
    value.backward()
    if mode != "add" or done % 3 == 2:
        trainer.step(BATCH * ranks.size)
        net.collect_params().zero_grad()
    return value


while done < steps:
    for x, y in loader:
        noise = np.random.standard_normal(x.shape).astype(np.float32) * random.random()
        value = float(train(x + nd.array(noise), y).mean().asscalar())
        best["loss"] = min(best["loss"], value)
        best["average"][:] = 0.9 * best["average"] + 0.1 * net(x).mean(axis=0)
        best["seen"].append(done)
        done += 1
        say(step=done, loss=value.hex())
        checkpoint.step()
        assert checkpoint.steps == done
        if done == die and os.environ.get("HYBRIDC_RESTART", "0") == "0" and ranks.rank == ranks.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if done == steps:
            break
checkpoint.close()

found = hashlib.sha256(digest().encode())
found.update(best["average"].asnumpy().tobytes() + json.dumps([best["loss"], best["seen"]]).encode())
found.update(json.dumps([trainer.optimizer.num_update, trainer.learning_rate]).encode())
found.update(np.random.rand(3).tobytes() + nd.random.uniform(shape=(3,)).asnumpy().tobytes())
found.update(str(random.random()).encode())
say(digest=found.hexdigest(), common=digest(aux=False))
