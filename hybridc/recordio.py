"""Record files, ``mx.recordio``: written byte for byte as MXNet 1.9.1 does, and read back.

All numbers are little-endian::

    record  part, or several of it where the data holds the magic number at a multiple of 4
    part    u32 magic, u32 kind << 29 | length, data, zeros up to a multiple of 4

A part is whole (kind 0), the first (1), a middle one (2) or the last (3); the magic number between two parts is left
out of the file. An index is a text: a line ``key<tab>offset`` for each record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from hybridc.communication.data_parts import adjacent_part
from hybridc.errors import ArgumentTypeError, CheckError, MXNetError, UnknownNameError

__all__ = ["IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img", "unpack", "unpack_img"]

_MAGIC = 0xCED7230A  # with which a part begins
_PART = Struct("<II")
_MARK = _MAGIC.to_bytes(4, "little")
_LENGTH_BITS = 29  # of the second number of a part; the kind is above
_MOST_BYTES = (1 << _LENGTH_BITS) - 1  # of a record
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_LAST_OFFSET = (1 << 63) - 1  # that a file can have


class MXRecordIO:
    """A file of records, for reading (``flag="r"``) or writing (``"w"``) one after the other.

    Forked processes and threads may read one open file: each process has its own position. A writer belongs to the
    process that opened it. Pickled, a reader is opened again where it is loaded, at the first record.

    Parameters
    ----------
    uri:
        The path of the file. What cannot be opened is an MXNetError.
    flag:
        ``"r"`` to read, ``"w"`` to write, which empties the file; else a ValueError.

    Examples
    --------
    >>> writer = mx.recordio.MXRecordIO("a.rec", "w")
    >>> writer.write(b"first")
    >>> writer.write(b"second")
    >>> writer.close()
    >>> reader = mx.recordio.MXRecordIO("a.rec", "r")
    >>> reader.read(), reader.read(), reader.read()
    (b'first', b'second', None)
    >>> reader.close()
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.is_open = False
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.writable = flag == "w"
        self._fd = -1
        self._at = 0  # the offset of the next record
        self.open()

    def open(self) -> None:
        """Open the file, which writing empties."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"flag must be 'r' or 'w', got {self.flag!r}")
        self.writable = self.flag == "w"
        self._fd = _opened(self.uri, self.writable)
        self._at = 0
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file; once more does nothing."""
        if not self.is_open:
            return
        self.is_open = False
        self.pid = None
        os.close(self._fd)

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.writable and self.is_open:
            # COMPAT(mxnet): there the copy of a writer empties the file when it is loaded.
            raise MXNetError(f"{self.uri} is open for writing, and cannot be pickled or copied; close it before")
        return {**self.__dict__, "_fd": -1}

    def __setstate__(self, state: dict[str, Any]) -> None:
        is_open = state["is_open"]
        self.__dict__.update(state, is_open=False)
        if is_open:
            self.open()

    def reset(self) -> None:
        """Go back to the first record; a file for writing becomes empty."""
        self.close()
        self.open()

    def write(self, buf: bytes | bytearray | memoryview) -> None:
        """Append the record ``buf``, at most 2**29 - 1 bytes. If the disk is full, the file stays as it was."""
        self._check_use(True, "write")
        self._at += _append(self._fd, self._at, b"".join(_parts(_as_bytes(buf))), self.uri)

    def read(self) -> bytes | None:
        """The next record, or None at the end. After an error the position is what it was."""
        self._check_use(False, "read")
        record, self._at = self._record(self._at)
        return record

    @property
    def position(self) -> int:
        """The offset in the file of the record that :meth:`read` gives next."""
        return self._at

    @position.setter
    def position(self, offset: int) -> None:
        self._check_use(False, "position")
        self._at = offset

    def read_at(self, offset: int) -> bytes:
        """The record that begins at byte ``offset`` of the file; threads may read at once."""
        self._check_use(False, "read_at")
        record, _ = self._record(offset)
        if record is None:
            raise MXNetError(f"{self.uri} ends before byte {offset}, where a record should be")
        return record

    def offsets(self) -> Iterator[int]:
        """Where the records of the file begin; only the headers of their parts are read."""
        self._check_use(False, "offsets")
        at, end = 0, os.fstat(self._fd).st_size
        while at < end:
            head = self._take(at, _PART.size)
            magic, word = _PART.unpack(head) if len(head) == _PART.size else (0, 0)
            if magic != _MAGIC:
                self._record(at)  # says what is wrong
            if word >> _LENGTH_BITS in (_WHOLE, _FIRST):
                yield at
            at += _PART.size + -(-(word & _MOST_BYTES) // 4) * 4

    def _check_use(self, writing: bool, name: str) -> None:
        if not self.is_open:
            raise MXNetError(f"{name}: {self.uri} is closed; reset() opens it again")
        if writing != self.writable:
            raise CheckError(f"{name}: {self.uri} is open for {'writing' if self.writable else 'reading'} only")
        # COMPAT(mxnet): there a forked process cannot read on; here each has a position of its own.
        if writing and self.pid != os.getpid():
            raise RuntimeError(f"{name}: {self.uri} was opened by another process; only that can write to it")

    def _record(self, start: int) -> tuple[bytes | None, int]:
        """The record at an offset, and the offset after it; None at the end of the file."""
        parts: list[bytes] = []
        at, kind = start, _WHOLE
        while not parts or kind != _LAST:
            head = self._take(at, _PART.size)
            if not head and not parts:
                return None, start
            if len(head) < _PART.size:
                raise self._damaged(start, at, f"{_PART.size} bytes expected, {len(head)} left")
            magic, word = _PART.unpack(head)
            if magic != _MAGIC:
                raise self._damaged(start, at, f"a part of a record begins with {_MARK.hex()}, found {head[:4].hex()}")
            kind, length = word >> _LENGTH_BITS, word & _MOST_BYTES
            if kind not in ((_MIDDLE, _LAST) if parts else (_WHOLE, _FIRST)):
                raise self._damaged(
                    start, at, f"a part of kind {kind} where a record {'goes on' if parts else 'begins'}"
                )
            padded = -(-length // 4) * 4
            data = self._take(at + _PART.size, padded)
            if len(data) < padded:
                raise self._damaged(start, at + _PART.size, f"{padded} bytes expected, {len(data)} left")
            parts.append(data if length == padded else data[:length])
            at += _PART.size + padded
            if kind == _WHOLE:
                break
        return (parts[0] if len(parts) == 1 else _MARK.join(parts)), at

    def _take(self, at: int, count: int) -> bytes:
        """At most ``count`` bytes at an offset; fewer at the end of the file."""
        if not count:
            return b""
        try:
            data = os.pread(self._fd, count, at)
            while len(data) < count:
                more = os.pread(self._fd, count - len(data), at + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise MXNetError(f"cannot read {self.uri} at byte {at}: {error.strerror or error}") from error
        return data

    def _damaged(self, start: int, at: int, why: str) -> MXNetError:
        if not start and not at and self._take(0, 4) != _MARK:
            return MXNetError(f"{self.uri} is not a file of records: it does not begin with {_MARK.hex()}")
        return MXNetError(f"{self.uri} is damaged: record at byte {start}, byte {at}: {why}")


class MXIndexedRecordIO(MXRecordIO):
    """A file of records with an index of keys, for reading them in any order.

    ``keys`` are those of the index, in its order, and ``idx`` has the offset of each.

    Parameters
    ----------
    idx_path:
        The path of the index, a text.
    uri:
        The path of the file of records.
    flag:
        ``"r"`` to read, ``"w"`` to write, which empties both files.
    key_type:
        A function that makes a key of its text in the index, or of what is given to :meth:`write_idx`.

    Examples
    --------
    >>> writer = mx.recordio.MXIndexedRecordIO("b.idx", "b.rec", "w")
    >>> for key in range(3):
    ...     writer.write_idx(key, f"record {key}".encode())
    >>> writer.close()
    >>> reader = mx.recordio.MXIndexedRecordIO("b.idx", "b.rec", "r")
    >>> reader.keys, reader.read_idx(1)
    ([0, 1, 2], b'record 1')
    >>> reader.part(num_parts=2, part_index=1)
    [2, 0]
    >>> reader.close()
    """

    def __init__(
        self,
        idx_path: str | os.PathLike[str],
        uri: str | os.PathLike[str],
        flag: str,
        key_type: Callable[[Any], Any] = int,
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.key_type = key_type
        self._index_fd = -1
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files."""
        super().open()
        self.idx = {}
        self.keys = []
        try:
            if self.writable:
                self._index_fd = _opened(self.idx_path, True)
                return
            for key, offset in _index(self.idx_path, self.key_type):
                self.idx[key] = offset
                self.keys.append(key)
        except MXNetError:
            self.close()
            raise

    def close(self) -> None:
        """Close both files; once more does nothing."""
        if self.is_open and self._index_fd >= 0:
            os.close(self._index_fd)
            self._index_fd = -1
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_index_fd": -1}

    def part(self, num_parts: int, part_index: int, tail: str = "pad") -> list[Any]:
        """The keys of one of several parts of equal size, in the order of the index: those that a rank reads.

        Parameters
        ----------
        num_parts, part_index:
            How many parts there are, and which this is, from 0; another is a CheckError.
        tail:
            What becomes of records that do not come out even: ``"pad"`` takes the first ones once more,
            ``"discard"`` leaves them out, ``"keep"`` gives the first parts one more, for evaluation.
        """
        return [self.keys[i] for i in adjacent_part("part", len(self.keys), num_parts, part_index, tail)]

    def seek(self, idx: Any) -> None:
        """Let ``read`` go on with the record of the key ``idx``; a key that is not there is an UnknownNameError."""
        self._check_use(False, "seek")
        self._at = self._offset(idx)

    def tell(self) -> int:
        """The offset of the next record, in bytes."""
        if not self.is_open:
            raise MXNetError(f"tell: {self.uri} is closed; reset() opens it again")
        return self._at

    def read_idx(self, idx: Any) -> bytes:
        """The record of the key ``idx``; threads may read at once. A key that is not there is an UnknownNameError."""
        self._check_use(False, "read_idx")
        offset = self._offset(idx)
        record, after = self._record(offset)
        if record is None:
            raise MXNetError(
                f"{self.uri} ends before byte {offset}, where {self.idx_path} has the record {idx!r}; these two files "
                f"do not belong together, or one is incomplete"
            )
        self._at = after
        return record

    def write_idx(self, idx: Any, buf: bytes | bytearray | memoryview) -> None:
        """Append a record, and its key to the index.

        Parameters
        ----------
        idx:
            The key, whose text has no tab and no end of line.
        buf:
            The record, bytes.
        """
        key, offset = self.key_type(idx), self._at
        if any(mark in str(key) for mark in "\t\n\r"):
            raise MXNetError(f"write_idx: the key {key!r} has a tab or an end of line, which the index cannot hold")
        self.write(buf)
        try:
            end = os.lseek(self._index_fd, 0, os.SEEK_END)
            _append(self._index_fd, end, f"{key}\t{offset}\n".encode(), self.idx_path)
        except MXNetError:
            _cut(self._fd, offset)
            self._at = offset
            raise
        self.idx[key] = offset
        self.keys.append(key)

    def _offset(self, idx: Any) -> int:
        if idx not in self.idx:
            some = ", ".join(repr(key) for key in self.keys[:3])
            raise UnknownNameError(
                f"{self.idx_path} has no record with the key {idx!r}; it has {len(self.keys)} keys: {some}, …"
            )
        return self.idx[idx]


def places(uri: str, idx_path: str = "") -> list[int]:
    """Where the records of a file begin, in the order of its index if it has one."""
    if idx_path:
        return [offset for _, offset in _index(idx_path, str)]
    reader = MXRecordIO(uri, "r")
    try:
        return list(reader.offsets())
    finally:
        reader.close()


class IRHeader(NamedTuple):
    """What stands before an image in a record.

    ``label`` is a number, or an array of numbers, whose count is ``flag``; ``id`` and ``id2`` are the user's.
    """

    flag: int
    label: Any
    id: int
    id2: int


_HEADER = Struct("<IfQQ")


def pack(header: Any, s: bytes) -> bytes:
    """A record of a header and the bytes of an image.

    Parameters
    ----------
    header:
        An :class:`IRHeader`, or a tuple (flag, label, id, id2). The label is a number, or an array of numbers,
        whose count replaces ``flag``.
    s:
        The bytes of an image, or of anything else.

    Examples
    --------
    >>> record = mx.recordio.pack((0, [1.0, 2.0], 5, 0), b"bytes")
    >>> mx.recordio.unpack(record)
    (IRHeader(flag=2, label=array([1., 2.], dtype=float32), id=5, id2=0), b'bytes')
    """
    flag, label, id_, id2 = header
    labels = b""
    if np.ndim(label):
        values = np.asarray(label, np.dtype("<f4")).ravel()
        flag, label, labels = values.size, 0, values.tobytes()
    else:
        flag = 0
    try:
        return _HEADER.pack(flag, float(label), id_, id2) + labels + s
    except (StructError, OverflowError, TypeError, ValueError) as error:
        raise MXNetError(
            f"pack: {header!r} cannot be written: {error}. The label is a float or an array of floats, "
            f"id and id2 are integers of 64 bits"
        ) from error


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """The header and the bytes of an image of ``s``, a record that :func:`pack` made; an MXNetError for others."""
    if len(s) < _HEADER.size:
        raise MXNetError(f"unpack: the record has {len(s)} bytes, but a header of an image has {_HEADER.size}")
    flag, number, id_, id2 = _HEADER.unpack_from(s)
    if not flag:
        return IRHeader(flag, number, id_, id2), s[_HEADER.size :]
    end = _HEADER.size + 4 * flag
    if end > len(s):
        raise MXNetError(
            f"unpack: the header says that {flag} labels follow, but {len(s) - _HEADER.size} bytes are left; "
            f"this is no record of an image, or it is damaged"
        )
    label = np.frombuffer(s, np.dtype("<f4"), flag, _HEADER.size).astype(np.float32)
    return IRHeader(flag, label, id_, id2), s[end:]


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """A record of a header and an image.

    Parameters
    ----------
    header:
        An :class:`IRHeader`, or a tuple (flag, label, id, id2). The label is a number, or an array of numbers,
        whose count replaces ``flag``.
    img:
        An array (height, width, 3) of uint8, BGR as OpenCV has it, or (height, width) of gray.
    quality:
        1 to 100 for ``".jpg"``, and the level of compression, 0 to 9, for ``".png"``.
    img_fmt:
        The format, as the ending of a file: ``".jpg"`` or ``".png"``.

    Examples
    --------
    >>> image = np.full((2, 2, 3), 200, "uint8")
    >>> record = mx.recordio.pack_img((0, 3.0, 7, 0), image, img_fmt=".png")
    >>> header, found = mx.recordio.unpack_img(record)
    >>> header
    IRHeader(flag=0, label=3.0, id=7, id2=0)
    >>> bool((found == image).all())
    True
    """
    from hybridc.image import codec

    pixels = np.asarray(img.asnumpy() if hasattr(img, "asnumpy") else img)
    return pack(header, codec.encode(codec.swapped(pixels), img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, npt.NDArray[Any]]:
    """The header and the image of a record, as OpenCV decodes it.

    Parameters
    ----------
    s:
        The record, as :func:`pack_img` made it.
    iscolor:
        1 for BGR, 0 for gray of two dimensions, -1 for the channels that the file has.
    """
    from hybridc.image import codec

    header, data = unpack(s)
    image = codec.swapped(codec.decode(data, iscolor, "unpack_img: the image"))
    return header, image[:, :, 0] if iscolor == codec.GRAY else image


# --- bytes -----------------------------------------------------------------------------------------------------


def _as_bytes(buf: Any) -> bytes:
    if not isinstance(buf, bytes | bytearray | memoryview):
        hint = "; use .encode()" if isinstance(buf, str) else ""
        raise ArgumentTypeError(f"write: a record is bytes, got {type(buf).__name__}{hint}")
    data = bytes(cast("bytes", buf))
    if len(data) > _MOST_BYTES:
        raise MXNetError(f"write: a record has at most {_MOST_BYTES} bytes, got {len(data)}")
    return data


def _parts(data: bytes) -> Iterator[bytes]:
    """The bytes of a record in the file."""
    begin = 0
    for at in _marks(data):
        yield _PART.pack(_MAGIC, (_MIDDLE if begin else _FIRST) << _LENGTH_BITS | (at - begin))
        yield data[begin:at]
        begin = at + 4
    rest = len(data) - begin
    yield _PART.pack(_MAGIC, (_LAST if begin else _WHOLE) << _LENGTH_BITS | rest)
    yield data[begin:]
    yield bytes(-rest % 4)


def _marks(data: bytes) -> Iterator[int]:
    """The multiples of 4 at which the magic number stands in data."""
    at = data.find(_MARK)
    while at >= 0:
        if at % 4 == 0:
            yield at
        at = data.find(_MARK, at + 4)  # no two of them overlap


def _opened(path: str, writing: bool) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC if writing else os.O_RDONLY
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MXNetError(f"cannot {'write' if writing else 'read'} {path}: {error.strerror or error}") from error


def _append(fd: int, at: int, data: bytes, path: str) -> int:
    """Write all the data at an offset, the end of the file, or nothing; how many bytes."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError as error:
        _cut(fd, at)
        raise MXNetError(f"cannot write {path}: {error.strerror or error}") from error
    return len(data)


def _cut(fd: int, at: int) -> None:
    """Let a file end at an offset."""
    os.ftruncate(fd, at)
    os.lseek(fd, at, os.SEEK_SET)


def _index(path: str, key_type: Callable[[Any], Any]) -> Iterator[tuple[Any, int]]:
    """The keys and offsets of an index."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MXNetError(f"cannot read the index {path}: {getattr(error, 'strerror', None) or error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        key, _, offset = line.strip().partition("\t")
        try:
            made, place = key_type(key), int(offset.split("\t")[0])
        except ValueError as error:
            raise MXNetError(f"{path}, line {number}: expected a key, a tab and an offset, got {line!r}") from error
        if not 0 <= place <= _LAST_OFFSET:
            raise MXNetError(
                f"{path}, line {number}: no file has the offset {offset.strip()}: expected 0 to {_LAST_OFFSET}"
            )
        yield made, place
