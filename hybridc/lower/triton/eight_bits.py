"""Eight bits in Triton's language: bytes in memory and in names, numbers where they are computed with.

Only some cards know them; on others even a pointer at them does not compile. So a kernel sees bytes, which each card
reads and writes.
"""

from __future__ import annotations

from hybridc.dialects.attribute import DType
from hybridc.dtypes import FLOAT8, FLOAT8_E4M3FN, FLOAT8_E5M2
from hybridc.lower.hybrid_to_linalg_body import signless
from hybridc.lower.mathlib.float8 import widened
from hybridc.lower.triton.ops import SINGLE, triton_type
from hybridc.lower.triton.source import Writer
from hybridc.lower.triton.statements import helper

# What Triton calls them.
TRITON_EIGHT = {FLOAT8_E4M3FN: "tl.float8e4nv", FLOAT8_E5M2: "tl.float8e5"}

# Triton asks it while it compiles for a card.
MULTIPLIES_FLOAT8 = '''
def multiplies_float8(_semantic=None):
    """Whether the tensor cores of the card multiply eight bits."""
    options = _semantic and _semantic.builder.options
    return bool(options) and options.backend_name == "cuda" and "fp8e4nv" in options.supported_fp8_dtypes


multiplies_float8.__triton_builtin__ = True
'''


def as_wide(w: Writer, text: str, dtype: DType, wanted: DType) -> str:
    """A block of a floating-point dtype in one that is as wide or wider."""
    if dtype in FLOAT8:
        text = f"{helper(w, widened.__name__, widened, [signless(dtype)])}({text})"
        return text if wanted == SINGLE else f"{text}.to({triton_type(wanted)})"
    return f"{text}.to({triton_type(wanted)})"
