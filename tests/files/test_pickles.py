"""Pickles that MXNet 1.9.1 made (tests/golden/make_pickles.py) are read by the classes of hybridc."""

from __future__ import annotations

import base64
import io
import json
import pickle  # noqa: TID251 - of this test's own making
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

PICKLES = json.loads((Path(__file__).parents[1] / "golden" / "files" / "pickles.json").read_text())
CLASSES = {
    "mxnet.ndarray.ndarray.NDArray": mx.nd.NDArray,
    "mxnet.symbol.symbol.Symbol": mx.sym.Symbol,
    "mxnet.context.Context": mx.Context,
    "mxnet.io.io.DataBatch": mx.io.DataBatch,
}


class Reader(pickle.Unpickler):
    """As in a program that ``python -m hybridc run`` runs, where mxnet is hybridc."""

    def find_class(self, module, name):
        path = f"{module}.{name}"
        return CLASSES[path] if path in CLASSES else super().find_class(module, name)


def read(name):
    return Reader(io.BytesIO(base64.b64decode(PICKLES[name]))).load()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("float32", np.arange(6, dtype="f4").reshape(2, 3)),
        ("float16", np.array([0.5, -1], "f2")),
        ("int64", np.array([1, 2**40])),
        ("uint8", np.array([[1], [255]], "u1")),
    ],
)
def test_arrays(name, wanted):
    x = read(name)
    assert type(x) is mx.nd.NDArray
    assert x.dtype == wanted.dtype
    np.testing.assert_array_equal(x.asnumpy(), wanted)
    x[:] = 0  # it is an array as any other
    assert x.asnumpy().any() == False  # noqa: E712


def test_parameters_and_states():
    assert {k: v.asnumpy().tolist() for k, v in read("parameters").items()} == {"arg:w": [1, 1], "aux:m": [0]}
    mean, variance = read("states")[0]
    np.testing.assert_allclose(mean.asnumpy(), np.full((2, 3), 0.1), rtol=1e-6)
    np.testing.assert_allclose(variance.asnumpy(), np.full((2, 3), 0.001), rtol=1e-4)


def test_symbols():
    symbol = read("symbol")
    assert isinstance(symbol, mx.sym.Symbol)
    assert symbol.list_arguments() == ["x", "fc_weight", "fc_bias"]
    assert symbol.attr_dict()["fc"] == {"num_hidden": "2", "no_bias": "False"}
    assert symbol.infer_shape()[1] == [(2, 2)]
    group, more = read("group")
    assert more == "more"
    assert group.list_outputs() == ["_plusscalar0_output", "_mulscalar0_output"]
    x = mx.nd.array([[1, 2, 3]])
    assert [y.asnumpy().tolist() for y in group.eval(x=x)] == [[[2, 3, 4]], [[2, 4, 6]]]


def test_contexts_and_batches():
    assert read("context") == mx.cpu(3)
    batch = read("batch")
    assert [x.shape for x in (*batch.data, *batch.label)] == [(2,), (2,)]


@pytest.mark.parametrize("made", [mx.cpu(2), mx.gpu(1), mx.cpu_pinned(0)])
def test_contexts_of_this_library(made):
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("length", [4, 20, 50])
def test_damaged_arrays(length):
    whole = base64.b64decode(PICKLES["float32"])
    head = whole.index(b"\xc9\xfa\x93\xf9")
    made = mx.nd.NDArray(None)
    with pytest.raises(mx.MXNetError, match="the pickled array is damaged"):
        made.__setstate__({"handle": whole[head : head + length]})
    with pytest.raises(TypeError, match="a pickled array must be bytes, got str"):
        made.__setstate__({"handle": "text"})
