"""TCP connections among the processes of a program, with a message of JSON on each line.

Both sides prove first that they know the token of the program, which is not sent: who connects sends a number of its
own and a code of that, and gets another code. Until then a listener reads a few bytes from a connection, for seconds,
and waits for none.

This file imports nothing of hybridc: what a launcher starts reads it before hybridc is there.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import selectors
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

BEAT = 1.0  # seconds between the messages by which each side knows that the other one is alive
LOOPBACK = "127.0.0.1"  # where only processes of this machine connect
_GREETING = 200  # bytes at most of what a process says first
_TRY = 2.0  # seconds for which one address is tried, and within which a connection must have said who it is
_STRANGERS = 64  # connections that have not, at most; the oldest ones are closed
BACKLOG = 512  # connections that wait to be accepted; more would wait for seconds
_ACCEPTED = 16  # connections accepted at once, before those that there are get their turn
_LONGEST = 1 << 20  # bytes of a message


def addresses() -> list[str]:
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


def _code(token: str, *words: str) -> str:
    """What only a process that knows the token can say of words."""
    return hmac.new(token.encode(), " ".join(words).encode(), "sha256").hexdigest()


def connected(places: Sequence[str], port: int, token: str, rank: int, timeout: float) -> socket.socket:
    """A connection to a listener with a :class:`Door` of this token, at the first of its addresses that works."""
    end = time.monotonic() + timeout
    while True:
        for place in places:
            with contextlib.suppress(OSError):
                connection = socket.create_connection((place, port), _TRY)
                if _is_welcome(connection, token, rank):
                    return connection
                connection.close()
        if time.monotonic() >= end:
            raise ConnectionError(f"cannot connect to {', '.join(places)}, port {port}, for {timeout:g} s")
        time.sleep(BEAT / 10)


def _is_welcome(connection: socket.socket, token: str, rank: int) -> bool:
    """Whether the other side of a new connection is of this program, and takes this rank."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number = secrets.token_hex(16)
    connection.sendall(f"{rank} {number} {_code(token, str(rank), number)}\n".encode())
    expected, got = f"{_code(token, 'welcome', number)}\n".encode(), b""
    end = time.monotonic() + _TRY
    while len(got) < len(expected) and (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        if not (more := connection.recv(len(expected) - len(got))):
            break
        got += more
    return hmac.compare_digest(got, expected)


class Door:
    """Lets the ranks of a program in by a listener, and nobody else.

    ``admit(rank, connection)`` gets each rank from 0 to ``size - 1`` once. Connections are registered with
    ``selector``, whose ``selectors.SelectorKey.data`` are functions to call; :meth:`look` is called between them.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: str,
        size: int,
        selector: selectors.BaseSelector,
        admit: Callable[[int, socket.socket], None],
    ) -> None:
        self._listener, self._token, self._selector, self._admit = listener, token, selector, admit
        self.missing = set(range(size))
        # The connections that have not said who they are: what they said so far, and until when they may.
        self._strangers: dict[socket.socket, tuple[bytes, float]] = {}
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def look(self) -> None:
        """Close connections that are late."""
        now = time.monotonic()
        for connection in [each for each, (_, end) in self._strangers.items() if end < now]:
            self._close(connection)

    def close(self) -> None:
        """Close the listener and all that has not become a rank's."""
        for connection in [*self._strangers]:
            self._close(connection)
        if self._listener.fileno() >= 0:
            self._selector.unregister(self._listener)
            self._listener.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED):
            if len(self._strangers) >= _STRANGERS:
                self._close(next(iter(self._strangers)))
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # as of too many open files
                if self._strangers:
                    self._close(next(iter(self._strangers)))
                time.sleep(BEAT / 100)
                return
            connection.setblocking(False)
            self._strangers[connection] = b"", time.monotonic() + _TRY
            self._selector.register(connection, selectors.EVENT_READ, lambda each=connection: self._read(each))

    def _read(self, connection: socket.socket) -> None:
        if connection not in self._strangers:  # it was closed after this event
            return
        said, end = self._strangers[connection]
        try:
            got = connection.recv(_GREETING - len(said))
        except BlockingIOError:
            return
        except OSError:
            got = b""
        said += got
        if got and not said.endswith(b"\n") and len(said) < _GREETING:  # nothing follows the line before the answer
            self._strangers[connection] = said, end
            return
        rank, welcome = self._known(said)
        if rank is None or not _sent(connection, welcome):
            self._close(connection)
            return
        self.missing.discard(rank)
        del self._strangers[connection]
        self._selector.unregister(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._admit(rank, connection)

    def _known(self, said: bytes) -> tuple[int | None, bytes]:
        """The rank that a greeting is of, unless that is here already, and the answer."""
        words = said.decode("ascii", "replace").split()
        if len(words) != 3 or not said.endswith(b"\n"):
            return None, b""
        rank, number, code = words
        if not hmac.compare_digest(code.encode(), _code(self._token, rank, number).encode()):
            return None, b""
        known = int(rank) if rank.isdecimal() else -1
        return known if known in self.missing else None, f"{_code(self._token, 'welcome', number)}\n".encode()

    def _close(self, connection: socket.socket) -> None:
        del self._strangers[connection]
        self._selector.unregister(connection)
        connection.close()


def _sent(connection: socket.socket, text: bytes) -> bool:
    """Whether a connection that does not block took all of a text."""
    try:
        return connection.send(text) == len(text)
    except OSError:
        return False


def packed(message: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    return json.dumps(message).encode() + b"\n"


def unpacked(unread: bytearray, got: bytes) -> list[dict[str, Any]]:
    """The messages that are complete; the rest stays in ``unread``. ValueError if what came are no messages."""
    unread += got
    *lines, rest = unread.split(b"\n")
    unread[:] = rest
    messages: list[Any] = [json.loads(line) for line in lines]
    if len(rest) > _LONGEST or not all(isinstance(each, dict) for each in messages):
        raise ValueError("this is no message")
    return messages


def close_gently(connections: Sequence[socket.socket], seconds: float = BEAT) -> None:
    """Close connections after the other sides read what was sent: closed at once, it may be lost.

    Each other side has to close its own when it has read to the end.
    """
    end = time.monotonic() + seconds
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    for connection in connections:
        with contextlib.suppress(OSError):
            while (left := end - time.monotonic()) > 0:
                connection.settimeout(left)
                if not connection.recv(1 << 16):
                    break
        connection.close()
