"""Compiled graphs from the disk: real processes, of which later ones must not compile."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import trace_key, warm_start
from hybridc.compile.definitions import Definitions
from hybridc.compile.stages import Traced
from hybridc.compile.trace_key import structure
from hybridc.compile.warm_start import StoredGraph
from hybridc.ground.serialize import NotWritable, from_bytes, read, to_bytes, written
from hybridc.ir.planned import HostCall, NativeRegion
from hybridc.lower.llvm.emit_steps import emit_native_plan
from hybridc.lower.llvm.native_target import native_target
from hybridc.options import Options
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code.kernel_cache import KernelCache
from tests.slices import but, one_in

# Before what a test runs: with "warm", nothing may be compiled. "what" prints an array exactly.
START = """
import sys
import numpy as np
import hybridc as mx
from hybridc.gluon import nn

def what(x):
    print(np.asarray(x.asnumpy()).tobytes().hex())

if "warm" in sys.argv:
    import hybridc.lower.llvm.codegen.native_function as codegen
    import importlib.abc

    def compile_(*_):
        raise AssertionError("LLVM runs")

    codegen._compile = codegen.optimised = compile_

    class Forbidden(importlib.abc.MetaPathFinder):
        def find_spec(self, name, *_):
            if name.startswith("xdsl.") or name == "hybridc.compile.pipeline":
                raise AssertionError(f"the compiler is imported: {name}")

    sys.meta_path.insert(0, Forbidden())
"""

DENSE = """
net = nn.HybridSequential()
net.add(nn.Dense(8, activation="tanh", in_units=4), nn.LayerNorm(in_channels=8), nn.Dense(3, in_units=8))
net.initialize(mx.init.One())
net.hybridize()
x = mx.nd.array(np.linspace(-1, 1, 20, dtype="f4").reshape(5, 4))
"""
FORWARD = DENSE + "what(net(x))\n"
EXPLAINED = FORWARD + "print(net.explain())\nfor name, traced in net._cached_graph.compilations():\n"
EXPLAINED += "    print(name, *[t.optimize().lower().plan() for t in traced])\n"
GRADIENTS = DENSE + "with mx.autograd.record():\n    y = net(x)\ny.backward()\nwhat(y)\n"
GRADIENTS += "for p in net.collect_params().values():\n    what(p.grad())\n"
STEP = DENSE + textwrap.dedent("""
    trainer = mx.gluon.Trainer(net.collect_params(), "nag", {"momentum": 0.9})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
    for _ in range(3):
        what(step(x, mx.nd.ones((5, 3))))
    for p in net.collect_params().values():
        what(p.data())
""")
UPDATE = DENSE.replace("net.hybridize()", "") + textwrap.dedent("""
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    for _ in range(2):
        with mx.autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(5)
    for p in net.collect_params().values():
        what(p.data())
""")
DROPOUT = """
mx.random.seed(3)
net = nn.HybridSequential()
net.add(nn.Dense(8, in_units=4), nn.Dropout(0.5), nn.BatchNorm(in_channels=8))
net.initialize(mx.init.One())
net.hybridize()
x = mx.nd.array(np.linspace(-1, 1, 20, dtype="f4").reshape(5, 4))
with mx.autograd.record():
    y = net(x)
y.backward()
what(y)
what(net(x))
for p in net.collect_params().values():
    what(p.data())
"""
LOOPS = """
class Steps(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x, s):
        def step(row, s):
            s = F.contrib.cond(F.sum(s) > 1, lambda: s * 0.5, lambda: s + row)
            return F.contrib.while_loop(lambda t: F.sum(t) < 5, lambda t: ([], t + 1), s, max_iterations=9)[1], s
        return F.contrib.foreach(step, x, s)
net = Steps()
net.hybridize()
x = mx.nd.array(np.linspace(-1, 1, 20, dtype="f4").reshape(5, 4))
for y in net(x, x[0]):
    what(y)
layer = mx.gluon.rnn.GRU(3)
layer.initialize(mx.init.One())
layer.hybridize()
with mx.autograd.record():
    y = layer(x.reshape((5, 1, 4)))
y.backward()
what(y)
for p in layer.collect_params().values():
    what(p.grad())
"""
# Sorting is a call of the host.
HOST = """
class Ranks(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.topk(F.exp(x), k=2, ret_typ="value") * 2
net = Ranks()
net.hybridize()
what(net(mx.nd.array(np.random.default_rng(0).random((3, 7), dtype="f4"))))
"""


class Session:
    """Processes with one cache folder."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = folder / "cache"

    def start(self, text, *arguments, **environment):
        """A process that runs a script, and what it did; host calls name the script's lines, so it keeps its name."""
        script = self.folder / "script.py"
        script.write_text(START + text)
        return self.again(script, *arguments, **environment)

    def again(self, script, *arguments, **environment):
        given = {**os.environ, "HYBRIDC_TARGET": "llvm", "HYBRIDC_VERIFY": "0", "HYBRIDC_CACHE_DIR": str(self.cache)}
        return subprocess.run(
            [sys.executable, str(script), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**given, **environment},
            cwd=self.folder,
            timeout=300,
        )

    def run(self, text, *arguments, **environment):
        """What it prints."""
        done = self.start(text, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        return done.stdout

    def compiles(self, text, **environment):
        """Whether a process that must not compile fails."""
        done = self.start(text, "warm", **environment)
        assert done.returncode == 0 or "the compiler is imported" in done.stderr, done.stderr
        return done.returncode != 0

    def entries(self):
        return {p: p.read_bytes() for p in self.cache.rglob("*") if p.is_file()}


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path)


@pytest.fixture(scope="module")
def forward(tmp_path_factory):
    """A folder in which a process has compiled and explained a network, and what it printed."""
    first = Session(tmp_path_factory.mktemp("forward"))
    return first, first.run(EXPLAINED)


@pytest.fixture
def later(forward, tmp_path):
    """Processes with what that one has left, and what it gave and told."""
    first, printed = forward
    shutil.copytree(first.cache, tmp_path / "cache")
    result, _, explanation = printed.partition("\n")
    return Session(tmp_path), f"{result}\n", explanation


# Each by itself, and, which takes less time, one after the other.
TEXTS = [[STEP, DROPOUT, HOST, LOOPS], [FORWARD], [GRADIENTS], [STEP], [UPDATE], [DROPOUT], [HOST], [LOOPS]]


@pytest.mark.parametrize("texts", but(TEXTS[1:], TEXTS), ids=range(len(TEXTS)))
def test_a_later_process_does_not_compile(session, texts):
    text = "\n".join(texts)
    cold = session.run(text)
    assert session.run(text, "warm") == cold
    # The numpy target is another way to the same numbers.
    other = session.run(text, HYBRIDC_TARGET="numpy")
    for ours, theirs in zip(cold.split(), other.split(), strict=True):
        got, expected = (np.frombuffer(bytes.fromhex(h), np.float32) for h in (ours, theirs))
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


def test_an_empty_folder_means_compiling(session):
    assert session.compiles(FORWARD)


def test_other_networks_and_options_are_compiled(session):
    session.run(FORWARD, HYBRIDC_NUM_THREADS="1")
    others = (FORWARD.replace("tanh", "sigmoid"), GRADIENTS, FORWARD)
    text = f"for text in {others!r}:\n    try:\n        exec(text)\n    except AssertionError as error:\n"
    told = session.run(text + "        print(error)\n", "warm", HYBRIDC_NUM_THREADS="1").splitlines()
    assert ["the compiler is imported" in line for line in told] == [True, True, False]
    assert session.compiles(FORWARD, HYBRIDC_NUM_THREADS="2")


WATCHING = [{"verify": True}, {"poison": True}, {"dump": "x"}, {"print_after": ("all",)}, {"print_source": True}]


@pytest.mark.parametrize("change", [*WATCHING, {"time": True}, {"target": "numpy"}], ids=repr)
def test_who_watches_the_compiler_sees_it(monkeypatch, change):
    traced = mx.gluon.nn.HybridLambda("exp").trace(mx.nd.ones((3,)))
    plain = Options(target="llvm")
    for module in (warm_start, trace_key):
        monkeypatch.setattr(module, "OPTIONS", plain)
    assert warm_start.key_to_store(traced)
    for module in (warm_start, trace_key):
        monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(plain, **change))
    with pytest.raises(NotWritable):
        warm_start.key_to_store(traced)


@pytest.mark.long
def test_a_dump_has_every_stage(later):
    session, *_ = later
    session.run(FORWARD, HYBRIDC_DUMP=str(session.folder / "dump"))
    assert len(list((session.folder / "dump").iterdir())) > 10


@pytest.mark.long
def test_python_operators_are_compiled_always(session):
    text = """
@mx.operator.register("twice")
class Prop(mx.operator.CustomOpProp):
    def create_operator(self, *_):
        class Twice(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)
        return Twice()
class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.Custom(F.exp(x), op_type="twice")
net = Net()
net.hybridize()
what(net(mx.nd.zeros((4,))))
"""
    assert session.run(text) == session.run(text) == f"{np.full(4, 2, np.float32).tobytes().hex()}\n"
    assert session.compiles(text)


@pytest.mark.parametrize("damage", but(("cut", "remove"), ["flip", "cut", "remove"]))
def test_damaged_files_are_made_anew(later, damage):
    session, expected, _ = later
    for path, data in session.entries().items():
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes(data[: len(data) // 2] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 4]))
    assert session.run(FORWARD) == expected
    assert session.run(FORWARD, "warm") == expected


@pytest.mark.long
def test_a_graph_without_its_kernels_is_made_anew(later):
    session, expected, _ = later
    for path, data in session.entries().items():
        if b"ELF" in data:
            path.unlink()
    assert session.compiles(FORWARD)
    assert session.run(FORWARD) == expected
    assert session.run(FORWARD, "warm") == expected


def without_origin(explanation):
    """An explanation without the lines that tell where graphs are from, and those."""
    lines = explanation.splitlines(keepends=True)
    told = [line for line in lines if "from the cache on the disk" in line]
    return "".join(line for line in lines if line not in told), told


def test_an_error_on_the_host_names_the_line_of_this_process(session):
    (session.folder / "operators.py").write_text("""
import hybridc as mx

@mx.op.register("mine.fails")
class Fails(mx.op.Opaque):
    "raises"
    def infer_shape(self, shapes):
        return shapes, shapes
    def eager(self, x):
        raise ValueError("no")
""")
    text = (
        START
        + """
import hybridc.op
import operators
class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.fails(x) * 2
net = Net()
net.hybridize()
try:
    net(mx.nd.ones((4,)))
except Exception as error:
    print(str(error), getattr(error, "__notes__", ""))
print(net.explain())
"""
    )
    script = session.folder / "script.py"
    script.write_text(text)
    before = session.again(script).stdout
    number = text.splitlines().index("        return F.fails(x) * 2") + 1
    assert before.count(f"script.py:{number} ") == 2
    script.write_text(text.replace("class Net", "\n\nclass Net"))  # the source has moved: no reason to compile
    after, told = without_origin(session.again(script, "warm").stdout)
    assert told
    assert after == re.sub(rf"script\.py:{number}\b", f"script.py:{number + 2}", before)


@pytest.mark.long
@pytest.mark.parametrize("count", one_in(2, [3, 8]))
def test_processes_at_once(session, count):
    script = session.folder / "script.py"
    script.write_text(START + STEP)
    with ThreadPoolExecutor(count) as pool:
        printed = {done.stdout for done in pool.map(lambda _: session.again(script), range(count))}
    assert len(printed) == 1
    names = session.entries().keys()
    assert session.run(STEP, "warm") in printed
    assert session.entries().keys() == names


def test_explanations_after_a_warm_start(later):
    session, result, cold = later
    assert "kernel" in cold
    assert "hybrid_rt.launch" in cold
    warm, told = without_origin(session.run(EXPLAINED))
    assert len(told) == 1
    assert warm == result + cold


# --- in this process ------------------------------------------------------------------------------------------


def made(net, *arrays, grads=()):
    """The native programs of a network, as they are before they are loaded."""
    trace = trace_call(net, arrays, True)
    lowered = Traced(trace, grads).optimize().lower("llvm")
    return trace, {
        name: emit_native_plan(lowered.module, name, KernelCache(native_target(2))) for name in lowered.programs
    }


class Mixed(mx.gluon.HybridBlock):
    """Kernels, constants, a call of the host, views."""

    def hybrid_forward(self, F, x):
        ranks = F.topk(x * 3, k=2, ret_typ="both")
        table = F.arange(start=0, stop=10)
        return F.sum(ranks[0], axis=1) + ranks[1][:, 0], table * 2, F.transpose(x)


def test_programs_are_read_as_they_were_written():
    x = mx.nd.ones((3, 10))
    _, programs = made(Mixed(), x)
    graph = StoredGraph(programs, (1, 2), (0,), 77, (0, 1), (3,), {"a": [1, 2]})
    found = from_bytes(StoredGraph, to_bytes(graph))
    assert (found.saved, found.grads, found.saved_bytes, found.heads) == ((1, 2), (0,), 77, (0, 1))
    assert found.rows == (3,)
    assert found.lines == {"a": [1, 2]}
    for name, program in programs.items():
        assert any(isinstance(step, HostCall) for step in program.steps)
        for field in (f for f in dataclasses.fields(program) if f.compare):
            ours, read_ = getattr(program, field.name), getattr(found.programs[name], field.name)
            if field.name == "constants":
                assert [(c.dtype, c.tolist()) for c in ours] == [(c.dtype, c.tolist()) for c in read_]
            elif field.name == "steps":
                assert list(map(parts, ours)) == list(map(parts, read_))
            else:
                assert ours == read_, field.name


def parts(step):
    """All fields of a step."""
    if isinstance(step, HostCall):
        return [getattr(step, f.name) for f in dataclasses.fields(HostCall)]
    called, region = step
    return [f.key for f in called], *[getattr(region, f.name) for f in dataclasses.fields(NativeRegion)]


def test_bytes_that_are_no_graph_are_refused():
    x = mx.nd.ones((3, 10))
    data = to_bytes(StoredGraph(made(Mixed(), x)[1], (), (), 0))
    for wrong in (b"", data[:5], data[:-1], data + b"x", data.replace(b"float32", b"float23"), data[8:]):
        with pytest.raises((ValueError, LookupError, TypeError)):
            from_bytes(StoredGraph, wrong)


VALUES = [None, True, 1, -3, 1.5, float("inf"), -0.0, 1e-320, "text", (), (1, (2.0, None)), [1, "a"]]
VALUES += [np.dtype("f2"), np.dtype("u1"), np.float32(0.1), np.int64(7), np.bool_(True)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_read_as_they_were_written(value):
    import json

    found = read(json.loads(json.dumps(written(value))))
    assert type(found) is type(value)
    assert repr(found) == repr(value)


OTHERS = [object(), lambda: 0, {1: 2}, b"", {1}, np.dtype("O"), np.dtype("f4,f4")]


@pytest.mark.parametrize("value", OTHERS, ids=[type(x).__name__ for x in OTHERS])
def test_other_values_are_not_written(value):
    with pytest.raises(NotWritable):
        written(value)


def test_not_a_number_is_written():
    assert np.isnan(read(written(float("nan"))))


def network(change, training=False):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return change(F, x)

    return structure(trace_call(Net(), [mx.nd.ones((3, 4))], training), Definitions())


CHANGES = [
    lambda F, x: F.exp(x) * 2,
    lambda F, x: F.exp(x) * 3,
    lambda F, x: F.exp(x) * 2.5,
    lambda F, x: F.log(x) * 2,
    lambda F, x: F.sum(x, axis=0),
    lambda F, x: F.sum(x, axis=1),
    lambda F, x: F.sum(x, axis=(0, 1)),
    lambda F, x: F.exp(x) - x,
    lambda F, x: x - F.exp(x),
    lambda F, x: (x, F.exp(x)),
    lambda F, x: (F.exp(x), x),
    lambda F, x: F.cast(x, dtype="float64"),
    lambda F, x: F.cast(x, dtype="float16"),
]


def test_structures_differ_where_traces_do():
    found = [repr(network(change)) for change in CHANGES]
    assert len(set(found)) == len(found)
    assert [repr(network(change)) for change in CHANGES] == found


def test_structures_differ_in_training():
    """Some operators are decomposed differently then, and nothing else tells."""
    assert network(CHANGES[0], True) != network(CHANGES[0], False)
