"""MXNet's ``.params`` format: binary files of arrays, written and read byte for byte as MXNet 1.9.1 does.

All numbers are little-endian::

    file   u64 0x112, u64 0, u64 count, arrays, u64 count of names (0 for a list), names
    name   u64 length, UTF-8
    array  u32 magic, i32 storage type, shape, i32 device type, i32 device number, i32 type flag, elements
    shape  i32 dimensions, i64 sizes

The magic tells the version. ``V2`` is written, but under ``np_shape``, and where an array has no dimension or no
element, every array of the file is ``V3``, which MXNet uses (and demands, on reading) under ``np_shape``. ``V1`` has no
storage type; before it there was no magic but a ``u32`` number of dimensions and ``u32`` sizes. A sparse array has the
shape of its values before its own, and behind the type flag type and shape of each index array, whose elements follow
the values.
"""

from __future__ import annotations

import functools
import io
import math
from dataclasses import replace
from struct import Struct
from typing import Any, BinaryIO

import numpy as np

from hybridc.array_files.contents import (
    MOST_DIMENSIONS,
    Array,
    ArrayFile,
    FileFormat,
    StoredArray,
    damaged,
    element_bytes,
    from_file,
    in_file,
    read_stored,
)
from hybridc.dtypes import TYPES, DType
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE
from hybridc.sparse_storage import STORAGE_TYPES, CsrStorage, RowSparseStorage, SparseStorage

_TITLE = "MXNet's format"
TYPE_FLAGS = {t.dtype: t.flag for t in TYPES.values() if t.flag is not None}
_ROW_SPARSE = 1  # the index of that kind
_Parts = list[tuple[tuple[int, ...], DType]]

_I32, _U32, _U64 = Struct("<i"), Struct("<I"), Struct("<Q")
# How MXNet's files begin.
MARK = _U64.pack(0x112)
# How arrays in them begin: of its formats 1, 2 and 3.
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_CPU = Struct("<ii").pack(1, 0)
_TYPES = {flag: dtype for dtype, flag in TYPE_FLAGS.items()}


def write(file: BinaryIO, contents: ArrayFile) -> None:
    """Write arrays, and their names."""
    arrays = contents.arrays
    magic = _V3 if STATE.np_shape or not all(x.shape and math.prod(x.shape) for x in arrays) else _V2
    file.write(MARK + _U64.pack(0) + _U64.pack(len(arrays)))
    for x in arrays:
        kind, values = STORAGE_TYPES.index(x.stype), x.read()
        of_values = _shape_bytes(values.data.shape) if kind else b""
        file.write(_U32.pack(magic) + _I32.pack(kind) + of_values + _shape_bytes(x.shape))
        file.write(_CPU + _I32.pack(TYPE_FLAGS[x.dtype]))
        indices = values.auxiliary if kind else ()
        for part in indices:
            file.write(_I32.pack(TYPE_FLAGS[part.dtype]) + _shape_bytes(part.shape))
        for part in (values.data if kind else values, *indices):
            file.write(element_bytes(part))
    names = [x.name.encode() for x in arrays] if contents.is_named else []
    file.write(_U64.pack(len(names)))
    for name in names:
        file.write(_U64.pack(len(name)) + name)


def _shape_bytes(shape: tuple[int, ...]) -> bytes:
    return _I32.pack(len(shape)) + Struct(f"<{len(shape)}q").pack(*shape)


def scan(file: BinaryIO, where: str) -> ArrayFile:
    """The arrays of a file, of any version."""
    return _FileReader(file, where).contents()


def _array_of_bytes(data: Any) -> Array:
    """The array of which a file would have these bytes; of none, an array without elements."""
    if not isinstance(data, bytes | bytearray):
        raise TypeError(f"a pickled array must be bytes, got {type(data).__name__}")
    if not data:
        return np.zeros(0, np.float32)
    return _FileReader(io.BytesIO(data), "the pickled array").array("the header").read()


HOOKS.register(array_of_bytes=_array_of_bytes)


class _FileReader:
    """Reads a file from its start; every error says which array and byte it is about."""

    def __init__(self, file: Any, where: str) -> None:
        self.file = file
        self.where = where
        self.what = "the header"
        self.at = 0
        self.size = file.seek(0, io.SEEK_END)
        file.seek(0)

    def damaged(self, why: str) -> MXNetError:
        return damaged(self.where, f"{self.what}, byte {self.at}: {why}")

    def need(self, n: int) -> None:
        if n > self.size - self.at:
            raise self.damaged(f"{n} bytes expected, {self.size - self.at} left")

    def take(self, n: int) -> bytes:
        self.need(n)
        taken = self.file.read(n)
        self.at += n
        return taken

    def skip(self, n: int) -> None:
        self.need(n)
        self.at = self.file.seek(self.at + n)

    def number(self, kind: Struct) -> int:
        return kind.unpack(self.take(kind.size))[0]

    def contents(self) -> ArrayFile:
        if self.size < 8 or self.take(8) != MARK:
            raise MXNetError(f"{self.where} is not a file of arrays in {_TITLE}: it does not begin with {MARK.hex()}")
        self.number(_U64)
        count = self.number(_U64)
        arrays: list[StoredArray] = []
        for i in range(count):
            arrays.append(self.array(f"array {i} of {count}"))
        self.what = "the names"
        named = self.number(_U64)
        if named not in (0, count):
            raise self.damaged(f"{named} names for {count} arrays")
        if named:
            arrays = [replace(x, name=self.name(i)) for i, x in enumerate(arrays)]
        return ArrayFile(arrays, named > 0, {})

    def name(self, i: int) -> str:
        self.what = f"name {i}"
        encoded = self.take(self.number(_U64))
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"it is not UTF-8: {error}") from error

    def array(self, what: str) -> StoredArray:
        """One array, of any version, behind which the file stands then."""
        self.what = what
        magic = self.number(_U32)
        storage = self.number(_I32) if magic in (_V2, _V3) else 0
        if not 0 <= storage < len(STORAGE_TYPES):
            raise self.damaged(f"unknown storage type {storage}")
        # COMPAT(mxnet): V3 is read without np_shape, too.
        if storage:
            self.shape(magic)  # of the values, which MXNet sometimes writes before it knows it: the indices tell
        shape = self.shape(magic)
        if shape is None:  # an array that was never given a shape: nothing follows
            return StoredArray("", (0,), np.dtype(np.float32), functools.partial(np.zeros, 0, np.float32))
        self.take(8)  # where it was: it is loaded on the CPU
        parts = self.parts(storage, shape)
        start = self.at
        for part, dtype in parts:
            self.skip(math.prod(part) * dtype.itemsize)
        read = functools.partial(self.read, what, start, parts, storage, shape)
        return StoredArray("", shape, parts[0][1], read, STORAGE_TYPES[storage])

    def parts(self, storage: int, shape: tuple[int, ...]) -> _Parts:
        """Shape and dtype of the elements of an array; of a sparse one the values, then the indices."""
        dtype = self.dtype()
        if not storage:
            return [(shape, dtype)]
        indices = [(self.dtype(), self.shape(_V2) or (0,)) for _ in range(storage)]
        count = math.prod(indices[-1][1])
        values = (count, *shape[1:]) if storage == _ROW_SPARSE else (count,)
        return [(values, dtype), *((size, type_) for type_, size in indices)]

    def shape(self, magic: int) -> tuple[int, ...] | None:
        old = magic not in (_V1, _V2, _V3)
        rank = magic if old else self.number(_I32)
        if rank in (-1, 0) and not (rank == 0 and magic == _V3):
            return None
        if not 0 <= rank <= MOST_DIMENSIONS:
            raise self.damaged(f"neither a known version nor a number of dimensions: {rank}")
        kind = Struct(f"<{rank}{'I' if old else 'q'}")
        shape = kind.unpack(self.take(kind.size))
        if any(n < 0 for n in shape):
            raise self.damaged(f"negative size in shape {shape}")
        return shape

    def dtype(self) -> DType:
        flag = self.number(_I32)
        if flag not in _TYPES:
            raise self.damaged(f"unknown type flag {flag}")
        return _TYPES[flag]

    def read(self, what: str, start: int, parts: _Parts, storage: int, shape: tuple[int, ...]) -> Any:
        """The elements of an array, which begin at this byte."""
        self.what = what
        self.at = self.file.seek(start)
        values, *indices = [self.elements(*part) for part in parts]
        return self.sparse(storage, shape, values, indices) if storage else values

    def elements(self, shape: tuple[int, ...], dtype: DType) -> Array:
        try:
            values = from_file(read_stored(self.file, shape, in_file(dtype)), dtype)
        except ValueError as error:  # also no element, but sizes beyond what NumPy counts
            raise self.damaged(f"shape {shape}: {error}") from error
        self.at += values.nbytes
        return values

    def sparse(self, storage: int, shape: tuple[int, ...], values: Array, indices: list[Array]) -> SparseStorage:
        """The sparse array of these values."""
        if any(x.dtype.kind not in "iu" for x in indices):
            raise self.damaged("its indices are no integers")
        places = [x.astype(np.int64, copy=False) for x in indices]
        made = RowSparseStorage(shape, values, *places) if storage == _ROW_SPARSE else _csr(shape, values, *places)
        try:
            if not shape or (made.stype == "csr" and len(shape) != 2):
                raise MXNetError(f"a {made.stype} array has shape {shape}")
            made.check(False)
        except MXNetError as error:
            raise self.damaged(str(error)) from error
        return made


def _csr(shape: tuple[int, ...], values: Array, ends: Array, columns: Array) -> CsrStorage:
    return CsrStorage(shape, values, columns, ends)


FORMAT = FileFormat(_TITLE, TYPE_FLAGS.keys(), True, False, scan, write)
