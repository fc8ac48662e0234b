"""ONNX files that PyTorch's two exporters wrote: outputs are PyTorch's, eagerly and compiled, at the sizes of the file
and at others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import hybridc as mx

FOLDER = Path(__file__).parents[1] / "golden" / "onnx"
FILES = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.onnx"))
# Networks whose inputs have axes of any size, and inputs of another one.
VARYING = {
    "resnet": lambda given: {"image": np.concatenate([given["image"], given["image"][:, :, ::-1]])},
    "encoder": lambda given: {name: np.concatenate([x, x[:, :5]], 1) for name, x in given.items()},
    "decoder": lambda given: {
        name: np.concatenate([x, x[:, :, :3]], 2) if name.startswith("past") else x for name, x in given.items()
    },
}


def stored(file: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """The inputs by name and PyTorch's outputs."""
    with np.load(FOLDER / f"{file}.npz") as arrays:
        inputs = {name: arrays[name] for name in arrays.files if not name.startswith("output")}
        return inputs, [arrays[name] for name in arrays.files if name.startswith("output")]


def called(net, inputs):
    """The outputs as NumPy arrays."""
    outputs = net(**{name: mx.np.array(x, dtype=x.dtype) for name, x in inputs.items()})
    return [x.asnumpy() for x in (outputs if isinstance(outputs, list) else [outputs])]


def assert_close(found, wanted, tolerance=1e-5):
    for x, y in zip(found, wanted, strict=False):  # the chosen boxes are no output of PyTorch's
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert np.abs(x - y).max() <= tolerance * np.abs(y).max()


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("file", FILES)
def test_outputs_are_those_of_pytorch(file, hybridized):
    inputs, wanted = stored(file)
    net = mx.onnx.load(FOLDER / f"{file}.onnx")
    if hybridized and not file.endswith("detector"):  # how many boxes are chosen depends on their values
        net.hybridize()
    found = called(net, inputs)
    assert len(found) >= len(wanted)
    # A rounded activation may fall on the other side of a half: one step of the outputs' scale.
    assert_close(found, wanted, 2e-2 if file.endswith("quantized") else 1e-5)


@pytest.mark.parametrize("file", [f for f in FILES if f.rpartition("/")[2] in VARYING])
def test_axes_of_any_size(file):
    inputs, wanted = stored(file)
    net = mx.onnx.load(FOLDER / f"{file}.onnx")
    net.hybridize()
    assert_close(called(net, inputs), wanted)
    other = VARYING[file.rpartition("/")[2]](inputs)
    session = onnxruntime.InferenceSession(FOLDER / f"{file}.onnx")
    assert_close(called(net, other), session.run(None, other))
    assert_close(called(net, inputs), wanted)


def test_stored_weights_are_read_once():
    """Weights that a file has as integers are constants in float32; their scales are no parameters."""
    net = mx.onnx.load(FOLDER / "torchscript" / "quantized.onnx")
    parameters = net.collect_params().values()
    assert {p.grad_req for p in parameters if len(p.shape) == 4} == {"null"}
    assert {np.dtype(p.dtype) for p in parameters} == {np.dtype("float32")}
    assert not any(p.shape == () for p in parameters)


def test_chosen_boxes_are_those_of_onnx_runtime():
    inputs, _ = stored("torchscript/detector")
    net = mx.onnx.load(FOLDER / "torchscript" / "detector.onnx")
    chosen = onnxruntime.InferenceSession(FOLDER / "torchscript" / "detector.onnx").run(None, inputs)[2]
    found = called(net, inputs)[2]
    assert len(found) > 3
    np.testing.assert_array_equal(found, chosen)
