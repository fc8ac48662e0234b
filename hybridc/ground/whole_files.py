"""Files that are replaced as a whole: the one writer of the library.

A file is written under another name in the same folder and then renamed, so that whoever reads it, and whoever is
killed while writing it, sees the old content or the new one. While it is written, the writer holds a lock on it: what
a killed writer left has none, and goes with the next write of the same file.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, BinaryIO

from hybridc.errors import FileWriteError, MissingFolderError, WriteRefusedError

if os.name == "posix":
    import fcntl
else:
    fcntl = None

# The end of a temporary file's name: the host's hash, a random number.
PARTIAL = r"\.[0-9a-f]{8}-[0-9a-f]{16}\.partial"
_SUFFIX_BYTES, _NAME_BYTES = 34, 255  # of that end; of a name, on nearly all file systems
_ABANDONED = 3600.0  # seconds without a write after which one is abandoned whose lock cannot be seen from here
_CLASSES = {errno.ENOENT: MissingFolderError, errno.EACCES: WriteRefusedError, errno.EPERM: WriteRefusedError}
_REMEDIES = {
    errno.ENOSPC: "free some space there, or give a file on another disk",
    errno.EDQUOT: "free some of your quota there, or give a file on another disk",
    errno.EFBIG: "files there may not be so large (ulimit -f): give a file on another disk",
    errno.EACCES: "give a file in a folder that this user may write",
    errno.EPERM: "give a file in a folder that this user may write",
    errno.EROFS: "give a file on a disk that may be written",
    errno.EISDIR: "it is a folder; give the name of a file",
    errno.ENAMETOOLONG: "give it a shorter name",
}


@contextlib.contextmanager
def replacing(
    fname: str | os.PathLike[str], durable: bool = False, private: bool = False, sweep: bool = True
) -> Generator[BinaryIO]:
    """A new file that takes the place of ``fname`` when the ``with`` block ends without an error.

    It has the mode, the owner and the group of the old file. A symbolic link stays, and its target is replaced. What
    is no file, as a pipe or a terminal, is written to. Raises FileWriteError; the old file is then as it was.

    With ``durable`` the file is on the disk by then, and survives a failure of the power. ``private`` is a file for
    this user alone, also in the place of a link or a file of others. Without ``sweep`` the folder is not searched for
    what killed writers left: its owner calls :func:`remove_abandoned`.
    """
    target = os.fsdecode(fname)
    with _reported(target):
        old = None if private else _replaceable(target)
        path = target if private else os.path.realpath(target)
        if old is not None and not stat.S_ISREG(old.st_mode):
            partial, handle = None, os.open(target, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
        else:
            partial, handle = _create(path, 0o600 if old or private else 0o666, sweep)
    try:
        with io.BufferedWriter(_Reporting(handle, target)) as file:
            yield file
            with _reported(target):
                file.flush()
                _finish(handle, old, durable)
                if partial is not None and fcntl is not None:  # the lock is held until the file has its name
                    os.replace(partial, path)
        if partial is not None and fcntl is None:
            with _reported(target):
                os.replace(partial, path)
    except BaseException:
        if partial is not None:
            with contextlib.suppress(OSError):
                os.unlink(partial)
        raise
    if durable:
        sync_folder(Path(path).parent)


def write_whole(
    fname: str | os.PathLike[str], content: bytes, durable: bool = False, private: bool = False, sweep: bool = True
) -> None:
    """Replace a file by one with this content, as :func:`replacing` does."""
    with replacing(fname, durable, private, sweep) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_abandoned(path: str, found: os.stat_result) -> bool:
    """Remove a temporary file whose writer was killed; False if it may have a writer, or is not this user's."""
    if not stat.S_ISREG(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        return False
    age = time.time() - found.st_mtime
    if fcntl is None or f".{_host()}-" not in path:
        return age > _ABANDONED and _unlinked(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _is_at(handle, path) and _unlinked(path)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return age > _ABANDONED and _unlinked(path)
    finally:
        os.close(handle)


def _replaceable(target: str) -> os.stat_result | None:
    """What is there now, None if nothing is; an OSError if that is no place for a file, or may not be written."""
    try:
        old = os.stat(target) if target else None
    except FileNotFoundError:
        old = None
    wrong = 0
    if not target:
        wrong = errno.ENOENT
    elif not os.path.basename(target) or (old is not None and stat.S_ISDIR(old.st_mode)):
        wrong = errno.EISDIR
    elif old is not None and not os.access(target, os.W_OK):
        wrong = errno.EACCES
    if wrong:
        raise OSError(wrong, os.strerror(wrong))
    return old


def _create(path: str, mode: int, sweep: bool) -> tuple[str, int]:
    """A new temporary file for a path, locked, and its handle; with ``sweep`` those of killed writers go."""
    folder, name = os.path.split(path)
    encoded = os.fsencode(name)
    if len(encoded) > _NAME_BYTES - _SUFFIX_BYTES:
        name = f"{zlib.crc32(encoded):08x}"
    if sweep:
        _remove_abandoned_of(folder, name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        partial = os.path.join(folder, f"{name}.{_host()}-{os.urandom(8).hex()}.partial")
        handle = os.open(partial, flags, mode)
        if fcntl is None:
            return partial, handle
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return partial, handle
        os.close(handle)  # another process took the file for abandoned before it was locked


def _remove_abandoned_of(folder: str, name: str) -> None:
    """Remove the temporary files of one file whose writers were killed."""
    with contextlib.suppress(OSError), os.scandir(folder) as scanned:
        for file in scanned:
            if file.name.startswith(name) and re.fullmatch(PARTIAL, file.name[len(name) :]):
                with contextlib.suppress(OSError):
                    remove_abandoned(file.path, file.stat(follow_symlinks=False))


class _Reporting(io.FileIO):
    """A file whose failed writes are reported as the file that is to be written."""

    def __init__(self, handle: int, target: str) -> None:
        super().__init__(handle, "wb")
        self._target = target

    def write(self, data: Any, /) -> int:
        """As FileIO's; raises FileWriteError."""
        with _reported(self._target):
            return super().write(data)


def _finish(handle: int, old: os.stat_result | None, durable: bool) -> None:
    """Give a written file the access of the old one, and wait until it is on the disk where that is asked for."""
    if old is not None and stat.S_ISREG(old.st_mode):
        _keep_access(handle, old)
    if durable:
        os.fsync(handle)


def _keep_access(handle: int, old: os.stat_result) -> None:
    """Give a file the owner, the group and the mode of the old one; who it cannot belong to gets no more than others.

    The bits that let a program run as its owner go, as they do with each write.
    """
    if not hasattr(os, "fchmod"):
        return
    mode = stat.S_IMODE(old.st_mode) & 0o777
    new = os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(handle, -1, old.st_gid)
        with contextlib.suppress(OSError):
            os.fchown(handle, old.st_uid, -1)
        if os.fstat(handle).st_gid != old.st_gid:
            mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _is_at(handle: int, path: str) -> bool:
    """Whether an open file still has this name."""
    return os.path.samestat(os.fstat(handle), os.lstat(path))


def _unlinked(path: str) -> bool:
    os.unlink(path)
    return True


def _host() -> str:
    """A hash of this machine's name: locks of other machines may be invisible here."""
    return f"{zlib.crc32(os.uname().nodename.encode()) if hasattr(os, 'uname') else 0:08x}"


@contextlib.contextmanager
def _reported(target: str) -> Generator[None]:
    """Errors of the system as errors about the file that is to be written."""
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: str, error: OSError) -> FileWriteError:
    remedy = _REMEDIES.get(error.errno or 0, "")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        remedy = f"there is no folder {os.path.dirname(os.path.abspath(target))}: make it before"
    kept = "what was there before is as it was" if os.path.isfile(target) else ""
    text = "; ".join(part for part in (f"cannot write {target}: {error.strerror or error}", remedy, kept) if part)
    made = _CLASSES.get(error.errno or 0, FileWriteError)(text)
    made.errno = error.errno
    return made
