"""What is recorded of a run: eager operators, graphs with kernels by thread, loops, host calls, compilation, data."""

from __future__ import annotations

import importlib.util
import json
import os
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import warm_start
from hybridc.ground.events import RECORDER
from hybridc.lower.llvm.executor.emit_runtime import runtime_text
from hybridc.options import OPTIONS
from hybridc.runtime.native import num_threads, set_num_threads
from hybridc.runtime.native.native_events import NATIVE_EVENTS
from tests.profiler.traces import ROUNDING, check, inside, of

NATIVE = pytest.mark.skipif(OPTIONS.target != "llvm", reason="the events of native code: threads, loops, the ring")

nd, nn = mx.nd, mx.gluon.nn
X = np.arange(20, dtype="float32").reshape(4, 5) / 10


class Net(mx.gluon.HybridBlock):
    """Two layers; the lines of its kernels are known."""

    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first = nn.Dense(10, in_units=5)

    def hybrid_forward(self, F, x):
        return F.tanh(self.first(x)) * 2  # LINE


def _line():
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith("# LINE"))


@pytest.fixture(scope="module")
def net():
    """It was compiled before, with and without gradients."""
    mx.random.seed(1)
    made = Net()
    made.initialize()
    made.hybridize()
    x = nd.array(X)
    made(x)
    with mx.autograd.record():
        y = made(x)
    y.backward()
    return made


def test_eager_operators(events):
    a, b = nd.array(X), nd.array(X.T)

    def run():
        c = nd.dot(a, b)
        c += 1.0
        (c * 2).sum()

    found = events(run)
    check(found)
    names = [(e["name"], e["args"]["inputs"]) for e in of(found, "operator")]
    assert names[0] == ("dot", ["float32[4, 5]", "float32[5, 4]"])
    assert [name for name, _ in names] == ["dot", "add", "multiply", "sum"]
    assert names[-1][1] == ["float32[4, 4]"]


def test_an_eager_network_nests(events):
    eager = Net()
    eager.initialize()
    x = nd.array(X)
    found = events(lambda: eager(x))
    check(found)
    (outer,) = [e for e in of(found, "block") if e["name"] == eager.name]
    within = [(e["cat"], e["name"]) for e in inside(found, outer)]
    assert ("block", eager.first.name) in within
    assert ("operator", "FullyConnected") in within
    assert ("operator", "tanh") in within


def test_a_hybridized_network_with_its_gradients(events, net):
    x = nd.array(X)
    x.attach_grad()

    def run():
        net(x)
        with mx.autograd.record():
            y = net(x)
        y.backward()

    run()
    found = events(run)
    check(found)
    graphs = of(found, "graph")
    assert [g["name"].rpartition(": ")[2] for g in graphs] == ["forward", "forward", "backward"]
    for graph in graphs:
        kernels = [e for e in inside(found, graph) if e["cat"] == "kernel"]
        assert len(kernels) == graph["args"]["steps"] > 0
        assert [k["args"]["step"] for k in kernels] == [*range(len(kernels))]
        assert sum(k["dur"] for k in kernels) <= graph["dur"] + ROUNDING
        assert {k["args"]["graph"] for k in kernels} == {graph["name"]}
    assert [e["name"] for e in of(found, "api")] == ["autograd.backward"]
    assert len(of(found, "block")) == 2


def test_a_kernel_says_what_it_computes_for_whom(events, net):
    found = events(lambda: net(nd.array(X)))
    kernels = of(found, "kernel")
    assert [o for k in kernels for o in k["args"]["operators"]] == ["matmul", "add", "tanh", "multiply"]
    lines = {line for k in kernels for line in k["args"]["lines"]}
    assert any(line.startswith(f"{__file__}:{_line()} ") for line in lines), lines
    last = kernels[-1]["args"]
    assert last["writes"] == ["float32[4, 10]"]
    arrays = [text.split("[") for text in (*last["reads"], *last["writes"])]
    sizes = [np.dtype(t).itemsize * int(np.prod(json.loads(f"[{shape}"))) for t, shape in arrays]
    assert last["bytes"] == sum(sizes)


@NATIVE
def test_kernels_by_thread(events):
    """The chunks of a kernel cover its iterations once each, whoever runs them."""
    net = mx.gluon.nn.HybridLambda("softmax")
    net.hybridize()
    x = nd.ones((2048, 256))
    net(x)
    before = num_threads()
    set_num_threads(2)
    net(x)
    found = events(lambda: [net(x) for _ in range(20)])
    set_num_threads(before)
    check(found)
    kernels, chunks = of(found, "kernel"), of(found, "thread")
    assert len(kernels) == 20
    assert {c["name"] for c in chunks} == {kernels[0]["name"]}
    ranges = sorted(tuple(c["args"]["iterations"]) for c in chunks)
    assert ranges, "the kernel is not shared"
    covered = np.zeros(2048, int)
    for low, high in ranges:
        covered[low:high] += 1
    assert (covered == 20).all()
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert {names[c["tid"]] for c in chunks} <= {"MainThread", "hybridc worker 1"}


@NATIVE
def test_a_loop(events):
    lstm = mx.gluon.rnn.LSTM(3)
    lstm.initialize()
    lstm.hybridize()
    x = nd.ones((7, 2, 4))
    lstm(x)
    found = events(lambda: lstm(x))
    check(found)
    (loop,) = of(found, "loop")
    within = inside(found, loop)
    assert within
    assert len(within) % 7 == 0
    assert {e["cat"] for e in within} == {"kernel"}
    assert sum(e["dur"] for e in within) <= loop["dur"] + ROUNDING
    assert all(e["args"]["lines"] == loop["args"]["lines"] and e["args"]["operators"] for e in within)


class Twice(mx.operator.CustomOp):
    """2 x."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("profiled_twice")
class TwiceProp(mx.operator.CustomOpProp):
    """Of :class:`Twice`."""

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Twice()


def test_a_custom_operator(events):
    class Custom(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.relu(F.Custom(x, op_type="profiled_twice"))

    net = Custom()
    net.hybridize()
    x = nd.array(X)
    x.attach_grad()

    def run():
        with mx.autograd.record():
            y = net(x)
        y.backward()

    run()
    found = events(run)
    check(found)
    hosts = of(found, "host")
    assert hosts
    assert all(__file__ in line for h in hosts for line in h["args"]["lines"])
    within = [e["name"] for h in hosts for e in inside(found, h) if e["cat"] == "custom operator"]
    assert within == ["profiled_twice.forward", "profiled_twice.backward"]
    np.testing.assert_array_equal(x.grad.asnumpy(), np.where(X > 0, 2, 0))


def test_a_thread_without_events_has_no_name(events):
    """When it ends, its identity may be that of a thread with events."""
    over = threading.Event()
    bystander = threading.Thread(target=over.wait, name="bystander")
    bystander.start()
    try:
        events(lambda: nd.dot(nd.array(X), nd.array(X).T))
        assert bystander.ident not in RECORDER.threads
    finally:
        over.set()
        bystander.join()


def test_several_threads(events, net):
    x = nd.array(X)
    together = threading.Barrier(3)  # a thread that follows another may have its identity

    def call():
        together.wait()
        for _ in range(10):
            net(x)
            nd.dot(x, x.T)

    def run():
        threads = [threading.Thread(target=call, name=f"caller {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = events(run)
    check(found)
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    graphs = of(found, "graph")
    assert len(graphs) == 30
    assert {names[g["tid"]] for g in graphs} == {"caller 0", "caller 1", "caller 2"}
    assert len([e for e in of(found, "operator") if e["name"] == "dot"]) == 30


def test_compilation(events):
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.sin(F.exp(x) + 3.25))
    net.hybridize()
    found = events(lambda: net(nd.ones((3, 7))))
    check(found)
    names = [e["name"] for e in of(found, "compile")]
    assert "tracing" in names
    assert any(name.startswith("compile ") for name in names)
    marks = [e["name"] for e in found if e["ph"] == "i"]
    hit = "cache hit" in marks
    assert hit or {"fuse-kernels", "plan-memory"} <= {*names}


def test_data_loading(events):
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(np.arange(10)), batch_size=5)
    found = events(lambda: [*loader])
    assert [e["name"] for e in of(found, "data")] == ["wait for a batch"] * 2


def test_memory(events):
    found = events(lambda: nd.ones((1 << 20,)), profile_memory=True)
    values = {}
    for e in found:
        if e["ph"] == "C":
            values.setdefault(e["name"], []).append(e["args"][e["name"]])
    assert all(v >= 0 for each in values.values() for v in each)
    if os.path.exists("/proc/self/statm"):
        assert values["Memory: cpu/0"][0] > 1 << 20


@pytest.mark.parametrize("kind", ["profile_symbolic", "profile_imperative", "profile_api"])
def test_kinds_of_events(events, net, kind):
    x = nd.array(X)
    kinds = ("profile_symbolic", "profile_imperative", "profile_api")
    found = events(lambda: (net(x), nd.dot(x, x.T)), **{k: k == kind for k in kinds})
    categories = {e["cat"] for e in found if e["ph"] == "X"}
    wanted = {"profile_symbolic": {"graph", "kernel"}, "profile_imperative": {"operator"}, "profile_api": {"block"}}
    assert categories == wanted[kind]


def test_results_are_the_same_bits(profiler, net):
    x = nd.array(X)
    before = net(x).asnumpy(), nd.dot(x, x.T).asnumpy()
    profiler.set_state("run")
    during = net(x).asnumpy(), nd.dot(x, x.T).asnumpy()
    profiler.set_state("stop")
    after = net(x).asnumpy(), nd.dot(x, x.T).asnumpy()
    for a, b, c in zip(before, during, after, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_errors_are_the_same(profiler, net):
    profiler.set_state("run")
    with pytest.raises(mx.MXNetError, match="shape"):
        net(nd.ones((4, 6)))
    with pytest.raises(mx.MXNetError):
        nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))


def test_numpy_programs(by_numpy, events):
    net = Net()
    net.initialize()
    net.hybridize()
    x = nd.array(X)
    plain = net(x).asnumpy()
    results = []
    found = events(lambda: results.append(net(x)))
    check(found)
    np.testing.assert_array_equal(results[0].asnumpy(), plain)
    (graph,) = of(found, "graph")
    kernels = of(found, "kernel")
    assert sum(k["dur"] for k in kernels) <= graph["dur"] + ROUNDING
    assert [o for k in kernels for o in k["args"]["operators"]] == ["matmul", "add", "tanh", "multiply"]


def test_steps_on_a_device(events):
    if importlib.util.find_spec("triton") is None:  # to import it here would make it compile
        pytest.skip("needs Triton")
    net = mx.gluon.nn.HybridLambda("softmax")
    net.hybridize()
    x = nd.ones((2, 3), ctx=mx.gpu())
    net(x)
    found = events(lambda: net(x))
    check(found)
    (kernel,), (graph,) = of(found, "kernel"), of(found, "graph")
    assert kernel["tid"] != graph["tid"]
    assert kernel["dur"] <= graph["dur"] + ROUNDING
    assert "max" in kernel["args"]["operators"]


# --- the ring of native events ----------------------------------------------------------------------------------------


@NATIVE
def test_native_code_asks_python_to_take_events(events, net, monkeypatch):
    x = nd.array(X)
    events(lambda: net(x))
    taken = []
    monkeypatch.setattr(NATIVE_EVENTS, "take", lambda take=NATIVE_EVENTS.take: taken.append(1) or take())
    monkeypatch.setattr(NATIVE_EVENTS._ring, "half", 4)
    found = events(lambda: [net(x) for _ in range(50)])
    assert len(of(found, "graph")) == 50
    assert len(taken) > 10


@NATIVE
def test_events_for_which_there_is_no_room_are_counted(net, profiler, monkeypatch):
    x = nd.array(X)
    profiler.set_config(profile_memory=False)
    profiler.set_state("run")
    RECORDER.take()
    ring = NATIVE_EVENTS._ring
    monkeypatch.setattr(NATIVE_EVENTS, "take", lambda: None)
    monkeypatch.setattr(RECORDER, "lost", 0)
    net(x)
    monkeypatch.undo()
    ring.drained -= 1 << 20  # as if as many had come before, and been written over
    monkeypatch.setattr(RECORDER, "lost", 0)
    spans, _, _ = RECORDER.take()
    assert RECORDER.lost > 0
    assert any(s.category == "graph" for s in spans)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_records_nothing(net, profiler):
    x = nd.array(X)
    profiler.set_state("run")
    net(x)
    child = os.fork()
    if not child:
        net(x)
        spans, _, _ = RECORDER.take()
        os._exit(len(spans) + RECORDER.active)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert RECORDER.active


def test_nothing_is_compiled_again(profiler, net):
    """The variants that record are no other networks."""
    x = nd.array(X)
    net(x)
    with mx.no_recompile():
        profiler.set_state("run")
        net(x)
        profiler.set_state("stop")
        net(x)


def test_the_native_code_that_runs_otherwise_records_nothing():
    plain, recording = runtime_text("x86_64"), runtime_text("x86_64", records=True)
    for function in ("@record(", "@timed("):
        assert function not in plain
        assert function in recording


def test_lines_are_those_of_the_process(net):
    """A graph from the disk has the lines of the process that stored it, until they are renamed."""
    traced = net.trace(nd.array(X))
    program = traced.optimize().lower("llvm").programs["forward"]
    lines = warm_start._lines({"forward": program}, traced.trace)
    own = {line for note in program.notes for line in note.lines if f":{_line()} (in net" in line}
    assert own
    assert own <= lines.keys()
    program.rename_lines({min(own): "moved.py:1"})
    assert "moved.py:1" in {line for note in program.notes for line in note.lines}
