"""The disk cache: bytes by key, in files of a folder that only the user writes; shared by processes.

It removes only its own files: by their names, in a folder of its own inside the cache folder.

Writes are atomic. An entry carries its key and a checksum: a truncated,
damaged or mismatched one counts as missing, and is removed. Entries are plain bytes; machine code among them is loaded
only from files that belong to the user and that nobody else may write. Eviction is least recently used,
before the folder exceeds its limit; temporary files of killed writers count and are removed, too. A disk that is full
or read-only costs nothing but time.

The package itself has such entries, too, of what is the same for all users: :func:`ship` writes them when it is built.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import warnings
import weakref
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hybridc.ground.records import dataclass
from hybridc.ground.serialize import from_bytes, to_bytes
from hybridc.ground.whole_files import PARTIAL, remove_abandoned, write_whole
from hybridc.options import OPTIONS

T = TypeVar("T")

# Bytes of a store by default: little of a disk, and more than the code of one project's networks takes.
LIMIT = 1 << 30

_FOLDER = "store-1"  # of the cache folder
SHIPPED = Path(__file__).parents[1] / "objects"  # the entries of the package, as trustworthy as its sources
_MAGIC = b"hybridc store 1\n"
_DIGEST = hashlib.sha256().digest_size
# File names of a store: entries, sources for people, temporary files.
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry|\w+-[0-9a-f]{32}\.py")
_PARTIAL = re.compile(rf"({_ENTRY.pattern}){PARTIAL}")
_KEEP = 0.75  # of the limit is kept by eviction
_SHARE = 16  # rescan the folder after writing this part of the limit


class Store:
    """The entries of a folder, which is made with the first one.

    A folder that others may write, or that belongs to another user, is not used.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = LIMIT) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self._unseen: float = limit  # bytes written since the last scan of the folder
        self._warned = False
        self._trusted: bool | None = None  # unknown before the folder exists
        self._writes = True

    def get(self, key: str) -> bytes | None:
        """The bytes under a key; None if there are none, or they cannot be trusted."""
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
                os.utime(path)  # for least-recently-used eviction
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store bytes under a key, replacing older ones."""
        if not self._writes or not self._make():
            return
        entry = _pack(key, data)
        if not self._room(len(entry)):
            return
        try:
            write_whole(self._path(key), entry, private=True, sweep=False)
        except OSError as error:
            self._writes = False
            self._warn(f"nothing more is written into the cache folder {self.folder}: {error}")

    def put_source(self, name: str, text: str) -> Path | None:
        """A file of Python text for people and tools, never to be run from there; None if it cannot be written.

        Its name begins with the given one and has a hash of the content, so an existing file is reused.
        """
        path = self.folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.py"
        if not self._writes or not self._make():
            return None
        try:
            if not path.exists():
                if not self._room(len(text)):
                    return None
                write_whole(path, text.encode(), private=True, sweep=False)
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
        return self.folder / _file_name(key)

    def _make(self) -> bool:
        """Make the folder, and the cache folder that it lies in; False if it cannot be used."""
        try:
            self.folder.parent.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._writes = False
            self._warn(f"there is no cache folder {self.folder}: {error}")
            return False
        return self._usable()

    def _usable(self) -> bool:
        """Whether the folder exists and nobody else can have put files, or a link, into its place."""
        if self._trusted is None:
            try:
                found, parent = os.lstat(self.folder), os.stat(self.folder.parent)
            except OSError:
                return False  # perhaps later
            self._trusted = stat.S_ISDIR(found.st_mode) and not may_be_anothers(found) and not _is_open(parent)
            if not self._trusted:
                self._warn(f"the cache folder {self.folder} is not used: others may write it")
        return self._trusted

    def _room(self, size: int) -> bool:
        """Whether so many bytes may be written; the folder is scanned seldom."""
        self._unseen += size
        if self._unseen <= self.limit / _SHARE:
            return True
        self._unseen = 0
        return self._trim(size)

    def _trim(self, room: int) -> bool:
        """Evict the least recently used entries to make room for so many bytes.

        False if there is none nevertheless, as other processes are writing as much.
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
        """The store's files; stale temporary ones are removed."""
        files: list[tuple[Path, os.stat_result]] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as scanned:
            for file in scanned:
                with contextlib.suppress(OSError):
                    found = file.stat(follow_symlinks=False)
                    if not stat.S_ISREG(found.st_mode):
                        continue
                    if _PARTIAL.fullmatch(file.name) and remove_abandoned(file.path, found):
                        continue
                    if _ENTRY.fullmatch(file.name) or _PARTIAL.fullmatch(file.name):
                        files.append((Path(file.path), found))
        return files

    def _warn(self, text: str) -> None:
        """Warn, once."""
        if not self._warned:
            self._warned = True
            warnings.warn(f"{text}. Programs are compiled anew in every process", stacklevel=4)


def _file_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest() + ".entry"


def _read(path: Path) -> bytes:
    """The content of a file that only the user can write."""
    with open(path, "rb", opener=_open) as file:
        if may_be_anothers(os.fstat(file.fileno())):
            raise PermissionError(f"{path} is writable by other users; a cache file must be its owner's alone")
        return file.read()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def may_be_anothers(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to another user, or others may write it."""
    if not hasattr(os, "getuid"):
        return False
    return found.st_uid != os.getuid() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _is_open(folder: os.stat_result) -> bool:
    """Whether other users, the system's apart, may rename what lies in a folder and belongs to this user."""
    if not hasattr(os, "getuid"):
        return False
    is_sticky = bool(folder.st_mode & stat.S_ISVTX)
    writable = bool(folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return folder.st_uid not in (0, os.getuid()) or (writable and not is_sticky)


def _pack(key: str, data: bytes) -> bytes:
    """An entry: magic, checksum, key, data."""
    name = key.encode()
    content = len(name).to_bytes(8, "little") + name + data
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unpack(entry: bytes, key: str) -> bytes | None:
    """The data of an entry; None if it is damaged, or of another key."""
    start = len(_MAGIC) + _DIGEST
    content = entry[start:]
    if not entry.startswith(_MAGIC) or hashlib.sha256(content).digest() != entry[len(_MAGIC) : start]:
        return None
    name = key.encode()
    head = len(name).to_bytes(8, "little") + name
    return content[len(head) :] if content.startswith(head) else None


@functools.cache
def store() -> Store:
    """The store of this process, in the cache folder of the options."""
    return Store(os.path.join(OPTIONS.cache, _FOLDER), OPTIONS.cache_bytes)


def keep(key: str, value: Any, made_for: str = "") -> None:
    """Store a value for later processes; ``made_for`` is what it depends on beside the key, as the processor."""
    data = to_bytes(value)
    _collect(key, data, made_for)
    store().put(_full(key, made_for), data)


def kept(key: str, kind: type[T], made_for: str = "") -> T | None:
    """The stored value of this type, of the adopted entries or of the folder; None if there is none to be read."""
    data = _adopted(key, made_for)
    data = store().get(_full(key, made_for)) if data is None else data
    value = _value(data, kind)
    if data is not None and value is not None:
        _collect(key, data, made_for)
    return value


def ship(key: str, value: Any) -> None:
    """Make a value part of the package, beside those that are."""
    SHIPPED.mkdir(exist_ok=True)
    write_whole(SHIPPED / _file_name(key), _pack(key, to_bytes(value)))


def unship() -> None:
    """Remove all such values: keys of other sources are never asked for again."""
    for path in SHIPPED.glob("*.entry"):
        path.unlink()


def shipped(key: str, kind: type[T]) -> T | None:
    """The value of this type that is part of the package; None if there is none."""
    try:
        entry = (SHIPPED / _file_name(key)).read_bytes()
    except OSError:
        return None
    return _value(_unpack(entry, key), kind)


def _value(data: bytes | None, kind: type[T]) -> T | None:
    try:
        return None if data is None else from_bytes(kind, data)
    except (ValueError, LookupError, TypeError):
        return None


def _full(key: str, made_for: str) -> str:
    return f"{made_for}\n{key}" if made_for else key


# --- entries outside of the folder ------------------------------------------------------------------------------


@dataclass(eq=False)
class EntrySet:
    """Entries of a file, by their keys alone: all are made for one of ``made_for``. They are found while it lives."""

    entries: Mapping[str, bytes]
    made_for: frozenset[str]

    def __deepcopy__(self, _: Any) -> EntrySet:
        return self


def adopt(entries: EntrySet) -> None:
    """Let :func:`kept` find these entries before those of the folder, in which they are not written."""
    _ADOPTED[:] = [*[ref for ref in _ADOPTED if ref() is not None], weakref.ref(entries)]


@contextlib.contextmanager
def collecting() -> Generator[dict[str, bytes]]:
    """The entries that are read or stored meanwhile and made for something, by their keys."""
    collected: dict[str, bytes] = {}
    _COLLECTED.append(collected)
    try:
        yield collected
    finally:
        _COLLECTED[:] = [each for each in _COLLECTED if each is not collected]


def is_collecting() -> bool:
    """Whether entries are collected: what is in memory is then read again, or made again."""
    return bool(_COLLECTED)


_ADOPTED: list[weakref.ref[EntrySet]] = []
_COLLECTED: list[dict[str, bytes]] = []


def is_adopted(key: str, made_for: str) -> bool:
    """Whether an adopted entry has this key."""
    return _adopted(key, made_for) is not None


def _adopted(key: str, made_for: str) -> bytes | None:
    for entries in [ref() for ref in _ADOPTED]:
        if entries is not None and made_for in entries.made_for and key in entries.entries:
            return entries.entries[key]
    return None


def _collect(key: str, data: bytes, made_for: str) -> None:
    for collected in _COLLECTED if made_for else ():
        collected[key] = data


# --- versions ---------------------------------------------------------------------------------------------------


@functools.cache
def compiler_version() -> str:
    """A hash of the compiler's source files."""
    return version_of(Path(__file__).parents[1])


def version_of(package: Path) -> str:
    """A hash of a package's source files.

    That of the list of files with their hashes which an installer leaves beside a package; where there is none, as in a
    checkout, of name, size and time of each file, which takes longer.
    """
    listed = sorted(package.parent.glob(f"{package.name}-*.dist-info/RECORD"))
    if len(listed) == 1:
        return hashlib.sha256(listed[0].read_bytes()).hexdigest()
    lines = [f"{path} {size} {time}" for path, size, time in _sources(str(package))]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


@functools.cache
def source_version() -> str:
    """A hash of the content of these files, the same wherever they are installed; it takes five times longer."""
    root = Path(__file__).parents[1]
    content = hashlib.sha256()
    for path in sorted(Path(path) for path, _, _ in _sources(str(root))):
        text = path.read_bytes()
        content.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode() + text)
    return content.hexdigest()


def _sources(folder: str) -> list[tuple[str, int, int]]:
    """Path, size and time of each source file."""
    found: list[tuple[str, int, int]] = []
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith((".py", ".ll", ".cc")):
                known = file.stat()
                found.append((file.path, known.st_size, known.st_mtime_ns))
            elif file.name != "__pycache__" and file.is_dir():
                found += _sources(file.path)
    return found
