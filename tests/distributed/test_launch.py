"""``python -m hybridc launch``: arguments, output, cores, exit statuses, restarts and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from hybridc.communication.launched_rank import LaunchedRank
from hybridc.communication.world import mpich_settings
from hybridc.launch import launch_options, mpiexec
from hybridc.launch.launch_options import LaunchError, LaunchOptions
from hybridc.launch.rank_process import cores_of
from tests.distributed import ranks

mpi = pytest.mark.mpi
long = pytest.mark.long

# --- the command line -------------------------------------------------------------------------------------------


def test_options():
    assert launch_options.parsed(["-n", "2", "train.py", "-n", "5", "--x"]) == LaunchOptions(
        2, ("train.py", "-n", "5", "--x")
    )
    assert launch_options.parsed(
        ["-np=4", "--hosts", "a:1,b:3", "--restarts=2", "--timeout", "9", "-m", "package.train", "a"]
    ) == LaunchOptions(4, ("-m", "package.train", "a"), ("a:1", "b:3"), 2, 9)
    assert launch_options.parsed(["--hosts=a:4,b", "train.py"]).ranks == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no program is given"),
        (["-n", "2"], "no program is given"),
        (["-n", "2", "-m"], "no program is given"),
        (["train.py"], "say how many ranks, as -n 2"),
        (["-n"], "-n needs a value"),
        (["-n", "0", "train.py"], "-n takes a whole number from 1 on, got '0'"),
        (["-n", "two", "train.py"], "-n takes a whole number from 1 on, got 'two'"),
        (["-n", "2", "--restarts", "-1", "train.py"], "--restarts takes a whole number from 0 on, got '-1'"),
        (["-n", "2", "--timeout", "0", "train.py"], "--timeout takes a whole number from 1 on, got '0'"),
        (["--hosts", "a:x", "train.py"], "--hosts HOST:PLACES takes a whole number from 1 on, got 'x'"),
        (["-n", "2", "--gpus", "3", "train.py"], "there is no option --gpus"),
    ],
)
def test_wrong_options(arguments, message):
    with pytest.raises(LaunchError) as caught:
        launch_options.parsed(arguments)
    assert message in str(caught.value)
    assert launch_options.USAGE in str(caught.value)


def launch(*arguments, env=None):
    """The launcher's end for arguments with which it starts nothing."""
    return subprocess.run(
        [sys.executable, "-m", "hybridc", "launch", *arguments],
        env=ranks.environment(env),
        capture_output=True,
        text=True,
    )


@pytest.mark.long
def test_what_cannot_be_started_is_said_once(tmp_path):
    (tmp_path / "wrong.py").write_text("x = (\n")
    for program, message in [
        (["missing.py"], "cannot read the program missing.py: No such file or directory"),
        (["-m", "nothing_of_this_name"], "there is no module nothing_of_this_name"),
        ([str(tmp_path / "wrong.py")], f"the program {tmp_path / 'wrong.py'} is no Python"),
    ]:
        found = launch("-n", "1", *program)
        assert found.returncode == 1
        assert found.stderr.count("hybridc launch: ") == 1
        assert message in found.stderr
        assert ("SyntaxError" in found.stderr) == ("wrong" in message)
        assert ", in " not in found.stderr  # no frames of ours


def test_help():
    found = launch("--help")
    assert found.returncode == 0
    assert found.stdout == launch_options.HELP


@pytest.mark.long
def test_several_ranks_without_mpi4py(tmp_path):
    (tmp_path / "mpi4py.py").write_text("")
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'mpi4py' else found(name, *a)\n"
        "from hybridc.launch.launcher import main; main(['-n', sys.argv[1], sys.argv[2]])"
    )
    (tmp_path / "one.py").write_text("from hybridc.communication import communicator; print(communicator().size)")
    command = [sys.executable, "-c", code]
    several = subprocess.run(
        [*command, "2", str(tmp_path / "one.py")], env=ranks.environment(), capture_output=True, text=True
    )
    assert several.stderr == (
        "hybridc launch: several ranks need mpi4py, which is not installed; pip install hybridc[mpi]\n"
    )
    one = subprocess.run(
        [*command, "1", str(tmp_path / "one.py")], env=ranks.environment(), capture_output=True, text=True
    )
    assert (one.returncode, one.stdout, one.stderr) == (0, "[0] 1\n", "")


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("size", "local_size", "ring"),
    [(3, 1, True), (12, 1, True), (4, 1, False), (2, 1, False), (1, 1, False), (6, 3, False), (3, 3, False)],
)
def test_ranks_on_machines_of_their_own_sum_around_a_ring(size, local_size, ring):
    launched = LaunchedRank("MPICH or Intel MPI", 0, size, 0, local_size)
    assert mpich_settings(launched) == ({"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"} if ring else {})


def test_mpiexec_is_found_and_known(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "system").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    env = {"PATH": str(tmp_path / "system")}
    with pytest.raises(LaunchError, match=r"neither in .*bin nor on the path; pip install hybridc\[mpi\]"):
        mpiexec.find(env)
    system = script(tmp_path / "system" / "mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
    assert mpiexec.find(env) == mpiexec.Mpiexec(str(system), is_open_mpi=True)
    own = script(tmp_path / "bin" / "mpiexec", "echo HYDRA build details:")
    assert mpiexec.find(env) == mpiexec.Mpiexec(str(own), is_mpich=True)
    script(own, "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9'")
    assert mpiexec.find(env) == mpiexec.Mpiexec(str(own))
    script(own, "echo something else")
    with pytest.raises(LaunchError, match="an MPI that is not known here, 'something else'"):
        mpiexec.find(env)


def test_commands_of_mpiexec(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program, hosts = ["python", "train.py"], ["a:4", "b:4"]
    mpich = mpiexec.Mpiexec("mpiexec", is_mpich=True)
    assert " ".join(mpich.command(8, hosts, program, {})) == (
        "mpiexec -disable-auto-cleanup -hosts a:4,b:4 -n 8 python train.py"
    )
    open_mpi = mpiexec.Mpiexec("mpiexec", is_open_mpi=True)
    command = " ".join(open_mpi.command(8, hosts, program, {"HOME": "/", "HYBRIDC_RESTART": "1", "PYTHONPATH": "x"}))
    assert command.startswith("mpiexec --oversubscribe ")
    for part in ("--allow-run-as-root", "--host a:4,b:4", "-x HYBRIDC_RESTART -x PYTHONPATH -n 8 python train.py"):
        assert part in command
    assert "HOME" not in command


# --- cores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "cores"), [(1, 8), (2, 8), (3, 8), (8, 8), (4, 2), (5, 3)])
def test_cores_are_divided(size, cores):
    all_cores = list(range(10, 10 + cores))
    mine = [cores_of(rank, size, all_cores) for rank in range(size)]
    assert {core for each in mine for core in each} == set(all_cores)  # none is idle
    assert max(map(len, mine)) - min(map(len, mine)) <= 1
    users = [sum(core in each for each in mine) for core in all_cores]
    assert max(users) - min(users) <= 1


CORES = """
import os
import hybridc as mx
from hybridc.options import OPTIONS
print(sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"], OPTIONS.num_threads)
"""


@mpi
@long
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
def test_ranks_have_cores_of_their_own():
    found = ranks.run(CORES)
    cores = sorted(os.sched_getaffinity(0))
    given = [eval(found.lines[rank][0].rpartition("]")[0] + "]") for rank in range(2)]
    if len(cores) > 1:
        assert sorted(given[0] + given[1]) == cores
    for rank in range(2):
        assert found.lines[rank] == [f"{given[rank]} {len(given[rank])} {len(given[rank])}"]
    found = ranks.run(CORES, env={"OMP_NUM_THREADS": "3"})
    assert {lines[0].rpartition("]")[2] for lines in found.lines.values()} == {" 3 3"}


# --- the program, its arguments, output and status -------------------------------------------------------------------

OUTPUT = r"""
import os, sys, ctypes, signal
from hybridc.communication import communicator
rank = communicator().rank
print("plain")
os.write(1, b"from C\n")
os.system("echo of a child; echo error of a child >&2")
print("é" * 1000)
sys.stdout.write("10%\r20%\r100%\n")
os.write(1, b"\r\nwindows\r\n")
print("to stderr", file=sys.stderr)
communicator().barrier()
if rank == 1:
    os.write(1, b"no line end")
    os.kill(os.getpid(), signal.SIGKILL)
communicator().barrier()
"""


@mpi
def test_lines_have_the_rank_before_them_and_are_complete():
    found = ranks.run(OUTPUT)
    for rank in range(2):
        expected = ["plain", "from C", "of a child", "é" * 1000, "100%", "", "windows"]
        assert found.lines[rank] == expected + ["no line end"] * rank
        assert found.errors[rank][:2] == ["error of a child", "to stderr"]
    assert all(line.startswith("[") for line in found.stdout.splitlines())
    assert found.returncode == 128 + signal.SIGKILL
    assert "hybridc launch: rank 1 on " in found.stderr
    assert "was killed by SIGKILL" in found.stderr.splitlines()[-1]


@long
def test_unfinished_lines_are_shown():
    process = ranks.start("import time\nprint('how many?', end='', flush=True)\ntime.sleep(60)\n", ranks=1)
    begun = time.monotonic()
    assert process.stdout is not None
    assert process.stdout.readline() == "[0] how many?\n"
    assert time.monotonic() - begun < 30
    process.send_signal(signal.SIGINT)
    assert ranks.finish(process, 20).returncode == 130


PROGRAM = """
import os, subprocess, sys
import mxnet as mx
import beside
if __name__ == "__main__":
    code = "import mxnet; print(mxnet.__version__)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    print(sys.argv[1:], __file__, beside.value, mx.nd.ones(2).sum().asscalar(), child, sys.flags.utf8_mode,
          sys.stdin.read())
"""


@pytest.mark.parametrize("way", ["file", *(pytest.param(way, marks=long) for way in ("module", "folder"))])
@pytest.mark.long
def test_the_program_is_main_and_finds_what_is_beside_it(way, tmp_path):
    (tmp_path / "beside.py").write_text("value = 7\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "__main__.py").write_text(PROGRAM)
    program = {"file": ["program.py"], "module": ["-m", "program"], "folder": ["."]}[way]
    command = [sys.executable, "-X", "utf8", "-m", "hybridc", "launch", "-n", "1", *program, "-n", "3", "two words"]
    found = subprocess.run(
        command, cwd=tmp_path, env=ranks.environment(), capture_output=True, text=True, input="given"
    )
    assert found.stderr == ""
    assert found.stdout.startswith("[0] ['-n', '3', 'two words'] ")
    assert found.stdout.endswith(" 7 2.0 1.9.1 1 given\n")
    name = {"file": " program.py ", "module": "/program.py ", "folder": "__main__.py "}[way]
    assert name in found.stdout


STATUS = """
import sys, atexit
from hybridc.communication import communicator
from hybridc.options import OPTIONS
atexit.register(lambda: print("at exit"))
print("attempt", OPTIONS.restart)
if OPTIONS.restart < int(sys.argv[1]) and communicator().rank == communicator().size - 1:
    sys.exit(9)
communicator().barrier()
"""


@long
@pytest.mark.parametrize("how_many", [1, pytest.param(2, marks=mpi)])
def test_restarts(how_many):
    found = ranks.run(STATUS, how_many, ["2"], options=["--restarts", "2"])
    attempts = [line for line in found.lines[0] if line != "at exit"]
    assert attempts == ["attempt 0", "attempt 1", "attempt 2"]
    assert found.returncode == 0
    assert found.stderr.count("starting the program again") == 2
    found = ranks.run(STATUS, how_many, ["2"], options=["--restarts", "1"])
    assert found.returncode == 9
    assert f"hybridc launch: rank {how_many - 1} on " in found.stderr.splitlines()[-1]
    assert found.stderr.splitlines()[-1].endswith(" ended with exit status 9")


@pytest.mark.long
def test_one_rank_ends_as_python_does():
    text = "import atexit, sys\natexit.register(lambda: print('at exit'))\n"
    found = ranks.run(text + "sys.exit('no data')\n", 1)
    assert (found.returncode, found.lines, found.errors) == (1, {0: ["at exit"]}, {0: ["no data"]})
    found = ranks.run(text + "raise KeyError(3)\n", 1)
    assert (found.returncode, found.lines) == (1, {0: ["at exit"]})
    assert found.errors[0][0] == "Traceback (most recent call last):"
    assert "rank_program" not in found.stderr
    assert found.errors[0][-1] == "KeyError: 3"


# --- signals ------------------------------------------------------------------------------------------------------

SLEEPS = """
import os, signal, subprocess, sys, time
from hybridc.communication import communicator
rank = communicator().rank
def checkpoint(number, frame):
    print("got", number)
    sys.exit()
if "handler" in sys.argv:
    signal.signal(signal.SIGTERM, checkpoint)
if "child" in sys.argv:
    print("child", subprocess.Popen(["sleep", "50"]).pid)
print("process", os.getpid())
if "stop" in sys.argv and rank == communicator().size - 1:
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(50)
"""


def started(how_many, *arguments):
    """A program of ranks that sleep, and the processes of the ranks and of their children."""
    process = ranks.start(SLEEPS, how_many, arguments)
    processes = []
    assert process.stdout is not None
    while len(processes) < how_many * (2 if "child" in arguments else 1):
        word, number = process.stdout.readline().split()[1:]
        assert word in ("process", "child")
        processes.append(int(number))
    return process, processes


def are_gone(processes, seconds):
    """Whether processes end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(map(is_alive, processes)):
            return True
        time.sleep(0.1)
    return False


def is_alive(process):
    return state(process) not in ("", "Z", "Zs")


def state(process):
    return subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(n, marks=long) for n in (signal.SIGTERM, signal.SIGHUP))]
)
@pytest.mark.parametrize("how_many", [1, pytest.param(2, marks=[mpi, long])])
def test_signals_go_to_the_ranks(how_many, number):
    process, processes = started(how_many)
    process.send_signal(number)
    found = ranks.finish(process, 30)
    assert found.returncode == 128 + number
    assert are_gone(processes, 1)
    if number == signal.SIGINT:
        assert "] KeyboardInterrupt\n" in found.stderr


@long
@pytest.mark.parametrize("how_many", [1, pytest.param(2, marks=mpi)])
def test_a_handler_of_the_program_may_end_it(how_many):
    process, _ = started(how_many, "handler")
    process.send_signal(signal.SIGTERM)
    found = ranks.finish(process, 20)
    assert [found.lines[rank] for rank in range(how_many)] == [["got 15"]] * how_many
    assert found.returncode == 143


@long
@pytest.mark.parametrize("how_many", [1, pytest.param(2, marks=mpi)])
def test_the_second_signal_kills(how_many):
    process, processes = started(how_many, "stop")
    while not any(state(each).startswith("T") for each in processes):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert ranks.finish(process, 30).returncode == 130
    assert are_gone(processes, 1)


@pytest.mark.parametrize("how_many", [1, pytest.param(2, marks=[mpi, long])])
@pytest.mark.long
def test_ranks_end_with_the_launcher(how_many):
    process, processes = started(how_many, "child")
    process.kill()
    assert are_gone(processes, 10)
    process.communicate()
