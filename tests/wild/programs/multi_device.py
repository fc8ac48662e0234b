"""Training on several devices: batches are split, each device has its parameters, gradients are summed."""

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

rng = np.random.RandomState(5)
ctx_list = [mx.cpu(0), mx.cpu(1), mx.cpu(2)]
inputs = rng.normal(size=(48, 6)).astype("float32")
labels = (inputs @ rng.normal(size=(6, 3))).argmax(axis=1)
weights = [rng.normal(0, 0.3, shape) for shape in ((8, 6), (8,), (3, 8), (3,))]

parts = gluon.utils.split_and_load(inputs[:8], ctx_list, even_split=False)
print("parts", [(p.shape, str(p.context)) for p in parts])
print("copies", str(parts[0].copyto(ctx_list[2]).context), str((parts[1] * 2).context), str(parts[2].T.context))


def build(ctx):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh", in_units=6), nn.Dense(3, in_units=8))
    net.initialize(ctx=ctx)
    for p, w in zip(net.collect_params().values(), weights):
        p.set_data(nd.array(w))
    return net


def train(ctx, hybridize, **options):
    net = build(ctx)
    if hybridize:
        net.hybridize()
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3, "momentum": 0.9}, **options)
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(inputs, labels.astype("float32")), batch_size=24)
    metric = mx.metric.Accuracy()
    for epoch in range(3):
        metric.reset()
        for batch in data:
            xs = gluon.utils.split_and_load(batch[0], ctx)
            ys = gluon.utils.split_and_load(batch[1], ctx)
            with autograd.record():
                outputs = [net(x) for x in xs]
                losses = [loss_fn(out, y) for out, y in zip(outputs, ys)]
            for loss in losses:
                loss.backward()
            trainer.step(batch[0].shape[0])
            metric.update(ys, outputs)
        print(
            "epoch %d: acc %.4f, losses %s" % (epoch, metric.get()[1], ["%.4f" % l.mean().asscalar() for l in losses])
        )
    print("devices", net[0].weight.list_ctx(), [str(w.context) for w in net[0].weight.list_data()])
    return net


one = train([mx.cpu()], False)
three = train(ctx_list, False)
hybrid = train(ctx_list, True)
apart = train(ctx_list, True, update_on_kvstore=False)
local = train(ctx_list[:2], True, kvstore="local")


def difference(a, b):
    pairs = zip(a.collect_params().values(), b.collect_params().values())
    return max(float(abs(p.list_data()[-1].asnumpy() - q.list_data()[0].asnumpy()).max()) for p, q in pairs)


print("equal", [difference(other, one) < 1e-4 for other in (three, hybrid, apart, local)])
for ctx in ctx_list:
    print("output on", ctx, three(nd.array(inputs[:2], ctx=ctx)).asnumpy().round(4).tolist())
try:
    three(nd.array(inputs[:2], ctx=mx.cpu(7)))
except RuntimeError as error:
    print("refused", "was not initialized on context cpu(7)" in str(error))

# The norm of gradients over all devices, and a clipped step.
grads = [p.list_grad()[0] for p in three.collect_params().values()]
norm = gluon.utils.clip_global_norm(grads, 0.01)
print("clipped", norm > 0.01, round(float(sum((g.norm() ** 2).asscalar() for g in grads) ** 0.5), 5))

three.collect_params().reset_ctx([mx.cpu(1)])
print("moved", three.collect_params().list_ctx() if hasattr(three.collect_params(), "list_ctx") else None)
print("moved", three(nd.array(inputs[:1], ctx=mx.cpu(1))).context)
