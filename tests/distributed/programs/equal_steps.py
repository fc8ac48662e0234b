"""Each rank trains with its part of every batch, and a twin of the network alone with the whole batch.

Arguments are cases, as ``dense:adam:shard``; rank 0 prints for each how far the parameters are apart after the steps:
the norm of the difference of all of them, relative to that of the twin's.
"""

from __future__ import annotations

import sys

import numpy as np

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.communication import communicator
from hybridc.gluon import nn

STEPS, BATCH, CLASSES = 50, 8, 5
WORDS = ("embedding", "rows")  # networks on words, whose gradients are dense, or rows


def network(kind, norm=nn.BatchNorm, context=None):
    net = nn.HybridSequential()
    if kind == "dense":
        net.add(nn.Dense(33, activation="tanh"), nn.LayerNorm(), nn.Dense(17, activation="relu"))
    elif kind == "conv":
        net.add(nn.Conv2D(4, 3, padding=1, activation="relu"), nn.MaxPool2D(), nn.Conv2D(6, 3, activation="tanh"))
    elif kind == "norm":
        net.add(nn.Conv2D(4, 3, use_bias=False), norm(), nn.Activation("relu"), nn.GlobalAvgPool2D())
    elif kind == "gru":
        net.add(gluon.rnn.GRU(9, layout="NTC"))
    elif kind in WORDS:
        net.add(nn.Embedding(11, 6, sparse_grad=kind == "rows"), nn.Dense(13, activation="relu"))
    else:
        net.add(nn.Dense(16, activation="gelu", flatten=False), nn.Dropout(0), nn.InstanceNorm(), nn.Flatten())
    net.add(nn.Dense(CLASSES))
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize()
    return net


def batches(kind):
    rng = np.random.default_rng(1)
    shape = {"conv": (3, 8, 8), "norm": (3, 8, 8), "gru": (6, 7), "tokens": (4, 10)}.get(kind, (20,))
    shape = (4,) if kind in WORDS else shape
    for _ in range(STEPS):
        x = rng.integers(0, 11, (BATCH, *shape)) if kind in WORDS else rng.standard_normal((BATCH, *shape))
        yield x.astype(np.float32), rng.integers(0, CLASSES, BATCH).astype(np.float32)


def twins(kind, x, context):
    """Two networks with equal parameters, the first one on a device."""
    pair = [network(kind, gluon.contrib.nn.SyncBatchNorm, context), network(kind)]
    for net, place in zip(pair, (context, mx.cpu()), strict=True):
        net(nd.array(x, ctx=place))
    for ours, other in zip(*(net.collect_params().values() for net in pair), strict=True):
        values = ours.data().asnumpy()
        communicator().broadcast(values)
        ours.set_data(nd.array(values))
        other.set_data(nd.array(values))
    return pair


def trainer(net, optimizer, **options):
    settings = {"learning_rate": 0.01, "wd": 0.001} if optimizer != "groupadagrad" else {"learning_rate": 0.01}
    return gluon.Trainer(net.collect_params(), optimizer, settings, **options)


def run(case):
    kind, optimizer, *words = case.split(":")
    ranks = communicator()
    data = list(batches(kind))
    context = mx.gpu(0) if "gpu" in words else mx.cpu()
    ours, alone = twins(kind, data[0][0], context)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    own = slice(ranks.rank * BATCH // ranks.size, (ranks.rank + 1) * BATCH // ranks.size)
    clip = 0.3 if "clip" in words else None
    options = {"kvstore": "dist_sync"}
    if "half" in words:
        options["compression_params"] = {"type": "fp16"}
    distributed, single = trainer(ours, optimizer, **options), trainer(alone, optimizer)
    if "loop" in words:
        accumulate = 2 if "accumulate" in words else 1
        for parameter in ours.collect_params().values():
            if accumulate > 1 and parameter.grad_req == "write":
                parameter.grad_req = "add"

        def step(x, y):
            for part in np.array_split(np.arange(len(x)), accumulate):
                with autograd.record():
                    out = loss(ours(nd.array(x[part], ctx=context)), nd.array(y[part], ctx=context))
                out.backward()
            distributed.step(BATCH)
            if accumulate > 1:
                ours.collect_params().zero_grad()
    else:
        count = 2 if "accumulate" in words else 1
        shard = "shard" in words
        compiled = gluon.TrainStep(
            ours, loss, distributed, clip_global_norm=clip, accumulate=count, shard_optimizer=shard
        )

        def step(x, y):
            for part in np.array_split(np.arange(len(x)), count):
                compiled(nd.array(x[part], ctx=context), nd.array(y[part], ctx=context))

    for x, y in data:
        step(x[own], y[own])
        with autograd.record():
            out = loss(alone(nd.array(x)), nd.array(y))
        out.backward()
        if clip is not None:
            grads = [p.grad() for p in alone.collect_params().values() if p.grad_req != "null"]
            gluon.utils.clip_global_norm(grads, clip * BATCH, check_isfinite=False)
        single.step(BATCH)
    a, b = (
        np.concatenate([p.data().asnumpy().reshape(-1).astype(np.float64) for p in net.collect_params().values()])
        for net in (ours, alone)
    )
    apart = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    if ranks.rank == 0:
        print(f"{case} {apart:.3g}", flush=True)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        run(each)
