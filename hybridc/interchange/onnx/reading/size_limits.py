"""How much memory one node of a file may ask for."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterable

from hybridc.errors import OnnxFileError


class Limits:
    """``elements`` are those of a result that numbers of a file ask for: by default more than memory is there for."""

    elements = 1 << 36


def check_size(shape: Iterable[int]) -> None:
    """Raise if a result of this shape, which follows from numbers of the file, is too large, or a size is negative."""
    sizes = [int(n) for n in shape]
    if any(n < 0 for n in sizes) or math.prod(sizes) > Limits.elements:
        raise OnnxFileError(f"a result of the shape {sizes} is asked for; it may have {Limits.elements} elements")


@contextlib.contextmanager
def at_most(elements: int) -> Generator[None]:
    """Within the ``with`` block results have no more elements, as for a file that is not trusted."""
    before, Limits.elements = Limits.elements, elements
    try:
        yield
    finally:
        Limits.elements = before
