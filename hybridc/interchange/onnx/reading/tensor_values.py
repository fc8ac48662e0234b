"""Tensors of ONNX files as NumPy arrays, checked before memory is taken for them."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# Messages of protobuf have fields that type checkers do not see.

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hybridc.errors import OnnxFileError
from hybridc.interchange.onnx.reading.model_graph import Array

#: The fields that hold a tensor's elements one by one, and how many of them an element needs.
_LISTS = ("float_data", "int32_data", "int64_data", "string_data", "double_data", "uint64_data")
_PAIRS = frozenset((TensorProto.COMPLEX64, TensorProto.COMPLEX128))
# Bits of an element in the bytes of a file, where that is not the size of the dtype.
_BITS = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
STRING = TensorProto.STRING


def dtype_of_element(element: int, where: str) -> np.dtype[Any]:
    """The NumPy dtype of ONNX's number of a dtype; strings are objects."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, ValueError, TypeError) as error:
        raise OnnxFileError(f"{where}: there is no ONNX dtype with the number {element}") from error


def element_of(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    dtype = np.dtype(dtype)
    return STRING if dtype.kind in "OUS" else int(helper.np_dtype_to_tensor_dtype(dtype))


def bits_of(element: int) -> int:
    """How many bits an element has in a file."""
    name = TensorProto.DataType.Name(element)
    return _BITS.get(name, 8 * np.dtype(helper.tensor_dtype_to_np_dtype(element)).itemsize)


def array_of(tensor: Any, folder: Path | None, where: str) -> Array:
    """The elements of a tensor; those in a file of their own are mapped, not read.

    ``folder`` is that of the model, None if it came from memory. Memory is taken only for elements that are there.
    """
    where = f"{where}, tensor {tensor.name!r}"
    shape = tuple(int(n) for n in tensor.dims)
    if any(n < 0 for n in shape):
        raise OnnxFileError(f"{where}: its shape {shape} has a negative size")
    dtype = dtype_of_element(tensor.data_type, where)
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, shape, dtype, count, folder, where)
    if tensor.HasField("raw_data"):
        needed, present = _bytes(tensor.data_type, count), len(tensor.raw_data)
    else:
        lists = [getattr(tensor, name) for name in _LISTS]
        needed, present = _listed(tensor.data_type, count), sum(map(len, lists))
    if needed != present:
        raise OnnxFileError(
            f"{where}: its shape {shape} and dtype {dtype} need {needed} bytes or values, the file has {present}"
        )
    try:
        if tensor.data_type == STRING:
            return np.array([s.decode() for s in tensor.string_data], dtype=object).reshape(shape)
        return np.asarray(numpy_helper.to_array(tensor)).reshape(shape)
    except (ValueError, TypeError, OverflowError, AttributeError, RuntimeError) as error:
        raise OnnxFileError(f"{where}: its elements cannot be read: {error}") from error


def _bytes(element: int, count: int) -> int:
    return -(-count * bits_of(element) // 8)


def _listed(element: int, count: int) -> int:
    """How many values of a list there must be; those of a few bits share one."""
    if element in _PAIRS:
        return 2 * count
    bits = bits_of(element)
    if element == STRING or bits >= 8:
        return count
    return -(-count * bits // 8)


def _external(
    tensor: Any, shape: tuple[int, ...], dtype: np.dtype[Any], count: int, folder: Path | None, where: str
) -> Array:
    """Elements in a file beside the model; a name that leads out of the model's folder is refused."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise OnnxFileError(
            f"{where}: its elements are in the file {location!r}, whose folder is unknown; give the name of the file "
            "instead of the model"
        )
    path = _inside(folder, location, where)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError as error:
        raise OnnxFileError(f"{where}: offset and length in {location!r} must be numbers: {error}") from error
    needed = _bytes(tensor.data_type, count)
    present = path.stat().st_size
    if offset < 0 or length not in (-1, needed) or offset + needed > present:
        raise OnnxFileError(
            f"{where}: {needed} bytes are needed of {location!r} from byte {offset} on, which has {present} bytes"
            + (f"; the model says {length} bytes" if length not in (-1, needed) else "")
        )
    if not count:
        return np.zeros(shape, dtype)
    if tensor.data_type == STRING or bits_of(tensor.data_type) != 8 * dtype.itemsize:
        return _unpacked(tensor, path, offset, needed, shape)
    mapped = np.memmap(path, np.uint8, "r", offset, (needed,))
    return np.asarray(mapped).view(dtype.newbyteorder("<")).reshape(shape)


def _inside(folder: Path, location: str, where: str) -> Path:
    """The path of a file below a folder, which neither its name nor a link may leave."""
    parts = PurePosixPath(location.replace("\\", "/"))
    if not location or "\0" in location or parts.is_absolute() or ".." in parts.parts or ":" in location:
        raise OnnxFileError(f"{where}: its file {location!r} is not inside the folder of the model")
    path = (folder / parts).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise OnnxFileError(f"{where}: its file {location!r} leads out of the folder of the model")
    if not path.is_file():
        raise OnnxFileError(f"{where}: its file {location!r} is missing in {folder}; copy it there")
    return path


def _unpacked(tensor: Any, path: Path, offset: int, needed: int, shape: tuple[int, ...]) -> Array:
    """Elements of fewer bits than a byte."""
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read(needed)
    packed = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
    return np.asarray(numpy_helper.to_array(packed)).reshape(shape)


def sparse_array_of(sparse: Any, folder: Path | None, where: str, limit: int) -> Array:
    """A sparse tensor as a dense array, of at most ``limit`` elements."""
    values, indices = array_of(sparse.values, folder, where), array_of(sparse.indices, folder, where)
    shape = tuple(int(n) for n in sparse.dims)
    if any(n < 0 for n in shape) or math.prod(shape) > limit:
        raise OnnxFileError(f"{where}: a sparse tensor of shape {shape} is not read; at most {limit} elements are")
    flat = indices if indices.ndim == 1 else indices @ _strides(shape) if indices.shape[-1:] == (len(shape),) else None
    if (
        flat is None
        or flat.shape != values.shape
        or (flat.size and not 0 <= flat.min() <= flat.max() < math.prod(shape))
    ):
        raise OnnxFileError(f"{where}: the indices of a sparse tensor do not fit its shape {shape}")
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[flat] = values
    return dense.reshape(shape)


def _strides(shape: tuple[int, ...]) -> Array:
    return np.array([math.prod(shape[i + 1 :]) for i in range(len(shape))], np.int64)
