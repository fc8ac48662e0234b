"""What was compiled once and is used by later processes: bytes by key, in files of a folder that only the user writes.

Nothing is removed but what a store wrote: files of its own names, in a folder of its own inside the cache folder.

An entry appears whole or not at all, whatever other processes do. It carries its key and a checksum: what is truncated,
damaged or of another meaning is not found, and is removed. Entries are plain bytes; machine code among them is loaded
only from files that belong to the user and that nobody else may write. Before the folder grows beyond its limit, what
was not used for the longest time goes; what writers left that were killed counts and goes, too. A disk that is full or
cannot be written costs nothing but time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, TypeVar

from hybridc.ground.serialize import from_bytes, to_bytes
from hybridc.options import OPTIONS

if os.name == "posix":
    import fcntl
else:
    fcntl = None

T = TypeVar("T")

LIMIT = 1 << 30

_FOLDER = "store-1"  # of the cache folder
_MAGIC = b"hybridc store 1\n"
_DIGEST = hashlib.sha256().digest_size
# The names of a store's files: entries, texts for people, and what is being written.
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry|\w+-[0-9a-f]{32}\.py")
_PARTIAL = re.compile(r"hybridc-\w+\.partial")
_OTHERS_WRITE = 0o022
_KEEP = 0.75  # of the limit is left after entries were removed
_SHARE = 16  # after writing so small a part of the limit, the folder is looked through again
_LOCKED = 1.0  # seconds after which an unfinished file whose writer lives is locked
_ABANDONED = 3600.0  # seconds after which an unfinished file is nobody's, where nothing can be locked


class Store:
    """Entries of a folder, which is made when the first one is written.

    A folder that others may write, or that belongs to somebody else, is left alone: nothing is found, nothing kept.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = LIMIT) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self._unseen: float = limit  # bytes written since the folder was looked through; at first it was not
        self._warned = False
        self._trusted: bool | None = None  # not known before the folder is there
        self._writes = True

    def get(self, key: str) -> bytes | None:
        """The bytes kept under a key; None if there are none, or none to be trusted."""
        if not self._usable():
            return None
        path = self._path(key)
        try:
            entry = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"{path} is not used: {error}")
            return None
        data = _unpack(entry, key)
        with contextlib.suppress(OSError):
            if data is None:
                path.unlink()
            else:
                os.utime(path)  # used now: not among the first to go
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes under a key, in place of what was there."""
        if not self._writes or not self._make():
            return
        entry = _pack(key, data)
        if not self._room(len(entry)):
            return
        try:
            self._write(self._path(key), entry)
        except OSError as error:
            self._writes = False
            self._warn(f"nothing more is written into the cache folder {self.folder}: {error}")

    def put_source(self, name: str, text: str) -> Path | None:
        """A file of Python text, for people and their tools to read, never to be run from there; None if none can be.

        Its name begins with the given one, and says all of its content, so that what is there already is left.
        """
        path = self.folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.py"
        if not self._writes or not self._make():
            return None
        try:
            if not path.exists():
                if not self._room(len(text)):
                    return None
                self._write(path, text.encode())
        except OSError:
            return None
        return path

    def clear(self) -> None:
        """Remove every entry."""
        for path, _ in self._files():
            if _ENTRY.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, key: str) -> Path:
        return self.folder / (hashlib.sha256(key.encode()).hexdigest() + ".entry")

    def _make(self) -> bool:
        """Make the folder; False if there is none that can be used."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._writes = False
            self._warn(f"there is no cache folder {self.folder}: {error}")
            return False
        return self._usable()

    def _usable(self) -> bool:
        """Whether the folder is there and nobody else can have put files into it."""
        if self._trusted is None:
            try:
                found = self.folder.stat()
            except OSError:
                return False  # perhaps later
            self._trusted = not may_be_anothers(found)
            if not self._trusted:
                self._warn(f"the cache folder {self.folder} is not used: others may write it")
        return self._trusted

    def _write(self, path: Path, entry: bytes) -> None:
        # Readable and writable for the user only.
        handle, partial = tempfile.mkstemp(prefix="hybridc-", suffix=".partial", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                if fcntl is not None:
                    with contextlib.suppress(OSError):  # a file system without locks
                        fcntl.flock(handle, fcntl.LOCK_EX)
                file.write(entry)
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise

    def _room(self, size: int) -> bool:
        """Whether so many bytes may be written; the folder is looked through seldom."""
        self._unseen += size
        if self._unseen <= self.limit / _SHARE:
            return True
        self._unseen = 0
        return self._trim(size)

    def _trim(self, room: int) -> bool:
        """Make room for so many bytes, if there is none, by removing what was not used for the longest time.

        False if they do not fit nevertheless, as other processes are writing as much.
        """
        files = sorted(self._files(), key=lambda file: file[1].st_mtime)
        size = room + sum(found.st_size for _, found in files)
        if size <= self.limit:
            return True
        for path, found in files:
            if size <= self.limit * _KEEP:
                break
            if not _ENTRY.fullmatch(path.name):
                continue
            with contextlib.suppress(OSError):  # another process may have removed it
                path.unlink()
            size -= found.st_size
        return size <= self.limit

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """The store's own files that are there; unfinished ones that were abandoned are removed."""
        files: list[tuple[Path, os.stat_result]] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as scanned:
            for file in scanned:
                with contextlib.suppress(OSError):
                    found = file.stat(follow_symlinks=False)
                    if not stat.S_ISREG(found.st_mode):
                        continue
                    if _PARTIAL.fullmatch(file.name) and _abandoned(file.path, found):
                        os.unlink(file.path)
                    elif _ENTRY.fullmatch(file.name) or _PARTIAL.fullmatch(file.name):
                        files.append((Path(file.path), found))
        return files

    def _warn(self, text: str) -> None:
        """Say it, once."""
        if not self._warned:
            self._warned = True
            warnings.warn(f"{text}. Programs are compiled anew in every process", stacklevel=4)


def _abandoned(path: str, found: os.stat_result) -> bool:
    """Whether nobody writes an unfinished file any more: a writer holds its lock, which ends with the process."""
    age = time.time() - found.st_mtime
    if fcntl is None or age < _LOCKED:
        return age > _ABANDONED
    with open(path, "rb", opener=_open) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return age > _ABANDONED
    return True


def _read(path: Path) -> bytes:
    """The content of a file of the user's own."""
    with open(path, "rb", opener=_open) as file:
        if may_be_anothers(os.fstat(file.fileno())):
            raise PermissionError("others may have written it")
        return file.read()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def may_be_anothers(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to somebody else, or others may write it."""
    if not hasattr(os, "getuid"):
        return False
    return found.st_uid != os.getuid() or bool(stat.S_IMODE(found.st_mode) & _OTHERS_WRITE)


def _pack(key: str, data: bytes) -> bytes:
    """An entry: what it is, its checksum, its key, its data."""
    name = key.encode()
    content = len(name).to_bytes(8, "little") + name + data
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unpack(entry: bytes, key: str) -> bytes | None:
    """The data of an entry; None if it is damaged, or another's."""
    start = len(_MAGIC) + _DIGEST
    content = entry[start:]
    if not entry.startswith(_MAGIC) or hashlib.sha256(content).digest() != entry[len(_MAGIC) : start]:
        return None
    name = key.encode()
    head = len(name).to_bytes(8, "little") + name
    return content[len(head) :] if content.startswith(head) else None


@functools.cache
def store() -> Store:
    """The store of this process, in the cache folder of the settings."""
    return Store(os.path.join(OPTIONS.cache, _FOLDER), OPTIONS.cache_bytes)


def keep(key: str, value: Any) -> None:
    """Keep a value for later processes."""
    store().put(key, to_bytes(value))


def kept(key: str, kind: type[T]) -> T | None:
    """The value of this type that a process kept; None if there is none, or it cannot be read."""
    data = store().get(key)
    try:
        return None if data is None else from_bytes(kind, data)
    except (ValueError, LookupError, TypeError):
        return None


@functools.cache
def compiler_version() -> str:
    """Changes when the compiler does: name, size and time of each of its source files."""
    root = str(Path(__file__).parents[1])
    return hashlib.sha256("\n".join(sorted(_sources(root))).encode()).hexdigest()


def _sources(folder: str) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith((".py", ".ll", ".cc")):
                known = file.stat()
                found.append(f"{file.path} {known.st_size} {known.st_mtime_ns}")
            elif file.name != "__pycache__" and file.is_dir():
                found += _sources(file.path)
    return found
