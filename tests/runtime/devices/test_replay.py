"""Recorded calls on a simulated card: what runs in which order, at which addresses, and whose memory results are."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.errors import DeviceError
from hybridc.gluon import nn
from hybridc.ir.planned import PlainArray, Position, SlotView
from hybridc.lower.triton.launches import Launch, TritonProgram
from hybridc.runtime.device_executable import DeviceExecutable
from hybridc.runtime.devices import replay
from hybridc.runtime.devices.nvidia.cuda import Cuda
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.sources import ADD, F32, add_config

pytestmark = pytest.mark.triton


N = 40
GPU = mx.gpu(0)
CONSTANT = np.arange(N, dtype=F32)


def add(x: int, y: int, out: int, factor: int) -> Launch:
    """``out = x + factor y``, all of them slots."""
    return Launch(ADD, (Position(x), Position(y), Position(out)), (N, factor), (add_config(N, 64),), f"add{factor}")


def program(*steps: Any, inputs: int = 1, donated: tuple[int, ...] = (), outputs: int | None = None) -> TritonProgram:
    """Slots: 0 the arena, then the inputs, one fresh array, one constant. The last step gives the result."""
    fresh = inputs + 1 if outputs is None else outputs
    return TritonProgram(
        "forward",
        "",
        4 * N,
        inputs=[PlainArray((N,), F32)] * inputs,
        fresh=[PlainArray((N,), F32)],
        constants=[CONSTANT],
        steps=list(steps),
        outputs=[SlotView(fresh, 0, F32, (N,), (1,))],
        into=[0],
        donated=set(donated),
    )


def chain() -> TritonProgram:
    """``4 (x + 2 constant)``: the second launch reads what the first made."""
    return program(add(1, 3, 0, 2), add(0, 0, 2, 3))


def static(made: TritonProgram, card: Cuda) -> DeviceExecutable:
    run = DeviceExecutable(made, card)
    assert run.repeat()
    return run


def values(seed: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, N).astype(F32)


def expected(x: Any) -> Any:
    return 4 * (x + 2 * CONSTANT)


# --- what is recorded ---------------------------------------------------------------------------------------


def test_launches_are_asked_for_together_once_their_addresses_stayed(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    x = card.put(values(1))
    for _ in range(2):  # the second is recorded when it is done
        np.testing.assert_array_equal(run(x)[0].host(), expected(values(1)))
    assert (stub.asked, stub.replays) == (4, [])
    for seed in (2, 3):
        x.write(values(seed))
        np.testing.assert_array_equal(run(x)[0].host(), expected(values(seed)))
    assert stub.asked == 4
    assert [[launch.kernel for launch in graph] for graph, _ in stub.replays] == [["add_0", "add_0"]] * 2
    assert run.notes() == ["replayed: 1 recording of 2 launches", "  copied at each call: result 0"]


def test_only_copies_beside_the_recording(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    x = card.put(values(1))
    for _ in range(3):
        run(x)
    stub.copies.clear()
    allocated = len(stub.buffers)
    result = run(x)[0]
    assert [(target, size) for target, _, size in stub.copies] == [(result.pointer, 256)]
    assert len(stub.buffers) == allocated + 1


def test_a_result_is_not_written_by_later_calls(card: Cuda) -> None:
    run = static(chain(), card)
    x = card.empty((N,), F32)
    kept = []
    for seed in range(5):
        x.write(values(seed))
        kept.append(run(x)[0])
    for seed, result in enumerate(kept):
        np.testing.assert_array_equal(result.host(), expected(values(seed)))
    kept[3].write(np.full(N, 7, F32))
    np.testing.assert_array_equal(run(x)[0].host(), expected(values(4)))


def test_an_argument_that_moves_at_each_call_is_copied(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    kept = []
    for seed in range(6):
        kept.append(card.put(values(seed)))  # so no address comes again
        np.testing.assert_array_equal(run(kept[-1])[0].host(), expected(values(seed)))
    assert len(stub.replays) == 2
    assert "  copied at each call: argument 0, result 0" in run.notes()


def test_an_argument_that_moves_once_is_recorded_again(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    first, second = card.put(values(1)), card.put(values(2))
    for x, seed in [(first, 1)] * 3 + [(second, 2)] * 3:
        np.testing.assert_array_equal(run(x)[0].host(), expected(values(seed)))
    assert len(stub.replays) == 2
    assert "  copied at each call: result 0" in run.notes()


def test_after_many_replays_a_move_is_forgiven(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(program(add(1, 3, 2, 2), add(1, 3, 2, 2)), card)
    arrays = [card.put(values(seed)) for seed in range(4)]
    for seed, x in enumerate(arrays):
        for _ in range(replay._LONG + 2):
            result = run(x)[0]
        np.testing.assert_array_equal(result.host(), values(seed) + 2 * CONSTANT)
    assert len(stub.replays) == 4 * replay._LONG
    assert "  copied at each call: result 0" in run.notes()


def test_arguments_of_the_host_go_to_the_same_place(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(program(add(1, 2, 0, 2), add(0, 0, 3, 3), inputs=2), card)
    x = card.put(values(0))
    for seed in range(1, 5):
        np.testing.assert_array_equal(run(x, values(seed))[0].host(), 4 * (values(0) + 2 * values(seed)))
    assert len(stub.replays) == 2


def test_what_is_written_in_place_is_never_copied(stub: SimulatedCuda, card: Cuda) -> None:
    moving = program(add(1, 3, 1, 2), add(1, 3, 1, 1), donated=(0,), outputs=1)
    run = static(moving, card)
    for seed in range(6):
        x = card.put(values(seed))
        kept = run(x)[0]
        assert kept.pointer == x.pointer
        np.testing.assert_array_equal(x.host(), values(seed) + 3 * CONSTANT)
        stub.buffers[seed] = np.empty(0)  # a new address next time
    run = static(moving, card)
    x = card.put(values(9))
    for times in range(1, 6):
        run(x)
        np.testing.assert_array_equal(x.host(), values(9) + 3 * times * CONSTANT)
    assert len(stub.replays) == 3


def test_what_is_large_and_moves_is_launched_alone(
    stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_SMALL", 4 * N - 1)
    steps = [add(1, 3, 0, 2), add(0, 3, 0, 3), add(0, 3, 0, 4), add(0, 3, 2, 5)]
    run = static(program(*steps), card)
    kept = []
    for seed in range(6):
        x = card.put(values(seed))
        kept += [x, run(x)[0]]
        np.testing.assert_array_equal(kept[-1].host(), values(seed) + 14 * CONSTANT)
    assert [len(graph) for graph, _ in stub.replays] == [2, 2]
    assert run.notes() == [
        "replayed: 1 recording of 2 launches",
        "  between recordings: add2: argument 0 (160 bytes) is at another address at each call",
        "  between recordings: add5: result 0 has 160 bytes, too many to be copied",
    ]


def test_a_call_of_the_host_is_between_recordings(stub: SimulatedCuda, card: Cuda) -> None:
    """A host call sees what was launched before it, and what is launched after it sees what it wrote."""
    seen: list[Any] = []

    def host(ins: Any, outs: Any) -> None:
        seen.append(ins[0].copy())
        outs[0][:] = ins[0] * 10

    class Call:
        ins = outs = (SlotView(0, 0, F32, (N,), (1,)),)
        on = staticmethod(host)
        name = "times_ten"
        takes_device_arrays = False

    call: Any = Call()  # all that a device asks of a call
    run = static(program(add(1, 3, 0, 1), add(0, 3, 0, 1), call, add(0, 3, 0, 1), add(0, 3, 2, 1)), card)
    x = card.put(values(1))
    for _ in range(4):
        np.testing.assert_array_equal(run(x)[0].host(), 10 * (values(1) + 2 * CONSTANT) + 2 * CONSTANT)
        np.testing.assert_array_equal(seen[-1], values(1) + 2 * CONSTANT)
    assert [len(graph) for graph, _ in stub.replays] == [2, 2, 2, 2]
    assert run.notes()[0] == "replayed: 2 recordings of 2 launches, 2 launches"
    assert run.notes()[-1] == "  between recordings: host call times_ten"


# --- where the driver does not record -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture"])
def test_a_driver_that_refuses_is_told_of_once(stub: SimulatedCuda, card: Cuda, name: str) -> None:
    run = static(chain(), card)
    stub.fails[name] = 801
    x = card.put(values(1))
    run(x)
    with pytest.warns(UserWarning, match=f"did not record forward, .* one by one: {name}: an error"):
        run(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(run(x)[0].host(), expected(values(1)))
    assert stub.asked == 10
    assert run.notes() == [f"not recorded: {name}: an error (error 801 of the CUDA driver)"]


def test_a_graph_that_cannot_be_made_is_let_go(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    stub.fails["cuGraphInstantiateWithFlags"] = 2
    x = card.put(values(1))
    run(x)
    with pytest.warns(UserWarning, match="out of memory"):
        run(x)
    assert not stub.graphs
    np.testing.assert_array_equal(run(x)[0].host(), expected(values(1)))


def test_a_recording_that_fails_leaves_the_stream_as_it_was(stub: SimulatedCuda, card: Cuda) -> None:
    def work() -> None:
        card.launch(ADD, add_config(N, 64), [x.pointer] * 3, [N, 1])
        raise DeviceError("no")

    x = card.put(values(1))
    with pytest.raises(DeviceError, match="no"):
        card.record(work)
    assert (stub.capturing, stub.graphs) == ({}, {})
    card.launch(ADD, add_config(N, 64), [x.pointer] * 3, [N, 1])
    np.testing.assert_array_equal(x.host(), 2 * values(1))


def test_graphs_go_with_who_made_them(stub: SimulatedCuda, card: Cuda) -> None:
    run = static(chain(), card)
    x = card.put(values(1))
    for _ in range(3):
        run(x)
    assert len(stub.graphs) == 1
    del run
    gc.collect()
    assert not stub.graphs


# --- streams and threads ------------------------------------------------------------------------------------


class Streams(Cuda):
    """A card whose current stream another library says."""

    chosen = 0

    @property
    def stream(self) -> int:
        return self.chosen


def test_a_recording_runs_in_the_stream_that_is_current(stub: SimulatedCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated_gpu(stub, Streams) as card:
        run = static(chain(), card)
        x = card.put(values(1))
        for stream in (0, 0, 0, 5, 5, 5, 0, 5):
            monkeypatch.setattr(card, "chosen", stream, raising=False)
            np.testing.assert_array_equal(run(x)[0].host(), expected(values(1)))
        # Each stream has memory of its own, so it records for itself.
        assert [stream for _, stream in stub.replays] == [0, 5, 0, 5]
        arenas = {stream: graph[0].values[2] for graph, stream in stub.replays}
        assert arenas[0] != arenas[5]
        assert {launch.stream for launch in stub.launches[:4]} == {0}


def test_threads_replay_in_memory_of_their_own(card: Cuda) -> None:
    run = static(chain(), card)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(6):
            given = values(10 * seed + step)
            if not np.array_equal(run(card.put(given))[0].host(), expected(given)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- networks -----------------------------------------------------------------------------------------------


def network(**flags: Any) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(5, activation="relu", in_units=4), nn.Dense(3, in_units=5))
    net.initialize(ctx=GPU)
    for i, p in enumerate(net.collect_params().values()):
        p.set_data(nd.array(np.sin(np.arange(np.prod(p.shape)) + i).reshape(p.shape)))
    net.hybridize(**flags)
    return net


def data(seed: int) -> Any:
    return nd.array(np.random.default_rng(seed).normal(size=(2, 4)), ctx=GPU, dtype="float32")


@pytest.mark.usefixtures("card")
def test_a_network_is_replayed_and_says_so(stub: SimulatedCuda) -> None:
    net, plain = network(static_alloc=True), network()
    for seed in range(6):
        np.testing.assert_array_equal(net(data(seed)).asnumpy(), plain(data(seed)).asnumpy())
    assert stub.replays
    assert "replayed: 1 recording of" in str(net.explain())
    assert "replayed" not in str(plain.explain())
    net.collect_params()[f"{net[1].name}_bias"].set_data(nd.array([1.0, 2.0, 3.0]))
    plain.collect_params()[f"{plain[1].name}_bias"].set_data(nd.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(net(data(0)).asnumpy(), plain(data(0)).asnumpy())
    count = len(stub.replays)
    net.hybridize()
    net(data(0))
    assert len(stub.replays) == count


@pytest.mark.long
@pytest.mark.usefixtures("card")
def test_gradients_of_replayed_networks(stub: SimulatedCuda) -> None:
    found = []
    for flags in ({}, {"static_alloc": True}):
        net, loss = network(**flags), gluon.loss.L2Loss()
        loss.hybridize(**flags)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        label = nd.ones((2, 3), ctx=GPU)
        losses = []
        for seed in range(6):
            x = data(seed)
            x.attach_grad()
            with autograd.record():
                found_loss = loss(net(x), label)
            found_loss.backward()
            trainer.step(2)
            losses += [found_loss.asnumpy(), x.grad.asnumpy()]
        found.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
    for plain, replayed in zip(*found, strict=True):
        np.testing.assert_array_equal(replayed, plain)
    assert len(stub.replays) >= 4


@pytest.mark.long
@pytest.mark.usefixtures("card")
def test_a_training_step_is_one_recording(stub: SimulatedCuda) -> None:
    found = []
    for flags in ({}, {"static_alloc": True}):
        net = network(**flags)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
        losses = [step(data(seed), nd.ones((2, 3), ctx=GPU)).asnumpy() for seed in range(6)]
        found.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
    for plain, replayed in zip(*found, strict=True):
        np.testing.assert_array_equal(replayed, plain)
    assert "replayed: 1 recording of" in str(step.explain())
    assert stub.replays


def test_the_interpreter_records_nothing() -> None:
    net, plain = network(static_alloc=True), network()
    for seed in range(3):
        np.testing.assert_array_equal(net(data(seed)).asnumpy(), plain(data(seed)).asnumpy())
    assert "not recorded: Triton's interpreter cannot record launches" in str(net.explain())
