"""Checkpoints of several ranks: programs that are killed go on to the bit, also by restarts, and on other ranks."""

import json
import os
import signal
import time

import numpy as np
import pytest

from tests.distributed import ranks

pytestmark = pytest.mark.mpi
PROGRAM = "resumed_training.py"


class Run:
    """A program and its logs in a folder."""

    def __init__(self, folder, name, case=""):
        self.folder, self.log, self.case = folder / name, folder / f"{name}-log", case.split()

    def arguments(self, *words):
        return [str(self.folder), str(self.log), *self.case, *words]

    def run(self, *words, count=2, options=(), check=True):
        return ranks.run(PROGRAM, count, self.arguments(*words), options=options, check=check)

    def lines(self, rank=0):
        path = self.log.with_name(f"{self.log.name}.{rank}")
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]

    def losses(self, rank=0):
        """The loss of each step, as computed last; all computations of a step must agree."""
        found = {}
        for line in self.lines(rank):
            if "step" in line:
                assert found.setdefault(line["step"], line["loss"]) == line["loss"]
        return found

    def begins(self, rank=0):
        return [line for line in self.lines(rank) if "resumed" in line]

    def digests(self, count=2):
        return [self.lines(rank)[-1]["digest"] for rank in range(count)]


def check_resumed(tmp_path, case):
    """A run that is killed and started again must be that which was not."""
    whole, killed = Run(tmp_path, "whole", case), Run(tmp_path, "killed", case)
    whole.run()
    done = killed.run("die=17", options=["--restarts", "2"])
    assert "starting the program again" in done.stderr
    assert [line["resumed"] for line in killed.begins()] in ([0, 15], [0, 10])
    for rank in range(2):
        assert killed.losses(rank) == whole.losses(rank)
    assert killed.digests() == whole.digests()


@pytest.mark.long
def test_a_killed_program_goes_on_to_the_bit(tmp_path):
    check_resumed(tmp_path, "mode=eager")


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [
        "mode=hybrid optimizer=adam sampler=1",
        "mode=step workers=1",
        "mode=step optimizer=adam sampler=1 workers=1",
        "mode=shard optimizer=adam",
        "mode=local",
        "mode=accumulate",
        "mode=compress",
        "mode=compress-loop",
        "mode=add",
        "mode=store optimizer=adam",
        "mode=eager optimizer=sgld",
    ],
)
def test_every_kind_of_training_goes_on_to_the_bit(tmp_path, case):
    check_resumed(tmp_path, case)


@pytest.mark.long
@pytest.mark.parametrize("case", ["mode=step", "mode=shard optimizer=adam"])
def test_killed_at_random_moments(tmp_path, case):
    rng = np.random.default_rng(1)
    case = f"{case} steps=250 every=3 size=300 sampler=1"
    whole, killed = Run(tmp_path, "whole", case), Run(tmp_path, "killed", case)
    whole.run()
    program = ranks.start(PROGRAM, 2, killed.arguments(), options=["--restarts", "20"])
    kills = 0
    while kills < 5 and program.poll() is None:
        rank, lines = int(rng.integers(2)), killed.lines(0)
        if max((line["step"] for line in lines if "step" in line), default=0) < 40 * (kills + 1):
            time.sleep(0.005)
            continue
        time.sleep(rng.uniform(0, 0.05))
        begins = killed.begins(rank)
        os.kill(begins[-1]["process"], signal.SIGKILL)
        kills += 1
        while program.poll() is None and len(killed.begins(rank)) == len(begins):
            time.sleep(0.05)
    done = ranks.finish(program, 240)
    assert done.returncode == 0, done.stderr
    assert kills == 5
    assert "CheckpointWarning" not in done.stderr
    for rank in range(2):
        assert killed.losses(rank) == whole.losses(rank)
    assert killed.digests() == whole.digests()
    assert all(line["resumed"] for line in killed.begins()[1:])


@pytest.mark.long
@pytest.mark.parametrize("case", ["mode=eager", "mode=shard optimizer=adam"])
@pytest.mark.parametrize("counts", [(2, 1), (1, 2), (2, 3)])
def test_other_numbers_of_ranks(tmp_path, case, counts):
    case = f"{case} sampler=1"
    before, after = counts
    run = Run(tmp_path, "run", case)
    run.run("steps=7", "every=7", count=before)
    saved = run.lines()[-1]["common"]
    end = run.run("steps=12", count=after)
    assert "Warning" not in end.stderr
    begins = [run.begins(rank)[-1] for rank in range(after)]
    assert {line["resumed"] for line in begins} == {7}
    assert len({line["begun"] for line in begins}) == 1  # statistics too are equal on all ranks now
    # What the ranks had in common, each of the new ones has.
    check = run.run("steps=7", count=after)
    assert check.returncode == 0
    assert {run.lines(rank)[-1]["common"] for rank in range(after)} != {saved}  # it went on to step 12
    again = Run(tmp_path, "again", case)
    again.run("steps=7", "every=7", count=before)
    again.run("steps=7", count=after)
    assert {again.lines(rank)[-1]["common"] for rank in range(after)} == {saved}


FULL = """
import resource, sys, warnings
import hybridc as mx
from hybridc.gluon import nn
ranks = mx.distributed.communicator()
warnings.simplefilter("always")
net = nn.Dense(64, in_units=64)
net.initialize()
checkpoint = mx.distributed.Checkpoint(sys.argv[1], net, every=1, keep=1)
checkpoint.step()
checkpoint.wait()
if ranks.rank == 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
for _ in range(3):
    checkpoint.step()
try:
    checkpoint.save()
except mx.MXNetError as error:
    print("save:", error)
if ranks.rank == 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
again = mx.distributed.Checkpoint(sys.argv[1], net)
print("restored", again.restore())
checkpoint.step()
checkpoint.close()
print("restored", again.restore())
"""


@pytest.mark.long
def test_a_full_disk_of_one_rank(tmp_path):
    pytest.importorskip("resource")
    done = ranks.run(FULL, arguments=[tmp_path / "run"], check=True)
    for rank in range(2):
        save, *restored = done.lines[rank]
        assert "save: the checkpoint of step 4 could not be written into" in save
        assert "rank 1 on" in save
        assert "File too large" in save
        assert restored == ["restored 1", "restored 5"]
    warned = [line for line in done.errors[0] if "CheckpointWarning" in line]
    assert len(warned) == 3
    assert all("The training goes on; the last one is that of step 1" in line for line in warned)
    assert not done.errors.get(1)


APART = """
import sys
import hybridc as mx
rank = mx.distributed.rank()
try:
    mx.distributed.Checkpoint(f"{sys.argv[1]}/{rank}").step()
except mx.MXNetError as error:
    print(error)
print(mx.distributed.num_workers())
mx.distributed.barrier()
"""


def test_a_folder_that_is_not_shared(tmp_path):
    done = ranks.run(APART, arguments=[tmp_path], check=True)
    for rank in range(2):
        assert "rank 1 on" in done.lines[rank][0]
        assert "does not see in" in done.lines[rank][0]
        assert "checkpoints need a folder that all machines share" in done.lines[rank][0]
        assert done.lines[rank][1] == "2"


DAMAGED = """
import sys, warnings
import hybridc as mx
from hybridc.gluon import nn
warnings.simplefilter("always")
net = nn.Dense(3, in_units=3 + mx.distributed.rank() * int(sys.argv[2]))
net.initialize()
checkpoint = mx.distributed.Checkpoint(sys.argv[1], net)
try:
    print("restored", checkpoint.restore())
except mx.MXNetError as error:
    print(error)
if len(sys.argv) > 3:
    checkpoint.step()
    checkpoint.save()
    checkpoint.step()
    checkpoint.save()
"""


@pytest.mark.long
def test_damage_and_other_parameters(tmp_path):
    ranks.run(DAMAGED, arguments=[tmp_path, "0", "save"], check=True)
    (shard,) = (tmp_path / "step-000000002").glob("rank-1-*")
    shard.write_bytes(shard.read_bytes()[:-1])
    done = ranks.run(DAMAGED, arguments=[tmp_path, "0"], check=True)
    assert [done.lines[rank] for rank in range(2)] == [["restored 1"]] * 2
    assert "a damaged checkpoint was passed over" in done.stderr
    done = ranks.run(DAMAGED, arguments=[tmp_path, "1"], check=True)
    for rank in range(2):
        assert "rank 1 on" in done.lines[rank][0]
        assert "other parameters: weight has shape (3, 3) there and (3, 4) here" in done.lines[rank][0]


LEFT = """
import sys
import hybridc as mx
from hybridc.gluon import nn
net = nn.Dense(500, in_units=1000)
net.initialize()
checkpoint = mx.distributed.Checkpoint(sys.argv[1], net, every=1)
print(checkpoint.restore())
checkpoint.step()
"""


@pytest.mark.long
def test_programs_that_do_not_close(tmp_path):
    for done in range(3):
        left = ranks.run(LEFT, arguments=[tmp_path], check=True)
        assert [left.lines[rank] for rank in range(2)] == [[str(done)]] * 2
        assert not left.stderr


KEPT_APART = """
import sys
import numpy as np
import hybridc as mx
from hybridc import gluon, nd
from hybridc.gluon import nn
rank, count = mx.distributed.rank(), mx.distributed.num_workers()
net = nn.HybridSequential()
net.add(nn.Dense(64, in_units=64), nn.Dense(64, in_units=64), nn.BatchNorm(in_channels=64))
net.initialize()
checkpoint = mx.distributed.Checkpoint(sys.argv[1], net, extra={"rank": rank})
if not checkpoint.restore():
    for parameter in net.collect_params().values():
        parameter.set_data(nd.full(parameter.shape, 7))
    net[2].running_mean.set_data(nd.full((64,), rank))
    np.random.seed(rank)
    checkpoint.step()
    checkpoint.save()
print(net[2].running_mean.data()[0].asscalar(), net[0].weight.data().sum().asscalar(), checkpoint.extra["rank"])
print(np.random.randint(1 << 30))
"""


@pytest.mark.long
def test_what_ranks_have_apart(tmp_path):
    ranks.run(KEPT_APART, arguments=[tmp_path], check=True)
    sizes = [path.stat().st_size for path in sorted((tmp_path / "step-000000001").glob("rank-*"))]
    whole = 2 * 64 * 64 * 4  # each rank writes one of the two weights
    assert all(whole / 2 < size < 0.8 * whole for size in sizes)
    same = ranks.run(KEPT_APART, arguments=[tmp_path], check=True)
    assert [same.lines[rank][0] for rank in range(2)] == ["0.0 28672.0 0", "1.0 28672.0 1"]
    more = ranks.run(KEPT_APART, 3, arguments=[tmp_path], check=True)
    assert [more.lines[rank][0] for rank in range(3)] == ["0.5 28672.0 0", "0.5 28672.0 1", "0.5 28672.0 0"]
    draws = [more.lines[rank][1] for rank in range(3)]
    assert draws[:2] == [same.lines[rank][1] for rank in range(2)]
    assert len(set(draws)) == 3
