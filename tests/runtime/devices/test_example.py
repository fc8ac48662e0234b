"""The example that trains on either device: the interpreter's losses are the CPU's."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import train_on

pytestmark = [pytest.mark.demo, pytest.mark.triton]


@pytest.mark.long
def test_losses_are_those_of_the_cpu():
    losses = train_on.train(mx.cpu(), 3)
    assert losses[0] > 2
    np.testing.assert_allclose(train_on.train(mx.gpu(), 3), losses, rtol=1e-4)
