"""The estimator: fit, evaluate, handlers, checkpoints, resuming, early stopping, a batch processor."""

import logging
import os
import re
import tempfile
import warnings

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon.contrib.estimator import (
    BatchProcessor,
    CheckpointHandler,
    EarlyStoppingHandler,
    Estimator,
    LoggingHandler,
    event_handler,
)

warnings.simplefilter("ignore")
rng = np.random.RandomState(2)
inputs = rng.normal(size=(60, 5)).astype("float32")
labels = (inputs @ rng.normal(size=(5, 3))).argmax(axis=1).astype("float32")
weights = [rng.normal(0, 0.3, shape) for shape in ((8, 5), (8,), (3, 8), (3,))]
train_data = gluon.data.DataLoader(gluon.data.ArrayDataset(inputs[:40], labels[:40]), batch_size=10)
val_data = gluon.data.DataLoader(gluon.data.ArrayDataset(inputs[40:], labels[40:]), batch_size=10)


class Lines(logging.Handler):
    """Prints what is logged, without times and folders."""

    def emit(self, record):
        text = re.sub(r"\d+\.\d+s", "TIME", record.getMessage())
        print("log:", re.sub(r"total \d+s", "total TIME", text).replace(folder, "FOLDER"))


def estimator(ctx=mx.cpu(), lr=0.2, **kwargs):
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(8, activation="relu", in_units=5), gluon.nn.Dense(3, in_units=8))
    net.initialize(ctx=ctx)
    for p, w in zip(net.collect_params().values(), weights):
        p.set_data(nd.array(w))
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": lr, "momentum": 0.5})
    kwargs.setdefault("train_metrics", [mx.metric.Accuracy(), mx.metric.Loss("loss")])
    made = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, context=ctx, **kwargs)
    made.logger.handlers = [Lines()]
    return made


def show(title, est):
    values = [(name, round(float(value), 4)) for name, value in (m.get() for m in est.train_metrics + est.val_metrics)]
    print(title, values)


folder = tempfile.mkdtemp()
est = estimator()
print("metrics", [m.name for m in est.train_metrics], [m.name for m in est.val_metrics])
est.fit(train_data, val_data, epochs=2)
show("two epochs", est)
est.evaluate(val_data)
show("evaluated", est)

est = estimator()
est.fit(train_data, val_data, batches=6, event_handlers=[LoggingHandler(log_interval=2, metrics=est.train_metrics)])
show("six batches", est)

est = estimator(ctx=[mx.cpu(0), mx.cpu(1)])
est.fit(train_data, epochs=2)
show("two devices", est)
print("devices", est.net[0].weight.list_ctx())

# Checkpoints, and going on where they end.
est = estimator()
handler = CheckpointHandler(
    folder, model_prefix="cnn", monitor=est.val_metrics[0], save_best=True, mode="max", max_checkpoints=2
)
est.fit(train_data, val_data, epochs=3, event_handlers=handler)
print("files", sorted(os.listdir(folder)))
final = [p.data().asnumpy() for p in est.net.collect_params().values()]

resumed = estimator()
handler = CheckpointHandler(folder, model_prefix="cnn", resume_from_checkpoint=True)
resumed.fit(train_data, epochs=5, event_handlers=handler)
straight = estimator()
straight.fit(train_data, epochs=5)
print("resumed", sorted(f for f in os.listdir(folder) if "epoch" in f))
pairs = zip(resumed.net.collect_params().values(), straight.net.collect_params().values())
print("as if it had not stopped", all(np.allclose(a.data().asnumpy(), b.data().asnumpy(), atol=1e-5) for a, b in pairs))

# Early stopping.
est = estimator(lr=0.0)
stopping = EarlyStoppingHandler(monitor=est.train_metrics[0], patience=2, mode="max")
est.fit(train_data, epochs=20, event_handlers=stopping)
print("stopped after", stopping.current_epoch, "epochs at", stopping.stopped_epoch)


# Handlers and processors of one's own.
class Count(event_handler.EpochBegin, event_handler.BatchEnd, event_handler.TrainEnd):
    def __init__(self):
        self.batches = self.epochs = 0

    def epoch_begin(self, estimator, *args, **kwargs):
        self.epochs += 1

    def batch_end(self, estimator, *args, **kwargs):
        self.batches += 1
        return self.batches % 3 == 0  # ends the epoch

    def train_end(self, estimator, *args, **kwargs):
        print("counted", self.epochs, self.batches)


class HalfLoss(BatchProcessor):
    def fit_batch(self, estimator, train_batch, batch_axis=0):
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y_hat, y) * 0.5 for y_hat, y in zip(pred, label)]
        for l in loss:
            l.backward()
        return data, label, pred, loss


est = estimator(batch_processor=HalfLoss())
est.fit(train_data, epochs=2, event_handlers=[Count()])
show("half", est)

for bad in (
    lambda: est.fit(inputs, epochs=1),
    lambda: est.fit(train_data),
    lambda: Estimator(est.net, "loss"),
    lambda: Estimator(est.net, est.loss, train_metrics="acc"),
    lambda: est.fit(train_data, epochs=1, event_handlers=["handler"]),
    lambda: EarlyStoppingHandler("acc"),
    lambda: CheckpointHandler(folder, save_best=True),
    lambda: LoggingHandler(log_interval="batch"),
):
    try:
        bad()
    except ValueError as error:
        print("refused", type(error).__mro__[-3].__name__)
