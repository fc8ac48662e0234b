from __future__ import annotations

import pytest
from backends import RAN

from hybridc import subgraph


@pytest.fixture(autouse=True)
def backends_of_the_test():
    """Every test starts without backends."""
    before = dict(subgraph._BACKENDS)
    subgraph._BACKENDS.clear()
    RAN.clear()
    yield
    subgraph._BACKENDS.clear()
    subgraph._BACKENDS.update(before)
