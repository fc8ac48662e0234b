"""A card through its driver, which here is a stub: memory, copies, compiled functions and how arguments are packed."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from hybridc.errors import DeviceError, DeviceMemoryError
from hybridc.ground.machine import GPU
from hybridc.options import OPTIONS
from hybridc.runtime.devices.nvidia.compiled import MachineCode, binary
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import FUNCTION_SHARED_MEMORY, Driver
from tests.runtime.devices.sources import ADD, F32, add_config
from tests.runtime.devices.stub_cuda import StubCuda

pytestmark = pytest.mark.triton


ROOT = Path(__file__).parents[3]
CONFIG = add_config(4096, 1024)
# Which arguments are divisible by 16: the three pointers and n; and of these only n.
ALL, NONE = 0b01111, 0b01000
COMPILE = """
import json
from hybridc.runtime.devices.nvidia.compiled import binary, compiled
from tests.runtime.devices.test_cuda import ADD, ALL, CONFIG, NONE
found = {}
for divisible in (ALL, NONE):
    code = binary(ADD, CONFIG, (9, 0), divisible)
    ptx = compiled(ADD, CONFIG, (9, 0), divisible).asm["ptx"]
    found[divisible] = [code.entry, code.warps, code.parameters, ptx.count("ld.global.v4"), code.code[:4].hex()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[object]]:
    """What a process of its own says of the functions that it compiled; their code then is in the cache folder."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["HYBRIDC_CACHE_DIR"] = OPTIONS.cache
    command = [sys.executable, "-c", COMPILE]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def card(stub: StubCuda) -> Cuda:
    return Cuda(Driver(stub))


def test_how_much_memory_is_free() -> None:
    made = card(StubCuda(memory=4096))
    assert made.memory() == (4096, 4096)
    kept = made.allocate(1000)
    assert made.memory() == (3096, 4096)
    del kept
    assert made.memory() == (4096, 4096)


def test_what_a_card_is() -> None:
    made = card(StubCuda())
    assert (made.name, made.capability) == ("Stub", (9, 0))
    assert made.description == dataclasses.replace(GPU, name="Stub", shared=232448)


def test_copies_there_and_back() -> None:
    made = card(StubCuda())
    first, second = made.allocate(40), made.allocate(40)
    assert first.pointer % 256 == 0
    x = np.arange(10, dtype=F32)
    made.upload(first.pointer, x)
    made.copy(second.pointer, first.pointer + 20, 20)
    x[:] = 0
    y = np.zeros(5, F32)
    made.download(y, second.pointer)
    np.testing.assert_array_equal(y, [5, 6, 7, 8, 9])


def test_memory_goes_back_when_nobody_has_it() -> None:
    stub = StubCuda()
    made = card(stub)
    kept, dropped = made.allocate(100), made.allocate(0)
    assert len(stub.buffers) == 2
    del dropped
    gc.collect()
    assert list(stub.buffers) == [kept.pointer]


def test_no_memory_left_names_the_bytes_and_leaves_the_rest() -> None:
    stub = StubCuda(memory=1000)
    made = card(stub)
    kept = made.allocate(600)
    made.upload(kept.pointer, np.full(600, 7, np.uint8))
    with pytest.raises(DeviceMemoryError, match=r"gpu\(0\), Stub: no 600 bytes of memory are left"):
        made.allocate(600)
    y = np.zeros(600, np.uint8)
    made.download(y, kept.pointer)
    assert (y == 7).all()
    made.allocate(400)


def test_an_error_names_the_call_and_the_drivers_words() -> None:
    stub = StubCuda()
    made = card(stub)
    stub.fails["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError, match=r"cuStreamSynchronize: an illegal memory access .* \(error 700"):
        made.synchronise()


def test_events_take_their_difference_from_the_driver() -> None:
    stub = StubCuda()
    made = card(stub)
    earlier, later = made.event(), made.event()
    earlier.record()
    made.synchronise()
    stub.clock += 1.5
    later.record()
    assert later.since(earlier) == 1.5


def test_every_thread_enters_the_cards_context() -> None:
    stub = StubCuda()
    made = card(stub)
    made.synchronise()
    before = stub.entered
    made.synchronise()
    assert stub.entered == before
    thread = threading.Thread(target=made.synchronise)
    thread.start()
    thread.join()
    assert stub.entered == before + 1


def test_compiled_code_by_what_divides_its_arguments(found: dict[str, list[object]]) -> None:
    (entry, warps, parameters, vectors, magic), plain = found[str(ALL)], found[str(NONE)]
    assert (entry, warps, magic) == ("add", 4, "7f454c46")
    assert parameters >= 5  # type: ignore[operator]  (numbers, from JSON)
    assert vectors >= 2  # type: ignore[operator]
    assert plain[3] == 0


@pytest.mark.usefixtures("found")
def test_arguments_are_packed_and_launched_without_triton() -> None:
    parameters = binary(ADD, CONFIG, (9, 0), ALL).parameters
    stub = StubCuda(parameters=parameters)
    made = card(stub)
    run = made.prepare(ADD, CONFIG)
    run([0x1000, 0x2000, 0x3000], [4096, -5])
    run([0x1000, 0x2000, 0x3000], [4096, (1 << 40) + 1])
    run([0x1004, 0x2008, 0x300C], [4096, 3])
    own = [0] * (parameters - 5)
    first, second, third = stub.launches
    assert first[:3] == ("add", (4, 1, 1), (128, 1, 1))
    assert first.stream == 0
    assert first.values == [0x1000, 0x2000, 0x3000, 4096, 2**64 - 5, *own]
    assert second.values == [0x1000, 0x2000, 0x3000, 4096, (1 << 40) + 1, *own]
    assert third.values == [0x1004, 0x2008, 0x300C, 4096, 3, *own]
    assert len(stub.kernels) == 2


@pytest.mark.usefixtures("found")
def test_functions_are_shared_by_who_runs_them_and_then_unloaded() -> None:
    stub = StubCuda()
    made = card(stub)
    one, other = made.prepare(ADD, CONFIG), made.prepare(ADD, dataclasses.replace(CONFIG, grid=(2, 1, 1)))
    one([0x1000] * 3, [4096, 1])
    other([0x1000] * 3, [2048, 1])
    assert [x.grid[0] for x in stub.launches] == [4, 2]
    assert len(stub.modules) == 1
    del one, other
    gc.collect()
    assert len(stub.modules) == 1  # they may not be done
    made.finish()
    assert not stub.modules
    assert stub.violations == []


@pytest.mark.usefixtures("found")
def test_no_program_no_launch() -> None:
    stub = StubCuda()
    card(stub).launch(ADD, dataclasses.replace(CONFIG, grid=(0, 1, 1)), [0, 0, 0], [0, 1])
    assert not stub.launches


def large(monkeypatch: pytest.MonkeyPatch, shared: int) -> None:
    """Let functions need so much shared memory."""

    def made(*_: object) -> MachineCode:
        return MachineCode("add", 8, shared, 7, b"\x7fELF" + bytes(64))

    monkeypatch.setattr("hybridc.runtime.devices.nvidia.cuda.binary", made)


def test_much_shared_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch, 100000)
    stub = StubCuda()
    card(stub).launch(ADD, CONFIG, [0, 0, 0], [0, 1])
    assert stub.attributes == [(FUNCTION_SHARED_MEMORY, 100000)]
    assert (stub.launches[0].shared, stub.launches[0].block) == (100000, (256, 1, 1))


def test_too_much_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch, 300000)
    with pytest.raises(DeviceMemoryError, match="needs 300000 bytes of shared memory; Stub has 232448"):
        card(StubCuda()).launch(ADD, CONFIG, [0, 0, 0], [0, 1])


def test_a_failed_launch() -> None:
    stub = StubCuda()
    made = card(stub)
    stub.fails["cuModuleLoadData"] = 209
    with pytest.raises(DeviceError, match="cuModuleLoadData: an error"):
        made.launch(ADD, CONFIG, [0x1000] * 3, [4096, 1])


def test_small_arrays_go_there_together() -> None:
    stub = StubCuda()
    made = card(stub)
    given = [np.float32(3).reshape(()), np.arange(5, dtype=np.int64), np.ones(2000, F32), np.zeros((0, 2))]
    there = made.put_together(given)
    assert len(stub.buffers) == 2
    for x, y in zip(there, given, strict=True):
        assert x.pointer % 16 == 0
        np.testing.assert_array_equal(x.host(), y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
