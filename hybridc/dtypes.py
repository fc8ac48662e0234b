"""Element types: one row of a table for each dtype that arrays may have, with all that differs between them.

NumPy knows some of them (``bfloat16``) only once ml_dtypes is imported, and calls their kind "V", as of bytes. So
whether a dtype is floating-point, in which dtype it is computed, and what it is called elsewhere is asked here.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from hybridc.ground.records import dataclass

DType = np.dtype[Any]

FLOAT16, FLOAT32, FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class ElementType:
    """What is known of a dtype.

    ``kind`` is as NumPy names kinds: ``f``, ``i``, ``u`` or ``b``. Every operation on numbers is computed in the dtype
    ``computed``; sums, products and functions are in ``wide``. Both round once, at the end.

    Names: ``ir`` is MLIR's signless type, and of floats the name of xDSL's attribute; ``llvm`` is LLVM's type,
    ``triton`` that of Triton's language and ``signature`` that of its signatures, ``c`` that of C. An empty name says
    that there is none: what has no ``ir`` is not compiled.

    Codes: ``flag`` is the type flag of MXNet's ``.params`` files, None where these cannot hold it; ``dlpack`` is the
    type code of DLPack.

    Floats: ``digits`` are the binary ones with the first, ``bias`` is what is added to exponents; ``infinite`` says
    whether there are infinities. ``largest`` is the largest finite number, ``smallest`` the smallest one of all digits,
    ``epsilon`` the distance from 1 to the next number. ``tolerances``, relative and absolute, allow for a few roundings
    in tests. Of integers these are 0.
    """

    name: str
    dtype: DType
    kind: str
    bits: int
    computed: DType
    wide: DType
    ir: str
    llvm: str
    triton: str
    signature: str
    c: str
    flag: int | None
    dlpack: int
    digits: int = 0
    bias: int = 0
    infinite: bool = False
    largest: float = 0.0
    smallest: float = 0.0
    epsilon: float = 0.0
    tolerances: tuple[float, float] = (0.0, 0.0)


def _added(name: str, size: int) -> DType:
    """A dtype of ml_dtypes, or where that is not installed one that no array has."""
    try:
        dtype: DType = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        return np.dtype([(name, f"V{size}")])
    return dtype


def _float(
    dtype: DType | str,
    bits: int,
    names: tuple[str, str, str, str, str],
    codes: tuple[int | None, int],
    digits: int,
    bias: int,
    tolerances: tuple[float, float],
    largest: float | None = None,
) -> ElementType:
    """A floating-point type; of one that NumPy lacks the name, and nothing is computed in it.

    ``names`` are ``ir``, ``llvm``, ``triton``, ``signature`` and ``c``, ``codes`` ``flag`` and ``dlpack``. Without
    ``largest`` the highest exponent is that of infinities, as in IEEE 754.
    """
    own = dtype if isinstance(dtype, np.dtype) else _added(dtype, bits // 8)
    return ElementType(
        dtype if isinstance(dtype, str) else dtype.name,
        own, "f", bits,
        FLOAT32 if isinstance(dtype, str) else own,
        FLOAT32 if bits < 32 else own,
        *names, *codes, digits, bias, largest is None,
        (2 - 2.0 ** (1 - digits)) * 2.0**bias if largest is None else largest,
        2.0 ** (1 - bias), 2.0 ** (1 - digits), tolerances,
    )  # fmt: skip


def _integer(name: str, flag: int, compiled: bool = True) -> ElementType:
    dtype = np.dtype(name)
    bits, ir = 8 * dtype.itemsize, "i1" if dtype.kind == "b" else f"i{8 * dtype.itemsize}"
    triton, c = ("int1", "uint8_t") if dtype.kind == "b" else (name, f"{name}_t")
    signature = f"u{bits}" if dtype.kind == "u" else ir
    code = {"i": 0, "u": 1, "b": 6}[dtype.kind]
    return ElementType(
        name, dtype, dtype.kind, bits, dtype, dtype, ir if compiled else "", ir, triton, signature, c, flag, code
    )


_ROWS = (
    _float(FLOAT32, 32, ("f32", "float", "float32", "fp32", "float"), (0, 2), 24, 127, (1e-4, 1e-3)),
    _float(FLOAT64, 64, ("f64", "double", "float64", "fp64", "double"), (1, 2), 53, 1023, (1e-5, 1e-20)),
    _float(FLOAT16, 16, ("f16", "half", "float16", "fp16", "f16"), (2, 2), 11, 15, (1e-2, 1e-1)),
    *(_integer(name, flag) for flag, name in enumerate(("uint8", "int32", "int8", "int64", "bool"), 3)),
    *(_integer(name, flag, False) for flag, name in enumerate(("int16", "uint16", "uint32"), 8)),
    _integer("uint64", 11),
    _float("bfloat16", 16, ("bf16", "bfloat", "bfloat16", "bf16", "bf16"), (12, 4), 8, 127, (8e-2, 1e-1)),
    # Triton has it as float8e4nv, but GPUs cut to the largest number what is too large for it, and so is NaN here.
    _float("float8_e4m3fn", 8, ("f8E4M3FN", "i8", "", "", ""), (None, 10), 4, 7, (1.5e-1, 1.5e-1), 448.0),
)
TYPES: dict[DType, ElementType] = {t.dtype: t for t in _ROWS}
BFLOAT16 = next(t.dtype for t in _ROWS if t.name == "bfloat16")
#: The names of those that no array has here.
ABSENT = frozenset(t.name for t in _ROWS if t.dtype.name != t.name)
# The names of element types in the IR.
_ELEMENT_KINDS = {t.dtype: t.ir for t in _ROWS if t.ir} | {np.dtype(object): "i64"}
# WIDE: sums, products and functions of these dtypes are computed in the wider one, and rounded at the end. COMPUTED:
# of these the ones in which nothing is computed: every operator computes in the other dtype, and rounds its results.
WIDE: dict[DType, DType] = {t.dtype: t.wide for t in _ROWS if t.wide != t.dtype}
COMPUTED: dict[DType, DType] = {t.dtype: t.computed for t in _ROWS if t.computed != t.dtype}
HALVES, STORED = frozenset(WIDE), frozenset(COMPUTED)
# The dtypes in which means and norms are computed, where that is another one: sums and counts fit it.
ACCUMULATED = {**WIDE, **{t.dtype: np.dtype(np.int64) for t in _ROWS if t.kind in "iu" and t.bits < 64}}
# The former by their names in the IR.
NARROW = frozenset(TYPES[dtype].ir for dtype in HALVES)


def is_float(dtype: DType) -> bool:
    """Whether a dtype is of floating-point numbers."""
    return dtype.kind == "f" or dtype in STORED


def is_half(dtype: Any) -> bool:
    """Whether sums, products and functions of numbers are computed in float32."""
    return np.dtype(dtype) in HALVES


def kind_of(dtype: DType) -> str:
    """The kind of a dtype, as NumPy names kinds: ``f``, ``i``, ``u``, ``b`` and others."""
    return "f" if dtype in STORED else dtype.kind


def element_kind(dtype: DType) -> str:
    """The name of a dtype's element type in the IR, which has no signs; a state is an index into the host's states."""
    return _ELEMENT_KINDS[dtype]


def wide(dtype: DType) -> DType:
    """The dtype in which sums, products and functions of numbers are computed."""
    return WIDE.get(dtype, dtype)


def accumulated(dtype: DType) -> DType:
    """The dtype in which means and norms of numbers are computed: sums and counts fit it."""
    return ACCUMULATED.get(dtype, dtype)


def exact_integers(dtype: DType) -> int:
    """Up to which number a dtype has all integers."""
    return int(2 ** (TYPES[dtype].digits if is_float(dtype) else 8 * dtype.itemsize - 1))


def computed(dtype: DType) -> DType:
    """The dtype in which every operation on numbers is computed."""
    return COMPUTED.get(dtype, dtype)
