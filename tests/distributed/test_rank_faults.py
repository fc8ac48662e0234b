"""When a rank fails, every other rank says which one, on which machine, and why; and all is soon over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from hybridc.launch import mpiexec
from tests.distributed import ranks

pytestmark = pytest.mark.mpi
long = pytest.mark.long

TIMEOUT = 4  # seconds after which a rank is late
START, END = 15, 10  # seconds for the ranks to come to the fault, on a busy machine, and to end after it is noticed

# What a rank does; what the others say of it; the status with which the launcher ends.
AT_ONCE = {
    "raise": ("raised ValueError: the data of step 2 are bad", 1),
    "kill": ("died: its connection closed", 128 + signal.SIGKILL),
    "exit": ("ended with exit status 3", 3),
    "exit-text": ("ended with exit status 1", 1),
    "exit-0": ("ended while others wait in all-reduce of 8 float32", 70),
    "_exit": ("died: its connection closed", 70),
    "crash": ("died: its connection closed", 128 + signal.SIGSEGV),
    "abort": ("died: its connection closed", 128 + signal.SIGABRT),
    "interrupt": ("raised KeyboardInterrupt", 130),
    "communication": ("raised ValueError: a collective needs a contiguous array that can be written", 1),
    "thread": ("ended with exit status 5", 5),
    "hook": ("raised ValueError: the data of step 2 are bad", 1),
    "worker": ("died: its connection closed", 128 + signal.SIGKILL),
}
LATE = {
    "stop": (f"has not answered for {TIMEOUT} s: a signal, as SIGSTOP, has stopped it", 128 + signal.SIGKILL),
    "hang": (f"has not come to all-reduce of 8 float32, in which others wait for {TIMEOUT} s", 70),
    "hang-locked": (f"has not answered for {TIMEOUT} s", 128 + signal.SIGKILL),
}
SHORT = [("raise", 1), ("kill", 0)]
CASES = [
    pytest.param(how, who, marks=() if (how, who) in SHORT else long) for how in (*AT_ONCE, *LATE) for who in (0, 1)
]


@pytest.mark.parametrize(("how", "who"), CASES)
def test_a_rank_that_fails_ends_the_others(how, who):
    what, status = {**AT_ONCE, **LATE}[how]
    found = ranks.run("fails.py", 2, [how, str(who)], options=["--timeout", str(TIMEOUT)])
    host = socket.gethostname()
    other = 1 - who
    said = "\n".join(found.errors[other])
    assert f"hybridc: rank {who} on {host} {what}" in said
    assert f"; rank {other} on {host} ends" in said
    assert "done" not in found.stdout
    assert found.returncode == status
    assert found.seconds < START + END + (TIMEOUT if how in LATE else 0)
    if status >= 128 and how != "interrupt":  # the launcher and the others know more than the connection says
        killed = f"was killed by {signal.Signals(status - 128).name}"
        killed = (
            "was stopped by SIGSTOP, so that it no longer answered, and was then killed" if how == "stop" else killed
        )
        assert f"rank {who} on {host} {killed}" in found.stderr
    if how in ("raise", "hook"):  # the rank itself has said all
        assert "hybridc" not in "\n".join(found.errors.get(who, []))


@long
@pytest.mark.parametrize("who", [0, 3])
@pytest.mark.parametrize("how", ["raise", "kill", "stop"])
def test_four_ranks(how, who):
    found = ranks.run("fails.py", 4, [how, str(who)], options=["--timeout", "10"])
    for rank in {*range(4)} - {who}:
        assert f"hybridc: rank {who} on " in "\n".join(found.errors[rank])
    assert found.returncode != 0


@long
@pytest.mark.parametrize("who", [0, 1])
def test_a_rank_may_end_while_others_compute(who):
    found = ranks.run("fails.py", 2, ["compute", str(who)], options=["--timeout", str(TIMEOUT)])
    assert (found.returncode, found.stderr) == (0, "")
    assert [found.lines[rank][-1] for rank in range(2)] == ["done", "done"]


LAST = """
import os, signal
from hybridc.communication import communicator

class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGSTOP):
        kill(process, number)

if communicator().rank == 0:
    last = Last()  # which Python drops after MPI ended
print("done")
"""


@long
def test_a_rank_that_stands_still_after_its_end():
    found = ranks.run(LAST, options=["--timeout", str(TIMEOUT)])
    assert found.lines == {0: ["done"], 1: ["done"]}
    assert (
        f"rank 0 on {socket.gethostname()} has not ended for {TIMEOUT} s, although all ranks were done" in found.stderr
    )
    assert found.returncode == 128 + signal.SIGKILL
    assert found.seconds < START + END + TIMEOUT


START_FAULTS = {
    "raise": ("ended with exit status 1", 1),
    "hang": (f"has not come to the start of MPI for {TIMEOUT} s", 70),
    "kill": ("was killed by SIGKILL", 128 + signal.SIGKILL),
    "stop": (f"has not come to the start of MPI for {TIMEOUT} s", 70),
}


@long
@pytest.mark.parametrize("how", ["raise", "hang", "kill", "stop"])
def test_a_rank_that_fails_before_mpi_starts(how):
    what, _ = START_FAULTS[how]
    env = {"PYTHONPATH": str(ranks.PROGRAMS / "start_faults"), "START_FAULT": how}
    found = ranks.run("fails.py", 2, ["none", "0"], env, options=["--timeout", str(TIMEOUT)])
    assert f"hybridc: rank 1 on {socket.gethostname()} {what}" in "\n".join(found.errors[0])
    assert found.returncode != 0
    assert found.seconds < START + END + TIMEOUT
    if how == "raise":
        assert "libmpi.so: cannot open shared object file" in "\n".join(found.errors[1])


FORKS = """
import os, sys, multiprocessing
import numpy as np
import hybridc as mx
from hybridc.communication import communicator
comm = communicator()
x = np.ones(4)

class Squares(mx.gluon.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return float(index ** 2)

loader = mx.gluon.data.DataLoader(Squares(), 4, num_workers=2)
print(sum(float(batch.sum().asscalar()) for batch in loader))
if (child := os.fork()) == 0:
    try:
        comm.allreduce(x)
    except mx.MXNetError as error:
        print(error)
    sys.exit(3)  # runs what is registered for the end
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if (child := os.fork()) == 0:
    raise KeyError("in the forked process")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
comm.allreduce(x)
print(x[0])
"""


@long
def test_forked_processes_are_no_ranks():
    found = ranks.run(FORKS, options=["--timeout", "10"])
    for rank in range(2):
        assert found.lines[rank] == [
            "140.0",
            "all-reduce of 4 float64: this process was forked from a rank and is none; only the rank itself takes part",
            "3",
            "1",
            "2.0",
        ]
        assert "KeyError: 'in the forked process'" in found.errors[rank]
    assert found.returncode == 0


GROUPS = """
import sys, time
import numpy as np
from hybridc.communication import communicator
comm = communicator()
part = comm.split(comm.rank == 0)
x = np.ones(2)
if comm.rank == 0:
    for _ in range(5):
        part.allreduce(x)
    sys.exit()
part.allreduce(x)
if "late" in sys.argv and comm.rank == 2:
    time.sleep(60)
for _ in range(20):
    part.allreduce(x)
    time.sleep(0.2)
print("done")
"""


@long
def test_groups_of_ranks_do_not_wait_for_each_other():
    found = ranks.run(GROUPS, 3, options=["--timeout", "10"])
    assert (found.returncode, found.stderr) == (0, "")
    late = ranks.run(GROUPS, 3, ["late"], options=["--timeout", "4"])
    for rank in range(3):
        assert "hybridc: rank 2 on " in "\n".join(late.errors[rank])
        assert "has not come to all-reduce of 2 float64, in which others wait for 4 s" in "\n".join(late.errors[rank])


@long
@pytest.mark.parametrize("how", ["none", "raise", "exit-0", "kill", "stop"])
def test_under_mpiexec_alone(how):
    program = [sys.executable, str(ranks.PROGRAMS / "fails.py"), how, "1"]
    env = ranks.environment({"HYBRIDC_COMM_TIMEOUT": str(TIMEOUT)})
    command = mpiexec.find(os.environ).command(2, [], program, env)
    found = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    if how == "none":
        assert (found.returncode, found.stderr) == (0, "")
        return
    what, _ = {**AT_ONCE, **LATE}[how]
    host = socket.gethostname()
    assert f"hybridc: rank 1 on {host} {what}; rank 0 on {host} ends" in found.stderr
    assert found.returncode != 0


@long
def test_another_mpi_than_the_launchers():
    """A process that an mpiexec of another MPI started is alone for mpi4py: ranks that train alone, unnoticed."""
    env = ranks.environment({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"})
    code = "from hybridc.communication import communicator; communicator()"
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert "Open MPI started this process as rank 1 of 2, but mpi4py knows of 1" in found.stderr
    assert os.environ.get("OMPI_COMM_WORLD_SIZE") is None


@long
@pytest.mark.parametrize("how", ["none", "raise", "kill"])
def test_variables_alone_start_ranks(how):
    """Without a launcher of MPI; only MPICH can."""
    found = ranks.by_variables([str(ranks.PROGRAMS / "fails.py"), how, "1"], MASTER_ADDR="127.0.0.1")
    if how == "none":
        assert [status for _, _, status in found] == [0, 0]
        assert all(stdout.endswith("done\n") for stdout, _, _ in found)
    else:
        assert f"hybridc: rank 1 on {socket.gethostname()} {AT_ONCE[how][0]}; rank 0 on " in found[0][1]
        assert [status for _, _, status in found] == [70, 1 if how == "raise" else -signal.SIGKILL]


SHARED = """
import os, signal
from hybridc.communication import communicator
comm = communicator()
comm.barrier()
print(*{line.split()[5] for line in open("/proc/self/maps") if "mpich_shm" in line})
comm.barrier()
os.kill(os.getpid(), signal.SIGKILL)
"""


@long
@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no folder of shared memory")
def test_killed_ranks_leave_no_shared_memory():
    found = ranks.run(SHARED)
    names = {name for lines in found.lines.values() for line in lines for name in line.split()}
    assert not [name for name in names if os.path.exists(name)]
