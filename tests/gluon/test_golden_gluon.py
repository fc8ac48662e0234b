"""Gluon programs give what MXNet 1.9.1 gave (tests/golden/make_gluon.py), eagerly and hybridized."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from gluon_cases import CASES  # noqa: E402

with np.load(GOLDEN / "gluon.npz", allow_pickle=False) as file:
    ARRAYS = {key: file[key] for key in file.files}
VALUES = json.loads((GOLDEN / "gluon.json").read_text())


def leave(block):
    """Eager."""


def hybridize(block):
    """Hybridized, where the block can be."""
    if isinstance(block, mx.gluon.HybridBlock):
        block.hybridize()


@pytest.mark.parametrize("mode", [leave, hybridize], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name, mode):
    found = CASES[name](mx, mode)
    values = json.loads(json.dumps({k: v for k, v in found.items() if not isinstance(v, np.ndarray)}))
    assert values == VALUES.get(name, {})
    wanted = {k.partition("/")[2]: v for k, v in ARRAYS.items() if k.startswith(f"{name}/")}
    arrays = {k: v for k, v in found.items() if isinstance(v, np.ndarray)}
    assert arrays.keys() == wanted.keys()
    # Rounding grows from step to step of a training, most where Adam divides by small numbers.
    atol = 1e-4 if name == "training" else 2e-6
    for key, value in arrays.items():
        assert value.shape == wanted[key].shape, key
        assert value.dtype == wanted[key].dtype, key
        np.testing.assert_allclose(value, wanted[key], rtol=2e-5, atol=atol, err_msg=key)
