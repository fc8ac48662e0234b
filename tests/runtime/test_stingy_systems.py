"""Systems that are full, read-only or closed: programs work without a cache, or get an error that says what to do.

File systems of a process alone are mounted by ``unshare``, which only root can do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hybridc.options import OPTIONS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="file systems are mounted as on Linux")

ROOT = Path(__file__).parents[2]
LIMITED = [sys.executable, str(Path(__file__).with_name("limited_program.py")), "nothing", "0"]
FULL_DISK = Path(__file__).with_name("full_disk_program.py")
RANKS = """
import numpy as np
from hybridc.communication import communicator
x = np.ones(1 << 18, np.float32)
communicator().allreduce(x)
print("sum", x[0])
"""


def unshared(mount, command, env=None, cwd=None):
    """A command that has file systems of its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount file systems")
    full = {name: value for name, value in {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}.items() if value}
    script = f'{mount} || exit 99; cd "{cwd or "."}"; exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *map(str, command)],
        env=full,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip(f"this user may not mount file systems: {done.stderr}")
    return done


def is_well(done):
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    return bool(lines) and all(line.endswith(" ok") for line in lines)


def launched(tmp_path, mount, env=None):
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    return unshared(mount, [sys.executable, "-m", "hybridc", "launch", "-n", "2", program], env)


# --- shared memory ------------------------------------------------------------------------------------------------


@pytest.mark.mpi
@pytest.mark.parametrize("options", ["size=64k", "ro"])
def test_ranks_with_too_little_shared_memory(tmp_path, options):
    """MPICH ends them by SIGBUS; an error is clear."""
    done = launched(tmp_path, f"mount -t tmpfs -o {options} tmpfs /dev/shm")
    assert done.returncode == 1
    assert "LimitError: 2 ranks on one machine need 3 MiB of shared memory, and in /dev/shm this process" in done.stderr
    assert "docker run --shm-size=1g" in done.stderr


@pytest.mark.mpi
@pytest.mark.long
@pytest.mark.parametrize("size", ["3m", "6m", "16m", "40m"])
def test_ranks_with_little_shared_memory(tmp_path, size):
    done = launched(tmp_path, f"mount -t tmpfs -o size={size} tmpfs /dev/shm")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] sum 2.0", "[1] sum 2.0"]


def test_workers_need_no_shared_memory(tmp_path):
    command = [*LIMITED, tmp_path, "loader_threads", "loader_processes"]
    assert is_well(unshared("mount -t tmpfs -o ro tmpfs /dev/shm", command))


# --- disks --------------------------------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    done = unshared(f"mount -t tmpfs -o size=2m tmpfs {disk}", [sys.executable, FULL_DISK, disk])
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "changed [] new []"
    said = dict(line.split(maxsplit=1) for line in lines)
    for name in ("save_parameters", "save", "save_states", "export", "symbol", "checkpoint"):
        assert "No space left on device; free some space there, or give a file on another disk" in said[name]
        assert "what was there before is as it was" in said[name]


@pytest.mark.parametrize(
    ("variable", "options"), [("HYBRIDC_CACHE_DIR", "size=8k"), ("HOME", "size=8k"), ("HOME", "ro")]
)
def test_no_room_for_a_cache(tmp_path, variable, options):
    """Programs run; where they are compiled, one warning says why each process compiles them."""
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = f"; head -c 100000 /dev/zero > {disk}/filler 2> /dev/null; true" if "size" in options else ""
    env = {"HYBRIDC_CACHE_DIR": "", "TMPDIR": str(disk), variable: str(disk)}
    done = unshared(
        f"mount -t tmpfs -o {options} tmpfs {disk}{fill}",
        [*LIMITED, tmp_path, "eager", "hybridized", "save"],
        env,
        disk,
    )
    assert is_well(done)
    warned = done.stderr.count("UserWarning: "), done.stderr.count("Programs are compiled anew in every process")
    assert warned == ((1, 1) if OPTIONS.target == "llvm" else (0, 0))


@pytest.mark.long
def test_no_home(tmp_path):
    done = unshared("true", [*LIMITED, tmp_path], {"HYBRIDC_CACHE_DIR": "", "HOME": "", "XDG_CACHE_HOME": ""}, tmp_path)
    assert is_well(done)


@pytest.mark.long
@pytest.mark.mpi
def test_the_launcher_needs_no_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    env = {"TMPDIR": str(disk), "HOME": str(disk), "HYBRIDC_CACHE_DIR": str(disk)}
    done = launched(tmp_path, f"mount -t tmpfs -o ro tmpfs {disk}", env)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] sum 2.0", "[1] sum 2.0"]


# --- streams ------------------------------------------------------------------------------------------------------

SAYS = """
import sys
import hybridc as mx
from hybridc.ground.compiler_output import show
from hybridc.io.progress import progress
assert sys.stdout is None and sys.stderr is None
net = mx.gluon.nn.Dense(3, in_units=4)
net.initialize()
net.summary(mx.nd.ones((2, 4)))
show("title", "text")
assert list(progress([1, 2], "title")) == [1, 2]
open(sys.argv[1], "w").write("done")
"""


def closed(command, streams):
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    return done.returncode


def test_without_streams_nothing_is_printed(tmp_path):
    assert closed([sys.executable, "-c", SAYS, tmp_path / "done"], ">&- 2>&-") == 0
    assert (tmp_path / "done").read_text() == "done"


@pytest.mark.mpi
@pytest.mark.parametrize("fails", [False, True])
def test_ranks_without_streams(tmp_path, fails):
    """What they print goes nowhere, and into no connection of the launcher's, which would have the numbers 1 and 2."""
    program = tmp_path / "ranks.py"
    end = "raise SystemExit('no')" if fails else f"open({str(tmp_path)!r} + '/done', 'a').write('.')"
    program.write_text(f"{RANKS}\nimport os\nos.write(1, b'lines\\n' * 1000)\nos.write(2, b'lines\\n' * 1000)\n{end}")
    command = [sys.executable, "-m", "hybridc", "launch", "-n", "2", program]
    assert closed(command, "<&- >&- 2>&-") == int(fails)
    if not fails:
        assert (tmp_path / "done").read_text() == ".."
