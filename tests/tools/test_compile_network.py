"""``python -m hybridc compile``: networks in files, compiled before a program loads them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.compiled_file import adopted
from hybridc.gluon import nn
from hybridc.tools.compile_network import main

# A program whose cache is empty, without LLVM, or with what the command has left in the cache.
LOAD = """
import sys
import numpy as np
import hybridc as mx
from hybridc.ground.events import RECORDER

marks = []
RECORDER.active = True
RECORDER.mark = lambda kind, name, **_: marks.append(name)
x = np.linspace(-1, 1, 10, dtype="f4").reshape(2, 5)
"""
BLOCK = (
    LOAD
    + """
net = mx.gluon.SymbolBlock.imports("net-symbol.json", ["data"], "net-0007.params", compiled="bare" in sys.argv)
net.hybridize()
print(net(mx.nd.array(x)).asnumpy().tolist(), {*marks})
"""
)
MODULE = (
    LOAD
    + """
module = mx.mod.Module.load("net", 7, compiled="bare" in sys.argv)
module.bind([("data", (2, 5))], for_training=False)
module.forward(mx.io.DataBatch([mx.nd.array(x)]), is_train=False)
print(module.get_outputs()[0].asnumpy().tolist(), {*marks})
"""
)


def symbol():
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc"), act_type="tanh")
    return mx.sym.softmax(mx.sym.FullyConnected(hidden, num_hidden=3, name="out"), name="softmax")


def save(folder, network, epoch=7):
    rng = np.random.default_rng(0)
    shapes, _, _ = network.infer_shape(data=(2, 5))
    names = zip(network.list_arguments(), shapes, strict=True)
    arrays = {n: mx.nd.array(rng.normal(size=s)) for n, s in names if n not in ("data", "softmax_label")}
    mx.model.save_checkpoint(str(folder / "net"), epoch, network, arrays, {})
    return {name: x.asnumpy().astype("f8") for name, x in arrays.items()}


def expected(arrays):
    """In NumPy and double precision."""
    x = np.linspace(-1, 1, 10).reshape(2, 5)
    hidden = np.tanh(x @ arrays["fc_weight"].T + arrays["fc_bias"])
    exps = np.exp(hidden @ arrays["out_weight"].T + arrays["out_bias"])
    return exps / exps.sum(axis=1, keepdims=True)


def process(folder, command, **environment):
    given = {**os.environ, "HYBRIDC_TARGET": "llvm", "HYBRIDC_VERIFY": "0"}
    given |= {"HYBRIDC_CACHE_DIR": str(folder / "cache"), **environment}
    command = [sys.executable, *command]
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def results(printed):
    values, _, marks = printed.rpartition(" {")
    return np.array(eval(values)), marks


@pytest.mark.parametrize(
    ("text", "options"),
    [(BLOCK, []), (MODULE, ["--module"])],
    ids=["a block", "a module"],
)
def test_a_program_that_loads_the_network_compiles_nothing(tmp_path, text, options):
    network = symbol()
    if options:
        network = mx.sym.SoftmaxOutput(network.get_children()[0], name="softmax")
    arrays = save(tmp_path, network)
    save(tmp_path, network, epoch=3)  # not the latest
    command = ["-m", "hybridc", "compile", "net-symbol.json", "--shapes", "data:2,5", "--shapes", "data:1,5", *options]
    assert process(tmp_path, command).startswith("net-0007.compiled: compiled for 2 sizes, ")
    cached, marks = results(process(tmp_path, ["-c", text]))
    assert "cache hit" in marks
    assert "cache miss" not in marks
    bare = {"HYBRIDC_CACHE_DIR": str(tmp_path / "empty"), "HYBRIDC_LLVM": "/nowhere/libLLVM.so"}
    alone, _ = results(process(tmp_path, ["-c", text, "bare"], **bare))
    np.testing.assert_allclose(cached, expected(arrays), rtol=1e-5)
    assert (alone == cached).all()


@pytest.mark.usefixtures("natively_stored")
def test_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = nn.Dense(3, in_units=5)
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2, 5)))
    net.export("net")
    assert main(["net", "--shapes", "data:2,5", "--training", "--output", "program"]) == 0
    entries = adopted("program").entries
    assert sum(key.startswith("graph ") for key in entries) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["net", "--shapes", "data"], "expected the name of an input and its shape, as data:1,3,224,224"),
        (["net", "--shapes", "data:2,5", "--shapes", "x:2,5"], "these name different inputs"),
        (["net", "--shapes", "x:2,5"], "has no input 'x'"),
        (["other", "--shapes", "data:2,5"], "there is no file other-0000.params"),
    ],
)
def test_what_is_wrong_is_a_line(tmp_path, monkeypatch, capsys, arguments, said):
    save(tmp_path, symbol())
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert said in capsys.readouterr().err
