"""Compiled graphs in a file: real processes, with no compiler and an empty cache, run them; others refuse them."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import subprocess
import sys

import pytest

import hybridc as mx
from hybridc.compile import compiled_file
from hybridc.errors import CompiledFileError
from hybridc.gluon import SymbolBlock, nn
from hybridc.lower.llvm.codegen import host, llvm, object_loader, processor

pytestmark = [
    pytest.mark.skipif(not object_loader.runs_here(), reason="elsewhere LLVM loads the code"),
    pytest.mark.usefixtures("natively_stored"),
]

EXPORT = """
import numpy as np
import hybridc as mx
from hybridc.gluon import nn

mx.random.seed(1)
net = nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(nn.Conv2D(8, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(3, 3), nn.GlobalAvgPool2D(), nn.Dense(4))
net.initialize(mx.init.Xavier())
net.hybridize()
for n in (1, 4):
    net.compile((n, 3, 16, 16))
net.export("net", compiled=True)
print(net(mx.nd.array(np.random.default_rng(0).normal(size=(4, 3, 16, 16)))).asnumpy().tobytes().hex())
"""

# Before what a test runs: no compiler, if it is to be without one.
START = """
import sys
from concurrent.futures import ThreadPoolExecutor

if "bare" in sys.argv:
    sys.modules["xdsl"] = None
sys.modules["llvmlite"] = None

import numpy as np
import hybridc as mx

def imported(**options):
    return mx.gluon.SymbolBlock.imports("net-symbol.json", ["data"], "net-0000.params", **options)

def what(y):
    return y.asnumpy().tobytes().hex()

x = mx.nd.array(np.random.default_rng(0).normal(size=(4, 3, 16, 16)))
"""
SERVE = (
    START
    + """
net = imported(compiled=True)
print(what(net(x)))
assert what(net(x[:1])) == what(net(x[:1])) != what(net(x[1:2]))
assert "from the file that it was compiled into" in str(net.explain())
"""
)
THREADS = (
    START
    + """
net = imported(compiled="net-0000.compiled")
with ThreadPoolExecutor(4) as threads:
    print(*{what(y) for y in threads.map(lambda _: net(x), range(16))})
"""
)
OTHER_SIZE = START + "net = imported(compiled=True)\nnet(x[:, :, :13, :11])\n"
NOT_ASKED_FOR = START + "net = imported()\nnet.hybridize()\nnet(x)\n"
OTHER_PROCESSOR = """
from hybridc.lower.llvm.codegen import host
real = host.described_processor()
fake = {**real, "model": "999", "flags": real["flags"] + " of_later_kernels"}
host.described_processor = lambda: fake
"""


class Processes:
    """Processes in one folder, where LLVM cannot be found; the cache folder is empty at first."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, text, *arguments, **environment):
        given = {**os.environ, "HYBRIDC_TARGET": "llvm", "HYBRIDC_VERIFY": "0", "HYBRIDC_LLVM": "/nowhere/libLLVM.so"}
        given |= {"HYBRIDC_CACHE_DIR": str(self.folder / "cache"), **environment}
        command = [sys.executable, "-c", text, *arguments]
        return subprocess.run(command, cwd=self.folder, env=given, capture_output=True, text=True, check=False)

    def run(self, text, *arguments, **environment):
        """What it prints."""
        done = self.start(text, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, text, *arguments, **environment):
        """The error that ends it."""
        done = self.start(text, *arguments, **environment)
        assert done.returncode, done.stdout
        return [line for line in done.stderr.splitlines() if not line.startswith("(")][-1]  # of hidden frames


def exported(folder, **environment):
    """A network in a folder of its own, and its output."""
    printed = Processes(folder).run(EXPORT, HYBRIDC_LLVM="", **environment)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    return printed


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    return folder, exported(folder)


@pytest.fixture
def processes(network, tmp_path):
    """Processes in a copy of the network's folder, and the network's output."""
    shutil.copytree(network[0], tmp_path, dirs_exist_ok=True)
    return Processes(tmp_path), network[1]


def test_a_process_without_a_compiler_gives_the_same_bits(processes):
    here, output = processes
    assert here.run(SERVE, "bare") == output
    assert "OptionError" in here.fails(NOT_ASKED_FOR), "machine code is taken from the file unasked, or was stored"


def test_threads_are_served(processes):
    here, output = processes
    assert here.run(THREADS, "bare") == output


def test_another_size_says_what_is_missing(processes):
    error = processes[0].fails(OTHER_SIZE)
    assert error.startswith("hybridc.errors.OptionError: HYBRIDC_LLVM=/nowhere/libLLVM.so: this is no library of LLVM")
    assert "at the sizes that it has" in error


def test_another_processor_is_refused(processes):
    error = processes[0].fails(OTHER_PROCESSOR.join([START, "imported(compiled=True)"]))
    assert error.startswith("hybridc.errors.CompiledFileError: net-0000.compiled was compiled for the processor ")
    assert "HYBRIDC_CPU=x86-64-v3, there and here" in error
    assert "export(…, compiled=True)" in error


@pytest.mark.skipif(platform.machine() != "x86_64" or bool(processor.lacking("x86-64-v2")), reason="levels of x86-64")
def test_code_for_a_level_runs_on_every_processor_that_has_it(tmp_path):
    """And is complete where nothing can be written into the cache folder."""
    (tmp_path / "file").touch()
    output = exported(tmp_path, HYBRIDC_CPU="x86-64-v2", HYBRIDC_CACHE_DIR=str(tmp_path / "file" / "cache"))
    here = Processes(tmp_path)
    text = SERVE.replace(START, START + OTHER_PROCESSOR)
    assert here.run(text, "bare", HYBRIDC_CPU="x86-64-v2") == output
    assert "was compiled for the processor x86-64-v2, and this process compiles for " in here.fails(SERVE)


def test_linux_and_llvm_agree_on_the_features_of_levels():
    told, asked = host._features_of_linux(), llvm.host_features()
    names = [name for features in processor._LEVELS["x86_64"].values() for name in features]
    assert [told.get(name, False) for name in names] == [asked.get(name, False) for name in names]


def refusal(path):
    with pytest.raises(CompiledFileError) as raised:
        compiled_file.adopted(path)
    return str(raised.value)


def test_what_is_damaged_is_refused(network, tmp_path):
    whole = (network[0] / "net-0000.compiled").read_bytes()
    path = tmp_path / "net-0000.compiled"
    assert "cannot be read: No such file" in refusal(path)
    for damaged in (whole[:-1], whole + b"\0", whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:]):
        path.write_bytes(damaged)
        assert "is damaged: its checksum is wrong" in refusal(path)
    path.write_bytes(b"PK" + whole)
    assert "is no file of compiled graphs" in refusal(path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("source_version", lambda: "other", "by another version of hybridc"),
        ("_here", lambda here=compiled_file._here: but(here(), python="cpython 2.7"), "and this is cpython 2.7"),
        ("_here", lambda here=compiled_file._here: but(here(), numpy="0.9"), "and this is 0.9"),
        ("_here", lambda here=compiled_file._here: but(here(), system="vms vax"), "and this is vms vax"),
        ("_here", lambda here=compiled_file._here: but(here(), winograd=False), "and here it is 0"),
    ],
)
def test_what_this_process_would_compile_otherwise_is_refused(network, monkeypatch, name, value, said):
    monkeypatch.setattr(compiled_file, name, value)
    assert said in refusal(network[0] / "net-0000.compiled")


def but(here, **facts):
    return compiled_file.MadeFor(**{**vars(here), **facts})


def test_another_target_is_refused(network, monkeypatch):
    monkeypatch.setattr(compiled_file, "OPTIONS", dataclasses.replace(compiled_file.OPTIONS, target="numpy"))
    assert "HYBRIDC_TARGET=numpy; unset it" in refusal(network[0] / "net-0000.compiled")


class _Doubled(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)


@mx.operator.register("doubled_for_compiled_file")
class _DoubledProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return _Doubled()


def test_a_graph_that_cannot_be_stored_is_an_error(tmp_path):
    net = nn.HybridLambda(lambda F, x: F.Custom(x, op_type="doubled_for_compiled_file"))
    net.hybridize()
    net(mx.nd.ones((3,)))
    with pytest.raises(CompiledFileError, match="1 of 1 graphs cannot be stored"):
        net.export(str(tmp_path / "net"), compiled=True)
    assert not (tmp_path / "net-0000.compiled").exists()


class _FirstHalf(mx.gluon.HybridBlock):
    def forward(self, x):
        return x[: x.shape[0] // 2] * 2


@pytest.mark.filterwarnings("ignore:.*is exported for the shapes of its last inputs")
def test_a_symbol_for_one_size_has_one_program(tmp_path):
    net = _FirstHalf()
    net.hybridize()
    for n in (4, 6):
        net(mx.nd.ones((n,)))
    net.export(str(tmp_path / "net"), compiled=True)
    path = tmp_path / "net-symbol.json"
    again = SymbolBlock.imports(str(path), ["data"], str(tmp_path / "net-0000.params"), compiled=True)
    assert again(mx.nd.ones((6,))).asnumpy().tolist() == [2, 2, 2]
    entries = compiled_file.adopted(tmp_path / "net-0000.compiled").entries
    assert sum(key.startswith("graph ") for key in entries) == 1
