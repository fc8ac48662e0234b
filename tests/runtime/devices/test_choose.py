"""Which device there is: by the setting, or by what this machine has."""

from __future__ import annotations

import dataclasses

import pytest

from hybridc.errors import UnsupportedError
from hybridc.options import OPTIONS
from hybridc.runtime.devices import choose
from hybridc.runtime.devices.cuda import Cuda
from hybridc.runtime.devices.driver import Driver
from hybridc.runtime.devices.interpreter import Interpreter
from tests.runtime.devices.stub_cuda import StubCuda


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch):
    """Sets HYBRIDC_GPU, and the driver that is found."""

    def set_(gpu: str, driver: Driver | None = None) -> None:
        monkeypatch.setattr(choose, "OPTIONS", dataclasses.replace(OPTIONS, gpu=gpu))
        monkeypatch.setattr(choose, "driver", lambda: driver)
        choose.device.cache_clear()

    yield set_
    choose.device.cache_clear()


def test_the_interpreter(setting) -> None:
    setting("interpreter")
    assert choose.count() == 1
    assert isinstance(choose.device(), Interpreter)
    with pytest.raises(UnsupportedError, match="the interpreter is one device"):
        choose.device(1)


def test_no_card(setting) -> None:
    setting("auto")
    assert choose.count() == 0
    with pytest.raises(UnsupportedError, match=r'no GPU of NVIDIA.*pip install "hybridc\[triton\]".*PyTorch or CuPy'):
        choose.device()


def test_cards_by_number(setting) -> None:
    setting("cuda", Driver(StubCuda(cards=2)))
    assert choose.count() == 2
    assert isinstance(choose.device(1), Cuda)
    assert choose.device(1) is choose.device(1)
    assert choose.device(1).index == 1
    with pytest.raises(UnsupportedError, match=r"gpu\(2\): this machine has 2 GPUs"):
        choose.device(2)


def test_a_library_that_is_not_there(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = dataclasses.replace(choose._KINDS["cupy"], there=lambda _: False)
    monkeypatch.setitem(choose._KINDS, "cupy", cupy)
    setting("cupy", Driver(StubCuda()))
    assert choose.count() == 0
    with pytest.raises(UnsupportedError, match="HYBRIDC_GPU=cupy needs CuPy, which is not installed"):
        choose.device()
