"""Nothing listens for other machines where all ranks are here, and no stranger's connection ends a program."""

from __future__ import annotations

import glob
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from hybridc.communication import links, pmi_server
from hybridc.communication.links import LOOPBACK
from tests.distributed import ranks

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which process listens"),
]

LISTENERS = """
import glob, os
from hybridc.communication import communicator
from tests.distributed.test_strangers import listeners
comm = communicator()
comm.barrier()
if comm.rank == 0:
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            words = open(folder + "/environ").read()
        except OSError:
            continue
        if os.environ["MARK"] in words:
            print(*listeners(folder.split("/")[2]), flush=True)
comm.barrier()
"""


def listeners(process):
    """The addresses, in hexadecimal, and ports at which a process listens."""
    sockets = set()
    for path in glob.glob(f"/proc/{process}/fd/*"):
        try:
            sockets.add(os.readlink(path)[8:-1])
        except OSError:
            continue
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return [row[1] for row in rows if row[3] == "0A" and row[9] in sockets]


def test_ranks_of_one_machine_listen_for_that_alone():
    mark = f"mark-{os.getpid()}-{time.time()}"
    found = ranks.run(LISTENERS, env={"MARK": mark}, check=True)
    addresses = [each.partition(":")[0] for line in found.lines[0] for each in line.split()]
    assert set(addresses) <= {"0100007F", "0000000000000000FFFF00000100007F"}


LATE = """
import sys, time
if any(word.endswith("rank_process.py") for word in sys.orig_argv):
    time.sleep(1)  # the launcher listens until the rank has come
"""


def test_strangers_at_the_start_of_a_program_change_nothing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(LATE)
    program = "import time\ntime.sleep(1)\nprint('finished')\n"
    process = ranks.start(program, 1, env={"PYTHONPATH": str(tmp_path)}, options=["--timeout", "4"])
    end = time.monotonic() + 20
    while not (found := listeners(process.pid)) and process.poll() is None and time.monotonic() < end:
        pass  # the door closes as soon as the rank is in
    assert found, "the launcher was not seen to listen"
    assert found[0].startswith("0100007F:")
    strangers = []
    for number in range(80):  # more than it keeps
        try:
            strangers.append(socket.create_connection((LOOPBACK, int(found[0].partition(":")[2], 16)), 1))
            strangers[-1].sendall([b"", b"x", b"\n", b"x" * 500][number % 4])
        except OSError:
            break
    done = ranks.finish(process)
    assert strangers
    assert (done.returncode, done.lines) == (0, {0: ["finished"]}), done.stderr


# --- ranks that variables start -------------------------------------------------------------------------------------

OWN = links.addresses()[-2]  # the last but the loopback address


@pytest.mark.skipif(OWN.startswith("127."), reason="this machine has no address that others reach")
@pytest.mark.parametrize(
    "variables",
    [{}, {"HYBRIDC_COMM_TOKEN": "a secret"}, {"LOCAL_WORLD_SIZE": "2"}],
    ids=["no", "secret", "one-machine"],
)
def test_an_address_that_others_reach_needs_a_secret(variables):
    code = "from hybridc.communication import communicator; communicator().barrier(); print('done')"
    found = ranks.by_variables(["-c", code], MASTER_ADDR=OWN, **variables)
    if variables:
        assert found == [("done\n", "", 0)] * 2
        return
    for stdout, stderr, status in found:
        assert (stdout, status) == ("", 1)
        assert f"MXNetError: MASTER_ADDR={OWN} is an address that other machines reach" in stderr
        assert "give all ranks one secret in HYBRIDC_COMM_TOKEN" in stderr


@pytest.mark.parametrize(
    ("host", "is_one"), [("localhost", True), ("127.0.0.2", True), ("::1", True), ("8.8.8.8", False), ("", False)]
)
def test_which_addresses_only_this_machine_reaches(host, is_one):
    env = {"MASTER_ADDR": host, "WORLD_SIZE": "2"}
    assert pmi_server.host_of(env) == ("127.0.0.1" if is_one else host)
    assert pmi_server.is_guessable(env) is not is_one
    assert not pmi_server.is_guessable({**env, "HYBRIDC_COMM_TOKEN": "a secret"})
