"""Operators that own a state or update their inputs: eagerly, hybridized, retraced, in threads, and in backward."""

import sys
import threading

import numpy as np
import pytest
from custom_ops import Function, array

import hybridc as mx
from hybridc import autograd, gluon, op
from hybridc.dialects.operator_registry import LISTENERS, functions, operators
from hybridc.errors import MXNetError


class State:
    made = 0

    def __init__(self):
        State.made += 1
        self.calls = 0
        self.factor = None


@op.register("tests.counting")
class Counting(op.Stateful):
    """data * the number of the call; the backward multiplies by the same number"""

    def create_state(self, shapes, dtypes):
        return State()

    def forward(self, state, x):
        state.calls += 1
        state.factor = state.calls
        return x * state.calls

    def backward(self, state, needed, ograds, inputs, outputs):
        return [ograds[0] * state.factor]


@op.register("tests.running_mean")
class RunningMean(op.Composite):
    """data - the new mean; mean becomes (mean + the mean of data over axis 0) / 2"""

    INPUTS = ("data", "mean")
    MUTATES = (1,)

    def num_outputs(self):
        return 2

    def infer_shape(self, shapes):
        return shapes, [shapes[0], shapes[1]]

    def decompose(self, F, x, mean):
        new = (mean + F.mean(x, axis=0)) / 2
        return x - new, new

    def eager(self, x, mean):
        new = (mean + x.mean(0)) / 2
        return x - new, new

    def gradient(self, F, dy, x, mean, y, new):
        return dy * mean, None  # of no mathematics: it shows which mean the rule sees


@op.register("tests.host_count")
class HostCount(op.Stateful):
    """data; count grows by 1 with every call"""

    INPUTS = ("data", "count")
    MUTATES = (1,)

    def create_state(self, shapes, dtypes):
        return None

    def forward(self, state, x, count):
        return x, count + 1

    def backward(self, state, needed, ograds, inputs, outputs):
        return [ograds[0] * inputs[1], None]


class Centre(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mean = self.params.get("mean", shape=(2,), init="zeros", grad_req="null")

    def hybrid_forward(self, F, x, mean):
        first = F.running_mean(x, mean)
        second = F.running_mean(x * 2, mean)
        return first + second, mean + 0


def new_state_counts(net, x, calls):
    return [net(x).asnumpy()[0] for _ in range(calls)]


def test_every_eager_call_has_its_own_state():
    x = mx.nd.ones(1)
    assert [mx.nd.counting(x).asnumpy()[0] for _ in range(3)] == [1, 1, 1]


def test_a_compiled_use_keeps_its_state():
    net = Function(lambda F, x: F.counting(F.counting(x)))
    net.hybridize()
    before = State.made
    assert new_state_counts(net, mx.nd.ones(1), 4) == [1, 4, 9, 16]  # two uses, each with its own
    assert State.made == before + 2
    assert new_state_counts(net, mx.nd.ones(2), 2) == [1, 4]  # another shape is another graph
    assert new_state_counts(net, mx.nd.ones(1), 1) == [25]  # and the first one goes on
    assert "host call tests.counting" in net.explain()


def test_the_backward_meets_the_state_of_its_forward(apply):
    x = array([1.0], grad="add")
    f = lambda F, x: F.counting(x)  # noqa: E731
    with autograd.record():
        first = apply(f, x)
        second = apply(f, x)  # before the first one's backward: it must not touch its state
    second.backward()
    first.backward()
    assert x.grad.asnumpy()[0] == first.asnumpy()[0] + second.asnumpy()[0]


def test_one_graph_counts_on_after_its_backward():
    net = Function(lambda F, x: F.counting(x))
    net.hybridize()
    x = array([1.0], grad="write")
    for number in (1, 2, 3):
        with autograd.record():
            y = net(x)
        y.backward()
        assert x.grad.asnumpy()[0] == y.asnumpy()[0] == number


def test_threads_have_their_own_states():
    net = Function(lambda F, x: F.counting(x))
    net.hybridize()
    net(mx.nd.ones(1))
    wrong = []

    def work():
        x = array([1.0], grad="write")
        for _ in range(50):
            with autograd.record():
                y = net(x)
            y.backward()
            if x.grad.asnumpy()[0] != y.asnumpy()[0]:
                wrong.append((x.grad, y))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@pytest.mark.parametrize("hybridized", [False, True])
def test_inputs_are_mutated_in_order(hybridized):
    net = Centre()
    net.initialize()
    if hybridized:
        net.hybridize()
    x = np.array([[1, 2], [3, 6]], "float32")
    mean = np.zeros(2)
    for rows in (2, 2, 1, 2):  # another shape, then the first again: the state lives in the parameter
        data = x[:rows]
        first = (mean + data.mean(0)) / 2
        second = (first + 2 * data.mean(0)) / 2
        y, seen = net(mx.nd.array(data))
        np.testing.assert_allclose(y.asnumpy(), data - first + 2 * data - second)
        np.testing.assert_allclose(seen.asnumpy(), second)
        mean = second
        np.testing.assert_allclose(net.mean.data().asnumpy(), mean)


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_gradient_sees_what_its_forward_saw(hybridized):
    net = Function(lambda F, x, mean: F.running_mean(x, mean))
    if hybridized:
        net.hybridize()
    x, mean = array([[1, 2], [3, 6]], grad="write"), array([10, 20])
    with autograd.record():
        y = net(x, mean)
    mean[:] = 99
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [[10, 20], [10, 20]])


@pytest.mark.parametrize("hybridized", [False, True])
def test_threads_lose_no_update(hybridized):
    net = Function(lambda F, x, count: F.host_count(F.host_count(x, count), count))
    if hybridized:
        net.hybridize()
    count = mx.nd.zeros(1)
    net(mx.nd.ones(3), count)

    def work():
        for _ in range(100):
            net(mx.nd.ones(3), count)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of a call
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    finally:
        sys.setswitchinterval(interval)
    assert count.asnumpy()[0] == 802


def test_out_and_mutation():
    x, count, out = mx.nd.ones(3), mx.nd.zeros(1), mx.nd.zeros(3)
    mx.nd.host_count(x, count, out=out)
    assert (count.asnumpy()[0], out.asnumpy()[0]) == (1, 1)


def test_the_new_value_is_a_result_in_the_graph():
    net = Function(lambda F, x, mean: F.running_mean(x, mean))
    text = str(net.trace(mx.nd.ones((2, 2)), mx.nd.ones(2)))
    assert "%1, %2 = tests.running_mean %data0, %data1" in text.replace("%0, %1", "%1, %2")
    assert "hybrid.updates = array<i64: 1>" in text


@op.register("tests.forgetful")
class Forgetful(op.Stateful):
    """nothing good"""

    def create_state(self, shapes, dtypes):
        return None

    def forward(self, state, x):
        return x, x

    def backward(self, state, needed, ograds, inputs, outputs):
        return [None]


@op.register("tests.forward_only")
class ForwardOnly(Forgetful):
    """data"""

    def forward(self, state, x):
        return x

    backward = op.Stateful.backward


@op.register("tests.no_gradient")
class NoGradient(ForwardOnly):
    """data"""

    backward = Forgetful.backward


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: mx.nd.forgetful(x),
            "operator tests.forgetful: forward returned a tuple of 2; return an array, as num_visible_outputs() says, "
            "with the new values of updated inputs",
        ),
        (
            lambda x: mx.nd.forward_only(x).backward(),
            "operator tests.forward_only has no backward; override it, or use it outside autograd.record()",
        ),
        (
            lambda x: mx.nd.no_gradient(x).backward(),
            "operator tests.no_gradient: backward returned None for input 0, which needs a gradient; return an array "
            "of shape (1,)",
        ),
    ],
)
def test_errors(call, text):
    x = array([1.0], grad="write")
    with autograd.record(), pytest.raises(MXNetError) as error:
        call(x)
    assert str(error.value).partition(f" ({__file__}")[0] == text


def test_a_name_is_taken_once():
    with pytest.raises(MXNetError) as error:

        @op.register("tests.relu")
        class Relu(op.Elementwise):
            """x"""

            def scalar(self, b, x):
                return x

    assert str(error.value) == (
        "operator 'tests.relu': mx.nd.relu is the operator 'hybrid.relu' already; choose another name, "
        "or pass override=True to replace it"
    )
    assert mx.nd.relu(mx.nd.array([-1.0])).asnumpy()[0] == 0


def test_override_takes_a_name_over():
    before = operators().copy(), functions().copy()
    try:
        op.register("tests.rint", override=True)(
            type("Rint", (op.Elementwise,), {"scalar": lambda self, b, x: b.neg(x)})
        )
        x = mx.nd.array([1.5])
        assert [f(x).asnumpy()[0] for f in (mx.nd.rint, mx.nd.op.rint, mx.nd.NDArray.rint)] == [-1.5] * 3
    finally:
        for table, old in zip((operators(), functions()), before, strict=True):
            table.clear()
            table.update(old)
        for listener in LISTENERS:
            listener("rint")
    assert mx.nd.rint(x).asnumpy()[0] == x.rint().asnumpy()[0] == 1  # as in MXNet
