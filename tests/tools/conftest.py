"""Modules beside the tests can be imported by their names; a wrong operator, which fuzzers must report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hybridc import op
from hybridc.dialects.math.unary import Unary

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def wrong_operator():
    """An operator that eager calls and compiled networks read differently."""

    @op.register("hybrid.fuzz_wrong", override=True)
    class Wrong(Unary):
        """x + 1, compiled x + 1.001"""

        def scalar(self, b, x):
            return b.add(x, 1.001)

        def eager(self, *arrays):
            return arrays[0] + 1

    yield Wrong.NAME
    from hybridc.dialects import operator_registry

    del operator_registry.OPERATORS["hybrid.fuzz_wrong"], operator_registry.FUNCTIONS["fuzz_wrong"]
