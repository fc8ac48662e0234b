"""A simulated card, and the driver below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hybridc.runtime.devices.nvidia.cuda import Cuda
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.stub_cuda import StubCuda


@pytest.fixture(autouse=True)
def _no_violations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test does what a card forbids without a word, with whatever driver."""
    made: list[StubCuda] = []
    init = StubCuda.__init__

    def noted(stub: StubCuda, *given: Any, **named: Any) -> None:
        init(stub, *given, **named)
        made.append(stub)

    monkeypatch.setattr(StubCuda, "__init__", noted)
    yield
    for stub in made:
        stub.finish()
    assert [violation for stub in made for violation in stub.violations] == []


@pytest.fixture
def stub() -> SimulatedCuda:
    return SimulatedCuda()


@pytest.fixture
def card(stub: SimulatedCuda) -> Iterator[Cuda]:
    with simulated_gpu(stub) as made:
        yield made
