"""The process that compiles in the background: it reads traces from stdin, and answers each on stdout.

It compiles into the disk cache and keeps nothing else. When stdin ends, because the program that asked has ended in
whatever way, it ends at once.
"""

from __future__ import annotations

import os
import sys
from queue import SimpleQueue
from typing import IO

from hybridc.compile.background.portable_trace import PortableTrace
from hybridc.compile.stages import Traced
from hybridc.compile.warm_start import compiled_identity
from hybridc.ground import limits
from hybridc.ground.serialize import NotWritable, from_bytes

# Bytes of the length before a message.
_LENGTH = 8
# Added to the priority: what the program does itself goes first.
_NICENESS = 10


def serve() -> None:
    """Answer every request: with nothing if the graph is in the disk cache, else with the reason."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whatever prints
    requests: SimpleQueue[bytes] = SimpleQueue()
    if limits.thread(_read_requests, "hybridc requests", requests, daemon=True) is None:
        sys.exit(1)
    while True:
        send(answers, _answer(requests.get()).encode())


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message to a pipe."""
    rest = memoryview(len(message).to_bytes(_LENGTH, "little") + message)
    while rest:
        rest = rest[stream.write(rest) :]


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message from a pipe; None at its end."""
    length = _bytes(stream, _LENGTH)
    return None if length is None else _bytes(stream, int.from_bytes(length, "little"))


def _bytes(stream: IO[bytes], count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = stream.read(count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _read_requests(requests: SimpleQueue[bytes]) -> None:
    """Enter requests into a queue; at their end, end the process, whatever it compiles."""
    while (request := receive(sys.stdin.buffer)) is not None:
        requests.put(request)
    os._exit(0)


def _answer(request: bytes) -> str:
    try:
        portable = from_bytes(PortableTrace, request)
        traced = portable.traced()
        if compiled_identity(traced) != portable.identity:
            return "another process would compile it differently"
        return _compiled(traced)
    except NotWritable as missing:
        return f"another process cannot compile {missing}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _compiled(traced: Traced) -> str:
    """Compile a graph, unless it is in the disk cache already; the reason if it is not there afterwards."""
    traced.graph()
    return "" if traced.stored() is not None else "the cache folder does not keep it"
