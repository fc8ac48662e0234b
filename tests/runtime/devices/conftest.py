"""A simulated card, and the driver below it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hybridc.runtime.devices.cuda import Cuda
from tests.runtime.devices.simulated import SimulatedCuda, simulated_card


@pytest.fixture
def stub() -> SimulatedCuda:
    return SimulatedCuda()


@pytest.fixture
def card(stub: SimulatedCuda) -> Iterator[Cuda]:
    with simulated_card(stub) as made:
        yield made
