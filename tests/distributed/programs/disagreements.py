"""Ranks that differ in what the argument names: both print the error, which comes on each, in place of a hang."""

import sys

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.communication import communicator
from hybridc.communication.agreement import require_equal
from hybridc.errors import MXNetError

RANK = communicator().rank


def train(name="net_", units=3, dtype="float32", optimizer="sgd", rate=0.1, batch=4, grad_req="write", **options):
    net = gluon.nn.Dense(units, in_units=2, prefix=name, dtype=dtype)
    net.initialize()
    net.collect_params().setattr("grad_req", grad_req)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate}, kvstore="dist_sync", **options)
    with autograd.record():
        y = net(nd.ones((1, 2), dtype=dtype))
    y.backward()
    trainer.step(batch)


def deferred():
    net = gluon.nn.Dense(3, prefix="net_")
    net.initialize()
    gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="dist_sync")
    net(nd.ones((1, 2 + RANK)))


def schedule():
    rate = mx.lr_scheduler.FactorScheduler(5 + RANK, 0.5, base_lr=0.1)
    mx.kv.create("dist_sync").set_optimizer(mx.optimizer.Adam(lr_scheduler=rate))


def keys():
    kv = mx.kv.create("dist_sync")
    kv.init(["a", "b"], [nd.ones(2), nd.ones(2)])
    kv.push("b" if RANK else "a", nd.ones(2))


CASES = {
    "name": lambda: train(name=f"net{RANK}_"),
    "shape": lambda: train(units=3 + RANK),
    "dtype": lambda: train(dtype="float64" if RANK else "float32"),
    "grad_req": lambda: train(grad_req="add" if RANK else "write"),
    "optimizer": lambda: train(optimizer="adam" if RANK else "sgd"),
    "rate": lambda: train(rate=0.1 * (RANK + 1)),
    "batch": lambda: train(batch=4 + RANK),
    "on_store": lambda: train(update_on_kvstore=bool(RANK)),
    "compression": lambda: train(compression_params={"type": "fp16"} if RANK else {"type": "2bit"}),
    "deferred": deferred,
    "schedule": schedule,
    "keys": keys,
    "init": lambda: mx.kv.create("dist").init(1, nd.ones(2 + RANK)),
    "value": lambda: require_equal("the graph of the step", f"hash {RANK}"),
    "what": lambda: require_equal("the graph" if RANK else "the optimizer", 1),
}
try:
    CASES[sys.argv[1]]()
except MXNetError as error:
    sys.stdout.write(f"[rank {RANK}] {error}\n")
    sys.stdout.flush()
