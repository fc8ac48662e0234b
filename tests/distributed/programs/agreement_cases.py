"""What the ranks of a step must have in common: batches of other lengths, settings and calls that differ.

Arguments are cases; each rank prints the name of a case that held. Errors are raised on all ranks, and after each of
them the ranks go on together.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import hybridc as mx
from hybridc import autograd, distributed, gluon, nd
from hybridc import horovod as hvd
from hybridc.communication import communicator
from hybridc.contrib import amp

RANKS = communicator()
RANK, SIZE = RANKS.rank, RANKS.size
RATE, STEPS = 0.1, 4
# The batch of each rank at each step, and of each of two calls whose gradients are added up.
LENGTHS = [[(5, 2), (3, 3), (1, 4), (4, 4)][(step + rank) % 4] for step in range(STEPS) for rank in range(SIZE)]


def batch(step, part, rank=RANK):
    rng = np.random.default_rng([step, part, rank])
    count = LENGTHS[step * SIZE + rank][part]
    return rng.standard_normal((count, 4)).astype(np.float32), rng.standard_normal((count, 2)).astype(np.float32)


def expected(parts):
    """The weight after gradient descent on the loss of the examples of all ranks and calls, in double precision."""
    w = np.full((2, 4), 0.5)
    for step in range(STEPS):
        every = [batch(step, part, rank) for rank in range(SIZE) for part in range(parts)]
        x, y = (np.concatenate(each).astype(np.float64) for each in zip(*every, strict=True))
        w -= RATE / len(x) * 2 * (x @ w.T - y).T @ x
    return w


def network(units=2):
    net = gluon.nn.Dense(units, use_bias=False, in_units=4, prefix="net_")
    net.initialize(mx.init.Constant(0.5))
    return net


def loss(out, y):
    return (out - y) ** 2


def trainer(net, kind="kvstore", optimizer="sgd", **settings):
    options = {"learning_rate": RATE, **settings}
    if kind == "horovod":
        return hvd.DistributedTrainer(net.collect_params(), optimizer, options)
    return gluon.Trainer(net.collect_params(), optimizer, options, kvstore="dist_sync")


def backward(net, x=None, y=None):
    with autograd.record():
        total = loss(net(nd.ones((3, 4)) if x is None else x), nd.ones((3, 2)) if y is None else y)
    total.backward()


# --- batches of other lengths -----------------------------------------------------------------------------------


def uneven(kind, parts=1, **options):
    net = network()
    step = gluon.TrainStep(net, loss, trainer(net, kind), accumulate=parts, **options)
    for number in range(STEPS):
        for part in range(parts):
            step(*map(nd.array, batch(number, part)))
    check(net, expected(parts))


def uneven_loop(kind):
    net = network()
    update = trainer(net, kind)
    for number in range(STEPS):
        x, y = map(nd.array, batch(number, 0))
        backward(net, x, y)
        update.step(update.total_batch_size(len(x)))
    check(net, expected(1))


def given_batch_size():
    net = network()
    step = gluon.TrainStep(net, loss, trainer(net))
    for number in range(STEPS):
        x, y = batch(number, 0)
        step(nd.array(x), nd.array(y), batch_size=sum(len(batch(number, 0, rank)[0]) for rank in range(SIZE)))
    check(net, expected(1))


def check(net, wanted):
    w = net.weight.data().asnumpy()
    every = RANKS.gather_objects(w.tobytes())
    assert every == [every[0]] * SIZE, "the ranks have other weights"
    assert np.allclose(w, wanted, 1e-5, 1e-6), (w, wanted)


# --- settings of one rank ---------------------------------------------------------------------------------------


def settings_differ():
    for kind, change, text in [
        ("step", lambda t, n: t.set_learning_rate(0.2), "lr of TrainStep|learning_rate of TrainStep"),
        ("step", lambda t, n: setattr(n.weight, "lr_mult", 2.0), "net_weight of lr_mult of TrainStep"),
        ("step", lambda t, n: setattr(t.optimizer, "num_update", 7), "num_update of TrainStep"),
        ("step", lambda t, n: setattr(t.optimizer, "momentum", 0.9), "momentum of TrainStep"),
        (
            "step",
            lambda t, n: t.optimizer.lr_mult.update(net_weight=2.0),
            "net_weight of lr_mult of the optimizer of Tr",
        ),
        ("loop", lambda t, n: t.set_learning_rate(0.2), "learning_rate of Trainer.step"),
        ("loop", lambda t, n: setattr(n.weight, "wd_mult", 2.0), "net_weight of wd_mult of Trainer.step"),
        ("loop", lambda t, n: n.weight.set_data(nd.ones((2, 4))) or mark_used(n), "backward wrote its gradient"),
        ("horovod", lambda t, n: t.set_learning_rate(0.2), "learning_rate of Trainer.step"),
        ("horovod", lambda t, n: mark_used(n), "backward wrote its gradient of Trainer.step"),
    ]:
        net = network()
        update = trainer(net, "horovod" if kind == "horovod" else "kvstore", wd=0.01)
        if kind == "step":
            compiled = gluon.TrainStep(net, loss, update)
            step: Callable[[], Any] = functools.partial(compiled, nd.ones((3, 4)), nd.ones((3, 2)))
            step()
        else:
            backward(net)
            step = functools.partial(update.step, 6)
            step()
            backward(net)
        if RANK == SIZE - 1:
            change(update, net)
        fails(step, f"({text}).* differs between ranks: rank 0 on .* has .*, rank {SIZE - 1} on .* has")


def mark_used(net):
    autograd.mark_used(net.weight.data())


def steps_differ():
    for name, values in {
        "accumulate": (1, 2),
        "clip_global_norm": (None, 1.0),
        "shard_optimizer": (False, True),
    }.items():
        net = network()
        step = gluon.TrainStep(net, loss, trainer(net), **{name: values[RANK == SIZE - 1]})
        for _ in range(2 if name == "accumulate" and RANK == SIZE - 1 else 1):
            caught = error_of(lambda step=step: step(nd.ones((3, 4)), nd.ones((3, 2))))
        assert f"{name} of TrainStep differs between ranks" in caught, caught
    net = network()
    step = gluon.TrainStep(net, loss, trainer(net), sync_every=1 + RANK)
    caught = [error_of(lambda: step(nd.ones((3, 4)), nd.ones((3, 2)))) for _ in range(1 + RANK)]
    assert "calls TrainStep" in caught[-1], caught
    assert "average of the parameters of TrainStep" in caught[-1], caught
    fails(
        lambda: gluon.TrainStep(net, loss, trainer(net))(nd.ones((3, 4)), nd.ones((3, 2)), 3 + RANK), "batch_size of Tr"
    )
    fails(
        lambda: gluon.TrainStep(net, loss, trainer(net))(nd.ones((3, 4)), nd.ones((3, 2)), [None, 3][RANK % 2]),
        "batch_size.* of TrainStep differs",
    )


def loss_scale_differs():
    amp.init()
    net = network()
    update = trainer(net)
    amp.init_trainer(update)
    update._amp_loss_scaler._loss_scale = 2.0 ** (8 + RANK)
    with autograd.record():
        total = loss(net(nd.ones((3, 4))), nd.ones((3, 2)))
        with amp.scale_loss(total, update) as scaled:
            autograd.backward(scaled)
    fails(lambda: update.step(6), "rescale_grad of Trainer.step differs between ranks")


def overflow_on_one_rank():
    """The sum of gradients overflows on all ranks, so all leave the step out, and halve the scale."""
    amp.init()
    net = network()
    update = trainer(net)
    amp.init_trainer(update)
    scaler = update._amp_loss_scaler
    scaler._loss_scale = scaler._next_loss_scale = 8.0
    for number in range(3):
        x = nd.ones((3, 4)) * (1e38 if number == 1 and RANK == SIZE - 1 else 1)
        with autograd.record():
            total = loss(net(x), nd.ones((3, 2)))
            with amp.scale_loss(total, update) as scaled:
                autograd.backward(scaled)
        update.step(3 * SIZE)
    weight = net.weight.data().asnumpy()
    scales = RANKS.gather_objects((scaler._next_loss_scale, weight.tobytes()))
    assert scales == [(4.0, scales[0][1])] * SIZE, scales
    assert np.isfinite(weight).all()
    assert (weight != 0.5).all()


def a_new_signature_on_one_rank():
    """Another length of the batch is another program, of one rank alone; an error in it does not stop the others."""
    net = network()
    step = gluon.TrainStep(net, loss, trainer(net))
    for number in range(6):
        count = 3 if RANK == 0 else 3 + number % 3
        step(nd.ones((count, 4)), nd.ones((count, 2)))
    assert np.isfinite(net.weight.data().asnumpy()).all()


# --- calls of other kinds ---------------------------------------------------------------------------------------


def mixed_calls():
    net, kv = network(), mx.kv.create("dist_sync")
    kv.init("a", nd.ones((2, 4)))
    update = trainer(net)
    step = gluon.TrainStep(net, loss, update)
    step(nd.ones((3, 4)), nd.ones((3, 2)))
    backward(net)
    update.step(6)
    norm = gluon.contrib.nn.SyncBatchNorm(in_channels=3)
    norm.initialize()

    def trains(number=0):
        with autograd.record():
            return norm(nd.ones((2, 3)))

    calls: dict[str, Callable[[], Any]] = {
        "TrainStep": lambda: step(nd.ones((3, 4)), nd.ones((3, 2))),
        "Trainer.step": lambda: (backward(net), update.step(6)),
        "hvd.allreduce of float32": lambda: hvd.allreduce(nd.ones(8)),
        "hvd.broadcast_parameters": lambda: hvd.broadcast_parameters(net.collect_params()),
        "hvd.allgather_object": lambda: hvd.allgather_object(3),
        "push of the keys a": lambda: kv.push("a", nd.ones((2, 4))),
        "KVStore.barrier": kv._barrier,
        "comparison of the values that init gets": lambda: kv.init(f"b{RANK}", nd.ones(2)),
        "hybridc.distributed.barrier": distributed.barrier,
        "all-reduce of 4 float32": trains,
        "hvd.add_process_set": lambda: hvd.add_process_set([0]),
        "split": lambda: RANKS.split(0),
    }
    named = list(calls.items())
    pairs = [(i, j) for i in range(len(named)) for j in range(len(named)) if i != j]
    for i, j in pairs if "every" in sys.argv else [(i, (i + 1) % len(named)) for i in range(len(named))]:
        (name, call), (other, _) = (named[i], named[j])[:: 1 - 2 * (RANK % 2)]
        mine = named[j][1] if RANK % 2 else call
        del call
        fails(mine, rf"rank {RANK} on \S+ calls .*{re.escape(name)}.*, but rank . on \S+ calls .*{re.escape(other)}")


def error_of(call):
    try:
        call()
    except mx.MXNetError as error:
        return str(error)
    return ""


def fails(call, pattern):
    text = error_of(call)
    assert re.search(pattern, text), (pattern, text)


CASES: dict[str, Callable[[], Any]] = {
    "uneven": lambda: uneven("kvstore"),
    "uneven_accumulated": lambda: uneven("kvstore", 2),
    "uneven_sharded": lambda: uneven("kvstore", shard_optimizer=True),
    "uneven_horovod": lambda: uneven("horovod"),
    "uneven_loop": lambda: uneven_loop("kvstore"),
    "uneven_loop_horovod": lambda: uneven_loop("horovod"),
    "given_batch_size": given_batch_size,
    "settings_differ": settings_differ,
    "steps_differ": steps_differ,
    "a_new_signature_on_one_rank": a_new_signature_on_one_rank,
    "mixed_calls": mixed_calls,
    "loss_scale_differs": loss_scale_differs,  # these two let operators compute in half precision from now on
    "overflow_on_one_rank": overflow_on_one_rank,
}

if __name__ == "__main__":
    hvd.init()
    for case in [*CASES] if sys.argv[1:] in ([], ["every"]) else [each for each in sys.argv[1:] if each != "every"]:
        CASES[case]()
        print(case, flush=True)
