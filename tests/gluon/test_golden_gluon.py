"""Gluon programs give what MXNet 1.9.1 gave (tests/golden/make_gluon.py), eagerly and hybridized."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hybridc as mx
from tests.slices import one_in

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


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    check(name, leave)


@pytest.mark.parametrize("name", CASES)
def test_hybridized_same_as_mxnet(name, by_numpy):
    check(name, hybridize)


@pytest.mark.parametrize("name", one_in(4, list(CASES)))  # native code of all operators: tests/ops/test_hybridized.py
def test_native_same_as_mxnet(name):
    check(name, hybridize)


def check(name, mode):
    # Rounding grows from step to step of a training, most where Adam divides by small numbers.
    atol = 1e-4 if name == "training" else 2e-6
    found = CASES[name](mx, mode)
    if name == "errors":  # they may be more than what MXNet raises, but that, too
        theirs = RECORDED.values[name]
        assert theirs.keys() == found.keys()
        found = {key: theirs[key] if theirs[key] in said.split("|") else said for key, said in found.items()}
    RECORDED.assert_same(name, found, atol)
