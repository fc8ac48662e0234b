"""TCP connections among the processes of a program, with a message of JSON on each line.

This file imports nothing of hybridc: what a launcher starts reads it before hybridc is there.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

BEAT = 1.0  # seconds between the messages by which each side knows that the other one is alive
_GREETING = 200  # bytes at most of what a process says first
_TRY = 2.0  # seconds for which one address is tried


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


def connected(places: Sequence[str], port: int, token: str, rank: int, timeout: float) -> socket.socket:
    """A connection to a listener at the first of its addresses that works, greeted as :func:`accepted` expects."""
    end = time.monotonic() + timeout
    while True:
        for place in places:
            with contextlib.suppress(OSError):
                connection = socket.create_connection((place, port), _TRY)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(f"{token} {rank}\n".encode())
                return connection
        if time.monotonic() >= end:
            raise ConnectionError(f"cannot connect to {', '.join(places)}, port {port}, for {timeout:g} s")
        time.sleep(BEAT / 10)


def accepted(listener: socket.socket, token: str) -> tuple[socket.socket, int] | None:
    """The next connection and the rank of who connects; none if it is a stranger's."""
    connection, _ = listener.accept()
    connection.settimeout(_TRY)
    greeting = b""
    with contextlib.suppress(OSError, ValueError):
        # Byte by byte: what follows the line is a message already.
        while len(greeting) < _GREETING and not greeting.endswith(b"\n"):
            if not (byte := connection.recv(1)):
                break
            greeting += byte
        given, _, rank = greeting.decode().partition(" ")
        if secrets.compare_digest(given.encode(), token.encode()):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection, int(rank)
    connection.close()
    return None


def packed(message: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    return json.dumps(message).encode() + b"\n"


def unpacked(unread: bytearray, got: bytes) -> list[dict[str, Any]]:
    """The messages that are complete; the rest stays in ``unread``."""
    unread += got
    *lines, rest = unread.split(b"\n")
    unread[:] = rest
    return [json.loads(line) for line in lines]


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
