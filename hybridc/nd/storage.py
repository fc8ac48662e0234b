"""Arrays in files: MXNet's binary ``.params`` format, written and read byte for byte as MXNet 1.9.1 does.

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

import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, values_of
from hybridc.dtypes import BFLOAT16, STORED, TYPES, DType
from hybridc.errors import MXNetError, NestedArraysError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE
from hybridc.ground.whole_files import replacing

# The marks with which MXNet's files begin, and arrays in them: of its formats 1, 2 and 3.
_FILE = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_I32, _U32, _U64 = Struct("<i"), Struct("<I"), Struct("<Q")
_CPU = Struct("<ii").pack(1, 0)
_STORAGE = ("default", "row_sparse", "csr")
_MOST_DIMENSIONS = 32  # of an array: NumPy's own bound, up to version 1
# A small file may claim a sparse array of any size: above this one nobody wants it dense.
_DENSE_LIMIT = 1 << 32
TYPE_FLAGS = {t.dtype: t.flag for t in TYPES.values() if t.flag is not None}
# MXNet's tables of numbers, under its names: of dtypes, what gradients are asked for, and storage types.
DTYPE_NP_TO_MX: dict[Any, int] = {None: -1, **{d.type: n for d, n in TYPE_FLAGS.items() if n < 8}}
DTYPE_NP_TO_MX[BFLOAT16] = TYPE_FLAGS[BFLOAT16]
DTYPE_MX_TO_NP: dict[int, Any] = {flag: dtype for dtype, flag in DTYPE_NP_TO_MX.items()}
GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}  # kWriteInplace, 2, cannot be asked for
STORAGE_TYPE_STR_TO_ID = {"undefined": -1, **{name: i for i, name in enumerate(_STORAGE)}}
STORAGE_TYPE_ID_TO_STR = {i: name for name, i in STORAGE_TYPE_STR_TO_ID.items()}
_TYPES = {flag: dtype for dtype, flag in TYPE_FLAGS.items()}


def _in_file(dtype: DType) -> DType:
    """The file format of a dtype's elements; a bool is a byte that is 0 or not."""
    whole = f"<u{dtype.itemsize}"
    return np.dtype(whole if dtype in STORED or dtype.kind == "b" else dtype.newbyteorder("<"))


def save(fname: str | os.PathLike[str], data: NDArray | Sequence[NDArray] | Mapping[str, NDArray]) -> None:
    """Save one array, a list of arrays, or a dict of named arrays. The file appears whole or not at all."""
    names: list[str] = []
    if isinstance(data, NDArray):
        values = [data]
    elif isinstance(data, Mapping):
        names, values = list(data.keys()), list(data.values())
    elif isinstance(data, list | tuple):
        values = list(data)
    else:
        raise NestedArraysError(f"save: data must be an NDArray, a list or a dict of such, got {type(data).__name__}")
    for i, x in enumerate(values):
        what = repr(names[i]) if names else f"element {i}"
        if not isinstance(x, NDArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"save: only NDArrays can be saved, {what} is {type(x).__name__}")
        if np.dtype(x.dtype) not in TYPE_FLAGS:
            raise MXNetError(f"save: {what} has dtype {np.dtype(x.dtype)}, which the format cannot hold; use .astype")
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"save: names must be strings, got {name!r}")
    with replacing(fname) as file:
        _write(file, [values_of(x) for x in values], names)


def load(fname: str | os.PathLike[str]) -> Any:
    """The list or dict of arrays in a file of :func:`save` or of MXNet; sparse arrays become dense."""
    try:
        with Path(fname).open("rb") as file:
            source = file if file.seekable() else io.BytesIO(file.read())
            return _FileReader(source, str(fname)).arrays()
    except OSError as error:
        raise MXNetError(f"cannot read {fname}: {error.strerror or error}") from error


def load_frombuffer(buf: bytes | bytearray | memoryview) -> Any:
    """As :func:`load`, from the bytes of a file."""
    if not isinstance(buf, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"load_frombuffer: buf must be bytes, got {type(buf).__name__}")
    return _FileReader(io.BytesIO(buf), "the buffer").arrays()


def _array_of_bytes(data: Any) -> npt.NDArray[Any]:
    """The array of which a file would have these bytes; of none, an array without elements."""
    if not isinstance(data, bytes | bytearray):
        raise TypeError(f"a pickled array must be bytes, got {type(data).__name__}")
    return _FileReader(io.BytesIO(data), "the pickled array").array() if data else np.zeros(0, np.float32)


HOOKS.register(array_of_bytes=_array_of_bytes)


def load_named(fname: str | os.PathLike[str]) -> dict[str, NDArray]:
    """A dict of arrays; an error for a file that holds a list."""
    loaded = load(fname)
    if isinstance(loaded, dict):
        return loaded  # pyright: ignore[reportUnknownVariableType]
    if loaded:
        raise MXNetError(f"{fname} holds a list of arrays, expected arrays with names, as a dict gives them to save")
    return {}  # an empty dict is written like an empty list


# --- writing ---------------------------------------------------------------------------------------------------


def _write(file: BinaryIO, arrays: Sequence[npt.NDArray[Any]], names: Sequence[str]) -> None:
    magic = _V3 if STATE.np_shape or not all(x.size and x.ndim for x in arrays) else _V2
    file.write(_U64.pack(_FILE) + _U64.pack(0) + _U64.pack(len(arrays)))
    for x in arrays:
        flag = TYPE_FLAGS[x.dtype.newbyteorder("=")]
        x = x.view(f"u{x.itemsize}") if x.dtype in STORED else x
        shape = _I32.pack(x.ndim) + Struct(f"<{x.ndim}q").pack(*x.shape)
        file.write(_U32.pack(magic) + _I32.pack(0) + shape + _CPU + _I32.pack(flag))
        file.write(np.asarray(x, _in_file(_TYPES[flag]), order="C").reshape(-1).view(np.uint8).data)
    file.write(_U64.pack(len(names)))
    for name in names:
        encoded = name.encode()
        file.write(_U64.pack(len(encoded)) + encoded)


# --- reading ---------------------------------------------------------------------------------------------------


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
        return MXNetError(f"{self.where} is damaged: {self.what}, byte {self.at}: {why}")

    def need(self, n: int) -> None:
        if n > self.size - self.at:
            raise self.damaged(f"{n} bytes expected, {self.size - self.at} left")

    def take(self, n: int) -> bytes:
        self.need(n)
        taken = self.file.read(n)
        self.at += n
        return taken

    def number(self, kind: Struct) -> int:
        return kind.unpack(self.take(kind.size))[0]

    def arrays(self) -> Any:
        """Everything: a list, or a dict if there are names."""
        if self.size < 8 or self.number(_U64) != _FILE:
            raise MXNetError(
                f"{self.where} is not a file of arrays in MXNet's format: it does not begin with "
                f"{_U64.pack(_FILE).hex()}"
            )
        self.number(_U64)
        count = self.number(_U64)
        values: list[NDArray] = []
        for i in range(count):
            self.what = f"array {i} of {count}"
            values.append(NDArray(self.array()))
        self.what = "the names"
        named = self.number(_U64)
        if named not in (0, count):
            raise self.damaged(f"{named} names for {count} arrays")
        if not named:
            return values
        return {self.name(i): value for i, value in enumerate(values)}

    def name(self, i: int) -> str:
        self.what = f"name {i}"
        encoded = self.take(self.number(_U64))
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"it is not UTF-8: {error}") from error

    def array(self) -> npt.NDArray[Any]:
        """One array, of any version."""
        magic = self.number(_U32)
        storage = self.number(_I32) if magic in (_V2, _V3) else 0
        if not 0 <= storage < len(_STORAGE):
            raise self.damaged(f"unknown storage type {storage}")
        # COMPAT(mxnet): V3 is read without np_shape, too, and sparse arrays become dense.
        if storage:
            self.shape(magic)  # of the values, which MXNet sometimes writes before it knows it: the indices tell
        shape = self.shape(magic)
        if shape is None:  # an array that was never given a shape: nothing follows
            return np.zeros(0, np.float32)
        self.take(8)  # where it was: it is loaded on the CPU
        flag = self.flag()
        return self.sparse(_STORAGE[storage], shape, flag) if storage else self.elements(shape, flag)

    def shape(self, magic: int) -> tuple[int, ...] | None:
        old = magic not in (_V1, _V2, _V3)
        rank = magic if old else self.number(_I32)
        if rank in (-1, 0) and not (rank == 0 and magic == _V3):
            return None
        if not 0 <= rank <= _MOST_DIMENSIONS:
            raise self.damaged(f"neither a known version nor a number of dimensions: {rank}")
        kind = Struct(f"<{rank}{'I' if old else 'q'}")
        shape = kind.unpack(self.take(kind.size))
        if any(n < 0 for n in shape):
            raise self.damaged(f"negative size in shape {shape}")
        return shape

    def flag(self) -> int:
        flag = self.number(_I32)
        if flag not in _TYPES:
            raise self.damaged(f"unknown type flag {flag}")
        return flag

    def elements(self, shape: tuple[int, ...], flag: int) -> npt.NDArray[Any]:
        wanted = _TYPES[flag]
        dtype = _in_file(wanted)
        self.need(math.prod(shape) * dtype.itemsize)
        try:
            made: Any = np.empty(shape, dtype)
        except ValueError as error:  # no element, but sizes beyond what NumPy counts
            raise self.damaged(f"shape {shape}: {error}") from error
        read = self.file.readinto(made.reshape(-1).view(np.uint8))
        if read != made.nbytes:
            raise self.damaged(f"{made.nbytes} bytes expected, {read} read")
        self.at += made.nbytes
        if wanted in STORED:
            return made.astype(dtype.newbyteorder("="), copy=False).view(wanted)
        return made.astype(wanted, copy=False)

    def sparse(self, kind: str, shape: tuple[int, ...], flag: int) -> npt.NDArray[Any]:
        indices = [(self.flag(), self.shape(_V2) or (0,)) for _ in range(1 if kind == "row_sparse" else 2)]
        count = math.prod(indices[-1][1])
        values = self.elements((count, *shape[1:]) if kind == "row_sparse" else (count,), flag)
        read = [self.elements(index, type_) for type_, index in indices]
        if math.prod(shape) * values.itemsize > _DENSE_LIMIT:
            raise self.damaged(f"a {kind} array of shape {shape} is too large to be made dense")
        try:
            dense = np.zeros(shape, values.dtype)
            if any(x.dtype.kind not in "iu" or (x.size and x.min() < 0) for x in read):
                raise IndexError("an index is negative or not an integer")
            dense[tuple(read) if kind == "row_sparse" else _csr_places(*read)] = values
        except (IndexError, ValueError, MemoryError) as error:
            raise self.damaged(f"its indices do not fit the shape {shape}: {error}") from error
        return dense


def _csr_places(starts: npt.NDArray[Any], columns: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Row and column of each value, from where each row starts among the columns."""
    counts = np.diff(starts.astype(np.int64))
    if starts.size == 0 or starts[0] != 0 or counts.sum() != columns.size:
        raise ValueError(f"the rows end at {starts[-1:]}, but there are {columns.size} values")
    return np.repeat(np.arange(counts.size), counts), columns
