"""Uniform random samples by Philox 4x64-10, as in NumPy: a counter-based generator, four words per counter.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

# Triton's functions are untyped, and so are their arguments.
# pyright: basic, reportInvalidTypeForm=false
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel, LoopKernel, TritonKernel
from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import machine
from hybridc.ground.sizes import value_of

if TYPE_CHECKING:
    tl: Any = None  # triton.language, which a kernel's module imports

# Constants of Philox4x64-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011).
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # key increments per round
ROUNDS = 10
WORDS = 4

# Counters per GPU program.
BLOCK = 256

INT32, UINT64 = np.dtype("int32"), np.dtype("uint64")


def numbers_each(dtype: DType) -> int:
    """The samples that four words give."""
    return WORDS if dtype.itemsize == 8 else 2 * WORDS


def signed(draw: int) -> int:
    """A counter as a signed 64-bit integer."""
    return (draw + 2**63) % 2**64 - 2**63


def uniform(target: str, out: ArraySpec, draw: int) -> Kernel | None:
    """The kernel of uniform samples in [0, 1), for a key and the counter ``draw``."""
    blocks = -(-out.size // numbers_each(out.dtype))
    numbers = (out.size, signed(draw))
    match target:
        case "llvm":
            return LoopKernel(uniform_loops, blocks, numbers, flat=True, work=value_of(blocks) * machine().costs.random)
        case "triton":
            constants = {"EACH": numbers_each(out.dtype), "BLOCK": BLOCK}
            return TritonKernel(uniform_kernel, (-(-blocks // BLOCK),), numbers, constants, helpers=(philox, unit))
        case _:
            return None


# --- native loops -----------------------------------------------------------------------------------------------------


def uniform_loops(b: Any, low: Any, high: Any, key: Any, out: Any, count: Any, draw: Any) -> None:
    """A range of blocks of four words; the last one may be partial."""
    each = numbers_each(out.dtype)
    seed = key[0]
    highest = key[1] + b.cast(draw, UINT64)
    full = b.quotient(count, each)

    def whole(block: Any) -> None:
        words = _words(b, block, highest, seed)
        for i in range(each):
            word = words[i * WORDS // each]
            bits = b.shift_right(word, 32) if each > WORDS and i % 2 else word
            out[block * each + i] = _unit(b, bits, out.dtype)

    def rest(block: Any) -> None:
        words = _words(b, block, highest, seed)

        def one(i: Any) -> None:
            which = b.quotient(i, each // WORDS)
            bits = words[-1]
            for k in reversed(range(WORDS - 1)):
                bits = b.select(which == k, words[k], bits)
            if each > WORDS:
                bits = b.shift_right(bits, b.cast(i % 2 * 32, UINT64))
            out[block * each + i] = _unit(b, bits, out.dtype)

        b.loop(0, count - block * each, one)

    b.loop(low, b.min(high, full), whole)
    b.loop(b.max(low, full), high, rest)


def _words(b: Any, block: Any, highest: Any, seed: Any) -> Sequence[Any]:
    """The four words of a block; its counter is one more than its index."""
    zero = b.constant(0, UINT64)
    words, keys = [b.cast(block, UINT64) + 1, zero, zero, highest], [seed, zero]
    for _ in range(ROUNDS):
        high0, low0 = b.wide_product(words[0], b.constant(MULTIPLIERS[0], UINT64))
        high1, low1 = b.wide_product(words[2], b.constant(MULTIPLIERS[1], UINT64))
        words = [b.xor(b.xor(high1, words[1]), keys[0]), low1, b.xor(b.xor(high0, words[3]), keys[1]), low0]
        keys = [k + b.constant(step, UINT64) for k, step in zip(keys, STEPS, strict=True)]
    return words


def _unit(b: Any, word: Any, dtype: DType) -> Any:
    """A word, or its lower half, as a float in [0, 1)."""
    if dtype.itemsize == 8:
        return b.cast(b.shift_right(word, 11), dtype) * 2.0**-53
    return b.cast(b.shift_right(b.cast(word, INT32), 8), np.dtype("float32")) * 2.0**-24


# --- Triton -----------------------------------------------------------------------------------------------------------


def uniform_kernel(key, out, count, draw, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """A program computes the samples of ``BLOCK`` counters."""
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    w0, w1, w2, w3 = philox(tl.load(key), tl.load(key + 1) + draw, number)
    kind: tl.constexpr = out.dtype.element_ty
    if EACH == 4:
        place = number * 4
        tl.store(out + place, unit(w0, kind), mask=place < count)
        tl.store(out + place + 1, unit(w1, kind), mask=place + 1 < count)
        tl.store(out + place + 2, unit(w2, kind), mask=place + 2 < count)
        tl.store(out + place + 3, unit(w3, kind), mask=place + 3 < count)
    else:
        place = number * 8
        tl.store(out + place, unit(w0, kind), mask=place < count)
        tl.store(out + place + 1, unit(w0 >> 32, kind), mask=place + 1 < count)
        tl.store(out + place + 2, unit(w1, kind), mask=place + 2 < count)
        tl.store(out + place + 3, unit(w1 >> 32, kind), mask=place + 3 < count)
        tl.store(out + place + 4, unit(w2, kind), mask=place + 4 < count)
        tl.store(out + place + 5, unit(w2 >> 32, kind), mask=place + 5 < count)
        tl.store(out + place + 6, unit(w3, kind), mask=place + 6 < count)
        tl.store(out + place + 7, unit(w3 >> 32, kind), mask=place + 7 < count)


def philox(seed, draw, number):
    """The words of Philox 4x64 for a key, a counter ``draw`` and block indices from 0 on, of 64 bits."""
    key0 = seed.to(tl.uint64, bitcast=True)
    key1 = tl.zeros([], tl.uint64)
    w0 = (number + 1).to(tl.uint64, bitcast=True)
    w1 = w0 ^ w0
    w2 = w1
    w3 = w1 + draw.to(tl.uint64, bitcast=True)
    factor0 = w1 + tl.full([], 0xD2E7470EE14C6C93, tl.uint64)
    factor1 = w1 + tl.full([], 0xCA5A826395121157, tl.uint64)
    step0 = tl.full([], 0x9E3779B97F4A7C15, tl.uint64)
    step1 = tl.full([], 0xBB67AE8584CAA73B, tl.uint64)
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(w0, factor0), w0 * factor0
        high1, low1 = tl.umulhi(w2, factor1), w2 * factor1
        w0, w1, w2, w3 = high1 ^ w1 ^ key0, low1, high0 ^ w3 ^ key1, low0
        key0, key1 = key0 + step0, key1 + step1
    return w0, w1, w2, w3


def unit(word, kind: tl.constexpr):
    """Words, or their lower halves, as floats in [0, 1)."""
    if kind == tl.float64:
        return (word >> 11).to(tl.float64) * 1.1102230246251565e-16
    return ((word.to(tl.uint32) >> 8).to(tl.float32) * 5.960464477539063e-08).to(kind)
