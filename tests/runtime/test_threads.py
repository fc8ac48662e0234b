"""Many threads, forked processes and exceptions: a compiled graph stays right."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import threading
import traceback

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import CustomOpError
from hybridc.gluon import HybridBlock, nn
from hybridc.gluon.hybridize import cached_graph
from hybridc.lower.numpy import tile_threads as workers
from hybridc.options import OPTIONS
from hybridc.runtime.workspace import POOL
from hybridc.transforms.schedules.arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine
from tests.runtime.mixed_network import MixedNetwork, mixed_network

THREADS, CALLS = 8, 200


@pytest.fixture
def small_tiles(monkeypatch):
    """Loops, partial tiles and worker threads already for small arrays."""
    small = ArrayMachine(tile_elements=64, shared_tile_elements=64, parallel_elements=256)
    monkeypatch.setattr(schedule_arrays, "MACHINE", small)


def network():
    return mixed_network(12, 24, axis=1, scale=0.5)


def run_in_threads(work):
    """``work(i)`` in THREADS threads at once; the errors of all."""
    errors = []
    barrier = threading.Barrier(THREADS)

    def body(i):
        try:
            barrier.wait()
            work(i)
        except BaseException:
            errors.append(traceback.format_exc())

    started = [threading.Thread(target=body, args=(i,)) for i in range(THREADS)]
    for t in started:
        t.start()
    for t in started:
        t.join(120)
    assert not any(t.is_alive() for t in started), "a thread hangs"
    return errors


def inputs(rows=(1, 3, 16, 33)):
    rng = np.random.default_rng(0)
    return [mx.nd.array(rng.normal(size=(rows[i % len(rows)], 12))) for i in range(THREADS)]


@pytest.mark.usefixtures("small_tiles")
def test_forward_in_many_threads():
    net = network()
    xs = inputs()
    net.hybridize()
    expected = [[y.asnumpy() for y in net(x)] for x in xs]
    net.hybridize()  # so that the threads also compile at the same time

    def work(i):
        for _ in range(CALLS):
            for y, e in zip(net(xs[i]), expected[i], strict=True):
                np.testing.assert_array_equal(y.asnumpy(), e)

    assert run_in_threads(work) == []
    assert len(net._cached_graph.graphs()) == 4


@pytest.mark.usefixtures("small_tiles")
def test_backward_in_many_threads():
    """Inputs of each thread get their own gradients; parameters are shared, so they want none."""
    net = network()
    net.collect_params().setattr("grad_req", "null")
    net.hybridize()
    xs = inputs()

    def step(i):
        x = mx.nd.array(xs[i].asnumpy())
        x.attach_grad()
        with mx.autograd.record():
            y, z = net(x)
            loss = (y * y).sum() + z.sum()
        loss.backward()
        return loss.asnumpy(), x.grad.asnumpy()

    expected = [step(i) for i in range(THREADS)]
    net.hybridize()

    def work(i):
        for _ in range(CALLS):
            for got, want in zip(step(i), expected[i], strict=True):
                np.testing.assert_array_equal(got, want)

    assert run_in_threads(work) == []


def test_results_of_pooled_size_in_many_threads():
    """Large results come from a pool of buffers: none may be given out twice."""
    net = nn.HybridLambda(lambda F, x, y: F.exp(x) * y)
    net.hybridize()
    x = mx.nd.zeros((40000,))

    def work(i):
        kept = []
        scale = mx.nd.full((1,), i + 1.0)
        for _ in range(30):
            kept = [*kept[-2:], net(x, scale)]
            assert all((y._data == i + 1).all() for y in kept)

    assert run_in_threads(work) == []


def test_modes_are_each_threads_own():
    net = nn.HybridLambda(lambda F, x: x * (2.0 if mx.autograd.is_training() else 1.0))
    net.hybridize()
    x = mx.nd.ones((3,))

    def work(i):
        for _ in range(50):
            if i % 2:
                with mx.autograd.record():
                    assert net(x).asnumpy()[0] == 2
            else:
                assert net(x).asnumpy()[0] == 1

    assert run_in_threads(work) == []


def _in_fork(function):
    """What ``function()`` returns in a forked child; None if it hangs or fails."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            sender.send_bytes(np.asarray(function()).astype("f8").tobytes())
        finally:
            os._exit(0)
    sender.close()
    arrived = receiver.poll(30)
    result = np.frombuffer(receiver.recv_bytes()) if arrived else None
    if not arrived:
        os.kill(pid, 9)
    os.waitpid(pid, 0)
    return result


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
@pytest.mark.usefixtures("small_tiles")
def test_a_forked_child_can_use_what_its_parent_compiled():
    net = network()
    net.hybridize()
    x = inputs()[3]
    expected = net(x)[0].asnumpy().ravel()
    assert workers._WORKERS._started > 0 or OPTIONS.target == "llvm", "no kernel used the worker threads"
    for _ in range(2):
        np.testing.assert_array_equal(_in_fork(lambda: net(x)[0].asnumpy().ravel()), expected)
    fresh = mx.nd.array(np.ones((7, 12)))
    want = MixedNetwork.__call__(network(), fresh)[0].asnumpy().ravel()
    np.testing.assert_allclose(_in_fork(lambda: net(fresh)[0].asnumpy().ravel()), want, rtol=1e-5)
    np.testing.assert_array_equal(net(x)[0].asnumpy().ravel(), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
@pytest.mark.usefixtures("small_tiles")
def test_fork_while_other_threads_run_graphs():
    net = network()
    net.hybridize()
    x = inputs()[3]
    expected = net(x)[0].asnumpy().ravel()
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            net(x)

    others = [threading.Thread(target=busy) for _ in range(3)]
    for t in others:
        t.start()
    try:
        for _ in range(5):
            np.testing.assert_array_equal(_in_fork(lambda: net(x)[0].asnumpy().ravel()), expected)
    finally:
        stop.set()
        for t in others:
            t.join(30)


class Fails(mx.operator.CustomOp):
    """Doubles, unless told to fail."""

    where = ""

    def forward(self, is_train, req, in_data, out_data, aux):
        if Fails.where == "forward":
            raise ZeroDivisionError("on purpose")
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        if Fails.where == "backward":
            raise ZeroDivisionError("on purpose")
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("test_threads_fails")
class FailsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Fails()


@pytest.fixture
def failing():
    yield Fails
    Fails.where = ""


def test_exceptions_of_host_calls_leave_the_graph_usable(failing):
    net = nn.HybridLambda(lambda F, x: F.tanh(F.Custom(F.exp(x), op_type="test_threads_fails") * 3))
    net.hybridize()
    x = mx.nd.array([-1.0, -3.0])
    x.attach_grad()

    def step():
        with mx.autograd.record():
            y = net(x)
        y.backward()
        return np.stack([y.asnumpy(), x.grad.asnumpy(), net(x).asnumpy()])

    expected = step()
    idle = len(POOL.idle)
    v = np.exp([-1.0, -3.0])
    np.testing.assert_allclose(expected[0], np.tanh(6 * v), rtol=1e-5)
    np.testing.assert_allclose(expected[1], (1 - np.tanh(6 * v) ** 2) * 6 * v, rtol=1e-4)
    for where in ("forward", "backward", "forward"):
        failing.where = where
        for _ in range(3):
            with pytest.raises(CustomOpError):
                step()
        failing.where = ""
        np.testing.assert_array_equal(step(), expected)
    for graph in net._cached_graph.graphs():
        assert graph.forward.is_pooled or len(graph.forward._free) <= 4
    assert len(POOL.idle) <= idle


@pytest.mark.usefixtures("small_tiles")
def test_an_exception_in_a_worker_reaches_the_caller():
    def tiles(lo, hi, scratch):
        if lo > 0:
            raise KeyError("on purpose")

    for _ in range(20):
        with pytest.raises(KeyError, match="on purpose"):
            workers.parallel(tiles, 1000, 10, 8, ((), ()))
    seen = np.zeros(1000, int)

    def count(lo, hi, scratch):
        seen[lo:hi] += 1

    for size in (1, 9, 10, 11, 999, 1000):
        seen[:] = 0
        workers.parallel(count, size, 10, 12, ((), (), ()))
        assert (seen[:size] == 1).all()
        assert not seen[size:].any()


def test_a_graph_inside_a_custom_operator_of_a_graph():
    """A host call may itself run compiled graphs, even the same one."""
    net = nn.HybridLambda(lambda F, x: F.Custom(F.exp(x), op_type="test_threads_nested") + 1)

    class Nested(mx.operator.CustomOp):
        depth = 0

        def forward(self, is_train, req, in_data, out_data, aux):
            Nested.depth += 1
            inner = net(in_data[0]) if Nested.depth < 3 else in_data[0]
            self.assign(out_data[0], req[0], inner)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0])

    @mx.operator.register("test_threads_nested")
    class NestedProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Nested()

    net.hybridize()
    v = np.array([0.0, -1.0])
    y = net(mx.nd.array(v))
    np.testing.assert_allclose(y.asnumpy(), np.exp(np.exp(np.exp(v)) + 0) + 3, rtol=1e-5)


def test_an_attribute_changed_while_threads_call():
    """Every call sees one of the values, whole: never a mixture, never an old one after the change was seen."""

    class Scale(HybridBlock):
        def __init__(self):
            super().__init__()
            self.factor = 1.0
            self.shift = -1.0

        def hybrid_forward(self, F, x):
            return F.exp(x) * self.factor, F.exp(x) * self.shift

    net = Scale()
    net.hybridize()
    x = mx.nd.zeros((5,))
    stop = threading.Event()

    def change():
        factor = 1.0
        while not stop.is_set():
            factor = factor % 3 + 1
            net.factor = factor

    changer = threading.Thread(target=change)
    changer.start()
    try:

        def work(i):
            for _ in range(30):
                a, b = net(x)
                assert a.asnumpy()[0] in (1, 2, 3)
                assert (a.asnumpy() == a.asnumpy()[0]).all()
                assert b.asnumpy()[0] == -1

        assert run_in_threads(work) == []
    finally:
        stop.set()
        changer.join(30)
    net.factor = 7.0
    assert net(x)[0].asnumpy()[0] == 7


def test_threads_that_evict_each_other(monkeypatch):
    monkeypatch.setattr(
        cached_graph, "OPTIONS", dataclasses.replace(cached_graph.OPTIONS, cache_entries=2, graph_bytes=0)
    )
    net = nn.HybridLambda(lambda F, x: F.sin(x) * x.shape[0])
    net.hybridize()

    def work(i):
        x = mx.nd.array(np.arange(i + 1.0))
        for _ in range(10):
            np.testing.assert_allclose(net(x).asnumpy(), np.sin(np.arange(i + 1.0)) * (i + 1), rtol=1e-5)

    assert run_in_threads(work) == []
    assert len(net._cached_graph._entries) <= 2


def test_hybridize_while_threads_call():
    net = network()
    net.hybridize()
    x = inputs()[1]
    expected = net(x)[0].asnumpy()

    def work(i):
        for n in range(15):
            if i == 0:
                net.hybridize(n % 3 != 0)
            np.testing.assert_allclose(net(x)[0].asnumpy(), expected, rtol=1e-5, atol=1e-6)

    assert run_in_threads(work) == []


def test_first_call_with_deferred_shapes_in_all_threads_at_once():
    for _ in range(5):
        net = nn.HybridSequential()
        net.add(nn.Dense(5, activation="relu"), nn.Dense(3))
        net.initialize(mx.init.One())
        net.hybridize()
        x = mx.nd.ones((2, 4))
        results = [None] * THREADS

        def work(i, net=net, results=results, x=x):
            results[i] = net(x).asnumpy()

        assert run_in_threads(work) == []
        assert all((r == 20).all() for r in results)
