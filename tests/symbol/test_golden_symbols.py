"""Programs with symbols give what MXNet 1.9.1 gave (tests/golden/make_sym.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from programs import Recorded  # noqa: E402
from sym_cases import errors  # noqa: E402
from sym_executor_cases import CASES  # noqa: E402

RECORDED = Recorded("sym")


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx))


def test_errors_are_of_the_kinds_of_mxnet():
    found = errors(mx)
    wanted = RECORDED.values["errors"]
    assert found.keys() == wanted.keys()
    # simple_bind wraps every error into a RuntimeError there; ours are MXNetErrors, which are RuntimeErrors.
    other = {k: (v, found[k]) for k, v in wanted.items() if not set(v) <= set(found[k]) or not found[k]}
    assert other == {}
