"""Files out of archives: each is whole, as its checksum says, or is not there."""

from __future__ import annotations

import bz2
import contextlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Generator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from hybridc.errors import FileWriteError, MXNetError
from hybridc.ground.whole_files import replacing

# What zipfile, bz2 and gzip raise for damaged, truncated, encrypted and unknown content.
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


@contextlib.contextmanager
def undamaged(archive: str | os.PathLike[str]) -> Generator[None]:
    """Errors that a damaged archive causes, as MXNetErrors that name it."""
    try:
        yield
    except (FileWriteError, MXNetError):
        raise
    except _DAMAGES as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise MXNetError(f"cannot read {archive}: {error.strerror}") from error
        raise MXNetError(f"{archive} is damaged: {error}; remove it, and put or download a whole one there") from error


@contextlib.contextmanager
def opened_zip(archive: str | os.PathLike[str]) -> Generator[zipfile.ZipFile]:
    """A zip archive; an MXNetError that names it where it is damaged."""
    with undamaged(archive), zipfile.ZipFile(archive) as files:
        yield files


def unpack(files: zipfile.ZipFile, member: str, target: Path) -> None:
    """Write a member of an archive to a file, whose content has then the checksum that the archive has."""
    with files.open(member) as source, replacing(target) as file:
        shutil.copyfileobj(source, file)


def unzip_missing(archive: str | os.PathLike[str], folder: Path) -> None:
    """Unpack the files of a zip archive into a folder, but for those that are there in their full size."""
    with opened_zip(archive) as files:
        for info in files.infolist():
            target = folder.joinpath(*(p for p in PurePosixPath(info.filename).parts if p not in ("/", "..")))
            if info.is_dir() or (target.is_file() and target.stat().st_size == info.file_size):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            unpack(files, info.filename, target)


def unpack_bz2(packed: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Write the content of a file that bzip2 packed."""
    with undamaged(packed), bz2.open(packed) as source, replacing(target) as file:
        shutil.copyfileobj(cast("IO[Any]", source), file)
