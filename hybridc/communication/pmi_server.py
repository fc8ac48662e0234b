"""A PMI server for MPICH without mpiexec: a subprocess of rank 0 through which the ranks exchange their addresses.

MPICH asks what started it by a protocol of lines, PMI version 1: a store of keys and values, and barriers. A scheduler
that only sets ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT`` has nothing that answers; this does. It is
a process of its own, as MPI holds the lock of the interpreter while it starts, and it is run by its path.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping

# The name of the only store: MPICH derives those of its shared memory from it.
_STORE = f"hybridc_{secrets.token_hex(8)}"
_LONGEST = {"kvsname_max": 256, "keylen_max": 64, "vallen_max": 4096}  # as MPICH's own launcher says
_PAUSE = 0.1  # seconds between two tries to connect
_TRY = 2.0  # seconds for one of them
_PATIENCE = 10.0  # seconds for the ranks to end after rank 0


@contextlib.contextmanager
def serving(env: Mapping[str, str], rank: int, size: int, timeout: float) -> Generator[dict[str, str]]:
    """Within the ``with`` block there is a server; the variables that lead MPICH to it.

    It stays until all ranks have ended MPI. ConnectionError if there is none after ``timeout`` seconds.
    """
    host, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
    if env.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # torchrun itself listens at the port
        port += 1
    if rank == 0:
        end, _ = os.pipe()  # the write end stays open until this process exits, and then the server exits, too
        subprocess.Popen([sys.executable, __file__, str(port), str(size)], stdin=end)
        os.close(end)
    late = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((host, port), _TRY).close()
            break
        except OSError as error:
            if time.monotonic() > late:
                raise ConnectionError(f"rank 0 is not at {host}, port {port}, for {timeout:g} s: {error}") from None
            time.sleep(_PAUSE)
    yield {"PMI_PORT": f"{host}:{port}", "PMI_ID": str(rank), "PMI_RANK": str(rank), "PMI_SIZE": str(size)}


class _Server:
    """The store, and the connections of the ranks."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[str, str] = {}
        self._waiting: list[socket.socket] = []
        self.ended = 0

    def answer(self, connection: socket.socket, line: str) -> str:
        """The answer to a line of a rank; the others' are sent."""
        said = {name: value for name, _, value in (word.partition("=") for word in line.split())}
        match said.pop("cmd", ""):
            case "initack":
                return f"cmd=initack rc=0\ncmd=set size={self._size}\ncmd=set rank={said['pmiid']}\ncmd=set debug=0\n"
            case "init":
                return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
            case "get_maxes":
                return f"cmd=maxes {' '.join(f'{name}={value}' for name, value in _LONGEST.items())} rc=0\n"
            case "get_appnum":
                return "cmd=appnum appnum=0 rc=0\n"
            case "get_my_kvsname":
                return f"cmd=my_kvsname kvsname={_STORE} rc=0\n"
            case "get_universe_size":
                return f"cmd=universe_size size={self._size} rc=0\n"
            case "put":
                self._values[said["key"]] = said["value"]
                return "cmd=put_result rc=0 msg=success\n"
            case "get":
                value = self._values.get(said["key"])
                return (
                    "cmd=get_result rc=-1 msg=no_such_key\n"
                    if value is None
                    else f"cmd=get_result rc=0 value={value}\n"
                )
            case "barrier_in":
                self._waiting.append(connection)
                if len(self._waiting) == self._size:
                    waiting, self._waiting = self._waiting, []
                    for each in waiting:
                        each.sendall(b"cmd=barrier_out rc=0\n")
                return ""
            case "finalize":
                self.ended += 1
                return "cmd=finalize_ack rc=0\n"
            case other:
                return f"cmd={other}_result rc=-1 msg=unknown\n"


def main(port: int, size: int) -> None:
    """Answer the ranks, until all have ended, or rank 0 has been gone for seconds."""
    server, unread = _Server(size), dict[socket.socket, bytes]()
    with selectors.DefaultSelector() as selector, socket.create_server(("", port), backlog=size) as listener:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        end: float | None = None
        while server.ended < size and (end is None or (unread and time.monotonic() < end)):
            for key, _ in selector.select(None if end is None else _PAUSE):
                if key.fileobj is sys.stdin:  # rank 0 is gone; the others, too, soon
                    selector.unregister(sys.stdin)
                    end = time.monotonic() + _PATIENCE
                    continue
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    selector.register(connection, selectors.EVENT_READ)
                    unread[connection] = b""
                    continue
                connection = next(each for each in unread if each is key.fileobj)
                got = b""
                with contextlib.suppress(OSError):
                    got = connection.recv(1 << 16)
                *lines, unread[connection] = (unread[connection] + got).split(b"\n")
                with contextlib.suppress(OSError):
                    for line in lines:
                        connection.sendall(server.answer(connection, line.decode()).encode())
                if not got:
                    selector.unregister(connection)
                    del unread[connection]
                    connection.close()


if __name__ == "__main__":
    os.setsid()  # a signal for rank 0 is not for this process
    main(int(sys.argv[1]), int(sys.argv[2]))
