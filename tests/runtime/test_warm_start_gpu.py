"""Compiled graphs of GPUs from the disk: real processes, of which later ones must not compile."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.compile.warm_start import StoredGraph
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.serialize import from_bytes, to_bytes
from hybridc.ir.planned import HostCall
from hybridc.lower.triton.launches import TritonProgram
from hybridc.trace.tracer import trace_call
from tests.runtime.test_warm_start import DENSE, GRADIENTS, HOST, STEP, Mixed, Session, parts
from tests.slices import but

pytestmark = pytest.mark.triton


ON_GPU = {"HYBRIDC_GPU": "interpreter"}
MOVED = {
    "mx.init.One())": "mx.init.One(), ctx=mx.gpu(0))",
    "reshape(5, 4))": "reshape(5, 4), ctx=mx.gpu(0))",
    "mx.nd.ones((5, 3))": "mx.nd.ones((5, 3), ctx=mx.gpu(0))",
    'dtype="f4"))))': 'dtype="f4"), ctx=mx.gpu(0))))',
}


def on_gpu(text: str) -> str:
    """A script of which all arrays are on a GPU."""
    for here, there in MOVED.items():
        text = text.replace(here, there)
    return text


@pytest.fixture
def session(tmp_path) -> Session:
    return Session(tmp_path)


def close(ours: str, theirs: str) -> None:
    """Two scripts have printed about the same numbers."""
    for one, other in zip(ours.split(), theirs.split(), strict=True):
        got, expected = (np.frombuffer(bytes.fromhex(h), np.float32) for h in (one, other))
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", but(("STEP", "HOST"), ["GRADIENTS", "STEP", "HOST"]))
def test_a_later_process_does_not_compile(session, name) -> None:
    text = {"GRADIENTS": GRADIENTS, "STEP": STEP, "HOST": HOST}[name]
    moved = on_gpu(text)
    assert moved.count("mx.gpu(0)") >= 1
    cold = session.run(moved, **ON_GPU)
    assert session.run(moved, "warm", **ON_GPU) == cold
    close(cold, session.run(text))  # on the CPU


@pytest.mark.long
def test_what_is_from_the_disk_and_what_is_not(session) -> None:
    text = on_gpu(DENSE + "what(net(x))\nprint(net.explain())\n")
    told = "from the cache on the disk"
    assert told not in session.run(text, **ON_GPU)
    assert told in session.run(text, "warm", **ON_GPU)
    assert session.compiles(text, HYBRIDC_TF32="1", **ON_GPU)  # other kernels
    assert session.compiles(text.replace("tanh", "sigmoid"), **ON_GPU)
    (folder,) = session.cache.iterdir()
    folder.chmod(0o777)  # others may have put there what is there
    assert session.compiles(text, **ON_GPU)


def programs_of(net, *arrays) -> dict[str, TritonProgram]:
    trace = trace_call(net, arrays, True)
    return Traced(trace).optimize().lower("triton").programs  # type: ignore[return-value]


def test_programs_are_read_as_they_were_written() -> None:
    programs = programs_of(Mixed(), mx.nd.ones((3, 10)))
    found = from_bytes(StoredGraph, to_bytes(StoredGraph(programs, (1,), (0,), 7)))
    for name, program in programs.items():
        other = found.programs[name]
        assert type(other) is TritonProgram
        assert any(isinstance(step, HostCall) for step in program.steps)
        assert not all(isinstance(step, HostCall) for step in program.steps)
        for field in (f for f in dataclasses.fields(program) if f.compare and f.name not in ("constants", "steps")):
            assert getattr(program, field.name) == getattr(other, field.name), field.name
        for ours, theirs in zip(program.steps, other.steps, strict=True):
            assert (parts(ours) == parts(theirs)) if isinstance(ours, HostCall) else (ours == theirs)
        assert other.code() == program.code()


def test_bytes_that_name_another_function_are_refused() -> None:
    data = to_bytes(StoredGraph(programs_of(HybridLambda("exp"), mx.nd.ones((3,))), (), (), 0))
    graph, values = json.loads(data[8:])
    name, source, *_ = next(v for v in values if isinstance(v[1], str))  # the kernel
    assert name in source
    text = json.dumps([graph, []]).encode()
    with pytest.raises(LookupError):
        from_bytes(StoredGraph, len(text).to_bytes(8, "little") + text)


KEYS = """
from hybridc.gluon.nn import HybridLambda
from hybridc.compile.trace_key import key_of
from hybridc.compile.stages import Traced
from hybridc.trace.tracer import trace_call
def key(context):
    return key_of(Traced(trace_call(HybridLambda("exp"), [mx.nd.ones((3,), ctx=context)], False)))
print(key(mx.gpu(0)) == key(mx.gpu(0)), key(mx.gpu(0)) != key(mx.cpu()))
"""


def test_a_graph_has_one_key_for_each_kind_of_device(session) -> None:
    """In a process where nobody changed an operator, as other tests do."""
    assert session.run(KEYS, **ON_GPU) == "True True\n"
