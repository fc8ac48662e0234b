"""Uniform random numbers by Philox 4x64, the same that the CPU draws: each block of words from a counter alone."""

from __future__ import annotations

import numpy as np

from hybridc.dialects.attribute import DType
from hybridc.ir.philox import MULTIPLIERS, ROUNDS, STEPS, WORDS, numbers_each, signed
from hybridc.lower.triton.expressions.ops import triton_type
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonPhase

# Counters that a program has.
BLOCK = 256


def philox(w: SourceWriter) -> str:
    """The name of a function of the module: the four words of a counter, by the two words of a key."""
    f = SourceWriter()
    f.line("@triton.jit")
    f.line("def philox(seed, draw, number):")
    with f.indented():
        f.line('"""The words of Philox 4x64 by a key, for a draw and the numbers of blocks, from 0 on, of 64 bits."""')
        f.line("key0 = seed.to(tl.uint64, bitcast=True)")
        f.line("key1 = tl.zeros([], tl.uint64)")
        f.line("w0 = (number + 1).to(tl.uint64, bitcast=True)")
        f.line("w1 = w0 ^ w0")
        f.line("w2 = w1")
        f.line("w3 = w1 + draw.to(tl.uint64, bitcast=True)")
        for k, factor in enumerate(MULTIPLIERS):
            f.line(f"factor{k} = w1 + tl.full([], {factor:#x}, tl.uint64)")
        for k, step in enumerate(STEPS):
            f.line(f"step{k} = tl.full([], {step:#x}, tl.uint64)")
        f.line(f"for _ in tl.static_range({ROUNDS}):")
        with f.indented():
            f.line("high0, low0 = tl.umulhi(w0, factor0), w0 * factor0")
            f.line("high1, low1 = tl.umulhi(w2, factor1), w2 * factor1")
            f.line("w0, w1, w2, w3 = high1 ^ w1 ^ key0, low1, high0 ^ w3 ^ key1, low0")
            f.line("key0, key1 = key0 + step0, key1 + step1")
        f.line("return w0, w1, w2, w3")
    return w.helper("philox", "\n".join(f.lines))


def uniform(dtype: DType, w: SourceWriter) -> str:
    """The name of a function of the module: the number at places of a draw, each of a block of words of its own."""
    each = numbers_each(dtype)
    philox(w)
    f = SourceWriter()
    f.line("@triton.jit")
    f.line(f"def uniform_{dtype.name}(seed, draw, place):")
    with f.indented():
        f.line('"""Numbers in [0, 1) at places, of 64 bits, of a draw."""')
        f.line(f"w0, w1, w2, w3 = philox(seed, draw, place // {each})")
        f.line(f"at = place % {each}")
        f.line(f"high = at >= {each // 2}")
        f.line("w0 = tl.where(high, w2, w0)")
        f.line("w1 = tl.where(high, w3, w1)")
        f.line(f"word = tl.where(at % {each // 2} >= {each // WORDS}, w1, w0)")
        if dtype.itemsize < 8:
            f.line("word = tl.where(at % 2 > 0, word >> 32, word)")
        f.line(f"return {_number('word', dtype)}")
    return w.helper(f"uniform_{dtype.name}", "\n".join(f.lines))


def uniform_phase(count: int, dtype: DType, draw: int) -> TritonPhase:
    """The phase that draws ``count`` numbers; its buffers: the key, the result."""
    each = numbers_each(dtype)
    w = SourceWriter()
    w.line("number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)")
    for i, value in enumerate(numbers("tl.load(x0)", "tl.load(x0 + 1) + draw", "number", dtype, w)):
        w.line(f"place = number * {each} + {i}")
        w.line(f"tl.store(y0 + place, {value}, mask=place < count)")
    text = module("uniform", ("x0", "y0"), ("count", "draw"), ("BLOCK",), "numbers in [0, 1) by Philox 4x64.", w)
    function = TritonFunction("uniform", text, (DType("int64"), dtype), ("i64", "i64"), ("BLOCK",))
    blocks = -(-count // each)
    return TritonPhase(
        function, (0, 1), (count, signed(draw)), (Config((("BLOCK", BLOCK),), (-(-blocks // BLOCK), 1, 1)),)
    )


def numbers(seed: str, draw: str, number: str, dtype: DType, w: SourceWriter) -> list[str]:
    """Write the words of the blocks with some numbers, of 64 bits: all numbers that each gives, in order."""
    names = [w.name(f"word{i}") for i in range(WORDS)]
    w.line(f"{', '.join(names)} = {philox(w)}({seed}, {draw}, {number})")
    each = numbers_each(dtype)
    words = [names[i * WORDS // each] for i in range(each)]
    return [_number(f"({word} >> 32)" if each > WORDS and i % 2 else word, dtype) for i, word in enumerate(words)]


def _number(word: str, dtype: DType) -> str:
    """A number in [0, 1) of a word, or of the lower half of one."""
    if dtype.itemsize == 8:
        return f"({word} >> 11).to(tl.float64) * {2.0**-53!r}"
    single = f"({word}.to(tl.uint32) >> 8).to(tl.float32) * {2.0**-24!r}"
    return single if dtype == np.float32 else f"({single}).to({triton_type(dtype)})"
