"""Optimizers against MXNet 1.9.1's trajectories, and what hybridc adds: in place, tiled, saved safely."""

import json
import pathlib
import pickle  # noqa: TID251
import sys
import warnings

import numpy as np
import pytest

import hybridc as mx

# Elements of what a test of large weights needs: more than one tile, and more than one thread takes.
TILE = 32768
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "golden"))
import frontend_cases as cases  # noqa: E402

GOLDEN = np.load(HERE / "golden" / "frontend.npz")


def make(kind, options):
    options = dict(options)
    if "lr_scheduler" in options:
        klass, args = options.pop("lr_scheduler")
        options["lr_scheduler"] = getattr(mx.lr_scheduler, klass)(**args)
    return kind, options


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_trajectory_is_that_of_mxnet(name):
    kind, options, setup = cases.OPTIMIZERS[name]
    got = cases.trajectory(mx, *make(kind, options), setup)
    # float16 weights are rounded from the float32 master: one unit of the last place may differ.
    # MXNet's Adam rounds 1 - beta2 to float32, which is 2e-5 off.
    tolerance = 1e-3 if setup.get("dtype") == "float16" else 2e-5 if kind == "adam" else 2e-6
    np.testing.assert_allclose(got, GOLDEN[f"optimizer/{name}"], rtol=tolerance, atol=tolerance)
    assert got.dtype == GOLDEN[f"optimizer/{name}"].dtype


@pytest.mark.parametrize("name", cases.ADAMW)
def test_adamw_is_that_of_the_contrib_operator(name):
    options, correct = cases.ADAMW[name]
    got = cases.trajectory(mx, "adamw", {"correct_bias": correct, **options}, {})
    np.testing.assert_allclose(got, GOLDEN[f"optimizer/{name}"], rtol=2e-5, atol=2e-5)


def test_multipliers_by_name_and_index():
    names = {0: "a_weight", 1: "a_bias", 2: "a_gamma", 3: "a_beta"}
    opt = mx.optimizer.SGD(param_idx2name=names, wd=0.5)
    opt.set_lr_mult({"a_bias": 2.0, 3: 4.0})
    got = [opt._get_lrs(range(5)), opt._get_wds(range(5))]
    np.testing.assert_allclose(got, GOLDEN["optimizer/multipliers"])


def test_multipliers_of_parameters_win():
    class Parameter:
        lr_mult, wd_mult = 3.0, 0.0

    opt = mx.optimizer.create("sgd", learning_rate=0.5, wd=1.0, param_dict={0: Parameter()})
    assert (opt._get_lr(0), opt._get_wd(0)) == (1.5, 0.0)
    Parameter.lr_mult = 2.0
    assert opt._get_lr(0) == 1.0


@pytest.mark.parametrize("size", [0, 1, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
@pytest.mark.parametrize("kind", ["sgd", "adam", "rmsprop", "ftrl"])
def test_tiles_do_not_change_the_result(kind, size):
    rng = np.random.default_rng(size)
    weight, grad = rng.normal(size=(2, size)).astype("float32")
    whole = mx.nd.array(weight)
    opt = mx.optimizer.create(kind, learning_rate=0.1, wd=0.01, clip_gradient=0.5)
    state = opt.create_state(0, whole)
    for _ in range(3):
        opt.update(0, whole, mx.nd.array(grad), state)
    pieces = []
    opt = mx.optimizer.create(kind, learning_rate=0.1, wd=0.01, clip_gradient=0.5)
    for i in range(0, size, 1000):
        piece = mx.nd.array(weight[i : i + 1000])
        state = opt.create_state(i, piece)
        for _ in range(3):
            opt.update(i, piece, mx.nd.array(grad[i : i + 1000]), state)
        pieces.append(piece.asnumpy())
    if size:
        np.testing.assert_array_equal(whole.asnumpy(), np.concatenate(pieces))


@pytest.mark.parametrize("size", [5, TILE + 1, 5 * TILE + 3])
def test_float16_gradients_are_converted_tile_by_tile(size):
    rng = np.random.default_rng(size)
    weight, grad = rng.normal(size=(2, size)).astype("float16")
    half, full = mx.nd.array(weight, dtype="float16"), mx.nd.array(weight, dtype="float32")
    opt = mx.optimizer.create("adam", learning_rate=0.1, multi_precision=True)
    states = opt.create_state_multi_precision(0, half), opt.create_state_multi_precision(1, full)
    for _ in range(2):
        opt.update_multi_precision(0, half, mx.nd.array(grad, dtype="float16"), states[0])
        opt.update_multi_precision(1, full, mx.nd.array(grad, dtype="float32"), states[1])
    np.testing.assert_array_equal(states[0][0].asnumpy(), full.asnumpy())
    np.testing.assert_array_equal(half.asnumpy(), full.asnumpy().astype("float16"))


# Those of SVRGModule alone are not for users.
KINDS = sorted(kind for kind in mx.optimizer.Optimizer.opt_registry if not kind.startswith("_"))


@pytest.mark.parametrize("kind", KINDS)
def test_infinities_and_nan_pass_without_warning(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = mx.nd.ones((5 * TILE, 1))
        grad = np.zeros((5 * TILE, 1), "float32")
        grad[:3, 0] = np.nan, np.inf, 1e38
        opt = mx.optimizer.create(kind)
        state = opt.create_state(0, w)
        for _ in range(2):
            opt.update(0, w, mx.nd.array(grad), state)
    if kind not in ("adamax", "signum", "lamb"):  # 0 / 0 in Adamax's first step, as in MXNet; LAMB takes the norm
        assert np.isfinite(w.asnumpy()[3:]).all()
    assert np.isnan(w.asnumpy()[0])


def test_update_is_in_place_and_leaves_the_gradient_alone():
    weight, grads = cases.problem("float32")
    for kind in KINDS:
        w, g = mx.nd.array(weight), mx.nd.array(grads[0])
        buffer = w.asnative()
        opt = mx.optimizer.create(kind, rescale_grad=0.5, clip_gradient=0.1)
        opt.update(0, w, g, opt.create_state(0, w))
        assert w.asnative() is buffer, kind
        assert not np.array_equal(buffer, weight), kind
        np.testing.assert_array_equal(g.asnumpy(), grads[0], err_msg=kind)


def test_a_step_allocates_nothing_of_the_weights_size():
    import tracemalloc

    w = mx.nd.zeros((512, 1024))
    g = mx.nd.ones((512, 1024))
    opt = mx.optimizer.create("adam")
    state = opt.create_state(0, w)
    opt.update(0, w, g, state)
    tracemalloc.start()
    for _ in range(3):
        opt.update(0, w, g, state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < w.size * 4 // 16


def test_a_strided_weight_is_updated_too():
    base = mx.nd.array(np.arange(12.0).reshape(3, 4))
    view = type(base)(base.asnative()[:, ::2])
    opt = mx.optimizer.create("sgd", learning_rate=1.0, momentum=0.5)
    state = opt.create_state(0, view)
    for _ in range(2):
        opt.update(0, view, mx.nd.ones((3, 2)), state)
    want = np.arange(12.0).reshape(3, 4)
    want[:, ::2] -= 1 + 1.5
    np.testing.assert_array_equal(base.asnumpy(), want)


def test_lists_and_single_arrays_agree():
    weight, grads = cases.problem("float32")
    one = mx.optimizer.create("adam", learning_rate=0.1)
    many = mx.optimizer.create("adam", learning_rate=0.1)
    a, b, c, d = (mx.nd.array(weight) for _ in range(4))
    states = [one.create_state_multi_precision(i, w) for i, w in enumerate((a, b))]
    others = [many.create_state_multi_precision(i, w) for i, w in enumerate((c, d))]
    for grad in grads:
        g = mx.nd.array(grad)
        one.update_multi_precision(0, a, g, states[0])
        one.update_multi_precision(1, b, g, states[1])
        many.update_multi_precision([0, 1], [c, d], [g, g], others)
    np.testing.assert_array_equal(a.asnumpy(), c.asnumpy())
    np.testing.assert_array_equal(b.asnumpy(), d.asnumpy())
    assert one.num_update == many.num_update == len(grads)


def test_hyperparameters_may_change_between_steps():
    w = mx.nd.array([1.0])
    opt = mx.optimizer.create("sgd", learning_rate=1.0)
    g = mx.nd.array([1.0])
    opt.update(0, w, g, None)
    opt.rescale_grad = 0.5
    opt.update(0, w, g, None)
    opt.set_learning_rate(0.25)
    opt.wd = 1.0
    opt.update(0, w, g, None)
    opt.wd, opt.rescale_grad, opt.clip_gradient = 0.0, 4.0, 2.0
    opt.update(0, w, g, None)
    x = 1.0 - 1.0 - 0.5
    x -= 0.25 * (0.5 + x)
    x -= 0.25 * 2.0
    assert w.asscalar() == pytest.approx(x)


def test_a_gradient_buffer_may_be_replaced():
    w = mx.nd.zeros((2,))
    opt = mx.optimizer.create("sgd", learning_rate=1.0)
    for i in range(3):
        opt.update(0, w, mx.nd.array([1.0, float(i)]), None)
    np.testing.assert_array_equal(w.asnumpy(), [-3.0, -3.0])


def test_float16_without_multi_precision_warns():
    w = mx.nd.ones((2,), dtype="float16")
    with pytest.warns(UserWarning, match="multi_precision=True"):
        mx.optimizer.create("sgd").create_state_multi_precision(0, w)


def test_a_custom_optimizer_with_update():
    @mx.optimizer.register
    class Plain(mx.optimizer.Optimizer):
        def create_state(self, index, weight):
            return mx.nd.zeros(weight.shape, dtype=weight.dtype)

        def update(self, index, weight, grad, state):
            self._update_count(index)
            state[:] = state + grad
            weight[:] = weight - self._get_lr(index) * state

    try:
        half = mx.nd.ones((3,), dtype="float16")
        opt = mx.optimizer.create("plain", learning_rate=0.5, multi_precision=True)
        updater = mx.optimizer.get_updater(opt)
        for _ in range(2):
            updater([0], [mx.nd.ones((3,), dtype="float16")], [half])
        np.testing.assert_array_equal(half.asnumpy(), [-0.5] * 3)
        assert opt._index_update_count == {0: 2}
    finally:
        del mx.optimizer.Optimizer.opt_registry["plain"]


def test_a_custom_optimizer_with_a_formula():
    class Swap(mx.optimizer.Optimizer):
        """Swaps the weight and its state: the old values must be read before either is written."""

        def state_count(self):
            return 1

        def formula(self, F, w, g, state, h):
            return state[0], w

    w = mx.nd.array([1.0, 2.0])
    opt = Swap()
    state = opt.create_state(0, w)
    opt.update(0, w, mx.nd.zeros((2,)), state)
    assert (w.asnumpy().tolist(), state.asnumpy().tolist()) == ([0, 0], [1, 2])


def states_of(opt, steps, updater=None, w=None):
    weight, grads = cases.problem("float32")
    updater = updater or mx.optimizer.get_updater(opt)
    w = mx.nd.array(weight) if w is None else w
    for i in steps:
        updater(0, mx.nd.array(grads[i]), w)
    return updater, w


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("sgd", {"momentum": 0.9}),
        ("adam", {}),
        ("rmsprop", {"centered": True}),
        ("sgd", {}),
        ("sgd", {"lr_scheduler": cases.FACTOR}),
        ("nadam", {}),
    ],
)
def test_saved_states_continue_exactly(kind, options):
    def new():
        name, arguments = make(kind, options)
        return mx.optimizer.create(name, wd=0.1, **arguments)

    _, straight = states_of(new(), range(6))
    updater, w = states_of(new(), range(3))
    data = updater.get_states(dump_optimizer=True)
    resumed = mx.optimizer.get_updater(new())
    resumed.set_states(data)
    _, w = states_of(None, range(3, 6), resumed, w)
    np.testing.assert_array_equal(w.asnumpy(), straight.asnumpy())
    assert resumed.optimizer.num_update == 6


def test_states_of_another_class_bring_their_optimizer():
    updater, _ = states_of(mx.optimizer.create("adam", learning_rate=0.25, beta1=0.5), range(2))
    other = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
    other.set_states(updater.get_states(dump_optimizer=True))
    assert isinstance(other.optimizer, mx.optimizer.Adam)
    assert (other.optimizer.lr, other.optimizer.beta1, other.optimizer.num_update) == (0.25, 0.5, 2)


def test_states_alone_leave_the_optimizer():
    updater, _ = states_of(mx.optimizer.create("adam"), range(2))
    other = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=0.5))
    other.set_states(updater.get_states())
    assert other.optimizer.lr == 0.5
    np.testing.assert_array_equal(other.states[0][1].asnumpy(), updater.states[0][1].asnumpy())


class Harmful:
    """What a pickle can do when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def test_pickles_run_nothing_and_rubbish_is_refused(tmp_path):
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
    for content in ({0: Harmful(tmp_path / "ran")}, {0: 1}, {0: slice(1)}, ({}, Harmful), ({}, 3), [1], (1, 2, 3)):
        with pytest.raises(mx.MXNetError, match="damaged"):
            updater.set_states(pickle.dumps(content))
    assert not list(tmp_path.iterdir())
    good = states_of(mx.optimizer.create("adam"), range(1))[0].get_states()
    for bad in (b"", b"rubbish", good[: len(good) // 2]):
        with pytest.raises(mx.MXNetError, match="damaged"):
            updater.set_states(bad)


def test_optimizers_can_be_copied():
    import copy

    opt = mx.optimizer.create("adam", learning_rate=0.1, param_dict={0: object()})
    again = copy.deepcopy(opt)
    assert again.param_dict == {}
    assert again.lr == 0.1


ERRORS = [
    (lambda: mx.optimizer.create("sdg"), ValueError, "Cannot find optimizer sdg; known are"),
    (
        lambda: mx.optimizer.create("sgd").update(0, mx.nd.ones((2,)), mx.nd.ones((3,)), None),
        RuntimeError,
        r"shape \(2,\), but its gradient has shape \(3,\)",
    ),
    (
        lambda: mx.optimizer.create("sgd").update(0, *[mx.nd.ones((2,), dtype="int32")] * 2, None),
        RuntimeError,
        "dtype int32; only floating point",
    ),
    (
        lambda: mx.optimizer.create("sgd").update([0, 1], [mx.nd.ones((2,))], [], [None]),
        RuntimeError,
        "2 indices, 1 weights",
    ),
    (
        lambda: mx.optimizer.Optimizer().update(0, mx.nd.ones((2,)), mx.nd.ones((2,)), None),
        RuntimeError,
        "neither formula",
    ),
    (
        lambda: mx.optimizer.create("sgd", lr_scheduler=mx.lr_scheduler.LRScheduler()).set_learning_rate(1),
        UserWarning,
        "LRScheduler of the optimizer has already been defined",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_learning_rate_overwrites_the_schedulers():
    schedule = mx.lr_scheduler.FactorScheduler(step=10, base_lr=0.1)
    with pytest.warns(UserWarning, match="overwritten"):
        opt = mx.optimizer.create("adam", learning_rate=0.5, lr_scheduler=schedule)
    assert opt.learning_rate == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = mx.lr_scheduler.FactorScheduler(step=10, base_lr=0.1)
        assert mx.optimizer.create("sgd", lr_scheduler=same).learning_rate == 0.1


# --- schedules ---


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_schedule_is_that_of_mxnet(name):
    klass, options = cases.SCHEDULES[name]
    schedule = getattr(mx.lr_scheduler, klass)(**options)
    np.testing.assert_allclose([schedule(i) for i in range(40)], GOLDEN[f"schedule/{name}"], rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.FactorScheduler(step=0),
        lambda s: s.FactorScheduler(step=1, factor=1.5),
        lambda s: s.MultiFactorScheduler(step=[3, 3]),
        lambda s: s.MultiFactorScheduler(step=[]),
        lambda s: s.PolyScheduler(max_update=0),
        lambda s: s.CosineScheduler(max_update=5, warmup_steps=5),
        lambda s: s.CosineScheduler(max_update=5, warmup_steps=-1),
        lambda s: s.CosineScheduler(max_update=5, base_lr=0.1, warmup_begin_lr=0.2),
        lambda s: s.CosineScheduler(max_update=5, warmup_mode="cubic"),
    ],
)
def test_bad_schedules_are_refused(make):
    with pytest.raises(ValueError, match=r"must|has to"):
        make(mx.lr_scheduler)


def test_state_bytes_hold_json_and_arrays_only():
    import io

    data = states_of(mx.optimizer.create("adam"), range(1))[0].get_states(dump_optimizer=True)
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        assert json.loads(file["json"].tobytes())["format"] == "hybridc.updater.2"
        assert all(file[name].dtype.kind in "uf" for name in file.files)


def layout(state):
    """The states of a weight as text: which are tuples, and the first element of each array."""
    if isinstance(state, tuple):
        return f"({', '.join(map(layout, state))})"
    return "-" if state is None else f"{state.asnumpy()[0]:g}"


@pytest.mark.parametrize(
    ("name", "options", "plain", "of_half"),
    [  # as MXNet 1.9.1 lays them out; the weight is 3
        ("sgd", {"momentum": 0.9}, "0", "(0, 3)"),
        ("sgd", {}, "-", "(-, 3)"),
        ("nag", {"momentum": 0.9}, "0", "(0, 3)"),
        ("lars", {"momentum": 0.9}, "0", "(0, 3)"),
        ("rmsprop", {}, "(0)", "(3, (0))"),
        ("rmsprop", {"centered": True}, "(0, 0, 0)", "(3, (0, 0, 0))"),
        ("adam", {}, "(0, 0)", "(3, (0, 0))"),
        ("signum", {}, "0", "(3, 0)"),
    ],
)
def test_states_are_laid_out_as_in_mxnet(name, options, plain, of_half):
    opt = mx.optimizer.create(name, multi_precision=True, **options)
    made = [opt.create_state_multi_precision(0, mx.nd.array([3.0], dtype=d)) for d in ("float32", "float16")]
    assert [layout(s) for s in made] == [plain, of_half]


def test_states_of_the_first_format_are_turned():
    """It had the float32 copy before the momentum."""
    import io

    data = np.array([3, 2], np.uint8)
    content = {"format": "hybridc.updater.1", "states": {"dict": [[0, {"tuple": [{"array": 0}, {"array": 1}]}]]}}
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(content).encode(), np.uint8)
    np.savez(file, json=text, a0=data[:1].astype("float32"), a1=data[1:].astype("float32"))
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", momentum=0.5, learning_rate=1, multi_precision=True))
    updater.set_states(file.getvalue())
    weight = mx.nd.array([3.0], dtype="float16")
    updater(0, mx.nd.array([1.0], dtype="float16"), weight)
    assert weight.asscalar() == 3 + 0.5 * 2 - 1
    assert layout(updater.states[0]) == "(0, 3)"


def test_schedulers_log_in_mxnet_s_words(caplog):
    with caplog.at_level("INFO"):
        rates = mx.lr_scheduler.FactorScheduler(2, 0.5, stop_factor_lr=0.3, base_lr=1)
        assert [rates(n) for n in (2, 3, 5)] == [1, 0.5, 0.3]
        assert mx.lr_scheduler.MultiFactorScheduler([4], 0.1, base_lr=1)(5) == 0.1
    assert [record.getMessage() for record in caplog.records] == [
        "Update[3]: Change learning rate to 5.00000e-01",
        "Update[5]: now learning rate arrived at 3.00000e-01, will not change in the future",
        "Update[5]: Change learning rate to 1.00000e-01",
    ]


def test_updates_of_parameters_with_axes_of_one_element():
    """Their state is updated in place through aliases, the strides of whose axes of one element may be any."""
    for shapes in ([(1, 4), (1, 8)], [(1, 4, 1, 1), (1, 8)], [(1, 8, 1, 1), (1, 4, 1, 1)]):
        parameters = mx.gluon.ParameterDict()
        for i, shape in enumerate(shapes):
            parameters.get(f"w{i}", shape=shape, init="zeros")
        parameters.initialize()
        trainer = mx.gluon.Trainer(parameters, "adam", {"learning_rate": 0.5})
        with mx.autograd.record():
            loss = sum((p.data() * 2).sum() for p in parameters.values())
        loss.backward()
        trainer.step(1)
        for p in parameters.values():
            np.testing.assert_allclose(p.data().asnumpy(), np.full(p.shape, -0.5), rtol=1e-5)
