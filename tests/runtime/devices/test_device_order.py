"""A card does its work later than it is asked for: what pending work needs stays, and failures say of what they are."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.errors import DeviceError
from hybridc.gluon import nn
from hybridc.lower.triton.texts import fill_launch
from hybridc.runtime.devices.nvidia import cuda
from hybridc.runtime.devices.nvidia.compiled import code_key
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import NON_BLOCKING, Driver
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.sources import ADD, F32, add_config
from tests.runtime.devices.stub_cuda import ILLEGAL_ADDRESS, StubCuda
from tests.runtime.devices.test_replay import N, Streams, chain, expected, static, values

GPU = mx.gpu(0)
ROOT = Path(__file__).parents[3]


def streams(card: Cuda, count: int) -> list[int]:
    """New streams of a card."""
    with card.current:
        return [card.driver.pointer("cuStreamCreate", NON_BLOCKING) for _ in range(count)]


def launch(card: Cuda, *arrays: Any) -> None:
    card.launch(ADD, add_config(N, 64), [x.pointer for x in arrays], [N, 1])


# --- what the simulated driver sees -------------------------------------------------------------------------


def in_another_stream(card: Any, wait: Callable[[Any], None]) -> None:
    """Numbers are put there in one stream, and used and freed in others."""
    card.chosen, second = streams(card, 2)
    x, made = card.put(values(1)), card.event()
    made.record()
    card.chosen = second
    wait(made)
    y = card.empty((N,), F32)
    launch(card, x, x, y)
    np.testing.assert_array_equal(y.host(), 2 * values(1))


def test_streams_without_order_are_seen() -> None:
    stub = SimulatedCuda()
    with simulated_gpu(stub, Streams) as card:
        in_another_stream(card, lambda event: event.since(event))
        assert stub.violations == []
        with pytest.raises(AssertionError):
            in_another_stream(card, lambda _: None)  # and the numbers are wrong
        assert "memory that stream" in stub.violations.pop()
        del card.chosen
        first = card.put(values(1))
        card.driver.functions["cuMemFreeAsync"](first.pointer, *streams(card, 1))
        assert "memory freed in stream" in stub.violations.pop()
        del first
        assert "not there" in stub.violations.pop()


def test_a_module_that_goes_too_early_is_seen(stub: SimulatedCuda, card: Cuda) -> None:
    x = card.put(values(1))
    launch(card, x, x, x)
    (module,) = stub.modules
    card.driver.functions["cuModuleUnload"](module)
    assert "a module is unloaded while its functions may run" in stub.violations.pop()
    stub.modules[module] = b""


def test_handles_of_another_context_are_seen() -> None:
    stub = StubCuda(cards=2)
    first, second = (Cuda(Driver(stub), i) for i in range(2))
    x = first.allocate(4)
    with second.current, pytest.raises(DeviceError, match="error 201"):
        first.driver.call("cuMemcpyDtoDAsync_v2", x.pointer, x.pointer, 4, 0)
    assert "another context" in stub.violations.pop()


@pytest.mark.parametrize(("grid", "threads"), [((1, 65536, 1), 4), ((1, 1, 65536), 4), ((1, 1, 1), 64)])
def test_what_no_card_launches(stub: SimulatedCuda, card: Cuda, grid: tuple[int, int, int], threads: int) -> None:
    x = card.put(values(1))
    config = add_config(N, 64)
    object.__setattr__(config, "grid", grid)
    object.__setattr__(config, "warps", threads)
    with pytest.raises(DeviceError, match=r"cuLaunchKernelEx: an error \(error 1 "):
        card.launch(ADD, config, [x.pointer] * 3, [N, 1])
    assert not stub.launches


# --- what lives as long as its work -------------------------------------------------------------------------


def training() -> Callable[[], Any]:
    """Steps of a network, with fills and operators called one by one; nothing is waited for."""
    net = nn.HybridSequential()
    net.add(nn.Dense(5, activation="relu", in_units=4), nn.BatchNorm(in_channels=5))
    net.initialize(ctx=GPU)
    net.hybridize()
    loss = gluon.loss.L2Loss()
    loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    x, label, total = nd.ones((2, 4), ctx=GPU), nd.zeros((2, 5), ctx=GPU), nd.zeros((2,), ctx=GPU)

    def step() -> Any:
        label[:] = 0
        with autograd.record():
            found = loss(net(x), label)
        found.backward()
        trainer.step(2)
        total[:] = total + found
        return total

    return step


def test_a_training_loop_loads_each_function_once(stub: SimulatedCuda, card: Cuda) -> None:
    """No module comes or goes in later steps, and none goes while its functions may run."""
    step = training()
    step().asnumpy()
    loaded, asked = set(stub.modules), len(stub.launches)
    step()
    assert len(stub.launches) > asked
    assert set(stub.modules) == loaded
    assert np.isfinite(step().asnumpy()).all()
    card.finish()
    assert stub.violations == []


def test_functions_that_nobody_has_go_when_all_is_done(
    stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are launched now and then stay, up to a number; then the card is waited for."""
    monkeypatch.setattr(cuda, "_READY", 2)
    monkeypatch.setattr(cuda, "_RETIRED", 3)
    x = card.put(values(1))
    for number in range(12):
        filling = fill_launch(F32, N, str(number), 0)
        card.launch(filling.function, filling.configs[0], [x.pointer], filling.numbers)
        assert len(stub.modules) <= 2 + 3 + 2
    np.testing.assert_array_equal(x.host(), np.full(N, 11))
    count = len(stub.modules)
    card.launch(filling.function, filling.configs[0], [x.pointer], filling.numbers)
    assert len(stub.modules) == count
    mx.nd.waitall()
    assert len(stub.modules) == 2


def test_functions_of_one_text_and_several_types(card: Cuda) -> None:
    """A fill says nowhere what it fills: each type is compiled for itself, here and in the cache."""
    functions = []
    for dtype in ("float32", "int32", "float64", "int8"):
        filling, x = fill_launch(np.dtype(dtype), 10, "1", 0), card.put(np.zeros(10, dtype))
        card.launch(filling.function, filling.configs[0], [x.pointer], filling.numbers)
        np.testing.assert_array_equal(x.host(), np.ones(10))
        functions.append(filling.function)
    assert len({code_key(function) for function in functions}) == 4


def test_recordings_that_go_while_they_run(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    x = card.put(values(1))
    for _ in range(3):
        y = run(x)[0]
    assert len(stub.replays) == 1
    del run
    gc.collect()
    np.testing.assert_array_equal(y.host(), expected(values(1)))
    mx.nd.waitall()
    assert not stub.modules


# --- streams ------------------------------------------------------------------------------------------------


def test_constants_are_there_in_every_stream() -> None:
    """They were put there in one, which is not waited for; and go when no other needs them."""
    stub = SimulatedCuda()
    with simulated_gpu(stub, Streams) as card:
        card.chosen, *others = streams(card, 3)
        run = static(chain(), card)
        results = []
        for stream in others:
            card.chosen = stream
            results.append((stream, run(card.put(values(1)))[0]))
        del run
        gc.collect()
        for stream, y in results:
            card.chosen = stream
            np.testing.assert_array_equal(y.host(), expected(values(1)))
        assert stub.violations == []
        mx.nd.waitall()
        del results, y
        gc.collect()
        assert not stub.buffers


@pytest.mark.parametrize("pinned", [False, True])
def test_an_array_may_change_once_it_is_given(stub: SimulatedCuda, card: Cuda, pinned: bool) -> None:
    """Also one in memory that the driver reads when it comes to it."""
    x = values(1)
    if pinned:
        stub.pinned.add(x.ctypes.data)
    there = card.put(x)
    x[:] = 0
    np.testing.assert_array_equal(there.host(), values(1))


def test_waitall_waits_for_every_stream() -> None:
    stub = SimulatedCuda()
    with simulated_gpu(stub, Streams) as card:
        (card.chosen,) = streams(card, 1)
        x = card.put(values(1))
        launch(card, x, x, x)
        card.chosen = 0
        ran = stub.clock
        nd.waitall()
        assert stub.clock == ran + 1


# --- contexts -----------------------------------------------------------------------------------------------


def test_the_context_of_other_libraries_stays() -> None:
    stub = StubCuda(cards=2)
    first, second = (Cuda(Driver(stub), i) for i in range(2))
    stub.contexts[:] = [0xC0]
    x, y = first.allocate(8), second.allocate(8)
    for card, buffer in ((second, y), (first, x), (second, y)):
        card.upload(buffer.pointer, np.arange(2, dtype=F32))
        got = np.zeros(2, F32)
        card.download(got, buffer.pointer)
        np.testing.assert_array_equal(got, [0, 1])
        event = card.event()
        event.record()
        event.since(event)
        assert stub.contexts == [0xC0]
    with pytest.raises(mx.MXNetError):
        second.allocate(1 << 40)
    del x, y, buffer, event
    gc.collect()
    assert stub.contexts == [0xC0]
    assert stub.violations == []


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("card")
def test_a_launch_that_fails_later_names_operator_and_line(
    stub: SimulatedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = sys._getframe().f_lineno + 1
    net = nn.HybridLambda(lambda F, x: F.arctan(x))
    net.hybridize()
    x = nd.ones((3,), ctx=GPU)
    net(x).wait_to_read()
    stub.breaks = dict.fromkeys(stub.known, ILLEGAL_ADDRESS)
    y = net(x)  # is accepted
    told = rf"cuCtxSynchronize: an illegal memory access .*: k_arctan: .* \(.*{Path(__file__).name}:{line} "
    with pytest.raises(DeviceError, match=told):
        nd.waitall()
    for call in (y.asnumpy, lambda: nd.ones((3,), ctx=GPU)):
        with pytest.raises(DeviceError, match="arctan"):
            call()
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    stub.queues.error, stub.fails["cuLaunchKernelEx"] = 0, ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match=r"error 700 of the CUDA driver\): k_arctan: "):
        net(x)


def test_a_recording_that_fails_names_its_launches(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    x = card.put(values(1))
    for _ in range(3):
        run(x)
    stub.breaks = dict.fromkeys(stub.known, ILLEGAL_ADDRESS)
    card.finish()
    run(x)
    with pytest.raises(DeviceError, match=r"the latest first: add: x \+ x2 \* factor, n numbers"):
        card.finish()


def test_one_card_that_fails_does_not_keep_waitall_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = SimulatedCuda()
    with simulated_gpu(stub) as card:
        waited: list[int] = []

        def failing(self: Cuda) -> None:
            waited.append(self.index)
            raise DeviceError(f"of {self.index}")

        other = Cuda(card.driver, 0)
        monkeypatch.setattr(Cuda, "finish", failing)
        monkeypatch.setattr("hybridc.runtime.devices.choose._MADE", {card, other})
        with pytest.raises(DeviceError, match="of 0"):
            nd.waitall()
        assert waited == [0, 0]


# --- processes ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it is multi-threaded, as tests may be
def test_a_forked_process_is_told(card: Cuda) -> None:
    """Whatever it does with the card is an error; what it inherited goes without a call of the driver."""
    x = nd.ones((3,), ctx=GPU)
    kept = [nd.zeros((2,), ctx=GPU)]
    tries = [lambda: x.asnumpy(), lambda: nd.ones((2,), ctx=GPU), lambda: x + 1, lambda: nd.waitall(), card.event]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for each in tries:
            try:
                each()
                told.append("no error")
            except BaseException as error:
                told.append(f"{type(error).__name__}: {error}")
        calls: list[str] = []
        for name in card.driver.functions:
            card.driver.functions[name] = lambda *_, name=name: calls.append(name) or 0
        sys.unraisablehook = lambda found: calls.append(str(found.exc_value))
        kept.clear()
        gc.collect()
        os.write(write, "\n".join([*told, f"calls: {calls}"]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        *told, last = file.read().splitlines()
    os.waitpid(child, 0)
    assert len(told) == len(tries)
    for text in told:
        assert text.startswith("DeviceError: this process was forked from one that had used the GPU's driver"), text
    assert last == "calls: []"
    np.testing.assert_array_equal(x.asnumpy(), np.ones(3))


EXIT = """
import os, sys
import numpy as np
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.test_replay import chain, static, values

def late(name, function, ends=sys.is_finalizing, write=os.write, leave=os._exit):  # modules may be gone then
    def call(*arguments):
        if ends():
            write(2, f"{name} is called by a process that ends".encode())
            leave(3)
        return function(*arguments)
    return call

inside = simulated_gpu()
card = inside.__enter__()
for name, function in list(card.driver.functions.items()):
    card.driver.functions[name] = late(name, function)
run = static(chain(), card)
x = card.put(values(1))
for _ in range(4):
    kept = run(x)  # pending, with a recording and memory
event = card.event()
"""


def test_a_process_may_end_with_work_to_do() -> None:
    """The driver gives everything back by itself, and may be gone when the last arrays go."""
    env = {**os.environ, "HYBRIDC_GPU": "cuda"}
    done = subprocess.run([sys.executable, "-c", EXIT], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
