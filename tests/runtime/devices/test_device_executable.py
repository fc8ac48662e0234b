"""Programs of launches on a device: how each function is run is chosen on a GPU, without a trace in the results."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc import options
from hybridc.ground.store import Store
from hybridc.ir.planned import PlainArray, Position, SlotView
from hybridc.lower.triton.launches import Launch, TritonProgram
from hybridc.runtime.device_executable import DeviceExecutable
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import LaunchConfig
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.sources import ADD, F32, add_config

pytestmark = pytest.mark.triton


N = 40
MANY, FEW = add_config(N, 8), add_config(N, 64)


def added_to(*configs: Any) -> TritonProgram:
    """``x += 2 constant``, in the memory of its argument."""
    launch = Launch(ADD, (Position(1), Position(2), Position(1)), (N, 2), configs, "add")
    return TritonProgram(
        "forward",
        "",
        0,
        inputs=[PlainArray((N,), F32)],
        constants=[np.arange(N, dtype=F32)],
        steps=[launch],
        outputs=[SlotView(1, 0, F32, (N,), (1,))],
        donated={0},
    )


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Store:
    """Nothing was chosen before."""
    own = Store(tmp_path)
    tmp_path.chmod(0o700)
    monkeypatch.setattr("hybridc.ground.store.store", lambda: own)
    return own


@pytest.mark.usefixtures("kept")
def test_what_is_written_in_place_is_written_once_though_several_ways_are_tried() -> None:
    with simulated_gpu() as gpu:
        stub = gpu.driver.functions["cuLaunchKernelEx"]
        launches: list[int] = []

        def counting(config: int, *rest: Any) -> int:
            launches.append(LaunchConfig.from_address(config).grid[0])
            return stub(config, *rest)

        gpu.driver.functions["cuLaunchKernelEx"] = counting
        run = DeviceExecutable(added_to(MANY, FEW), gpu)
        x = gpu.put(np.ones(N, F32))
        run(x)
        np.testing.assert_array_equal(x.host(), 1 + 2 * np.arange(N))
        assert set(launches) == {5, 1}
        tried = len(launches)
        run(x)
        np.testing.assert_array_equal(x.host(), 1 + 4 * np.arange(N))
        DeviceExecutable(added_to(MANY, FEW), gpu)(x)  # knows what was chosen
        assert len(launches) == tried + 2


@pytest.mark.usefixtures("kept")
def test_without_memory_to_try_nothing_is_tried() -> None:
    with simulated_gpu() as gpu:
        run = DeviceExecutable(added_to(MANY, FEW), gpu)
        x = gpu.put(np.ones(N, F32))
        workspace = run.make_workspace()
        gpu.driver.functions["cuMemAllocAsync"] = lambda *_: 2
        run.run(workspace, x)
        np.testing.assert_array_equal(x.host(), 1 + 2 * np.arange(N))


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("large", [{"warps": 65}, {"shared": 232449}])
def test_what_the_card_has_no_room_for_is_not_compiled(large: dict[str, int]) -> None:
    with simulated_gpu() as card:
        stub = card.driver.functions["cuModuleLoadData"]
        loaded: list[int] = []
        card.driver.functions["cuModuleLoadData"] = lambda *given: (loaded.append(1), stub(*given))[1]
        DeviceExecutable(added_to(dataclasses.replace(MANY, **large), FEW), card)(card.put(np.ones(N, F32)))
        assert len(loaded) == 1


@pytest.mark.usefixtures("kept")
def test_an_estimate_of_shared_memory_alone_refuses_nothing() -> None:
    with simulated_gpu() as card:
        x = card.put(np.ones(N, F32))
        DeviceExecutable(added_to(dataclasses.replace(FEW, shared=1 << 30)), card)(x)
        np.testing.assert_array_equal(x.host(), 1 + 2 * np.arange(N))


def test_the_interpreter_runs_the_first_way() -> None:
    device = Interpreter()
    wrong = dataclasses.replace(FEW, constants=(("none", 1),))
    x = device.put(np.ones(N, F32))
    DeviceExecutable(added_to(MANY, wrong), device)(x)
    np.testing.assert_array_equal(x.host(), 1 + 2 * np.arange(N))


# --- the end of an executable -------------------------------------------------------------------------------


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("kept", "no_collector")
@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("is_of_host", [False, True])
def test_its_memory_is_free_as_soon_as_it_is_gone(stub: SimulatedCuda, card: Cuda, is_static: bool, is_of_host: bool):
    x = np.ones(N, F32)
    there = x if is_of_host else card.put(x)
    before = len(stub.buffers)
    run = DeviceExecutable(added_to(MANY, FEW), None if is_of_host else card)
    if is_static:
        run.repeat()
    for _ in range(4):
        run(there)
    dead = weakref.ref(run)
    assert len(stub.buffers) > before
    del run
    assert dead() is None
    assert len(stub.buffers) == before


@pytest.mark.usefixtures("kept", "no_collector")
@pytest.mark.parametrize("static", [False, True])
def test_an_evicted_graph_frees_its_memory(stub: SimulatedCuda, card: Cuda, monkeypatch: Any, static: bool) -> None:
    """Networks keep a few sizes: the memory of further ones is that of those."""
    monkeypatch.setattr(options, "OPTIONS", dataclasses.replace(options.OPTIONS, cache_entries=2, graph_bytes=0))
    monkeypatch.setattr("hybridc.gluon.hybridize.cached_graph.OPTIONS", options.OPTIONS)
    ctx = mx.gpu(0)
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.sum(x * 2, axis=0) + F.array(np.arange(4, dtype=np.float32)))
    net.hybridize(static_alloc=static)
    used: list[int] = []
    for rows in range(8):
        x = mx.nd.ones((9 + rows, 4), ctx=ctx)
        for _ in range(3):
            net(x).wait_to_read()
        del x
        used.append(len(stub.buffers))
    assert used[-1] <= used[2], used
