"""A shard: the file that one rank writes of a checkpoint, which has a description in JSON, and arrays.

The format: 16 bytes that name it, the length of the description as 8 bytes, little end first, the description, and the
bytes of the arrays one after the other. The description says of each array its dtype, its shape and where it begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.ground.records import dataclass
from hybridc.ground.whole_files import replacing

Array = npt.NDArray[Any]

_MAGIC = b"hybridc shard 1\n"
_LENGTH = 8  # bytes of the number in front of the description
_CHUNK = 1 << 24  # bytes that are hashed and written at once: 16 MiB, which leaves the interpreter to others in between


class DamagedError(Exception):
    """A file of a checkpoint is missing, or is not what was written."""


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest knows of a shard: its file name, its size in bytes and the SHA-256 of them."""

    file: str
    bytes: int
    sha256: str


def write_shard(path: Path, description: dict[str, Any], arrays: Sequence[Array]) -> ShardEntry:
    """Write a shard, and return when it is on the disk; the file is whole or does not exist."""
    places: list[list[Any]] = []
    end = 0
    for array in arrays:
        places.append([array.dtype.name, list(array.shape), end])
        end += array.nbytes
    text = json.dumps({**description, "arrays": places}, separators=(",", ":")).encode()
    hashed, size = hashlib.sha256(), 0
    with replacing(path, durable=True) as file:
        for part in (_MAGIC, len(text).to_bytes(_LENGTH, "little"), text, *map(_raw, arrays)):
            view = memoryview(part)
            for start in range(0, len(view), _CHUNK):
                chunk = view[start : start + _CHUNK]
                hashed.update(chunk)
                file.write(chunk)
            size += len(view)
    return ShardEntry(path.name, size, hashed.hexdigest())


def _raw(array: Array) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def entry_of(path: Path) -> ShardEntry:
    """The manifest entry of a complete shard: its file name, size and SHA-256."""
    hashed, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
            size += len(chunk)
    return ShardEntry(path.name, size, hashed.hexdigest())


def verify_shard(folder: Path, entry: ShardEntry) -> None:
    """Raise DamagedError unless the file is what was written."""
    path = folder / entry.file
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            raise DamagedError(f"{path} has {size} bytes, expected {entry.bytes}")
        found = entry_of(path)
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing") from None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from error
    if found != entry:
        raise DamagedError(f"{path} has other bytes than were written: its SHA-256 is not that in the manifest")


class ShardReader:
    """The description of a shard, and its arrays, which are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            head = file.read(len(_MAGIC) + _LENGTH)
            if not head.startswith(_MAGIC):
                raise DamagedError(f"{path} is not a shard of a checkpoint")
            length = int.from_bytes(head[len(_MAGIC) :], "little")
            self.description: dict[str, Any] = json.loads(file.read(length))
        self._places: list[list[Any]] = self.description["arrays"]
        self._start = len(head) + length

    def arrays(self) -> Sequence[Array]:
        """All arrays, by number; each is read when it is taken."""
        return _LazyArrays(len(self._places), self._read)

    def _read(self, number: int) -> Array:
        dtype, shape, offset = self._places[number]
        made = np.empty(shape, np.dtype(dtype))
        with self.path.open("rb") as file:
            file.seek(self._start + offset)
            raw = made.reshape(-1).view(np.uint8)
            if file.readinto(raw.data) != raw.size:
                raise DamagedError(f"{self.path} ends within an array")
        return made


class _LazyArrays(Sequence[Array]):
    def __init__(self, count: int, read: Callable[[int], Array]) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        return self._read(number)
