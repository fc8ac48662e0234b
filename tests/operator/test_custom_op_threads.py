"""Threads that a custom operator's own code starts and waits for: they may use networks, also for the first time."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from custom_ops import Function, array, declare, double_backward, double_forward

import hybridc as mx
from hybridc import autograd, gluon

METHODS = ("__init__", "list_arguments", "infer_shape", "infer_type", "create_operator", "forward", "backward")


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def first_call_of_a_network():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3), gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = array(np.ones((2, 4)), grad="write")
    with autograd.record():
        y = net(x)
    y.backward()
    assert y.shape == (2, 2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hybridized", [False, True])
def test_every_method_may_wait_for_a_thread(method, hybridized):
    def init(prop):
        if method == "__init__":
            in_a_thread(first_call_of_a_network)

    def infer_shape(prop, shapes):
        if method == "infer_shape":
            in_a_thread(first_call_of_a_network)
        return shapes, [shapes[0]], []

    def infer_type(prop, types):
        if method == "infer_type":
            in_a_thread(first_call_of_a_network)
        return types, [types[0]], []

    def forward(self, is_train, req, in_data, out_data, aux):
        if method == "forward":
            in_a_thread(first_call_of_a_network)
        double_forward(self, is_train, req, in_data, out_data, aux)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        if method == "backward":
            in_a_thread(first_call_of_a_network)
        double_backward(self, req, out_grad, in_data, out_data, in_grad, aux)

    declare("waits", forward, backward, infer_shape=infer_shape, infer_type=infer_type, init=init)
    prop = mx.operator._PROPS["waits"]
    for name in ("list_arguments", "create_operator"):
        if method == name:
            setattr(prop, name, waiting(getattr(prop, name)))

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = gluon.nn.Dense(2)

        def hybrid_forward(self, F, x):
            return F.Custom(self.dense(x), op_type="waits")

    net = Net()
    net.initialize()
    if hybridized:
        net.hybridize()
    x = array(np.ones((2, 4)), grad="write")
    with autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), 2 * net.dense(x).asnumpy(), rtol=1e-5)


def waiting(method):
    def changed(*args):
        in_a_thread(first_call_of_a_network)
        return method(*args)

    return changed


def test_threads_trace_blocks_that_they_share():
    """Each notes the attributes that it reads, and all see a change of them."""
    shared = Function(lambda F, x: x * 2)
    nets = []
    for _ in range(8):
        net = gluon.nn.HybridSequential()
        net.add(shared)
        net.hybridize()
        nets.append(net)
    barrier = threading.Barrier(len(nets))
    results = []

    def work(net):
        barrier.wait(60)
        results.append(net(mx.nd.ones(2)).asnumpy()[0])

    threads = [threading.Thread(target=work, args=(net,)) for net in nets]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [2] * len(nets)
    assert type(shared) is Function
    shared.function = lambda F, x: x * 3
    assert [net(mx.nd.ones(2)).asnumpy()[0] for net in nets] == [3] * len(nets)


def test_a_first_call_in_many_threads_makes_one_network():
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
import numpy as np, hybridc as mx
for trial in range(12):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8), mx.gluon.nn.Dense(2))
    net.initialize(mx.init.Normal(1))
    if trial % 2:
        net.hybridize()
    found, barrier = [], threading.Barrier(8)
    def work():
        barrier.wait()
        found.append(net(mx.nd.ones((2, 3))).asnumpy())
    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert len(found) == 8 and all(np.array_equal(f, found[0]) for f in found), found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
