"""``python -m hybridc convert``: formats, names, dtypes, shards and listings."""

from __future__ import annotations

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

import hybridc as mx
from hybridc.tools.convert_files import main

ARRAYS = {"arg:fc.weight": np.arange(6, dtype="f4").reshape(2, 3) / 7, "aux:count": np.array([3, 4], "i4")}


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mx.nd.save("a.params", {name: mx.nd.array(x, dtype=x.dtype) for name, x in ARRAYS.items()})
    return "a.params"


def test_the_command(source):
    command = [sys.executable, "-m", "hybridc", "convert", source, "b.safetensors"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "b.safetensors: 2 arrays, 32 bytes, in safetensors\n"
    found = safetensors.numpy.load_file("b.safetensors")
    assert found.keys() == ARRAYS.keys()
    for name, x in ARRAYS.items():
        np.testing.assert_array_equal(found[name], x)
        assert found[name].dtype == x.dtype


def test_there_and_back(source, tmp_path):
    for before, after in (("a.params", "b.npz"), ("b.npz", "c.safetensors"), ("c.safetensors", "d.params")):
        assert main([before, after]) == 0
    assert (tmp_path / "d.params").read_bytes() == (tmp_path / "a.params").read_bytes()
    with np.load("b.npz", allow_pickle=False) as file:
        assert {name: file[name].tolist() for name in file.files} == {k: x.tolist() for k, x in ARRAYS.items()}


def test_names_dtypes_and_texts(source):
    rename = [r"--rename=(?:arg|aux):(.*\.weight)=net.\1", "--rename=aux:.*="]
    assert main([source, "b.safetensors", "--dtype", "bfloat16", *rename, "--metadata", "from=a=b"]) == 0
    expected = ARRAYS["arg:fc.weight"].astype(ml_dtypes.bfloat16)
    found = safetensors.numpy.load_file("b.safetensors")
    assert {name: (x.dtype, x.tolist()) for name, x in found.items()} == {
        "net.fc.weight": (expected.dtype, expected.tolist())
    }
    with safe_open("b.safetensors", "numpy") as file:
        assert file.metadata() == {"from": "a=b"}
    assert main(["b.safetensors", "c.safetensors", "--dtype", "float32"]) == 0
    assert mx.nd.load_metadata("c.safetensors") == {"from": "a=b"}
    assert main(["c.safetensors", "d.params"]) == 0
    np.testing.assert_array_equal(mx.nd.load("d.params")["net.fc.weight"].asnumpy(), expected.astype("f4"))


def test_a_listing(source, capsys):
    assert main([source]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "arg:fc.weight  float32  [2, 3]  24",
        "aux:count      int32    [2]      8",
        "2 arrays, 32 bytes",
    ]
    mx.nd.save("list.params", [mx.nd.ones((1,))])
    assert main(["list.params", "--list"]) == 0
    assert capsys.readouterr().out == "0  float32  [1]  4\n1 array, 4 bytes\n"
    assert main(["list.params", "b.npz"]) == 0
    assert mx.nd.load("b.npz")["arr_0"].asnumpy() == [1]
    mx.nd.save("none.params", {})
    assert main(["none.params"]) == 0


def test_shards(source, tmp_path, capsys):
    assert main([source, "b.safetensors", "--max-shard-size", "30"]) == 0
    index = json.loads((tmp_path / "b.safetensors.index.json").read_text())
    files = ["b-00001-of-00002.safetensors", "b-00002-of-00002.safetensors"]
    assert index == {"metadata": {"total_size": 32}, "weight_map": dict(zip(ARRAYS, files, strict=True))}
    for name, file in index["weight_map"].items():
        np.testing.assert_array_equal(safetensors.numpy.load_file(file)[name], ARRAYS[name])
    assert main(["b.safetensors.index.json", "c.params"]) == 0
    assert (tmp_path / "c.params").read_bytes() == (tmp_path / "a.params").read_bytes()
    for wrong, text in (("x", "expected a number of bytes, as 500MB or 5GB"), ("0", "expected a number of bytes")):
        assert main([source, "b.safetensors", "--max-shard-size", wrong]) == 1
        assert text in capsys.readouterr().err
    assert main([source, "b.npz", "--max-shard-size", "1G"]) == 1


WRONG = {
    "no file": (["none", "b.npz"], "cannot read none: No such file or directory"),
    "foreign": (["a.params", "b.pt"], "b.pt would be a file of PyTorch"),
    "dtype": (["a.params", "b.npz", "--dtype", "int8"], "--dtype int8: expected one of float32, float64, float16"),
    "expression": (["a.params", "b.npz", "--rename", "(=x"], "--rename (=x: missing ), unterminated subpattern"),
    "group": (["a.params", "b.npz", "--rename", r".*=\7"], r"--rename .*=\7: invalid group reference 7"),
    "rename": (["a.params", "b.npz", "--rename", "x"], "--rename x: expected OLD=NEW"),
    "one name": (["a.params", "b.npz", "--rename", ".*=x"], "name_map gives 'x' to several arrays of a.params"),
    "texts": (["a.params", "b.npz", "--metadata", "a=b"], "has no metadata; save a file whose name ends with"),
    "symbol": (["a.params", "b.onnx"], "a-symbol.json"),
    "network": (["a.params", "b-symbol.json"], "a network comes from a file .onnx, and goes into one net-symbol.json"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_done(what, source, tmp_path, capsys):
    arguments, text = WRONG[what]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("python -m hybridc convert: ")
    assert text in error
    assert [p.name for p in tmp_path.iterdir()] == ["a.params"]


def test_numbers_that_do_not_fit_a_dtype(source, tmp_path, capsys):
    mx.nd.save("large.params", {"w": mx.nd.array([1e6]), "v": mx.nd.array([np.inf, np.nan])})
    assert main(["large.params", "b.npz", "--dtype", "float16"]) == 1
    assert "w has numbers that are too large for float16" in capsys.readouterr().err
    assert not (tmp_path / "b.npz").exists()
    assert main(["large.params", "b.npz", "--dtype", "float16", "--rename", "w="]) == 0


def test_a_network_for_onnx_needs_the_shapes_of_its_inputs(source, capsys):
    mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc").save("a-symbol.json")
    for shapes in ([], ["--shapes", "x:2,3"]):
        assert main([source, "b.onnx", *shapes]) == 1
        error = capsys.readouterr().err
        assert "b.onnx needs the shape of each input of a-symbol.json, as --shapes data:1,3,224,224; got" in error
        assert "its inputs and parameters are data, fc_weight, fc_bias" in error
