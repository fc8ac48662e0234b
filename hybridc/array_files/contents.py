"""What a file of arrays holds, whatever its format, and elements as bytes, which all formats have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hybridc.dtypes import STORED, DType
from hybridc.errors import MXNetError
from hybridc.ground.records import dataclass

Array = npt.NDArray[Any]

MOST_DIMENSIONS = 32  # of an array: NumPy's own bound, up to version 1
# A small file may claim an array of any size, sparse or compressed: above these bytes nobody wants it in memory.
DENSE_LIMIT = 1 << 32


@dataclass(frozen=True)
class StoredArray:
    """An array of a file, or for one: what is known before its elements are read.

    ``read`` gives the elements, in memory of their own or mapped from the file, while the file is open: a NumPy array,
    or a :class:`SparseStorage` where the storage type ``stype`` says so. In a list an array has no ``name``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    read: Callable[[], Any]
    stype: str = "default"

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class ArrayFile:
    """The arrays of a file: named ones, or a list. ``metadata`` are texts that only safetensors has."""

    arrays: Sequence[StoredArray]
    is_named: bool
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class FileFormat:
    """How files of a format are read and written, and what they can hold beside named arrays.

    ``scan(file, where)`` says what an open file holds; a damaged one is an MXNetError that begins with ``where``.
    """

    title: str
    dtypes: Collection[DType]
    holds_lists: bool  # and sparse arrays
    holds_metadata: bool
    scan: Callable[[BinaryIO, str], ArrayFile]
    write: Callable[[BinaryIO, ArrayFile], None]


def in_file(dtype: DType) -> DType:
    """How elements of a dtype are stored: little-endian, a bool as a byte that is 0 or not."""
    bits = f"<u{dtype.itemsize}"
    return np.dtype(bits if dtype in STORED or dtype.kind == "b" else dtype.newbyteorder("<"))


def from_file(stored: Array, dtype: DType) -> Array:
    """Elements of a dtype from those that are stored; the same memory where they are the same bytes."""
    if dtype in STORED:
        return stored.astype(stored.dtype.newbyteorder("="), copy=False).view(dtype)
    return stored.astype(dtype, copy=False)


def element_bytes(array: Array) -> memoryview:
    """The elements of an array as they are stored, in C order."""
    dtype = array.dtype.newbyteorder("=")
    bits = array.view(f"u{array.itemsize}") if dtype in STORED else array
    return np.asarray(bits, in_file(dtype), order="C").reshape(-1).view(np.uint8).data


def read_stored(file: Any, shape: tuple[int, ...], stored: DType) -> Array:
    """Elements as they are stored, from where an open file stands; a ValueError if they are not there.

    Whoever calls it has compared their size with that of the file.
    """
    elements: Any = np.empty(shape, stored)
    unread = memoryview(elements.reshape(-1).view(np.uint8))
    while unread:
        count = file.readinto(unread[: 1 << 24])  # bounded: members of an archive make a copy of what is read
        if not count:
            raise ValueError(f"{elements.nbytes} bytes expected, {elements.nbytes - len(unread)} read")
        unread = unread[count:]
    return elements


def damaged(where: str, why: str) -> MXNetError:
    """The error that a file is damaged."""
    return MXNetError(f"{where} is damaged: {why}")
