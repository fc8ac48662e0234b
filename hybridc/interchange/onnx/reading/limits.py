"""How much memory one node of a file may ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hybridc.interchange.onnx.reading.rules import Call

#: Elements of a result that a file alone asks for: more than machines have memory for.
MOST_ELEMENTS = 1 << 36


def check_size(call: Call, shape: Iterable[int]) -> None:
    """Raise if a result of this shape, which follows from numbers of the file, is too large, or a size is negative."""
    sizes = [int(n) for n in shape]
    if any(n < 0 for n in sizes) or math.prod(sizes) > MOST_ELEMENTS:
        raise call.refuse(f"its result would have the shape {sizes}; a result has at most {MOST_ELEMENTS} elements")
