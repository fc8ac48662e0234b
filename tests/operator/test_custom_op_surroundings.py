"""mx.operator: operators in operators, threads, processes and forks; host calls are visible."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from custom_ops import Function, array, declare, double_backward

from hybridc import autograd, nd


def test_an_operator_inside_an_operator(apply, double):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].detach()
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(x * x, op_type="double")
        y.backward()
        self.assign(out_data[0], req[0], x.grad)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], nd.Custom(out_grad[0] * 2, op_type="double"))

    declare("outer", forward, backward)
    x = array([3, 4], grad="write")
    with autograd.record():
        y = apply(lambda F, x: F.Custom(x, op_type="outer"), x)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), [12, 16])
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 4])


def test_threads(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.seen = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], in_data[0] ** 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2 * self.seen)

    declare("square_in_thread", forward, backward)
    f = lambda F, x: F.Custom(x, op_type="square_in_thread")  # noqa: E731
    apply(f, nd.ones((100,)))
    results = {}

    def work(i):
        for _ in range(20):
            x = array(np.full(100, i), grad="write")
            with autograd.record():
                y = apply(f, x)
            y.backward()
            results[i] = y.asnumpy(), x.grad.asnumpy()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(results) == 8
    for i, (y, grad) in results.items():
        np.testing.assert_array_equal(y, np.full(100, i * i))
        np.testing.assert_array_equal(grad, np.full(100, 2 * i))


def test_threads_and_processes_inside_an_operator(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        found = subprocess.run([sys.executable, "-c", "print(41 + 1)"], capture_output=True, timeout=60, check=True)
        thread = threading.Thread(target=lambda: self.assign(out_data[0], req[0], in_data[0] + int(found.stdout)))
        thread.start()
        thread.join(60)

    declare("busy", forward)
    assert apply(lambda F, x: F.Custom(x, op_type="busy"), array([1.0])).asscalar() == 43


FORK = """
    import os
    import sys
    import hybridc as mx
    from hybridc import autograd, gluon, nd

    class Sigmoid(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], 1 / (1 + nd.exp(-in_data[0])))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * out_data[0] * (1 - out_data[0]))

    @mx.operator.register("sigmoid")
    class SigmoidProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Sigmoid()

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.Custom(x, op_type="sigmoid")

    x = mx.nd.array([0, 1, 2, 3])
    x.attach_grad()
    net = Net()
    if HYBRID:
        net.hybridize()
    with autograd.record():
        y = net(x)
    pid = os.fork()                 # nothing is pending: the parent and the child go on with y
    y.backward()
    z = net(x)
    values = [["%.3f" % v for v in a.asnumpy()] for a in (x.grad, z)]
    os.write(1, f"{'child' if pid == 0 else 'parent'} {values}\\n".encode())
    if pid == 0:
        os._exit(0)
    sys.exit(os.waitpid(pid, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("hybrid", [False, True])
def test_fork_right_after_a_call(hybrid):
    program = textwrap.dedent(FORK).replace("HYBRID", str(hybrid))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    values = "[['0.250', '0.197', '0.105', '0.045'], ['0.500', '0.731', '0.881', '0.953']]"
    assert sorted(done.stdout.splitlines()) == [f"child {values}", f"parent {values}"]


def test_in_a_hybridized_network_it_is_a_visible_host_call(double):
    net = Function(lambda F, x: F.exp(F.Custom(F.exp(x), op_type="double", scale=3)))
    net.hybridize()
    net(array([1.0]))
    calls = [line.strip() for line in net.explain().splitlines() if "host call " in line]
    (call,) = calls
    assert call.startswith(f"host call hybrid.custom double(scale='3') at {__file__}:")


def test_calls_are_neither_merged_nor_dropped_nor_folded(apply_to_arrays):
    calls = []

    def forward(self, is_train, req, in_data, out_data, aux):
        calls.append(self.params["n"])
        self.assign(out_data[0], req[0], in_data[0] + len(calls))

    declare("count", forward, double_backward)

    def count(F, x):
        first = F.Custom(F.ones((1,)), op_type="count", n=1)
        F.Custom(x, op_type="count", n=2)
        return F.Custom(x, op_type="count", n=3) + F.Custom(x, op_type="count", n=3) + first

    for _ in range(2):
        calls.clear()
        assert apply_to_arrays(count, array([0.0])).asscalar() == 3 + 4 + 2
        assert calls == ["1", "2", "3", "3"]
