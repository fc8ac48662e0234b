"""CTCLoss, hawkesll, SequenceMask, SequenceLast and SequenceReverse beside MXNet 1.9.1, with symbols and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from tests.golden import sequence_cases as cases

GOLDEN = Path(__file__).parent / "golden" / "sequences.npz"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as file:
        return {name: file[name] for name in file.files}


def test_as_in_mxnet(golden):
    found = cases.everything(mx)
    assert found.keys() == golden.keys()
    for name, value in found.items():
        if name.endswith(".file"):
            continue
        if name.endswith(".names"):
            assert value == str(golden[name]), name
            continue
        assert value.dtype == golden[name].dtype, name
        tolerance = 1e-4 if name.startswith("ctc.large") else 1e-5  # MXNet sums small and large numbers in float32
        np.testing.assert_allclose(value, golden[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", ["NTC_NT", "TNC_TN"])
def test_layouts_hybridized(name, golden):
    for key, value in cases.layout(mx, name, hybridize=True).items():
        np.testing.assert_allclose(value, golden[f"layout.{name}.{key}"], rtol=1e-5, atol=1e-5)


def test_files_of_mxnet(golden):
    text = str(golden["symbol.ctc_lengths.file"])
    y = mx.sym.load_json(text)
    data, label, _, given = cases.CTC["both"]
    inputs = {"x": data, "y": label, **{f"c_{k}": np.float32(v) for k, v in given.items()}}
    out = y.eval(**{k: mx.nd.array(v) for k, v in inputs.items()})[0]
    np.testing.assert_allclose(out.asnumpy(), golden["ctc.both.loss"], rtol=1e-5)
    h = mx.sym.load_json(str(golden["symbol.hawkes.file"]))
    names, inputs = h.list_arguments(), cases.hawkes_inputs(mx, "hawkes")
    shapes, outputs, _ = h.infer_shape(h_lda=(3, 3), h_lags=(3, 4))
    assert (shapes, outputs) == ([x.shape for x in inputs], [(3,), (3, 3)])
    for found, key in zip(h.eval(**dict(zip(names, inputs, strict=True))), ("likelihood", "state"), strict=True):
        np.testing.assert_allclose(found.asnumpy(), golden[f"hawkes.{key}"], rtol=1e-5)
