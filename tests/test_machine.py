"""The description of the machine: what is measured is kept, is plausible, and changes no bit of any result."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import trace_key
from hybridc.compile.stages import Traced
from hybridc.gluon import HybridBlock, nn
from hybridc.ground import machine as described
from hybridc.ground.machine import NOMINAL, Costs, machine, plausible, using
from hybridc.ir import costs
from hybridc.ir.planned import NativeRegion
from hybridc.runtime.devices.nvidia.driver import Driver
from hybridc.tools.machine import main, thresholds
from hybridc.trace.tracer import trace_call
from hybridc.transforms.schedules.arrays import schedule_arrays
from tests.runtime.devices.stub_cuda import StubCuda
from tests.slices import but

FIGURES = [f.name for f in dataclasses.fields(Costs)]


def scaled(factor, names=FIGURES):
    """The nominal machine with some of its costs so many times as large."""
    return replace(NOMINAL, costs=replace(NOMINAL.costs, **{n: factor * getattr(NOMINAL.costs, n) for n in names}))


class Mixed(HybridBlock):
    """A table, matmuls of several shapes, functions, reductions along memory and across it."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.table = nn.Embedding(500, 96)
            self.a = nn.Dense(192, activation="tanh", in_units=96, flatten=False)
            self.b = nn.Dense(16, in_units=192, flatten=False)
            self.norm = nn.LayerNorm(in_channels=16)

    def hybrid_forward(self, F, x):
        y = self.b(self.a(self.table(x)))
        y = self.norm(y) + F.softmax(y, axis=1)
        return F.sum(F.exp(y), axis=0), F.mean(y), F.batch_dot(y, y, transpose_b=True)


def bits(net, x):
    """Results, and the gradients of all parameters, of a recorded call that is compiled now."""
    net.hybridize()
    with mx.autograd.record():
        made = net(x)
    mx.autograd.backward(list(made))
    return [a.asnumpy().tobytes() for a in (*made, *(p.grad() for p in net.collect_params().values()))]


@pytest.fixture(scope="module")
def network():
    mx.random.seed(0)
    net = Mixed()
    net.initialize(mx.init.Normal(0.3))
    return net, mx.nd.array(np.random.default_rng(0).integers(0, 500, (24, 100)))


@pytest.mark.parametrize("factor", but([0.5, 2], [0.25, 0.5, 2, 4]))
def test_measured_costs_change_no_bit(network, factor, monkeypatch):
    monkeypatch.setattr(trace_key, "changed_operators", lambda: ())  # other tests may have changed some
    net, x = network
    found, keys, cut = [], set(), set()
    for computer in (NOMINAL, scaled(factor), scaled(factor, ["wake", "region"])):
        with using(computer):
            lowered = net.trace(x).optimize().lower("llvm")
            cut.add(tuple((p.grain, p.least) for p in parallel_regions(lowered)))
            keys.add((trace_key.key_of(Traced(trace_call(net, [x], training=True))), trace_key.made_for("llvm")))
            found.append(bits(net, x))
    assert found[0] == found[1] == found[2]
    assert len(keys) == 3
    assert len(cut) > 1, "costs decide nothing here"


@pytest.mark.parametrize("factor", [0.25, 4])
def test_caches_that_are_read_decide_nothing(network, factor, monkeypatch):
    """Nor do threads: their number is known when a plan runs. So plans are shared by computers of equal costs."""
    monkeypatch.setattr(trace_key, "changed_operators", lambda: ())
    net, x = network
    sizes = {name: int(factor * getattr(NOMINAL, name)) for name in ("line", "first", "second", "third")}
    found, keys, plans = set(), set(), set()
    for computer in (NOMINAL, replace(NOMINAL, processor="another", threads=64, **sizes)):
        with using(computer):
            plans.add(str(net.trace(x).optimize().lower("llvm")))
            keys.add((trace_key.key_of(Traced(trace_call(net, [x], training=True))), trace_key.made_for("llvm")))
            found.add(tuple(bits(net, x)))
    assert len(found) == len(keys) == len(plans) == 1


@pytest.mark.parametrize("factor", [0.25, 4])
def test_tiles_of_other_sizes_give_the_same_bits(factor, monkeypatch):
    """Of functions on whole arrays, where nothing is added across tiles."""
    net = nn.HybridLambda(lambda F, x: F.softmax(x) * F.tanh(x) + F.sum(x, axis=1, keepdims=True))
    x = mx.nd.array(np.random.default_rng(1).standard_normal((3000, 300), dtype=np.float32))
    small = schedule_arrays.MACHINE
    sizes = {name: int(factor * getattr(small, name)) for name in ("tile_elements", "shared_tile_elements")}
    made = []
    for chosen in (small, replace(small, shared_tile_bytes=int(factor * small.shared_tile_bytes), **sizes)):
        monkeypatch.setattr(schedule_arrays, "MACHINE", chosen)
        made.append(net.trace(x).optimize().lower("numpy"))
    results = [lowered.compile()(x).asnumpy() for lowered in made]
    assert str(made[0]) != str(made[1])
    np.testing.assert_array_equal(*results)


def parallel_regions(lowered):
    """The parallel regions of a plan."""
    return [step for step in lowered.programs["forward"].plan().steps if isinstance(step, NativeRegion)]


def test_thresholds_follow_the_costs():
    nominal, slow = thresholds(NOMINAL), thresholds(scaled(2, ["wake"]))
    assert nominal["flops of a matmul that threads share"] == 1_000_000
    assert slow["flops of a matmul that threads share"] == 2_000_000
    assert nominal["elements along both axes of a tile that crosses memory (nominal)"] == 32


@pytest.mark.parametrize("work", [1.0, 1e3, 12e3, 1e5, 1e8])
def test_ranges_are_cut_as_documented(work):
    """A piece takes four times what it costs to begin, what is shared 2.4 times what it costs to wake a thread."""
    extent = 1000
    for factor in (0.5, 1, 2):
        with using(scaled(factor, ["wake", "region"])):
            grain, least = costs.sharing(work, extent)
            assert (grain - 1) * work / extent < 4 * 500 * factor <= grain * work / extent * (1 + 1e-12)
            assert (least - 1) * work / extent < 2.4 * 5000 * factor <= least * work / extent * (1 + 1e-12)
            assert costs.is_shared(work) == (work >= 12_000 * factor)
            assert costs.grain_of(extent, work) == (
                max(1, int(2e6 * factor / work)) if costs.is_shared(work) else extent
            )


@pytest.mark.parametrize("ratio", [1e-9, 0.1, 0.26, 0.4, 0.99, 1.0, 1.2, 1.3, 2.9, 5.0, 1e9, float("inf")])
def test_a_measurement_is_coarse_and_near_the_nominal(ratio):
    found = plausible(ratio * 0.3, 0.3) / 0.3
    assert 0.25 <= found <= 4
    assert min(abs(found - m * 2.0**p) for m in (1, 1.5) for p in range(-2, 3)) < 1e-9
    if 0.25 <= ratio <= 4:
        assert abs(found / ratio - 1) <= 0.25


def test_each_cost_is_measured_or_nominal():
    found = described.measure()
    ratios = [getattr(found, name) / getattr(NOMINAL.costs, name) for name in FIGURES]
    assert all(0.25 - 1e-9 <= r <= 4 + 1e-9 for r in ratios)
    assert found.operation / NOMINAL.costs.operation == pytest.approx(found.flop / NOMINAL.costs.flop)


COMMAND = [sys.executable, "-m", "hybridc.tools.machine", "--json"]


def asked(folder, **env):
    """What the command prints in a process with a cache folder of its own."""
    done = subprocess.run(
        COMMAND,
        env={**os.environ, "HYBRIDC_MACHINE": "measured", "HYBRIDC_CACHE_DIR": str(folder), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def noted(folder):
    """The files in a cache folder that note what was measured; another one has what LLVM says of the processor."""
    return [path for path in folder.rglob("*.entry") if b"host 2 " not in path.read_bytes()]


def test_the_command_prints_what_is_measured_once(tmp_path):
    first, again = asked(tmp_path), asked(tmp_path)
    assert first == again
    assert first["machine"]["measured"]
    assert set(first["costs"]) == set(FIGURES)
    assert first["gpu"]["multiprocessors"] == 132
    kept = noted(tmp_path)
    assert len(kept) == 1
    kept[0].write_bytes(b"damaged")
    assert asked(tmp_path)["machine"] == first["machine"]


def test_gpus_are_described_as_their_driver_says(monkeypatch, capsys):
    stub = StubCuda(shared=99 << 10, cards=2)
    monkeypatch.setattr("hybridc.tools.machine.driver", lambda: Driver(stub))
    main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert [(gpu["name"], gpu["shared"], gpu["registers"]) for gpu in found["gpus"]] == [("Stub", 101376, 262144)] * 2
    assert found["gpu"]["shared"] == 160 << 10, "the nominal one is what code is made for"
    main([])
    assert capsys.readouterr().out.count("GPU, read: Stub") == 2


def test_nominal_costs_are_measured_by_nobody(tmp_path):
    for env in ({"HYBRIDC_MACHINE": "nominal"}, {"HYBRIDC_CPU": "generic"}):
        found = asked(tmp_path, **env)
        assert not found["machine"]["measured"]
        assert all(cost["nanoseconds"] == cost["nominal"] for cost in found["costs"].values())
    assert not noted(tmp_path)


def test_the_command_prints_a_table_for_people(capsys):
    main([])
    printed = capsys.readouterr().out
    assert all(name in printed for name in FIGURES)
    assert "(0.012)  a multiplication or addition in a matmul" in printed
    assert machine().processor in printed
