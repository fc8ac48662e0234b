"""What MPICH asks of the program that started it, answered without MPICH's own: the ranks exchange their addresses.

MPICH asks by a protocol of lines, PMI version 1: a store of keys and values, and barriers. It speaks on a connection
that the process has when MPI starts, whose descriptor is in ``PMI_FD``; so nobody else can. The launcher gives each
rank one end of a pair of sockets. Where a scheduler only sets ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
``MASTER_PORT``, a subprocess of rank 0 listens at that port, and the ranks connect as
:mod:`~hybridc.communication.links` does. It is a process of its own, as MPI holds the lock of the interpreter while it
starts, and is run by its path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import ipaddress
import os
import secrets
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __name__ != "__main__":
    from hybridc.communication import links
else:
    import importlib.util

    sys.path[0:1] = []  # the folder of this file
    _spec = importlib.util.spec_from_file_location("links", Path(__file__).with_name("links.py"))
    links = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(links)

# The name of the only store: MPICH derives those of its shared memory from it.
_STORE = f"hybridc_{secrets.token_hex(8)}"
_LONGEST = {"kvsname_max": 256, "keylen_max": 64, "vallen_max": 4096}  # as MPICH's own launcher says
_LINE = 8192  # bytes of a line
_VALUES = 1 << 20  # keys in the store
_PAUSE = 0.1  # seconds between two looks at what is late
_PATIENCE = 10.0  # seconds for the ranks to end after rank 0
#: The variable that has a secret of all ranks; and what the token follows from without one, on one machine.
TOKEN = "HYBRIDC_COMM_TOKEN"
_PLACE = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TORCHELASTIC_RUN_ID")


@contextlib.contextmanager
def serving(env: Mapping[str, str], rank: int, size: int, timeout: float) -> Generator[dict[str, str]]:
    """Within the ``with`` block there is a server; the variables that lead MPICH to it.

    It stays until all ranks have ended MPI. ConnectionError if there is none after ``timeout`` seconds.
    """
    host, port = host_of(env), int(env["MASTER_PORT"])
    if env.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # torchrun itself listens at the port
        port += 1
    if rank == 0:
        end, _ = os.pipe()  # the write end stays open until this process exits, and then the server exits, too
        subprocess.Popen([sys.executable, __file__, str(port), str(size), host], stdin=end, env=dict(env))
        os.close(end)
    try:
        connection = links.connected([host], port, token_of(env), rank, timeout)
    except ConnectionError as error:
        raise ConnectionError(f"rank {rank} does not reach rank 0: it {error}; is {TOKEN} the same?") from None
    connection.setblocking(True)
    yield {"PMI_FD": str(connection.detach()), "PMI_RANK": str(rank), "PMI_SIZE": str(size)}


def host_of(env: Mapping[str, str]) -> str:
    """Where the server listens: at ``MASTER_ADDR``, or only for this machine if that has all ranks."""
    host = env.get("MASTER_ADDR", "")
    is_here = env.get("LOCAL_WORLD_SIZE") == env["WORLD_SIZE"] or _is_loopback(host)
    return links.LOOPBACK if is_here else host


def _is_loopback(host: str) -> bool:
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host or None, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in addresses)


def is_guessable(env: Mapping[str, str]) -> bool:
    """Whether a stranger could be let in: one who reaches the server, and knows how programs are started."""
    return not env.get(TOKEN) and host_of(env) != links.LOOPBACK


def token_of(env: Mapping[str, str]) -> str:
    """What all ranks of a program know: their secret, or else what tells apart programs, and keeps no attacker out.

    See :func:`is_guessable`.
    """
    return env.get(TOKEN, "") or hashlib.sha256(" ".join(env.get(name, "") for name in _PLACE).encode()).hexdigest()


class PmiServer:
    """The store, and the connections of the ranks; what is no line of the protocol ends the connection that sent it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[str, str] = {}
        self._unread: dict[socket.socket, bytes] = {}
        self._waiting: list[socket.socket] = []
        #: How many ranks have ended MPI.
        self.ended = 0

    @property
    def connections(self) -> list[socket.socket]:
        """Those that are open."""
        return [*self._unread]

    def add(self, connection: socket.socket) -> None:
        """Answer a rank."""
        connection.setblocking(False)
        self._unread[connection] = b""

    def read(self, connection: socket.socket) -> bool:
        """Answer what a rank sent; False if its connection is closed now."""
        try:
            got = connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            got = b""
        *lines, rest = (self._unread[connection] + got).split(b"\n")
        self._unread[connection] = rest
        try:
            for line in lines:
                self._send(connection, self._answer(connection, line.decode("ascii")))
            if got and len(rest) <= _LINE:
                return True
        except (OSError, KeyError, ValueError):
            pass
        self.remove(connection)
        return False

    def remove(self, connection: socket.socket) -> None:
        """Close a connection."""
        del self._unread[connection]
        self._waiting = [each for each in self._waiting if each is not connection]
        connection.close()

    @staticmethod
    def _send(connection: socket.socket, text: str) -> None:
        if text and connection.send(text.encode()) != len(text):
            raise BlockingIOError("the rank does not read")

    def _answer(self, connection: socket.socket, line: str) -> str:
        """The answer to a line of a rank; the others' are sent."""
        said = {name: value for name, _, value in (word.partition("=") for word in line.split())}
        match said.pop("cmd", ""):
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
                self._put(said["key"], said["value"])
                return "cmd=put_result rc=0 msg=success\n"
            case "get":
                value = self._values.get(said["key"])
                return (
                    "cmd=get_result rc=-1 msg=no_such_key\n"
                    if value is None
                    else f"cmd=get_result rc=0 value={value}\n"
                )
            case "barrier_in":
                self._wait(connection)
                return ""
            case "finalize":
                self.ended += 1
                return "cmd=finalize_ack rc=0\n"
            case other:
                return f"cmd={other}_result rc=-1 msg=unknown\n"

    def _put(self, key: str, value: str) -> None:
        if len(self._values) >= _VALUES or len(key) > _LONGEST["keylen_max"] or len(value) > _LONGEST["vallen_max"]:
            raise ValueError("this is more than MPICH puts")
        self._values[key] = value

    def _wait(self, connection: socket.socket) -> None:
        """A rank came to a barrier; the last one lets all go."""
        if connection in self._waiting:
            raise ValueError("a rank comes to a barrier once")
        self._waiting.append(connection)
        if len(self._waiting) < self._size:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            with contextlib.suppress(OSError):
                self._send(each, "cmd=barrier_out rc=0\n")


def main(port: int, size: int, host: str = links.LOOPBACK) -> None:
    """Answer the ranks, until all have ended, or rank 0 has been gone for seconds."""
    server, token = PmiServer(size), token_of(os.environ)
    end: list[float] = []  # when the server exits
    with selectors.DefaultSelector() as selector, _listener(host, port) as listener:

        def admit(_rank: int, connection: socket.socket) -> None:
            server.add(connection)
            selector.register(connection, selectors.EVENT_READ, lambda: read(connection))

        def read(connection: socket.socket) -> None:
            if connection in server.connections and not server.read(connection):
                selector.unregister(connection)

        def rank_0_ended() -> None:  # the others, too, soon
            selector.unregister(sys.stdin)
            end.append(time.monotonic() + _PATIENCE)

        selector.register(sys.stdin, selectors.EVENT_READ, rank_0_ended)
        door = links.Door(listener, token, size, selector, admit)
        while server.ended < size and (not end or (server.connections and time.monotonic() < end[0])):
            for key, _ in selector.select(_PAUSE):
                key.data()
            door.look()
            if not door.missing:
                door.close()


def _listener(host: str, port: int) -> socket.socket:
    """At the address by which the ranks know this machine, or at all, if that is another one's, which passes on."""
    try:
        return socket.create_server((host, port), backlog=links.BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        return socket.create_server(("", port), backlog=links.BACKLOG)


if __name__ == "__main__":
    os.setsid()  # a signal for rank 0 is not for this process
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
