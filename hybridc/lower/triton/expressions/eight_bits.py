"""Eight bits in Triton's language: bytes in memory and in names, numbers where they are computed with.

Only some cards know them; on others even a pointer at them does not compile. So a kernel sees bytes, which each card
reads and writes, and asks while it is compiled whether the card has instructions for them.
"""

from __future__ import annotations

from hybridc.dialects.attribute import DType
from hybridc.dtypes import FLOAT8_E4M3FN, FLOAT8_E5M2
from hybridc.lower.triton.source_writer import SourceWriter

# What Triton calls them.
TRITON_EIGHT = {FLOAT8_E4M3FN: "tl.float8e4nv", FLOAT8_E5M2: "tl.float8e5"}
# Cards round what is too large to the largest number: which numbers they are right about, and what others become.
_RIGHT = {FLOAT8_E4M3FN: "tl.abs(x) <= 464.0", FLOAT8_E5M2: "tl.abs(x) < 61440.0"}
_BEYOND = {FLOAT8_E4M3FN: "127", FLOAT8_E5M2: "tl.where(x != x, 126, tl.where(x > 0.0, 124, 252))"}

_KNOWS = '''
def knows_float8(_semantic=None):
    """Whether the card computes with eight bits: Triton asks while it compiles, its interpreter does not."""
    options = _semantic and _semantic.builder.options
    return bool(options) and options.backend_name == "cuda" and "fp8e4nv" in options.supported_fp8_dtypes


knows_float8.__triton_builtin__ = True
'''

_CONVERSION = '''
@triton.jit
def {name}(x):
    """{doc}."""
    if knows_float8():
        result = {known}
    else:
        result = {formula}(x)
    return result
'''


def knows_float8(w: SourceWriter) -> str:
    """The call that asks whether the card computes with eight bits."""
    return f"{w.helper('knows_float8', _KNOWS)}()"


def widening(w: SourceWriter, dtype: DType, formula: str) -> str:
    """The name of the function that makes single precision of eight bits; ``formula`` does so on any card."""
    known = f"x.to({TRITON_EIGHT[dtype]}, bitcast=True).to(tl.float32)"
    return _conversion(w, f"of_{dtype.name}", f"A number of {dtype.name} in single precision", known, formula)


def narrowing(w: SourceWriter, dtype: DType, formula: str) -> str:
    """The name of the function that makes eight bits of single precision; ``formula`` does so on any card."""
    bits = f"x.to({TRITON_EIGHT[dtype]}).to(tl.uint8, bitcast=True)"
    known = f"tl.where({_RIGHT[dtype]}, {bits}, {_BEYOND[dtype]}).to(tl.uint8)"
    return _conversion(w, f"to_{dtype.name}", f"The bits of {dtype.name} of a number", known, formula)


def _conversion(w: SourceWriter, name: str, doc: str, known: str, formula: str) -> str:
    knows_float8(w)
    return w.helper(name, _CONVERSION.format(name=name, doc=doc, known=known, formula=formula))
