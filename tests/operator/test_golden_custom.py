"""Programs with custom operators give what MXNet 1.9.1 gave (tests/golden/make_custom.py)."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from custom_cases import CASES  # noqa: E402

with np.load(GOLDEN / "custom.npz", allow_pickle=False) as file:
    ARRAYS = {key: file[key] for key in file.files}
VALUES = json.loads((GOLDEN / "custom.json").read_text())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:custom operator")
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
