"""Programs with custom operators give what MXNet 1.9.1 gave (tests/golden/make_custom.py)."""

import sys
from pathlib import Path

import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from custom_cases import CASES  # noqa: E402
from programs import Recorded  # noqa: E402

RECORDED = Recorded("custom")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:custom operator")
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx))
