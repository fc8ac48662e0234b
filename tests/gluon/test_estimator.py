"""Handlers of estimators; whole programs, compared with MXNet, are in tests/wild."""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon, nd
from hybridc.gluon.contrib import estimator as est

CPU = mx.cpu()


def loader(count=12, batch_size=4):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 3)).astype("float32")
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x, (x.sum(axis=1) > 0).astype("float32")), batch_size)


def made(lr=0.1, context=CPU, **kwargs):
    mx.random.seed(0)
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": lr})
    found = est.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, context=context, **kwargs)
    found.logger.handlers = [logging.NullHandler()]
    return found


class Calls(est.TrainBegin, est.TrainEnd, est.EpochBegin, est.EpochEnd, est.BatchBegin, est.BatchEnd):
    """Notes all events, and the priority in which they reach it."""

    def __init__(self, calls, name, priority=0, stops_at=None):
        self.calls, self.name, self.priority, self.stops_at = calls, name, priority, stops_at

    def _note(self, event):
        self.calls.append((self.name, event))
        return len(self.calls) == self.stops_at

    def train_begin(self, estimator, *args, **kwargs):
        self._note("train_begin")

    def train_end(self, estimator, *args, **kwargs):
        self._note("train_end")

    def epoch_begin(self, estimator, *args, **kwargs):
        self._note("epoch_begin")

    def epoch_end(self, estimator, *args, **kwargs):
        return self._note("epoch_end")

    def batch_begin(self, estimator, *args, **kwargs):
        assert len(kwargs["batch"]) == 2
        self._note("batch_begin")

    def batch_end(self, estimator, *args, **kwargs):
        assert {"batch", "pred", "label", "loss"} <= kwargs.keys()
        return self._note("batch_end")


def test_events_come_in_order_and_by_priority():
    calls = []
    made().fit(loader(8), epochs=2, event_handlers=[Calls(calls, "late", 5), Calls(calls, "early", -5)])
    assert [event for name, event in calls if name == "late"] == [
        "train_begin",
        *["epoch_begin", *["batch_begin", "batch_end"] * 2, "epoch_end"] * 2,
        "train_end",
    ]
    assert [name for name, _ in calls] == ["early", "late"] * (len(calls) // 2)


def test_a_handler_ends_the_epoch_or_training():
    calls = []
    made().fit(loader(), epochs=2, event_handlers=Calls(calls, "", stops_at=4))  # at the first batch's end
    assert [event for _, event in calls].count("batch_end") == 1 + 3
    calls = []
    made().fit(loader(4), epochs=9, event_handlers=Calls(calls, "", stops_at=5))  # at the first epoch's end
    assert [event for _, event in calls][-2:] == ["epoch_end", "train_end"]
    assert len(calls) == 6


def test_batches_count_over_epochs():
    found = made()
    calls = []
    found.fit(loader(), batches=5, event_handlers=[Calls(calls, "")])
    assert [event for _, event in calls].count("batch_end") == 5
    assert [event for _, event in calls].count("epoch_end") == 2
    assert (found.max_epoch, found.max_batch) == (None, 5)


def test_methods_for_batches_may_be_overridden():
    class Mine(est.Estimator):
        def fit_batch(self, train_batch, batch_axis=0):
            data, label, pred, loss = super().fit_batch(train_batch, batch_axis)
            seen.append(len(data))
            return data, label, pred, loss

        def evaluate_batch(self, val_batch, batch_axis=0):
            seen.append("evaluated")
            return super().evaluate_batch(val_batch, batch_axis)

    seen = []
    net = gluon.nn.Dense(2)
    with pytest.warns(UserWarning, match="default SGD optimizer with learning rate 0.001"):
        found = Mine(net, gluon.loss.SoftmaxCrossEntropyLoss(), initializer=mx.init.Xavier(), context=mx.cpu(1))
    found.logger.handlers = [logging.NullHandler()]
    found.fit(loader(8), loader(4), epochs=1)
    assert seen == [1, 1, "evaluated"]
    assert net.weight.list_ctx() == [mx.cpu(1)]


def test_validation_after_batches_and_epochs():
    seen = []
    handler = est.ValidationHandler("data", lambda **kwargs: seen.append(kwargs), epoch_period=2, batch_period=2)
    found = made()
    found.fit(loader(), epochs=4, event_handlers=[handler], batch_axis=0)
    assert len(seen) == 12 // 2 + 4 // 2
    assert seen[0] == {"val_data": "data", "batch_axis": 0, "event_handlers": None}


def test_metrics_are_named_and_copied():
    found = made(train_metrics=mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.MSE(name="mine")]))
    assert [m.name for m in found.train_metrics] == ["training accuracy", "training mine"]
    assert [m.name for m in found.val_metrics] == ["validation accuracy", "validation mine"]
    default = est.Estimator(
        found.net, gluon.loss.L2Loss(prefix="l2loss3_"), trainer=found.trainer, val_metrics=[mx.metric.MAE()]
    )
    assert [m.name for m in default.train_metrics] == ["training l2loss"]
    assert [m.name for m in default.val_metrics] == ["validation mae"]
    with pytest.raises(ValueError, match="outside of the known training and validation metrics"):
        found.fit(loader(), epochs=1, event_handlers=est.MetricHandler([mx.metric.Accuracy()]))


def test_the_log_has_metrics_at_intervals():
    lines = []
    found = made()
    found.logger.handlers = [handler := logging.Handler()]
    handler.emit = lambda record: lines.append(record.getMessage())
    found.fit(loader(20), epochs=1, event_handlers=est.LoggingHandler(2, found.train_metrics))
    batches = [line for line in lines if "[Batch" in line]
    assert [line.partition(" time")[0] for line in batches] == [
        f"[Epoch 0][Batch {i}][Samples {4 * i + 4}]" for i in (0, 2, 4)
    ]
    assert all("training accuracy: " in line for line in batches)
    assert lines[-1].startswith("Train finished using total 0s with 1 epochs. training accuracy: ")


def test_checkpoints_by_batches_are_resumed(tmp_path):
    def handler(**kwargs):
        return est.CheckpointHandler(str(tmp_path), "m", epoch_period=None, batch_period=2, max_checkpoints=2, **kwargs)

    made().fit(loader(), batches=7, event_handlers=handler())
    names = ["m-epoch1batch3", "m-epoch1batch5"]
    assert sorted(os.listdir(tmp_path)) == sorted(f"{n}.{s}" for n in names for s in ("params", "states"))
    again = made(lr=5.0)
    again.fit(loader(), batches=10, event_handlers=handler(resume_from_checkpoint=True))
    assert again.max_batch == 10 - 5 - 1
    assert again.trainer.learning_rate == 0.1  # of the file
    # The numbers go on: two batches after the fifth, and two more.
    assert sorted({name.partition(".")[0] for name in os.listdir(tmp_path)}) == ["m-epoch2batch7", "m-epoch3batch9"]
    with pytest.raises(ValueError, match="maximum number of batch 10 reached"):
        made().fit(loader(), batches=10, event_handlers=handler(resume_from_checkpoint=True))
    with pytest.raises(AssertionError, match="only specify the same type of period"):
        made().fit(loader(), epochs=10, event_handlers=handler(resume_from_checkpoint=True))
    (tmp_path / "m-epochXbatch3.params").write_bytes(b"")
    with pytest.raises(ValueError, match="m-epochXbatch3"):
        made().fit(loader(), batches=20, event_handlers=handler(resume_from_checkpoint=True))


def test_old_checkpoints_do_not_take_others_with_them(tmp_path):
    handler = est.CheckpointHandler(str(tmp_path), epoch_period=None, batch_period=1, max_checkpoints=11)
    made().fit(loader(48), batches=12, event_handlers=handler)  # of the batches 0 … 11, 0 goes
    kept = [f"model-epoch0batch{i}" for i in range(1, 12)]
    assert sorted(os.listdir(tmp_path)) == sorted(f"{n}.{s}" for n in kept for s in ("params", "states"))


def test_the_best_checkpoint_and_the_symbol(tmp_path):
    found = made()
    found.net.hybridize()
    values = iter([0.0, 0.5, 0.3, 0.4, 0.2])  # the first is asked for the name
    monitor = found.train_metrics[1]
    monitor.get = lambda: ("loss", next(values))
    saved = []
    found.net.save_parameters = lambda name: saved.append(os.path.basename(name))
    with pytest.warns(UserWarning, match="`less` operator"):
        handler = est.CheckpointHandler(str(tmp_path), "m", monitor=monitor, save_best=True)
    found.fit(loader(4), epochs=4, event_handlers=[handler, est.LoggingHandler(metrics=[]), est.MetricHandler([])])
    assert [name for name in saved if "best" in name] == ["m-best.params"] * 3
    assert mx.sym.load(str(tmp_path / "m-symbol.json")).list_arguments() == ["data", *found.net.collect_params().keys()]


@pytest.mark.parametrize(
    ("mode", "values", "options", "epochs"),
    [
        ("max", [0.1, 0.2, 0.2, 0.1, 0.9], {"patience": 2}, 4),
        ("min", [0.5, 0.4, 0.39, 0.2, 0.1], {"min_delta": 0.05, "patience": 1}, 3),
        ("max", [0.1, 0.2, 0.3, 0.4, 0.5], {"baseline": 0.25, "patience": 2}, 2),
        ("auto", [0.1, 0.2, 0.3, 0.2, 0.1], {"patience": 1}, 4),
    ],
)
@pytest.mark.filterwarnings("ignore:`greater` operator")
def test_training_ends_early(mode, values, options, epochs):
    metric = mx.metric.Accuracy()
    metric.get = iter([("acc", 0.0), *[("acc", value) for value in values]]).__next__ if mode == "auto" else None
    if mode != "auto":
        metric.get = iter([("acc", value) for value in values]).__next__
    handler = est.EarlyStoppingHandler(metric, mode=mode, **options)
    handler.train_begin(None)
    ends = []
    while not (ends and ends[-1]):
        ends.append(handler.epoch_end(None))
    assert len(ends) == epochs
    assert handler.stopped_epoch == epochs - 1


def test_bad_arguments_are_refused():
    net, loss = gluon.nn.Dense(2, in_units=3), gluon.loss.L2Loss()
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    for options, message in [
        ({"loss": "l2"}, "loss must be a Loss"),
        ({"context": "cpu"}, "context must be a Context or a list"),
        ({"trainer": "sgd"}, "Trainer must be a Gluon Trainer"),
        ({"val_metrics": ["acc"]}, "metrics must be a Metric"),
        ({"batch_processor": object()}, "fit_batch"),
    ]:
        with pytest.raises(ValueError, match=message):
            est.Estimator(net, **{"loss": loss, "trainer": trainer, **options})
    with pytest.raises(AssertionError, match=r"gpu\(7\) is not available"):
        est.Estimator(net, loss, trainer=trainer, context=mx.gpu(7))
    with pytest.warns(UserWarning, match="already fully initialized"):
        est.Estimator(net, loss, trainer=trainer, initializer=mx.init.Xavier())
    found = made()
    with pytest.raises(ValueError, match=r"only support input as Gluon DataLoader.*got NDArray"):
        found.evaluate(nd.ones((2, 3)))
    with pytest.raises(ValueError, match="one and only one of: epochs or batches"):
        found.fit(loader(), epochs=1, batches=1)
    with pytest.raises(ValueError, match="CompositeEvalMetric is not supported"):
        est.EarlyStoppingHandler(mx.metric.CompositeEvalMetric())
    with pytest.raises(ValueError, match="provide one of the metric objects"):
        est.CheckpointHandler("folder", save_best=True)
    assert not os.path.exists("folder")
    with pytest.raises(AttributeError, match="did you mean Estimator"):
        est.Estimater  # noqa: B018
