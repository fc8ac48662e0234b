"""Prints random numbers of this rank, in and outside of training mode, eagerly and compiled, as JSON."""

import json

import hybridc as mx
from hybridc import gluon
from hybridc.communication import communicator

RANKS = communicator()
made = {}


def zeros(x):
    return [int(v) for v in (x.asnumpy().reshape(-1) == 0)]


for hybridized in (False, True):
    mx.random.seed(11)
    net = gluon.nn.HybridSequential(prefix="net_")
    net.add(gluon.nn.Dropout(0.5))
    if hybridized:
        net.hybridize()
    name = "hybridized" if hybridized else "eager"
    ones = mx.nd.ones((1, 40))
    drawn = [mx.nd.random.uniform(shape=3).asnumpy().tolist()]
    with mx.autograd.record():
        masks = [zeros(net(ones)), zeros(net(ones))]
    with mx.autograd.predict_mode():
        assert (net(ones).asnumpy() == 1).all()
    drawn.append(mx.nd.random.uniform(shape=3).asnumpy().tolist())
    made[name] = {"masks": masks, "drawn": drawn}

# A compiled step: with weights of 1 and a sum as loss, its loss counts what dropout left.
mx.random.seed(11)
net = gluon.nn.HybridSequential(prefix="net_")
net.add(gluon.nn.Dense(40, use_bias=False, in_units=1), gluon.nn.Dropout(0.5))
net.initialize(mx.init.One())
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0}, kvstore=None)
step = gluon.TrainStep(net, lambda out: out, trainer)
made["step"] = [zeros(step(mx.nd.ones((1, 1)))) for _ in range(2)]
mx.random.seed(11)
net2 = gluon.nn.HybridSequential(prefix="net_")
net2.add(gluon.nn.Dense(40, use_bias=False, in_units=1), gluon.nn.Dropout(0.5))
net2.initialize(mx.init.One())
made["plain"] = []
for _ in range(2):
    with mx.autograd.record():
        made["plain"].append(zeros(net2(mx.nd.ones((1, 1)))))
print(f"[rank {RANKS.rank}] {json.dumps(made)}\n", end="", flush=True)
