"""The machine that loops and matmuls are scheduled for: a processor."""

from __future__ import annotations

from collections.abc import Callable

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.records import dataclass


@dataclass(frozen=True)
class Registers:
    """The vector registers of a processor with fused multiply-add: their size in bytes, and how many."""

    bytes: int
    count: int

    def lanes(self, dtype: DType) -> int:
        """Elements of a vector."""
        return self.bytes // dtype.itemsize


def no_blas() -> bool:
    """There is no BLAS to call."""
    return False


@dataclass(frozen=True)
class LoopMachine:
    """A processor: its ``vectors``, None if tiles in registers do not pay; and what says whether there is a ``blas``.

    That is asked where a BLAS would be called, as it is loaded then.
    """

    vectors: Registers | None
    blas: Callable[[], bool] = no_blas
