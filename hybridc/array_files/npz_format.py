"""NumPy's ``.npz``: a zip archive with a ``.npy`` file for each array, compressed or not. Pickles are refused.

NumPy has no name for bfloat16 and 8-bit floats, and stores their bits as elements of type V: here ``V2`` is bfloat16,
and ``V1`` is float8_e4m3fn.
"""

from __future__ import annotations

import contextlib
import io
import math
import struct
import tokenize
import warnings
import zipfile
from collections.abc import Generator
from typing import Any, BinaryIO

import numpy as np

from hybridc.array_files.contents import (
    DENSE_LIMIT,
    MOST_DIMENSIONS,
    Array,
    ArrayFile,
    FileFormat,
    StoredArray,
    damaged,
    from_file,
    read_stored,
)
from hybridc.dtypes import STORED, TYPES, DType
from hybridc.errors import FileFormatError, MXNetError
from hybridc.ground.unpacking import undamaged

_TITLE = "NumPy's .npz format"
MARK = b"PK"
_MEMBER = ".npy"
_BITS = {np.dtype(f"V{dtype.itemsize}"): dtype for dtype in STORED}
# A zip's names are at most 65,535 bytes long.
_LONGEST_NAME = 65_000
# An archive of more than DENSE_LIMIT bytes once unpacked must have a byte for so many of them: weights hardly compress.
_MOST_COMPRESSED = 100
# What zipfile and NumPy raise, beside MXNetErrors of :func:`undamaged`, for headers that are damaged.
_DAMAGES = (ValueError, LookupError, TypeError, SyntaxError, RecursionError, MemoryError, struct.error)


def write(file: BinaryIO, contents: ArrayFile) -> None:
    """Write arrays by name, uncompressed."""
    with zipfile.ZipFile(file, "w") as archive:
        for x in contents.arrays:
            name = f"{x.name}{_MEMBER}"
            if "\0" in name or len(name.encode()) > _LONGEST_NAME:
                raise MXNetError(f"save: {x.name[:80]!r} cannot be a name in {_TITLE}: it is too long, or has a 0")
            elements = x.read()
            stored = elements.view(f"V{x.dtype.itemsize}") if x.dtype in STORED else elements
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, stored, allow_pickle=False)


def scan(file: BinaryIO, where: str) -> ArrayFile:
    """The arrays of an archive."""
    size = file.seek(0, io.SEEK_END)
    with _reported(where):
        archive = zipfile.ZipFile(file)
        members = archive.infolist()
    _check_sizes(members, size, where)
    if members and not any(info.filename.endswith(_MEMBER) for info in members):
        raise FileFormatError(
            f"{where} is a zip archive, but not of arrays of NumPy: it begins with {members[0].filename!r}. If PyTorch "
            "wrote it, save its arrays there by safetensors.torch.save_file(model.state_dict(), 'w.safetensors')"
        )
    arrays: dict[str, StoredArray] = {}
    for info in members:
        name = info.filename.removesuffix(_MEMBER)
        if name == info.filename or name in arrays:
            raise damaged(where, f"{info.filename!r} is there twice, or not an array")
        arrays[name] = _array(archive, info, name, where)
    return ArrayFile(list(arrays.values()), True, {})


def _check_sizes(members: list[zipfile.ZipInfo], size: int, where: str) -> None:
    """Refuse archives whose parts overlap, and those that become enormous."""
    if sum(info.compress_size for info in members) > size:
        raise damaged(where, f"its arrays overlap, or are longer than the {size} bytes of the file")
    unpacked = sum(info.file_size for info in members)
    if unpacked > max(DENSE_LIMIT, _MOST_COMPRESSED * size):
        raise MXNetError(
            f"{where} has {size} bytes, and would have {unpacked} unpacked, more than {_MOST_COMPRESSED} times as "
            "many; if you trust it, write it again by numpy.savez, which does not compress"
        )


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, where: str) -> StoredArray:
    what = f"{where}: array {name!r}"
    with _reported(what), archive.open(info) as member:
        shape, in_columns, stored = _header(member)
        start = member.tell()
    if stored.hasobject:
        raise MXNetError(f"{what} has Python's objects, which are pickled: loading them could run code")
    dtype = _BITS.get(stored, stored.newbyteorder("="))
    if dtype not in TYPES:
        raise MXNetError(f"{what} has dtype {stored}, expected one of {', '.join(t.name for t in TYPES.values())}")
    if len(shape) > MOST_DIMENSIONS or any(n < 0 for n in shape):
        raise damaged(what, f"its shape is {shape}")
    if math.prod(shape) * stored.itemsize != info.file_size - start:
        raise damaged(what, f"{stored} of shape {shape} has not {info.file_size - start} bytes, as the archive says")
    bits = np.dtype(f"<u{stored.itemsize}") if stored in _BITS or stored.kind == "b" else stored

    def read() -> Array:
        with _reported(what), archive.open(info) as member:
            member.read(start)
            values = read_stored(member, shape[::-1] if in_columns else shape, bits)
        return from_file(values.transpose() if in_columns else values, dtype)

    return StoredArray(name, shape, dtype, read)


def _header(member: Any) -> tuple[tuple[int, ...], bool, DType]:
    """Shape, whether columns are stored one after the other, and dtype."""
    version = np.lib.format.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of .npy has named fields")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 2's numbers
        return read(member)


@contextlib.contextmanager
def _reported(what: str) -> Generator[None]:
    """Errors that damaged bytes cause, as MXNetErrors."""
    try:
        with undamaged(what):
            yield
    except (*_DAMAGES, tokenize.TokenError) as error:
        if isinstance(error, MXNetError):
            raise
        raise damaged(what, str(error)) from error


FORMAT = FileFormat(_TITLE, TYPES.keys(), False, False, scan, write)
