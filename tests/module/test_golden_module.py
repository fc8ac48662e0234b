"""Programs with mx.mod, mx.model, mx.kv, mx.mon and mx.io give what MXNet 1.9.1 gave (tests/golden/make_module.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from module_cases import CASES  # noqa: E402
from programs import Recorded  # noqa: E402

RECORDED = Recorded("module")


COMPILED = ["steps", "heads", "feed_forward"]  # the others are the same for all targets


@pytest.mark.parametrize("name", COMPILED)
def test_same_as_mxnet(name, tmp_path):
    RECORDED.assert_same(name, CASES[name](mx, tmp_path), atol=1e-5)


@pytest.mark.usefixtures("by_numpy")
@pytest.mark.parametrize("name", [name for name in CASES if name not in COMPILED])
def test_same_as_mxnet_by_numpy(name, tmp_path):
    RECORDED.assert_same(name, CASES[name](mx, tmp_path), atol=1e-5)
