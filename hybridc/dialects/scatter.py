"""What it takes to add rows to places that indices name: an interface that targets with loops of their own ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hybridc.dtypes import is_half


@dataclass(frozen=True)
class RowSums:
    """``out[o, place(indices[k])] += data[o, k]``, from zeros and in the order of k, for blocks of ``inner`` elements.

    ``out`` has ``outer`` times ``rows`` of them; ``mode``, clip or wrap, says what indices out of range mean.
    """

    outer: int
    rows: int
    inner: int
    mode: str


class AddsRows:
    """An operator of two inputs, data and indices, that may be such a sum."""

    def row_sums(self) -> RowSums | None:
        """The sum that it is; None if it does more."""
        return None


def in_single(F: Any, x: Any, adding: Callable[[Any], Any]) -> Any:
    """What ``adding`` makes of ``x``, in single precision if that is of half: many elements may go to one place."""
    return F.cast(adding(F.cast(x, "float32")), x.dtype) if is_half(x.dtype) else adding(x)
