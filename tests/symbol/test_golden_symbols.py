"""Programs with symbols give what MXNet 1.9.1 gave (tests/golden/make_sym.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from sym_cases import errors  # noqa: E402
from sym_executor_cases import CASES  # noqa: E402

with np.load(GOLDEN / "sym.npz", allow_pickle=False) as file:
    ARRAYS = {key: file[key] for key in file.files}
VALUES = json.loads((GOLDEN / "sym.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    found = CASES[name](mx)
    values = json.loads(json.dumps({k: v for k, v in found.items() if not isinstance(v, np.ndarray)}))
    assert values == VALUES.get(name, {})
    wanted = {k.partition("/")[2]: v for k, v in ARRAYS.items() if k.startswith(f"{name}/")}
    arrays = {k: v for k, v in found.items() if isinstance(v, np.ndarray)}
    assert arrays.keys() == wanted.keys()
    for key, value in arrays.items():
        assert value.shape == wanted[key].shape, key
        assert value.dtype == wanted[key].dtype, key
        np.testing.assert_allclose(value, wanted[key], rtol=2e-5, atol=2e-6, err_msg=key)


def test_errors_are_of_the_kinds_of_mxnet():
    found = errors(mx)
    assert found.keys() == VALUES["errors"].keys()
    # simple_bind wraps every error into a RuntimeError there; ours are MXNetErrors, which are RuntimeErrors.
    other = {k: (v, found[k]) for k, v in VALUES["errors"].items() if not set(v) <= set(found[k]) or not found[k]}
    assert other == {}
