"""Recurrent layers that MXNet 1.9.1 exported give its results (tests/golden/make_exported_rnn.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = json.loads((GOLDEN / "exported_rnn.json").read_text())


@pytest.fixture(scope="module")
def arrays():
    with np.load(GOLDEN / "exported_rnn.npz") as file:
        return {key: file[key] for key in file.files}


@pytest.mark.parametrize("name", TEXTS)
def test_it_runs_as_a_block(name, arrays, tmp_path):
    own = {key.partition("/")[2]: mx.nd.array(x) for key, x in arrays.items() if key.startswith(f"{name}/")}
    (tmp_path / "a-symbol.json").write_text(TEXTS[name])
    mx.nd.save(str(tmp_path / "a-0000.params"), {k: x for k, x in own.items() if k.startswith(("arg:", "aux:"))})
    inputs = sorted(k for k in own if k.startswith("data"))
    block = mx.gluon.SymbolBlock.imports(
        str(tmp_path / "a-symbol.json"), inputs, str(tmp_path / "a-0000.params"), mx.cpu()
    )
    outputs = sorted(k for k in own if k.startswith("out"))
    for hybridized in (False, True)[: 1 + (name == "lstm")]:
        block.hybridize(hybridized)
        found = block(*[own[k] for k in inputs])
        for key, value in zip(outputs, found, strict=True):
            np.testing.assert_allclose(value.asnumpy(), own[key].asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TEXTS)
def test_all_shapes_follow_from_the_input(name, arrays):
    symbol = mx.sym.load_json(TEXTS[name])
    given = {k: arrays[f"{name}/{k}"].shape for k in symbol.list_arguments() if k.startswith("data")}
    shapes, outputs, _ = symbol.infer_shape(**given)
    wanted = {k: arrays[f"{name}/arg:{k}"].shape for k in symbol.list_arguments() if not k.startswith("data")}
    assert {k: s for k, s in zip(symbol.list_arguments(), shapes, strict=True) if k in wanted} == wanted
    assert outputs[0] == arrays[f"{name}/out0"].shape
    assert mx.sym.load_json(symbol.tojson()).attr_dict() == symbol.attr_dict()
