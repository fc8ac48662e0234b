"""Philox 4x64 with ten rounds, as NumPy has it: the constants, and how many numbers a block of words gives.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

from hybridc.dialects.attribute import DType

MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # of the key from round to round
ROUNDS = 10
WORDS = 4


def numbers_each(dtype: DType) -> int:
    """The numbers that four words give."""
    return WORDS if dtype.itemsize == 8 else 2 * WORDS


def signed(draw: int) -> int:
    """The number of a draw as a signed one of 64 bits."""
    return (draw + 2**63) % 2**64 - 2**63
