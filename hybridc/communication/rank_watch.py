"""How a rank that fails ends the others: each has a thread that knows of all of them.

MPI itself cannot: a collective waits forever for a rank that died. So beside it, rank 0 has a TCP connection to each
other rank. Both sides send a message every second, with the collective that the rank is in. A rank that dies closes
its connection at once; one that raises says so; one that stands still, or does not come to a collective in which the
others wait, is noticed after ``HYBRIDC_COMM_TIMEOUT`` seconds. Then every rank prints which one it was, on which
machine, and what it raised, and ends.

A rank that is done waits until all are: until then another one may fail.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NoReturn

from hybridc.communication.links import (
    BACKLOG,
    BEAT,
    LOOPBACK,
    Door,
    addresses,
    close_gently,
    connected,
    packed,
    unpacked,
)
from hybridc.ground.limits import required_thread, thread
from hybridc.ground.records import dataclass

_TOKEN = 16  # bytes by which rank 0 knows that a connection is of this program
_PATIENCE = 3 * BEAT  # for a rank that fails, or that is to end
STATUS = 70  # of a rank that ends because another one failed
WORLD = "world"  # the group of all ranks


@dataclass(frozen=True)
class Seat:
    """Where a rank runs.

    ``space`` tells apart machines, and containers in which process ids or addresses mean others.
    """

    host: str
    space: str
    process: int


def seat(host: str) -> Seat:
    """That of this process."""
    space = host
    with contextlib.suppress(OSError):  # Linux has namespaces of process ids, and of addresses
        space += " " + os.readlink("/proc/self/ns/pid") + " " + os.readlink("/proc/self/ns/net")
    return Seat(host, space, os.getpid())


@dataclass
class _Known:
    """What is known of a rank."""

    connection: socket.socket | None = None
    heard: float = field(default_factory=time.monotonic)
    #: How many collectives of each of its groups it called.
    counts: dict[str, int] = field(default_factory=dict[str, int])
    #: The collective that it is in, since when, and of which group.
    inside: str = ""
    since: float = 0.0
    group: str = WORLD
    #: When it ended.
    ended: float | None = None
    unread: bytearray = field(default_factory=bytearray)

    @property
    def waits(self) -> bool:
        return bool(self.inside) and self.ended is None


class RankWatch:
    """The thread of a rank that watches the others.

    ``seats`` are those of all ranks; ``share(value)`` gives all of them the value of rank 0; a rank is late after
    ``timeout`` seconds.
    """

    def __init__(self, rank: int, seats: Sequence[Seat], share: Callable[[Any], Any], timeout: float) -> None:
        self.rank, self.seats, self.timeout = rank, seats, timeout
        self._counts = {WORLD: 0}
        self._inside: tuple[str, object, float] = (WORLD, "", 0.0)
        self._ended = False
        self._said: str | None = None  # why this rank ends
        self._failed = threading.Event()
        self._lock = threading.Lock()  # of writing to the connection
        self._ranks: dict[int, _Known] = {}
        self._connection: socket.socket | None = None
        if rank == 0:
            is_local = len({each.space for each in seats}) == 1
            with socket.create_server((LOOPBACK if is_local else "", 0), backlog=BACKLOG) as listener:
                token = secrets.token_hex(_TOKEN)
                share(([LOOPBACK] if is_local else addresses(), listener.getsockname()[1], token))
                self._ranks[0] = _Known(counts=self._counts)
                self._accept(listener, token)
        else:
            places, port, token = share(None)
            self._connection = connected(places, port, token, rank, timeout)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        self._thread = required_thread(self._guarded, "hybridc watch", "communication among ranks")

    # --- what this rank does -------------------------------------------------------------------------------

    def join_group(self, group: str) -> None:
        """This rank is one of those that call collectives of a group."""
        self._counts[group] = 0

    def enter(self, collective: object, group: str = WORLD) -> None:
        """This rank is in a collective of a group from now on; ``str(collective)`` says in which."""
        self._counts[group] += 1
        self._inside = (group, collective, time.monotonic())

    def leave(self, group: str = WORLD) -> None:
        """This rank is in no collective any more."""
        self._inside = (group, "", 0.0)

    def fail(self, error: str) -> None:
        """Tell all ranks that this one ends with an error; returns when they know, or after seconds."""
        if self._said is not None or not self._thread.is_alive():
            return
        self._said = error
        if self._connection is not None:
            self._send(self._connection, {"failed": error})
        self._failed.wait(_PATIENCE)

    def end(self) -> None:
        """Tell the others that this rank is done, and that it is no failure; returns when all are."""
        self._ended = True
        if self._connection is not None:
            self._send(self._connection, self._state())
        self._thread.join()

    def _state(self) -> dict[str, Any]:
        group, inside, since = self._inside
        waited = time.monotonic() - since
        counts = dict(self._counts)
        return {"counts": counts, "group": group, "inside": str(inside), "waited": waited, "ended": self._ended}

    def _forget(self) -> None:
        """In a forked child: it is no rank, and must not hold the connection of one that died."""
        for connection in (self._connection, *(known.connection for known in self._ranks.values())):
            if connection is not None:
                connection.close()

    # --- the connection of a rank ---------------------------------------------------------------------------

    def _as_client(self, connection: socket.socket) -> None:
        connection.settimeout(BEAT)
        unread = bytearray()
        heard = time.monotonic()
        beat = 0.0
        while True:
            if time.monotonic() - beat >= BEAT:
                beat = time.monotonic()
                self._send(connection, self._state())
            try:
                got = connection.recv(1 << 16)
            except TimeoutError:
                if time.monotonic() - heard > self.timeout:
                    self._stop(self._silent(0), kill=0)
                continue
            except OSError:
                got = b""
            heard = time.monotonic()
            for message in unpacked(unread, got):
                if "stop" in message:
                    self._stop(message["stop"], message["kill"])
                if "over" in message:
                    connection.close()
                    return
            if not got:
                self._stop(self._text(0, "died: its connection closed"))

    # --- rank 0 --------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, token: str) -> None:
        """Take the connections of the other ranks."""

        def admit(rank: int, connection: socket.socket) -> None:
            self._ranks[rank] = _Known(connection)

        end = time.monotonic() + self.timeout
        with selectors.DefaultSelector() as selector:
            door = Door(listener, token, len(self.seats), selector, admit)
            door.missing.discard(0)
            while door.missing:
                for key, _ in selector.select(BEAT / 4):
                    key.data()
                door.look()
                if time.monotonic() > end:
                    text = f"has not connected for {self.timeout:g} s"
                    raise ConnectionError(self._text(min(door.missing), text))
            door.close()

    def _as_server(self) -> None:
        with selectors.DefaultSelector() as selector:
            for rank, known in self._ranks.items():
                if known.connection is not None:
                    selector.register(known.connection, selectors.EVENT_READ, rank)
            beat = 0.0
            while any(known.ended is None for known in self._ranks.values()):
                for key, _ in selector.select(BEAT / 4):
                    self._read(key.data)
                if time.monotonic() - beat >= BEAT:
                    beat = time.monotonic()
                    self._send_all({"alive": True})
                self._update(self._ranks[0], self._state())
                if self._said is not None:
                    self._stop(self._text(0, self._said))
                self._check()
            self._send_all({"over": True})
            self._close()

    def _read(self, rank: int) -> None:
        """Read what a rank sent."""
        known = self._ranks[rank]
        assert known.connection is not None
        try:
            got = known.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        for message in unpacked(known.unread, got):
            if "failed" in message:
                self._stop(self._text(rank, message["failed"]), kill=rank)
            self._update(known, message)
        if not got:
            self._stop(self._text(rank, "died: its connection closed"))

    @staticmethod
    def _update(known: _Known, message: dict[str, Any]) -> None:
        known.heard = time.monotonic()
        known.counts, known.group, known.inside = message["counts"], message["group"], message["inside"]
        known.since = known.heard - message["waited"]
        if message["ended"] and known.ended is None:
            known.ended = known.heard

    def _check(self) -> None:
        """End all ranks if one of them is late."""
        now = time.monotonic()
        for rank, known in self._ranks.items():
            if now - known.heard > self.timeout:
                self._stop(self._silent(rank), kill=rank)
        waiting = {rank: known for rank, known in self._ranks.items() if known.waits}
        for known in waiting.values():
            if now - known.since > 2 * BEAT:  # what is known of the others is newer
                self._check_ended(known, now)
        if not waiting:
            return
        self._check_deadlock(waiting)
        longest = min(waiting.values(), key=lambda known: known.since)
        if now - longest.since > self.timeout:
            self._blame(longest)

    def _check_ended(self, waiting: _Known, now: float) -> None:
        for rank, known in self._ranks.items():
            if known.ended is not None and now - known.ended > 2 * BEAT and _is_missing(known, waiting):
                self._stop(self._text(rank, f"ended while others wait in {waiting.inside}"))

    def _check_deadlock(self, waiting: dict[int, _Known]) -> None:
        """End all ranks if some wait for each other: in collectives of several groups, which do not meet."""
        stuck = {rank: known for rank, known in waiting.items() if known.heard - known.since > 2 * BEAT}
        for _ in self._ranks:
            missing = {r: [n for n, k in self._ranks.items() if _is_missing(k, known)] for r, known in stuck.items()}
            stuck = {r: known for r, known in stuck.items() if missing[r] and all(n in stuck for n in missing[r])}
        if not stuck or max(known.since for known in stuck.values()) > min(known.heard for known in stuck.values()):
            return  # they may have waited one after the other
        texts = [f"{self._text(rank, 'waits in')} {known.inside}" for rank, known in stuck.items()]
        self._stop(f"{', '.join(texts)}: all ranks must call the same operations in the same order")

    def _blame(self, waiting: _Known) -> NoReturn:
        """End all ranks because of the one for which another one waits."""
        for _ in self._ranks:
            missing = {rank: known for rank, known in self._ranks.items() if _is_missing(known, waiting)}
            if not missing:
                break
            rank = min(missing, key=lambda rank: missing[rank].waits)
            if not missing[rank].waits:
                text = f"has not come to {waiting.inside}, in which others wait for {self.timeout:g} s"
                self._stop(self._text(rank, text), kill=rank)
            waiting = missing[rank]  # which itself waits for others, in another group
        inside = waiting.inside
        self._stop(f"all ranks came to {inside}, and wait for {self.timeout:g} s: does the network between them work?")

    # --- messages and the end ------------------------------------------------------------------------------

    def _text(self, rank: int, what: str) -> str:
        return f"rank {rank} on {self.seats[rank].host} {what}"

    def _silent(self, rank: int) -> str:
        """A description of a rank that does not answer."""
        text, seat = self._text(rank, f"has not answered for {self.timeout:g} s"), self.seats[rank]
        if seat.space != self.seats[self.rank].space:
            return text
        with contextlib.suppress(OSError):  # only Linux says in which state a process is
            state = Path(f"/proc/{seat.process}/stat").read_text().rpartition(")")[2].split()[0]
            text += {"T": ": a signal, as SIGSTOP, has stopped it", "t": ": a debugger has stopped it"}.get(state, "")
        return text

    def _send(self, connection: socket.socket, message: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):
            connection.sendall(packed(message))

    def _send_all(self, message: dict[str, Any]) -> None:
        for known in self._ranks.values():
            if known.connection is not None:
                self._send(known.connection, message)

    def _close(self) -> None:
        close_gently([known.connection for known in self._ranks.values() if known.connection is not None])

    def _guarded(self) -> None:
        try:
            if self._connection is None:
                self._as_server()
            else:
                self._as_client(self._connection)
        except Exception as error:
            self._stop(self._text(self.rank, f"watches no longer: {type(error).__name__}: {error}"))

    def _stop(self, text: str, kill: int | None = None) -> NoReturn:
        """End all ranks; the one that raised ends by itself, and one that does not end is killed."""
        if self.rank == 0:
            self._send_all({"stop": text, "kill": kill})
        if self._said is not None:
            self._close()
            self._failed.set()
            threading.Event().wait()
        # The main thread may be writing, and hold the locks of both streams.
        flushing = thread(_flush, "hybridc flush", daemon=True)
        if flushing is not None:
            flushing.join(BEAT)
        with contextlib.suppress(OSError):
            os.write(2, f"hybridc: {text}; rank {self.rank} on {self.seats[self.rank].host} ends\n".encode())
        self._close()
        if kill is not None and kill != self.rank:
            self._kill(kill)
        os._exit(STATUS)

    def _kill(self, rank: int) -> None:
        """Kill a rank of this machine unless it ends by itself; its connection is open, so its id is its own."""
        if self.seats[rank].space != self.seats[self.rank].space:
            return
        end = time.monotonic() + _PATIENCE
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                os.kill(self.seats[rank].process, 0)
                time.sleep(BEAT / 10)
            os.kill(self.seats[rank].process, signal.SIGKILL)


def _is_missing(known: _Known, waiting: _Known) -> bool:
    """Whether a rank has not come to the collective in which another one waits."""
    return known.counts.get(waiting.group, waiting.counts[waiting.group]) < waiting.counts[waiting.group]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
