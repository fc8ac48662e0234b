"""Operations of ``arith`` and ``math`` as expressions of Triton's language.

An operation is named as in tile programs: by its name, and the predicate of a comparison.
"""

from __future__ import annotations

import ast
import math

import numpy as np

from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import DType, is_float
from hybridc.errors import UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.ir.scalars import Number, constant_as
from hybridc.lower.triton.triton_function import triton_type

BOOL, HALF, SINGLE, DOUBLE = (np.dtype(n) for n in ("bool", "float16", "float32", "float64"))
INT32, INT64 = np.dtype("int32"), np.dtype("int64")

# What the results of operations are called.
_HINTS = {
    "add": "total", "sub": "difference", "mul": "product", "div": "ratio", "rem": "remainder", "neg": "negative",
    "abs": "size", "max": "greater", "min": "lesser", "maximum": "greater", "minimum": "lesser", "maxnum": "greater",
    "minnum": "lesser", "and": "both", "or": "either", "xor": "differing", "shl": "shifted", "shr": "shifted",
    "cmp": "holds", "select": "chosen", "bitcast": "bits", "index_cast": "place", "ext": "wide", "trunc": "narrow",
    "sito": "number", "uito": "number", "fpto": "integer", "fma": "total",
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """A value in source: a name or a literal, and the dtype that it has there."""

    text: str
    dtype: DType
    constant: Number | None = None

    def argument(self, beside: bool) -> str:
        """The text of an argument: a literal only if that has its type, perhaps from a block ``beside`` it."""
        if self.constant is None or self.dtype in (BOOL, INT32):
            return self.text
        x = float(self.constant)
        if self.dtype == INT64:
            return self.text if beside and abs(x) < 2**31 else self.block
        limits = np.finfo(np.float32)
        plain = x == 0 or not math.isfinite(x) or float(limits.tiny) <= abs(x) <= float(limits.max)
        return self.text if self.dtype == SINGLE and plain else self.block

    @property
    def block(self) -> str:
        """A value of its type that is no bare literal."""
        return self.filled("[]")

    def filled(self, shape: str) -> str:
        """A name, or a block filled with a scalar."""
        return self.text if self.constant is None else f"tl.full({shape}, {self.text}, {triton_type(self.dtype)})"

    def as_dtype(self, dtype: DType) -> Term:
        """The same bits, read as integers of another sign."""
        if dtype == self.dtype or self.dtype.kind not in "iu" or dtype.kind not in "iu":
            return self
        if self.constant is not None:
            return number(self.constant, dtype)
        return Term(f"{self.text}.to({triton_type(dtype)})", dtype)


def triton_literal(value: Number, dtype: DType) -> str:
    """A scalar as the dtype holds it, as source; of half precision all digits, as Triton may compare it in single."""
    value = float(np.float16(value)) if dtype == HALF else constant_as(value, dtype)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def number(value: Number, dtype: DType) -> Term:
    """A scalar as a term; to Triton before 3.9 the number -0 is 0."""
    if is_float(dtype) and repr(value) == "-0.0":
        return Term(f"(tl.full([], 0.0, {triton_type(dtype)}) * -1.0)", dtype)
    return Term(triton_literal(value, dtype), dtype, constant_as(value, dtype))


def parsed(text: str, dtype: DType) -> Term:
    """A name, or a scalar as :func:`triton_literal` writes it."""
    if text.isidentifier() and text not in ("True", "False"):
        return Term(text, dtype)
    return number(float(text[7:-2]) if text.startswith("float(") else ast.literal_eval(text), dtype)


def text_of(op: str, dtype: DType, narrowed: bool) -> str:
    """How an operation on a dtype is written: an infix operator, a call with slots, a formula's name, or not at all.

    In single precision it is rounded as IEEE 754 says, or a formula, unless the result is ``narrowed``: if all that is
    wanted is a number of half precision, the language's own will do. Scalars combined with a block take its type.
    """
    known = OPERATIONS.get(op)
    if known is None:
        return ""
    return (known.triton_single if dtype == SINGLE and not narrowed else "") or known.triton


def is_formula(text: str) -> bool:
    """Whether a text of the table is the name of a formula for the language."""
    return text.isidentifier()


def hint(op: str) -> str:
    """A name for the result of an operation."""
    name = op.partition(" ")[0].partition(".")[2]
    for ending in ("", "f", "i", "si", "ui", "fp"):
        short = name.removesuffix(ending) if ending else name
        if short in _HINTS:
            return _HINTS[short]
    return name


def unsupported(op: str) -> UnsupportedError:
    """There is no expression for an operation."""
    return UnsupportedError(f"the triton target has no expression for {op}")
