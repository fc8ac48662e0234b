"""Gluon programs give what MXNet 1.9.1 gave (tests/golden/make_gluon.py), eagerly and hybridized."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from gluon_cases import CASES  # noqa: E402
from programs import Recorded  # noqa: E402

RECORDED = Recorded("gluon")


def leave(block):
    """Eager."""


def hybridize(block):
    """Hybridized, where the block can be."""
    if isinstance(block, mx.gluon.HybridBlock):
        block.hybridize()


@pytest.mark.parametrize("mode", [leave, hybridize], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name, mode):
    # Rounding grows from step to step of a training, most where Adam divides by small numbers.
    atol = 1e-4 if name == "training" else 2e-6
    RECORDED.assert_same(name, CASES[name](mx, mode), atol)
