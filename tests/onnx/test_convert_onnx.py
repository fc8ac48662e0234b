"""``python -m hybridc convert``: a network to ONNX and back, and its arrays alone."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import hybridc as mx
from hybridc.tools.convert_files import main


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """A network's files in the present folder, an input and its output."""
    monkeypatch.chdir(tmp_path)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.nd.random.uniform(shape=(2, 3, 6, 6))
    y = net(x)
    net.export("net")
    return x, y.asnumpy()


def test_to_onnx_and_back(exported):
    x, y = exported
    assert main(["net-0000.params", "net.onnx", "--shapes", "data:2,3,6,6"]) == 0
    session = onnxruntime.InferenceSession("net.onnx")
    np.testing.assert_allclose(session.run(None, {"data": x.asnumpy()})[0], y, rtol=1e-5, atol=1e-6)
    assert main(["net.onnx", "back-symbol.json"]) == 0
    back = mx.gluon.SymbolBlock.imports("back-symbol.json", ["data"], "back-0000.params")
    np.testing.assert_allclose(back(x).asnumpy(), y, rtol=1e-5, atol=1e-6)


def test_the_arrays_of_an_onnx_file(exported):
    main(["net-0000.params", "net.onnx", "--shapes", "data:2,3,6,6"])
    main(["net.onnx", "arrays.safetensors"])
    found, wanted = mx.nd.load("arrays.safetensors"), mx.nd.load("net-0000.params")
    assert found.keys() == wanted.keys()
    assert all((found[name] == wanted[name]).asnumpy().all() for name in wanted)


def test_shapes_must_be_given(exported, capsys):
    assert main(["net-0000.params", "net.onnx"]) == 1
    assert "net.onnx needs the shape of each input of net-symbol.json, as --shapes" in capsys.readouterr().err
