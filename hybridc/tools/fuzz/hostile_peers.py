"""Hostile peers: what strangers send to the servers of a program changes nothing for its ranks.

Strangers connect to the listener of ranks and to the PMI server, send random bytes, changed greetings, lines without an
end, or nothing, and close or stay. A rank whose lines of the PMI protocol are damaged loses its own connection. After
each round two ranks must get in, and get what they ask for, within seconds.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from random import Random

from hybridc.communication import pmi_server
from hybridc.communication.links import BACKLOG, LOOPBACK, Door, connected

TOKEN = "the secret of this program"
_PATIENCE = 20.0  # seconds for a server to start, or to answer
_OPEN = 100  # connections of strangers that stay open
_ENDLESS = 1 << 20  # bytes of a line without an end
_GOOD = b"0 0123456789abcdef0123456789abcdef " + b"0" * 64 + b"\n"
_LINES = (
    b"cmd=init pmi_version=1 pmi_subversion=1\n",
    b"cmd=get_maxes\n",
    b"cmd=put kvsname=x key=k value=v\n",
    b"cmd=get kvsname=x key=k\n",
    b"cmd=barrier_in\n",
)


def hostile(random: Random, good: bytes) -> bytes:
    """Bytes of a stranger: random ones, or a changed text of the protocol."""
    match random.randrange(6):
        case 0:
            return random.randbytes(random.choice((1, 10, 300, 5000)))
        case 1:
            return b""
        case 2:
            return b"x" * random.choice((199, 200, _ENDLESS))
        case 3:
            return good.replace(b"0", str(random.choice((-1, 7, 10**30))).encode(), 1)
        case 4:
            return random.choice((b"\n", b" \n" * 50, b"cmd=put key=x\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n"))
        case _:
            at = random.randrange(len(good))
            return good[:at] + bytes([random.randrange(256)]) + good[at + 1 :]


class _Strangers:
    """Connections that stay open, some of them, until the end of the ``with`` block."""

    def __init__(self, port: int, random: Random, count: int) -> None:
        self._open: list[socket.socket] = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                connection = socket.create_connection((LOOPBACK, port), 2)
                connection.settimeout(1)
                self._open.append(connection)
                connection.sendall(hostile(random, _GOOD))
                if random.random() < 0.4:
                    connection.close()
            if len(self._open) > _OPEN:
                self._open.pop(0).close()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for connection in self._open:
            connection.close()


def attack_door(random: Random, strangers: int) -> str | None:
    """What is wrong with a door at which strangers and two ranks stand, if anything is."""
    admitted: list[int] = []
    over = threading.Event()
    with socket.create_server((LOOPBACK, 0), backlog=BACKLOG) as listener, selectors.DefaultSelector() as selector:
        port = listener.getsockname()[1]
        door = Door(listener, TOKEN, 2, selector, lambda rank, _connection: admitted.append(rank))

        def serve() -> None:
            while not over.is_set():
                for key, _ in selector.select(0.05):
                    key.data()
                door.look()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with _Strangers(port, random, strangers):
                for rank in (1, 0):
                    connected([LOOPBACK], port, TOKEN, rank, _PATIENCE).close()
            for token, rank in ((TOKEN, 1), (TOKEN, 2), ("another", 0)):
                with contextlib.suppress(ConnectionError):
                    connected([LOOPBACK], port, token, rank, 0)
                    return f"rank {rank} with the token {token!r} was let in"
        except OSError as error:
            return f"a rank was not let in: {error}"
        finally:
            over.set()
            thread.join()
            door.close()
    return None if sorted(admitted) == [0, 1] else f"let in were the ranks {admitted}"


def attack_pmi(random: Random, strangers: int) -> str | None:
    """What is wrong with a PMI server to which strangers and two ranks connect, if anything is."""
    with socket.create_server((LOOPBACK, 0)) as probe:
        port = probe.getsockname()[1]
    read, write = os.pipe()
    server = subprocess.Popen(
        [sys.executable, pmi_server.__file__, str(port), "2"],
        stdin=read,
        stderr=subprocess.PIPE,
        env={**os.environ, pmi_server.TOKEN: TOKEN},
    )
    os.close(read)
    try:
        first = connected([LOOPBACK], port, TOKEN, 0, _PATIENCE)
        with _Strangers(port, random, strangers):
            problem = _served(first, lambda: connected([LOOPBACK], port, TOKEN, 1, _PATIENCE), random)
        if problem is None and server.poll() is not None:
            problem = f"the server ended with {server.returncode}"
    except OSError as error:
        problem = f"a rank got no answer: {type(error).__name__}: {error}"
    finally:
        os.close(write)
        server.kill()
        errors = server.communicate()[1].decode()
    return problem or (f"the server wrote {errors}" if errors else None)


def _served(first: socket.socket, connect: Callable[[], socket.socket], random: Random) -> str | None:
    """Let a second rank send what is no protocol; the first one must be served as before."""
    with first, connect() as second:
        first.settimeout(_PATIENCE)
        with contextlib.suppress(OSError):  # it is closed after the first one
            for line in random.sample(_LINES[:3], 3):
                second.sendall(hostile(random, line))
            second.shutdown(socket.SHUT_WR)
        first.sendall(_LINES[0] + _LINES[2] + _LINES[3])
        got, end = b"", time.monotonic() + _PATIENCE
        while got.count(b"\n") < 3 and time.monotonic() < end:
            got += first.recv(1 << 12)
    return None if got.endswith(b"cmd=get_result rc=0 value=v\n") else f"the answers were {got!r}"


def fuzz_peers(seed: int, *, rounds: int | None = None, seconds: float | None = None) -> tuple[int, int]:
    """Attack so many times, or for so long; how many, and how many failures."""
    until = None if seconds is None else time.monotonic() + seconds
    number = failed = 0
    while (rounds is None or number < rounds) and (until is None or time.monotonic() < until):
        for attack in (attack_door, attack_pmi):
            problem = attack(Random(f"{seed}-{number}"), strangers=random_count(seed, number))
            if problem is not None:
                failed += 1
                print(f"peers {number} of seed {seed}, {attack.__name__}: {problem}", flush=True)
        number += 1
    return number, failed


def random_count(seed: int, number: int) -> int:
    """How many strangers come: few, or more than a server keeps."""
    return Random(f"{seed} {number}").choice((5, 20, 150))
