"""``mx.np.linalg`` gives what MXNet 1.9.1 gives; ``mx.np.random`` draws in its shapes and dtypes (golden data)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hybridc as mx

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

import np_linalg_cases
from programs import Recorded

MXNET = Recorded("np_linalg")

# MXNet's gradients of eigenvalues are 0.
DIFFERENT = {f"gradient of {code}" for code in ("np.linalg.eigh(p)[0]", "np.linalg.eigvalsh(p)")}


@pytest.mark.parametrize("case", [case for case in np_linalg_cases.CASES if case not in DIFFERENT])
def test_same_as_mxnet(case):
    MXNET.assert_same(case, np_linalg_cases.CASES[case](mx), atol=1e-5)
