"""Uniform random numbers by Philox 4x64 with ten rounds, as NumPy draws them: each four words from a counter alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, f32, f64, i32, i64
from xdsl.ir import Block, Operation, SSAValue

from hybridc.ir.philox import MULTIPLIERS, ROUNDS, STEPS, WORDS, numbers_each, signed
from hybridc.ir.scalar_builder import number_attribute, signless
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.loops.kernel_phases import KernelPhase, sharing
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.loops.loop_functions import phase_module
from hybridc.version import __version__

DType = np.dtype[Any]

i128 = IntegerType(128)
# Nanoseconds for the four words of a counter, and what they become.
BLOCK_NS = 15.0


def uniform_phase(count: int, dtype: DType, draw: int) -> KernelPhase:
    """The phase that draws ``count`` numbers; its buffers: the key, the result."""
    digest = hashlib.sha256(repr(("uniform", __version__, dtype.name)).encode()).hexdigest()
    function = NativeFunction(digest, lambda: uniform_module(dtype))
    extent = -(-count // numbers_each(dtype))
    grain, least = sharing(extent * BLOCK_NS, extent)
    return KernelPhase(function, (0, 1), (count, signed(draw)), extent, grain, 0, extent * BLOCK_NS, least)


def uniform_module(dtype: DType) -> ModuleOp:
    """The function: buffers key and result; the count of numbers, the draw; a range of blocks of four words."""
    block = Block(arg_types=[array_type(i64), array_type(signless(dtype)), INDEX, i64, INDEX, INDEX, BYTES])
    key, out, count, draw, low, high, _ = block.args
    b = LoopBuilder(block)
    each = b.index(numbers_each(dtype))
    seed = b.load(key, b.index(0))
    highest = _two(b, arith.AddiOp, b.load(key, b.index(1)), draw)
    full, left = b.split(count, each)

    def whole(number: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        words = _words(b, number, highest, seed)
        first = b.times(number, each)
        for i in range(numbers_each(dtype)):
            bits = words[i] if dtype.itemsize == 8 else _shifted(b, words[i // 2], 32 * (i % 2))
            b.store(_number(b, bits, dtype), out, b.plus(first, b.index(i)))
        return []

    def rest(number: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        words = _words(b, number, highest, seed)
        first = b.times(number, each)

        def one(i: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            which, half = (i, None) if dtype.itemsize == 8 else b.split(i, b.index(2))
            bits = words[-1]
            for k in reversed(range(WORDS - 1)):
                same = _same(b, which, b.index(k))
                bits = b.pure(arith.SelectOp, [same, words[k], bits], i64)
            if half is not None:
                shift = _two(b, arith.MuliOp, b.pure(arith.IndexCastOp, [half], i64), _constant(b, 32))
                bits = _two(b, arith.ShRUIOp, bits, shift)
            b.store(_number(b, bits, dtype), out, b.plus(first, i))
            return []

        return b.loop(b.index(0), left, b.index(1), one)

    b.loop(low, b.least(high, full), b.index(1), whole)
    b.loop(b.pure(arith.MaxSIOp, [low, full], INDEX), high, b.index(1), rest)
    return phase_module(block)


def _words(b: LoopBuilder, number: SSAValue, highest: SSAValue, seed: SSAValue) -> Sequence[SSAValue]:
    """The four words of a block; its counter is one more than its number."""
    zero = _constant(b, 0)
    counter = _two(b, arith.AddiOp, b.pure(arith.IndexCastOp, [number], i64), _constant(b, 1))
    words, keys = [counter, zero, zero, highest], [seed, zero]
    for _ in range(ROUNDS):
        products = [_product(b, words[2 * k], MULTIPLIERS[k]) for k in range(2)]
        (high0, low0), (high1, low1) = products
        words = [
            _two(b, arith.XOrIOp, _two(b, arith.XOrIOp, high1, words[1]), keys[0]),
            low1,
            _two(b, arith.XOrIOp, _two(b, arith.XOrIOp, high0, words[3]), keys[1]),
            low0,
        ]
        keys = [_two(b, arith.AddiOp, k, _constant(b, step)) for k, step in zip(keys, STEPS, strict=True)]
    return words


def _product(b: LoopBuilder, x: SSAValue, factor: int) -> tuple[SSAValue, SSAValue]:
    """The upper and the lower half of a product."""
    wide = [b.pure(arith.ExtUIOp, [v], i128) for v in (x, _constant(b, factor))]
    product = b.pure(arith.MuliOp, wide, i128, _wraps())
    upper = b.pure(arith.ShRUIOp, [product, b.pure(arith.ExtUIOp, [_constant(b, 64)], i128)], i128)
    return b.pure(arith.TruncIOp, [upper], i64), b.pure(arith.TruncIOp, [product], i64)


def _number(b: LoopBuilder, bits: SSAValue, dtype: DType) -> SSAValue:
    """The number in [0, 1) that some bits are: of a word, or of its lower half."""
    if dtype.itemsize == 8:
        float_ = b.pure(arith.UIToFPOp, [_shifted(b, bits, 11)], f64)
        return _scaled(b, float_, 2.0**-53, dtype)
    lower = b.pure(arith.TruncIOp, [bits], i32)
    kept = b.pure(arith.ShRUIOp, [lower, b.constant(IntegerAttr(8, i32), i32)], i32)
    single = _scaled(b, b.pure(arith.SIToFPOp, [kept], f32), 2.0**-24, np.dtype(np.float32))
    return single if dtype.itemsize == 4 else b.pure(arith.TruncFOp, [single], signless(dtype))


def _scaled(b: LoopBuilder, x: SSAValue, factor: float, dtype: DType) -> SSAValue:
    by = b.constant(number_attribute(factor, dtype), x.type)
    return b.pure(arith.MulfOp, [x, by], x.type, {"fastmath": arith.FastMathFlagsAttr("none")})


def _shifted(b: LoopBuilder, x: SSAValue, count: int) -> SSAValue:
    return _two(b, arith.ShRUIOp, x, _constant(b, count)) if count else x


def _same(b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.pure(arith.CmpiOp, [x, y], signless(np.dtype(bool)), {"predicate": IntegerAttr(0, i64)})


def _constant(b: LoopBuilder, value: int) -> SSAValue:
    """A word."""
    return b.constant(IntegerAttr(value - 2**64 if value >= 2**63 else value, i64), i64)


def _two(b: LoopBuilder, cls: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
    return b.pure(cls, [x, y], i64, _wraps() if cls in (arith.AddiOp, arith.MuliOp) else None)


def _wraps() -> dict[str, Any]:
    """Integers here may wrap."""
    return {"overflowFlags": arith.IntegerOverflowAttr("none")}
