"""Uniform random numbers by Philox 4x64, the same that the CPU draws: each block of words from a counter alone."""

from __future__ import annotations

from hybridc.dialects.attribute import DType
from hybridc.lower.philox import MULTIPLIERS, ROUNDS, STEPS, WORDS, numbers_each, signed
from hybridc.lower.triton.body import triton_type
from hybridc.lower.triton.functions import Config, TritonFunction, TritonPhase
from hybridc.lower.triton.source import Writer
from hybridc.lower.triton.texts import module

# Counters that a program has.
BLOCK = 256


def uniform_phase(count: int, dtype: DType, draw: int) -> TritonPhase:
    """The phase that draws ``count`` numbers; its buffers: the key, the result."""
    each = numbers_each(dtype)
    w = Writer()
    w.line("number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)")
    w.line("zero = tl.zeros([BLOCK], tl.uint64)")
    w.line("key0 = tl.load(x0).to(tl.uint64, bitcast=True)")
    w.line("key1 = tl.zeros([], tl.uint64)")
    w.line("w0 = (number + 1).to(tl.uint64, bitcast=True)")
    w.line("w1 = zero")
    w.line("w2 = zero")
    w.line("w3 = zero + (tl.load(x0 + 1) + draw).to(tl.uint64, bitcast=True)")
    for k, factor in enumerate(MULTIPLIERS):
        w.line(f"factor{k} = tl.full([BLOCK], {factor:#x}, tl.uint64)")
    for k, step in enumerate(STEPS):
        w.line(f"step{k} = tl.full([], {step:#x}, tl.uint64)")
    w.line(f"for _ in tl.static_range({ROUNDS}):")
    with w.indented():
        w.line("high0, low0 = tl.umulhi(w0, factor0), w0 * factor0")
        w.line("high1, low1 = tl.umulhi(w2, factor1), w2 * factor1")
        w.line("w0, w1, w2, w3 = high1 ^ w1 ^ key0, low1, high0 ^ w3 ^ key1, low0")
        w.line("key0, key1 = key0 + step0, key1 + step1")
    for i in range(each):
        w.line(f"place = number * {each} + {i}")
        word = f"w{i * WORDS // each}"
        if dtype.itemsize == 8:
            value = f"({word} >> 11).to(tl.float64) * {2.0**-53!r}"
        else:
            bits = f"({word} >> {32 * (i % 2)}).to(tl.uint32)" if i % 2 else f"{word}.to(tl.uint32)"
            value = f"(({bits} >> 8).to(tl.float32) * {2.0**-24!r}).to({triton_type(dtype)})"
        w.line(f"tl.store(y0 + place, {value}, mask=place < count)")
    text = module("uniform", ("x0", "y0"), ("count", "draw"), ("BLOCK",), "numbers in [0, 1) by Philox 4x64.", w)
    function = TritonFunction("uniform", text, (DType("int64"), dtype), ("i64", "i64"), ("BLOCK",))
    blocks = -(-count // each)
    return TritonPhase(
        function, (0, 1), (count, signed(draw)), (Config((("BLOCK", BLOCK),), (-(-blocks // BLOCK), 1, 1)),)
    )
