"""DLPack: zero-copy exchange of device arrays with other libraries.

The structures are those of ``dlpack.h`` before version 1, which all libraries read.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from hybridc.dtypes import TYPES, DType
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.ground.sizes import row_major
from hybridc.ir.planned import SlotView
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory
from hybridc.runtime.devices.device import Device

# DLPack's device types and type codes, and its name of the default stream.
CPU, CUDA, _DEFAULT_STREAM = 1, 2, 1
_DTYPES = {(t.dlpack, t.bits): t.dtype for t in TYPES.values()}
_NAME, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))
# The same functions for capsules in destruction: no reference to them may be made any more.
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

# Exported tensors by number: the structure, with all it points to, and the array.
_GIVEN: dict[int, Any] = {}
_NUMBERS = itertools.count(1)


@ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
def _release(managed: Any) -> None:
    """The deleter, which the other library may call on a thread without the GIL."""
    _GIVEN.pop(managed.contents.context, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: Any) -> None:
    """The capsule's destructor: releases a tensor that nobody consumed."""
    if _raw_is_valid(capsule, _NAME):
        _release(ctypes.cast(_raw_pointer(capsule, _NAME), ctypes.POINTER(_Managed)))


def device_of(array: DeviceArray) -> tuple[int, int]:
    """DLPack device type and id of an array's device."""
    return (CPU, 0) if array.device.is_host else (CUDA, array.device.index)


def gpu_of(capsule: Any) -> int | None:
    """The number of the NVIDIA GPU on which a capsule's tensor is; None if it is elsewhere."""
    if not _is_valid(capsule, _NAME):
        return None
    tensor: Any = _Managed.from_address(_pointer(capsule, _NAME)).tensor
    return tensor.device_id if tensor.device_type == CUDA else None


def _dtype_of(code: int, bits: int) -> DType:
    """The dtype of a DLPack type."""
    if (code, bits) not in _DTYPES:
        raise UnsupportedError("from_dlpack: only tensors of integers, floats and booleans can be shared")
    return _DTYPES[code, bits]


def capsule_of(array: DeviceArray) -> Any:
    """A capsule that shares the array's memory."""
    rank = array.ndim
    shape = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*row_major(array.shape))
    kind, index = device_of(array)
    element = TYPES[array.dtype]
    tensor = _Tensor(array.pointer, kind, index, rank, element.dlpack, element.bits, 1, shape, strides, 0)
    key = next(_NUMBERS)
    managed = _Managed(tensor, key, ctypes.cast(_release, ctypes.c_void_p))
    _GIVEN[key] = managed, shape, strides, array
    return _new(ctypes.addressof(managed), _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


def array_of(tensor: Any, device: Device) -> DeviceArray:
    """A device array over the memory of another library's tensor; a copy, if that is not contiguous.

    ``tensor`` is a capsule, or has ``__dlpack__``; the other library orders its work before ours.
    """
    capsule = tensor
    if type(tensor).__name__ != "PyCapsule":
        capsule = tensor.__dlpack__() if device.is_host else tensor.__dlpack__(stream=device.stream or _DEFAULT_STREAM)
    if not _is_valid(capsule, _NAME):
        raise MXNetError("from_dlpack: this capsule was used before, or is of an unknown version")
    address = _pointer(capsule, _NAME)
    managed = _Managed.from_address(address)
    foreign: Any = managed.tensor
    if (foreign.device_type, foreign.device_id) != ((CPU, 0) if device.is_host else (CUDA, device.index)):
        raise MXNetError(f"from_dlpack: the tensor is not on {device!r}")
    if foreign.lanes != 1:
        raise UnsupportedError("from_dlpack: only tensors of single numbers can be shared")
    dtype = _dtype_of(foreign.code, foreign.bits)
    _rename(capsule, _USED)
    shape = tuple(foreign.shape[i] for i in range(foreign.ndim))
    strides = tuple(foreign.strides[i] for i in range(foreign.ndim)) if foreign.strides else row_major(shape)
    pointer = (foreign.data or 0) + foreign.byte_offset
    buffer = DeviceMemory(pointer, 0, _Taken(managed, address))
    array = DeviceArray(device, buffer, pointer, shape, dtype)
    return array if strides == row_major(shape) or array.size <= 1 else _plain(array, strides)


def _plain(array: DeviceArray, strides: tuple[int, ...]) -> DeviceArray:
    copy = array.device.gathered(array.pointer, SlotView(0, 0, array.dtype, array.shape, strides))
    array.device.synchronise()  # the other library may reuse its memory afterwards
    return copy


class _Taken:
    """An imported tensor; its deleter is called when no array here needs it."""

    def __init__(self, managed: Any, address: int) -> None:
        self._address = address
        self._deleter: int | None = managed.deleter

    def __del__(self) -> None:
        if self._deleter:
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._deleter)(self._address)
