"""What it takes to add rows to places that indices name: an interface that targets with loops of their own ask."""

from __future__ import annotations

from dataclasses import dataclass


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
