"""Compiled libraries in a process: threads, forks, loading again, operators in the place of others, what is printed."""

import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from libraries import HERE, Function, compiled

import hybridc as mx
from hybridc import autograd
from hybridc.errors import MXNetError

TOLD = (
    "Found 1 operators in library\n\tOp[0] foreign_double\n"
    "Found 0 partitioners in library\nFound 0 graph passes in library\n"
)


def test_what_is_printed(capfd):
    mx.library.load(compiled("library_foreign.cc"))
    captured = capfd.readouterr()
    assert captured.err == TOLD
    mx.library.load(compiled("library_foreign.cc"), verbose=False)
    assert capfd.readouterr() == ("", "")


def test_loading_again(loaded):
    """MXNet 1.9.1 refuses the third time; here every time is like the first."""
    for _ in range(3):
        mx.library.load(loaded, verbose=False)
    np.testing.assert_array_equal(mx.nd.lib_scale(mx.nd.ones(2), scale=2).asnumpy(), [2, 2])


def test_older_name(loaded):
    mx.operator.load_op_lib(loaded)
    assert mx.nd.lib_gemm(mx.nd.ones((1, 2)), mx.nd.ones((2, 1))).asscalar() == 2


def test_file_that_changed_after_it_was_loaded(tmp_path):
    path = tmp_path / "lib.so"
    shutil.copy(compiled("library_foreign.cc"), path)
    mx.library.load(str(path), verbose=False)
    other = tmp_path / "other.so"
    shutil.copy(compiled("library_foreign.cc", "-DX"), other)
    other.replace(path)
    with pytest.warns(
        UserWarning, match=re.escape(f"{path} changed since it was loaded, but a process keeps")
    ) as found:
        mx.library.load(str(path), verbose=False)
    assert found[0].filename == __file__


def test_include_path():
    assert os.path.exists(f"{mx.library.include_path()}/mxnet/lib_api.h")
    assert mx.libinfo.find_include_path() == mx.library.include_path()


def in_threads(work, count=8):
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("hybridize", [False, True])
def test_threads(loaded, hybridize):
    """Calls at the same time, of equal and other shapes, have arrays, workspaces and states of their own."""

    def function(F, a, b):
        return F.lib_scale(F.lib_gemm(a, b), scale=2), F.lib_state_gemm(a, b, start=7)

    block = Function(function)
    block.hybridize(hybridize)

    def work(number):
        rng = np.random.default_rng(number)
        for i in range(40):
            n = 2 + (number + i) % 3
            a, b = [rng.normal(size=(n, n)).astype(np.float32) for _ in range(2)]
            x = mx.nd.array(a)
            x.attach_grad()
            with autograd.record():
                y, z = block(x, mx.nd.array(b))
            product = a.astype(np.float64) @ b
            np.testing.assert_allclose(y.asnumpy(), 2 * product, rtol=1e-4, atol=1e-4)
            count = (z.asnumpy() - product).mean()
            assert count >= 6.99
            autograd.backward([y, z])
            calls = round(float(count)) + 1
            expected = 3 * np.ones((n, n)) @ b.T + calls
            np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-4, atol=1e-3)

    in_threads(work)


def test_errors_in_threads(loaded):
    """Every failing call raises, whoever gets the library's messages."""

    def work(number):
        for _ in range(50):
            with pytest.raises(MXNetError, match="Error calling FCompute for custom operator 'lib_fail'"):
                mx.nd.lib_fail(mx.nd.ones(2), where="forward")

    in_threads(work)


def test_random_numbers_in_threads(loaded):
    """Threads at the same time draw other numbers."""
    found = []
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        found.extend(mx.nd.lib_noise(mx.nd.zeros(500)).asnumpy().tolist() for _ in range(5))

    in_threads(work, 4)
    assert len({tuple(x) for x in found}) == 20


def python(program, *args):
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


FORK = """
import os, sys, threading
import numpy as np
import hybridc as mx
mx.library.load(sys.argv[1], verbose=False)
a = mx.nd.array(np.arange(6).reshape(2, 3))
b = mx.nd.array(np.arange(6).reshape(3, 2))
want = (np.arange(6).reshape(2, 3) @ np.arange(6).reshape(3, 2)).tolist()
stop = threading.Event()

def work():
    while not stop.is_set():
        mx.nd.lib_gemm(a, b)
        mx.nd.lib_state_gemm(a, b)
        try:
            mx.nd.lib_fail(a, where="forward")
        except mx.MXNetError:
            pass

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        same = mx.nd.lib_gemm(a, b).asnumpy().tolist() == want
        same = same and mx.nd.lib_state_gemm(a, b).asnumpy().tolist() == want
        os._exit(0 if same else 3)
    children.append(pid)
codes = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}
stop.set()
for thread in threads:
    thread.join()
print(codes)
"""


def test_fork(loaded):
    done = python(FORK, loaded)
    assert done.stdout == "{0}\n", done.stderr


OVERRIDE = """
import sys
import hybridc as mx

class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.relu(x)

x = mx.nd.array([-2.0, 3.0])
before, net = mx.nd.relu, Net()
print(before(x).asnumpy(), net(x).asnumpy())
mx.library.load(sys.argv[1], verbose=False)
print(mx.nd.relu(x).asnumpy(), mx.nd.op.relu(x).asnumpy(), net(x).asnumpy(), x.relu().asnumpy())
net.hybridize()
print(net(x).asnumpy(), mx.sym.relu(mx.sym.var("x")).bind(mx.cpu(), {"x": x}).forward()[0].asnumpy())
print(before(x).asnumpy(), mx.nd.Activation(x, act_type="relu").asnumpy())
print("extension.relu" in net.explain())
"""


@pytest.mark.long
def test_operator_in_the_place_of_another():
    done = python(OVERRIDE, compiled("library_foreign.cc", "-DNAME=relu"))
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[0. 3.] [0. 3.]",
        "[-4.  6.] [-4.  6.] [-4.  6.] [-4.  6.]",
        "[-4.  6.] [-4.  6.]",
        "[0. 3.] [0. 3.]",
        "True",
    ]


def test_states_are_deleted_before_the_library_ends(loaded):
    program = """
import sys
import hybridc as mx
mx.library.load(sys.argv[1], verbose=False)
x = mx.nd.ones((2, 2))
x.attach_grad()
with mx.autograd.record():
    kept = mx.nd.lib_state_gemm(x, x)
executor = mx.sym.lib_state_gemm(mx.sym.var("a"), mx.sym.var("b")).bind(mx.cpu(), {"a": x, "b": x})
executor.forward()
print("done")
"""
    done = python(program, loaded)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
