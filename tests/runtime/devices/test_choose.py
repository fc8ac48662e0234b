"""Which device there is: by the setting, or by what this machine has."""

from __future__ import annotations

import dataclasses

import pytest

from hybridc.errors import UnsupportedError
from hybridc.options import OPTIONS
from hybridc.runtime.devices import choose
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import Driver, NoDriver, driver_of
from tests.runtime.devices.stub_cuda import StubCuda

NONE = NoDriver("no driver of NVIDIA's was found")


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch):
    """Sets HYBRIDC_GPU, and the driver that is found."""

    def set_(gpu: str, driver: Driver | NoDriver = NONE) -> None:
        monkeypatch.setattr(choose, "OPTIONS", dataclasses.replace(OPTIONS, gpu=gpu))
        monkeypatch.setattr(choose, "driver", lambda: driver)
        choose.device.cache_clear()

    yield set_
    choose.device.cache_clear()


def test_the_interpreter(setting) -> None:
    setting("interpreter")
    assert choose.count() == 1
    assert isinstance(choose.device(0), Interpreter)
    with pytest.raises(UnsupportedError, match="the interpreter is one device"):
        choose.device(1)


def test_no_card(setting) -> None:
    setting("auto")
    assert choose.count() == 0
    with pytest.raises(UnsupportedError, match=r'no driver.*pip install "hybridc\[triton\]".*PyTorch or CuPy'):
        choose.device(0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (100, r"NVIDIA's driver finds no GPU; CUDA_VISIBLE_DEVICES=7 hides"),
        (101, r"NVIDIA's driver does not start: CUDA_VISIBLE_DEVICES names a GPU that this machine does not have"),
        (803, r".* library and its kernel module are of different versions: .*\(cuInit: an error, error 803\)"),
        (5, r"NVIDIA's driver does not start \(cuInit: an error, error 5\)"),
    ],
)
def test_why_a_driver_does_not_start(setting, monkeypatch: pytest.MonkeyPatch, error: int, reason: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    stub = StubCuda()
    stub.fails["cuInit"] = error
    found = driver_of(stub)
    setting("auto", found)
    with pytest.raises(UnsupportedError, match=rf"gpu\(0\): {reason}"):
        choose.device(0)
    assert isinstance(found, NoDriver)
    if found.broken:
        with pytest.warns(UserWarning, match=rf"no GPU is used: .*{error}"):
            assert choose.count() == 0
    else:
        assert choose.count() == 0


def test_drivers_without_a_function_or_a_card() -> None:
    old = StubCuda()
    del old.cuLaunchKernelEx
    found = driver_of(old)
    assert isinstance(found, NoDriver)
    assert found.reason.startswith("NVIDIA's driver is too old: it lacks cuLaunchKernelEx")
    assert driver_of(StubCuda(cards=0)) == NoDriver("NVIDIA's driver finds no GPU")
    assert isinstance(driver_of(StubCuda()), Driver)


def test_cards_by_number(setting) -> None:
    setting("cuda", Driver(StubCuda(cards=2)))
    assert choose.count() == 2
    assert isinstance(choose.device(1), Cuda)
    assert choose.device(1) is choose.device(1)
    assert choose.device(1).index == 1
    with pytest.raises(UnsupportedError, match=r"gpu\(2\): this machine has 2 GPUs"):
        choose.device(2)


def test_a_library_that_is_not_there(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = dataclasses.replace(choose._KINDS["cupy"], is_usable=lambda _: False)
    monkeypatch.setitem(choose._KINDS, "cupy", cupy)
    setting("cupy", Driver(StubCuda()))
    assert choose.count() == 0
    with pytest.raises(UnsupportedError, match="HYBRIDC_GPU=cupy needs CuPy, which is not installed"):
        choose.device(0)
