"""Training by hvd on shards of the data; rank 0 prints what results, for comparison with one process on all of it.

Arguments: how (trainer, module, step, or loop), and options as a JSON dict.
"""

import json
import sys

import numpy as np

import hybridc as mx
from hybridc import gluon
from hybridc import horovod as hvd

BATCH, FEATURES, CLASSES, STEPS = 8, 6, 3, 5


def data(step):
    rng = np.random.RandomState(step)
    return rng.standard_normal((BATCH, FEATURES)).astype("float32"), rng.randint(0, CLASSES, BATCH)


def network(deferred, rank):
    mx.random.seed(100 + rank)  # other parameters on each rank, until they are broadcast
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(7, activation="tanh", in_units=0 if deferred else FEATURES))
        net.add(gluon.nn.Dense(CLASSES, in_units=0 if deferred else 7))
    net.initialize(mx.init.Xavier())
    return net


def main(how, options):
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    optimizer, settings = options.get("optimizer", "sgd"), {"learning_rate": 0.1, **options.get("settings", {})}
    if how == "set":
        return of_a_set()
    if how == "module":
        return by_module(rank, size, optimizer, settings)
    net = network(options.get("deferred", False), rank)
    if options.get("hybridize"):
        net.hybridize()
    params = net.collect_params()
    hvd.broadcast_parameters(params, root_rank=0)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    if how == "loop":
        updater = mx.optimizer.get_updater(hvd.DistributedOptimizer(mx.optimizer.create(optimizer, **settings)))
        updater.optimizer.rescale_grad /= BATCH // size
    else:
        trainer_options = {k: v for k, v in options.items() if k in ("gradient_predivide_factor", "num_groups")}
        if options.get("fp16"):
            trainer_options["compression"] = hvd.Compression.fp16
        trainer = hvd.DistributedTrainer(params, optimizer, settings, **trainer_options)
        step = gluon.TrainStep(net, loss_of, trainer)
    for number in range(STEPS):
        x, y = (mx.nd.array(part[mine]) for part in data(number))
        if how == "step":
            step(x, y)
            continue
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        if how == "loop":
            named = [*params.values()]
            updater([*range(len(named))], [p.grad() for p in named], [p.data() for p in named])
        else:
            trainer.step(BATCH // size)
    return [p.data().asnumpy().tolist() for p in params.values()]


def of_a_set():
    """Ranks 0 and 2 of 3 train by a compiled step, as they do by ``trainer.step``; rank 1 trains alone."""
    hvd.init()
    pair = hvd.add_process_set([0, 2])
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    mine = slice(hvd.rank() * 2, hvd.rank() * 2 + 2)
    for options, by in (({}, 1e-6), ({"compression": hvd.Compression.fp16}, 1e-4)):
        results = []
        for compiled in (True, False):
            net = network(False, 0)
            params = net.collect_params()
            trainer = hvd.DistributedTrainer(params, "sgd", {"learning_rate": 0.1}, process_set=pair, **options)
            step = gluon.TrainStep(net, loss_of, trainer)
            for number in range(STEPS):
                x, y = (mx.nd.array(part[mine]) for part in data(number))
                if compiled:
                    step(x, y)
                    continue
                with mx.autograd.record():
                    loss = loss_of(net(x), y)
                loss.backward()
                trainer.step(2)
            results.append(np.concatenate([p.data().asnumpy().reshape(-1) for p in params.values()]))
        np.testing.assert_allclose(*results, rtol=by, atol=by)
        every = hvd.allgather_object(results[0])
        np.testing.assert_array_equal(every[0], every[2])
        assert np.abs(every[0] - every[1]).max() > 1e-3
    return []


def by_module(rank, size, optimizer, settings):
    mx.random.seed(100 + rank)
    batch = BATCH // size
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=7), act_type="tanh")
    out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=CLASSES), mx.sym.var("label"))
    module = mx.mod.Module(out, label_names=["label"])
    module.bind([("data", (batch, FEATURES))], [("label", (batch,))])
    module.init_params(mx.init.Xavier())
    arg, aux = module.get_params()
    hvd.broadcast_parameters(arg)
    hvd.broadcast_parameters(aux)
    module.set_params(arg, aux)
    made = mx.optimizer.create(optimizer, rescale_grad=1 / batch, **settings)
    module.init_optimizer(kvstore=None, optimizer=hvd.DistributedOptimizer(made))
    for number in range(STEPS):
        x, y = (mx.nd.array(part[rank * batch : (rank + 1) * batch]) for part in data(number))
        module.forward_backward(mx.io.DataBatch([x], [y]))
        module.update()
    arg, _ = module.get_params()
    return [arg[name].asnumpy().tolist() for name in sorted(arg)]


if __name__ == "__main__":
    result = main(sys.argv[1], json.loads(sys.argv[2]))
    every = hvd.allgather_object(result)
    assert all(each == every[0] for each in every), "ranks have different parameters"
    print(f"[rank {hvd.rank()}] {json.dumps(result) if hvd.rank() == 0 else 'ok'}\n", end="", flush=True)
