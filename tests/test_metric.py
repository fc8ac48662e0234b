"""Metrics against MXNet 1.9.1, and against formulas of their own where MXNet fails."""

import math
import pathlib
import sys

import numpy as np
import pytest

import hybridc as mx

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "golden"))
import frontend_cases as cases  # noqa: E402

GOLDEN = np.load(HERE / "golden" / "frontend.npz")


@pytest.mark.parametrize("name", cases.METRICS)
def test_values_are_those_of_mxnet(name):
    make, batches = cases.METRICS[name]
    metric = make(mx)
    for i, (labels, preds) in enumerate(batches):
        metric.update([mx.nd.array(x) for x in labels], [mx.nd.array(x) for x in preds])
        np.testing.assert_allclose(np.atleast_1d(metric.get()[1]), GOLDEN[f"metric/{name}"][i], rtol=1e-6, atol=1e-9)
    assert all(type(value) is float for _, value in metric.get_name_value())


@pytest.mark.parametrize("name", cases.METRICS)
def test_numpy_arrays_and_single_arrays_are_taken(name):
    make, batches = cases.METRICS[name]
    batches = [b for b in batches if len(b[0]) == 1]
    single, wrapped = make(mx), make(mx)
    for labels, preds in batches:
        wrapped.update([mx.nd.array(x) for x in labels], [mx.nd.array(x) for x in preds])
        if name.startswith("perplexity"):
            single.update(labels, preds)
        else:
            single.update(labels[0], preds[0])
    np.testing.assert_allclose(single.get()[1], wrapped.get()[1], rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in cases.METRICS if not n.startswith("custom")])
def test_config_makes_the_metric_again(name):
    make, batches = cases.METRICS[name]
    metric = make(mx)
    again = mx.metric.create(**metric.get_config())
    assert type(again) is type(metric)
    assert again.get_config() == metric.get_config()
    for m in (metric, again):
        m.update([mx.nd.array(x) for x in batches[0][0]], [mx.nd.array(x) for x in batches[0][1]])
    assert metric.get() == again.get()


@pytest.mark.parametrize("name", cases.METRICS)
def test_reset_and_reset_local(name):
    make, batches = cases.METRICS[name]
    metric, fresh = make(mx), make(mx)
    for labels, preds in batches:
        metric.update([mx.nd.array(x) for x in labels], [mx.nd.array(x) for x in preds])
    everything = metric.get()
    metric.reset_local()
    np.testing.assert_array_equal(metric.get()[1], fresh.get()[1])
    np.testing.assert_allclose(metric.get_global()[1], everything[1], rtol=1e-12)
    assert np.all(np.isnan(metric.get()[1]))
    metric.reset()
    assert np.all(np.isnan(metric.get_global()[1]))


def test_micro_pearson_is_that_of_all_data():
    rng = np.random.default_rng(3)
    labels = [rng.normal(size=n) + 100 for n in (4, 1, 9)]
    preds = [x + rng.normal(size=x.shape) for x in labels]
    metric = mx.metric.PearsonCorrelation(average="micro")
    for x, y in zip(labels, preds):
        metric.update([x], [y])
    want = np.corrcoef(np.concatenate(labels), np.concatenate(preds))[0, 1]
    assert metric.get()[1] == pytest.approx(want, rel=1e-9)


def test_f1_by_hand():
    metric = mx.metric.create("f1")
    metric.update([mx.nd.array([0, 1, 1])], [mx.nd.array([[0.3, 0.7], [0.0, 1.0], [0.4, 0.6]])])
    assert metric.get() == ("f1", pytest.approx(0.8))


def test_top_k_with_fewer_classes_counts_everything():
    metric = mx.metric.TopKAccuracy(top_k=5)
    metric.update([np.array([0, 1])], [np.array([[0.4, 0.6], [0.9, 0.1]])])
    assert metric.get() == ("top_k_accuracy_5", 1.0)


def test_perplexity_of_a_uniform_guess_is_the_number_of_classes():
    metric = mx.metric.create("perplexity", ignore_label=-1)
    metric.update([mx.nd.array([[0, 1, -1]])], [mx.nd.full((1, 3, 4), 0.25)])
    assert metric.get()[1] == pytest.approx(4)
    assert metric.num_inst == 2


def test_update_dict_chooses_by_name():
    metric = mx.metric.create("mae", output_names=["out"], label_names=["y"])
    one, two = mx.nd.array([1.0]), mx.nd.array([2.0])
    metric.update_dict({"y": one, "z": two}, {"extra": one, "out": two})
    assert metric.get() == ("mae", 1.0)
    both = mx.metric.CompositeEvalMetric([mx.metric.MAE(), "mse"], label_names=["y"], output_names=["out"])
    both.update_dict({"y": one, "z": two}, {"out": mx.nd.array([4.0]), "extra": one})
    assert both.get() == (["mae", "mse"], [3.0, 9.0])
    assert both.get_name_value() == [("mae", 3.0), ("mse", 9.0)]


def test_create_takes_functions_lists_classes_and_objects():
    def furthest(label, pred):
        return float(np.abs(label - pred).max())

    metric = mx.metric.create([furthest, "acc", mx.metric.MSE, mx.metric.Loss(name="mine")])
    assert metric.get()[0] == ["furthest", "accuracy", "mse", "mine"]
    assert mx.metric.create(lambda a, b: 0.0).name == "custom(<lambda>)"
    assert metric.get_metric(1).name == "accuracy"


def test_a_functions_arrays_are_its_own():
    def rude(label, pred):
        label[:] = -1
        return float(pred.sum())

    label = mx.nd.array([1.0])
    mx.metric.np(rude).update([label], [label])
    assert label.asscalar() == 1.0


def test_registered_metrics_are_created_by_name():
    @mx.metric.register
    @mx.metric.alias("my_other_name")
    class MyOwnMetric(mx.metric.EvalMetric):
        def __init__(self, name="own", **kwargs):
            super().__init__(name, **kwargs)

        def measure(self, label, pred):
            return float(pred.max()), 1

    for name in ("myownmetric", "my_other_name"):
        metric = mx.metric.create(name)
        metric.update([mx.nd.array([1.0])], [mx.nd.array([5.0])])
        assert metric.get() == ("own", 5.0)
        assert str(metric) == "EvalMetric: {'own': 5.0}"


def test_nothing_seen_is_nan():
    name, value = mx.metric.Accuracy().get()
    assert (name, math.isnan(value)) == ("accuracy", True)


ERRORS = [
    (lambda: mx.metric.create("acuracy"), RuntimeError, "unknown metric 'acuracy'; known are"),
    (lambda: mx.metric.create(3), RuntimeError, "cannot make a metric from 3"),
    (lambda: mx.metric.TopKAccuracy(), ValueError, "use Accuracy for 1"),
    (lambda: mx.metric.F1(average="median"), ValueError, "'macro' or 'micro'"),
    (lambda: mx.metric.CompositeEvalMetric().get_metric(0), ValueError, "out of range"),
    (lambda: mx.metric.Accuracy().update([np.ones(2)], []), ValueError, "does not match"),
    (lambda: mx.metric.Accuracy().update([np.ones(2)], [np.ones((3, 2))]), ValueError, "does not match"),
    (lambda: mx.metric.F1().update([np.arange(3)], [np.ones((3, 2))]), ValueError, "binary"),
    (lambda: mx.metric.EvalMetric("x").update([np.ones(2)], [np.ones(2)]), NotImplementedError, "defines neither"),
    (lambda: mx.metric.CrossEntropy().update([np.ones(2)], [np.ones((3, 2))]), ValueError, "do not match"),
    (
        lambda: mx.metric.PearsonCorrelation().update([np.ones((2, 1))], [np.ones((2, 2))]),
        ValueError,
        "does not match",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_metric_without_global_results_gives_its_results_for_both():
    class Own(mx.metric.EvalMetric):
        def update(self, labels, preds):
            self.sum_metric += 3
            self.num_inst += 2

    class Global(Own):
        def __init__(self):
            super().__init__("global", has_global_stats=True)

        def update(self, labels, preds):
            super().update(labels, preds)
            self.global_sum_metric += 5
            self.global_num_inst += 2

    own, whole = Own("own"), Global()
    both = mx.metric.CompositeEvalMetric([own, whole])
    both.update(None, None)
    assert own.get_global_name_value() == own.get_name_value() == [("own", 1.5)]
    assert both.get_global() == (["own", "global"], [1.5, 2.5])
    both.reset_local()
    assert np.isnan(own.get_global()[1])
    assert whole.get_global()[1] == 2.5


def test_names_that_programs_import_from_here():
    assert mx.metric.ndarray.zeros((2,)).shape == (2,)
    assert isinstance("x", mx.metric.string_types)
    assert isinstance(1.0, mx.metric.numeric_types)
    assert mx.metric.registry.get_registry(mx.metric.EvalMetric)["acc"] is mx.metric.Accuracy
    assert mx.init.load is mx.nd.load
    assert (mx.lr_scheduler.pi, mx.lr_scheduler.cos(0)) == (np.pi, 1)


def test_sums_are_of_double_precision():
    """NumPy's float32 and a number of Python's are a float32; over an epoch that would lose digits."""
    metric = mx.metric.Loss()
    for _ in range(3000):
        metric.update(None, mx.nd.array([0.1]))
    assert type(metric.get()[1]) is float
    assert abs(metric.get()[1] - float(np.float32(0.1))) < 1e-12
