"""The safetensors format: a length, so many bytes of JSON, and the elements, which are mapped into memory.

::

    u64 length, little-endian; JSON, padded with spaces: {"name": {"dtype": "F32", "shape": [2, 3],
        "data_offsets": [0, 24]}, …, "__metadata__": {"text": "text"}}; elements

Offsets count from the end of the JSON. The arrays fill the rest of the file, without gaps. A mapped array can be
written to: the pages that change become the process's own, and the file stays as it is.
"""

from __future__ import annotations

import io
import json
import math
import mmap
from typing import Any, BinaryIO, cast

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
from hybridc.dtypes import TYPES, kind_of
from hybridc.errors import MXNetError

_METADATA = "__metadata__"
_OWN_CODES = {"bool": "BOOL", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3"}
_CODES = {t.dtype: _OWN_CODES.get(t.name, f"{kind_of(t.dtype).upper()}{t.bits}") for t in TYPES.values()}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_LENGTH = 8  # bytes of the number in front
_LONGEST_HEADER = 100_000_000  # bytes of JSON, as in the library of the format's authors


def write(file: BinaryIO, contents: ArrayFile) -> None:
    """Write arrays by name: the header in their order, then the elements of the widest dtypes, so that all align."""
    if any(x.name == _METADATA for x in contents.arrays):
        raise MXNetError(f"save: {_METADATA!r} cannot be a name in safetensors, where it is that of texts")
    header: dict[str, Any] = {_METADATA: dict(contents.metadata)} if contents.metadata else {}
    header |= {x.name: {} for x in contents.arrays}
    end = 0
    stored = sorted(contents.arrays, key=lambda x: -x.dtype.itemsize)
    for x in stored:
        header[x.name] = {"dtype": _CODES[x.dtype], "shape": x.shape, "data_offsets": (end, end + x.nbytes)}
        end += x.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    file.write(len(text).to_bytes(_LENGTH, "little") + text)
    for x in stored:
        file.write(element_bytes(x.read()))


def scan(file: BinaryIO, where: str) -> ArrayFile:
    """The arrays of a file, in the order of its header; their memory is the file's where it can be mapped."""
    size = file.seek(0, io.SEEK_END)
    header, start = _header(file, size, where)
    metadata = header.pop(_METADATA, {})
    if not _is_dict(metadata) or not all(isinstance(text, str) for text in metadata.values()):
        raise damaged(where, f"{_METADATA} must be texts by name, got {_brief(metadata)}")
    arrays: list[StoredArray] = []
    extents: list[tuple[int, int, str]] = []
    memory = _mapped(file)
    for name, entry in header.items():
        array, first, last = _array(file, memory, start, size, name, entry, where)
        arrays.append(array)
        extents.append((first, last, name))
    end, before = 0, "the header"
    for first, last, name in sorted(extents):
        if first != end:
            what = "overlaps" if first < end else "does not begin at the end of"
            raise damaged(where, f"array {name!r} begins at byte {first} of the elements and {what} {before}")
        end, before = last, f"array {name!r}"
    if end != size - start:
        raise damaged(where, f"{size - start - end} bytes follow {before}, expected none")
    return ArrayFile(arrays, True, cast("dict[str, str]", metadata))


def _header(file: BinaryIO, size: int, where: str) -> tuple[dict[str, Any], int]:
    """The JSON, and the byte at which the elements begin."""
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH), "little")
    if size < _LENGTH or length > min(size - _LENGTH, _LONGEST_HEADER):
        raise damaged(where, f"its header claims {length} bytes, but the file has {size}, and the most are 100 MB")
    try:
        header: Any = json.loads(file.read(length).decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise damaged(where, f"its header is not JSON as safetensors has it: {error}") from error
    if not _is_dict(header):
        raise damaged(where, f"its header must be a JSON object, got {_brief(header)}")
    return header, _LENGTH + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"two values are called {next(name for name in names if names.count(name) > 1)!r}")
    return found


def _array(
    file: BinaryIO, memory: Any, start: int, size: int, name: str, entry: Any, where: str
) -> tuple[StoredArray, int, int]:
    """An array, and the first byte and the last of its elements, counted from ``start``."""

    def wrong(why: str) -> MXNetError:
        return damaged(where, f"array {name!r}: {why}")

    if not _is_dict(entry) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise wrong(f"expected dtype, shape and data_offsets, got {_brief(entry)}")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise wrong(f"its dtype {_brief(code)} is none of {', '.join(_DTYPES)}")
    if not _are_sizes(shape) or len(shape) > MOST_DIMENSIONS:
        raise wrong(f"its shape must be at most {MOST_DIMENSIONS} sizes, got {_brief(shape)}")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size - start:
        raise wrong(f"its data_offsets must be two of {size - start} bytes, in order, got {_brief(offsets)}")
    (first, last), dtype = offsets, _DTYPES[code]
    if math.prod(shape) * dtype.itemsize != last - first:
        raise wrong(f"{code} of shape {shape} has not {last - first} bytes, as its data_offsets say")

    def read() -> Array:
        try:
            if memory is None or not last - first or (start + first) % dtype.itemsize:
                file.seek(start + first)
                stored = read_stored(file, tuple(shape), in_file(dtype))
            else:
                stored = np.frombuffer(memory, in_file(dtype), math.prod(shape), start + first).reshape(shape)
        except ValueError as error:  # sizes beyond what NumPy counts, or a file that has become shorter
            raise wrong(str(error)) from error
        return from_file(stored, dtype)

    return StoredArray(name, tuple(shape), dtype, read), first, last


def _mapped(file: BinaryIO) -> Any:
    """The memory of a file, or None if it cannot be mapped, as that of an empty one or of no file."""
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        return None


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in cast("list[Any]", value))


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 80 else f"{text[:77]}..."


FORMAT = FileFormat("safetensors", _CODES.keys(), False, True, scan, write)
