"""Ranks in network namespaces: they talk over limited links only, train as one, and notice a link that is gone."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.distributed.machines import INTERFACE, TRANSPORTS, Links, Machines, check, started
from hybridc.tools.scaling.cluster import Cluster, Network
from tests.distributed.ranks import heed_signals

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "distributed" / "programs"
MESSAGES = ROOT / "benchmarks" / "distributed" / "messages.py"
TIMEOUT = 5  # seconds after which ranks notice that another one does not answer


def _possible():
    try:
        check()
        with Machines(1, Links(1.0)):
            return (Path(sys.executable).parent / "mpiexec").exists() and importlib.util.find_spec("mpi4py") is not None
    except RuntimeError:
        return False


pytestmark = [
    pytest.mark.mpi,
    pytest.mark.long,
    pytest.mark.skipif(not _possible(), reason="needs network namespaces: Linux, root, iproute2; and MPI"),
]


def run(machines, *program, transport="ucx", seconds=120, **variables):
    environment = machines.environment(transport, {"PYTHONPATH": str(ROOT), "HYBRIDC_NUM_THREADS": "1", **variables})
    return started(machines.ranks(Path(sys.executable), *map(str, program)), environment)


def finished(process, seconds=120):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def wait_for(process, ranks, step):
    """Read what ranks print until each of them is at a step."""
    at = [0] * ranks
    while min(at) < step:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        for rank, done in re.findall(r"\[rank (\d+)\] step (\d+)", line):
            at[int(rank)] = int(done)
    return max(at)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_all_reduce_goes_over_the_link_at_its_speed(transport):
    with Machines(2, Links(0.5)) as machines, run(machines, MESSAGES, "hybridc", 1 << 22, INTERFACE) as process:
        code, out, err = finished(process)
    assert code == 0, err
    row = json.loads(out.splitlines()[-1])
    assert row["bytes"] == 1 << 22
    # Two ranks exchange halves twice; a frame of 1514 bytes carries 1448.
    assert row["sent"] == pytest.approx(row["bytes"], rel=0.1)
    network = Network(0.5e9 / 8 * 1448 / 1514, 1e-4)
    predicted, _ = Cluster(2, network, network, 5e9).all_reduce(row["bytes"])
    assert 0.95 * predicted < row["mpi fastest"] * 1e-6 < 1.35 * predicted


@pytest.mark.parametrize(("count", "loss"), [(2, 0.0), (2, 0.002), (4, 0.0)])
def test_ranks_train_as_one(count, loss):
    cases = ["dense:adam", "norm:sgd", "gru:adam:shard"][: 3 if count == 2 and not loss else 1]
    with Machines(count, Links(1.0, loss=loss)) as machines, run(machines, PROGRAMS / "equal_steps.py", *cases) as made:
        code, out, err = finished(made, 300)
    assert code == 0, err
    apart = {name: float(value) for name, value in re.findall(r"^(\S+:\S+) (\S+)$", out, re.MULTILINE)}
    assert [*apart] == cases
    assert max(apart.values()) < 1e-6


def test_latency():
    with Machines(2, Links(1.0, latency=5000)) as machines, run(machines, MESSAGES, "hybridc", 4) as process:
        code, out, err = finished(process)
    assert code == 0, err
    assert 4500 < json.loads(out.splitlines()[0])["mpi fastest"] < 9500  # once in each direction, at the same time


def test_three_ranks_sum_around_a_ring():
    """Each sends two parts of three twice. By recursive halving one would send and get all, others twice as much."""
    with Machines(3, Links(1.0)) as machines, run(machines, MESSAGES, "hybridc", 1 << 20, INTERFACE) as process:
        code, out, err = finished(process)
    assert code == 0, err
    row = json.loads(out.splitlines()[-1])
    assert row["sent"] == pytest.approx(4 / 3 * row["bytes"], rel=0.1)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("down", [0, 1])
def test_a_link_that_goes_down_ends_all_ranks(down, transport):
    with (
        Machines(2, Links(1.0)) as machines,
        run(machines, PROGRAMS / "sums_forever.py", transport=transport, HYBRIDC_COMM_TIMEOUT=str(TIMEOUT)) as process,
    ):
        wait_for(process, 2, 5)
        machines.set_link(down, "down")
        begin = time.monotonic()
        code, _, err = finished(process, 60)
        assert time.monotonic() - begin < TIMEOUT + 10
    assert code != 0
    for rank in range(2):
        other, own = (f"rank {r} on {machines.prefix}{r}" for r in (1 - rank, rank))
        assert f"hybridc: {other} has not answered for {TIMEOUT} s; {own} ends" in err


def test_the_others_hear_which_rank_is_cut_off():
    with (
        Machines(3, Links(1.0)) as machines,
        run(machines, PROGRAMS / "sums_forever.py", HYBRIDC_COMM_TIMEOUT=str(TIMEOUT)) as process,
    ):
        wait_for(process, 3, 5)
        machines.set_link(2, "down")
        _, _, err = finished(process, 60)
    for rank in range(2):
        assert (
            f"hybridc: rank 2 on {machines.prefix}2 has not answered for {TIMEOUT} s; "
            f"rank {rank} on {machines.prefix}{rank} ends" in err
        )


def test_a_link_that_comes_back_in_time_ends_nothing():
    with (
        Machines(2, Links(1.0)) as machines,
        run(machines, PROGRAMS / "sums_forever.py", HYBRIDC_COMM_TIMEOUT="30") as process,
    ):
        step = wait_for(process, 2, 5)
        machines.set_link(1, "down")
        time.sleep(2)
        machines.set_link(1, "up")
        assert wait_for(process, 2, step + 50) > step


@pytest.mark.parametrize("who", [0, 1])
def test_a_killed_rank_ends_the_others(who):
    with (
        Machines(2, Links(1.0)) as machines,
        run(machines, PROGRAMS / "fails.py", "kill", who, HYBRIDC_COMM_TIMEOUT=str(TIMEOUT)) as process,
    ):
        begin = time.monotonic()
        code, _, err = finished(process, 60)
        assert time.monotonic() - begin < 20
    other = 1 - who
    assert code != 0
    assert re.search(rf"hybridc: rank {who} on \S+-{who} died.*; rank {other} on \S+-{other} ends", err)


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(signal_):
    """After Ctrl-C and the like nothing is; what a killed process leaves the next one removes."""
    script = ROOT / "benchmarks" / "distributed" / "namespaces.py"
    options = ["--ranks", "2", "--gigabits", "0.1", "--no-steps"]
    process = subprocess.Popen(
        [sys.executable, str(script), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        preexec_fn=heed_signals,
    )
    prefix = f"hbm{process.pid}-"
    end = time.monotonic() + 60
    while not Path(f"/run/netns/{prefix}1").exists():
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(1.5)  # until its ranks are there
    process.send_signal(signal_)
    process.communicate(timeout=60)
    if signal_ == signal.SIGKILL:
        assert any(path.name.startswith(prefix) for path in Path("/run/netns").iterdir())
        with Machines(1, Links()):
            pass
    assert not any(path.name.startswith(prefix) for path in Path("/run/netns").iterdir())
    assert not _ranks_of(prefix)


def _ranks_of(prefix):
    found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if prefix in line and "mpiexec" in line]
