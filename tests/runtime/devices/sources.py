"""Triton functions that the tests of devices run."""

from __future__ import annotations

import numpy as np

from hybridc.lower.triton.triton_function import Config, TritonFunction

F32 = np.dtype("float32")

ADD = TritonFunction(
    "add",
    '''"""x + x2 * factor, n numbers."""

import triton
import triton.language as tl


@triton.jit
def add(x, x2, out, n, factor, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    value = tl.load(x + i, mask=inside, other=0.0) + tl.load(x2 + i, mask=inside, other=0.0) * factor
    tl.store(out + i, value, mask=inside)
''',
    (F32, F32, F32),
    ("i32", "i64"),
    ("block",),
)


def add_config(n: int, block: int = 16) -> Config:
    """Enough programs for n numbers."""
    return Config((("block", block),), (-(-n // block), 1, 1))


FAULTY = TritonFunction(
    "faulty",
    """import triton
import triton.language as tl


@triton.jit
def faulty(x):
    y = tl.load(x) + tl.arange(0, 4)
    tl.store(x, y)  # a block cannot be stored to one place
""",
    (F32,),
)

NUMBERS = TritonFunction(
    "numbers",
    '''"""What becomes of numbers: a product that wraps if both are 32 bits wide, a loop, a comparison."""

import triton
import triton.language as tl


@triton.jit
def numbers(out, a, b):
    tl.store(out, a * a)
    tl.store(out + 1, b * b)
    total = tl.zeros((), tl.int64)
    for k in range(0, a, 30000):
        total += k
    tl.store(out + 2, total)
    if b > 1:
        tl.store(out + 3, b)
''',
    (np.dtype("int64"),),
    ("i32", "i64"),
)

REDUCTIONS = TritonFunction(
    "reductions",
    """import triton
import triton.language as tl


@triton.jit
def product(a, b):
    c = a * b
    return c


@triton.jit
def first_largest(a, i, b, j):
    left = (a > b) | ((a == b) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def reductions(x, rows, columns, everything, places, m: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, m)
    j = tl.arange(0, n)
    value = tl.load(x + i[:, None] * n + j[None, :])
    tl.store(rows + i[:, None], tl.reduce(value, 1, product, keep_dims=True))
    tl.store(columns + j, tl.reduce(value, 0, product))
    tl.store(everything, tl.reduce(value, None, product))
    tl.store(everything + 1, tl.sum(value))
    tl.store(everything + 2, tl.max(value))
    tl.store(everything + 3, tl.min(tl.min(value, 0), 0))
    at = tl.broadcast_to(j[None, :], (m, n))
    _, place = tl.reduce((value, at), 1, first_largest)
    tl.store(places + i, place)
""",
    (F32, F32, F32, F32, np.dtype("int32")),
    (),
    ("m", "n"),
)

LARGEST = TritonFunction(
    "largest",
    """import triton
import triton.language as tl


@triton.jit
def largest(x, y, out):
    a = tl.load(x + tl.arange(0, 4))
    b = tl.load(y + tl.arange(0, 4))
    i = tl.arange(0, 4)
    tl.store(out + i, tl.maximum(a, b))
    tl.store(out + 4 + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 8 + i, tl.minimum(a, b))
    tl.store(out + 12, tl.max(a, 0))
""",
    (F32, F32, F32),
)

KINDS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)
ONE = Config((), (1, 1, 1))


def copy_of(dtype: str) -> TritonFunction:
    """Copies four elements, twice: as they are, and those of the first four that are not zero."""
    source = """import triton
import triton.language as tl


@triton.jit
def copy(x, out, there):
    i = tl.arange(0, 4)
    value = tl.load(x + i)
    tl.store(out + i, value)
    tl.store(there + i, value != 0)
"""
    kind = np.dtype(dtype)
    return TritonFunction("copy", source, (kind, kind, np.dtype("bool")))
