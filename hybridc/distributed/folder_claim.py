"""The claim of a program on the folder of its checkpoints: two that write there would remove each other's."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any

from hybridc.errors import MXNetError
from hybridc.ground.whole_files import write_whole

if os.name == "posix":
    import fcntl
else:
    fcntl = None

# Seconds within which another program must let go: by then a rank that failed has ended all others.
_PATIENCE = 10.0
_PAUSE = 0.2  # seconds between two attempts
_TOKEN = 4  # bytes that name a run
_OWNER = "owner.json"
_LOCK = "lock"

# The folders that this process claims: locks do not keep a process from itself.
_CLAIMED: set[Path] = set()


class FolderClaim:
    """The folder is this program's until :meth:`release`, or until the process ends.

    It is made by rank 0. A lock tells of a program that runs now; where a file system has none, the one that came first
    finds the name of the other when it writes the next time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._handle = -1
        self.token = secrets.token_hex(_TOKEN)
        if folder.exists() and not folder.is_dir():
            raise MXNetError(f"{folder} is a file; checkpoints need a folder: give another path")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder.resolve()
            self._handle = self._lock()
        except OSError as error:
            raise MXNetError(
                f"checkpoints cannot be written into {folder}: {error.strerror or error}; give a folder that this user "
                "may write"
            ) from error
        _CLAIMED.add(self._path)
        try:
            write_whole(folder / _OWNER, json.dumps({"token": self.token, **_this_program()}).encode())
        except BaseException:
            self.release()
            raise

    def _lock(self) -> int:
        if self._path in _CLAIMED:
            raise MXNetError(
                f"another Checkpoint of this program writes into {self.folder}; give each a folder of its own, or "
                "close() the first"
            )
        handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        if fcntl is None:
            return handle
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                # A lock of the process, not of the open file: workers that were forked do not inherit it.
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if time.monotonic() < end:
                    time.sleep(_PAUSE)
                    continue
                os.close(handle)
                raise MXNetError(
                    f"another program writes checkpoints into {self.folder}: {_described(read_owner(self.folder))}; "
                    "end it, or give this one another folder"
                ) from None
            except OSError:  # a file system without locks
                pass
            return handle

    def __del__(self) -> None:
        self.release()

    def check(self) -> None:
        """Raise if another program has claimed the folder since."""
        owner = read_owner(self.folder)
        if owner.get("token") != self.token:
            raise MXNetError(
                f"another program writes checkpoints into {self.folder} now: {_described(owner)}; this one writes none "
                "while it does"
            )

    def release(self) -> None:
        """Let others claim it."""
        if self._handle >= 0:
            _CLAIMED.discard(self._path)
            os.close(self._handle)
            self._handle = -1


def read_owner(folder: Path) -> dict[str, Any]:
    """Which program claimed a folder last; empty if none did, or that cannot be seen from here."""
    try:
        found = json.loads((folder / _OWNER).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _this_program() -> dict[str, Any]:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return {"host": socket.gethostname(), "process": os.getpid(), "since": since}


def _described(owner: dict[str, Any]) -> str:
    if not owner:
        return "there is no word of which"
    return f"process {owner.get('process')} on {owner.get('host')}, since {owner.get('since')}"
