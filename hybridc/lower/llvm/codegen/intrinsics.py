"""Names of LLVM's intrinsics, which are mangled with a type."""

from __future__ import annotations

import functools
from typing import Any, cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, VectorType
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute

_FLOATS: dict[type[Attribute], str] = {Float16Type: "f16", BFloat16Type: "bf16", Float32Type: "f32", Float64Type: "f64"}


@functools.lru_cache(1024)
def mangled(name: str, kind: Attribute) -> str:
    """The name of an intrinsic for a type: ``llvm.fma`` and ``vector<8xf32>`` make ``llvm.fma.v8f32``."""
    return f"{name}.{_suffix(kind)}"


def _suffix(kind: Attribute) -> str:
    if isinstance(kind, IntegerType):
        return f"i{cast(Any, kind).width.data}"
    if isinstance(kind, VectorType):
        vector = cast(VectorType[Any], kind)
        return f"v{vector.get_shape()[0]}{_suffix(vector.element_type)}"
    if isinstance(kind, LLVMPointerType):
        return "p0"
    return _FLOATS[type(kind)]
