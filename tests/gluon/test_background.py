"""Networks that another process compiles: real ones, in both phases, against an eager copy of the network."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd
from hybridc.compile import targets, trace_key, warm_start
from hybridc.compile.background import compiler_process
from hybridc.compile.background.compiler_process import BACKGROUND
from hybridc.errors import RecompileError
from hybridc.gluon import nn
from hybridc.gluon.hybrid_block import HybridBlock
from hybridc.ground import store
from hybridc.options import read

ROOT = Path(__file__).resolve().parents[2]
# Seconds after which nothing is waited for any more: a busy computer gives a process of low priority little.
LIMIT = 600
WAITS = "compiled in the background; until then its operators run one by one"
TAKEN = "  compiled in the background\n"


@pytest.fixture(scope="module", autouse=True)
def empty_cache(tmp_path_factory):
    """Nothing is compiled before; graphs are native and not verified, as others are not kept on the disk."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRIDC_VERIFY", "0")
        patch.setenv("HYBRIDC_TARGET", "llvm")
        for module in (targets, trace_key, warm_start):
            patch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, target="llvm", verify=False))
        patch.setattr(compiler_process, "OPTIONS", dataclasses.replace(compiler_process.OPTIONS, cache=str(folder)))
        patch.setattr(store, "store", functools.cache(lambda: store.Store(folder / "store-1")))
        yield


def dense():
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(5))
    return net


class Branches(HybridBlock):
    """Control flow on values, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = self.params.get("scale", shape=(6,), init="ones")

    def hybrid_forward(self, F, x, scale):
        def step(row, state):
            state = F.contrib.cond(F.sum(state) > 1, lambda: state * 0.5, lambda: state + row * scale)
            return F.tanh(state), state

        rows, last = F.contrib.foreach(step, x, F.zeros_like(scale))
        return rows, last


class Unrolled(HybridBlock):
    """Equal steps of a Python loop, which become one loop."""

    def __init__(self):
        super().__init__()
        self.cell = mx.gluon.rnn.LSTMCell(4, input_size=6)

    def hybrid_forward(self, F, x):
        return self.cell.unroll(7, x.reshape((1, 7, 6)), merge_outputs=True)[0]


def branches():
    return Branches()


def unrolled():
    return Unrolled()


def gru():
    layer = nn.HybridSequential()
    layer.add(nn.HybridLambda(lambda F, x: x.expand_dims(1)), mx.gluon.rnn.GRU(3))
    return layer


def compared(net, x, train):
    """What a call gives, and what it leaves: results, gradients, parameters, the random state."""
    mx.random.seed(7)
    with autograd.record() if train else contextlib.nullcontext():
        results = net(x)
    results = results if isinstance(results, tuple | list) else [results]
    found = [y.asnumpy() for y in results]
    params = list(net.collect_params().values())
    if train:
        autograd.backward(list(results))
        found += [p.grad().asnumpy() for p in params if p.grad_req != "null"]
    found += [p.data().asnumpy() for p in params]
    return [*found, np.array(list(mx.random.state().values()))]


def assert_same(net, other, x, train):
    for got, expected in zip(compared(net, x, train), compared(other, x, train), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [dense, branches, unrolled, gru])
def test_results_gradients_and_states_are_right_before_and_after(make, tmp_path):
    mx.random.seed(3)
    x = nd.array(np.random.default_rng(0).normal(size=(7, 6)).astype("f4"))
    other, net = make(), make()
    other.initialize(mx.init.Xavier())
    other(x)
    other.save_parameters(str(tmp_path / "p"))
    net.load_parameters(str(tmp_path / "p"))
    net.hybridize(background=True)
    with stopped():
        for train in (True, False, True, False):
            assert_same(net, other, x, train)
        assert net.explain().count(WAITS) == 2
        assert not net.wait_compiled(0)
    assert net.wait_compiled(LIMIT)
    for train in (True, False, True, False):
        assert_same(net, other, x, train)
    assert (net.explain() + "\n").count(TAKEN) == 2
    assert WAITS not in net.explain()
    assert net.wait_compiled(0)  # nothing is left to wait for


@contextlib.contextmanager
def stopped():
    """The process that compiles exists, and does nothing meanwhile."""
    process = worker()
    os.kill(process, signal.SIGSTOP)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def worker():
    """The process that compiles, started if there is none, without work."""
    for compilation in tuple(BACKGROUND._by_key.values()):
        assert compilation.wait(LIMIT)
    if BACKGROUND._process is None:
        small(background=True)
        assert BACKGROUND._process is not None
    return BACKGROUND._process._popen.pid


COUNT = iter(range(10**6))


def small(**flags):
    """A network of which there is no other, called once and compiled."""
    net = fresh(**flags)
    net(nd.ones((3,)))
    assert net.wait_compiled(LIMIT)
    return net


def fresh(**flags):
    factor = 1 + next(COUNT) / 1024
    net = nn.HybridLambda(lambda F, x: F.exp(x * factor))
    net.hybridize(**flags)
    return net


def test_threads_that_call_at_once_start_one_compilation():
    net, x = fresh(background=True), nd.ones((3,))
    net(x)
    with stopped():
        net = fresh(background=True)
        expected = net._forward_eagerly((x,)).asnumpy()
        start, results = threading.Barrier(6), []

        def call():
            start.wait()
            results.extend(net(x).asnumpy() for _ in range(3))

        threads = [threading.Thread(target=call) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(net._cached_graph.in_background()) == 1
        assert (
            sum(each is net._cached_graph.in_background()[0]._compilation for each in BACKGROUND._by_key.values()) == 1
        )
        np.testing.assert_allclose(results, [expected] * 18, rtol=1e-6)
    assert net.wait_compiled(LIMIT)
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)


def test_equal_networks_are_compiled_once():
    with stopped():
        nets = [dense() for _ in range(3)]
        for net in nets:
            net.initialize()
            net.hybridize(background=True)
            net(nd.ones((2, 17)))
        assert len({id(net._cached_graph.in_background()[0]._compilation) for net in nets}) == 1


def test_what_a_process_that_is_killed_left_is_compiled_by_the_next_call():
    net, x = fresh(background=True), nd.ones((3,))
    with stopped() as process:
        first = net(x).asnumpy()
        os.kill(process, signal.SIGKILL)
        assert net.wait_compiled(LIMIT)
    with pytest.warns(
        UserWarning, match="is compiled by this call, not in the background: the process was ended by SIGK"
    ):
        np.testing.assert_allclose(net(x).asnumpy(), first, rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net(x)
        assert TAKEN in small_explained()  # by another process


def small_explained():
    net = small(background=True)
    net(nd.ones((3,)))
    return f"{net.explain()}\n"


@mx.op.register("test_background.twice")
class Twice(mx.op.Elementwise):
    """2 x"""

    def scalar(self, b, x):
        return b.add(x, x)

    def gradient(self, F, dy, x, y):
        return dy + dy


def test_users_operators_are_compiled_at_once():
    net = nn.HybridLambda(lambda F, x: F.test_background.twice(x) if hasattr(F, "test_background") else F.twice(x))
    net.hybridize(background=True)
    with pytest.warns(UserWarning, match=r"cannot compile test_background.twice, an operator of yours") as told:
        net(nd.ones((3,)))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net(nd.ones((3,)))


def test_programs_for_gpus_are_compiled_at_once():
    net = nn.HybridLambda("tanh")
    net.hybridize(background=True)
    with pytest.warns(UserWarning, match="another process cannot compile a program for a GPU"):
        net(nd.ones((3,), ctx=mx.gpu()))


def test_no_recompile_refuses_what_is_compiled_in_the_background():
    net, x = fresh(background=True), nd.ones((3,))
    with mx.no_recompile(), pytest.raises(RecompileError, match="first call"):
        net(x)
    with stopped():
        net(x)
        with mx.no_recompile():
            net(x)
    assert net.wait_compiled(LIMIT)
    with mx.no_recompile():
        net(x)


def test_a_block_says_otherwise_than_the_option(monkeypatch):
    assert read({"HYBRIDC_COMPILE": "background"}).compile == "background"
    module = sys.modules[HybridBlock.__module__]
    monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, compile="background"))
    assert TAKEN in small_explained()
    net = fresh(background=False)
    net(nd.ones((3,)))
    assert "in the background" not in net.explain()
    with stopped():
        net = fresh()
        net(nd.ones((3,)))
        assert WAITS in net.explain()


def test_children_and_blocks_of_other_kinds():
    net = nn.Sequential()
    net.add(nn.Dense(3, in_units=2), nn.Dense(4, in_units=3))
    net.initialize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.hybridize(background=True)
    with stopped():
        net(nd.ones((1, 2)))
        assert not net.wait_compiled(0)
    assert net.wait_compiled(LIMIT)


def test_results_are_arrays_of_their_own():
    net = nn.HybridLambda(lambda F, x: (x, x.reshape((-1,)), x.T, F.identity(x)))
    net.hybridize(background=True)
    x = nd.array(np.arange(6.0).reshape(2, 3))
    with stopped():
        for _ in range(2):
            results = net(x)
            for y in results:
                before = [z.asnumpy() for z in (x, *results) if z is not y]
                y[:] = -1
                assert all(map(np.array_equal, before, [z.asnumpy() for z in (x, *results) if z is not y]))


def test_an_error_names_the_line_before_and_after():
    class Rows(HybridBlock):
        def hybrid_forward(self, F, x, i):
            return F.take(x, i, mode="raise")

    net = Rows()
    net.hybridize(background=True)
    x, bad = nd.ones((3, 2)), nd.array([9.0])
    with stopped(), pytest.raises(mx.MXNetError) as before:
        net(x, bad)
    assert net.wait_compiled(LIMIT)
    net(x, nd.array([0.0]))
    with pytest.raises(mx.MXNetError) as after:
        net(x, bad)
    assert "test_background.py" in str(before.value)
    assert str(before.value) == str(after.value)


# --- whole programs ---------------------------------------------------------------------------------------------

START = """
import os
import signal
import sys
import time
import warnings

import numpy as np
import hybridc as mx
from hybridc.gluon import nn

net = nn.HybridSequential()
net.add(nn.Dense(8, activation="tanh", in_units=4), nn.LayerNorm(in_channels=8), nn.Dense(3, in_units=8))
net.initialize(mx.init.One())
net.hybridize(background=True)
x = mx.nd.array(np.linspace(-1, 1, 20, dtype="f4").reshape(5, 4))
"""
ALONE = """
import importlib.abc

class Forbidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.startswith("xdsl.") or name == "hybridc.compile.pipeline":
            raise AssertionError(f"the compiler is imported: {name}")

sys.meta_path.insert(0, Forbidden())
before = net(x).asnumpy()
assert net.wait_compiled(600)
np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-5)
assert "compiled in the background" in net.explain()
"""
ENDS = """
from hybridc.compile.background import compiler_process
from hybridc.compile.background.compiler_process import BACKGROUND

net(x)
while BACKGROUND._process is None:
    time.sleep(0.01)
print(BACKGROUND._process._popen.pid, flush=True)
end = sys.argv[1]
if end == "with a child":
    if os.fork() == 0:
        os.close(1)
        time.sleep(600)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""
FORKS = """
net(x)
pid = os.fork()
assert net.wait_compiled(600)
before = net(x).asnumpy()
assert net.wait_compiled(600)
after = net(x).asnumpy()
np.testing.assert_allclose(after, before, rtol=1e-5)
assert "compiled in the background" in net.explain()
if pid == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
NOT_KEPT = """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    before = net(x).asnumpy()
    net.wait_compiled(600)
    np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-5)
    net(x)
print([str(w.message) for w in told if "by this call" in str(w.message)])
"""


def start(tmp_path, text, *arguments, **environment):
    given = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDC_VERIFY": "0", "HYBRIDC_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", START + text, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**given, **environment})


def test_the_program_itself_imports_no_compiler(tmp_path):
    assert start(tmp_path, ALONE).wait(LIMIT) == 0


@pytest.mark.parametrize("end", ["exits", "killed", "with a child"])
def test_the_process_ends_with_the_program(tmp_path, end):
    process = start(tmp_path, ENDS, end)
    printed, _ = process.communicate(timeout=LIMIT)
    wait_for_end(int(printed))
    assert process.returncode == (-signal.SIGKILL if end == "killed" else 0)


def wait_for_end(pid):
    """Wait until there is no process with this number; the test's limit of time is that of the whole run."""
    pause = threading.Event()
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        pause.wait(0.02)


def test_a_forked_child_compiles_for_itself(tmp_path):
    process = start(tmp_path, FORKS)
    assert process.communicate(timeout=LIMIT)[0] == "0\n"
    assert process.returncode == 0


def test_without_a_cache_folder_the_next_call_compiles(tmp_path):
    (tmp_path / "cache").write_text("no folder")
    process = start(tmp_path, NOT_KEPT)
    told = process.communicate(timeout=LIMIT)[0]
    assert told.count("the cache folder does not keep it") == 1
