"""Optimizer formulas as compiled updates, against direct evaluation in float64; what compiles and what does not."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridc as mx
from hybridc.optimizer.compiled_update import CompiledUpdate, trace_update
from hybridc.optimizer.formula import UNKNOWN, Kind, limited
from hybridc.optimizer.runner import TOGETHER
from tests.slices import tries

UNARY = ["sqrt_abs", "abs", "sign", "square", "negative"]
BINARY = ["+", "-", "*", "/", "maximum", "greater"]


class Direct:
    """The ``F`` of a formula that is evaluated on NumPy arrays."""

    sqrt, square, abs, sign = np.sqrt, np.square, np.abs, np.sign
    maximum, minimum = np.maximum, np.minimum

    @staticmethod
    def greater(x, y):
        return np.greater(x, y).astype("float64")


class Given(mx.optimizer.Optimizer):
    """An optimizer of any formula and numbers."""

    def __init__(self, formula, states=0, **numbers):
        super().__init__()
        self.formula = formula
        self.states = states
        self.values = numbers

    def state_count(self):
        return self.states

    def numbers(self, index):
        return self.values


def apply(F, op, x, y):
    if op == "sqrt_abs":
        return F.sqrt(F.abs(x))
    if op == "negative":
        return -x
    if op in UNARY:
        return getattr(F, op)(x)
    if op == "+":
        return x + y
    if op == "-":
        return x - y
    if op == "*":
        return x * y
    if op == "/":
        return x / (F.abs(y) + 1.5)
    return getattr(F, op)(x, y)


@st.composite
def formulas(draw):
    """A random formula over the weight, the gradient, some states and three numbers."""
    states = draw(st.integers(0, 3))
    steps = draw(
        st.lists(st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 99), st.integers(0, 99)), max_size=12)
    )
    outputs = draw(st.lists(st.integers(0, 99), min_size=states + 1, max_size=states + 1))
    bound = draw(st.sampled_from([None, 0.5]))

    def formula(F, w, g, state, h):
        arrays = [w, limited(F, g, h.bound), *state]
        numbers = [h.a, h.b, h.c, h.a - h.c, 2 * h.b]
        for op, i, j in steps:
            everything = arrays + numbers
            arrays.append(apply(F, op, arrays[i % len(arrays)], everything[j % len(everything)]))
        return tuple(arrays[-1 - i % len(arrays)] for i in outputs)

    return formula, states, bound


@settings(max_examples=tries(100), deadline=None)
@given(formulas(), st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([0.0, 1.0, -0.7]))
def test_random_formulas(case, a, b):
    formula, states, bound = case
    numbers = {"a": a, "b": b, "c": 1.25, "bound": bound}
    rng = np.random.default_rng(0)
    w, *state, g = [rng.normal(size=7) for _ in range(states + 2)]
    direct = type("Numbers", (), numbers)
    opt = Given(formula, states, **numbers)
    weight, grad, *held = [mx.nd.array(x, dtype="float64") for x in (w, g, *state)]
    for _ in range(2):
        w, *state = [np.broadcast_to(x, 7) for x in formula(Direct, w, g, tuple(state), direct)]
        opt.update(0, weight, grad, tuple(held))
    for got, expected in zip([weight, *held], [w, *state]):
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(grad.asnumpy(), g)


def sgd(F, w, g, state, h):
    mom = h.momentum * state[0] - h.lr * (h.rescale * g)
    return w + mom, mom


def kind(shape=(3,), states=0, **numbers):
    float32 = np.dtype("float32")
    return Kind(shape, float32, float32, ((shape, float32),) * states, None, tuple(numbers.items()))


def operators(formula, which):
    """The operators of a traced formula, and the names of its numbers."""
    traced = trace_update(formula, [which], "Test")[0]
    names = [leaf.name for leaf in traced.trace.leaves if leaf.shape == () != which.shape]
    return [node.op.NAME for node in traced.trace.nodes], names


def test_numbers_are_multiplied_before_arrays_are():
    found, numbers = operators(sgd, kind(states=1, lr=UNKNOWN, rescale=UNKNOWN, momentum=UNKNOWN))
    assert found == ["hybrid.multiply", "hybrid.multiply", "hybrid.subtract", "hybrid.add"]
    assert numbers == ["momentum0", "lr_multiply_rescale0"]


def test_trivial_numbers_leave_no_trace():
    def formula(F, w, g, state, h):
        return (w - h.one * (limited(F, h.one * g, h.absent) + h.zero * w) / h.one - h.zero,)

    assert operators(formula, kind(one=1.0, zero=0.0, absent=None)) == (["hybrid.subtract"], [])


def test_a_number_computed_twice_is_one_input():
    def formula(F, w, g, state, h):
        return ((1 - h.a) * w + (1 - h.a) * g - h.b * w,)

    assert operators(formula, kind(a=UNKNOWN, b=UNKNOWN))[1] == ["1_subtract_a0", "b0"]


def test_the_graph_says_which_results_take_over_which_arguments():
    numbers = {"lr": UNKNOWN, "rescale": 1.0, "momentum": UNKNOWN}
    module = trace_update(sgd, [kind(states=1, **numbers)] * 2, "Sgd")[0].optimize().module
    assert "hybrid.donated = array<i64: 0, 0, 2, 1, 5, 2, 7, 3>" in str(module)


def test_numbers_are_computed_in_double_precision():
    def formula(F, w, g, state, h):
        return ((h.big - h.small) * F.ones_like(w),)

    w = mx.nd.zeros((2,))
    Given(formula, big=2.0**30 + 1, small=2.0**30).update(0, w, mx.nd.zeros((2,)), None)
    np.testing.assert_array_equal(w.asnumpy(), [1, 1])


@pytest.mark.parametrize("shape", [(2, 3), (), (0,)])
def test_a_number_may_be_a_result(shape):
    w, opt = mx.nd.NDArray(np.zeros(shape)), Given(lambda F, w, g, state, h: (h.a, 2.0, F.sqrt(h.b)), 2, a=0.5, b=9.0)
    state = opt.create_state(0, w)
    opt.update(0, w, mx.nd.NDArray(np.zeros(shape)), state)
    for array, value in zip((w, *state), (0.5, 2, 3)):
        np.testing.assert_array_equal(array.asnumpy(), np.full(shape, value))


# Four have an update instead of a formula, two of them of SVRGModule alone; one has a copy of the weights beside its
# states, one no weight decay. What they compute is compared with MXNet's results in test_optimizer.py and test_svrg.py.
OTHERS = {"_assignmentoptimizer", "_svrgoptimizer", "dcasgd", "groupadagrad", "lbsgd", "sgld"}


@pytest.mark.parametrize("name", sorted({*mx.optimizer.Optimizer.opt_registry} - OTHERS))
def test_a_formula_runs_eagerly_as_it_is(name):
    options = {"wd": 0.1, "clip_gradient": 0.5, "rescale_grad": 0.5}
    opt = mx.optimizer.create(name, learning_rate=0.1, **options)
    rng = np.random.default_rng(3)
    w, g = (mx.nd.array(rng.normal(size=(2, 3)), dtype="float64") for _ in range(2))
    states = [mx.nd.array(rng.uniform(0.5, 1, size=(2, 3)), dtype="float64") for _ in range(opt.state_count())]
    opt._update_count(0)
    numbers = SimpleNamespace(**opt.numbers(0))
    want = [x.asnumpy() for x in opt.formula(mx.nd, w, g, tuple(states), numbers)]
    other = mx.optimizer.create(name, learning_rate=0.1, **options)
    other.update(0, w, g, tuple(states))
    for got, expected in zip((w, *states), want, strict=True):
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (lambda F, w, g, state, h: (w,), r"Given.formula returned 1 values; expected .* 2 new states"),
        (lambda F, w, g, state, h: (w, F.sum(g), g), r"returned shape \(1,\) for state0_of0; .* shape \(2,\)"),
        (lambda F, w, g, state, h: (w, None, g), "returned a NoneType for state0_of0"),
    ],
)
def test_wrong_results_are_errors(formula, text):
    w, opt = mx.nd.ones((2,)), Given(formula, 2)
    with pytest.raises(mx.MXNetError, match=text):
        opt.update(0, w, mx.nd.ones((2,)), opt.create_state(0, w))


# --- what is compiled, and how often ---


def compilations(monkeypatch):
    """A list that grows with each update that is compiled."""
    made = []
    original = CompiledUpdate.__init__

    def noted(self, formula, kinds, title):
        made.append(len(kinds))
        original(self, formula, kinds, title)

    monkeypatch.setattr(CompiledUpdate, "__init__", noted)
    return made


def test_new_numbers_compile_nothing(monkeypatch):
    made = compilations(monkeypatch)
    schedule = mx.lr_scheduler.PolyScheduler(max_update=6, base_lr=1.0, pwr=1, warmup_steps=2, warmup_begin_lr=0)
    opt = mx.optimizer.create("sgd", momentum=0.9, wd=0.5, lr_scheduler=schedule)
    w, g = mx.nd.ones((2,)), mx.nd.ones((2,))
    state, want, mom = opt.create_state(0, w), 1.0, 0.0
    for step in range(1, 9):  # the rate passes through 1 and 0
        opt.rescale_grad = 1 / (step + 1)
        mom = 0.9 * mom - schedule(step) * (1 / (step + 1) + 0.5 * want)
        want += mom
        opt.update(0, w, g, state)
        assert w.asnumpy() == pytest.approx(want, rel=1e-5)
    assert made == [1]


def test_a_number_that_becomes_absent_compiles_anew(monkeypatch):
    made = compilations(monkeypatch)
    w, g = mx.nd.zeros((1,)), mx.nd.array([3.0])
    opt = mx.optimizer.create("sgd", learning_rate=1.0, clip_gradient=2.0)
    for clip in (2.0, 1.0, None, 2.5):
        opt.clip_gradient = clip
        opt.update(0, w, g, None)
    assert w.asscalar() == -(2 + 1 + 3 + 2.5)
    assert made == [1, 1]


def test_weights_of_one_kind_share_what_was_compiled(monkeypatch):
    made = compilations(monkeypatch)
    opt = mx.optimizer.create("adam")
    for i in range(5):
        w = mx.nd.ones((2, 1 + i % 2))
        opt.update(i, w, mx.nd.ones(w.shape), opt.create_state(i, w))
    assert made == [1, 1]


@pytest.mark.parametrize("count", [1, 5, TOGETHER])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_weights_are_updated_as_each_alone(monkeypatch, count, dtype):
    made = compilations(monkeypatch)
    rng = np.random.default_rng(count)
    shapes = [(1 + i % 3, 2) for i in range(count)]
    values = [rng.normal(size=(2, *shape)).astype(dtype) for shape in shapes]
    options = {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}
    together, alone = (mx.optimizer.get_updater(mx.optimizer.create("sgd", **options)) for _ in range(2))
    several, single = ([mx.nd.array(v[0], dtype=dtype) for v in values] for _ in range(2))
    grads = [mx.nd.array(v[1], dtype=dtype) for v in values]
    for _ in range(2):
        together(list(range(count)), grads, several)
        for i in range(count):
            alone(i, grads[i], single[i])
    for a, b in zip(several, single):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    kinds = min(count, 3)
    assert made == ([count] if count < TOGETHER else [1] * kinds) + [1] * kinds


# --- arrays that share memory, are replaced, or are used by several threads ---


def test_one_weight_given_twice_is_updated_twice():
    w, opt = mx.nd.array([1.0]), mx.optimizer.create("sgd", learning_rate=0.5)
    opt.update([0, 1], [w, w], [mx.nd.array([1.0]), mx.nd.array([4.0])], [None, None])
    assert w.asscalar() == 1 - 0.5 - 2


def test_a_weight_may_be_its_own_gradient():
    for _ in range(2):
        w, opt = mx.nd.array([1.0, 2.0]), mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.5)
        opt.update(0, w, w, opt.create_state(0, w))
        np.testing.assert_array_equal(w.asnumpy(), [0.5, 1.0])


def test_overlapping_views_follow_each_other():
    base = np.ones(4, "float32")
    first, second = mx.nd.NDArray(base[:3]), mx.nd.NDArray(base[1:])
    opt = mx.optimizer.create("sgd", learning_rate=1.0)
    for _ in range(2):
        opt.update([0, 1], [first, second], [mx.nd.ones((3,)), mx.nd.ones((3,))], [None, None])
    np.testing.assert_array_equal(base, [-1, -3, -3, -1])


def test_replaced_arrays_are_noticed():
    opt = mx.optimizer.create("sgd", learning_rate=1.0, momentum=0.5)
    ws, gs = [mx.nd.zeros((2,)) for _ in range(3)], [mx.nd.ones((2,)) for _ in range(3)]
    states = [opt.create_state(i, w) for i, w in enumerate(ws)]
    opt.update([0, 1, 2], ws, gs, states)
    old = ws[1]
    ws[0], gs[2], states[2] = mx.nd.full((2,), 5.0), mx.nd.full((2,), 2.0), opt.create_state(2, ws[2])
    opt.update([0, 1, 2], ws, gs, states)
    assert [w.asnumpy()[0] for w in (*ws, old)] == [5 - 1.5, -1 - 1.5, -1 - 2, -1 - 1.5]


def test_two_trainers_in_two_threads():
    def train(seed, found):
        rng = np.random.default_rng(seed)
        net = mx.gluon.nn.Dense(3, in_units=4)
        net.initialize(mx.init.Constant(0.5))
        trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        for _ in range(20):
            x = mx.nd.array(rng.normal(size=(5, 4)))
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(5)
        found[seed] = net.weight.data().asnumpy()

    parallel, alone = {}, {}
    threads = [threading.Thread(target=train, args=(seed, parallel)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(2):
        train(seed, alone)
        np.testing.assert_array_equal(parallel[seed], alone[seed])
    assert not np.array_equal(alone[0], alone[1])


def test_an_optimizer_that_overrides_update_multi_precision_gets_one_weight_at_a_time():
    class Own(mx.optimizer.Optimizer):
        def update_multi_precision(self, index, weight, grad, state):
            weight[:] = weight - index * grad

    ws = [mx.nd.zeros((2,)) for _ in range(3)]
    mx.optimizer.get_updater(Own())([0, 1, 2], [mx.nd.ones((2,))] * 3, ws)
    assert [w.asnumpy().tolist() for w in ws] == [[0, 0], [-1, -1], [-2, -2]]


def test_explain_tells_kernels():
    opt = mx.optimizer.create("sgd", momentum=0.9)
    assert opt.explain() == "SGD:"
    w = mx.nd.ones((2,))
    opt.update(0, w, mx.nd.ones((2,)), opt.create_state(0, w))
    lines = opt.explain().splitlines()
    assert lines[1] == "  update of 1 weight"
    assert any(line.startswith("    forward: 1 kernel, 0 of them host calls") for line in lines[2:4])
