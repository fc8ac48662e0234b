"""Types, constants and function attributes of the llvm dialect as LLVM IR."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import LLVMTranslationException


def constant_text(value: Attribute, kind: Attribute) -> str:
    """A constant of a type."""
    if isinstance(value, IntegerAttr):
        return _integer(value.value.data, cast(Any, kind))
    if isinstance(value, FloatAttr):
        return _float(value.value.data, kind)
    if isinstance(value, DenseIntOrFPElementsAttr):
        vector = cast(VectorType[Any], kind)
        element: Any = vector.element_type
        write: Callable[[Any, Any], str] = _integer if type(element) is IntegerType else _float
        values = value.get_values()
        if len(values) == 1:
            values = values * vector.get_shape()[0]
        return f"<{', '.join(f'{type_text(element)} {write(v, element)}' for v in values)}>"
    raise LLVMTranslationException(f"{value} cannot be printed as an LLVM constant; expected a number or a vector")


def _integer(value: int, kind: IntegerType) -> str:
    return str(value & 1) if kind.width.data == 1 else str(value)


def _float(value: float, kind: Attribute) -> str:
    """The bits in hexadecimal; LLVM writes an f32 (which the attribute has rounded) as the double that equals it."""
    if isinstance(kind, (Float32Type, Float64Type)):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if isinstance(kind, Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if isinstance(kind, BFloat16Type):
        return f"0xR{brain_bits(value):04X}"
    raise LLVMTranslationException(f"{kind} is not a floating-point type of LLVM")


def brain_bits(value: float) -> int:
    """The bits of the nearest bfloat16; a NaN stays one."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits + (0x7FFF + (bits >> 16 & 1)) * (value == value) >> 16


_TYPES: dict[Attribute, str] = {}


def type_text(kind: Attribute) -> str:
    """The text of a type."""
    if (known := _TYPES.get(kind)) is None:
        known = _TYPES[kind] = _spell(kind)
    return known


_NAMES: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
    llvm.LLVMPointerType: "ptr",
    llvm.LLVMVoidType: "void",
}


def _spell(kind: Attribute) -> str:
    if isinstance(kind, IntegerType):
        return f"i{cast(Any, kind).width.data}"
    if isinstance(kind, VectorType):
        vector = cast(VectorType[Any], kind)
        return f"<{vector.get_shape()[0]} x {type_text(vector.element_type)}>"
    if isinstance(kind, llvm.LLVMArrayType):
        return f"[{kind.size.data} x {type_text(kind.type)}]"
    if isinstance(kind, llvm.LLVMStructType):
        return f"{{ {', '.join(type_text(t) for t in kind.types)} }}"
    if (name := _NAMES.get(type(kind))) is None:
        raise LLVMTranslationException(f"{kind} is not a type of LLVM")
    return name


def attribute_text(given: Attribute) -> str:
    """A function attribute: a keyword, or a name and a value."""
    if isinstance(given, StringAttr):
        return given.data
    name, value = cast(ArrayAttr[StringAttr], given).data
    return f'"{name.data}"="{value.data}"'
