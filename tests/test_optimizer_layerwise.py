"""LAMB and LARS against MXNet 1.9.1's trajectories, and where MXNet's cannot serve, against float64 NumPy."""

import pathlib
import sys

import numpy as np
import pytest

import hybridc as mx

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "golden"))
import frontend_cases as cases  # noqa: E402
from layerwise_cases import LAYERWISE  # noqa: E402

GOLDEN = np.load(HERE / "golden" / "layerwise.npz")


@pytest.mark.parametrize("name", LAYERWISE)
def test_trajectory_is_that_of_mxnet(name):
    kind, options, setup = LAYERWISE[name]
    options = dict(options)
    if "lr_scheduler" in options:
        klass, args = options.pop("lr_scheduler")
        options["lr_scheduler"] = getattr(mx.lr_scheduler, klass)(**args)
    got = cases.trajectory(mx, kind, options, setup)
    tolerance = 1e-3 if setup.get("dtype") == "float16" else 3e-6
    np.testing.assert_allclose(got, GOLDEN[name], rtol=tolerance, atol=tolerance)


def test_float16_weights_follow_their_float32_copies():
    options = {"learning_rate": 0.1, "wd": 0.01, "multi_precision": True}
    weight, grads = cases.problem("float16")
    half, full = mx.nd.array(weight, dtype="float16"), mx.nd.array(weight, dtype="float32")
    opt = mx.optimizer.create("lamb", **options)
    states = opt.create_state_multi_precision(0, half), opt.create_state_multi_precision(1, full)
    for grad in grads:
        given = [mx.nd.array(grad, dtype=dtype) for dtype in ("float16", "float32")]
        opt.update_multi_precision([0, 1], [half, full], given, states)
    np.testing.assert_allclose(half.asnumpy(), full.asnumpy(), rtol=1e-3, atol=1e-3)
    assert not np.allclose(half.asnumpy(), weight, atol=0.1)


@pytest.mark.parametrize(("kind", "want"), [("lamb", [-0.1, 0.1, 0]), ("lars", [-0.3, 0.4, 0])])
def test_weights_of_zeros_take_a_plain_step(kind, want):
    w, opt = mx.nd.zeros((3,)), mx.optimizer.create(kind, learning_rate=0.1)
    opt.update(0, w, mx.nd.array([3.0, -4.0, 0.0]), opt.create_state(0, w))
    np.testing.assert_allclose(w.asnumpy(), want, rtol=1e-5)


def test_gradients_of_zeros_change_nothing():
    for kind in ("lamb", "lars"):
        w, opt = mx.nd.ones((2, 3)), mx.optimizer.create(kind, learning_rate=0.1)
        opt.update(0, w, mx.nd.zeros((2, 3)), opt.create_state(0, w))
        np.testing.assert_array_equal(w.asnumpy(), np.ones((2, 3)))


def test_every_weight_has_its_momentum_corrected():
    opt = mx.optimizer.create("lars", momentum=0.9, eta=0.1)
    ws = [mx.nd.array([[3.0, 4.0]]) for _ in range(2)]
    states = [opt.create_state(i, w) for i, w in enumerate(ws)]
    want, mom, last = np.array([[3.0, 4.0]]), 0.0, None
    grad = np.array([[1.0, 2.0]])
    for lr in (0.1, 0.2, 0.4):
        opt.set_learning_rate(lr)
        ratio = 0.1 * np.linalg.norm(want) / np.linalg.norm(grad)
        mom = 0.9 * (lr / last if last else 1) * mom - lr * ratio * grad
        want, last = want + mom, lr
        for i, w in enumerate(ws):
            opt.update(i, w, mx.nd.array(grad), states[i])
            np.testing.assert_allclose(w.asnumpy(), want, rtol=1e-6)


def test_saved_rates_continue_exactly():
    def run(steps, updater, w):
        _, grads = cases.problem("float32")
        for i in steps:
            updater(0, mx.nd.array(grads[i]), w)

    def new():
        schedule = mx.lr_scheduler.FactorScheduler(**cases.FACTOR[1])
        return mx.optimizer.get_updater(mx.optimizer.create("lars", momentum=0.9, eta=0.1, lr_scheduler=schedule))

    straight, w, resumed = mx.nd.array(cases.problem("float32")[0]), mx.nd.array(cases.problem("float32")[0]), new()
    run(range(6), new(), straight)
    first = new()
    run(range(3), first, w)
    resumed.set_states(first.get_states(dump_optimizer=True))
    run(range(3, 6), resumed, w)
    np.testing.assert_array_equal(w.asnumpy(), straight.asnumpy())
