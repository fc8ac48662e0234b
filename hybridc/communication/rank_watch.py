"""How a rank that fails ends the others: each has a thread that knows of all of them.

MPI itself cannot: a collective waits forever for a rank that died. So beside it, rank 0 has a TCP connection to each
other rank. Both sides send a line of JSON every second, with the collective that the rank is in. A rank that dies
closes its connection at once; one that raises says so; one that stands still, or does not come to a collective in which
the others wait, is noticed after ``HYBRIDC_COMM_TIMEOUT`` seconds. Then every rank prints which one it was, on which
machine, and what it raised, and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

_BEAT = 1.0  # seconds between messages
_TOKEN = 16  # bytes by which rank 0 knows that a connection is of this program
STATUS = 70  # of a rank that ends because another one failed


@dataclass
class _Known:
    """What is known of a rank."""

    connection: socket.socket | None = None
    heard: float = 0.0
    number: int = 0  # of the collectives that it called
    inside: str = ""  # the collective that it is in
    since: float = 0.0
    ended: bool = False
    unread: bytearray = field(default_factory=bytearray)


class RankWatch:
    """The thread of a rank that watches the others.

    ``hosts`` and ``processes`` are the machines and process ids of all ranks; ``share(value)`` gives all of them the
    value of rank 0.
    """

    def __init__(
        self, rank: int, hosts: Sequence[str], processes: Sequence[int], share: Callable[[Any], Any], timeout: float
    ) -> None:
        self.rank, self.hosts, self.processes, self.timeout = rank, hosts, processes, timeout
        self._number, self._inside, self._since = 0, "", 0.0
        self._ended = False
        self._said: str | None = None  # what this rank raised
        self._failed = threading.Event()
        self._heard = time.monotonic()
        self._lock = threading.Lock()  # of writing to the connection
        listener = None
        if rank == 0:
            listener = socket.create_server(("", 0), backlog=len(hosts))
            own = (_addresses(), listener.getsockname()[1], secrets.token_hex(_TOKEN))
            self._ranks = {0: _Known(heard=self._heard)}
        else:
            own = None
        addresses, port, token = share(own)
        self._connection = None if rank == 0 else _connected(addresses, port, f"{token} {rank}\n", timeout)
        target: Any = self._as_client
        if listener is not None:
            self._accept(listener, token)
            target = self._as_server
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._let_go)
        self._thread = threading.Thread(target=self._guarded, args=(target,), name="hybridc watch", daemon=True)
        self._thread.start()

    # --- what this rank does -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def collective(self, name: str) -> Generator[None]:
        """Within the ``with`` block this rank is in a collective."""
        self._number += 1
        self._since = time.monotonic()
        self._inside = name
        try:
            yield
        finally:
            self._inside = ""

    def _let_go(self) -> None:
        """In a forked process: close the connections, so that those of a rank that dies are closed indeed."""
        known = [each.connection for each in self._ranks.values()] if self.rank == 0 else []
        for connection in (self._connection, *known):
            if connection is not None:
                connection.close()

    def fail(self, error: str) -> None:
        """Tell all ranks that this one ends with an error; returns when they know, or after seconds."""
        self._said = error
        if self._connection is not None:
            self._send(self._connection, {"failed": error})
        self._failed.wait(3 * _BEAT)

    def end(self) -> None:
        """Tell the others that this rank is done, and that it is no failure."""
        self._ended = True
        if self._connection is not None:
            self._send(self._connection, {"ended": True})

    def _state(self) -> dict[str, Any]:
        waited = time.monotonic() - self._since
        return {"number": self._number, "inside": self._inside, "waited": waited, "ended": self._ended}

    # --- the connection of a rank ---------------------------------------------------------------------------

    def _as_client(self) -> None:
        connection = self._connection
        assert connection is not None
        connection.settimeout(_BEAT)
        unread = bytearray()
        beat = 0.0
        while True:
            if time.monotonic() - beat >= _BEAT:
                beat = time.monotonic()
                self._send(connection, self._state())
            try:
                got = connection.recv(1 << 16)
            except TimeoutError:
                got = None
            except OSError:
                got = b""
            if got == b"":
                self._stop(self._text(0, "died: its connection closed"), 0)
            elif got:
                self._heard = time.monotonic()
                for message in _messages(unread, got):
                    if "stop" in message:
                        self._stop(message["stop"], message["rank"])
                    if message.get("over"):
                        return
            elif time.monotonic() - self._heard > self.timeout:
                self._stop(self._text(0, f"has not answered for {self.timeout:g} s"), 0)

    # --- rank 0 --------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, token: str) -> None:
        """Take the connections of the other ranks."""
        listener.settimeout(self.timeout)
        while len(self._ranks) < len(self.hosts):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                missing = next(r for r in range(len(self.hosts)) if r not in self._ranks)
                raise ConnectionError(self._text(missing, f"has not connected for {self.timeout:g} s")) from None
            connection.settimeout(_BEAT)
            with contextlib.suppress(OSError, ValueError):
                given, _, rank = connection.makefile("rb").readline().decode().partition(" ")
                if secrets.compare_digest(given, token):
                    connection.setblocking(False)
                    self._ranks[int(rank)] = _Known(connection, time.monotonic())
                    continue
            connection.close()
        listener.close()

    def _as_server(self) -> None:
        with selectors.DefaultSelector() as selector:
            for rank, known in self._ranks.items():
                if known.connection is not None:
                    selector.register(known.connection, selectors.EVENT_READ, rank)
            beat = 0.0
            while True:
                for key, _ in selector.select(_BEAT / 4):
                    if not self._read(key.data):
                        selector.unregister(key.fileobj)
                if time.monotonic() - beat >= _BEAT:
                    beat = time.monotonic()
                    own = self._ranks[0]
                    self._update(own, self._state())
                    self._send_all({"alive": True})
                if self._said is not None:
                    self._stop(self._text(0, self._said), 0)
                self._check()
                if all(known.ended for known in self._ranks.values()):
                    self._send_all({"over": True})
                    return

    def _read(self, rank: int) -> bool:
        """Read what a rank sent; whether its connection is open."""
        known = self._ranks[rank]
        assert known.connection is not None
        try:
            got = known.connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            got = b""
        for message in _messages(known.unread, got):
            if "failed" in message:
                self._stop(self._text(rank, message["failed"]), rank)
            self._update(known, message)
        if not got and not known.ended:
            self._stop(self._text(rank, "died: its connection closed"), rank)
        return bool(got)

    @staticmethod
    def _update(known: _Known, message: dict[str, Any]) -> None:
        known.heard = time.monotonic()
        known.ended = known.ended or bool(message.get("ended"))
        if "number" in message:
            known.number, known.inside = message["number"], message["inside"]
            known.since = known.heard - message["waited"]

    def _check(self) -> None:
        """End all ranks if one of them is late."""
        now = time.monotonic()
        for rank, known in self._ranks.items():
            if not known.ended and now - known.heard > self.timeout:
                self._stop(self._text(rank, f"has not answered for {self.timeout:g} s"), rank)
        waiting = [known for known in self._ranks.values() if known.inside and not known.ended]
        if not waiting:
            return
        for rank, known in self._ranks.items():
            if known.ended and now - known.heard > 2 * _BEAT and any(w.number > known.number for w in waiting):
                found = next(w for w in waiting if w.number > known.number)
                self._stop(self._text(rank, f"ended while others wait in {found.inside}"), rank)
        longest = min(waiting, key=lambda w: w.since)
        if now - longest.since < self.timeout:
            return
        for rank, known in self._ranks.items():
            if known.number < longest.number or not known.inside:
                text = f"has not come to {longest.inside}, in which others wait for {self.timeout:g} s"
                self._stop(self._text(rank, text), rank)
        text = f"all ranks are in {longest.inside} for {self.timeout:g} s: is the network between them down?"
        self._stop(text, 0)

    # --- messages and the end ------------------------------------------------------------------------------

    def _text(self, rank: int, what: str) -> str:
        return f"rank {rank} on {self.hosts[rank]} {what}"

    def _send(self, connection: socket.socket, message: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):
            connection.sendall(json.dumps(message).encode() + b"\n")

    def _send_all(self, message: dict[str, Any]) -> None:
        for known in self._ranks.values():
            if known.connection is not None:
                self._send(known.connection, message)

    def _guarded(self, watch: Callable[[], None]) -> None:
        try:
            watch()
        except Exception as error:
            self._stop(self._text(self.rank, f"watches no longer: {type(error).__name__}: {error}"), self.rank)

    def _stop(self, text: str, rank: int) -> None:
        """End all ranks because of one; the one that raised ends by itself, one that stands still is killed."""
        if self.rank == 0:
            self._send_all({"stop": text, "rank": rank})
        if self._said is not None:
            self._failed.set()
            threading.Event().wait()
        sys.stdout.flush()
        sys.stderr.write(f"hybridc: {text}; rank {self.rank} on {self.hosts[self.rank]} ends\n")
        sys.stderr.flush()
        if rank != self.rank and self.hosts[rank] == self.hosts[self.rank]:
            time.sleep(_BEAT)  # it may end by itself, and say why
            with contextlib.suppress(OSError):
                os.kill(self.processes[rank], signal.SIGKILL)
        os._exit(STATUS)


def _messages(unread: bytearray, got: bytes | None) -> list[dict[str, Any]]:
    """The whole lines that came."""
    unread += got or b""
    *lines, rest = unread.split(b"\n")
    unread[:] = rest
    return [json.loads(line) for line in lines]


def _addresses() -> list[str]:
    """The addresses of this machine: those of its interfaces, or what its name stands for."""
    found: list[str] = []
    if sys.platform == "linux":
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, name in socket.if_nameindex():
                with contextlib.suppress(OSError):
                    request = name.encode()[:15].ljust(256, b"\0")
                    answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
                    found.append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    return [*dict.fromkeys(found), "127.0.0.1"]


def _connected(addresses: Sequence[str], port: int, greeting: str, timeout: float) -> socket.socket:
    """A connection to rank 0, by the first of its addresses that works."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        for address in addresses:
            with contextlib.suppress(OSError):
                connection = socket.create_connection((address, port), 2 * _BEAT)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(greeting.encode())
                return connection
    raise ConnectionError(f"cannot connect to rank 0 at {', '.join(addresses)}, port {port}, for {timeout:g} s")
