"""Cases of stores, Trainers and Modules of several ranks, by name; rank 0 prints those that passed."""

from __future__ import annotations

import functools
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.communication import communicator
from hybridc.communication.gradient_buckets import GradientBuckets, plan_buckets
from hybridc.contrib import amp
from hybridc.gluon import nn
from hybridc.gluon.contrib.estimator import Estimator

RANKS = communicator()
RANK, SIZE = RANKS.rank, RANKS.size
BATCH, CLASSES, FEATURES = 8, 4, 10
TWO = [mx.cpu(0), mx.cpu(1)]
PARTS = 3e-6  # relative: float32 sums of four parts of a batch, through 50 steps
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def same(a, b, tolerance=1e-6):
    a, b = (np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x, np.float64) for x in (a, b))
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.linalg.norm(a - b) <= tolerance * max(np.linalg.norm(b), 1e-30), (a, b)


def equal_on_ranks(*arrays):
    for x in arrays:
        values = RANKS.gather_objects(x.asnumpy())
        assert all(np.array_equal(values[0], each) for each in values), values


# --- stores ---------------------------------------------------------------------------------------------------


@case
def store():
    for kind in ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "p3"):
        kv = mx.kv.create(kind)
        assert (kv.type, kv.rank, kv.num_workers, kv.is_capable("optimizer")) == (kind, RANK, SIZE, True)
        kv.init([1, 2], [nd.full(2, RANK + 5), nd.full((3, 3), RANK)])
        out = [nd.zeros(2), nd.zeros((3, 3), ctx=mx.cpu(1))]
        kv.pull([1, 2], out)
        same(out[0], [5, 5])
        same(out[1], np.zeros((3, 3)))
        total = sum(range(1, SIZE + 1))
        kv.push([1, 2], [nd.full(2, RANK + 1), [nd.full((3, 3), RANK + 1)] * 2])
        kv.pull([1, 2], out)
        same(out[0], [total, total])
        same(out[1], np.full((3, 3), 2 * total))
        kv.pushpull(1, nd.full(2, 2.0), out=out[0])
        same(out[0], [2 * SIZE] * 2)
        kv.broadcast(3, nd.array([RANK + 7.0]), out=[nd.zeros(1), nd.zeros(1)])
        kv._barrier()
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
        weights, momentum = np.array([7.0]), np.zeros(1)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "states")
            for step in range(4):
                kv.push(3, nd.array([RANK + 1.0]))
                momentum = 0.5 * momentum - 0.5 * total
                weights = weights + momentum
                if step == 1:
                    kv.save_optimizer_states(path, dump_optimizer=True)
                    kv.load_optimizer_states(path)
        got = nd.zeros(1)
        kv.pull(3, got)
        same(got, weights)


@case
def dtypes():
    kv = mx.kv.create("dist_sync")
    for dtype, tolerance in (("float16", 1e-3), ("float64", 1e-12), ("int32", 0), ("int8", 0), ("uint8", 0)):
        x = nd.arange(7, dtype=dtype) + RANK
        kv.init(dtype, x)
        kv.push(dtype, x)
        out = nd.zeros(7, dtype=dtype)
        kv.pull(dtype, out)
        same(out, np.arange(7) * SIZE + sum(range(SIZE)), tolerance)
    kv.init("empty", nd.zeros((0, 3)))
    kv.push("empty", nd.zeros((0, 3)))


@case
def plugins():
    for kind in ("horovod", "byteps"):
        kv = mx.kv.create(kind)
        assert (kv.type, kv.rank, kv.num_workers, kv.is_capable("optimizer")) == (kind, RANK, SIZE, False)
        x, out = nd.full(3, RANK + 1), nd.zeros(3)
        kv.pushpull("x", x, out=out)
        same(out, [sum(range(1, SIZE + 1))] * 3)
        same(x, [RANK + 1] * 3)
        kv.pushpull("x", x)
        same(x, out)
        outs = [nd.zeros(1), nd.zeros(2)]
        kv.pushpull(["a", "b"], [[nd.ones(1), nd.ones(1)], nd.ones(2)], out=outs)
        same(outs[0], [2 * SIZE])
        same(outs[1], [SIZE] * 2)
        kv.broadcast("y", nd.full(2, RANK + 3), out=outs[1])
        same(outs[1], [3, 3])


@case
def buckets():
    kinds = [((300,), "float32"), ((5, 7), "float64"), ((1000,), "float32"), ((3,), "float32"), ((64,), "float64")]
    plan = plan_buckets(kinds, 512, 2048)
    assert [b.indices for b in plan.buckets if b.dtype == np.float32] == [(3,), (2,), (0,)]
    assert [b.indices for b in plan.buckets if b.dtype == np.float64] == [(4,), (1,)]
    assert sorted(i for b in plan.buckets for i in b.indices) == list(range(5))
    rng = np.random.default_rng(RANK)
    made = GradientBuckets(kinds, RANKS, first_bytes=512, other_bytes=2048)
    for _ in range(3):
        mine = [rng.standard_normal(shape).astype(dtype) for shape, dtype in kinds]
        made.start(lambda i, view, mine=mine: np.copyto(view, mine[i]))
        done = [i for indices in made.completed() for i in indices]
        assert sorted(done) == list(range(5))
        for view, parts in zip(made.views, zip(*RANKS.gather_objects(mine), strict=True), strict=True):
            assert view.ctypes.data % 64 == 0
            same(view, np.sum(parts, axis=0, dtype=np.float64))


# --- compression ----------------------------------------------------------------------------------------------


def rounded(left, kind, threshold=0.5):
    """MXNet's rule for 2 bits, NumPy's for float16, round to nearest even of the bits for bfloat16."""
    if kind == "2bit":
        return np.where(left >= threshold, threshold, np.where(left <= -threshold, -threshold, 0)).astype(np.float32)
    if kind == "fp16":
        return np.clip(left, -65504, 65504).astype(np.float16).astype(np.float32)
    bits = left.view(np.uint32).astype(np.uint64)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@case
def compression():
    shapes = [(1,), (37,), (5, 11), (1000,)]
    for kind in ("2bit", "fp16", "bf16"):
        kv = mx.kv.create("dist_sync")
        kv.set_gradient_compression({"type": kind, "threshold": 0.3} if kind == "2bit" else {"type": kind})
        keys = list(range(len(shapes)))
        kv.init(keys, [nd.zeros(s) for s in shapes])
        rngs = [np.random.default_rng(r) for r in range(SIZE)]
        left = [[np.zeros(s, np.float32) for s in shapes] for _ in range(SIZE)]
        of_sum = [np.zeros(s, np.float32) for s in shapes]
        for _ in range(6):
            grads = [[rng.standard_normal(s).astype(np.float32) for s in shapes] for rng in rngs]
            out = [nd.zeros(s) for s in shapes]
            kv.pushpull(keys, [nd.array(g) for g in grads[RANK]], out=out)
            for k in keys:
                total = np.zeros(shapes[k], np.float32)
                for r in range(SIZE):
                    left[r][k] += grads[r][k]
                    sent = rounded(left[r][k], kind, 0.3)
                    left[r][k] -= sent
                    total += sent
                if kind != "2bit":
                    of_sum[k] += total
                    total = rounded(of_sum[k], kind)
                    of_sum[k] -= total
                np.testing.assert_array_equal(out[k].asnumpy(), total)
            equal_on_ranks(*out)


@case
def compression_of_what_is_not_finite():
    for kind in ("2bit", "fp16", "bf16"):
        kv = mx.kv.create("dist_sync")
        kv.set_gradient_compression({"type": kind})
        kv.init(0, nd.zeros(3))
        out = nd.zeros(3)
        kv.pushpull(0, nd.array([np.nan if RANK == 0 else 1.0, np.inf if RANK == SIZE - 1 else 1.0, 1.0]), out=out)
        assert not np.isfinite(out.asnumpy()[:2]).any()
        assert np.isfinite(out.asnumpy()[2])
        kv.pushpull(0, nd.zeros(3), out=out)
        assert np.isfinite(out.asnumpy()).all()
    kv.set_gradient_compression({"type": "fp16"})
    kv.pushpull(0, nd.array([1e5, 0, 0]), out=out)
    same(out, [65504, 0, 0])


@case
def compressed_training():
    """The losses of training with compressed gradients come down as those without."""
    found = {}
    for kind in (None, "2bit", "fp16", "bf16"):
        mx.random.seed(3)
        net = dense()
        params = None if kind is None else {"type": kind, **({"threshold": 0.05} if kind == "2bit" else {})}
        trainer = gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore="dist_sync", compression_params=params
        )
        losses = [step_of(net, trainer, *part(x, y)) for x, y in batches(60, fixed=True)]
        equal_on_ranks(*(p.data() for p in net.collect_params().values()))
        found[kind] = sum(losses[-5:]) / sum(losses[:5])
    assert found[None] < 0.4
    assert abs(found["fp16"] - found[None]) < 1e-2
    assert abs(found["bf16"] - found[None]) < 5e-2
    assert found["2bit"] < 0.5


# --- Trainer --------------------------------------------------------------------------------------------------


def dense(bias=True):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(16, activation="tanh", use_bias=bias), nn.Dense(CLASSES, use_bias=bias))
    net.initialize(mx.init.Xavier())
    return net


def batches(count, fixed=False):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((count, BATCH, FEATURES)), rng.integers(0, CLASSES, (count, BATCH))
    for i in range(count):
        yield nd.array(x[0 if fixed else i]), nd.array(y[0 if fixed else i])


def part(*arrays):
    count = BATCH // SIZE
    return [x[RANK * count : (RANK + 1) * count] for x in arrays]


LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


def step_of(net, trainer, x, y, parts=1, contexts=(None,), clip=None):
    count = len(x) // parts
    for k in range(parts):
        xs, ys = x[k * count : (k + 1) * count], y[k * count : (k + 1) * count]
        with autograd.record():
            if len(contexts) > 1:
                split = zip(*(gluon.utils.split_and_load(a, contexts) for a in (xs, ys)), strict=True)
                losses = [LOSS(net(a), b) for a, b in split]
            else:
                losses = [LOSS(net(xs), ys)]
        autograd.backward(losses)
    if clip is None:
        trainer.step(BATCH)
    else:
        trainer.allreduce_grads()
        grads = [p.grad() for p in net.collect_params().values()]
        gluon.utils.clip_global_norm(grads, clip)
        trainer.update(BATCH)
    return sum(float(each.asnumpy().sum()) for each in losses)


def against_one(optimizer, settings, seeds=True, steps=50, tolerance=1e-6, **options):
    """Train over ranks, and a twin alone with whole batches; the ranks begin with other parameters than rank 0."""
    parts, clip = options.pop("parts", 1), options.pop("clip", None)
    contexts = options.pop("contexts", (None,))
    data = list(batches(steps))
    mx.random.seed(7)
    bias = options.pop("bias", True)
    alone = dense(bias)
    mx.random.seed(7 + (RANK if seeds else 0))
    ours = dense(bias)
    if contexts != (None,):
        ours.collect_params().reset_ctx(list(contexts))
    if options.pop("hybridize", False):
        ours.hybridize()
    if options.pop("double", False):
        data = [(x.astype("float64"), y.astype("float64")) for x, y in data]
        alone.cast("float64")
        ours.cast("float64")
        tolerance = 1e-13
    if parts > 1:
        ours.collect_params().setattr("grad_req", "add")
    one = gluon.Trainer(alone.collect_params(), optimizer, dict(settings))
    trainer = gluon.Trainer(ours.collect_params(), optimizer, dict(settings), **{"kvstore": "dist_sync", **options})
    for x, y in data:
        step_of(ours, trainer, *part(x, y), parts, contexts, clip)
        if parts > 1:
            ours.collect_params().zero_grad()
        step_of(alone, one, x, y, clip=clip)
    for a, b in zip(ours.collect_params().values(), alone.collect_params().values(), strict=True):
        for x in a.list_data():
            same(x, b.data(), tolerance)
        equal_on_ranks(a.list_data()[0])
    return ours, trainer


@case
def trainer():
    sgd = {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}
    net, made = against_one("sgd", sgd)
    assert made.store.num_workers == SIZE
    assert not made._update_on_kvstore
    before = [(p.grad(), p.grad()._data) for p in net.collect_params().values()]
    step_of(net, made, *part(*next(batches(1))))
    for grad, memory in before:
        assert grad._data is memory  # it lies in its bucket, and is neither moved nor copied
        assert memory.base is not None
    owners = {id(memory.base if memory.base.base is None else memory.base.base) for _, memory in before}
    assert len(owners) == 1


@case
def trainer_on_store():
    for on_store in (False, True):
        against_one("sgd", {"learning_rate": 0.1, "momentum": 0.9}, update_on_kvstore=on_store, double=True)
        against_one("adam", {"learning_rate": 0.01}, update_on_kvstore=on_store, double=True, parts=2)
    against_one("adam", {"learning_rate": 0.01}, update_on_kvstore=True, parts=2, tolerance=PARTS)


@case
def trainer_with_other_stores():
    for kvstore in ("dist", "dist_device_sync", "p3", "horovod", "byteps", mx.kv.create("dist_sync")):
        against_one("nag", {"learning_rate": 0.05, "momentum": 0.9}, kvstore=kvstore, steps=5)


@case
def trainer_hybridized():
    against_one("adam", {"learning_rate": 0.01}, hybridize=True)


@case
def trainer_on_two_devices():
    net, _ = against_one("adam", {"learning_rate": 0.01}, contexts=TWO, tolerance=PARTS)
    for param in net.collect_params().values():
        same(*param.list_data(), 0)
        same(*param.list_grad(), 0)
    against_one("sgd", {"learning_rate": 0.1, "momentum": 0.9}, contexts=TWO, update_on_kvstore=True, tolerance=PARTS)
    for on_store in (False, True):
        against_one(
            "sgd", {"learning_rate": 0.1, "momentum": 0.9}, contexts=TWO, update_on_kvstore=on_store, double=True
        )


@case
def trainer_accumulates():
    sent = []
    allreduce = type(RANKS).allreduce
    type(RANKS).allreduce = lambda self, array, op="sum": (sent.append(array.size), allreduce(self, array, op))[1]
    try:
        against_one("sgd", {"learning_rate": 0.1, "momentum": 0.9}, parts=2, steps=10)
    finally:
        type(RANKS).allreduce = allreduce
    assert len(sent) == 10, sent  # one bucket a step, none for the first backward pass


@case
def trainer_clips():
    against_one("sgd", {"learning_rate": 0.5}, clip=0.5)


@case
def trainer_with_many_buckets():
    from hybridc.kvstore import rank_sums

    with mock.patch.object(
        rank_sums, "GradientBuckets", functools.partial(rank_sums.GradientBuckets, first_bytes=64, other_bytes=128)
    ):
        _, made = against_one("adam", {"learning_rate": 0.01, "lr_scheduler": mx.lr_scheduler.FactorScheduler(3, 0.9)})
        against_one("adam", {"learning_rate": 0.01}, update_on_kvstore=True)
        assert len(made.store.rank_sums._buckets[None].plan.buckets) > 2


@case
def all_optimizers():
    # The first adds gradients to weights, and is there for tests of MXNet; the others are of SVRGModule alone.
    skipped = {"test", "_assignmentoptimizer", "_svrgoptimizer"}
    for name in sorted(mx.optimizer.Optimizer.opt_registry):
        if name in skipped or mx.optimizer.Optimizer.opt_registry[name].__module__.partition(".")[0] != "hybridc":
            continue
        settings = {"learning_rate": 0.01} if name not in ("adadelta", "ftrl") else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Signs of gradients that are almost 0 depend on the order of sums.
            loose = name in ("signum", "signsgd")
            # Noise is drawn from a stream of the ranks, of which a twin knows nothing.
            if name == "sgld":
                net = dense()
                made = gluon.Trainer(net.collect_params(), name, settings, kvstore="dist_sync")
                for x, y in batches(5):
                    step_of(net, made, *part(x, y))
                equal_on_ranks(*(p.data() for p in net.collect_params().values()))
                continue
            against_one(name, settings, tolerance=1e-2 if loose else 2e-6, bias=name != "groupadagrad")


@case
def stale_gradients():
    """A parameter that one rank used is updated on all."""
    for on_store in (False, True):
        net = nn.Sequential(prefix=f"stale{on_store}_")
        with net.name_scope():
            net.add(nn.Dense(2, in_units=3, use_bias=False), nn.Dense(2, in_units=3, use_bias=False))
            net.add(nn.Dense(2, in_units=3, use_bias=False))
        net.initialize(mx.init.One())
        made = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1}, "dist_sync", None, on_store)
        x = nd.ones((1, 3))

        def used(*blocks, x=x):
            with autograd.record():
                y = sum(block(x).sum() for block in blocks)
            y.backward()

        used(net[0], net[1])
        made.step(1, ignore_stale_grad=True)
        used(net[0] if RANK == 0 else net[1])
        made.step(1, ignore_stale_grad=True)
        for block, expected in zip(net, (1 - SIZE - 1, 1 - SIZE - (SIZE - 1), 1), strict=True):
            same(block.weight.data(), np.full((2, 3), expected))
        used(net[0])
        try:
            made.step(1)
        except UserWarning as error:
            assert "has not been updated" in str(error)  # noqa: PT017
        else:
            raise AssertionError


@case
def parameters_of_rank_0():
    net = nn.Dense(2, in_units=2, prefix="one_")
    net.initialize()
    made = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0}, "dist_sync")
    if RANK == 0:
        net.weight.set_data(nd.array([[1, 2], [3, 4]]))  # as who loads a file on one rank
    with autograd.record():
        y = net(nd.ones((1, 2)))
    y.backward()
    made.step(1)
    same(net.weight.data(), [[1, 2], [3, 4]])
    net.initialize(mx.init.Normal(1), force_reinit=True)
    equal_on_ranks(net.weight.data())


@case
def states():
    net = dense()
    made = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1}, "dist_sync")
    data = list(batches(6))
    with tempfile.TemporaryDirectory() as folder:
        path = RANKS.broadcast_object(folder)
        for x, y in data[:3]:
            step_of(net, made, *part(x, y))
        if RANK == 0:
            net.save_parameters(f"{path}/net")
            made.save_states(f"{path}/states")
        RANKS.barrier()
        again = dense()
        again.load_parameters(f"{path}/net")
        other = gluon.Trainer(again.collect_params(), "adam", {"learning_rate": 0.1}, "dist_sync")
        other.load_states(f"{path}/states")
        RANKS.barrier()
    for x, y in data[3:]:
        step_of(net, made, *part(x, y))
        step_of(again, other, *part(x, y))
    for a, b in zip(net.collect_params().values(), again.collect_params().values(), strict=True):
        same(a.data(), b.data(), 0)


# --- Module and estimator -------------------------------------------------------------------------------------


def symbol():
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16, name="a")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=CLASSES, name="b")
    return mx.sym.SoftmaxOutput(x, name="softmax")


@case
def module():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((64, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, 64).astype(np.float32)
    own = np.concatenate(
        [np.arange(i + RANK * BATCH // SIZE, i + (RANK + 1) * BATCH // SIZE) for i in range(0, 64, BATCH)]
    )

    def fit(kvstore, context, seed):
        mx.random.seed(seed)
        rows, count = (slice(None), BATCH) if kvstore is None else (own, BATCH // SIZE)
        made = mx.mod.Module(symbol(), context=context)
        data = mx.io.NDArrayIter(x[rows], y[rows], count)
        made.fit(
            data, num_epoch=3, optimizer="adam", optimizer_params={"learning_rate": 0.02}, kvstore=kvstore,
            initializer=mx.init.Xavier(),
        )  # fmt: skip
        return made.get_params()[0]

    expected = fit(None, mx.cpu(), 4)
    for kvstore in ("dist_sync", "dist", "horovod", "p3"):
        for context in (mx.cpu(), TWO):
            found = fit(kvstore, context, 4 + RANK)
            for name, value in expected.items():
                same(found[name], value, 2e-6)
                equal_on_ranks(found[name])


@case
def estimator():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((64, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, 64).astype(np.float32)
    own = np.concatenate(
        [np.arange(i + RANK * BATCH // SIZE, i + (RANK + 1) * BATCH // SIZE) for i in range(0, 64, BATCH)]
    )
    nets, measured = [], []
    for kvstore in ("device", "dist_sync"):
        over = kvstore != "device"
        mx.random.seed(9 + RANK * over)
        net = dense()
        made = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore=kvstore)
        rows, count = (own, BATCH // SIZE) if over else (np.arange(64), BATCH)
        loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x[rows], y[rows]), count)
        trained = Estimator(net, LOSS, trainer=made, context=mx.cpu())
        trained.logger.handlers.clear()
        trained.fit(loader, loader, epochs=3)
        nets.append(net)
        measured.append([metric.get()[1] for metric in [*trained.train_metrics, *trained.val_metrics]])
    np.testing.assert_allclose(measured[1], measured[0], rtol=1e-6)  # those of all ranks
    for a, b in zip(*(net.collect_params().values() for net in nets), strict=True):
        same(b.data(), a.data(), 2e-6)
        equal_on_ranks(b.data())


@case
def feed_forward():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((64, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, 64).astype(np.float32)
    own = np.concatenate(
        [np.arange(i + RANK * BATCH // SIZE, i + (RANK + 1) * BATCH // SIZE) for i in range(0, 64, BATCH)]
    )
    found = []
    for kvstore, rows, count in (("local", slice(None), BATCH), ("dist_sync", own, BATCH // SIZE)):
        mx.random.seed(4 + (RANK if kvstore != "local" else 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made = mx.model.FeedForward(symbol(), num_epoch=2, learning_rate=0.1, initializer=mx.init.Xavier())
        made.fit(mx.io.NDArrayIter(x[rows], y[rows], count, label_name="softmax_label"), kvstore=kvstore)
        found.append(made.arg_params)
    for name, value in found[0].items():
        same(found[1][name], value, 2e-6)
        equal_on_ranks(found[1][name])


@case
def frozen_parameters():
    """Layers of equal shapes are frozen in turn: each gradient has memory of its own."""
    net = nn.Sequential(prefix="frozen_")
    with net.name_scope():
        net.add(*(nn.Dense(3, in_units=3, use_bias=False) for _ in range(3)))
    net.initialize(mx.init.One())
    made = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="dist_sync")
    expected = [1.0, 1.0, 1.0]
    for frozen in (0, 1, 2, None):
        for i, block in enumerate(net):
            block.weight.grad_req = "null" if i == frozen else "write"
        with autograd.record():
            y = sum((i + 1) * block.weight.data().sum() for i, block in enumerate(net))
        y.backward()
        made.step(1)
        for i, block in enumerate(net):
            expected[i] -= 0 if i == frozen else (i + 1) * SIZE
            same(block.weight.data(), np.full((3, 3), expected[i]))
    memories = [block.weight.grad()._data for block in net]
    assert not any(np.shares_memory(a, b) for a in memories for b in memories if a is not b)


@case
def arrays_on_gpus():
    for kvstore in ("nccl", "dist_sync"):
        for on_store in (False, True):
            net = nn.Dense(2, in_units=3, prefix="gpu_")
            net.initialize(mx.init.One(), ctx=mx.gpu(0))
            options = {"learning_rate": 0.5, "momentum": 0.9}
            made = gluon.Trainer(net.collect_params(), "sgd", options, kvstore, update_on_kvstore=on_store)
            weight, momentum = 1.0, 0.0
            for _ in range(3):
                with autograd.record():
                    y = net(nd.ones((1, 3), ctx=mx.gpu(0))).sum()
                y.backward()
                made.step(1)
                momentum = 0.9 * momentum - 0.5 * SIZE
                weight += momentum
            same(net.weight.data(), np.full((2, 3), weight))
            assert net.weight.data().context == mx.gpu(0)


@case
def half_precision():
    """An overflow on one rank keeps all from the step; gradients of float16 are summed in float32."""
    amp.init()
    net = nn.Dense(2, in_units=2, prefix="amp_", use_bias=False)
    net.initialize(mx.init.One())
    made = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1}, "dist_sync", update_on_kvstore=False)
    amp.init_trainer(made)
    for step in range(4):
        x = nd.ones((1, 2)) * (np.inf if step == 0 and RANK == SIZE - 1 else 1)
        with autograd.record():
            y = net(x).sum()
            with amp.scale_loss(y, made) as scaled:
                autograd.backward(scaled)
        made.step(1)
        scales = RANKS.gather_objects(made._amp_loss_scaler._next_loss_scale)
        assert len(set(scales)) == 1
        assert step > 0 or scales[0] == 2.0**15  # halved by the overflow
        equal_on_ranks(net.weight.data())
        assert step > 0 or np.all(net.weight.data().asnumpy() == 1)
    moved = 1 - net.weight.data().asnumpy()
    assert moved[0, 0] in (SIZE, 2 * SIZE, 3 * SIZE), moved
    half = nn.Dense(2, in_units=2, prefix="half_", use_bias=False, dtype="float16")
    half.initialize(mx.init.One())
    made = gluon.Trainer(half.collect_params(), "sgd", {"learning_rate": 1, "multi_precision": True}, "dist_sync")
    with autograd.record():
        y = half(nd.full((1, 2), 0.25 * (RANK + 1), dtype="float16"))
    y.backward()
    made.step(1)
    same(half.weight.data(), np.full((2, 2), 1 - 0.25 * sum(range(1, SIZE + 1))), 1e-3)


if __name__ == "__main__":
    for each in sys.argv[1:] or CASES:
        CASES[each]()
        if RANK == 0:
            sys.stdout.write(f"{each} passed\n")
            sys.stdout.flush()
